#include "cli/run/resume.h"

#include "cli/records/record_set.h"
#include "schedules/predict/simulated_system.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A record's own hash, or the one that this version gives its config: keys that have come since change the one and not what was measured.
 */
static bool is_of(const struct record_facts *record, const struct experiment *e)
{
    return strcmp(record->hash, e->hash) == 0 || (record->experiment && strcmp(record->experiment->hash, e->hash) == 0);
}

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

static dt_status take(struct sweep *s, const struct record_facts *record, const struct resume_options *options)
{
    bool ok = record_is_ok(record), finished = is_end(record, options);
    struct experiment own;
    for (int i = 0; finished && i < s->count; i++) {
        const struct experiment *e = experiment_list_get(s->experiments, i, &own);
        if (!is_of(record, e) || !still_stands(record, e))
            continue;
        s->outcomes[i].skipped = true;
        if (ok)
            DT_TRY(sweep_time_learn(&s->time, e, record->metrics.step_s.median, record->metrics.startup_s, record->metrics.wall_s));
    }
    return DT_OK;
}

dt_status resume_find_finished(struct sweep *s, const char *path, const struct resume_options *options)
{
    struct record_set set = {0};
    if (access(path, F_OK) != 0)
        return DT_OK;
    dt_status status = record_set_read(&set, "run", &path, 1);
    for (int i = 0; status == DT_OK && i < set.count; i++)
        status = take(s, &set.records[i], options);
    record_set_finish(&set);
    return status;
}
