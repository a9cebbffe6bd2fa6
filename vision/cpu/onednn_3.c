/* oneDNN 3: memory descriptions are objects to create and destroy, and a primitive is described in
 * one call. */
#include "vision/cpu/onednn.h"

struct layouts {
    dnnl_memory_desc_t source, weights, bias, target;
};

static void destroy_all(struct layouts *l)
{
    dnnl_memory_desc_t all[] = {l->source, l->weights, l->bias, l->target};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            dnnl_memory_desc_destroy(all[i]);
}

static dnnl_status_t describe_all(const struct vision_onednn_convolution *c, struct layouts *l)
{
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&l->source, 4, c->source, c->type, dnnl_nhwc);
    DT_THEN(status, dnnl_memory_desc_create_with_tag(&l->weights, 4, c->weights, c->type, dnnl_format_tag_any));
    if (status == dnnl_success && c->has_bias)
        status = dnnl_memory_desc_create_with_tag(&l->bias, 1, c->bias, c->type, dnnl_a);
    return status == dnnl_success ? dnnl_memory_desc_create_with_tag(&l->target, 4, c->target, c->type, dnnl_nhwc) : status;
}

dnnl_status_t vision_onednn_describe(dnnl_engine_t engine, enum vision_pass pass, const struct vision_onednn_convolution *c,
                                     const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    struct layouts l = {NULL};
    *out = NULL;
    dnnl_status_t status = describe_all(c, &l);
    if (status == dnnl_success && pass == VISION_FORWARD)
        status =
            dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training, dnnl_convolution_direct, l.source, l.weights,
                                                           l.bias, l.target, c->strides, c->dilations, c->padding, c->padding, attributes);
    else if (status == dnnl_success && pass == VISION_INPUT_GRADIENT)
        status = dnnl_convolution_backward_data_primitive_desc_create(out, engine, dnnl_convolution_direct, l.source, l.weights, l.target,
                                                                      c->strides, c->dilations, c->padding, c->padding, hint, attributes);
    else if (status == dnnl_success)
        status = dnnl_convolution_backward_weights_primitive_desc_create(out, engine, dnnl_convolution_direct, l.source, l.weights, l.bias,
                                                                         l.target, c->strides, c->dilations, c->padding, c->padding, hint,
                                                                         attributes);
    while (status == dnnl_success && pass == VISION_WEIGHT_GRADIENT && c->without_1x1 && vision_onednn_is_1x1(*out))
        status = dnnl_primitive_desc_next_impl(*out);
    destroy_all(&l);
    return status;
}

dnnl_status_t vision_onednn_parameters(dnnl_engine_t engine, const struct vision_onednn_convolution *c, dnnl_memory_t *out)
{
    dnnl_memory_desc_t layout = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&layout, 4, c->weights, c->type, dnnl_ohwi);
    *out = NULL;
    if (status != dnnl_success)
        return status;
    status = dnnl_memory_create(out, layout, engine, DNNL_MEMORY_NONE);
    dnnl_memory_desc_destroy(layout);
    return status;
}
