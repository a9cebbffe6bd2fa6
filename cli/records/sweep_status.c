#include "cli/records/records.h"

#include "cli/text/text.h"
#include "lib/base/grow.h"
#include "lib/base/statistics.h"
#include "lib/config/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* first[i]: the first experiment with the hash of experiment i. */
static void find_first(struct dt_place *places, int count, int *first)
{
    dt_places_sort(places, count);
    for (int i = 0, begin = 0; i < count; i++) {
        begin = places[i].key == places[begin].key ? begin : i;
        first[places[i].at] = places[begin].at;
    }
}

dt_status sweep_identity_init(struct sweep_identity *identity, const struct experiment_list *experiments)
{
    enum { HASH_DIGITS = sizeof experiments->all->hash - 1 };
    int count = experiments->count;
    DT_FREED struct dt_place *places = malloc((size_t)count * sizeof *places);
    DT_FREED char *hashes = malloc((size_t)count * HASH_DIGITS + 1);
    *identity = (struct sweep_identity){.index = malloc((size_t)count * sizeof *identity->index)};
    DT_TRY(dt_allocated(places && hashes && identity->index, "no memory for a sweep of %d experiments", count));
    for (int i = 0; i < count; i++) {
        const char *hash = experiments->all[i].hash;
        places[i] = (struct dt_place){dt_hash_fnv1a(hash, HASH_DIGITS), i};
        memcpy(hashes + (size_t)i * HASH_DIGITS, hash, HASH_DIGITS);
    }
    find_first(places, count, identity->index);
    /* Of equal experiments only the first one is counted. */
    for (int i = 0; i < count; i++)
        identity->index[i] = identity->index[i] == i ? identity->count++ : identity->index[identity->index[i]];
    snprintf(identity->id, sizeof identity->id, "%016" PRIx64, dt_hash_fnv1a(hashes, (size_t)count * HASH_DIGITS));
    return DT_OK;
}

void sweep_identity_finish(struct sweep_identity *identity)
{
    free(identity->index);
    *identity = (struct sweep_identity){0};
}

void sweep_identity_report(const struct sweep_identity *identity, int experiment, struct report *report)
{
    memcpy(report->sweep.id, identity->id, sizeof report->sweep.id);
    report->sweep.index = identity->index[experiment];
    report->sweep.count = identity->count;
}

/* ---- how long an experiment will take ---- */

/* What one finished experiment contributes. */
struct sample {
    char hash[sizeof((struct experiment *)0)->hash];
    double s_per_flop; /* for one rank */
    double overhead_s; /* all time outside of steps */
};

enum { KEPT = 64 };

/* Finished experiments that are alike. */
struct forecast_group {
    const char *device;
    enum paradigm_kind paradigm;
    int world_size;
    enum dt_dtype dtype;
    struct sample samples[KEPT]; /* the newest */
    int added, kept;
};

double forecast_rank_flops(const struct experiment *e)
{
    uint64_t tokens = experiment_global_batch(e) * (uint64_t)dt_model_units(&e->model);
    return dt_model_step_flops(&e->model, tokens) / e->world_size;
}

double forecast_steps(const struct experiment *e)
{
    return (double)e->steps.warmup + e->steps.timed;
}

void forecaster_finish(struct forecaster *forecaster)
{
    free(forecaster->groups);
    *forecaster = (struct forecaster){0};
}

double forecast_steps_s(const struct experiment *e, double step_s)
{
    return experiment_is_simulated(e) ? 0 : fmax(e->steps.warmup * step_s, e->steps.warmup_s) + e->steps.timed * step_s;
}

static bool is_alike(const struct forecast_group *g, const struct experiment *e, enum forecast_basis basis)
{
    bool same_device = strcmp(g->device, e->device) == 0;
    bool same_ranks = same_device && g->world_size == e->world_size && g->dtype == e->model.dtype;
    switch (basis) {
    case FORECAST_SAME:
    case FORECAST_ALIKE: return same_ranks && g->paradigm == e->paradigm;
    case FORECAST_SAME_RANKS: return same_ranks;
    case FORECAST_ANY: return same_device;
    case FORECAST_NONE: break;
    }
    return false;
}

/* NULL: no memory. */
static struct forecast_group *find_group(struct forecaster *f, const struct experiment *e)
{
    for (int i = 0; i < f->count; i++)
        if (is_alike(&f->groups[i], e, FORECAST_ALIKE))
            return &f->groups[i];
    if (!DT_ONE_MORE(f->groups, f->count))
        return NULL;
    struct forecast_group *added = &f->groups[f->count++];
    *added = (struct forecast_group){.paradigm = e->paradigm, .world_size = e->world_size, .dtype = e->model.dtype, .device = e->device};
    return added;
}

