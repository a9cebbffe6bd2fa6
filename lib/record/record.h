/* Records: one line of JSON for each experiment. Their format, their provenance, and files of such
 * lines. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/condition.h"
#include "lib/record/metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* provenance.gpu_conditions: the condition of the ranks' GPUs (lib/device/condition.h), as JSON. */

/* The conditions before and after the timed steps. */
struct dt_condition_pair {
    struct dt_device_condition before, after;
};

/* The conditions of `count` ranks, the first at `all`, each `stride` bytes after the previous one,
 * as a JSON array in one line; null for a GPU that reports nothing. Owner of *out: the caller,
 * free. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_conditions_write(const struct dt_condition_pair *all, size_t stride, int count, char **out);

/* Provenance, the origin of a number: machine, libraries, build, job. */

struct cJSON;
struct dt_slurm_facts;

/* A file that was used for a prediction. */
struct dt_provenance_file {
    const char *name; /* the name in the file; NULL: none */
    uint64_t hash;    /* FNV-1a of its bytes */
};

/* Facts that the caller knows and the operating system does not. Strings may be NULL: null in the
 * record. */
struct dt_provenance_facts {
    const char *device;         /* "cpu", "cuda", "sim" */
    const char *device_name;    /* name of the processor or GPU */
    int threads_per_rank;       /* 0: unknown */
    const char *hosts;          /* one machine on each line; NULL: only this machine */
    const char *gpus;           /* each rank's GPU by its unique identifier, one on each line; NULL: no GPUs */
    const char *gpu_conditions; /* a JSON array, one entry for each rank (lib/device/condition.h); NULL: unknown */
    const char *doubts;         /* why the machine may have been slower than it can be; NULL: no reason is known */
    const char *launcher;       /* "none", "torchrun", "mpirun", "srun" */
    const char *secret;         /* source of the ranks' secret: "variable", "file", "none" */
    const char *versions;       /* "oneDNN 2.6.3, OpenMP 4.5, Open MPI 4.1.4": the last
                                                   word of each part is its version */
    /* environment variables of the ranks that differ from this process's, as {"NAME": "value"} */
    const char *settings;
    const char *driver;                         /* the GPU driver's version */
    const char *graph;                          /* how a GPU's steps were queued: "replayed", "off", or the reason why not */
    const char *products;                       /* the library or unit that computed matrix products: "amx", "onednn" */
    const char *warpgroup_kernels;              /* the kernels for Hopper that were used: "attention, gelu gradient" */
    struct dt_provenance_file cluster, profile; /* of sim */
    struct {
        const char *transports, *network, *cards; /* "P2P/CUMEM, NET/IB", "IB", "mlx5_0:1/IB": word lists */
        const char *gpudirect;                    /* "all", "some", "none" of the connections between nodes use it */
        uint64_t registered_bytes;                /* bytes of a rank's memory that are registered with NCCL; 0: none */
    } network;                                    /* how NCCL connected the ranks */
    struct {
        struct dt_provenance_file file;   /* file with the algorithms of matrix products; no name: none was used */
        int products, decided, undecided; /* number of different products, and of those for which the file has an algorithm, and has none */
    } tuning;
    double started_s;                   /* Unix time of the run's start */
    const struct dt_slurm_facts *slurm; /* NULL: only what the variables contain */
};

/* The "provenance" object of a record: the facts, dtbench's version and git commit, host names,
 * kernel, processor, the Slurm job (null outside one), and the environment variables that change
 * results: OMP_*, GOMP_*, KMP_*, OMPI_MCA_*, UCX_*, NCCL_*, CUDA_*, CUBLAS*, NVIDIA_TF32_OVERRIDE,
 * DNNL_*, ONEDNN_*, DTBENCH_*, and Slurm's. No other variable is recorded. Owner: the caller,
 * dt_json_destroy. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_provenance_collect(const struct dt_provenance_facts *facts, struct cJSON **out);

/* "1.0.0", and the commit it was built from ("1a2b3c4d5e6f", "-dirty" after it
 * with local changes; "unknown" outside git). */
