#include "gpt/cpu/matmul/onednn.h"

/* In version 2 memory descriptions are values, and an operation is described before its primitive.
 * From version 3 on they are objects to create and destroy, and a primitive is described in one
 * call. */
#if DNNL_VERSION_MAJOR == 2
#define DESCRIBE_BY_TAG dnnl_memory_desc_init_by_tag
#define DESCRIBE_BY_STRIDES dnnl_memory_desc_init_by_strides
#else
#define DESCRIBE_BY_TAG dnnl_memory_desc_create_with_tag
#define DESCRIBE_BY_STRIDES dnnl_memory_desc_create_with_strides
#endif

static dnnl_status_t describe(const struct gpt_onednn_matrix *m, dnnl_memory_desc_t *out)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)m->rows, (dnnl_dim_t)m->columns};
    const dnnl_dims_t strides = {m->transposed ? 1 : (dnnl_dim_t)m->columns, m->transposed ? (dnnl_dim_t)m->rows : 1};
    return m->any_layout ? DESCRIBE_BY_TAG(out, 2, dims, m->type, dnnl_format_tag_any)
                         : DESCRIBE_BY_STRIDES(out, 2, dims, m->type, strides);
}

#if DNNL_VERSION_MAJOR == 2

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
    DT_THEN(status, dnnl_matmul_desc_init(&operation, &descs[0], &descs[1], bias ? &descs[3] : NULL, &descs[2]));
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL) : status;
}

#else

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
    DT_THEN(status, dnnl_matmul_primitive_desc_create(out, engine, descs[0], descs[1], descs[3], descs[2], attributes));
    for (int i = 0; i < 4; i++)
        if (descs[i])
            dnnl_memory_desc_destroy(descs[i]);
    return status;
}

#endif
