#include "gpt/family_parts.h"

#include <inttypes.h>

void gpt_sample_bytes(const struct dt_model *model, size_t *inputs, size_t *targets)
{
    *inputs = *targets = (size_t)gpt_of(model)->block_size * sizeof(int32_t);
}

size_t gpt_stored_bytes(const struct dt_model *model, int id_bytes)
{
    return (size_t)gpt_of(model)->block_size * (size_t)id_bytes;
}

dt_status gpt_sample_count(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out)
{
    uint64_t length = (uint64_t)gpt_of(model)->block_size, bytes = set->file.size_bytes, ids = bytes / (uint64_t)set->id_bytes;
    if (bytes % (uint64_t)set->id_bytes)
        return dt_fail(DT_ERR_INVALID, "%" PRIu64 " bytes do not divide into ids of %d bytes: see data.ids", bytes, set->id_bytes);
    if (ids <= length)
        return dt_fail(DT_ERR_INVALID, "%" PRIu64 " ids are too few for a sample, which has model.block_size + 1: %" PRIu64, ids,
                       length + 1);
    *out = (ids - 1) / length;
    return DT_OK;
}

/* Ids that are read from a file at a time. */
union ids {
    uint16_t narrow[2048];
    uint32_t wide[1024];
};

/* Unsigned, so that an id above 2^31 is outside every vocabulary. */
static uint32_t id_at(const struct dt_data_set *set, const union ids *ids, uint64_t i)
{
    return set->id_bytes == 2 ? ids->narrow[i] : ids->wide[i];
}

dt_status gpt_read_sample(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                          void *targets)
{
    union ids ids;
    uint64_t length = (uint64_t)gpt_of(model)->block_size, first = sample * length;
    size_t id_bytes = (size_t)set->id_bytes, at_once = sizeof ids / id_bytes;
    for (uint64_t i = 0; i <= length; i++) {
        uint64_t left = length + 1 - i;
        if (i % at_once == 0)
            DT_TRY(dt_mapped_file_read(&set->file, set->path, (first + i) * id_bytes, (left < at_once ? left : at_once) * id_bytes, &ids));
        uint32_t id = id_at(set, &ids, i % at_once);
        if (id >= (uint32_t)gpt_of(model)->vocab_size)
            return dt_fail(DT_ERR_IO, "%s: id %" PRIu64 " is %" PRIu32 ", and model.vocab_size is %d", set->path, first + i, id,
                           gpt_of(model)->vocab_size);
        if (i < length)
            ((int32_t *)inputs)[i] = (int32_t)id;
        if (i > 0)
            ((int32_t *)targets)[i - 1] = (int32_t)id;
    }
    return DT_OK;
}
