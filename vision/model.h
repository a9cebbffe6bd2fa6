/* Convolutional networks: ResNets, and DeepLabV3 on top of them.
 *
 * Stem (7x7 convolution, norm, 3x3 max pooling), four stages of residual blocks, and a head: global
 * average pooling with a linear layer, or atrous spatial pyramid pooling with a class for each
 * pixel. Batch normalisation follows every convolution except those that make outputs. In a
 * bottleneck the 3x3 convolution has the stride, as in torchvision ("v1.5").
 * Source  He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, Table 1; Chen et
 *         al., "Rethinking Atrous Convolution for Semantic Image Segmentation", 2017; torchvision,
 *         models/resnet.py and models/segmentation/deeplabv3.py and fcn.py (sizes, initialisation,
 *         dilations). */
#pragma once

#include "lib/model/model.h"

/* basic: two 3x3 convolutions; bottleneck: 1x1, 3x3, 1x1 to four times the width */
enum vision_block_kind { VISION_BASIC, VISION_BOTTLENECK };
enum vision_head_kind { VISION_CLASSIFIER, VISION_DEEPLAB };

/* Random changes of a file's images; the values are added up. */
enum vision_augmentation { VISION_FLIP = 1, VISION_CROP = 2 };

/* The running statistics after a step, if ranks have computed different ones: their average, or
 * rank 0's. */
enum vision_running { VISION_AVERAGE, VISION_RANK_0 };

enum { VISION_STAGES = 4 };

/* A network, as configs describe it. */
struct __attribute__((may_alias)) vision_model {
    int blocks[VISION_STAGES]; /* residual blocks of conv2_x to conv5_x */
    int image_size;            /* pixels of a side */
    int classes;
    enum vision_block_kind block;
    int width; /* channels of the stem and of the first stage's 3x3 convolutions; doubled in each later stage */
    enum vision_head_kind head;
    int output_stride; /* pixels of the image for one pixel of the last stage, on a side; below 32 convolutions are dilated */
    int head_channels; /* deeplab: channels of each branch */
    double auxiliary;  /* deeplab: weight of the loss of an auxiliary head after conv4_x; 0: there is no such head */
    bool head_dropout; /* deeplab: dropout of 0.5 in the head, and 0.1 in the auxiliary one */
    int norm_group;    /* number of consecutive samples that share the statistics of a batch normalisation; 0: those of a micro-batch */
    enum vision_running running;
    int augmentation; /* enum vision_augmentation */
};

static inline const struct vision_model *vision_of(const struct dt_model *model)
{
    return (const struct vision_model *)dt_model_own(model);
}

static inline struct vision_model *vision_change(struct dt_model *model)
{
    return (struct vision_model *)(void *)(model->own + model->own_at);
}

extern const struct dt_model_preset vision_presets[]; /* the last entry has a NULL name */

static inline int vision_block_count(const struct dt_model *model)
{
    const int *blocks = vision_of(model)->blocks;
    return blocks[0] + blocks[1] + blocks[2] + blocks[3];
}

/* Output channels of a block, divided by its width. */
static inline int vision_expansion(const struct dt_model *model)
{
    return vision_of(model)->block == VISION_BOTTLENECK ? 4 : 1;
}

/* The entries of the same name in struct dt_model_family. */
dt_status vision_check_model(struct dt_model *model);
dt_status vision_check_micro_batches(const struct dt_model *model, int64_t samples, int64_t count, int64_t replicas);
int64_t vision_sample_ranks(const struct dt_model *model, int64_t samples);
bool vision_fix_micro_batch(struct dt_model *model, int64_t *samples);
void vision_describe(const struct dt_model *model, struct dt_model_texts *out);
void vision_set_blocks(struct dt_model *model, int blocks);
