/* Counter-based random numbers: Philox4x32-10.
 *
 * Source  Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
 *
 * A number depends only on its purpose and position, not on the rank that draws it, so weights,
 * tokens and dropout masks are the same for every division of the work. The key is the experiment's
 * seed (low word, high word). Words 0 to 2 of the counter are below. Word 3 is purpose << 24; with
 * DROPOUT and ATTENTION | layer; with SAMPLE | epoch >> 32.
 *
 *   purpose               word 0                         word 1           word 2
 *   DT_RANDOM_WEIGHT      element / 4, low 32 bits       element/4 >> 32  tensor id
 *   DT_RANDOM_TOKEN       position / 4                   0                global sample
 *   DT_RANDOM_DROPOUT     column / 8                     position t       global sample
 *   DT_RANDOM_PIXEL       byte / 16                      0                global sample
 *   DT_RANDOM_ATTENTION   head << 20 | key position / 8  query position   global sample
 *   DT_RANDOM_SAMPLE      half of a sample's number      round            epoch
 *   DT_RANDOM_AUGMENT     0                              0                position
 *
 * SAMPLE is for lib/data/sampler.h, AUGMENT for vision/data.c. Tensor ids and layers are a model's
 * (docs/models.md, "What is computed"). WEIGHT and TOKEN use the four 32-bit words for four
 * consecutive elements, PIXEL their bytes, the low ones first, for sixteen. A dropout block serves
 * eight consecutive columns with 16 bits each: column 2i takes the low half of word i, column
 * 2i + 1 the high half; a column is kept if these 16 bits are >= the threshold. */
#pragma once

#include <stdint.h>

#ifndef DT_HOST_DEVICE
#define DT_HOST_DEVICE /* a CUDA file defines it: functions marked with it run on the device too */
#endif

enum dt_random_purpose {
    DT_RANDOM_WEIGHT = 1,
    DT_RANDOM_TOKEN = 2,
    DT_RANDOM_DROPOUT = 3,
    DT_RANDOM_ATTENTION = 4,
    DT_RANDOM_SAMPLE = 5,
    DT_RANDOM_PIXEL = 6,
    DT_RANDOM_AUGMENT = 7
};

struct dt_philox {
    uint32_t word[4];
};

DT_HOST_DEVICE static inline struct dt_philox dt_philox4x32(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct dt_philox out = {{c0, c1, c2, c3}};
    return out;
}

/* Dropout's integer threshold: 16 random bits below it drop the element. p in [0, 1). */
DT_HOST_DEVICE static inline uint32_t dt_dropout_threshold(float p)
{
    return (uint32_t)(p * 65536.0f + 0.5f);
}

/* The factor of kept elements: the inverse of the probability that the threshold gives exactly. */
DT_HOST_DEVICE static inline float dt_dropout_scale(float p)
{
    return 65536.0f / (65536.0f - (float)dt_dropout_threshold(p));
}

/* Weight `element` of tensor `tensor_id` is a normal deviate of mean 0 and standard deviation 1
 * (Box-Muller on words 0, 1 and on 2, 3: radius from the first of a pair, u = (word + 1) / 2^32;
 * elements 4k and 4k + 2 take the cosine, 4k + 1 and 4k + 3 the sine). Each backend computes them
 * itself; test/normal.h has them in double precision. */

/* Uniform weights: in [-1, 1], from the element's word as a signed number. */
static inline float dt_random_uniform(uint64_t seed, uint32_t tensor_id, uint64_t element)
{
    uint64_t block = element / 4;
    struct dt_philox random = dt_philox4x32(seed, (uint32_t)block, (uint32_t)(block >> 32), tensor_id, (uint32_t)DT_RANDOM_WEIGHT << 24);
    return (float)(int32_t)random.word[element & 3] * 0x1p-31f;
}

/* Token `position` of `sample`, uniform in [0, vocab): (word * vocab) >> 32. */
static inline uint32_t dt_random_token(uint64_t seed, uint32_t sample, uint32_t position, uint32_t vocab)
{
    struct dt_philox random = dt_philox4x32(seed, position / 4, 0, sample, (uint32_t)DT_RANDOM_TOKEN << 24);
    return (uint32_t)((uint64_t)random.word[position & 3] * vocab >> 32);
}
