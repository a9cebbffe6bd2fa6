/* One kernel of a family at a time, to be timed for calibration. A probe has three memory regions; the kernel is queued as often as the caller
 * likes. The kernels are those of the device, as training uses them. */
#pragma once

#include "lib/cost/measured.h"
#include "lib/model/model.h"

/* A kernel, its variant, and numbers of its shape, all of whose combinations are measured. */
enum { DT_GRID_DIMS = 6 };
struct dt_grid {
    int kernel; /* the family's number */
    enum dt_variant variant;
    double rows[DT_GRID_DIMS], columns[DT_GRID_DIMS], inner[DT_GRID_DIMS]; /* each ends with 0; none: 1 */
};

enum dt_probe_region { DT_PROBE_INPUTS, DT_PROBE_WEIGHTS, DT_PROBE_OUTPUTS, DT_PROBE_REGIONS };

struct dt_probe {
    const struct dt_model_family *family;
    struct dt_device *device; /* the caller's */
    struct dt_stream *stream;
    struct dt_kernels *kernels; /* for the model; NULL before the first kernel */
    struct dt_model model;
    struct dt_measured what; /* the kernel that is timed: its number, variant, dtype and shape */
    struct dt_buffer regions[DT_PROBE_REGIONS];
    size_t used_bytes[DT_PROBE_REGIONS]; /* the family's */
};

/* What a family provides. */
struct dt_prober {
    const struct dt_grid *full, *quick; /* what is measured; the last entry has no rows. quick: few, small shapes */
    /* No region gets more bytes than this in one call. */
    double (*most_bytes)(const struct dt_measured *what);
    /* A model that has a kernel of this shape. */
    struct dt_model (*model_for)(const struct dt_measured *what);
    /* Before the first call of a kernel; optional. */
    dt_status (*prepare)(struct dt_probe *probe);
    /* Queue the kernel once. Errors: those of the kernel. */
    dt_status (*queue)(struct dt_probe *probe);
};

/* region_bytes: size of each memory region; shapes that need more are refused. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY,
 * DT_ERR_OOM. */
dt_status dt_probe_create(const struct dt_model_family *family, struct dt_device *device, size_t region_bytes, struct dt_probe **out);
void dt_probe_destroy(struct dt_probe *probe); /* takes NULL */
/* Choose the kernel to run. Errors: DT_ERR_INVALID if region_bytes do not suffice or the shape is invalid, DT_ERR_HOST_MEMORY, those of the
 * kernels. */
dt_status dt_probe_set(struct dt_probe *probe, const struct dt_measured *what);
/* Queue the kernel `times` times, and wait for it. Errors: those of the kernel. */
dt_status dt_probe_run(struct dt_probe *probe, int times);
