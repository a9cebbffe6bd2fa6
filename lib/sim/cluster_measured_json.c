/* collectives.measured of a cluster file: reading and writing. */
#include "lib/sim/cluster_measured.h"

#include "lib/sim/program.h"

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
