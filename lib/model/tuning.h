/* Which algorithm computes a matrix product, where a library has several (cuBLASLt): measured once by `dtbench tune`, kept in a file, and
 * read by runs. Without a file a run uses the library's first suggestion; it never measures by
 * itself, so that its results do not depend on timing.
 *
 * A tuning is a family's: the products that it was told to measure, and the algorithms that it knows, by the product's shape, dtype, GPU
 * and library. */
#ifndef LIB_MODEL_TUNING_H
#define LIB_MODEL_TUNING_H

#include "lib/base/dtype.h"
#include "lib/base/status.h"

#include <stddef.h>

struct dt_device;
struct dt_kernels;
struct dt_model;
struct dt_tuning;

/* What a tuning was to one object of kernels, so far. */
struct dt_tuned {
    int products; /* that differ, and were computed */
    int decided;  /* of them those whose algorithm the tuning says; the library's first computed the others */
};

struct dt_tune_hooks {
    void *context;
    /* After each product. An error ends the measuring. May be NULL. */
    dt_status (*measured)(void *context, int done, int total);
};

struct dt_tuner {
    dt_status (*create)(struct dt_tuning **out); /* Owner: the caller. Errors: DT_ERR_HOST_MEMORY */
    void (*destroy)(struct dt_tuning *tuning);   /* takes NULL */

    /* Take in what a file holds. `name` begins every error. Errors: DT_ERR_INVALID with the place, DT_ERR_HOST_MEMORY. */
    dt_status (*read)(struct dt_tuning *tuning, const char *name, const char *text);
    /* All of it as such a file. Owner of *out: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
    dt_status (*write)(const struct dt_tuning *tuning, char **out);

    /* From here on these kernels of the model, which compute nothing (device sim), add the products that they are asked for to those to be
     * measured. The tuning outlives them. */
    dt_status (*list)(struct dt_tuning *tuning, struct dt_kernels *kernels, const struct dt_model *model);
    int (*listed)(const struct dt_tuning *tuning);
    /* Time the algorithms of every listed product on a cuda device, on operands that lie in no cache, and keep the fastest; the library's
     * first, unless another one is clearly faster. Replaces what is known of the same product on the same GPU with the same library.
     * Errors: DT_ERR_UNAVAILABLE on other devices, DT_ERR_OOM, DT_ERR_DEVICE. */
    dt_status (*measure)(struct dt_tuning *tuning, struct dt_device *device, const struct dt_tune_hooks *hooks);

    /* What the last `measure` found, in a line. */
    void (*describe)(const struct dt_tuning *tuning, char *out, size_t out_bytes);

    /* From here on these kernels compute products as the tuning says, which outlives them. Errors: DT_ERR_INVALID where it knows no product
     * of this GPU and library: says of which it does. */
    dt_status (*use)(const struct dt_tuning *tuning, struct dt_kernels *kernels);
    void (*used)(const struct dt_kernels *kernels, struct dt_tuned *out);
};

#endif
