/* The calls of oneDNN whose C interface is not the same in its versions 2 and 3: onednn_2.c and onednn_3.c, one of which is compiled.
 * Everything else that a matrix product takes is the same in both. Included in product.c, and in the peer that runs bare products. */
#ifndef GPT_CPU_ONEDNN_H
#define GPT_CPU_ONEDNN_H

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* A dense row-major matrix; transposed: stored the other way round, [columns, rows]. */
struct gpt_onednn_matrix {
    dnnl_data_type_t type;
    size_t rows, columns;
    bool transposed;
    bool any_layout; /* stored in oneDNN's preferred layout, of size gpt_onednn_memory */
};

/* Describes c [m, n] = a [m, k] * b [k, n] + bias [1, n] (or NULL). attributes: NULL, or the caller's, who keeps them. dnnl_unimplemented:
 * oneDNN has nothing for these types. Owner of *out: the caller, dnnl_primitive_desc_destroy; NULL after a failure. */
dnnl_status_t gpt_onednn_matmul(dnnl_engine_t engine, const struct gpt_onednn_matrix *a, const struct gpt_onednn_matrix *b,
                                const struct gpt_onednn_matrix *bias, const struct gpt_onednn_matrix *c,
                                const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out);

/* A memory object without data for an operand of `desc`: dnnl_query_src_md, dnnl_query_weights_md (0: weights, 1: bias), dnnl_query_dst_md,
 * dnnl_query_scratchpad_md. *out_bytes (may be NULL): how much data it wants. Owner of *out: the caller, dnnl_memory_destroy; NULL after a
 * failure. */
dnnl_status_t gpt_onednn_memory(dnnl_engine_t engine, const_dnnl_primitive_desc_t desc, dnnl_query_t operand, int index, dnnl_memory_t *out,
                                size_t *out_bytes);

/* The product is added to what c contains. */
dnnl_status_t gpt_onednn_add_to_c(dnnl_post_ops_t operations);

#endif
