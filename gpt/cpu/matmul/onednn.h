/* The functions of oneDNN whose C interface differs between versions 2 and 3: onednn_2.c or
 * onednn_3.c is compiled. All other functions that a matrix product needs are the same. Included in
 * product_onednn.c, and in the program that times bare products. */
#pragma once

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* A dense row-major matrix; transposed: stored as [columns, rows]. */
struct gpt_onednn_matrix {
    dnnl_data_type_t type;
    size_t rows, columns;
    bool transposed;
    bool any_layout; /* stored in oneDNN's preferred layout, with the size that gpt_onednn_memory returns */
};

/* Describe c [m, n] = a [m, k] * b [k, n] + bias [1, n] (or NULL). attributes: NULL, or the
 * caller's, who keeps them. dnnl_unimplemented: oneDNN does not support these types. Owner of *out:
 * the caller, dnnl_primitive_desc_destroy; NULL after a failure. */
dnnl_status_t gpt_onednn_matmul(dnnl_engine_t engine, const struct gpt_onednn_matrix *a, const struct gpt_onednn_matrix *b,
                                const struct gpt_onednn_matrix *bias, const struct gpt_onednn_matrix *c,
                                const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out);

/* Create a memory object without data for an operand of `desc`: dnnl_query_src_md,
 * dnnl_query_weights_md (0: weights, 1: bias), dnnl_query_dst_md, dnnl_query_scratchpad_md.
 * *out_bytes (may be NULL): the size of its data. Owner of *out: the caller, dnnl_memory_destroy;
 * NULL after a failure. */
dnnl_status_t gpt_onednn_memory(dnnl_engine_t engine, const_dnnl_primitive_desc_t desc, dnnl_query_t operand, int index, dnnl_memory_t *out,
                                size_t *out_bytes);

/* Add the product to the old value of c. */
dnnl_status_t gpt_onednn_add_to_c(dnnl_post_ops_t operations);
