/* "measured" of a profile: reading and writing. */
#include "gpt/cost/measured.h"

#include <cjson/cJSON.h>
#include <string.h>

static const char *const variant_names[GPT_VARIANTS] = {"plain", "dropout", "unfused", "accumulate"};
static const char *const shape_keys[3] = {"rows", "columns", "inner"};

static dt_status refuse(const char *where, int index, const char *key, const char *expected)
{
    return dt_fail(DT_ERR_INVALID, "%s: measured[%d].%s: %s", where, index, key, expected);
}

static dt_status read_number(const struct cJSON *entry, int index, const char *key, double least, double most, const char *where,
                             double *out)
{
    const struct cJSON *item = cJSON_GetObjectItemCaseSensitive(entry, key);
    if (cJSON_IsNumber(item) && item->valuedouble >= least && item->valuedouble <= most) {
        *out = item->valuedouble;
        return DT_OK;
    }
    return dt_fail(DT_ERR_INVALID, "%s: measured[%d].%s: expected a number from %g to %g", where, index, key, least, most);
}

static bool is_text(const struct cJSON *entry, const char *key, const char *text)
{
    const struct cJSON *item = cJSON_GetObjectItemCaseSensitive(entry, key);
    return cJSON_IsString(item) && strcmp(item->valuestring, text) == 0;
}

static dt_status read_kinds(const struct cJSON *entry, int index, const char *where, struct gpt_measured *out)
{
    int kernel = 0, variant = 0, dtype = 0;
    while (kernel <= GPT_KERNEL_COUNT && !is_text(entry, "kernel", gpt_kernel_info((enum gpt_kernel_kind)kernel)->name))
        kernel++;
    while (variant < GPT_VARIANTS && !is_text(entry, "variant", variant_names[variant]))
        variant++;
    while (dtype < DT_DTYPE_COUNT && !is_text(entry, "dtype", dt_dtype_name((enum dt_dtype)dtype)))
        dtype++;
    if (kernel > GPT_KERNEL_COUNT)
        return refuse(where, index, "kernel", "expected one of those under \"kernels\", or \"copy\"");
    if (variant == GPT_VARIANTS)
        return refuse(where, index, "variant", "expected \"plain\", \"dropout\", \"unfused\" or \"accumulate\"");
    if (dtype == DT_DTYPE_COUNT)
        return refuse(where, index, "dtype", "expected \"fp32\", \"fp16\" or \"bf16\"");
    out->kernel = (enum gpt_kernel_kind)kernel;
    out->variant = (enum gpt_kernel_variant)variant;
    out->dtype = (enum dt_dtype)dtype;
    return DT_OK;
}

static dt_status read_entry(const struct cJSON *entry, int index, const char *where, struct gpt_measured *out)
{
    enum { KEYS = 10 };
    static const char *const keys[KEYS] = {"kernel", "variant", "dtype", "ranks",   "threads",
                                           "rows",   "columns", "inner", "alone_s", "together_s"};
    double ranks = 0, threads = 0;
    if (!cJSON_IsObject(entry))
        return dt_fail(DT_ERR_INVALID, "%s: measured[%d]: expected an object", where, index);
    for (const struct cJSON *item = entry->child; item; item = item->next) {
        int k = 0;
        while (k < KEYS && strcmp(item->string, keys[k]) != 0)
            k++;
        if (k == KEYS)
            return dt_fail(DT_ERR_INVALID, "%s: measured[%d]: \"%.100s\" is not known", where, index, item->string);
    }
    DT_TRY(read_kinds(entry, index, where, out));
    DT_TRY(read_number(entry, index, "ranks", 1, 4096, where, &ranks));
    DT_TRY(read_number(entry, index, "threads", 1, 65536, where, &threads));
    for (int i = 0; i < 3; i++)
        DT_TRY(read_number(entry, index, shape_keys[i], 1, 1e12, where, &out->shape[i]));
    DT_TRY(read_number(entry, index, "alone_s", 1e-9, 1e6, where, &out->alone_s));
    DT_TRY(read_number(entry, index, "together_s", 1e-9, 1e6, where, &out->together_s));
    out->ranks = (int)ranks;
    out->threads = (int)threads;
    return DT_OK;
}

dt_status gpt_measured_read(const struct cJSON *array, const char *where, struct gpt_measured_list *out)
{
    const struct cJSON *entry;
    out->count = 0;
    if (!array)
        return DT_OK;
    if (!cJSON_IsArray(array))
        return dt_fail(DT_ERR_INVALID, "%s: measured: expected a list", where);
    cJSON_ArrayForEach(entry, array)
    {
        if (out->count == GPT_MEASURED_MAX)
            return dt_fail(DT_ERR_INVALID, "%s: measured: at most %d entries", where, GPT_MEASURED_MAX);
        DT_TRY(read_entry(entry, out->count, where, &out->entries[out->count]));
        out->count++;
    }
    return DT_OK;
}

static bool add_entry(struct cJSON *array, const struct gpt_measured *m)
{
    struct cJSON *entry = cJSON_CreateObject();
    bool complete = entry && cJSON_AddStringToObject(entry, "kernel", gpt_kernel_info(m->kernel)->name) &&
                    cJSON_AddStringToObject(entry, "variant", variant_names[m->variant]) &&
                    cJSON_AddStringToObject(entry, "dtype", dt_dtype_name(m->dtype)) && cJSON_AddNumberToObject(entry, "ranks", m->ranks) &&
                    cJSON_AddNumberToObject(entry, "threads", m->threads);
    for (int i = 0; i < 3 && complete; i++)
        complete = cJSON_AddNumberToObject(entry, shape_keys[i], m->shape[i]);
    complete = complete && cJSON_AddNumberToObject(entry, "alone_s", m->alone_s) &&
               cJSON_AddNumberToObject(entry, "together_s", m->together_s) && cJSON_AddItemToArray(array, entry);
    if (!complete)
        cJSON_Delete(entry);
    return complete;
}

dt_status gpt_measured_write(const struct gpt_measured_list *list, struct cJSON **out)
{
    struct cJSON *array = *out = cJSON_CreateArray();
    for (int i = 0; array && i < list->count; i++)
        if (!add_entry(array, &list->entries[i])) {
            cJSON_Delete(array);
            array = *out = NULL;
        }
    return array ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for measured kernels");
}
