/* Files of images with their classes, in two formats. The functions are the entries of the same
 * name in struct dt_model_family.
 *
 * CIFAR-10's binary format as published: for each image a byte with its class, then 32 x 32 bytes
 * each of red, green and blue.
 * Source  Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009, and the data
 *         set's own page.
 *
 * dtbench's format (scripts/images writes it): a header of 32 bytes, then records. Numbers are
 * little-endian.
 *   header  "DTIMAGES"; uint32 version 1, height, width, colours 3, label_bytes; 4 bytes 0
 *   record  uint8 [height, width, 3]; then its labels [label_bytes]: 2 bytes: the uint16 class of
 *           the image; height * width bytes: the class of each pixel, 255 for none */
#pragma once

#include "vision/model.h"

size_t vision_labels_of_image(const struct dt_model *model);
size_t vision_stored_bytes(const struct dt_model *model, int id_bytes);
void vision_sample_bytes(const struct dt_model *model, size_t *inputs, size_t *targets);
dt_status vision_sample_count(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out);
/* inputs: uint8 [image_size, image_size, 3], padded to a multiple of 4 bytes; targets: int32, one
 * class or one for each pixel. */
dt_status vision_read_sample(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                             void *targets);
