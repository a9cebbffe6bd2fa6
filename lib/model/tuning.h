/* The choice of an algorithm for each matrix product, if a library has several (cuBLASLt): `dtbench
 * tune` measures them once and writes a file, which runs read. Without a file a run uses the
 * library's first suggestion; it never measures by itself, so that its results do not depend on
 * timing.
 *
 * A tuning belongs to a family. It contains the products to measure, and the chosen algorithms by
 * the product's shape, dtype, GPU and library. */
#pragma once

#include "lib/base/dtype.h"
#include "lib/base/status.h"

#include <stddef.h>

struct dt_device;
struct dt_kernels;
struct dt_model;
struct dt_tuning;

/* How kernels have used a tuning so far. */
struct dt_tuned {
    int products; /* number of different products that were computed */
    int decided;  /* those of them for which the tuning chose the algorithm; the others used the library's first */
};

struct dt_tune_hooks {
    void *context;
    /* Called after each product. An error ends the measuring. May be NULL. */
    dt_status (*measured)(void *context, int done, int total);
};

struct dt_tuner {
    dt_status (*create)(struct dt_tuning **out); /* Owner: the caller. Errors: DT_ERR_HOST_MEMORY */
    void (*destroy)(struct dt_tuning *tuning);   /* takes NULL */

    /* Read the text of a file. `name` begins every error. Errors: DT_ERR_INVALID with the place,
     * DT_ERR_HOST_MEMORY. */
    dt_status (*read)(struct dt_tuning *tuning, const char *name, const char *text);
    /* Write all of it as the text of such a file. Owner of *out: the caller, free. Errors:
     * DT_ERR_HOST_MEMORY. */
    dt_status (*write)(const struct dt_tuning *tuning, char **out);

    /* From now on these kernels of the model, which compute nothing (device sim), add the products
     * that they are called for to those to measure. The tuning must outlive them. */
    dt_status (*list)(struct dt_tuning *tuning, struct dt_kernels *kernels, const struct dt_model *model);
    int (*listed)(const struct dt_tuning *tuning);
    /* Time the algorithms of every listed product on a cuda device, on operands that are in no
     * cache, and keep the fastest; or the library's first, unless another is clearly faster.
     * Replaces the entry of the same product on the same GPU with the same library. Errors:
     * DT_ERR_UNAVAILABLE on other devices, DT_ERR_OOM, DT_ERR_DEVICE. */
    dt_status (*measure)(struct dt_tuning *tuning, struct dt_device *device, const struct dt_tune_hooks *hooks);

    /* The result of the last `measure`, in one line. */
    void (*describe)(const struct dt_tuning *tuning, char *out, size_t out_bytes);

    /* From now on these kernels use the algorithms of the tuning, which must outlive them. Errors:
     * DT_ERR_INVALID if it has no product of this GPU and library: names those that it has. */
    dt_status (*use)(const struct dt_tuning *tuning, struct dt_kernels *kernels);
    void (*used)(const struct dt_kernels *kernels, struct dt_tuned *out);
};
