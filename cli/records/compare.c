#include "cli/records/records.h"

#include "cli/text/text.h"
#include "lib/base/statistics.h"
#include "lib/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *compare_verdict_name(enum compare_verdict verdict)
{
    static const char *const names[] = {
        [COMPARE_SAME] = "same",     [COMPARE_FASTER] = "faster", [COMPARE_SLOWER] = "slower",   [COMPARE_UNCLEAR] = "unclear",
        [COMPARE_FAILED] = "failed", [COMPARE_FIXED] = "fixed",   [COMPARE_MISSING] = "missing", [COMPARE_NEW] = "new"};
    return names[verdict];
}

const char *compare_gate_name(enum compare_gate gate)
{
    switch (gate) {
    case GATE_THROUGHPUT: return "throughput";
    case GATE_STATUS: return "status";
    case GATE_LOSSES: return "losses";
    case GATE_MEMORY: return "memory";
    case GATE_MISSING: return "missing";
    case GATE_ALL: break;
    }
    return NULL;
}

const char *compare_losses_name(enum compare_losses losses)
{
    static const char *const names[] = {
        [LOSSES_UNKNOWN] = "unknown", [LOSSES_EQUAL] = "equal", [LOSSES_ROUNDING] = "rounding", [LOSSES_DIFFER] = "differ"};
    return names[losses];
}

/* Add a part to a row's reason. */
#define ADD_REASON(row, ...) dt_append((row)->reason, sizeof(row)->reason, "; ", __VA_ARGS__)

/* Add a difference to `list` [list_bytes], once: `name` is `base` in BASE and `new` in NEW. */
static void add_difference(char *list, size_t list_bytes, const char *name, const char *base, const char *new)
{
    char part[320];
    if (strcmp(base, new) == 0)
        return;
    snprintf(part, sizeof part, "%.64s (%.100s, %.100s)", name, *base ? base : "none", *new ? new : "none");
    if (!strstr(list, part) && strlen(list) + strlen(part) + 3 < list_bytes)
        dt_append(list, list_bytes, ", ", "%s", part);
}

const char *compare_remark(const struct compare *c, int index, char *text, size_t text_bytes)
{
    const struct {
        const char *begin, *rest;
    } remarks[] = {{"measured with different devices or libraries: ", c->different}, {"also different: ", c->noted}, {"", c->predicted}};
    if (index >= (int)(sizeof remarks / sizeof *remarks))
        return NULL;
    snprintf(text, text_bytes, "%s%s", *remarks[index].rest ? remarks[index].begin : "", remarks[index].rest);
    return text;
}

static const char *version_of(const struct record_facts *record, const char *library)
{
    const char *name, *version;
    for (int i = 0; (name = record_library(record, i, &version)); i++)
        if (strcmp(name, library) == 0)
            return version;
    return "";
}

static bool is_simulated(const struct record_facts *record)
{
    char device[32];
    return dt_device_is_simulated(record_provenance(record, "device", device));
}

/* Properties that make two measurements incomparable. The build of dtbench is not among them:
 * builds are what is compared. So are a prediction's cluster and profile: they are only noted. */
static const struct {
    const char *key;
    bool by_setting; /* follows from the config if settings are compared */
    bool of_host;    /* counts only if both records have it; predictions do not depend on it */
    bool noted;      /* only noted, no reason to refuse: systems are updated often, rarely with an effect */
} facts[] = {
    {"device", false, false, false},
    {"device_name", false, false, false},
    {"driver", false, false, false},
    {"processor", false, true, false},
    {"products", true, true, false}, /* products: what computes them */
    {"kernel", false, true, true},
    {"threads_per_rank", true, false, false},
    {"tuning", false, false, false},
    {"warpgroup_kernels", false, true, true},
    {"simulated.cluster", true, false, true},
    {"simulated.profile", true, false, true},
};

