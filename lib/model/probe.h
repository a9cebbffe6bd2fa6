/* A probe times one kernel of a family at a time, for calibration. It has three memory regions, and
 * queues the kernel as often as the caller asks. The kernels are those that training uses on the
 * device. */
#pragma once

#include "lib/cost/measured.h"
#include "lib/model/model.h"

/* A kernel, its variant, and numbers of its shape, all of whose combinations are measured. */
enum { DT_GRID_DIMS = 6 };
struct dt_grid {
    int kernel; /* the family's number */
    enum dt_variant variant;
    double rows[DT_GRID_DIMS], columns[DT_GRID_DIMS], inner[DT_GRID_DIMS]; /* each ends with 0; unused: 1 */
};

enum dt_probe_region { DT_PROBE_INPUTS, DT_PROBE_WEIGHTS, DT_PROBE_OUTPUTS, DT_PROBE_REGIONS };

struct dt_probe {
    const struct dt_model_family *family;
    struct dt_device *device; /* the caller's */
    struct dt_stream *stream;
    struct dt_kernels *kernels; /* for the model; NULL before the first kernel */
    struct dt_model model;
    struct dt_measured what; /* the kernel to time: its number, variant, dtype and shape */
    struct dt_buffer regions[DT_PROBE_REGIONS];
    size_t used_bytes[DT_PROBE_REGIONS]; /* the family's */
};

/* The part of a probe that a family provides. */
struct dt_prober {
    const struct dt_grid *full, *quick; /* the kernels to measure; the last entry has no rows. quick: few, small shapes */
    /* The most bytes of any region that one call uses. */
    double (*most_bytes)(const struct dt_measured *what);
    /* A model that has a kernel of this shape. */
    struct dt_model (*model_for)(const struct dt_measured *what);
    /* Called before the first call of a kernel; optional. */
    dt_status (*prepare)(struct dt_probe *probe);
    /* Queue the kernel once. Errors: those of the kernel. */
    dt_status (*queue)(struct dt_probe *probe);
};

/* region_bytes: size of each memory region; shapes that need more are refused. Owner of *out: the
 * caller. Errors: DT_ERR_HOST_MEMORY, DT_ERR_OOM. */
dt_status dt_probe_create(const struct dt_model_family *family, struct dt_device *device, size_t region_bytes, struct dt_probe **out);
void dt_probe_destroy(struct dt_probe *probe); /* takes NULL */
DT_DESTROYS(dt_probe_destroy, struct dt_probe)
/* Choose the kernel to run. Errors: DT_ERR_INVALID if region_bytes are too few or the shape is
 * invalid, DT_ERR_HOST_MEMORY, those of the kernels. */
dt_status dt_probe_set(struct dt_probe *probe, const struct dt_measured *what);
/* Queue the kernel `times` times, and wait for it. Errors: those of the kernel. */
dt_status dt_probe_run(struct dt_probe *probe, int times);
