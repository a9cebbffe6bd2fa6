#include "cli/predict/validate.h"

#include "cli/text/text.h"
#include "lib/base/csv.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "lib/sim/alone.h"
#include "predict/rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

dt_status validate_is_collectives(const char *path, bool *out)
{
    DT_ENDED(dt_csv_finish) struct dt_csv csv = {0};
    struct rates_columns columns;
    *out = false;
    if (strcmp(path, "-") == 0)
        return DT_OK;
    dt_status status = rates_csv_read(path, &csv);
    if (status == DT_OK)
        *out = rates_find_columns(&csv, &columns);
    return status == DT_ERR_INVALID ? DT_OK : status; /* not this kind of table: its reader reports what is wrong */
}

static dt_status read_row(const char *path, const struct dt_csv *csv, const struct rates_columns *c, int i, struct validate_collective *out)
{
    struct rates_collective rate;
    DT_TRY(rates_read_collective(path, csv, c, i, &rate));
    out->kind = rate.kind;
    out->bytes = rate.bytes;
    out->gpus = rate.gpus;
    out->nodes = rate.nodes;
    out->measured = rate.bus_gb_per_s;
    return DT_OK;
}

static dt_status read_rows(const char *path, const struct dt_csv *csv, struct validate_collectives *out)
{
    struct rates_columns columns;
    if (!rates_find_columns(csv, &columns))
        return dt_fail(DT_ERR_INVALID, "%s:1: expected columns collective, size, gpus and busbw_GB_s", path);
    out->rows = calloc((size_t)csv->row_count + 1, sizeof *out->rows);
    DT_TRY(dt_allocated(out->rows, "no host memory for %d rows", csv->row_count));
    for (out->count = 0; out->count < csv->row_count; out->count++) {
        struct validate_collective *row = &out->rows[out->count];
        *row = (struct validate_collective){.line = csv->lines[out->count], .measured = NAN, .predicted = NAN};
        row->skipped = read_row(path, csv, &columns, out->count, row) < 0;
        if (row->skipped)
            validate_reason(path, row->line, row->reason, sizeof row->reason);
    }
    return DT_OK;
}

/* ---- predicting ---- */

static dt_status predict(const struct dt_sim_cluster *cluster, const char *where, struct validate_collective *row)
{
    const struct dt_sim_placement placement = {.world_size = row->gpus, .ranks_per_node = row->gpus / row->nodes};
    double seconds;
    dt_status status = dt_sim_time_alone(cluster, where, &placement, row->kind, row->bytes, &seconds);
    row->skipped = status == DT_ERR_INVALID;
    if (row->skipped) {
        snprintf(row->reason, sizeof row->reason, "%.255s", dt_error_message());
        return DT_OK;
    }
    row->predicted = 1e-9 * row->bytes * rates_bus_factor(row->kind, row->gpus) / seconds;
    return status;
}

static dt_status predict_rows(const char *cluster, struct validate_collectives *out)
{
    char name[256], path[4096];
    int skipped = 0;
    struct dt_sim_cluster *machines = calloc(1, sizeof *machines);
    DT_TRY(dt_allocated(machines, "no host memory for a cluster"));
    dt_data_file_name("clusters", cluster, name, sizeof name);
    dt_status status = dt_find_data_file(name, NULL, path, sizeof path);
    DT_THEN(status, dt_sim_cluster_load(path, machines));
    for (int i = 0; status == DT_OK && i < out->count; i++) {
        if (!out->rows[i].skipped)
            status = predict(machines, cluster, &out->rows[i]);
        skipped += out->rows[i].skipped;
    }
    free(machines);
    if (status == DT_OK && skipped == out->count)
        return dt_fail(DT_ERR_INVALID, "nothing was validated: all %d rows were skipped, the first one because: %s", out->count,
                       out->count ? out->rows[0].reason : "there is none");
    return status;
}

dt_status validate_collectives_predict(const char *path, const char *cluster, const char *const *where, int where_count,
                                       struct validate_collectives *out)
{
    DT_ENDED(dt_csv_finish) struct dt_csv csv = {0};
    *out = (struct validate_collectives){0};
    DT_TRY(rates_csv_read(path, &csv));
    DT_TRY(validate_where(&csv, path, where, where_count));
    DT_TRY(read_rows(path, &csv, out));
    DT_TRY(rates_unread(path, out->unused, sizeof out->unused));
    return predict_rows(cluster, out);
}

void validate_collectives_finish(struct validate_collectives *c)
{
    free(c->rows);
}

/* ---- results ---- */

