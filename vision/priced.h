/* The kernels of this family that have costs in profiles (lib/cost/priced.h): name, number, phase,
 * shape, the element of its passes, and the default number of passes, for an eager framework that
 * runs each operation as a separate kernel. A framework that fuses kernels has no launch, and fewer
 * passes, for the operations that it joins: ReLU, and the addition of a residual, which is then
 * only read.
 *
 * The shape of a convolution is that of its product: rows N P Q, columns K, inner dimension C R S.
 * Its passes are in addition to the elements that the product moves. */
#pragma once

#include "lib/cost/priced.h"

#define VISION_PRICED_KERNELS(ROW)                                                                                                         \
    ROW(images, IMAGES, FORWARD, FLAT, "the pixels of a file's images", "1.5")                                                             \
    ROW(convolution, CONVOLUTION, FORWARD, PRODUCT, "input and output", "0")                                                               \
    ROW(convolution_input_gradient, CONVOLUTION_INPUT_GRADIENT, BACKWARD, PRODUCT, "input and output", "0")                                \
    ROW(convolution_weight_gradient, CONVOLUTION_WEIGHT_GRADIENT, BACKWARD, PRODUCT, "input and output", "0")                              \
    ROW(batch_norm, BATCH_NORM, FORWARD, ROWS, "the output", "3")                                                                          \
    ROW(residual, RESIDUAL, FORWARD, ROWS, "the sum", "3")                                                                                 \
    ROW(relu, RELU, FORWARD, ROWS, "the output", "2")                                                                                      \
    ROW(moments, MOMENTS, FORWARD, ROWS, "the input of a synchronised normalisation", "1")                                                 \
    ROW(batch_norm_apply, BATCH_NORM_APPLY, FORWARD, ROWS, "the output of a synchronised normalisation", "2")                              \
    ROW(batch_norm_again, BATCH_NORM_AGAIN, BACKWARD, ROWS, "the output, computed again", "2")                                             \
    ROW(batch_norm_gradient, BATCH_NORM_GRADIENT, BACKWARD, ROWS, "the output", "5")                                                       \
    ROW(relu_gradient, RELU_GRADIENT, BACKWARD, ROWS, "the output", "3")                                                                   \
    ROW(batch_norm_sums, BATCH_NORM_SUMS, BACKWARD, ROWS, "the input of a synchronised normalisation", "2")                                \
    ROW(batch_norm_rest, BATCH_NORM_REST, BACKWARD, ROWS, "the result of a synchronised normalisation", "3")                               \
    ROW(pool, POOL, FORWARD, FLAT, "input and output", "1")                                                                                \
    ROW(pool_gradient, POOL_GRADIENT, BACKWARD, FLAT, "input and output", "1")                                                             \
    ROW(resize, RESIZE, FORWARD, FLAT, "input and output", "1")                                                                            \
    ROW(resize_gradient, RESIZE_GRADIENT, BACKWARD, FLAT, "input and output", "1")                                                         \
    ROW(join, JOIN, FORWARD, FLAT, "the joined channels", "2")                                                                             \
    ROW(channel_dropout, CHANNEL_DROPOUT, FORWARD, FLAT, "the output", "2")                                                                \
    ROW(class_loss, CLASS_LOSS, FORWARD, ROWS, "the scores", "4")

#define VISION_PRICED_NUMBER(name, number, ...) VISION_PRICED_##number,
enum vision_priced { VISION_PRICED_BEFORE = DT_PRICED_SHARED - 1, VISION_PRICED_KERNELS(VISION_PRICED_NUMBER) VISION_PRICED_END };
#undef VISION_PRICED_NUMBER

extern const struct dt_pricing vision_pricing; /* cost/backend.c */
extern const struct dt_prober vision_prober;   /* cost/probe.c */
