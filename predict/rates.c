#include "predict/rates.h"

#include "lib/base/text.h"
#include "lib/config/json.h"
#include "predict/nccl_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

dt_status rates_csv_read(const char *path, struct dt_csv *out)
{
    DT_FREED char *text = NULL;
    DT_FREED char *table = NULL;
    size_t length;
    *out = (struct dt_csv){0};
    DT_TRY(dt_read_file(path, &text, &length));
    if (!nccl_tests_printed(text))
        return dt_csv_parse(text, length, path, out);
    DT_TRY(nccl_tests_as_table(path, text, &table));
    return dt_csv_parse(table, strlen(table), path, out);
}

/* ---- collectives ---- */

bool rates_find_columns(const struct dt_csv *csv, struct rates_columns *out)
{
    *out = (struct rates_columns){dt_csv_column(csv, "collective"),    dt_csv_column(csv, "size"),
                                  dt_csv_column(csv, "gpus"),          dt_csv_column(csv, "nodes"),
                                  dt_csv_column(csv, "gpus_per_node"), dt_csv_column(csv, "busbw_GB_s_mean")};
    if (out->bus < 0)
        out->bus = dt_csv_column(csv, "busbw_GB_s");
    return out->collective >= 0 && out->size >= 0 && out->gpus >= 0 && out->bus >= 0;
}

static dt_status wrong(const char *path, const struct dt_csv *csv, int row, int column, const char *expected)
{
    return dt_fail(DT_ERR_INVALID, "%s:%d: %s: \"%.64s\" is not %s", path, csv->lines[row], csv->names[column],
                   dt_csv_field(csv, row, column), expected);
}

double rates_bytes_of_text(const char *text)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},        {"B", 1},        {"K", 0x1p10}, {"KB", 0x1p10}, {"KiB", 0x1p10}, {"M", 0x1p20},
                 {"MB", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30}, {"GB", 0x1p30}, {"GiB", 0x1p30}};
    char *end;
    double number = strtod(text, &end);
    const char *unit = end + strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units && end > text; i++)
        if (strcmp(unit, units[i].unit) == 0 && number > 0 && isfinite(number))
            return number * units[i].bytes;
    return 0;
}

static dt_status read_count(const char *path, const struct dt_csv *csv, int row, int column, int missing, int *out)
{
    const char *text = dt_csv_field(csv, row, column);
    char *end;
    *out = missing;
    if (!*text && missing)
        return DT_OK;
    long value = strtol(text, &end, 10);
    if (!*text || *end || value < 1 || value > 1 << 20)
        return wrong(path, csv, row, column, "a whole number from 1");
    *out = (int)value;
    return DT_OK;
}

dt_status rates_read_collective(const char *path, const struct dt_csv *csv, const struct rates_columns *c, int i,
                                struct rates_collective *out)
{
    int kind = 0, per_node, nodes;
    char *end;
    while (kind < DT_SIM_COLLECTIVES && !dt_same_name(dt_csv_field(csv, i, c->collective), dt_sim_collective_name(kind)))
        kind++;
    if (kind == DT_SIM_COLLECTIVES)
        return wrong(path, csv, i, c->collective, "all_reduce, reduce_scatter, all_gather, broadcast or reduce");
    out->kind = (enum dt_sim_collective)kind;
    out->bytes = rates_bytes_of_text(dt_csv_field(csv, i, c->size));
    if (out->bytes < 1)
        return wrong(path, csv, i, c->size, "a size, such as 256MB");
    double measured = strtod(dt_csv_field(csv, i, c->bus), &end);
    if (*end || !(measured > 0) || !isfinite(measured))
        return wrong(path, csv, i, c->bus, "a number above 0");
    DT_TRY(read_count(path, csv, i, c->gpus, 0, &out->gpus));
    DT_TRY(read_count(path, csv, i, c->gpus_per_node, out->gpus, &per_node));
    DT_TRY(read_count(path, csv, i, c->nodes, (out->gpus + per_node - 1) / per_node, &nodes));
    out->nodes = nodes;
    if (out->gpus < 2)
        return wrong(path, csv, i, c->gpus, "2 or more");
    out->bus_gb_per_s = measured;
    return out->gpus % nodes == 0 ? DT_OK : wrong(path, csv, i, c->gpus, "a multiple of the nodes");
}

