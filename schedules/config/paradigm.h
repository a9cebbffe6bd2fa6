/* Paradigms: how the work is divided over the ranks. Each is a row of one table, from which follow
 * the config's choices, `dtbench list`, the mesh, the data-parallel mode and what is checked. A new
 * one is a row here and its name in the enum. */
#pragma once

#include "lib/base/status.h"
#include "schedules/mesh/shape.h"

#include <stdbool.h>

struct experiment;

enum paradigm_kind {
    PARADIGM_NONE,
    PARADIGM_DDP,
    PARADIGM_PDP,
    PARADIGM_FSDP,
    PARADIGM_ZERO1,
    PARADIGM_ZERO2,
    PARADIGM_HSDP,
    PARADIGM_DATA_PARALLEL,
    PARADIGM_PARAMETER_SERVER,
    PARADIGM_COUNT
};

/* Groups of config keys that some paradigms read and others do not; a key's row has the same number
 * (dt_field.readers). */
enum paradigm_reads {
    READS_PIPELINE = 1,
    READS_BUCKETS = 2,
    READS_OVERLAP = 4,
    READS_UNITS = 8,
    READS_SHARD_GROUPS = 16,
    READS_SERVERS = 32,
    READS_SHARES = 64,
};

enum { PARADIGM_ROOM = 16 }; /* elements of arrays with one for each row, those of paradigm_more included */

/* What happens to a group of parameters around its forward, backward and update: each mode is a
 * file in schedules/data_parallel, which ends in its row (mode.h). */
struct dp_mode;
extern const struct dp_mode dp_none, dp_ddp, dp_zero1, dp_zero2, dp_fsdp, dp_data_parallel, dp_parameter_server;

struct paradigm {
    const char *name;          /* in configs and records */
    const char *title;         /* in papers */
    const char *const *abroad; /* its names in other projects' tables, compared without case; NULL at the end, or no list */
    const char *help;          /* a line, in `dtbench list` */
    bool of_the_past;          /* a search proposes it only on request */
    unsigned axes;             /* axes of the mesh; the others have one rank, unless the config adds them (schedules/config/strategy.h) */
    const char *no_pipeline;   /* why the paradigm cannot have a pipeline; NULL: it can */
    const struct dp_mode *mode;
    unsigned reads; /* bits of enum paradigm_reads */
    /* Memory of a rank for P parameters in a 16-bit type with Adam, for the documentation; N: ranks
     * in a shard group, S: stages. */
    struct {
        const char *parameters, *gradients, *optimizer;
    } bytes;
    /* Checks that involve several fields, or NULL. `where` begins the text. Errors: DT_ERR_INVALID,
     * DT_ERR_HOST_MEMORY. */
    dt_status (*check)(const struct experiment *experiment, const char *where);
};

/* Rows after dtbench's own, from PARADIGM_COUNT on; NULL past the last. dtbench has none. The
 * function is weak: a program that links dtbench and adds rows defines it again. */
const struct paradigm *paradigm_more(int index);

/* The row of a paradigm; NULL past the last. */
const struct paradigm *paradigm_of(enum paradigm_kind kind);
const char *paradigm_name(int kind); /* NULL past the last */
