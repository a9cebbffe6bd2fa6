#include "lib/base/random.h"

float dt_random_uniform(uint64_t seed, uint32_t tensor_id, uint64_t element)
{
    uint64_t block = element / 4;
    struct dt_philox random = dt_philox4x32(seed, (uint32_t)block, (uint32_t)(block >> 32), tensor_id, (uint32_t)DT_RANDOM_WEIGHT << 24);
    return (float)(int32_t)random.word[element & 3] * 0x1p-31f;
}

uint32_t dt_random_token(uint64_t seed, uint32_t sample, uint32_t position, uint32_t vocab)
{
    struct dt_philox random = dt_philox4x32(seed, position / 4, 0, sample, (uint32_t)DT_RANDOM_TOKEN << 24);
    return (uint32_t)((uint64_t)random.word[position & 3] * vocab >> 32);
}
