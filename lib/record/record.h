/* One line of JSON for each experiment: its format, where its numbers come from, and the files of such lines. */
#ifndef LIB_RECORD_RECORD_H
#define LIB_RECORD_RECORD_H

#include "lib/base/status.h"
#include "lib/device/condition.h"
#include "lib/record/metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* provenance.gpu_conditions: what the ranks' GPUs said of themselves (lib/device/condition.h), as JSON. */

/* Before and after the timed steps. */
struct dt_condition_pair {
    struct dt_device_condition before, after;
};

/* Those of `count` ranks, the first at `all`, each `stride` bytes after the one before, as a JSON array in one line; null for a GPU that says
 * nothing. Owner of *out: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_conditions_write(const struct dt_condition_pair *all, size_t stride, int count, char **out);

/* Where a number comes from: machine, libraries, build, job. */

struct cJSON;
struct dt_slurm_facts;

/* A file that a prediction was made with. */
struct dt_provenance_file {
    const char *name; /* what it calls itself; NULL: none */
    uint64_t hash;    /* FNV-1a of its bytes */
};

/* What the caller knows and the operating system does not. Strings may be
 * NULL: null in the record. */
struct dt_provenance_facts {
    const char *device;                         /* "cpu", "cuda", "sim" */
    const char *device_name;                    /* the processor's or GPU's own name */
    int threads_per_rank;                       /* 0: unknown */
    const char *hosts;                          /* one machine a line; NULL: this machine alone */
    const char *gpus;                           /* each rank's GPU by its own number, one a line; NULL: they have none */
    const char *gpu_conditions;                 /* an array of JSON, each rank's (lib/device/condition.h); NULL: unknown */
    const char *doubts;                         /* why the machine may not have done what it can; NULL: nothing is known */
    const char *launcher;                       /* "none", "torchrun", "mpirun", "srun" */
    const char *secret;                         /* where the ranks' secret came from: "variable", "file", "none" */
    const char *versions;                       /* "oneDNN 2.6.3, OpenMP 4.5, Open MPI 4.1.4": the last
                                                   word of each part is its version */
    const char *settings;                       /* environment variables of the ranks that are not this
                                                   process's, as {"NAME": "value"} */
    const char *driver;                         /* the GPU driver's version */
    const char *graph;                          /* how a GPU's steps were queued: "replayed", "off", or why not */
    const char *products;                       /* what computed matrix products: "amx", "onednn" */
    struct dt_provenance_file cluster, profile; /* sim's */
    struct {
        const char *transports, *network, *cards; /* "P2P/CUMEM, NET/IB", "IB", "mlx5_0:1/IB": lists of words */
        const char *gpudirect;                    /* "all", "some", "none" of the connections between nodes */
        uint64_t registered_bytes;                /* of a rank's memory; 0: none is registered with NCCL */
    } network;                                    /* how NCCL connected the ranks */
    struct {
        struct dt_provenance_file file;   /* which says what algorithms compute products; no name: none was used */
        int products, decided, undecided; /* how many differ, how many it decides, and how many it does not know */
    } tuning;
    double started_s;                   /* Unix time of the run's start */
    const struct dt_slurm_facts *slurm; /* NULL: what the variables contain */
};

/* The "provenance" object of a record: the facts, dtbench's version and git
 * commit, host names, kernel, processor, the Slurm job (null outside one), and
 * the environment variables that change results: OMP_*, GOMP_*, KMP_*,
 * OMPI_MCA_*, UCX_*, NCCL_*, CUDA_*, CUBLAS*, NVIDIA_TF32_OVERRIDE, DNNL_*,
 * ONEDNN_*, DTBENCH_*, and Slurm's. Nothing else of the environment is
 * recorded. Owner: the caller, dt_json_destroy. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_provenance_collect(const struct dt_provenance_facts *facts, struct cJSON **out);

/* "1.0.0", and the commit it was built from ("1a2b3c4d5e6f", "-dirty" after it
 * with local changes; "unknown" outside git). */
const char *dt_version(void);
const char *dt_git_commit(void);

/* Records: the results, one JSON object a line ("JSON lines").
 *
 * A line is appended with one write() and one fsync under an advisory lock, so that neither a crash nor a second writer can leave a mixture
 * of two lines. What a crash can leave is a torn last line: readers skip it, and the next append ends it with a newline first. */

struct dt_record_file;

enum { DT_RECORD_SCHEMA_VERSION = 1 };

/* One record before it is JSON. Unknown numbers are NaN, unknown pointers NULL: both become null. All of it is the caller's, and only
 * read. */
struct dt_record {
    const char *config_json; /* the resolved config, an object (experiment_to_json) */
    const char *config_hash;
    const char *sweep_id;         /* which sweep the experiment is part of; NULL: of none */
    int sweep_index, sweep_count; /* its place in it, from 0 */
    const char *status;           /* "ok", "oom", "invalid", "timeout", "failed", "interrupted" */
    const char *error;            /* one line; NULL when ok */
    const double *losses;         /* [loss_count] warm-up steps first */
    int loss_count;
    const double *learning_rates;               /* [loss_count] of the same steps; NULL: the same in all of them, as the config says */
    const char *losses_depend_on;               /* of how the samples are divided; NULL: on nothing of that kind */
    const double *gradient_norms, *loss_scales; /* [loss_count]; NULL: not requested, or the config's in all steps */
    struct dt_metrics metrics;
    const double *step_s; /* [step_count] timed steps, seconds: metrics.step_s's list */
    int step_count;
    const struct dt_rank_memory *ranks; /* [rank_count] the lists of peak_bytes and host_peak_bytes */
    int rank_count;
    const char *verification;       /* "passed", "failed"; NULL: not asked for */
    double verification_error;      /* the largest relative difference between the losses */
    int verified_losses;            /* how many of the first ones were compared; -1: all */
    const struct cJSON *provenance; /* dt_provenance_collect */
};

/* A record with every number unknown, "failed". */
void dt_record_init(struct dt_record *record);

/* The record as one line without its newline. Owner: the caller, free. Errors: DT_ERR_INVALID for a config_json that is not JSON,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_record_format(const struct dt_record *record, char **out_line);

/* Open `path` for appending ("-": standard output), creating it. Checks in advance that lines can
 * be written: the file must be writable, and its file system must have room for a few more blocks;
 * existing content stays. Errors: DT_ERR_IO, naming path and cause. Owner: the caller. */
dt_status dt_record_open(const char *path, struct dt_record_file **out);
/* Append one line. Errors: DT_ERR_IO; a part that got written is taken back where the file allows it. */
dt_status dt_record_append(struct dt_record_file *file, const char *line);
void dt_record_close(struct dt_record_file *file); /* takes NULL */

/* The lines of a file one after another, without reading all of it: each with its length, a NUL in place of its end, and where it begins in the
 * file. Empty lines are left out. A file that does not exist has none. The text is the callee's to change, until it returns; what is not DT_OK
 * ends the visit. Errors: DT_ERR_IO, also of a line past DT_RECORD_MAX_BYTES, which is three times the record of 65,536 ranks;
 * DT_ERR_HOST_MEMORY, and those of `use`. */
enum { DT_RECORD_MAX_BYTES = 128 << 20 };
typedef dt_status dt_line_use(void *context, char *line, size_t bytes, uint64_t offset);
dt_status dt_record_lines_visit(const char *path, dt_line_use *use, void *context);

#endif
