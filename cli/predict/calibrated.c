/* Prints a calibration: rates of products and copies, and collectives by size. */
#include "cli/predict/predict.h"

#include "cli/text/text.h"
#include "lib/base/statistics.h"
#include "lib/config/data_file.h"
#include "lib/sim/alone.h"
#include "lib/sim/cluster_measured.h"
#include "predict/calibration.h"
#include "predict/rates.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RATES = 256, NAME_BYTES = 256, PATH_BYTES = 4096 };

dt_status calibration_predict(const struct calibration_request *request, const char *cluster, int ranks, struct calibration *out)
{
    char name[NAME_BYTES], path[PATH_BYTES];
    DT_FREED struct dt_sim_cluster *machines = malloc(sizeof *machines);
    struct dt_sim_measured m;
    DT_TRY(dt_allocated(machines, "no host memory for a cluster"));
    dt_data_file_name("clusters", cluster, name, sizeof name);
    DT_TRY(dt_find_data_file(name, NULL, path, sizeof path));
    DT_TRY(dt_sim_cluster_load(path, machines));
    for (int i = 0; calibration_collective(request, i, &m); i++) {
        const struct dt_sim_placement place = {.world_size = ranks,
                                               .ranks_per_node = ranks < machines->gpus_per_node ? ranks : machines->gpus_per_node};
        m.ranks = ranks;
        m.nodes = (ranks + place.ranks_per_node - 1) / place.ranks_per_node;
        if (m.kind == DT_SIM_MESSAGE)
            return dt_fail(DT_ERR_INVALID, "--collective message: only with --device cpu or cuda");
        DT_TRY(dt_sim_time_alone(machines, path, &place, (enum dt_sim_collective)m.kind, m.bytes, &m.seconds));
        out->times[out->collectives.count] = (struct calibration_times){.count = 1, .alone_s = {m.seconds}};
        out->collectives.entries[out->collectives.count++] = m;
    }
    return DT_OK;
}

/* Print the best rate of each product, and of copies. The "together" columns are one rank's rate
 * while all ranks do the same. */
static dt_status print_rates(const struct calibration *c, FILE *to)
{
    struct calibration_rate rates[RATES];
    struct table *table = table_create();
    int count = calibration_rates(c, rates, RATES);
    table_column(table, TABLE_LEFT | TABLE_STAYS, "best of each kernel");
    table_column(table, TABLE_LEFT, "dtype");
    table_column(table, TABLE_RIGHT, "ranks");
    table_column(table, TABLE_RIGHT, "threads");
    table_column(table, TABLE_RIGHT | TABLE_STAYS, "alone\n");
    table_column(table, TABLE_RIGHT | TABLE_STAYS, "together\n");
    table_column(table, TABLE_LEFT | TABLE_STAYS, "\n");
    table_column(table, TABLE_RIGHT, "of the ceiling\n%%");
    for (int i = 0; i < count; i++) {
        const struct calibration_rate *rate = &rates[i];
        double size = rate->in_bytes ? 1e9 : 1e12;
        table_text(table, rate->what);
        table_text(table, rate->in_bytes ? "-" : dt_dtype_name(rate->dtype));
        table_cell(table, "%d", rate->ranks);
        table_cell(table, "%d", rate->threads);
        table_number(table, rate->per_s / size);
        table_number(table, rate->together_per_s / size);
        table_text(table, rate->in_bytes ? "GB/s" : "TFLOP/s");
        table_number(table, rate->ceiling_per_s > 0 ? 100 * rate->per_s / rate->ceiling_per_s : NAN);
    }
    return table_end(table, to);
}

dt_status calibration_print_collectives(const struct calibration *c, FILE *to)
{
    struct table *table = table_create();
    table_column(table, TABLE_LEFT | TABLE_STAYS, "collective");
    table_column(table, TABLE_RIGHT | TABLE_STAYS, "ranks");
    table_column(table, TABLE_RIGHT, "nodes");
    table_column(table, TABLE_RIGHT | TABLE_STAYS, "bytes");
    table_column(table, TABLE_RIGHT | TABLE_STAYS | TABLE_UNIT, "time\nus");
    table_column(table, TABLE_RIGHT | TABLE_STAYS | TABLE_UNIT, "algorithm\nGB/s");
    table_column(table, TABLE_RIGHT | TABLE_STAYS | TABLE_UNIT, "bus\nGB/s");
    table_column(table, TABLE_RIGHT | TABLE_UNIT, "product\nus");
    table_column(table, TABLE_RIGHT | TABLE_UNIT, "both\nus");
    table_column(table, TABLE_RIGHT | TABLE_UNIT, "overlap\n%%");
    for (int i = 0; i < c->collectives.count; i++) {
        const struct dt_sim_measured *m = &c->collectives.entries[i];
        const struct calibration_times *t = &c->times[i];
        char bytes[FORMAT_BYTES];
        struct dt_statistics both = {.median = NAN};
        bool beside = t->product_s > 0 && dt_statistics_compute(t->beside_s, t->count, &both) == DT_OK;
        table_text(table, dt_sim_measured_kind_name(m->kind));
        table_cell(table, "%d", m->ranks);
        table_cell(table, "%d", m->nodes);
        table_text(table, format_count((uint64_t)m->bytes, bytes));
        table_number(table, m->seconds * 1e6);
        table_number(table, m->bytes / m->seconds / 1e9);
        table_number(table, m->bytes / m->seconds / 1e9 * rates_bus_factor(m->kind, m->ranks));
        table_number(table, beside ? t->product_s * 1e6 : NAN);
        table_number(table, both.median * 1e6);
        table_number(table, beside ? 100 * calibration_overlap(m->seconds, t->product_s, both.median) : NAN);
    }
    DT_TRY(table_end(table, to));
    line_print(to, "algorithm: the whole buffer over the time; bus: what crosses a link, as nccl-tests count it");
    return DT_OK;
}

dt_status calibration_print(const struct calibration *calibration, FILE *to)
{
    if (calibration->kernels.count > 0)
        DT_TRY(print_rates(calibration, to));
    if (*calibration->gpu.name)
        line_print(to, "copies from and to the host: %.1f GB/s, and %.1f us for the shortest", calibration->gpu.copy_bytes_per_s / 1e9,
                   calibration->gpu.copy_s * 1e6);
    if (calibration->collectives.count == 0)
        return DT_OK;
    fputs("\n", to);
    return calibration_print_collectives(calibration, to);
}

/* ---- tables of measured rates ---- */

void rates_note(const char *rates, const char *directory)
{
    char files[512], unread[512], path[PATH_MAX], *rest = files;
    snprintf(files, sizeof files, "%s", rates ? rates : "");
    for (char *name = strsep(&rest, ":"); name; name = strsep(&rest, ":"))
        if (*name && dt_find_data_file(name, directory, path, sizeof path) == DT_OK && rates_unread(path, unread, sizeof unread) == DT_OK &&
            *unread)
            line_print(stderr, "dtbench: note: rates %s: columns not used: %s", name, unread);
}
