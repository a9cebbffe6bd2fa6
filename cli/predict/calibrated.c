/* What a calibration has measured, for people: rates of products and copies, and collectives by size. */
#include "cli/predict/predict.h"

#include "cli/text/text.h"
#include "lib/sim/cluster_measured.h"
#include "schedules/predict/calibration.h"

#include <math.h>

enum { RATES = 256 };

static void number_cell(struct table *table, double value)
{
    char text[FORMAT_BYTES];
    table_text(table, format_number(value, text));
}

/* The best of each product, and of copies. What is together is of one rank while all do the same. */
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
        number_cell(table, rate->per_s / size);
        number_cell(table, rate->together_per_s / size);
        table_text(table, rate->in_bytes ? "GB/s" : "TFLOP/s");
        number_cell(table, rate->ceiling_per_s > 0 ? 100 * rate->per_s / rate->ceiling_per_s : NAN);
    }
    return table_end(table, to);
}

static dt_status print_collectives(const struct calibration *c, FILE *to)
{
    struct table *table = table_create();
    table_column(table, TABLE_LEFT | TABLE_STAYS, "collective");
    table_column(table, TABLE_RIGHT | TABLE_STAYS, "ranks");
    table_column(table, TABLE_RIGHT, "nodes");
    table_column(table, TABLE_RIGHT | TABLE_STAYS, "bytes");
    table_column(table, TABLE_RIGHT | TABLE_STAYS | TABLE_UNIT, "time\nus");
    table_column(table, TABLE_RIGHT | TABLE_STAYS | TABLE_UNIT, "algorithm\nGB/s");
    table_column(table, TABLE_RIGHT | TABLE_STAYS | TABLE_UNIT, "bus\nGB/s");
    for (int i = 0; i < c->collectives.count; i++) {
        const struct dt_sim_measured *m = &c->collectives.entries[i];
        char bytes[FORMAT_BYTES];
        table_text(table, dt_sim_measured_kind_name(m->kind));
        table_cell(table, "%d", m->ranks);
        table_cell(table, "%d", m->nodes);
        table_text(table, format_count((uint64_t)m->bytes, bytes));
        number_cell(table, m->seconds * 1e6);
        number_cell(table, m->bytes / m->seconds / 1e9);
        number_cell(table, m->bytes / m->seconds / 1e9 * calibration_bus_factor(m->kind, m->ranks));
    }
    return table_end(table, to);
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
    DT_TRY(print_collectives(calibration, to));
    line_print(to, "algorithm: the whole buffer over the time; bus: what crosses a link, as nccl-tests count it");
    return DT_OK;
}
