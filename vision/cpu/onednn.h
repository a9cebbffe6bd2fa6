/* The descriptions of convolutions, in which oneDNN's C interface differs between versions 2 and 3:
 * onednn_2.c or onednn_3.c is compiled. */
#pragma once

#include "lib/kernels/cpu/onednn.h"
#include "vision/kernels.h"

#include <string.h>

/* The three passes of a convolution. */
enum vision_pass { VISION_FORWARD, VISION_INPUT_GRADIENT, VISION_WEIGHT_GRADIENT };

/* Description of a convolution for oneDNN. Dimensions are samples, channels, height, width, for any
 * order in memory. */
struct vision_onednn_convolution {
    dnnl_data_type_t type;
    dnnl_dims_t source, weights, bias, target;
    dnnl_dims_t strides, dilations, padding; /* dilations: number of positions skipped between two of a window */
    bool has_bias;
    bool without_1x1; /* do not use a 1x1 kernel for the weight gradient */
};

/* Whether the kernel's name says that it is for 1x1 windows. */
static inline bool vision_onednn_is_1x1(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && strstr(name, "1x1");
}

/* Describe one pass. Images are stored with channels last, weights in oneDNN's preferred layout.
 * hint: the forward pass, for the other two. attributes: the caller's, who keeps them. Owner of
 * *out: the caller, dnnl_primitive_desc_destroy; NULL after a failure. */
dnnl_status_t vision_onednn_describe(dnnl_engine_t engine, enum vision_pass pass, const struct vision_onednn_convolution *c,
                                     const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out);

/* Create a memory object without data for weights as parameters store them: [out, kernel, kernel,
 * in]. Owner of *out: the caller, dnnl_memory_destroy; NULL after a failure. */
dnnl_status_t vision_onednn_parameters(dnnl_engine_t engine, const struct vision_onednn_convolution *c, dnnl_memory_t *out);