static void find_facts(struct compare *c, const struct pairing *by, const struct record_facts *base, const struct record_facts *new)
{
    char numbers[2][32];
    bool simulated = is_simulated(base) && is_simulated(new);
    for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
        const char *left = record_provenance(base, facts[k].key, numbers[0]), *right = record_provenance(new, facts[k].key, numbers[1]);
        const char *dot = strrchr(facts[k].key, '.'), *name = dot ? dot + 1 : facts[k].key;
        if ((by && (facts[k].by_setting || pairing_names(by, facts[k].key))) || (facts[k].of_host && (simulated || !*left || !*right)))
            continue;
        add_difference(facts[k].noted ? c->noted : c->different, facts[k].noted ? sizeof c->noted : sizeof c->different, name, left, right);
    }
}

static void find_differences(struct compare *c, const struct compare_options *o, const struct record_facts *base,
                             const struct record_facts *new)
{
    bool settings = o->by != NULL;
    if (settings && pairing_names(o->by, "device"))
        return;
    char left[32], right[32];
    const char *library, *version;
    const struct record_facts *sides[] = {base, new};
    find_facts(c, o->by, base, new);
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
        for (int i = 0; (library = record_library(sides[s], i, &version)); i++)
            add_difference(c->different, sizeof c->different, library, version_of(base, library), version_of(new, library));
    if (settings)
        return;
    snprintf(left, sizeof left, "%d", record_machines(base));
    snprintf(right, sizeof right, "%d", record_machines(new));
    add_difference(c->different, sizeof c->different, "machines", left, right);
}

/* List all predictions of either set. */
static void find_predictions(struct compare *c)
{
    struct predictions predictions = {0};
    for (int i = 0; i < c->count; i++) {
        const struct record_facts *sides[] = {c->rows[i].base, c->rows[i].new};
        for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
            if (sides[s] && sides[s]->experiment)
                predictions_add(&predictions, sides[s]->experiment);
    }
    predictions_describe(&predictions, c->predicted);
}

/* Only runs that ended well have measurements on a known device. */
static bool both_ok(const struct comparison *row)
{
    return row->base && row->new && record_is_ok(row->base) && record_is_ok(row->new);
}

/* Is `other` a repeat of `record`: ok, of the same experiment, by the same build on the same
 * device? */
static bool is_repeat(const struct record_facts *other, const struct record_facts *record)
{
    static const char *const keys[] = {"dtbench", "git_commit", "device", "device_name"};
    char numbers[2][32];
    bool same = record_is_ok(other) && strcmp(other->hash, record->hash) == 0;
    for (size_t k = 0; same && k < sizeof keys / sizeof *keys; k++)
        same = strcmp(record_provenance(other, keys[k], numbers[0]), record_provenance(record, keys[k], numbers[1])) == 0;
    return same;
}

/* The time that represents a run. */
static double time_of_run(const struct record_facts *run, bool shortest)
{
    double least = shortest && run->step_count > 0 ? INFINITY : run->metrics.step_s.median;
    for (int i = 0; shortest && i < run->step_count; i++)
        least = fmin(least, run->step_s[i]);
    return least;
}

/* Collect the steps of `record` and, unless o->single is set, of its repeats, in the order of
 * reading. */
static dt_status collect_steps(const struct record_set *set, const struct record_facts *record, const struct compare_options *o,
                               struct compare_steps *out)
{
    struct dt_statistics statistics;
    int most = 0, runs = 0;
    for (int i = 0; i < set->count; i++) {
        bool same_hash = strcmp(set->records[i].hash, record->hash) == 0;
        most += same_hash ? set->records[i].step_count : 0;
        runs += same_hash;
    }
    out->step_s = malloc(((size_t)most + 1) * sizeof *out->step_s);
    out->run_s = malloc((size_t)runs * sizeof *out->run_s);
    DT_TRY(dt_allocated(out->step_s && out->run_s, "no memory for %d steps", most));
    for (int i = 0; i < set->count; i++) {
        const struct record_facts *its = &set->records[i];
        if (its != record && (o->single || !is_repeat(its, record)))
            continue;
        out->run_s[out->runs++] = time_of_run(its, o->shortest);
        memcpy(out->step_s + out->count, its->step_s, (size_t)its->step_count * sizeof *out->step_s);
        out->count += its->step_count;
    }
    DT_TRY(dt_statistics_compute(out->step_s, out->count, &statistics));
    bool same = out->count == record->step_count;
    out->units_per_s = same ? record->metrics.units_per_s : record->metrics.units_per_s * record->metrics.step_s.median / statistics.median;
    return DT_OK;
}