const char *dt_version(void);
const char *dt_git_commit(void);

/* Records: the results, one JSON object for each line ("JSON lines").
 *
 * A line is appended with one write() and one fsync under an advisory lock, so that neither a crash
 * nor a second writer can leave a mixture of two lines. A crash can leave an incomplete last line:
 * readers skip it, and the next append ends it with a newline first. */

struct dt_record_file;

enum { DT_RECORD_SCHEMA_VERSION = 1 };

/* One record before it is JSON. Unknown numbers are NaN, unknown pointers NULL: both become null.
 * The caller owns everything; it is only read. */
struct dt_record {
    const char *config_json; /* the resolved config, an object (experiment_to_json) */
    const char *config_hash;
    const char *sweep_id;         /* sweep that the experiment belongs to; NULL: none */
    int sweep_index, sweep_count; /* index in the sweep, from 0 */
    const char *status;           /* "ok", "oom", "invalid", "timeout", "failed", "interrupted" */
    const char *error;            /* one line; NULL when ok */
    const double *losses;         /* [loss_count] warm-up steps first */
    int loss_count;
    const double *learning_rates;               /* [loss_count] of the same steps; NULL: constant, as in the config */
    const char *losses_depend_on;               /* how the samples are divided, if losses depend on it; NULL: they do not */
    const double *gradient_norms, *loss_scales; /* [loss_count]; NULL: not requested, or the config's value in all steps */
    struct dt_metrics metrics;
    const double *step_s; /* [step_count] timed steps, seconds: metrics.step_s's list */
    int step_count;
    const struct dt_rank_memory *ranks; /* [rank_count] the lists of peak_bytes and host_peak_bytes */
    int rank_count;
    const char *verification;       /* "passed", "failed"; NULL: not requested */
    double verification_error;      /* the largest relative difference between the losses */
    int verified_losses;            /* number of first losses that were compared; -1: all */
    const struct cJSON *provenance; /* dt_provenance_collect */
};

/* A record with every number unknown, "failed". */
void dt_record_init(struct dt_record *record);

/* The record as one line without its newline. Owner: the caller, free. Errors: DT_ERR_INVALID for a
 * config_json that is not JSON, DT_ERR_HOST_MEMORY. */
dt_status dt_record_format(const struct dt_record *record, char **out_line);

/* Open `path` for appending ("-": standard output), and create it if necessary. Checks in advance
 * that lines can be written: the file must be writable, and its file system must have room for a
 * few more blocks; existing content is kept. Errors: DT_ERR_IO, naming path and cause. Owner: the
 * caller. */
dt_status dt_record_open(const char *path, struct dt_record_file **out);
/* Append one line. Errors: DT_ERR_IO; a partly written line is removed if the file allows it. */
dt_status dt_record_append(struct dt_record_file *file, const char *line);
void dt_record_close(struct dt_record_file *file); /* takes NULL */
DT_DESTROYS(dt_record_close, struct dt_record_file)

/* Visit the lines of a file in order, without reading all of it. Each line is passed with its
 * length, a NUL in place of its end, and its offset in the file. Empty lines are skipped. A file
 * that does not exist has no lines. The callee may change the text, which is valid until it
 * returns; any status other than DT_OK ends the visit. Errors: DT_ERR_IO, also for a line longer
 * than DT_RECORD_MAX_BYTES, which is three times the record of 65,536 ranks; DT_ERR_HOST_MEMORY,
 * and those of `use`. */
enum { DT_RECORD_MAX_BYTES = 128 << 20 };
typedef dt_status dt_line_use(void *context, char *line, size_t bytes, uint64_t offset);
dt_status dt_record_lines_visit(const char *path, dt_line_use *use, void *context);
