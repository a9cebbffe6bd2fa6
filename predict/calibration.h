/* Measuring a machine for the sim device: kernels by shape, copies, collectives by size, with as
 * many ranks as experiments will have.
 *
 * Each GPU rank has its own GPU: kernels, and copies from and to the host, are timed on one rank
 * alone, and are taken to be as fast when all ranks run them. How much collectives slow down
 * concurrent kernels is not measured.
 *
 * Ranks of one machine share its processors, so a kernel is timed twice: while the other ranks
 * rest, and while all ranks run it. Every number is the median of several windows of a few
 * milliseconds, each filled with as many calls as fit.
 *
 * Ranks that a launcher has started on several nodes measure collectives in groups
 * (calibration_place.h) on one node and over several. On a slow network there are fewer
 * repetitions, and only the first of the sizes that take long is measured: from there on time is
 * proportional to bytes. */
#pragma once

#include "lib/comm/comm.h"
#include "predict/calibration_place.h"
#include "predict/calibration_points.h"

/* The GPU of a rank. */
struct calibration_gpu {
    char name[64];                       /* "": processors were measured, no GPU */
    double memory_bytes, reserved_bytes; /* reserved: taken by context and libraries */
    double peak_flops[DT_DTYPE_COUNT];   /* from the maker's data sheet; 0: unknown */
    double copy_bytes_per_s, copy_s;     /* between host and device, in the slower direction; copy_s: the shortest copy */
};

struct calibration_storage {
    double write_bytes_per_s, read_bytes_per_s; /* medians of a few rounds; 0: not measured */
};

/* Times of one collective, for dtbench bench. */
struct calibration_times {
    int count;
    double alone_s[CALIBRATION_REPETITIONS];  /* [count] of rank 0 */
    double beside_s[CALIBRATION_REPETITIONS]; /* [count] of collective and concurrent product; if there was one */
    double product_s;                         /* of the product alone, repeated as often as with the collective; 0: no product */
};

struct calibration {
    struct calibration_gpu gpu;
    char library[16]; /* for collectives: "Open MPI 4.1.4"; "" if only one rank was measured */
    struct dt_measured_list kernels;
    struct dt_sim_measured_list collectives;
    struct calibration_times times[DT_SIM_MEASURED_MAX]; /* of each collective, if a bench was requested */
    struct calibration_place place;                      /* nodes 0: one node, with as many ranks as were measured */
    struct calibration_storage storage;                  /* of the node that writes the files */
};

struct calibration_hooks {
    void *context;
    dt_status (*progress)(void *context, int done, int total); /* on every rank, after each measurement; an error ends the calibration */
};

/* Collective over `comm`, whose ranks are `world`'s. Appends to *out, the same on all ranks.
 * Errors: those of kernels and communicator, DT_ERR_WORLD (calibration_place.h),
 * DT_ERR_HOST_MEMORY, DT_ERR_INVALID if *out has no more room. */
dt_status calibration_run(const struct calibration_request *request, const struct dt_world *world, struct dt_device *device,
                          struct dt_comm *comm, const struct calibration_hooks *hooks, struct calibration *out);

/* Measure the storage for checkpoints. A nameless file of 256 MiB (quick: 8) in the folder is
 * written to the disk, dropped from the system's cache, and read again, as checkpoints are: a few
 * MB at a time, by one process. If the cache cannot be dropped, as for a folder in memory, reads
 * are from memory. Errors: DT_ERR_IO, also if there is no room for the file; DT_ERR_HOST_MEMORY. */
dt_status calibration_storage_measure(const char *folder, bool quick, struct calibration_storage *out);

/* The share of `processors` that ranks [ranks] kept busy, from 0.01 to 1: told[r]: rank r's
 * processor time and wall time, in seconds. */
double calibration_load(const double (*told)[2], int ranks, int processors);

/* The hidden part of the shorter one if a collective and a product run at the same time: 1 if both
 * together take as long as the longer one. */
static inline double calibration_overlap(double collective_s, double product_s, double both_s)
{
    double shorter_s = collective_s < product_s ? collective_s : product_s;
    return (collective_s + product_s - both_s) / shorter_s;
}

/* The request and the measurements as text, to be sent between processes. Owner of the texts: the
 * caller. Reading appends to *out. Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status calibration_request_write(const struct calibration_request *request, char **out_text);
dt_status calibration_request_read(const char *text, struct calibration_request *out);
dt_status calibration_write(const struct calibration *calibration, char **out_text);
dt_status calibration_read(const char *text, struct calibration *out);

/* The files that device sim reads, as text: a cluster that is this machine, and the profile of
 * dtbench itself on it. `source`: who measured where and when. Owner: the caller. Errors:
 * DT_ERR_INVALID without measurements, DT_ERR_HOST_MEMORY. */
dt_status calibration_cluster_text(const struct calibration *calibration, const char *source, char **out_text);
dt_status calibration_profile_text(const struct calibration *calibration, const char *source, char **out_text);
