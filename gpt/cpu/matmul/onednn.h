/* The description of a matrix product, in which oneDNN's C interface differs between versions 2 and
 * 3. Included in product_onednn.c, and in the program that times bare products. */
#pragma once

#include "lib/kernels/cpu/onednn.h"

#include <stdbool.h>

/* A dense row-major matrix; transposed: stored as [columns, rows]. */
struct gpt_onednn_matrix {
    dnnl_data_type_t type;
    size_t rows, columns;
    bool transposed;
    bool any_layout; /* stored in oneDNN's preferred layout, with the size that dt_onednn_memory returns */
};

/* Describe c [m, n] = a [m, k] * b [k, n] + bias [1, n] (or NULL). attributes: NULL, or the
 * caller's, who keeps them. dnnl_unimplemented: oneDNN does not support these types. Owner of *out:
 * the caller, dnnl_primitive_desc_destroy; NULL after a failure. */
dnnl_status_t gpt_onednn_matmul(dnnl_engine_t engine, const struct gpt_onednn_matrix *a, const struct gpt_onednn_matrix *b,
                                const struct gpt_onednn_matrix *bias, const struct gpt_onednn_matrix *c,
                                const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out);
