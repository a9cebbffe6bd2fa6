#include "cli/run/run.h"

#include "cli/records/records.h"
#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "predict/simulated_system.h"
#include "schedules/config/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A prediction stays valid as long as its cluster and profile are unchanged. */
static bool still_stands(const struct record_facts *record, const struct experiment *e)
{
    struct simulated_system *system;
    char cluster[17], profile[17], number[32];
    if (!experiment_is_simulated(e))
        return true;
    if (simulated_system_create(e, &system) < 0)
        return false;
    snprintf(cluster, sizeof cluster, "%016" PRIx64, system->cluster_file.hash);
    snprintf(profile, sizeof profile, "%016" PRIx64, system->profile_file.hash);
    simulated_system_destroy(system);
    return strcmp(record_provenance(record, "simulated.cluster", number), cluster) == 0 &&
           strcmp(record_provenance(record, "simulated.profile", number), profile) == 0;
}

static bool is_end(const struct record_facts *record, const struct resume_options *options)
{
    if (strcmp(record->status, "oom") == 0)
        return options->skip_oom;
    return record_is_ok(record) || (options->skip_failed && strcmp(record->status, "interrupted") != 0);
}

/* Keep the record for the table of results. */
static dt_status keep(struct sweep *s, const struct record_facts *record)
{
    DT_FREED char *line = NULL;
    int row;
    DT_TRY(dt_json_print(record->json, DT_JSON_COMPACT, &line));
    return results_add(s->results, line, &row);
}

/* Mark the runs that a record finishes: if it is ok, one round of its experiment; else all rounds,
 * because they would end in the same way. */
static dt_status take(struct sweep *s, const struct dt_place *places, const char *hash, const struct record_facts *record, bool *taken)
{
    int first = dt_places_find(places, s->count, dt_hash_fnv1a(hash, strlen(hash)));
    int end = dt_places_end(places, s->count, first);
    int its_round = -1; /* not yet known */
    for (int i = first; i < end; i++) {
        int at = places[i].at, round = at / s->distinct;
        const struct experiment *e = sweep_experiment(s, at);
        if (s->outcomes[at].skipped || (its_round >= 0 && round != its_round) || !still_stands(record, e))
            continue;
        s->outcomes[at].skipped = *taken = true;
        if (!record_is_ok(record))
            continue;
        its_round = round;
        DT_TRY(forecaster_add(&s->time.forecaster, e, record->metrics.step_s.median, record->metrics.startup_s, record->metrics.wall_s));
    }
    return DT_OK;
}

/* Match by a record's own hash, and by the hash that this version computes from its config: keys
 * added since change the hash but not the measured experiment. */
static dt_status take_all(struct sweep *s, const struct record_set *set, const struct resume_options *options, struct dt_place *places)
{
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = sweep_experiment(s, i);
        places[i] = (struct dt_place){dt_hash_fnv1a(e->hash, strlen(e->hash)), i};
    }
    dt_places_sort(places, s->count);
    for (int i = 0; i < set->count; i++) {
        const struct record_facts *record = &set->records[i];
        if (!is_end(record, options))
            continue;
        bool taken = false;
        DT_TRY(take(s, places, record->hash, record, &taken));
        if (record->experiment && strcmp(record->experiment->hash, record->hash) != 0)
            DT_TRY(take(s, places, record->experiment->hash, record, &taken));
        if (taken)
            DT_TRY(keep(s, record));
    }
    return DT_OK;
}

dt_status resume_find_finished(struct sweep *s, const char *path, const struct resume_options *options)
{
    DT_ENDED(record_set_finish) struct record_set set = {0};
    if (access(path, F_OK) != 0)
        return DT_OK;
    DT_FREED struct dt_place *places = malloc((size_t)s->count * sizeof *places);
    DT_TRY(places ? record_set_read(&set, "run", &path, 1)
                  : dt_fail(DT_ERR_HOST_MEMORY, "no memory for a sweep of %d experiments", s->count));
    return take_all(s, &set, options, places);
}

/* ---- scaling efficiency ---- */

/* The properties of an experiment that scaling uses. */
struct size {
    enum paradigm_kind paradigm;
    int world_size;
};

/* Similar experiments have the same key: the hash without the keys that scaling varies. */
static dt_status find_key(struct experiment e, enum paradigm_kind kind, uint64_t *key)
{
    e.world_size = 1;
    if (e.global_batch > 0)
        e.batch_size = e.global_batch;
    e.gpus_per_node = 0;
    e.paradigm = kind;
    experiment_settle(&e);
    DT_TRY(experiment_set_hash(&e));
    *key = dt_hash_fnv1a(e.hash, strlen(e.hash));
    return DT_OK;
}

/* places [count]: those of the paradigm, and the single rank. */
static dt_status find_places(const struct experiment_list *experiments, const struct size *sizes, enum paradigm_kind kind,
                             struct dt_place *places, int *count)
{
    *count = 0;
    for (int i = 0; i < experiments->count; i++) {
        bool alone = sizes[i].paradigm == PARADIGM_NONE && sizes[i].world_size == 1;
        if (sizes[i].paradigm != kind && !alone)
            continue;
        places[*count].at = i;
        DT_TRY(find_key(experiments->all[i], kind, &places[(*count)++].key));
    }
    dt_places_sort(places, *count);
    return DT_OK;
}

static void find_in_group(const struct dt_place *begin, const struct dt_place *end, const struct size *sizes, enum paradigm_kind kind,
                          int *fewest)
{
    int least = begin->at;
    bool several = false;
    for (const struct dt_place *p = begin; p < end; p++) {
        several |= sizes[p->at].world_size != sizes[begin->at].world_size;
        least = sizes[p->at].world_size < sizes[least].world_size ? p->at : least;
    }
    for (const struct dt_place *p = begin; p < end; p++) {
        bool has_least = sizes[p->at].world_size == sizes[least].world_size;
        if (sizes[p->at].paradigm == kind)
            fewest[p->at] = !several ? -1 : has_least ? p->at : least;
    }
}

dt_status scaling_find(const struct experiment_list *experiments, int *fewest)
{
    int count = experiments->count, found;
    DT_FREED struct size *sizes = malloc((size_t)count * sizeof *sizes);
    DT_FREED struct dt_place *places = malloc((size_t)count * sizeof *places);
    DT_TRY(dt_allocated(sizes && places, "no memory to compare %d experiments", count));
    for (int i = 0; i < count; i++)
        sizes[i] = (struct size){experiments->all[i].paradigm, experiments->all[i].world_size};
    for (int kind = 0; kind < PARADIGM_COUNT; kind++) {
        DT_TRY(find_places(experiments, sizes, (enum paradigm_kind)kind, places, &found));
        for (int begin = 0, end; begin < found; begin = end) {
            end = dt_places_end(places, found, begin);
            find_in_group(places + begin, places + end, sizes, (enum paradigm_kind)kind, fewest);
        }
    }
    return DT_OK;
}
