/* Measuring a machine for the sim device: kernels by shape, copies, collectives by size, with as many ranks as experiments will have.
 *
 * Ranks of GPUs have one each: their kernels, and copies from and to the host, are timed on one rank alone, and beside each other they take
 * as long. What collectives take from kernels that run at the same time is not measured.
 *
 * Ranks of one machine share its processors, so one rank's kernel is timed twice: while the others rest, and while all of them do the same.
 * Every number is the median of several windows of a few milliseconds, each filled with as many calls as fit.
 *
 * Ranks that a launcher has started on several nodes measure collectives in groups (calibration_place.h) on one node and over several. A slow
 * network is given fewer repetitions, and of sizes that take long only the first: time grows with the bytes from there on. */
#ifndef PREDICT_CALIBRATION_H
#define PREDICT_CALIBRATION_H

#include "lib/comm/comm.h"
#include "predict/calibration_place.h"
#include "predict/calibration_points.h"

/* Of GPUs, a rank's own. */
struct calibration_gpu {
    char name[64];                       /* "": processors were measured */
    double memory_bytes, reserved_bytes; /* of the second, what context and libraries have taken */
    double peak_flops[DT_DTYPE_COUNT];   /* by the maker's sheet; 0: unknown */
    double copy_bytes_per_s, copy_s;     /* between host and device, the slower direction; and the shortest copy */
};

struct calibration_storage {
    double write_bytes_per_s, read_bytes_per_s; /* medians of a few rounds; 0: not measured */
};

/* One collective's times, of dtbench bench. */
struct calibration_times {
    int count;
    double alone_s[CALIBRATION_REPETITIONS];  /* [count] of rank 0 */
    double beside_s[CALIBRATION_REPETITIONS]; /* [count] of collective and product together; where there was one */
    double product_s;                         /* of the product alone, as often as it was computed beside; 0: there was none */
};

struct calibration {
    struct calibration_gpu gpu;
    char library[16]; /* of collectives: "Open MPI 4.1.4"; "" where one rank was measured alone */
    struct dt_measured_list kernels;
    struct dt_sim_measured_list collectives;
    struct calibration_times times[DT_SIM_MEASURED_MAX]; /* of each of the collectives, where a bench was asked for */
    struct calibration_place place;                      /* nodes 0: one, and as many ranks as were measured */
    struct calibration_storage storage;                  /* of the node that writes the files */
};

struct calibration_hooks {
    void *context;
    dt_status (*progress)(void *context, int done, int total); /* on every rank, after each measurement; failing ends it */
};

/* Collective over `comm`, whose ranks are `world`'s. *out is appended to, alike on all ranks. Errors: those of kernels and communicator,
 * DT_ERR_WORLD (calibration_place.h), DT_ERR_HOST_MEMORY, DT_ERR_INVALID where there is no more room in *out. */
dt_status calibration_run(const struct calibration_request *request, const struct dt_world *world, struct dt_device *device,
                          struct dt_comm *comm, const struct calibration_hooks *hooks, struct calibration *out);

/* Measure the storage that checkpoints go to: a file of 256 MiB (quick: 8) without a name in the folder is written and put onto the disk,
 * forgotten by the system, and read again, as checkpoints are: a few MB at a time, by one process. Where the system does not forget, as in a
 * folder in memory, reads are as fast as that. Errors: DT_ERR_IO, also where there is no room for it; DT_ERR_HOST_MEMORY. */
dt_status calibration_storage_measure(const char *folder, bool quick, struct calibration_storage *out);

/* The share of `processors` that ranks [ranks] kept busy, from 0.01 to 1: told[r] is rank r's processor time and its wall time, in seconds. */
double calibration_load(const double (*told)[2], int ranks, int processors);

/* What was reached by the fastest shape of a product, or of a copy, in one dtype beside a number of ranks. */
struct calibration_rate {
    int kernel; /* its number (lib/cost/priced.h) */
    const char *what;
    enum dt_dtype dtype;
    int ranks, threads;
    double per_s, together_per_s; /* operations; of a copy, bytes read and written. Together: while all ranks do the same */
    double ceiling_per_s;         /* by the maker's sheet; 0: unknown */
    bool in_bytes;
};

/* out [most]; returns how many there are. */
int calibration_rates(const struct calibration *calibration, struct calibration_rate *out, int most);

/* What is hidden of the shorter one where a collective and a product run at the same time: 1 if both together take as long as the longer. */
static inline double calibration_overlap(double collective_s, double product_s, double both_s)
{
    double shorter_s = collective_s < product_s ? collective_s : product_s;
    return (collective_s + product_s - both_s) / shorter_s;
}

/* The request and what was measured, between processes. Owner of the texts: the caller. Reading appends to *out. Errors: DT_ERR_INVALID,
 * DT_ERR_HOST_MEMORY. */
dt_status calibration_request_write(const struct calibration_request *request, char **out_text);
dt_status calibration_request_read(const char *text, struct calibration_request *out);
dt_status calibration_write(const struct calibration *calibration, char **out_text);
dt_status calibration_read(const char *text, struct calibration *out);

/* The files that device sim reads, as text: a cluster that is this machine, and the profile of dtbench itself on it. `source` says who
 * measured where and when. Owner: the caller. Errors: DT_ERR_INVALID without measurements, DT_ERR_HOST_MEMORY. */
dt_status calibration_cluster_text(const struct calibration *calibration, const char *source, char **out_text);
dt_status calibration_profile_text(const struct calibration *calibration, const char *source, char **out_text);

#endif
