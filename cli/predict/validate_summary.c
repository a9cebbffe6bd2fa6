#include "cli/predict/validate.h"

#include "lib/base/machine.h"
#include "lib/base/statistics.h"
#include "lib/base/text.h"
#include "predict/profile.h"
#include "predict/simulation.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- predicting measured runs ---- */

/* Whether both are equal except for keys on which no prediction depends. */
static bool same_experiment(const struct validate_row *a, const struct validate_row *b)
{
    return a->sequence_parallel_open == b->sequence_parallel_open && a->kernels == b->kernels && a->attention_rate == b->attention_rate &&
           a->whole_gpu == b->whole_gpu && strcmp(a->experiment.hash, b->experiment.hash) == 0;
}

/* The first row that equals row i, possibly i itself. */
static int find_first(const struct validate_rows *rows, int i)
{
    for (int j = 0; j < i; j++)
        if (rows->rows[j].outcome != VALIDATE_SKIPPED && same_experiment(&rows->rows[j], &rows->rows[i]))
            return j;
    return i;
}

static void take_over(struct validate_row *row, const struct validate_row *first)
{
    row->outcome = first->outcome;
    row->predicted_s = first->predicted_s;
    row->predicted_bytes = first->predicted_bytes;
    row->step_error = first->step_error;
    row->gpus_per_node = first->gpus_per_node;
    row->fit_undecided = first->fit_undecided;
    row->peak_tflops = first->peak_tflops;
    memcpy(row->reason, first->reason, sizeof first->reason);
}

/* Rows that several threads predict. */
struct predicting {
    struct validate_rows *rows;
    const int *first; /* [rows->count] the row whose prediction each row uses */
    bool (*stop)(void *context);
    pthread_mutex_t lock;              /* guards the following members */
    struct simulated_machine *machine; /* kept for the next row, if it uses the same files */
    int next;
    dt_status failure;
    char error[DT_ERROR_BYTES];
};

static dt_status create_system(struct predicting *p, const struct validate_row *row, const struct experiment *e,
                               struct simulated_system **out)
{
    pthread_mutex_lock(&p->lock);
    dt_status status = simulated_system_create_next(p->machine, e, out);
    pthread_mutex_unlock(&p->lock);
    DT_TRY(status);
    if (p->rows->steps == VALIDATE_COARSE)
        (*out)->memory_bytes = UINT64_MAX; /* the run fitted, whatever memory is predicted */
    struct dt_costs *costs = &(*out)->costs;
    if (row->kernels & NORM_IN_KERNEL)
        costs->profile.memory.rms_norm_elems = 0;
    if (row->kernels & NORM_IN_OPERATIONS)
        profile_norm_in_operations(&costs->profile);
    if (row->kernels & SOFTMAX_IN_OPERATIONS)
        profile_softmax_in_operations(&costs->profile);
    if (row->kernels & GATE_AND_ROPE_IN_OPERATIONS)
        profile_gate_and_rope_in_operations(&costs->profile, e->strategy.again & DT_AGAIN_PRODUCTS);
    if (row->kernels & ADAM_IN_OPERATIONS)
        profile_adam_in_operations(&costs->profile);
    if (row->kernels & OLDER_PRODUCTS)
        profile_older_products(&costs->profile);
    if (row->attention_rate > 0)
        costs->profile.gemm.fused_attention /= row->attention_rate;
    return DT_OK;
}

/* Find whether memory suffices only with, or only without sequence parallelism. */
static dt_status find_undecided(struct predicting *p, struct validate_row *row)
{
    struct experiment other = row->experiment;
    struct simulated_system *system;
    struct dt_memory_usage usage;
    other.tensor.sequence_parallel = !other.tensor.sequence_parallel;
    DT_TRY(create_system(p, row, &other, &system));
    dt_status status = DT_OK;
    bool fits = true;
    for (int kind = 0, rank; status == DT_OK && fits && (rank = experiment_rank_of_kind(&other, kind)) >= 0; kind++) {
        status = simulation_predict_memory(&other, system, rank, &usage, NULL);
        fits = status == DT_OK && simulated_system_fits(system, usage.device.peak_total_bytes);
    }
    simulated_system_destroy(system);
    row->fit_undecided = status == DT_OK && fits != (row->outcome == VALIDATE_PREDICTED);
    return status == DT_ERR_UNAVAILABLE ? DT_OK : status; /* the framework cannot run it this way */
}

