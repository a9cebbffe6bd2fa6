#include "vision/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

dt_status vision_check_model(struct dt_model *model)
{
    const struct vision_model *m = vision_of(model);
    if (m->width % 4 != 0)
        return dt_fail(DT_ERR_INVALID, "model.channels: %d is not a multiple of 4", m->width);
    if (m->output_stride != 8 && m->output_stride != 16 && m->output_stride != 32)
        return dt_fail(DT_ERR_INVALID, "model.output_stride: %d is none of 8, 16 and 32", m->output_stride);
    if (m->block == VISION_BASIC && m->output_stride < 32)
        return dt_fail(DT_ERR_INVALID, "model.output_stride: %d needs model.block \"bottleneck\"; basic blocks are not dilated",
                       m->output_stride);
    if (m->head == VISION_DEEPLAB && m->classes > 255)
        return dt_fail(DT_ERR_INVALID, "model.classes: %d; a pixel's label is below 255, which stands for none", m->classes);
    if (m->head == VISION_CLASSIFIER)
        vision_change(model)->auxiliary = 0;
    return DT_OK;
}

/* A group over several ranks must have all samples of each rank: with several micro-batches, the
 * samples of one are not consecutive over ranks. */
static dt_status check_spanning_group(int64_t group, int64_t samples, int64_t count, int64_t replicas)
{
    if (count > 1)
        return dt_fail(DT_ERR_INVALID,
                       "model.norm_group: %" PRId64 " is more than the %" PRId64
                       " samples of a micro-batch; a group over several ranks needs one micro-batch in each step, without "
                       "pipeline.chunks; or choose a divisor",
                       group, samples / count);
    if (group % samples != 0 || replicas % (group / samples) != 0)
        return dt_fail(DT_ERR_INVALID,
                       "model.norm_group: groups of %" PRId64 " need a whole number of ranks with %" PRId64
                       " samples each, which must divide the %" PRId64 " ranks with different samples",
                       group, samples, replicas);
    return DT_OK;
}

/* Groups are within a micro-batch, or consist of whole micro-batches of several ranks, and all
 * groups have equal size. Otherwise losses would depend on which samples come first. A head that
 * pools over the whole image has one position for each sample. */
dt_status vision_check_micro_batches(const struct dt_model *model, int64_t samples, int64_t count, int64_t replicas)
{
    const struct vision_model *m = vision_of(model);
    int64_t each = samples / count, group = m->norm_group > 0 ? m->norm_group : each;
    if (samples % count != 0)
        return dt_fail(DT_ERR_INVALID,
                       "micro_batches: %" PRId64 " samples in %" PRId64
                       " micro-batches have different sizes, but batch normalisation needs equal ones for its statistics; choose a divisor",
                       samples, count);
    if (group > each)
        return check_spanning_group(group, samples, count, replicas);
    if (each % group != 0)
        return dt_fail(DT_ERR_INVALID,
                       "model.norm_group: %" PRId64 " does not divide the %" PRId64
                       " samples of a micro-batch, and a group is within one of them; choose a divisor",
                       group, each);
    if (m->head == VISION_DEEPLAB && group < 2)
        return dt_fail(DT_ERR_INVALID,
                       "model.norm_group: the statistics are of one sample, but DeepLabV3's head normalises one value for each image and "
                       "channel; a group, and a micro-batch, needs at least 2");
    return DT_OK;
}

int64_t vision_sample_ranks(const struct dt_model *model, int64_t samples)
{
    int64_t group = vision_of(model)->norm_group;
    return group > samples ? group / samples : 1;
}

bool vision_fix_micro_batch(struct dt_model *model, int64_t *samples)
{
    struct vision_model *m = vision_change(model);
    bool depended = m->norm_group == 0;
    if (depended)
        m->norm_group = (int)*samples;
    *samples = m->norm_group > *samples ? m->norm_group : *samples;
    return depended;
}

/* ---- facts and texts of a model ---- */

void vision_describe(const struct dt_model *model, struct dt_model_texts *out)
{
    const struct vision_model *m = vision_of(model);
    snprintf(out->label, sizeof out->label, "%d-%d-%d-%dx%d", m->blocks[0], m->blocks[1], m->blocks[2], m->blocks[3], m->width);
    snprintf(out->sizes, sizeof out->sizes, "%d %s blocks, %d channels at first, %d classes%s", vision_block_count(model),
             m->block == VISION_BASIC ? "basic" : "bottleneck", m->width, m->classes, m->head == VISION_DEEPLAB ? " a pixel" : "");
    snprintf(out->sample, sizeof out->sample, "an image of %d x %d pixels a sample", m->image_size, m->image_size);
    out->flops_formula = "3 * 2 * K P Q C R S per image, summed over all convolutions and the linear layer";
}

/* Blocks that differ only by their place: those of conv4_x, of which most networks have the most.
 * Each stage keeps at least one block. */
void vision_set_blocks(struct dt_model *model, int blocks)
{
    static const int order[VISION_STAGES] = {2, 1, 0, 3};
    struct vision_model *m = vision_change(model);
    int more = blocks - vision_block_count(model);
    if (more > 0)
        m->blocks[2] += more;
    for (int i = 0; i < VISION_STAGES && more < 0; i++) {
        int taken = -more < m->blocks[order[i]] - 1 ? -more : m->blocks[order[i]] - 1;
        m->blocks[order[i]] -= taken;
        more += taken;
    }
}

/* clang-format off */
#define RESNET(kind, c2, c3, c4, c5)                                                                                                       \
    .blocks = {c2, c3, c4, c5}, .block = kind, .width = 64
#define CLASSIFIER .image_size = 224, .classes = 1000, .head = VISION_CLASSIFIER, .output_stride = 32
/* Samples are 480 pixels cut out of an image, as in torchvision's training; the 21 classes are
 * those of PASCAL VOC with the background. */
#define DEEPLAB                                                                                                                            \
    .image_size = 480, .classes = 21, .head = VISION_DEEPLAB, .output_stride = 8, .head_channels = 256, .auxiliary = 0.4, .head_dropout = true
#define NETWORK(...) &(const struct vision_model) {__VA_ARGS__}, false
/* clang-format on */

const struct dt_model_preset vision_presets[] = {
    {"ResNet18", NETWORK(RESNET(VISION_BASIC, 2, 2, 2, 2), CLASSIFIER)},
    {"ResNet50", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 6, 3), CLASSIFIER)},
    {"ResNet101", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 23, 3), CLASSIFIER)},
    {"DeepLabV3-ResNet50", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 6, 3), DEEPLAB)},
    {"DeepLabV3-ResNet101", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 23, 3), DEEPLAB)},
    {0},
};
