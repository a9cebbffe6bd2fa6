#include "lib/sim/cluster_measured.h"

#include "lib/sim/program.h"

#include <math.h>
#include <stddef.h>

const char *dt_sim_measured_kind_name(int kind)
{
    return kind == DT_SIM_MESSAGE                   ? "message"
           : kind >= 0 && kind < DT_SIM_COLLECTIVES ? dt_sim_collective_name((enum dt_sim_collective)kind)
                                                    : NULL;
}

#define AT(member) .offset = offsetof(struct dt_sim_measured, member)

static const struct dt_field fields[] = {
    {"kind", DT_FIELD_ENUM, AT(kind), .choice = dt_sim_measured_kind_name, .description = "what was measured"},
    {"ranks", DT_FIELD_INT, AT(ranks), .min = 2, .max = 4096,
     .description = "of the communicator; of a message: of all nodes that were measured"},
    {"bytes", DT_FIELD_NUMBER, AT(bytes), .min = 1, .max = 0x1p50, .description = "a rank's whole buffer"},
    {"seconds", DT_FIELD_NUMBER, AT(seconds), .min = 1e-9, .max = 1e6, .description = "with nothing else going on"},
    {"load", DT_FIELD_NUMBER, AT(load), .min = 1e-6, .max = DT_SIM_MAX_LOAD,
     .description = "part of these nodes' processor time that it took meanwhile"},
    {"nodes", DT_FIELD_INT, AT(nodes), .min = 1, .max = 65536, .initial = "1", .description = "that it spans"},
};

const struct dt_list *dt_sim_measured_table(void)
{
    static const struct dt_table table = {.fields = fields, .count = sizeof fields / sizeof *fields, .complete = true};
    static const struct dt_list list = {&table, sizeof(struct dt_sim_measured), DT_SIM_MEASURED_MAX};
    return &list;
}

dt_status dt_sim_measured_read(const struct cJSON *array, const char *where, struct dt_sim_measured_list *out)
{
    return dt_config_read_list(dt_sim_measured_table(), array, where, out->entries, &out->count);
}

dt_status dt_sim_measured_write(const struct dt_sim_measured_list *list, struct cJSON **out)
{
    return dt_config_write_list(dt_sim_measured_table(), list->entries, list->count, out);
}

/* An entry whose ranks and nodes are nearest by ratio to the wanted ones; NULL: the kind was not
 * measured. */
static const struct dt_sim_measured *nearest(const struct dt_sim_measured_list *list, int kind, int ranks, int nodes)
{
    double least = INFINITY;
    const struct dt_sim_measured *found = NULL;
    for (int i = 0; i < list->count; i++) {
        const struct dt_sim_measured *m = &list->entries[i];
        double distance = fabs(log((double)m->ranks / ranks)) + fabs(log((double)m->nodes / nodes));
        if (m->kind == kind && (m->nodes > 1) == (nodes > 1) && distance < least) {
            least = distance;
            found = m;
        }
    }
    return found;
}

bool dt_sim_measured_find(const struct dt_sim_measured_list *list, int kind, int ranks, int nodes, double bytes, double *out_seconds,
                          double *out_load)
{
    const struct dt_sim_measured *below = NULL, *above = NULL;
    const struct dt_sim_measured *like = nearest(list, kind, ranks, nodes);
    for (int i = 0; like && i < list->count; i++) {
        const struct dt_sim_measured *m = &list->entries[i];
        if (m->kind != kind || m->ranks != like->ranks || m->nodes != like->nodes)
            continue;
        if (m->bytes <= bytes && (!below || m->bytes > below->bytes))
            below = m;
        if (m->bytes >= bytes && (!above || m->bytes < above->bytes))
            above = m;
    }
    if (!below && !above)
        return false;
    const struct dt_sim_measured *low = below ? below : above, *high = above ? above : below;
    double part = high->bytes > low->bytes ? log(bytes / low->bytes) / log(high->bytes / low->bytes) : 0;
    double scale = above ? 1 : bytes / low->bytes; /* more bytes than were measured: at the rate of the largest size */
    *out_seconds = exp((1 - part) * log(low->seconds) + part * log(high->seconds)) * scale;
    *out_load = (1 - part) * low->load + part * high->load;
    return true;
}
