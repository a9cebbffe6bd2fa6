/* oneDNN 3: memory descriptions are objects to create and destroy, and a primitive is described in
 * one call. */
#include "gpt/cpu/matmul/onednn.h"

static dnnl_status_t describe(const struct gpt_onednn_matrix *m, dnnl_memory_desc_t *out)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)m->rows, (dnnl_dim_t)m->columns};
    const dnnl_dims_t strides = {m->transposed ? 1 : (dnnl_dim_t)m->columns, m->transposed ? (dnnl_dim_t)m->rows : 1};
    return m->any_layout ? dnnl_memory_desc_create_with_tag(out, 2, dims, m->type, dnnl_format_tag_any)
                         : dnnl_memory_desc_create_with_strides(out, 2, dims, m->type, strides);
}

dnnl_status_t gpt_onednn_matmul(dnnl_engine_t engine, const struct gpt_onednn_matrix *a, const struct gpt_onednn_matrix *b,
                                const struct gpt_onednn_matrix *bias, const struct gpt_onednn_matrix *c,
                                const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    const struct gpt_onednn_matrix *const matrices[] = {a, b, c, bias};
    dnnl_memory_desc_t descs[4] = {NULL};
    dnnl_status_t status = dnnl_success;
    *out = NULL;
    for (int i = 0; i < (bias ? 4 : 3) && status == dnnl_success; i++)
        status = describe(matrices[i], &descs[i]);
    if (status == dnnl_success)
        status = dnnl_matmul_primitive_desc_create(out, engine, descs[0], descs[1], descs[3], descs[2], attributes);
    for (int i = 0; i < 4; i++)
        if (descs[i])
            dnnl_memory_desc_destroy(descs[i]);
    return status;
}

dnnl_status_t gpt_onednn_memory(dnnl_engine_t engine, const_dnnl_primitive_desc_t desc, dnnl_query_t operand, int index, dnnl_memory_t *out,
                                size_t *out_bytes)
{
    const_dnnl_memory_desc_t memory = dnnl_primitive_desc_query_md(desc, operand, index); /* belongs to the primitive description */
    *out = NULL;
    if (out_bytes)
        *out_bytes = dnnl_memory_desc_get_size(memory);
    return dnnl_memory_create(out, memory, engine, DNNL_MEMORY_NONE);
}

dnnl_status_t gpt_onednn_add_to_c(dnnl_post_ops_t operations)
{
    return dnnl_post_ops_append_sum(operations, 1, 0, dnnl_data_type_undef);
}
