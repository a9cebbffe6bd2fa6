/* slurm_load_job and slurm_load_partitions: the calls that need Slurm's header. */
#include "lib/slurm/release.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void answer_text(const char *key, const char *value)
{
    if (value && *value && !strchr(value, '\n'))
        printf("%s %s\n", key, value);
}

static void answer_minutes(const char *key, uint32_t minutes)
{
    if (minutes == INFINITE)
        printf("%s unlimited\n", key);
    else if (minutes != NO_VAL)
        printf("%s %u\n", key, (unsigned)minutes);
}

static void answer_partition(void *library, const char *name)
{
    int (*load)(time_t, partition_info_msg_t **, uint16_t) =
        (int (*)(time_t, partition_info_msg_t **, uint16_t))dlsym(library, "slurm_load_partitions");
    partition_info_msg_t *found = NULL;
    if (!load || !name || load(0, &found, SHOW_ALL) != 0 || !found)
        return;
    for (uint32_t i = 0; i < found->record_count; i++) {
        const partition_info_t *partition = &found->partition_array[i];
        if (!partition->name || strcmp(partition->name, name) != 0)
            continue;
        printf("partition_nodes %u\n", (unsigned)partition->total_nodes);
        answer_minutes("partition_time_limit_min", partition->max_time);
    }
}

void dt_slurm_job_answer(void *library, const struct dt_slurm_release *release, uint32_t job_id)
{
    int (*load)(job_info_msg_t **, uint32_t, uint16_t) = (int (*)(job_info_msg_t **, uint32_t, uint16_t))dlsym(library, "slurm_load_job");
    job_info_msg_t *found = NULL;
    bool same = release == dt_slurm_release_of_date(SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER), SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER));
    if (!same || !load || load(&found, job_id, SHOW_DETAIL) != 0 || !found || found->record_count < 1)
        return;
    const slurm_job_info_t *job = &found->job_array[0];
    answer_text("partition", job->partition);
    answer_text("account", job->account);
    answer_text("qos", job->qos);
    answer_text("reservation", job->resv_name);
    answer_text("resources", job->tres_alloc_str);
    answer_minutes("time_limit_min", job->time_limit);
    printf("restarts %u\n", (unsigned)job->restart_cnt);
    /* the scheduler's term for whole nodes, as requested or as allocated */
    printf("exclusive %s\n", job->shared == JOB_SHARED_NONE ? "yes" : "no");
    fflush(stdout);
    answer_partition(library, job->partition);
    fflush(stdout);
}