/* A run's speed depends on other work of the machine during it, which its own steps do not show. So
 * the runs, each as one measurement, must show the change, too. Else the verdict is unclear. */
static dt_status judge_runs(struct comparison *row)
{
    int base = row->base_steps.runs, new = row->new_steps.runs;
    struct dt_ratio runs;
    DT_TRY(dt_ratio_compare(row->base_steps.run_s, base, row->new_steps.run_s, new, &runs));
    if (row->verdict == COMPARE_SLOWER ? runs.high < 1 : runs.low > 1)
        return DT_OK;
    row->verdict = COMPARE_UNCLEAR;
    double percent = (row->ratio.ratio - 1) * 100;
    if (base == 1 && new == 1)
        ADD_REASON(row, "one run each: no evidence (throughput %+.1f %%)", percent);
    else if (isnan(runs.low))
        ADD_REASON(row, "%d and %d runs: no evidence (throughput %+.1f %%)", base, new, percent);
    else
        ADD_REASON(row, "runs of one side differ as much as the sides do (throughput %+.1f %%)", percent);
    ADD_REASON(row, "measure both with dtbench run --repeat 5");
    return DT_OK;
}

static const enum compare_verdict verdicts[] = {
    [DT_SAME] = COMPARE_SAME, [DT_FASTER] = COMPARE_FASTER, [DT_SLOWER] = COMPARE_SLOWER, [DT_UNCLEAR] = COMPARE_UNCLEAR};

static void explain_width(struct comparison *row, const struct compare_options *o)
{
    if (row->verdict == COMPARE_UNCLEAR && !isnan(row->ratio.low) && !row->no_slowdown)
        ADD_REASON(row, "the interval is too wide to exclude a loss of %g %%", o->threshold * 100);
}

/* Judge by the shortest step of each run; each counts as one measurement. */
static dt_status judge_shortest(struct comparison *row, const struct compare_options *o)
{
    DT_TRY(dt_ratio_of_shortest(row->base_steps.run_s, row->base_steps.runs, row->new_steps.run_s, row->new_steps.runs, &row->ratio));
    row->verdict = verdicts[dt_ratio_judge_interval(&row->ratio, o->threshold)];
    row->no_slowdown = row->ratio.low >= 1 - o->threshold;
    if (isnan(row->ratio.ratio))
        ADD_REASON(row, "no step times to compare");
    else if (isnan(row->ratio.low))
        ADD_REASON(row, "%d and %d runs: too few for an interval; %d each are enough", row->base_steps.runs, row->new_steps.runs,
                   DT_RATIO_SHORTEST);
    explain_width(row, o);
    return DT_OK;
}

dt_status compare_judge_steps(struct comparison *row, bool predicted, const struct compare_options *o)
{
    if (o->shortest && !predicted)
        return judge_shortest(row, o);
    const struct compare_steps *base = &row->base_steps, *new = &row->new_steps;
    struct dt_statistics before, after;
    DT_TRY(dt_ratio_compare(base->step_s, base->count, new->step_s, new->count, &row->ratio));
    DT_TRY(dt_statistics_compute(base->step_s, base->count, &before));
    DT_TRY(dt_statistics_compute(new->step_s, new->count, &after));
    /* A simulated step has no noise: the same computation gives the same time, so any difference
     * comes from the programs. */
    if (predicted && before.median > 0 && after.median > 0) {
        double ratio = before.median / after.median;
        row->ratio = (struct dt_ratio){ratio, ratio, ratio, 1};
    }
    row->verdict = verdicts[dt_ratio_judge(&row->ratio, o->threshold)];
    row->no_slowdown = row->ratio.low >= 1 - o->threshold;
    if (isnan(row->ratio.ratio))
        ADD_REASON(row, "no step times to compare");
    else if (isnan(row->ratio.low))
        ADD_REASON(row, "too few timed steps for an interval: three each are enough");
    else if (row->ratio.widened > 1)
        ADD_REASON(row, "slow steps follow one another: the interval is widened");
    if ((row->verdict == COMPARE_SLOWER || row->verdict == COMPARE_FASTER) && !o->single && !predicted)
        return judge_runs(row);
    explain_width(row, o);
    return DT_OK;
}

