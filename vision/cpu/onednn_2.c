/* oneDNN 2: memory descriptions are values, and an operation is described before its primitive. */
#include "vision/cpu/onednn.h"

struct layouts {
    dnnl_memory_desc_t source, weights, bias, target;
};

static dnnl_status_t describe_all(const struct vision_onednn_convolution *c, struct layouts *l)
{
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&l->source, 4, c->source, c->type, dnnl_nhwc);
    DT_THEN(status, dnnl_memory_desc_init_by_tag(&l->weights, 4, c->weights, c->type, dnnl_format_tag_any));
    DT_THEN(status, dnnl_memory_desc_init_by_tag(&l->bias, 1, c->bias, c->type, dnnl_a));
    return status == dnnl_success ? dnnl_memory_desc_init_by_tag(&l->target, 4, c->target, c->type, dnnl_nhwc) : status;
}

static dnnl_status_t describe_without_1x1(dnnl_engine_t engine, const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attributes,
                                          const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_iterator_t all = NULL;
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(&all, operation, attributes, engine, hint);
    if (status == dnnl_success)
        *out = dnnl_primitive_desc_iterator_fetch(all);
    while (status == dnnl_success && vision_onednn_is_1x1(*out)) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
        status = dnnl_primitive_desc_iterator_next(all);
        if (status == dnnl_success)
            *out = dnnl_primitive_desc_iterator_fetch(all);
    }
    dnnl_primitive_desc_iterator_destroy(all);
    return status;
}

dnnl_status_t vision_onednn_describe(dnnl_engine_t engine, enum vision_pass pass, const struct vision_onednn_convolution *c,
                                     const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t operation;
    struct layouts l;
    const dnnl_memory_desc_t *bias = c->has_bias ? &l.bias : NULL;
    *out = NULL;
    dnnl_status_t status = describe_all(c, &l);
    if (status != dnnl_success)
        return status;
    switch (pass) {
    case VISION_FORWARD:
        status = dnnl_dilated_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct, &l.source,
                                                            &l.weights, bias, &l.target, c->strides, c->dilations, c->padding, c->padding);
        break;
    case VISION_INPUT_GRADIENT:
        status = dnnl_dilated_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &l.source, &l.weights, &l.target,
                                                                  c->strides, c->dilations, c->padding, c->padding);
        break;
    case VISION_WEIGHT_GRADIENT:
        status = dnnl_dilated_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct, &l.source, &l.weights, bias,
                                                                     &l.target, c->strides, c->dilations, c->padding, c->padding);
        break;
    }
    if (status == dnnl_success && pass == VISION_WEIGHT_GRADIENT && c->without_1x1)
        return describe_without_1x1(engine, &operation, attributes, hint, out);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &operation, attributes, engine, hint) : status;
}

dnnl_status_t vision_onednn_parameters(dnnl_engine_t engine, const struct vision_onednn_convolution *c, dnnl_memory_t *out)
{
    dnnl_memory_desc_t layout;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&layout, 4, c->weights, c->type, dnnl_ohwi);
    *out = NULL;
    return status == dnnl_success ? dnnl_memory_create(out, &layout, engine, DNNL_MEMORY_NONE) : status;
}
