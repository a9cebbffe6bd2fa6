/* What families' kernels on oneDNN share. Its C interface differs between versions 2 and 3; all that
 * is not here, or in a family's files onednn*, is the same in both. */
#pragma once

#include "lib/base/status.h"

#include <dnnl.h>
#include <stddef.h>

#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *dt_onednn_layout;
#define DT_ONEDNN_APPEND_SUM(operations) dnnl_post_ops_append_sum(operations, 1)
#else
typedef const_dnnl_memory_desc_t dt_onednn_layout;
#define DT_ONEDNN_APPEND_SUM(operations) dnnl_post_ops_append_sum(operations, 1, 0, dnnl_data_type_undef)
#endif

/* The processor, and the order in which it runs primitives. A zeroed one has nothing to destroy. */
struct dt_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* The caller destroys *out, also after a failure. */
static inline dnnl_status_t dt_onednn_create(struct dt_onednn *out)
{
    dnnl_status_t status = dnnl_engine_create(&out->engine, dnnl_cpu, 0);
    return status == dnnl_success ? dnnl_stream_create(&out->stream, out->engine, dnnl_stream_default_flags) : status;
}

static inline void dt_onednn_destroy(struct dt_onednn *o)
{
    if (o->stream)
        dnnl_stream_destroy(o->stream);
    if (o->engine)
        dnnl_engine_destroy(o->engine);
}

/* Create a memory object without data for an operand of `desc`: dnnl_query_src_md,
 * dnnl_query_weights_md (0: weights, 1: bias), dnnl_query_dst_md, dnnl_query_scratchpad_md and
 * those of gradients. *out_bytes (may be NULL): the size of its data. Owner of *out: the caller,
 * dnnl_memory_destroy; NULL after a failure. */
static inline dnnl_status_t dt_onednn_memory(dnnl_engine_t engine, const_dnnl_primitive_desc_t desc, dnnl_query_t operand, int index,
                                             dnnl_memory_t *out, size_t *out_bytes)
{
    dt_onednn_layout layout = dnnl_primitive_desc_query_md(desc, operand, index); /* belongs to desc */
    *out = NULL;
    if (out_bytes)
        *out_bytes = dnnl_memory_desc_get_size(layout);
    return dnnl_memory_create(out, layout, engine, DNNL_MEMORY_NONE);
}

/* Attributes of a primitive that adds its result to the old value of its target. */
static inline dnnl_status_t dt_onednn_accumulate(dnnl_primitive_attr_t attributes)
{
    dnnl_post_ops_t operations = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&operations);
    DT_THEN(status, DT_ONEDNN_APPEND_SUM(operations));
    DT_THEN(status, dnnl_primitive_attr_set_post_ops(attributes, operations));
    dnnl_post_ops_destroy(operations);
    return status;
}
