/* The kernels whose costs are in profiles, by number: the shared ones, then those of each family of
 * models. */
#pragma once

#include "lib/base/status.h"
#include "lib/config/config.h"

#include <stddef.h>

struct dt_device;

enum dt_phase { DT_PHASE_FORWARD, DT_PHASE_BACKWARD, DT_PHASE_UPDATE };

/* The meaning of the three numbers of a measured kernel's shape; unused ones are 1. */
enum dt_shape {
    DT_SHAPE_PRODUCT,         /* rows, out, in */
    DT_SHAPE_HEADS,           /* samples * heads, T, width of a head */
    DT_SHAPE_ROWS,            /* rows, columns */
    DT_SHAPE_LOOKUP,          /* rows, columns, rows of the tables */
    DT_SHAPE_LOOKUP_GRADIENT, /* the same; the tables are written whole */
    DT_SHAPE_FLAT             /* elements */
};

/* Variants of a kernel, each with its own times. */
enum dt_variant {
    DT_VARIANT_PLAIN,
    DT_VARIANT_DROPOUT,    /* with a probability above 0 */
    DT_VARIANT_UNFUSED,    /* attention */
    DT_VARIANT_ACCUMULATE, /* weight gradient that adds to existing values */
    DT_VARIANTS
};

struct dt_priced {
    const char *name; /* "layer_norm_gradient": the key under "kernels" */
    enum dt_phase phase;
    enum dt_shape shape;
};

/* Numbers of the shared kernels (lib/kernels), and of a copy within the device, which is measured
 * in bytes. A family numbers its own kernels from DT_PRICED_SHARED on; kernels of later families
 * are shifted (struct dt_costs, shift). */
enum { DT_PRICED_SGD, DT_PRICED_ADAM, DT_PRICED_ADD, DT_PRICED_SQUARES, DT_PRICED_COPY, DT_PRICED_SHARED, DT_PRICED_MAX = 256 };

/* The cost of one kernel in a stack. dtbench computes the norms' and GELU's outputs again in
 * backward; for a framework that keeps them, the gradient's numbers are lower by the cost of that
 * repetition. */
struct dt_kernel_cost {
    double launches; /* kernels that the framework launches for it; for sgd and adam see optimizer_fused */
    double passes;
    double other_passes; /* square_passes, weight_passes */
};

/* The kernels of a family, or the shared ones. */
struct dt_pricing {
    const struct dt_priced *kernels; /* [count] */
    int count;
    /* The keys of a profile for them: offsets in an array [count] of struct dt_kernel_cost. */
    const struct dt_field *keys; /* [key_count] */
    int key_count;
};

extern const struct dt_pricing dt_shared_pricing;

/* Rows of keys. own_passes: dtbench's own passes, in one launch, for older profiles that do not
 * have the kernel; NULL: profiles must have it. */
#define DT_PRICED_KEYS(entry, index, element, own_passes)                                                                                  \
    {"kernels." #entry ".launches",                                                                                                        \
     DT_FIELD_NUMBER,                                                                                                                      \
     .offset = (index) * sizeof(struct dt_kernel_cost) + offsetof(struct dt_kernel_cost, launches),                                        \
     .size = sizeof(double),                                                                                                               \
     .max = 1000,                                                                                                                          \
     .initial = (own_passes) ? "1" : NULL,                                                                                                 \
     .description = "Kernels that the framework launches."},                                                                               \
        {"kernels." #entry ".passes",                                                                                                      \
         DT_FIELD_NUMBER,                                                                                                                  \
         .offset = (index) * sizeof(struct dt_kernel_cost) + offsetof(struct dt_kernel_cost, passes),                                      \
         .size = sizeof(double),                                                                                                           \
         .min = -100,                                                                                                                      \
         .max = 1000,                                                                                                                      \
         .initial = own_passes,                                                                                                            \
         .description = "Reads and writes of each of " element "."},
#define DT_PRICED_OTHER_KEY(entry, index, key, text)                                                                                       \
    {"kernels." #entry "." #key,                                                                                                           \
     DT_FIELD_NUMBER,                                                                                                                      \
     .offset = (index) * sizeof(struct dt_kernel_cost) + offsetof(struct dt_kernel_cost, other_passes),                                    \
     .size = sizeof(double),                                                                                                               \
     .min = -100,                                                                                                                          \
     .max = 1000,                                                                                                                          \
     .description = text},

/* All kernels, by their numbers. */
struct dt_priced_list {
    const struct dt_priced *kernels[DT_PRICED_MAX];
    int count;
};