dt_status forecaster_add(struct forecaster *f, const struct experiment *done, double step_s, double startup_s, double wall_s)
{
    if (!isfinite(step_s) || step_s <= 0)
        return DT_OK;
    struct forecast_group *g = find_group(f, done);
    DT_TRY(dt_allocated(g, "no memory for a forecast"));
    double steps_s = forecast_steps_s(done, step_s);
    double overhead_s = isfinite(wall_s) ? wall_s - steps_s : startup_s;
    struct sample *s = &g->samples[g->added++ % KEPT];
    *s = (struct sample){
        .s_per_flop = steps_s / forecast_steps(done) / forecast_rank_flops(done),
        .overhead_s = overhead_s > 0 ? overhead_s : 0, /* the median step, times their number, can exceed the total */
    };
    memcpy(s->hash, done->hash, sizeof s->hash);
    g->kept = g->added < KEPT ? g->added : KEPT;
    return DT_OK;
}

struct forecast forecaster_predict(const struct forecaster *f, const struct experiment *e)
{
    struct forecast out = {NAN, NAN, 0, FORECAST_NONE};
    DT_FREED double *times = malloc(((size_t)f->count * KEPT + 1) * sizeof *times);
    if (!times) /* without memory there is no forecast */
        return out;
    for (int basis = FORECAST_SAME; basis < FORECAST_NONE && out.based_on == 0; basis++) {
        for (int i = 0; i < f->count; i++) {
            const struct forecast_group *g = &f->groups[i];
            for (const struct sample *s = g->samples; is_alike(g, e, (enum forecast_basis)basis) && s < g->samples + g->kept; s++)
                if (basis != FORECAST_SAME || strcmp(s->hash, e->hash) == 0)
                    times[out.based_on++] = s->overhead_s + forecast_steps(e) * s->s_per_flop * forecast_rank_flops(e);
        }
        out.basis = out.based_on > 0 ? (enum forecast_basis)basis : FORECAST_NONE;
    }
    if (out.based_on > 0) {
        qsort(times, (size_t)out.based_on, sizeof *times, dt_compare_numbers);
        int middle = out.based_on / 2;
        out.expected_s = out.based_on % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
        out.high_s = times[out.based_on - 1];
    }
    return out;
}

/* ---- how far a sweep is ---- */

const char *sweep_state_name(enum sweep_state state)
{
    static const char *const names[] = {
        [STATE_DONE] = "done", [STATE_FAILED] = "failed", [STATE_INTERRUPTED] = "interrupted", [STATE_MISSING] = "missing"};
    return names[state];
}

static enum sweep_state state_of(const struct record_facts *record)
{
    if (!record)
        return STATE_MISSING;
    if (record_is_ok(record))
        return STATE_DONE;
    return strcmp(record->status, "interrupted") == 0 ? STATE_INTERRUPTED : STATE_FAILED;
}

static double time_taken(const struct record_facts *record)
{
    if (!record)
        return NAN;
    if (isfinite(record->metrics.wall_s) || !record->experiment) /* older records have no wall_s, but its parts */
        return record->metrics.wall_s;
    return record->metrics.startup_s + forecast_steps_s(record->experiment, record->metrics.step_s.median);
}

static dt_status new_items(struct sweep_status *sweep, int count)
{
    sweep->items = calloc((size_t)count + 1, sizeof *sweep->items);
    sweep->count = sweep->items ? count : 0;
    return dt_allocated(sweep->items, "no memory for a sweep of %d experiments", count);
}

/* Label the experiments by their differences. */
static void label(struct sweep_status *sweep)
{
    struct experiment_differences all = {0};
    struct experiment_columns columns;
    for (int i = 0; i < sweep->count; i++)
        experiment_differences_add(&all, sweep->items[i].experiment);
    if (all.first)
        snprintf(sweep->name, sizeof sweep->name, "%.63s", all.first->name);
    experiment_columns_choose(&all, &columns);
    for (int i = 0; i < sweep->count; i++) {
        struct sweep_item *item = &sweep->items[i];
        if (item->experiment)
            experiment_label(item->experiment, &columns, item->label, sizeof item->label);
        else if (item->record)
            record_describe_config(item->record, item->label, sizeof item->label);
    }
}

