/* What a calibration measures: the shapes of kernels and the sizes of messages. */
#ifndef PREDICT_CALIBRATION_POINTS_H
#define PREDICT_CALIBRATION_POINTS_H

#include "lib/cost/measured.h"
#include "lib/model/model.h"
#include "lib/sim/cluster_measured.h"

enum { CALIBRATION_SIZES = 40, CALIBRATION_REPETITIONS = 100 };

/* Collectives by themselves, and nothing else: what dtbench bench asks for. */
struct calibration_bench {
    double bytes[CALIBRATION_SIZES]; /* [sizes] */
    int sizes;                       /* 0: it is none, but a calibration */
    bool kinds[DT_SIM_MESSAGE + 1];
    /* Groups of a mesh's axis, all of them at the same time: each has `group` ranks (0: all there are), each `stride` after the one before */
    int group, stride;
    int repetitions;
    bool product; /* also with a product beside, which takes about as long as the collective */
};

struct calibration_request {
    char device[8]; /* the kind of device: "cpu", whose ranks share the processors, or one of GPUs ("cuda") */
    bool kernels;   /* of GPUs: kernels and copies, too; ranks have a GPU each, so that one number of ranks tells all there is */
    bool dtypes[DT_DTYPE_COUNT]; /* which are measured */
    int threads;                 /* of a rank; 0: processors / ranks */
    bool quick;                  /* few, small shapes: for a look at the format, not for predictions */
    struct calibration_bench bench;
};

/* Do ranks share what computes: processors, not a GPU for each? */
bool calibration_shares(const struct calibration_request *request);

/* Whether kernels of the family are measured: it has a prober, and kernels for the device. */
bool calibration_measures(const struct calibration_request *request, const struct dt_model_family *family);
/* Kernel `index` of those that are measured of a family with a prober, as it numbers them; false past the last. ranks and threads are left alone. */
bool calibration_kernel(const struct calibration_request *request, const struct dt_model_family *family, int index,
                        struct dt_measured *out);
/* What a prober's pieces of memory are to have for all of these; for the quick ones, and the product below, the second suffices. */
size_t calibration_region_bytes(const struct calibration_request *request);
enum { CALIBRATION_QUICK_REGION_BYTES = 8 << 20 };
/* A product that collectives are measured beside: the largest of the quick ones of the first family that has a prober. False: there is none. */
bool calibration_product(const struct dt_model_family **out_family, struct dt_measured *out);
/* Collective or message `index` likewise: kind and bytes. */
bool calibration_collective(const struct calibration_request *request, int index, struct dt_sim_measured *out);
/* Measurements of kernels, and of collectives, by the number of groups at the same time (of one rank: 0). */
int calibration_count(const struct calibration_request *request, int groups);

#endif