/* nccl-tests, doc/PERFORMANCE.md. */
double rates_bus_factor(int kind, int ranks)
{
    double others = (ranks - 1.0) / ranks;
    return kind == DT_SIM_ALL_REDUCE ? 2 * others : kind == DT_SIM_ALL_GATHER || kind == DT_SIM_REDUCE_SCATTER ? others : 1;
}

static dt_status add_collectives(const char *path, const struct dt_csv *csv, const struct rates_columns *columns,
                                 struct dt_sim_measured_list *out)
{
    const double load = 1; /* GPUs do not share processors */
    if (csv->row_count > DT_SIM_MEASURED_MAX - out->count)
        return dt_fail(DT_ERR_INVALID, "%s: %d collectives, and there is room for %d: leave out sizes or numbers of GPUs", path,
                       csv->row_count, DT_SIM_MEASURED_MAX - out->count);
    for (int i = 0; i < csv->row_count; i++) {
        struct rates_collective r;
        DT_TRY(rates_read_collective(path, csv, columns, i, &r));
        double seconds = r.bytes * rates_bus_factor(r.kind, r.gpus) / (1e9 * r.bus_gb_per_s);
        out->entries[out->count++] = (struct dt_sim_measured){(int)r.kind, r.gpus, r.bytes, seconds, load, r.nodes};
    }
    return DT_OK;
}

/* ---- products ---- */

/* The columns for a product's time: `scale` times the field, or operations divided by that. */
static const struct {
    const char *column;
    double scale;
    bool rate;
} times[] = {{"seconds", 1, false},       {"time (s)", 1, false},     {"latency_ms", 1e-3, false}, {"time (ms)", 1e-3, false},
             {"latency_us", 1e-6, false}, {"time (us)", 1e-6, false}, {"tflops", 1e12, true},      {"gflops", 1e9, true}};

enum { TIMES = sizeof times / sizeof *times };

/* The column of this name, in any letters and with any marks: "TFLOP/s", "latency(ms)". -1: none */
static int column_like(const struct dt_csv *csv, const char *name)
{
    int i = 0;
    while (i < csv->column_count && !dt_same_name(csv->names[i], name))
        i++;
    return i < csv->column_count ? i : -1;
}

static dt_status read_amount(const char *path, const struct dt_csv *csv, int row, int column, double *out)
{
    char *end;
    *out = strtod(dt_csv_field(csv, row, column), &end);
    return end != dt_csv_field(csv, row, column) && !*end && *out > 0 && isfinite(*out) ? DT_OK
                                                                                        : wrong(path, csv, row, column, "a number above 0");
}

/* bf16 if the table does not say it. */
static dt_status read_dtype(const char *path, const struct dt_csv *csv, int row, enum dt_dtype *out)
{
    static const char *const names[] = {[DT_FP32] = "fp32 float32 float", [DT_FP16] = "fp16 float16 half", [DT_BF16] = "bf16 bfloat16"};
    static const char torch[] = "torch.";
    const int dtype = dt_csv_column(csv, "dtype");
    const char *name = dt_csv_field(csv, row, dtype);
    name += strncmp(name, torch, strlen(torch)) == 0 ? strlen(torch) : 0;
    *out = DT_BF16;
    for (int t = 0; *name && !dt_is_one_of(name, names[*out]); t++) {
        if (t == DT_DTYPE_COUNT)
            return wrong(path, csv, row, dtype, "fp32, fp16 or bf16");
        *out = (enum dt_dtype)t;
    }
    return DT_OK;
}

