#include "lib/config/json.h"
#include "lib/config/parts.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

static dt_status read_entry(const struct dt_table *table, const struct cJSON *entry, const char *where, void *target)
{
    bool *given = calloc((size_t)table->count, sizeof *given);
    if (!given)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory", where);
    dt_status status = dt_config_read(table, entry, where, target, given);
    if (status == DT_OK)
        status = dt_config_check_required(table, given, where);
    free(given);
    return status;
}

dt_status dt_config_read_list(const struct dt_list *list, const struct cJSON *array, const char *where, void *target, int *count)
{
    char label[DT_CONFIG_LABEL_BYTES], quote[64];
    *count = 0;
    if (!array)
        return DT_OK;
    if (!cJSON_IsArray(array)) {
        dt_json_quote(array, quote, sizeof quote);
        return dt_fail(DT_ERR_INVALID, "%s: expected a list of objects, not %s", where, quote);
    }
    for (const struct cJSON *entry = array->child; entry; entry = entry->next) {
        if (*count == list->max)
            return dt_fail(DT_ERR_INVALID, "%s: expected a list of at most %d objects", where, list->max);
        void *at = (char *)target + (size_t)*count * list->stride;
        snprintf(label, sizeof label, "%s[%d]", where, *count);
        DT_TRY(dt_config_defaults(list->table, at));
        DT_TRY(read_entry(list->table, entry, label, at));
        ++*count;
    }
    return DT_OK;
}

dt_status dt_config_write_list(const struct dt_list *list, const void *source, int count, struct cJSON **out)
{
    struct cJSON *array = cJSON_CreateArray();
    dt_status status = array ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "out of memory while writing a list");
    if (status < 0)
        goto fail;
    for (int i = 0; i < count; i++) {
        struct cJSON *entry;
        status = dt_config_write(list->table, (const char *)source + (size_t)i * list->stride, NULL, &entry);
        if (status < 0)
            goto fail;
        cJSON_AddItemToArray(array, entry); /* cannot fail: both exist */
    }
    *out = array;
    return DT_OK;
fail:
    cJSON_Delete(array);
    return status;
}
