/* The order of a data set's samples.
 *
 * Positions count the samples of a run over all ranks, from 0: a step of B samples in all takes the
 * next B of them, so that ranks which take different positions take different samples, however they
 * are divided. In an epoch every sample comes once, in a new order in each epoch. The permutation
 * is computed for one position at a time, and never stored. Epochs begin with a step: if an epoch's
 * last step is not full, its samples are left out of this epoch, or the first ones of the order are
 * repeated.
 *
 * Source  Black, Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, sections 3 and 4: a
 *         Feistel network on a domain of a power of 4, and cycle walking down to the size asked
 *         for. Its round function is Philox (lib/base/random.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum dt_last_step { DT_LAST_DROPPED, DT_LAST_PADDED }; /* what is done with an epoch's last step if it is not full */

struct dt_sampler {
    uint64_t count; /* samples of the data set; 1 to 2^62 */
    uint64_t batch; /* of a step, over all ranks */
    enum dt_last_step last;
    bool shuffled; /* otherwise each epoch has the data set's order */
    uint64_t seed;
};

/* Steps of an epoch; 0 if the data set has less than a step and such a step is dropped. */
uint64_t dt_sampler_steps(const struct dt_sampler *sampler);

/* The sample at a position, in [0, count). An epoch must have at least one step. */
uint64_t dt_sampler_at(const struct dt_sampler *sampler, uint64_t position);
