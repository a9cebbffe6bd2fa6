/* What is known of the Slurm job that this process is part of.
 *
 * Variables contain most of it. libslurm knows the rest (when the job ends, what was allocated, what the partition allows), but is no
 * library to have in a benchmark: it is GPL, its slurm_init() ends a process that has no configuration, and calls to a controller that is
 * not there block for a minute. So it is loaded at run time by a helper process, which writes what it learns to a pipe, line by line, and
 * is killed when it takes too long. What it had not written by then is taken from the variables, or is unknown. */
#ifndef LIB_SLURM_FACTS_H
#define LIB_SLURM_FACTS_H

#include "lib/base/status.h"

#include <stdbool.h>

/* One fact: its key in records and in the helper's answer, and the variable that has it where the helper gives none (NULL: no variable). */
struct dt_slurm_fact {
    const char *key, *variable;
};

enum dt_slurm_key {
    DT_SLURM_JOB_ID,
    DT_SLURM_STEP_ID,
    DT_SLURM_JOB_NAME,
    DT_SLURM_CLUSTER,
    DT_SLURM_PARTITION,
    DT_SLURM_NODES,
    DT_SLURM_NODE_LIST,
    DT_SLURM_TASKS,
    DT_SLURM_NODE_NAMES, /* the node list in full, with blanks between; by the parser of lib/launch/world.c where libslurm is missing */
    DT_SLURM_ARRAY_JOB_ID,
    DT_SLURM_ARRAY_TASK_ID,
    DT_SLURM_RESTARTS, /* how often the job was requeued */
    DT_SLURM_ACCOUNT,
    DT_SLURM_QOS,
    DT_SLURM_RESERVATION,
    DT_SLURM_GPUS_ON_NODE, /* on this process's node, the step's; the rest as asked for, and by their numbers on the node */
    DT_SLURM_GPUS_PER_NODE,
    DT_SLURM_STEP_GPUS,
    DT_SLURM_JOB_GPUS,
    DT_SLURM_RESOURCES,  /* "cpu=4,mem=2000M,node=2,gres/gpu=4" */
    DT_SLURM_EXCLUSIVE,  /* "yes" or "no": may other jobs share the nodes */
    DT_SLURM_TIME_LIMIT, /* minutes, or "unlimited" */
    DT_SLURM_END_TIME,   /* Unix seconds */
    DT_SLURM_PARTITION_NODES,
    DT_SLURM_PARTITION_TIME_LIMIT, /* minutes, or "unlimited" */
    DT_SLURM_LIBRARY,              /* "Slurm 22.05": libslurm was asked; unknown: it could not be loaded */
    DT_SLURM_KEYS
};

const struct dt_slurm_fact *dt_slurm_fact(enum dt_slurm_key key);

struct dt_slurm_facts {
    char *values[DT_SLURM_KEYS]; /* NULL: unknown; owned */
};

/* Is this process part of a job? From SLURM_JOB_ID. */
bool dt_slurm_in_job(void);

/* GPUs that Slurm gave the job, or this step of it, on this node (SLURM_GPUS_ON_NODE); 0: unknown. */
int dt_slurm_gpus_on_node(void);

/* Collect, with `helper` (an argument vector, NULL-terminated, as for posix_spawnp; NULL: variables only), which is given `deadline_s`
 * seconds. Nothing that the helper does or suffers is an error. Outside a job everything is unknown and nothing is started. The caller
 * calls dt_slurm_facts_finish. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_slurm_facts_collect(const char *const helper[], double deadline_s, struct dt_slurm_facts *out);
void dt_slurm_facts_finish(struct dt_slurm_facts *facts);

/* Seconds until the job's time limit; NaN: unknown or without end. */
double dt_slurm_seconds_left(const struct dt_slurm_facts *facts);

#endif
