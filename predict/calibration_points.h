/* What a calibration measures: the shapes of kernels and the sizes of messages. */
#pragma once

#include "lib/cost/measured.h"
#include "lib/model/model.h"
#include "lib/sim/cluster_measured.h"

enum { CALIBRATION_SIZES = 40, CALIBRATION_REPETITIONS = 100 };

/* Only collectives are measured: the request of dtbench bench. */
struct calibration_bench {
    double bytes[CALIBRATION_SIZES]; /* [sizes] */
    int sizes;                       /* 0: this is a calibration, no bench */
    bool kinds[DT_SIM_MESSAGE + 1];
    /* Groups of a mesh's axis, all of them at the same time: each has `group` ranks (0: all there
     * are), at a distance of `stride` in the world */
    int group, stride;
    int repetitions;
    bool product; /* also with a concurrent product that takes about as long as the collective */
};

struct calibration_request {
    char device[8];              /* the kind of device: "cpu", whose ranks share the processors, or one of GPUs ("cuda") */
    bool kernels;                /* for GPUs: also kernels and copies; each rank has a GPU, so one number of ranks suffices */
    bool dtypes[DT_DTYPE_COUNT]; /* which dtypes are measured */
    int threads;                 /* of a rank; 0: processors / ranks */
    bool quick;                  /* few, small shapes: shows the format, but is not for predictions */
    struct calibration_bench bench;
};

/* Whether ranks share processors, instead of having a GPU each. */
bool calibration_shares(const struct calibration_request *request);

/* Whether kernels of the family are measured: it must have a prober, and kernels for the device. */
bool calibration_measures(const struct calibration_request *request, const struct dt_model_family *family);
/* Measured kernel `index` of a family with a prober; false past the last. Sets the kernel's number
 * and shape, but not ranks and threads. */
bool calibration_kernel(const struct calibration_request *request, const struct dt_model_family *family, int index,
                        struct dt_measured *out);
/* Bytes of each memory region that a prober needs for all of these kernels; the region of the
 * second smaller request suffices for quick ones and for the product below. */
size_t calibration_region_bytes(const struct calibration_request *request);
enum { CALIBRATION_QUICK_REGION_BYTES = 8 << 20 };
/* The product that runs concurrently with collectives: the largest quick one of the first family
 * that has a prober. False: there is none. */
bool calibration_product(const struct dt_model_family **out_family, struct dt_measured *out);
/* Collective or message `index`: its kind and bytes; false past the last. */
bool calibration_collective(const struct calibration_request *request, int index, struct dt_sim_measured *out);
/* Number of measurements of kernels, and of collectives with this number of groups at the same time
 * (one rank: 0). */
int calibration_count(const struct calibration_request *request, int groups);
