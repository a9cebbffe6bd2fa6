/* The norm of all gradients of a step, computed between the last gradient and the first update. The
 * host's processor and a GPU use the same arithmetic.
 *
 * Clipping  a gradient whose norm over all parameters is longer than a limit is shortened to it.
 *           Source  Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural
 *                   networks", ICML 2013, algorithm 1.
 * Scaling   the loss of 16-bit gradients is multiplied by a scale, by which updates divide. It
 *           grows while all gradients are finite, and shrinks if some are not.
 *           Source  Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2.
 * Skipping  if the norm is not finite, some gradient is not: no rank updates any parameter in this
 *           step. */
#pragma once

#include "lib/kernels/kernels.h"

#include <float.h>
#include <math.h>

#ifndef DT_HOST_DEVICE
#define DT_HOST_DEVICE /* CUDA files define it: marked functions also run on the device */
#endif

/* squares: the sum of the squares of all gradients. It is the same number on every rank, so the
 * result is too. */
DT_HOST_DEVICE static inline void dt_norm_settle(struct dt_norm_state *s, const struct dt_norm_rule *rule, float squares)
{
    float scale = s->loss_scale;
    s->used_scale = scale;
    s->norm = (float)(sqrt((double)squares) * (double)rule->gradient_scale / (double)scale);
    s->skips = !(s->norm <= FLT_MAX);
    s->skipped += s->skips;
    s->factor = (rule->clip > 0 && s->norm > rule->clip ? rule->clip / s->norm : 1) / scale;
    if (rule->window == 0)
        return;
    s->good = s->skips ? 0 : s->good + 1;
    if (s->skips)
        s->loss_scale = scale * rule->backoff;
    if (s->good == rule->window) {
        s->loss_scale = scale * rule->growth;
        s->good = 0;
    }
}