/* Forecast the rest from the finished experiments. */
static dt_status forecast(struct sweep_status *sweep)
{
    DT_ENDED(forecaster_finish) struct forecaster f = {0};
    double taken_s = 0, *left;
    int timed = 0;
    dt_status status = DT_OK;
    for (int i = 0; i < sweep->count; i++) {
        struct sweep_item *item = &sweep->items[i];
        item->took_s = time_taken(item->record);
        item->expected_s = NAN;
        if (item->state != STATE_DONE)
            continue;
        taken_s += isfinite(item->took_s) ? item->took_s : 0;
        timed += isfinite(item->took_s);
        if (item->experiment)
            DT_THEN(status, forecaster_add(&f, item->experiment, item->record->metrics.step_s.median, item->record->metrics.startup_s,
                                           item->record->metrics.wall_s));
    }
    for (int i = 0; i < sweep->count; i++) {
        struct sweep_item *item = &sweep->items[i];
        if (item->state == STATE_DONE)
            continue;
        if (item->experiment)
            item->expected_s = forecaster_predict(&f, item->experiment).expected_s;
        else
            item->expected_s = timed > 0 ? taken_s / timed : NAN; /* the mean, without a config */
        left = item->state == STATE_FAILED ? &sweep->failed_s : &sweep->left_s;
        *left += item->expected_s;
    }
    return status;
}

static dt_status complete(struct sweep_status *sweep)
{
    for (int i = 0; i < sweep->count; i++) {
        sweep->items[i].state = state_of(sweep->items[i].record);
        sweep->counts[sweep->items[i].state]++;
    }
    label(sweep);
    return forecast(sweep);
}

static bool is_better(const struct record_facts *a, const struct record_facts *b)
{
    return !b || record_is_ok(a) >= record_is_ok(b);
}

static uint64_t key_of(const char *hash)
{
    return dt_hash_fnv1a(hash, strlen(hash));
}

/* Match records with the config's items; returns the number of records without an item. `places`
 * [sweep->count] */
static int match(struct sweep_status *sweep, struct dt_place *places, const struct record_set *set, const int *chosen, int chosen_count)
{
    int others = 0;
    for (int i = 0; i < sweep->count; i++)
        places[i] = (struct dt_place){key_of(sweep->items[i].experiment->hash), i};
    dt_places_sort(places, sweep->count);
    for (int i = 0; i < chosen_count; i++) {
        const struct record_facts *record = &set->records[chosen[i]];
        int found = dt_places_find(places, sweep->count, key_of(record->hash));
        if (found == sweep->count && record->experiment)
            found = dt_places_find(places, sweep->count, key_of(record->experiment->hash));
        struct sweep_item *item = found < sweep->count ? &sweep->items[places[found].at] : NULL;
        if (item && is_better(record, item->record))
            item->record = record;
        others += !item;
    }
    return others;
}

/* Take the config's experiments in the sweep's order; of equal ones only the first. */
static dt_status take_experiments(struct sweep_statuses *statuses, const struct experiment_list *experiments)
{
    struct sweep_status *sweep = statuses->sweeps;
    DT_ENDED(sweep_identity_finish) struct sweep_identity identity = {0};
    DT_TRY(sweep_identity_init(&identity, experiments));
    memcpy(sweep->id, identity.id, sizeof sweep->id);
    statuses->experiments = malloc(((size_t)identity.count + 1) * sizeof *statuses->experiments);
    DT_TRY(dt_allocated(statuses->experiments, "no memory for a sweep of %d experiments", identity.count));
    DT_TRY(new_items(sweep, identity.count));
    for (int i = experiments->count - 1; i >= 0; i--)
        sweep->items[identity.index[i]].experiment = &experiments->all[i];
    return DT_OK;
}

static dt_status find_of_config(const struct record_set *set, const int *chosen, int chosen_count,
                                const struct experiment_list *experiments, struct sweep_statuses *out)
{
    struct sweep_status *sweep = out->sweeps = calloc(1, sizeof *out->sweeps);
    DT_TRY(dt_allocated(sweep, "no memory for a sweep of %d experiments", experiments->count));
    out->count = 1;
    DT_TRY(take_experiments(out, experiments));
    DT_FREED struct dt_place *places = malloc(((size_t)sweep->count + 1) * sizeof *places);
    DT_TRY(dt_allocated(places, "no memory for a sweep of %d experiments", sweep->count));
    out->others = match(sweep, places, set, chosen, chosen_count);
    return complete(sweep);
}

