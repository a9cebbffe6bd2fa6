/* Facts about the Slurm job that this process is part of.
 *
 * Environment variables contain most of them. libslurm knows the rest (when the job ends, what was
 * allocated, what the partition allows), but a benchmark should not link it: it is GPL, its
 * slurm_init() ends a process that has no configuration, and calls to a missing controller block
 * for a minute. Therefore a helper process loads it at run time, writes facts to a pipe, line by
 * line, and is killed when it takes too long. Facts that it has not written by then are taken from
 * the variables, or are unknown. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>

/* One fact: its key in records and in the helper's answer, and the variable to use if the helper
 * does not give it (NULL: none). */
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
    DT_SLURM_NODE_NAMES, /* the full node list, separated by blanks; expanded by the parser of lib/launch/world.c if libslurm is missing */
    DT_SLURM_ARRAY_JOB_ID,
    DT_SLURM_ARRAY_TASK_ID,
    DT_SLURM_RESTARTS, /* number of times that the job was requeued */
    DT_SLURM_ACCOUNT,
    DT_SLURM_QOS,
    DT_SLURM_RESERVATION,
    DT_SLURM_GPUS_ON_NODE, /* on this process's node, of the step; the others: as requested, and by their numbers on the node */
    DT_SLURM_GPUS_PER_NODE,
    DT_SLURM_STEP_GPUS,
    DT_SLURM_JOB_GPUS,
    DT_SLURM_RESOURCES,  /* "cpu=4,mem=2000M,node=2,gres/gpu=4" */
    DT_SLURM_EXCLUSIVE,  /* "yes" or "no": may other jobs share the nodes */
    DT_SLURM_TIME_LIMIT, /* minutes, or "unlimited" */
    DT_SLURM_END_TIME,   /* Unix seconds */
    DT_SLURM_PARTITION_NODES,
    DT_SLURM_PARTITION_TIME_LIMIT, /* minutes, or "unlimited" */
    DT_SLURM_LIBRARY,              /* "Slurm 22.05": the library that answered; unknown: it could not be loaded */
    DT_SLURM_KEYS
};

const struct dt_slurm_fact *dt_slurm_fact(enum dt_slurm_key key);

struct dt_slurm_facts {
    char *values[DT_SLURM_KEYS]; /* NULL: unknown; owned */
};

/* Is this process part of a job? From SLURM_JOB_ID. */
bool dt_slurm_in_job(void);

/* GPUs that Slurm gave the job, or this step of it, on this node (SLURM_GPUS_ON_NODE); 0:
 * unknown. */
int dt_slurm_gpus_on_node(void);

/* Collect facts. helper: argument vector, NULL-terminated, as for posix_spawnp; NULL: variables
 * only. It may take `deadline_s` seconds; its failures are not errors. Outside a job everything is
 * unknown and nothing is started. The caller calls dt_slurm_facts_finish. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status dt_slurm_facts_collect(const char *const helper[], double deadline_s, struct dt_slurm_facts *out);
void dt_slurm_facts_finish(struct dt_slurm_facts *facts);

/* Seconds until the job's time limit; NaN: unknown or no limit. */
double dt_slurm_seconds_left(const struct dt_slurm_facts *facts);