static dt_status predict(struct predicting *p, struct validate_row *row)
{
    static dt_status (*const simulate[])(const struct experiment *, const struct simulated_system *, const struct measure_hooks *,
                                         struct measure_result *) = {
        [VALIDATE_WHOLE] = simulation_run_symmetric,
        [VALIDATE_BRIEF] = simulation_run_brief,
        [VALIDATE_COARSE] = simulation_run_coarse,
    };
    struct measure_result result = {0};
    struct simulated_system *system;
    DT_TRY(create_system(p, row, &row->experiment, &system));
    row->peak_tflops = row->experiment.model.fp8 ? fmax(system->cluster.gpu.fp8_tflops, system->cluster.gpu.mxfp8_tflops)
                                                 : system->cluster.gpu.peak_tflops[row->experiment.model.dtype];
    row->gpus_per_node = system->placement.ranks_per_node; /* the cluster's, where the table has none */
    dt_status status = simulate[p->rows->steps](&row->experiment, system, NULL, &result);
    row->outcome = status == DT_ERR_OOM ? VALIDATE_OUT_OF_MEMORY : status == DT_ERR_UNAVAILABLE ? VALIDATE_REFUSED : VALIDATE_PREDICTED;
    if (row->outcome == VALIDATE_REFUSED)
        snprintf(row->reason, sizeof row->reason, "%.255s", dt_error_message());
    if (status == DT_OK)
        row->predicted_s = result.step_s[result.steps_done - 1];
    row->step_error = profile_eight(&system->costs.profile);
    if (status == DT_OK)
        row->predicted_bytes =
            row->whole_gpu ? simulated_system_used_bytes(system, &result) : simulated_system_reported_bytes(system, &result);
    for (int i = 0; status == DT_ERR_OOM && i < result.rank_count; i++)
        row->predicted_bytes = fmax(row->predicted_bytes, (double)result.ranks[i].memory.device.peak_total_bytes);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    if (status != DT_OK && status != DT_ERR_OOM && status != DT_ERR_UNAVAILABLE)
        return status;
    bool whole = p->rows->steps == VALIDATE_WHOLE; /* for whole steps only: for short ones it would take most of the time */
    return whole && row->sequence_parallel_open && row->outcome != VALIDATE_REFUSED ? find_undecided(p, row) : DT_OK;
}

/* The next row that needs its own prediction; rows->count if there is none, or something has
 * failed. */
static int take_row(struct predicting *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->next < p->rows->count && (p->first[p->next] < p->next || p->rows->rows[p->next].outcome == VALIDATE_SKIPPED))
        p->next++;
    int row = p->failure < 0 || p->next == p->rows->count ? p->rows->count : p->next++;
    pthread_mutex_unlock(&p->lock);
    return row;
}

static dt_status predict_row(struct predicting *p, struct validate_row *row)
{
    if (p->stop && p->stop(NULL))
        return dt_fail(DT_ERR_INTERRUPTED, "interrupted");
    dt_status status = predict(p, row);
    if (status != DT_ERR_UNAVAILABLE)
        return status;
    row->outcome = VALIDATE_SKIPPED; /* it does not fit the cluster */
    snprintf(row->reason, sizeof row->reason, "%.255s", dt_error_message());
    return DT_OK;
}

/* Note of a table's row that its time is too short for the step's operations at the GPUs' peak,
 * with what a causal mask leaves of attention and nothing recomputed. */
static void note_impossible(struct validate_row *row)
{
    const struct experiment *e = &row->experiment;
    const struct dt_model_family *family = e->model.family;
    if (row->outcome == VALIDATE_SKIPPED || !(row->peak_tflops > 0) || isnan(row->measured_s))
        return;
    uint64_t units = (uint64_t)((double)experiment_global_batch(e) * dt_model_units(&e->model));
    double flops = family->causal_step_flops ? family->causal_step_flops(&e->model, units) : dt_model_step_flops(&e->model, units);
    if (flops > 1e12 * row->peak_tflops * e->world_size * row->measured_s)
        dt_append(row->note, sizeof row->note, "; ",
                  "faster than the peak of the cluster's GPUs: the row, how it is read, or the cluster is wrong");
}