/* Find a record's sweep, or add a new one. */
static dt_status sweep_of(struct sweep_statuses *out, const struct record_set *set, const int *chosen, int chosen_count,
                          const struct record_facts *record, struct sweep_status **found)
{
    for (int s = 0; s < out->count; s++) {
        *found = &out->sweeps[s];
        if (strcmp(out->sweeps[s].id, record->sweep.id) == 0)
            return DT_OK;
    }
    DT_TRY(dt_allocated(DT_ONE_MORE(out->sweeps, out->count), "no memory for %d sweeps", out->count + 1));
    *found = &out->sweeps[out->count++];
    **found = (struct sweep_status){0};
    snprintf((*found)->id, sizeof(*found)->id, "%.16s", record->sweep.id);
    int count = record->sweep.count;
    for (int i = 0; *record->sweep.id == 0 && i < chosen_count; i++)
        count += *set->records[chosen[i]].sweep.id == 0;
    return new_items(*found, count);
}

static dt_status find_of_records(const struct record_set *set, const int *chosen, int chosen_count, struct sweep_statuses *out)
{
    int alone = 0; /* number of records that name no sweep */
    for (int i = 0; i < chosen_count; i++) {
        const struct record_facts *record = &set->records[chosen[i]];
        struct sweep_status *sweep = NULL;
        DT_TRY(sweep_of(out, set, chosen, chosen_count, record, &sweep));
        int place = *record->sweep.id ? record->sweep.index : alone++;
        if (place >= sweep->count) /* the same id with another count: dtbench did not write this record */
            continue;
        struct sweep_item *item = &sweep->items[place];
        if (is_better(record, item->record)) {
            item->record = record;
            item->experiment = record->experiment;
        }
    }
    for (int s = 0; s < out->count; s++)
        DT_TRY(complete(&out->sweeps[s]));
    return DT_OK;
}

dt_status sweep_statuses_find(const struct record_set *set, const struct experiment_list *experiments, struct sweep_statuses *out)
{
    int chosen_count;
    DT_FREED int *chosen = malloc(((size_t)set->count + 1) * sizeof *chosen);
    *out = (struct sweep_statuses){0};
    DT_TRY(dt_allocated(chosen, "no memory for %d records", set->count));
    DT_TRY(record_set_newest(set, chosen, &chosen_count));
    return experiments ? find_of_config(set, chosen, chosen_count, experiments, out) : find_of_records(set, chosen, chosen_count, out);
}

void sweep_statuses_finish(struct sweep_statuses *statuses)
{
    for (int s = 0; s < statuses->count; s++)
        free(statuses->sweeps[s].items);
    free(statuses->sweeps);
    free(statuses->experiments);
    *statuses = (struct sweep_statuses){0};
}

/* ---- as JSON ---- */

static struct cJSON *item_as_json(const struct sweep_item *item, int index)
{
    const struct record_facts *record = item->record;
    const char *hash = record ? record->hash : item->experiment ? item->experiment->hash : "";
    return dt_json_object("index: %d, experiment: %p, config_hash: %p, state: %s, status: %p, error: %p, file: %p, took_s: %g, "
                          "expected_s: %g",
                          index, dt_json_known(item->label), dt_json_known(hash), sweep_state_name(item->state),
                          dt_json_known(record ? record->status : NULL), dt_json_known(record ? record->error : NULL),
                          dt_json_known(record ? record->file : NULL), item->took_s, item->expected_s);
}

static struct cJSON *sweep_as_json(const struct sweep_status *sweep)
{
    struct cJSON *items = dt_json_array();
    struct cJSON *object =
        dt_json_object("id: %p, name: %p, experiments: %d", dt_json_known(sweep->id), dt_json_known(sweep->name), sweep->count);
    for (int s = 0; s < STATE_COUNT; s++)
        dt_json_add(&object, "%s: %d", sweep_state_name((enum sweep_state)s), sweep->counts[s]);
    for (int i = 0; i < sweep->count; i++)
        dt_json_append(&items, item_as_json(&sweep->items[i], i));
    dt_json_add(&object, "time_left_s: %g, time_of_failed_s: %g, items: %p", sweep->left_s, sweep->failed_s, items);
    return object;
}

dt_status sweep_statuses_print_json(const struct sweep_statuses *statuses, FILE *to)
{
    struct cJSON *sweeps = dt_json_array();
    for (int s = 0; s < statuses->count; s++)
        dt_json_append(&sweeps, sweep_as_json(&statuses->sweeps[s]));
    return dt_json_write(dt_json_object("sweeps: %p, other_records: %d", sweeps, statuses->others), to);
}