static dt_status judge_throughput(struct comparison *row, const struct compare_options *o)
{
    DT_TRY(compare_judge_steps(row, is_simulated(row->base) && is_simulated(row->new), o));
    if (row->verdict == COMPARE_SLOWER) {
        ADD_REASON(row, "throughput %+.1f %%", (row->ratio.ratio - 1) * 100);
        row->regressions |= GATE_THROUGHPUT;
    }
    return DT_OK;
}

static bool equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool has_loss(const struct record_facts *record)
{
    bool has = false;
    for (int i = 0; i < record->loss_count && !has; i++)
        has = !isnan(record->losses[i]);
    return has;
}

static void judge_losses(struct comparison *row, bool same_machine, bool say)
{
    const struct record_facts *base = row->base, *new = row->new;
    int count = base->loss_count < new->loss_count ? base->loss_count : new->loss_count;
    if (!has_loss(base) && !has_loss(new)) /* a prediction's are null */
        return;
    row->losses = LOSSES_EQUAL;
    for (int i = 0; i < count && row->loss_step < 0; i++)
        if (!equal(base->losses[i], new->losses[i]))
            row->loss_step = i;
    if (row->loss_step < 0 && base->loss_count != new->loss_count)
        row->loss_step = count;
    if (row->loss_step < 0)
        return;
    double tolerance = base->experiment ? loss_tolerance(base->experiment) : 0;
    row->losses = base->loss_count == new->loss_count ? LOSSES_ROUNDING : LOSSES_DIFFER;
    for (int i = 0; i < count; i++)
        if (!equal(base->losses[i], new->losses[i]) && !(fabs(base->losses[i] - new->losses[i]) <= tolerance * fabs(base->losses[i])))
            row->losses = LOSSES_DIFFER;
    if (say && row->loss_step < count)
        ADD_REASON(row, "losses differ from step %d on: %.9g, now %.9g%s", row->loss_step + 1, base->losses[row->loss_step],
                   new->losses[row->loss_step], row->losses == LOSSES_ROUNDING ? " (by no more than rounding)" : "");
    else if (say)
        ADD_REASON(row, "%d losses, now %d", base->loss_count, new->loss_count);
    if (same_machine || row->losses == LOSSES_DIFFER)
        row->regressions |= GATE_LOSSES;
}

static void judge_memory(struct comparison *row, double threshold)
{
    row->memory_bytes = row->new->metrics.peak_bytes.total - row->base->metrics.peak_bytes.total;
    if (!(row->memory_bytes > 0 || row->memory_bytes < 0))
        return;
    ADD_REASON(row, "peak memory %+.0f bytes (%+.2f %%)", row->memory_bytes, row->memory_bytes / row->base->metrics.peak_bytes.total * 100);
    if (row->memory_bytes > threshold * row->base->metrics.peak_bytes.total)
        row->regressions |= GATE_MEMORY;
}

/* At least one side exists and did not end well, or one side is missing. */
static void judge_status(struct comparison *row)
{
    const struct record_facts *base = row->base, *new = row->new;
    if (!new) {
        row->verdict = COMPARE_MISSING;
        row->regressions |= record_is_ok(base) ? GATE_MISSING : 0;
        ADD_REASON(row, "was %.20s", base->status);
    } else if (!base) {
        row->verdict = COMPARE_NEW;
        ADD_REASON(row, "is %.20s", new->status);
    } else if (record_is_ok(base)) {
        row->verdict = COMPARE_FAILED;
        row->regressions |= GATE_STATUS;
        ADD_REASON(row, "was ok, is %.20s: %.256s", new->status, new->error);
    } else if (record_is_ok(new)) {
        row->verdict = COMPARE_FIXED;
        ADD_REASON(row, "was %.20s, is ok", base->status);
    } else {
        bool same = strcmp(base->status, new->status) == 0;
        row->verdict = same ? COMPARE_SAME : COMPARE_UNCLEAR;
        ADD_REASON(row, same ? "%.20s, as before" : "was %.20s, is %.20s", base->status, new->status);
    }
}