static void *predict_some(void *context)
{
    struct predicting *p = context;
    dt_status status = DT_OK;
    for (int i; status >= 0 && (i = take_row(p)) < p->rows->count;)
        status = predict_row(p, &p->rows->rows[i]);
    pthread_mutex_lock(&p->lock);
    if (status < 0 && p->failure == DT_OK) {
        p->failure = status;
        snprintf(p->error, sizeof p->error, "%s", dt_error_message());
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

dt_status validate_predict(struct validate_rows *rows, bool (*stop)(void *context))
{
    DT_FREED int *first = malloc(((size_t)rows->count + 1) * sizeof *first);
    DT_FREED struct simulated_machine *machine = calloc(1, sizeof *machine);
    struct predicting p = {.rows = rows, .first = first, .stop = stop, .machine = machine, .lock = PTHREAD_MUTEX_INITIALIZER};
    DT_TRY(dt_allocated(first && machine, "no host memory for %d rows", rows->count));
    for (int i = 0; i < rows->count; i++)
        first[i] = rows->rows[i].outcome == VALIDATE_SKIPPED ? i : find_first(rows, i);
    dt_threads_run(dt_machine_processors(), predict_some, &p);
    for (int i = 0; i < rows->count; i++)
        if (first[i] < i)
            take_over(&rows->rows[i], &rows->rows[first[i]]);
    for (int i = 0; i < rows->count && !rows->records; i++)
        note_impossible(&rows->rows[i]);
    return p.failure < 0 ? dt_fail(p.failure, "%s", p.error) : DT_OK;
}

dt_status validate_rows_check(const struct validate_rows *rows)
{
    const char *reason = rows->count > 0 ? rows->rows[0].reason : "the table has no rows";
    for (int i = 0; i < rows->count; i++)
        if (rows->rows[i].outcome != VALIDATE_SKIPPED)
            return DT_OK;
    return dt_fail(DT_ERR_INVALID, "nothing was validated: %d of %d rows were skipped, the first one because: %s", rows->count, rows->count,
                   reason);
}

/* ---- results ---- */

/* ---- groups ---- */

enum key { BY_PARADIGM, BY_MODEL, BY_GPUS, BY_NODES, BY_STAGES, BY_TENSOR, BY_ACTIVATION, OF_ALL, KEYS };
static const char *const keys[KEYS] = {"paradigm", "model", "GPUs", "nodes", "stages", "tensor", "activation", "all"};

static int nodes_of(const struct validate_row *row)
{
    int per_node = row->gpus_per_node ? row->gpus_per_node : row->experiment.world_size;
    return (row->experiment.world_size + per_node - 1) / per_node;
}

static void value_of(const struct validate_row *row, enum key key, char value[24])
{
    const struct experiment *e = &row->experiment;
    switch (key) {
    case BY_PARADIGM: snprintf(value, 24, "%s", paradigm_name(e->paradigm)); break;
    case BY_MODEL: snprintf(value, 24, "%.23s", row->model); break;
    case BY_GPUS: snprintf(value, 24, "%d", e->world_size); break;
    case BY_NODES: snprintf(value, 24, "%s", nodes_of(row) == 1 ? "one" : "several"); break;
    case BY_STAGES: snprintf(value, 24, "%d", row->stages); break;
    case BY_TENSOR: snprintf(value, 24, "%d", row->tensor); break;
    case BY_ACTIVATION: snprintf(value, 24, "%s", activation_name(e->activation)); break;
    case OF_ALL:
    case KEYS: *value = 0;
    }
}

/* Presets in their table's order, GPU counts by number, others in their enums' order. -1: the row
 * could not be read, and only counts in the group of all. */
static int rank_of(const struct validate_row *row, int key)
{
    if (row->experiment.world_size == 0)
        return key == OF_ALL ? 0 : -1;
    const int ranks[KEYS] = {[BY_PARADIGM] = (int)row->experiment.paradigm,
                             [BY_MODEL] = row->model_order,
                             [BY_GPUS] = row->experiment.world_size,
                             [BY_NODES] = nodes_of(row) > 1,
                             [BY_STAGES] = row->stages,
                             [BY_TENSOR] = row->tensor,
                             [BY_ACTIVATION] = (int)row->experiment.activation};
    return ranks[key];
}

dt_status validate_error_of(const double *ratios, int count, struct validate_error *out)
{
    *out = (struct validate_error){.rows = count, .median = NAN, .p90 = NAN, .bias = NAN};
    DT_FREED double *sizes = malloc((size_t)(count + 1) * sizeof *sizes);
    DT_TRY(dt_allocated(sizes, "no memory for the errors of %d rows", count));
    for (int i = 0; i < count; i++)
        sizes[i] = fabs(ratios[i]);
    DT_TRY(dt_statistics_quantile(sizes, count, 0.5, &out->median));
    DT_TRY(dt_statistics_quantile(sizes, count, 0.9, &out->p90));
    return dt_statistics_quantile(ratios, count, 0.5, &out->bias);
}

static dt_status summarize_group(const struct validate_rows *rows, int key, int rank, double *scratch, struct validate_group *out)
{
    double *times = scratch, *bytes = scratch + rows->count;
    int time_count = 0, byte_count = 0;
    snprintf(out->key, sizeof out->key, "%s", keys[key]);
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *row = &rows->rows[i];
        double time = (row->predicted_s - row->measured_s) / row->measured_s;
        double memory = (row->predicted_bytes - row->measured_bytes) / row->measured_bytes;
        if (rank_of(row, key) != rank)
            continue;
        value_of(row, (enum key)key, out->value);
        out->rows++;
        out->out_of_memory += row->outcome == VALIDATE_OUT_OF_MEMORY;
        out->skipped += row->outcome == VALIDATE_SKIPPED;
        if (!isnan(time))
            times[time_count++] = time;
        if (!isnan(memory))
            bytes[byte_count++] = memory;
    }
    DT_TRY(validate_error_of(times, time_count, &out->time));
    return validate_error_of(bytes, byte_count, &out->memory);
}

/* The next rank after `rank` that any row has; INT32_MAX: there is none. */
static int next_rank(const struct validate_rows *rows, int key, int rank)
{
    int next = INT32_MAX;
    for (int i = 0; i < rows->count; i++) {
        int other = rank_of(&rows->rows[i], key);
        next = other > rank && other < next ? other : next;
    }
    return next;
}

/* ---- the fastest paradigm ---- */

static bool same_cell(const struct validate_row *a, const struct validate_row *b)
{
    return a->experiment.world_size == b->experiment.world_size && a->gpus_per_node == b->gpus_per_node &&
           a->batch_per_gpu == b->batch_per_gpu && strcmp(a->model, b->model) == 0;
}

static int fastest(const double seconds[PARADIGM_ROOM], double *out_margin)
{
    int best = -1;
    double second = INFINITY;
    for (int p = 0; p < PARADIGM_ROOM; p++)
        if (isfinite(seconds[p]) && (best < 0 || seconds[p] < seconds[best]))
            best = p;
    for (int p = 0; p < PARADIGM_ROOM; p++)
        if (p != best && seconds[p] < second)
            second = seconds[p];
    *out_margin = best < 0 || !isfinite(second) ? NAN : second / seconds[best] - 1;
    return best;
}

static void find_winners(const struct validate_rows *rows, struct validate_winners *out)
{
    for (int i = 0; i < rows->count; i++) {
        double measured[PARADIGM_ROOM], predicted[PARADIGM_ROOM], margin, unused;
        bool first = true;
        for (int p = 0; p < PARADIGM_ROOM; p++)
            measured[p] = predicted[p] = INFINITY;
        for (int j = 0; j < rows->count; j++) {
            const struct validate_row *row = &rows->rows[j];
            int p = (int)row->experiment.paradigm;
            if (!same_cell(&rows->rows[i], row))
                continue;
            first &= j >= i; /* a cell counts at its first row */
            if (isnan(row->measured_s) || isnan(row->predicted_s))
                continue;
            measured[p] = fmin(measured[p], row->measured_s);
            predicted[p] = fmin(predicted[p], row->predicted_s);
        }
        int best = fastest(measured, &margin);
        if (!first || isnan(margin))
            continue;
        bool right = fastest(predicted, &unused) == best, clear = margin > VALIDATE_CLEAR;
        out->cells++;
        out->right += right;
        out->clear_cells += clear;
        out->clear_right += clear && right;
    }
}

/* ---- the fastest configuration, and memory ---- */

static bool counts(const struct validate_row *row)
{
    return row->outcome == VALIDATE_PREDICTED && !isnan(row->measured_s);
}

static void find_choices(const struct validate_rows *rows, struct validate_choices *out)
{
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *fastest = &rows->rows[i], *chosen = fastest;
        bool first = counts(fastest), several = false;
        for (int j = 0; j < rows->count && first; j++) {
            const struct validate_row *row = &rows->rows[j];
            if (!counts(row) || !same_cell(&rows->rows[i], row) ||
                dt_model_units(&rows->rows[i].experiment.model) != dt_model_units(&row->experiment.model))
                continue;
            first = j >= i; /* a cell counts at its first row */
            several |= strcmp(row->experiment.hash, rows->rows[i].experiment.hash) != 0;
            fastest = row->measured_s < fastest->measured_s ? row : fastest;
            chosen = row->predicted_s < chosen->predicted_s ? row : chosen;
        }
        if (!first || !several)
            continue;
        out->cells++;
        out->right += chosen->measured_s <= (1 + VALIDATE_NEAR) * fastest->measured_s;
    }
}

