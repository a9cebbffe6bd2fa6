/* collectives.measured of a cluster file: reading and writing. */
#include "lib/sim/cluster_measured.h"

#include "lib/sim/program.h"

#include <cjson/cJSON.h>
#include <string.h>

const char *dt_sim_measured_kind_name(int kind)
{
    return kind == DT_SIM_MESSAGE                   ? "message"
           : kind >= 0 && kind < DT_SIM_COLLECTIVES ? dt_sim_collective_name((enum dt_sim_collective)kind)
                                                    : NULL;
}

/* A number of an entry within [least, most]. */
static dt_status number(const struct cJSON *entry, int index, const char *key, double least, double most, const char *where, double *out)
{
    const struct cJSON *item = cJSON_GetObjectItemCaseSensitive(entry, key);
    if (!cJSON_IsNumber(item) || item->valuedouble < least || item->valuedouble > most)
        return dt_fail(DT_ERR_INVALID, "%s: collectives.measured[%d].%s: a number from %g to %g is wanted", where, index, key, least, most);
    *out = item->valuedouble;
    return DT_OK;
}

static dt_status read_entry(const struct cJSON *entry, int index, const char *where, struct dt_sim_measured *out)
{
    static const char *const keys[] = {"kind", "ranks", "bytes", "seconds", "load"};
    double ranks = 0;
    if (!cJSON_IsObject(entry))
        return dt_fail(DT_ERR_INVALID, "%s: collectives.measured[%d]: an object is wanted", where, index);
    for (const struct cJSON *item = entry->child; item; item = item->next) {
        bool known = false;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            known |= strcmp(item->string, keys[k]) == 0;
        if (!known)
            return dt_fail(DT_ERR_INVALID, "%s: collectives.measured[%d]: \"%.100s\" is not known; kind, ranks, bytes, seconds, load are",
                           where, index, item->string);
    }
    const struct cJSON *kind = cJSON_GetObjectItemCaseSensitive(entry, "kind");
    for (out->kind = 0; dt_sim_measured_kind_name(out->kind); out->kind++)
        if (cJSON_IsString(kind) && strcmp(kind->valuestring, dt_sim_measured_kind_name(out->kind)) == 0)
            break;
    if (!dt_sim_measured_kind_name(out->kind))
        return dt_fail(DT_ERR_INVALID,
                       "%s: collectives.measured[%d].kind: all_reduce, reduce_scatter, all_gather, broadcast, reduce or message", where,
                       index);
    DT_TRY(number(entry, index, "ranks", 2, 4096, where, &ranks));
    DT_TRY(number(entry, index, "bytes", 1, 0x1p50, where, &out->bytes));
    DT_TRY(number(entry, index, "seconds", 1e-9, 1e6, where, &out->seconds));
    DT_TRY(number(entry, index, "load", 1e-6, DT_SIM_MAX_LOAD, where, &out->load));
    out->ranks = (int)ranks;
    return DT_OK;
}

dt_status dt_sim_measured_read(const struct cJSON *array, const char *where, struct dt_sim_measured_list *out)
{
    out->count = 0;
    if (!array)
        return DT_OK;
    if (!cJSON_IsArray(array))
        return dt_fail(DT_ERR_INVALID, "%s: collectives.measured: a list is wanted", where);
    const struct cJSON *entry;
    cJSON_ArrayForEach(entry, array)
    {
        if (out->count == DT_SIM_MEASURED_MAX)
            return dt_fail(DT_ERR_INVALID, "%s: collectives.measured: at most %d entries", where, DT_SIM_MEASURED_MAX);
        DT_TRY(read_entry(entry, out->count, where, &out->entries[out->count]));
        out->count++;
    }
    return DT_OK;
}

dt_status dt_sim_measured_write(const struct dt_sim_measured_list *list, struct cJSON **out)
{
    struct cJSON *array = *out = cJSON_CreateArray();
    for (int i = 0; array && i < list->count; i++) {
        const struct dt_sim_measured *m = &list->entries[i];
        struct cJSON *entry = cJSON_CreateObject();
        bool complete = entry && cJSON_AddStringToObject(entry, "kind", dt_sim_measured_kind_name(m->kind)) &&
                        cJSON_AddNumberToObject(entry, "ranks", m->ranks) && cJSON_AddNumberToObject(entry, "bytes", m->bytes) &&
                        cJSON_AddNumberToObject(entry, "seconds", m->seconds) && cJSON_AddNumberToObject(entry, "load", m->load);
        if (!complete || !cJSON_AddItemToArray(array, entry)) {
            cJSON_Delete(entry);
            cJSON_Delete(array);
            array = NULL;
        }
    }
    return array ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for measured collectives");
}
