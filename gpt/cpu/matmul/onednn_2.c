/* oneDNN 2: memory descriptions are values, and an operation is described before its primitive. */
#include "gpt/cpu/matmul/onednn.h"

static dnnl_status_t describe(const struct gpt_onednn_matrix *m, dnnl_memory_desc_t *out)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)m->rows, (dnnl_dim_t)m->columns};
    const dnnl_dims_t strides = {m->transposed ? 1 : (dnnl_dim_t)m->columns, m->transposed ? (dnnl_dim_t)m->rows : 1};
    return m->any_layout ? dnnl_memory_desc_init_by_tag(out, 2, dims, m->type, dnnl_format_tag_any)
                         : dnnl_memory_desc_init_by_strides(out, 2, dims, m->type, strides);
}

dnnl_status_t gpt_onednn_matmul(dnnl_engine_t engine, const struct gpt_onednn_matrix *a, const struct gpt_onednn_matrix *b,
                                const struct gpt_onednn_matrix *bias, const struct gpt_onednn_matrix *c,
                                const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    const struct gpt_onednn_matrix *const matrices[] = {a, b, c, bias};
    dnnl_memory_desc_t descs[4];
    dnnl_matmul_desc_t operation;
    dnnl_status_t status = dnnl_success;
    *out = NULL;
    for (int i = 0; i < (bias ? 4 : 3) && status == dnnl_success; i++)
        status = describe(matrices[i], &descs[i]);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(&operation, &descs[0], &descs[1], bias ? &descs[3] : NULL, &descs[2]);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL) : status;
}

dnnl_status_t gpt_onednn_memory(dnnl_engine_t engine, const_dnnl_primitive_desc_t desc, dnnl_query_t operand, int index, dnnl_memory_t *out,
                                size_t *out_bytes)
{
    const dnnl_memory_desc_t *memory = dnnl_primitive_desc_query_md(desc, operand, index);
    *out = NULL;
    if (out_bytes)
        *out_bytes = dnnl_memory_desc_get_size(memory);
    return dnnl_memory_create(out, memory, engine, DNNL_MEMORY_NONE);
}

dnnl_status_t gpt_onednn_add_to_c(dnnl_post_ops_t operations)
{
    return dnnl_post_ops_append_sum(operations, 1);
}