static dt_status judge(struct compare *c, const struct compare_options *o)
{
    for (int i = 0; i < c->count; i++) {
        struct comparison *row = &c->rows[i];
        if (both_ok(row)) {
            DT_TRY(judge_throughput(row, o));
            /* Other settings may give other losses; equality is checked on request. */
            judge_losses(row, !*c->different && !o->by, !o->by || o->gates & GATE_LOSSES);
            judge_memory(row, o->threshold);
        } else {
            judge_status(row);
        }
        row->regressions &= o->gates;
        c->regressions += row->regressions != 0;
        c->counts[row->verdict]++;
    }
    return DT_OK;
}

/* "ddp, activation keep -> activation checkpoint" */
static void add_change(struct comparison *row, const struct pairing *by)
{
    char change[LABEL_BYTES];
    size_t used = strlen(row->label);
    pairing_describe(by, row->base->experiment, row->new->experiment, change, sizeof change);
    snprintf(row->label + used, sizeof row->label - used, " -> %s", change);
}

/* Name an experiment by its differences from the others of the comparison. */
static void label(struct compare *c, const struct pairing *by)
{
    struct experiment_differences all = {0};
    struct experiment_columns columns;
    for (int i = 0; i < c->count; i++) {
        experiment_differences_add(&all, c->rows[i].base ? c->rows[i].base->experiment : NULL);
        experiment_differences_add(&all, c->rows[i].new ? c->rows[i].new->experiment : NULL);
    }
    experiment_columns_choose(&all, &columns);
    for (int i = 0; i < c->count; i++) {
        struct comparison *row = &c->rows[i];
        const struct record_facts *record = row->base ? row->base : row->new;
        size_t used = 0;
        if (record->experiment && columns.names_differ)
            used = (size_t)snprintf(row->label, sizeof row->label, "%.63s: ", record->experiment->name);
        if (record->experiment)
            experiment_label(record->experiment, &columns, row->label + used, sizeof row->label - used);
        else
            record_describe_config(record, row->label, sizeof row->label);
        if (by)
            add_change(row, by);
    }
}

static bool are_pair(const struct record_facts *base, const struct record_facts *new, bool recorded)
{
    if (recorded)
        return strcmp(base->hash, new->hash) == 0;
    return base->experiment && new->experiment &&strcmp(base->experiment->hash, new->experiment->hash) == 0;
}

/* Pair the rows, which hold BASE's records, with NEW's: left[] [left_count] are records without a
 * row. */
static void pair(struct compare *c, const struct record_set *new, int *left, int *left_count, bool recorded)
{
    int still = 0;
    for (int l = 0; l < *left_count; l++) {
        const struct record_facts *record = &new->records[left[l]];
        int found = -1;
        for (int i = 0; i < c->count && found < 0; i++)
            if (!c->rows[i].new && are_pair(c->rows[i].base, record, recorded))
                found = i;
        if (found >= 0)
            c->rows[found].new = record;
        else
            left[still++] = left[l];
    }
    *left_count = still;
}

/* chosen [the larger set's count]: space for indices */
static dt_status pair_newest(struct compare *c, const struct record_set *base, const struct record_set *new, int *chosen)
{
    int count;
    DT_TRY(record_set_newest(base, chosen, &count));
    for (int i = 0; i < count; i++)
        c->rows[c->count++].base = &base->records[chosen[i]];
    int bases = c->count;
    DT_TRY(record_set_newest(new, chosen, &count));
    int all = count;
    pair(c, new, chosen, &count, true);
    pair(c, new, chosen, &count, false);
    if (count == all)
        return dt_fail(DT_ERR_INVALID, "nothing to compare: BASE has %d experiment%s, NEW has %d, and none is in both", bases,
                       bases == 1 ? "" : "s", all);
    for (int i = 0; i < count; i++)
        c->rows[c->count++].new = &new->records[chosen[i]];
    return DT_OK;
}

/* One side of a comparison of settings. */
struct side {
    const struct record_set *set;
    int *chosen; /* [count] indices of the newest records of its experiments */
    bool *taken; /* [count] true: the record is in a row */
    int count;
};

static const struct record_facts *record_at(const struct side *side, int i)
{
    return &side->set->records[side->chosen[i]];
}

/* The first record of `base`, before number `end`, that `new` may be compared with; -1: none.
 * Within one set, a record that is already the new one of a row is not taken as a base. */
