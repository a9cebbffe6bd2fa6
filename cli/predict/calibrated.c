/* Prints a calibration: rates of products and copies, and collectives by size. */
#include "cli/predict/predict.h"

#include "cli/text/text.h"
#include "lib/base/statistics.h"
#include "lib/config/data_file.h"
#include "lib/sim/alone.h"
#include "lib/sim/cluster_measured.h"
#include "predict/calibration.h"
#include "predict/profile.h"
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

/* Operations of a product; bytes that a copy reads and writes; 0 of other kernels, which have no
 * rate. */
static double amount_of(const struct dt_measured *m)
{
    const struct dt_priced *kernel = profile_kernels()->kernels[m->kernel];
    if (m->kernel == DT_PRICED_COPY)
        return 2 * m->shape[0];
    return kernel->shape == DT_SHAPE_PRODUCT ? dt_measured_work(kernel->shape, m->shape) : 0;
}

/* Find the fastest shape of each product, and of copies, for each dtype and number of ranks. best
 * [RATES]; returns their number. */
static int find_best(const struct calibration *c, const struct dt_measured **best)
{
    int count = 0;
    for (int i = 0; i < c->kernels.count; i++) {
        const struct dt_measured *m = &c->kernels.entries[i];
        int at = 0;
        while (at < count && (best[at]->kernel != m->kernel || best[at]->dtype != m->dtype || best[at]->ranks != m->ranks))
            at++;
        if (amount_of(m) == 0 || at == RATES)
            continue;
        if (at == count || amount_of(m) / m->alone_s > amount_of(best[at]) / best[at]->alone_s)
            best[at] = m;
        count += at == count;
    }
    return count;
}

/* Print the best rate of each product, and of copies. The "together" columns are one rank's rate
 * while all ranks do the same. */
static dt_status print_rates(const struct calibration *c, FILE *to)
{
    const struct dt_measured *best[RATES];
    struct table *table = table_create();
    int count = find_best(c, best);
    table_column(table, TABLE_LEFT | TABLE_STAYS, "best of each kernel");
    table_column(table, TABLE_LEFT, "dtype");
    table_columns(table, TABLE_RIGHT, "ranks", "threads");
    table_columns(table, TABLE_RIGHT | TABLE_STAYS, "alone\n", "together\n");
    table_column(table, TABLE_LEFT | TABLE_STAYS, "\n");
    table_column(table, TABLE_RIGHT, "of the ceiling\n%%");
    for (int i = 0; i < count; i++) {
        const struct dt_measured *m = best[i];
        bool copy = m->kernel == DT_PRICED_COPY;
        double amount = amount_of(m), size = copy ? 1e9 : 1e12, ceiling = copy ? 0 : c->gpu.peak_flops[m->dtype];
        table_text(table, profile_kernels()->kernels[m->kernel]->name);
        table_text(table, copy ? "-" : dt_dtype_name(m->dtype));
        table_cell(table, "%d", m->ranks);
        table_cell(table, "%d", m->threads);
        table_number(table, amount / m->alone_s / size);
        table_number(table, amount / m->together_s / size);
        table_text(table, copy ? "GB/s" : "TFLOP/s");
        table_number(table, ceiling > 0 ? 100 * amount / m->alone_s / ceiling : NAN);
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
    table_columns(table, TABLE_RIGHT | TABLE_STAYS | TABLE_UNIT, "time\nus", "algorithm\nGB/s", "bus\nGB/s");
    table_columns(table, TABLE_RIGHT | TABLE_UNIT, "product\nus", "both\nus", "overlap\n%");
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
