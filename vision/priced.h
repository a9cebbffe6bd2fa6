/* What profiles say of this family's kernels (lib/cost/priced.h): name, number, phase, shape, what its passes count, and how many they are where
 * a profile says nothing: as an eager framework runs each operation by itself, a kernel for each. One that fuses them has no launch and
 * fewer passes for what it joins: ReLU, and the addition of a residual, which then is only read.
 *
 * A convolution's shape is that of the product that it is: rows N P Q, columns K, inside C R S; its passes are besides what the product moves. */
#ifndef VISION_PRICED_H
#define VISION_PRICED_H

#include "lib/cost/priced.h"

#define VISION_PRICED_KERNELS(ROW)                                                                                                         \
    ROW(images, IMAGES, FORWARD, FLAT, "the pixels of a file's images", "1.5")                                                             \
    ROW(convolution, CONVOLUTION, FORWARD, PRODUCT, "input and output", "0")                                                               \
    ROW(convolution_input_gradient, CONVOLUTION_INPUT_GRADIENT, BACKWARD, PRODUCT, "input and output", "0")                                \
    ROW(convolution_weight_gradient, CONVOLUTION_WEIGHT_GRADIENT, BACKWARD, PRODUCT, "input and output", "0")                              \
    ROW(batch_norm, BATCH_NORM, FORWARD, ROWS, "the output", "3")                                                                          \
    ROW(residual, RESIDUAL, FORWARD, ROWS, "the sum", "3")                                                                                 \
    ROW(relu, RELU, FORWARD, ROWS, "the output", "2")                                                                                      \
    ROW(moments, MOMENTS, FORWARD, ROWS, "what a synchronised normalisation reads", "1")                                                   \
    ROW(batch_norm_apply, BATCH_NORM_APPLY, FORWARD, ROWS, "the output of a synchronised normalisation", "2")                              \
    ROW(batch_norm_again, BATCH_NORM_AGAIN, BACKWARD, ROWS, "the output, made once more", "2")                                             \
    ROW(batch_norm_gradient, BATCH_NORM_GRADIENT, BACKWARD, ROWS, "the output", "5")                                                       \
    ROW(relu_gradient, RELU_GRADIENT, BACKWARD, ROWS, "the output", "3")                                                                   \
    ROW(batch_norm_sums, BATCH_NORM_SUMS, BACKWARD, ROWS, "what a synchronised normalisation reads", "2")                                  \
    ROW(batch_norm_rest, BATCH_NORM_REST, BACKWARD, ROWS, "what a synchronised normalisation writes", "3")                                 \
    ROW(pool, POOL, FORWARD, FLAT, "input and output", "1")                                                                                \
    ROW(pool_gradient, POOL_GRADIENT, BACKWARD, FLAT, "input and output", "1")                                                             \
    ROW(resize, RESIZE, FORWARD, FLAT, "input and output", "1")                                                                            \
    ROW(resize_gradient, RESIZE_GRADIENT, BACKWARD, FLAT, "input and output", "1")                                                         \
    ROW(join, JOIN, FORWARD, FLAT, "what is joined, or divided again", "2")                                                                \
    ROW(channel_dropout, CHANNEL_DROPOUT, FORWARD, FLAT, "the output", "2")                                                                \
    ROW(class_loss, CLASS_LOSS, FORWARD, ROWS, "the scores", "4")

#define VISION_PRICED_NUMBER(name, number, ...) VISION_PRICED_##number,
enum vision_priced { VISION_PRICED_BEFORE = DT_PRICED_SHARED - 1, VISION_PRICED_KERNELS(VISION_PRICED_NUMBER) VISION_PRICED_END };
#undef VISION_PRICED_NUMBER

extern const struct dt_pricing vision_pricing; /* cost/backend.c */
extern const struct dt_prober vision_prober;   /* cost/probe.c */

#endif
