#include "cli/run/resume.h"

#include "cli/records/record_set.h"
#include "lib/base/places.h"
#include "lib/config/json.h"
#include "schedules/predict/simulated_system.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A prediction stands as long as its cluster and profile do. */
static bool still_stands(const struct record_facts *record, const struct experiment *e)
{
    struct simulated_system *system;
    char cluster[17], profile[17];
    if (!experiment_is_simulated(e))
        return true;
    if (simulated_system_create(e, &system) < 0)
        return false;
    snprintf(cluster, sizeof cluster, "%016" PRIx64, system->cluster_file.hash);
    snprintf(profile, sizeof profile, "%016" PRIx64, system->profile_file.hash);
    simulated_system_destroy(system);
    return strcmp(record_simulated_hash(record, "cluster"), cluster) == 0 && strcmp(record_simulated_hash(record, "profile"), profile) == 0;
}

static bool is_end(const struct record_facts *record, const struct resume_options *options)
{
    if (strcmp(record->status, "oom") == 0)
        return options->skip_oom;
    return record_is_ok(record) || (options->skip_failed && strcmp(record->status, "interrupted") != 0);
}

/* The runs that a record is the end of: where it is ok, those of its experiment in one round; else in all, for they would end alike. */
static dt_status take(struct sweep *s, const struct dt_place *places, const char *hash, const struct record_facts *record)
{
    struct experiment own;
    int first = dt_places_find(places, s->count, dt_hash_fnv1a(hash, strlen(hash)));
    int end = dt_places_end(places, s->count, first);
    int its_round = -1; /* not yet known */
    for (int i = first; i < end; i++) {
        int at = places[i].at, round = at / s->distinct;
        const struct experiment *e = sweep_experiment(s, at, &own);
        if (s->outcomes[at].skipped || (its_round >= 0 && round != its_round) || !still_stands(record, e))
            continue;
        s->outcomes[at].skipped = true;
        if (!record_is_ok(record))
            continue;
        its_round = round;
        DT_TRY(sweep_time_learn(&s->time, e, record->metrics.step_s.median, record->metrics.startup_s, record->metrics.wall_s));
    }
    return DT_OK;
}

/* By a record's own hash, and by the one that this version gives its config: keys that have come since change the one and not what was
 * measured. */
static dt_status take_all(struct sweep *s, const struct record_set *set, const struct resume_options *options, struct dt_place *places)
{
    struct experiment e;
    for (int i = 0; i < s->count; i++) {
        sweep_experiment(s, i, &e);
        places[i] = (struct dt_place){dt_hash_fnv1a(e.hash, strlen(e.hash)), i};
    }
    dt_places_sort(places, s->count);
    for (int i = 0; i < set->count; i++) {
        const struct record_facts *record = &set->records[i];
        if (!is_end(record, options))
            continue;
        DT_TRY(take(s, places, record->hash, record));
        if (record->experiment && strcmp(record->experiment->hash, record->hash) != 0)
            DT_TRY(take(s, places, record->experiment->hash, record));
    }
    return DT_OK;
}

dt_status resume_find_finished(struct sweep *s, const char *path, const struct resume_options *options)
{
    struct record_set set = {0};
    if (access(path, F_OK) != 0)
        return DT_OK;
    struct dt_place *places = malloc((size_t)s->count * sizeof *places);
    dt_status status =
        places ? record_set_read(&set, "run", &path, 1) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for a sweep of %d experiments", s->count);
    if (status == DT_OK)
        status = take_all(s, &set, options, places);
    free(places);
    record_set_finish(&set);
    return status;
}
