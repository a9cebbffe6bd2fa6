/* The calls of oneDNN for convolutions whose C interface is not the same in its versions 2 and 3: onednn_2.c and onednn_3.c, one of which is
 * compiled. Everything else is the same in both. */
#ifndef VISION_CPU_ONEDNN_H
#define VISION_CPU_ONEDNN_H

#include "vision/kernels.h"

#include <dnnl.h>
#include <string.h>

#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *vision_layout;
#else
typedef const_dnnl_memory_desc_t vision_layout;
#endif

/* The three passes of a convolution. */
enum vision_pass { VISION_FORWARD, VISION_INPUT_GRADIENT, VISION_WEIGHT_GRADIENT };

/* Description of a convolution for oneDNN: dimensions are samples, channels, height, width,
 * whatever the order in memory. */
struct vision_onednn_convolution {
    dnnl_data_type_t type;
    dnnl_dims_t source, weights, bias, target;
    dnnl_dims_t strides, dilations, padding; /* dilations: positions left out between two of a window */
    bool has_bias;
    bool without_1x1; /* the weight gradient is none of the kernels for 1x1 windows */
};

/* Whether oneDNN calls it a kernel for 1x1 windows. */
static inline bool vision_onednn_is_1x1(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && strstr(name, "1x1");
}

/* Describes one pass: images are stored with channels last, weights as oneDNN likes best. hint: of the forward pass, for the other two.
 * attributes: the caller's, who keeps them. Owner of *out: the caller, dnnl_primitive_desc_destroy; NULL after a failure. */
dnnl_status_t vision_onednn_describe(dnnl_engine_t engine, enum vision_pass pass, const struct vision_onednn_convolution *c,
                                     const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out);

/* A memory object without data for weights as they are in parameters: [out, kernel, kernel, in]. Owner of *out: the caller,
 * dnnl_memory_destroy; NULL after a failure. */
dnnl_status_t vision_onednn_parameters(dnnl_engine_t engine, const struct vision_onednn_convolution *c, dnnl_memory_t *out);

/* Attributes of a reorder that adds to its target. */
dnnl_status_t vision_onednn_add(dnnl_post_ops_t operations);

#endif