static dt_status summarize(const struct validate_collectives *c, int kind, struct validate_error *out)
{
    int rows = 0;
    DT_FREED double *ratios = malloc(((size_t)c->count + 1) * sizeof *ratios);
    DT_TRY(dt_allocated(ratios, "no host memory for %d errors", c->count));
    for (int i = 0; i < c->count; i++)
        if (!c->rows[i].skipped && (kind == DT_SIM_COLLECTIVES || (int)c->rows[i].kind == kind))
            ratios[rows++] = c->rows[i].predicted / c->rows[i].measured - 1;
    return validate_error_of(ratios, rows, out);
}

/* "all_reduce", ..., "all" */
/* Errors for one kind, or for all (kind DT_SIM_COLLECTIVES); zero rows if there are none. */
enum { SUMMARIES = DT_SIM_COLLECTIVES + 1 };

static const char *summary_name(int kind)
{
    return kind == DT_SIM_COLLECTIVES ? "all" : dt_sim_collective_name((enum dt_sim_collective)kind);
}

static void print_rows(const struct validate_collectives *c, struct table *t)
{
    for (int i = 0; i < c->count; i++) {
        const struct validate_collective *row = &c->rows[i];
        if (isnan(row->measured)) /* the row could not be read */
            continue;
        table_text(t, dt_sim_collective_name(row->kind));
        table_cell(t, "%.3g", row->bytes / 0x1p20);
        table_cell(t, "%d", row->nodes);
        table_cell(t, "%d", row->gpus);
        table_cell(t, "%.1f", row->measured);
        if (row->skipped) {
            table_cell(t, "-");
            table_cell(t, "-");
            continue;
        }
        table_cell(t, "%.1f", row->predicted);
        table_cell(t, "%+.1f", 100 * (row->predicted / row->measured - 1));
    }
}

static dt_status print_summaries(const struct validate_collectives *c, FILE *to)
{
    fprintf(to, "\n");
    for (int kind = 0; kind < SUMMARIES; kind++) {
        struct validate_error s;
        DT_TRY(summarize(c, kind, &s));
        if (s.rows)
            line_print(to, "%s: %d row%s, off by %.1f %% in the median, p90 %.1f %%, bias %+.1f %%", summary_name(kind), s.rows,
                       s.rows > 1 ? "s" : "", 100 * s.median, 100 * s.p90, 100 * s.bias);
    }
    for (int i = 0; i < c->count; i++)
        if (c->rows[i].skipped)
            line_print(to, "skipped: line %d: %s", c->rows[i].line, c->rows[i].reason);
    if (*c->unused)
        line_print(to, "columns not used: %s", c->unused);
    return DT_OK;
}

dt_status validate_collectives_print(const struct validate_collectives *c, FILE *to)
{
    struct table *t = table_create();
    table_column(t, TABLE_LEFT, "collective");
    table_columns(t, TABLE_RIGHT, "MiB", "nodes", "GPUs");
    table_columns(t, TABLE_RIGHT | TABLE_STAYS, "measured\nGB/s", "predicted\nGB/s", "error\n%");
    print_rows(c, t);
    dt_status status = table_end(t, to);
    return status == DT_OK ? print_summaries(c, to) : status;
}

/* ---- as JSON ---- */

dt_status validate_collectives_print_json(const struct validate_collectives *c, FILE *to)
{
    struct cJSON *bus = dt_json_object(""), *rows = dt_json_array();
    dt_status status = DT_OK;
    for (int kind = 0; kind < SUMMARIES && status == DT_OK; kind++) {
        struct validate_error s;
        status = summarize(c, kind, &s);
        if (status == DT_OK && s.rows)
            dt_json_add(&bus, "%s: {rows: %d, median: %g, p90: %g, bias: %g}", summary_name(kind), s.rows, s.median, s.p90, s.bias);
    }
    for (int i = 0; i < c->count; i++) {
        const struct validate_collective *row = &c->rows[i];
        struct cJSON *object = dt_json_object("line: %d, collective: %s, bytes: %g, nodes: %d, gpus: %d, measured_gb_per_s: %g", row->line,
                                              dt_sim_collective_name(row->kind), row->bytes, row->nodes, row->gpus, row->measured);
        if (row->skipped)
            dt_json_add(&object, "skipped: %s", row->reason);
        else
            dt_json_add(&object, "predicted_gb_per_s: %g", row->predicted);
        dt_json_append(&rows, object);
    }
    struct cJSON *top = dt_json_object("bus_bandwidth: %p, columns_not_used: %s, rows: %p", bus, c->unused, rows);
    if (status == DT_OK)
        return dt_json_write(top, to);
    dt_json_destroy(top);
    return status;
}
