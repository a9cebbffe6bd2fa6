/* Where a number comes from: machine, libraries, build, job. */
#ifndef LIB_RECORD_PROVENANCE_H
#define LIB_RECORD_PROVENANCE_H

#include "lib/base/status.h"

#include <stdint.h>

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

/* "0.1.0", and the commit it was built from ("1a2b3c4d5e6f", "-dirty" behind it
 * with local changes; "unknown" outside git). */
const char *dt_version(void);
const char *dt_git_commit(void);

#endif