static dt_status read_product(const char *path, const struct dt_csv *csv, int row, int time, struct dt_product_rate *out)
{
    static const char *const sides[] = {"m", "n", "k"};
    static const char *const batches[] = {"batch", "batch_size", "batch_count"};
    double side[3], told;
    DT_TRY(read_dtype(path, csv, row, &out->dtype));
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int batch = dt_csv_column(csv, batches[i]);
        if (*dt_csv_field(csv, row, batch) && strcmp(dt_csv_field(csv, row, batch), "1") != 0)
            return wrong(path, csv, row, batch, "1: the time is to be of one product");
    }
    for (int i = 0; i < 3; i++)
        DT_TRY(read_amount(path, csv, row, dt_csv_column(csv, sides[i]), &side[i]));
    DT_TRY(read_amount(path, csv, row, column_like(csv, times[time].column), &told));
    out->m = (float)side[0];
    out->n = (float)side[1];
    out->k = (float)side[2];
    out->seconds = (float)(times[time].rate ? 2 * side[0] * side[1] * side[2] / (times[time].scale * told) : times[time].scale * told);
    return DT_OK;
}

/* TIMES: there is none. */
static int find_time(const struct dt_csv *csv)
{
    int time = 0;
    while (time < TIMES && column_like(csv, times[time].column) < 0)
        time++;
    return time;
}

static dt_status add_products(const char *path, const struct dt_csv *csv, struct dt_product_rates *out)
{
    const int time = find_time(csv);
    bool shapes = dt_csv_column(csv, "m") >= 0 && dt_csv_column(csv, "n") >= 0 && dt_csv_column(csv, "k") >= 0;
    if (!shapes || time == TIMES)
        return dt_fail(
            DT_ERR_INVALID,
            "%s:1: expected columns collective, size, gpus and busbw_GB_s, or m, n, k and one of seconds, latency_ms, latency_us, "
            "tflops and gflops, or head_dim, seq, direction and tflops",
            path);
    if (csv->row_count > DT_PRODUCT_RATES_MAX - out->count)
        return dt_fail(DT_ERR_INVALID, "%s: %d products, and there is room for %d: leave out some shapes", path, csv->row_count,
                       DT_PRODUCT_RATES_MAX - out->count);
    for (int i = 0; i < csv->row_count; i++)
        DT_TRY(read_product(path, csv, i, time, &out->entries[out->count++]));
    return DT_OK;
}

/* ---- attention ---- */

static dt_status read_attention(const char *path, const struct dt_csv *csv, int row, struct dt_attention_rate *out)
{
    const int direction = dt_csv_column(csv, "direction");
    const char *name = dt_csv_field(csv, row, direction);
    double tflops;
    DT_TRY(read_dtype(path, csv, row, &out->dtype));
    DT_TRY(read_amount(path, csv, row, dt_csv_column(csv, "seq"), &out->length));
    DT_TRY(read_amount(path, csv, row, dt_csv_column(csv, "head_dim"), &out->width));
    DT_TRY(read_amount(path, csv, row, dt_csv_column(csv, "tflops"), &tflops));
    out->flops_per_s = 1e12 * tflops;
    out->forward = dt_same_name(name, "forward") || dt_same_name(name, "forward+backward");
    out->backward = dt_same_name(name, "backward") || dt_same_name(name, "forward+backward");
    return out->forward || out->backward ? DT_OK : wrong(path, csv, row, direction, "forward, backward or forward+backward");
}

static bool says_no(const char *text)
{
    return dt_same_name(text, "no") || dt_same_name(text, "false") || dt_same_name(text, "0");
}