static void count_fits(const struct validate_rows *rows, struct validate_fits *out)
{
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *row = &rows->rows[i];
        if (row->outcome == VALIDATE_SKIPPED || row->measured_fit == VALIDATE_FIT_UNKNOWN)
            continue;
        if (row->fit_undecided)
            out->undecided++;
        else
            out->rows[row->measured_fit == VALIDATE_FIT_NOT][row->outcome != VALIDATE_PREDICTED]++;
        if (row->measured_fit == VALIDATE_FIT && row->outcome == VALIDATE_OUT_OF_MEMORY) {
            out->sharing_open += row->sharing_open;
            out->recompute_open += row->recompute_open;
            out->fp8_open += row->fp8_open;
            out->reduction_open += row->reduction_open;
        }
    }
}

static void count_intervals(const struct validate_rows *rows, struct validate_intervals *out)
{
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *row = &rows->rows[i];
        double error = fabs(row->predicted_s - row->measured_s) / row->measured_s;
        if (row->outcome != VALIDATE_PREDICTED || isnan(row->step_error) || isnan(error))
            continue;
        out->rows++;
        out->within += error <= row->step_error;
    }
}

/* ---- runs of one config that differ ---- */

static bool is_timed(const struct validate_row *row)
{
    return row->outcome != VALIDATE_SKIPPED && !isnan(row->measured_s);
}

