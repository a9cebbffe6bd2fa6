/* Which sample of a data set comes next.
 *
 * Positions count the samples of a run over all ranks, from 0: a step of B samples in all takes the next B of them, so that ranks which
 * take different positions take different samples, however they are divided. An epoch is a run of positions in which every sample comes
 * once: in a new order each time, by a permutation that is computed for one position at a time and held by nobody. Epochs begin with a
 * step: where the last step of one is not full, its samples are left out of this epoch, or the first ones of the order come again.
 *
 * Source  Black, Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, sections 3 and 4: a Feistel network on a domain of a power
 *         of 4, and cycle walking down to the size asked for. Its round function is Philox (lib/base/random.h). */
#ifndef LIB_DATA_SAMPLER_H
#define LIB_DATA_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

enum dt_last_step { DT_LAST_DROPPED, DT_LAST_PADDED }; /* what becomes of an epoch's last step where it is not full */

struct dt_sampler {
    uint64_t count; /* samples of the data set; 1 to 2^62 */
    uint64_t batch; /* of a step, over all ranks */
    enum dt_last_step last;
    bool shuffled; /* otherwise each epoch has the samples as they are in the data set */
    uint64_t seed;
};

/* Steps of an epoch; 0 where the data set has less than a step and such a step is dropped. */
uint64_t dt_sampler_steps(const struct dt_sampler *sampler);

/* The sample at a position, in [0, count). The epoch has a step or more. */
uint64_t dt_sampler_at(const struct dt_sampler *sampler, uint64_t position);

#endif