/* Rows without a causal mask are skipped. */
static dt_status add_attention(const char *path, const struct dt_csv *csv, struct dt_attention_rates *out)
{
    const int causal = dt_csv_column(csv, "causal");
    if (dt_csv_column(csv, "seq") < 0 || dt_csv_column(csv, "direction") < 0 || dt_csv_column(csv, "tflops") < 0)
        return dt_fail(DT_ERR_INVALID, "%s:1: attention has columns head_dim, seq, direction and tflops", path);
    for (int i = 0; i < csv->row_count; i++) {
        if (says_no(dt_csv_field(csv, i, causal)))
            continue;
        if (out->count == DT_ATTENTION_RATES_MAX)
            return dt_fail(DT_ERR_INVALID, "%s: more than %d rates of attention: leave out some lengths", path, DT_ATTENTION_RATES_MAX);
        DT_TRY(read_attention(path, csv, i, &out->entries[out->count++]));
    }
    return DT_OK;
}

/* ---- what is not read ---- */

static bool reads(const struct dt_csv *csv, int i)
{
    static const char *const of_all[] = {"gpu", "source", "notes", ""};
    static const char *const of_products[] = {"m", "n", "k", "dtype"};
    static const char *const of_attention[] = {"head_dim", "seq", "direction", "tflops", "dtype", "causal", "library"};
    struct rates_columns c;
    bool found = false, attention = dt_csv_column(csv, "head_dim") >= 0;
    for (size_t n = 0; n < sizeof of_all / sizeof *of_all; n++)
        found |= dt_same_name(csv->names[i], of_all[n]);
    if (rates_find_columns(csv, &c))
        return found || i == c.collective || i == c.size || i == c.gpus || i == c.bus || i == (c.nodes >= 0 ? c.nodes : c.gpus_per_node);
    for (size_t n = 0; n < sizeof of_products / sizeof *of_products && !attention; n++)
        found |= i == dt_csv_column(csv, of_products[n]);
    for (size_t n = 0; n < sizeof of_attention / sizeof *of_attention && attention; n++)
        found |= i == dt_csv_column(csv, of_attention[n]);
    int time = attention ? TIMES : find_time(csv);
    return found || (time < TIMES && i == column_like(csv, times[time].column));
}

dt_status rates_unread(const char *path, char *out, size_t out_bytes)
{
    DT_ENDED(dt_csv_finish) struct dt_csv csv = {0};
    *out = '\0';
    DT_TRY(rates_csv_read(path, &csv));
    for (int i = 0; i < csv.column_count; i++)
        if (!reads(&csv, i))
            dt_append(out, out_bytes, ", ", "%.64s", csv.names[i]);
    return DT_OK;
}

/* ---- all of it ---- */

/* A table must be from one GPU; for attention also from one library. */
static dt_status check_same(const char *path, const struct dt_csv *csv, const char *name)
{
    int column = dt_csv_column(csv, name);
    for (int i = 1; column >= 0 && i < csv->row_count; i++)
        if (strcmp(dt_csv_field(csv, i, column), dt_csv_field(csv, 0, column)) != 0)
            return dt_fail(DT_ERR_INVALID, "%s:%d: %s: %.64s, and the first row has %.64s: keep the rows of one", path, csv->lines[i], name,
                           dt_csv_field(csv, i, column), dt_csv_field(csv, 0, column));
    return csv->row_count > 0 ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: has no rows", path);
}

static dt_status add_rows(const char *path, const struct dt_csv *csv, struct dt_sim_measured_list *collectives, struct dt_profile *profile)
{
    struct rates_columns columns;
    DT_TRY(check_same(path, csv, "gpu"));
    if (rates_find_columns(csv, &columns))
        return add_collectives(path, csv, &columns, collectives);
    if (dt_csv_column(csv, "head_dim") < 0)
        return add_products(path, csv, &profile->rates);
    DT_TRY(check_same(path, csv, "library"));
    return add_attention(path, csv, &profile->attention_rates);
}

dt_status rates_read(const char *path, struct dt_sim_measured_list *collectives, struct dt_profile *profile)
{
    DT_ENDED(dt_csv_finish) struct dt_csv csv = {0};
    DT_TRY(rates_csv_read(path, &csv));
    return add_rows(path, &csv, collectives, profile);
}