static int find_base(const struct side *base, int end, bool one_set, const struct record_facts *new, const struct compare *c,
                     const struct pairing *by)
{
    for (int i = 0; i < end; i++) {
        const struct record_facts *record = record_at(base, i);
        bool is_new = false;
        for (int r = 0; one_set && r < c->count && !is_new; r++)
            is_new = c->rows[r].new == record;
        if (!is_new && record->experiment && new->experiment &&pairing_fits(by, record->experiment, new->experiment))
            return i;
    }
    return -1;
}

static dt_status pair_settings(struct compare *c, struct side *base, struct side *new, const struct pairing *by)
{
    bool one_set = base->set == new->set;
    DT_TRY(record_set_newest(base->set, base->chosen, &base->count));
    DT_TRY(record_set_newest(new->set, new->chosen, &new->count));
    for (int i = 0; i < new->count; i++) {
        const struct record_facts *record = record_at(new, i);
        int found = find_base(base, one_set ? i : base->count, one_set, record, c, by);
        if (found < 0)
            continue;
        c->rows[c->count].base = record_at(base, found);
        c->rows[c->count++].new = record;
        base->taken[found] = true;
        (one_set ? base : new)->taken[i] = true;
    }
    for (int i = 0; i < base->count; i++)
        c->alone += !base->taken[i];
    for (int i = 0; !one_set && i < new->count; i++)
        c->alone += !new->taken[i];
    if (c->count == 0)
        return dt_fail(DT_ERR_INVALID, "nothing to compare: no two of the %d experiments differ in %s and in nothing else", c->alone,
                       by->keys);
    return DT_OK;
}

static dt_status find_pairs(struct compare *c, const struct record_set *base, const struct record_set *new, const struct pairing *by)
{
    int most = base->count > new->count ? base->count : new->count;
    DT_FREED int *chosen = calloc(2 * ((size_t)most + 1), sizeof *chosen);
    DT_FREED bool *taken = calloc(2 * ((size_t)most + 1), sizeof *taken);
    struct side sides[] = {{.set = base, .chosen = chosen, .taken = taken},
                           {.set = new, .chosen = chosen + most + 1, .taken = taken + most + 1}};
    DT_TRY(dt_allocated(chosen && taken, "no memory to compare %d records", most));
    return by ? pair_settings(c, &sides[0], &sides[1], by) : pair_newest(c, base, new, chosen);
}

dt_status compare_records(const struct record_set *base, const struct record_set *new, const struct compare_options *options,
                          struct compare *out)
{
    int most = base->count + new->count;
    *out = (struct compare){.rows = calloc((size_t)most + 1, sizeof *out->rows)};
    DT_TRY(dt_allocated(out->rows, "no memory to compare %d records", most));
    for (int i = 0; i < most; i++)
        out->rows[i] = (struct comparison){.ratio = {NAN, NAN, NAN, 1}, .memory_bytes = NAN, .loss_step = -1};
    DT_TRY(find_pairs(out, base, new, options->by));
    for (int i = 0; i < out->count; i++)
        if (both_ok(&out->rows[i]))
            find_differences(out, options, out->rows[i].base, out->rows[i].new);
    if (*out->different && !options->allow_different)
        return dt_fail(DT_ERR_INVALID,
                       "BASE and NEW were measured with different devices or libraries: %s; --allow-different compares them anyway",
                       out->different);
    find_predictions(out);
    for (int i = 0; i < out->count; i++) {
        struct comparison *row = &out->rows[i];
        if (row->base)
            DT_TRY(collect_steps(base, row->base, options, &row->base_steps));
        if (row->new)
            DT_TRY(collect_steps(new, row->new, options, &row->new_steps));
    }
    label(out, options->by);
    return judge(out, options);
}

void comparison_finish(struct comparison *row)
{
    free(row->base_steps.step_s);
    free(row->base_steps.run_s);
    free(row->new_steps.step_s);
    free(row->new_steps.run_s);
}

void compare_finish(struct compare *compare)
{
    for (int i = 0; i < compare->count; i++)
        comparison_finish(&compare->rows[i]);
    free(compare->rows);
    compare->rows = NULL;
}