static void find_contradictions(const struct validate_rows *rows, struct validate_summary *out)
{
    for (int i = 0; i < rows->count; i++) {
        int fast = i, slow = i;
        bool first = is_timed(&rows->rows[i]);
        for (int j = 0; j < rows->count && first; j++) {
            const struct validate_row *row = &rows->rows[j];
            if (!is_timed(row) || !same_experiment(&rows->rows[i], row))
                continue;
            first = j >= i;
            fast = row->measured_s < rows->rows[fast].measured_s ? j : fast;
            slow = row->measured_s > rows->rows[slow].measured_s ? j : slow;
        }
        if (first && rows->rows[slow].measured_s > (1 + VALIDATE_CONTRADICTS) * rows->rows[fast].measured_s)
            out->contradictions[out->contradiction_count++] =
                (struct validate_contradiction){fast < slow ? fast : slow, fast < slow ? slow : fast};
    }
}

/* ---- all results ---- */

dt_status validate_summarize(const struct validate_rows *rows, struct validate_summary *out)
{
    int groups = 0;
    *out = (struct validate_summary){0};
    for (int key = 0; key < KEYS; key++)
        for (int rank = next_rank(rows, key, -1); rank != INT32_MAX; rank = next_rank(rows, key, rank))
            groups++;
    out->groups = calloc((size_t)groups, sizeof *out->groups);
    out->contradictions = calloc((size_t)rows->count + 1, sizeof *out->contradictions);
    DT_FREED double *scratch = malloc(2 * (size_t)rows->count * sizeof *scratch);
    DT_TRY(dt_allocated(out->groups && out->contradictions && scratch, "no memory for a summary of %d rows", rows->count));
    for (int key = 0; key < KEYS; key++)
        for (int rank = next_rank(rows, key, -1); rank != INT32_MAX; rank = next_rank(rows, key, rank))
            DT_TRY(summarize_group(rows, key, rank, scratch, &out->groups[out->group_count++]));
    find_winners(rows, &out->winners);
    find_contradictions(rows, out);
    find_choices(rows, &out->choices);
    count_fits(rows, &out->fits);
    count_intervals(rows, &out->intervals);
    return DT_OK;
}

void validate_summary_finish(struct validate_summary *summary)
{
    free(summary->groups);
    free(summary->contradictions);
    *summary = (struct validate_summary){0};
}
