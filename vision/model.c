#include "lib/model/split.h"
#include "vision/layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dt_model vision_model_of(enum dt_dtype dtype, const struct vision_model *vision)
{
    struct dt_model model = {.dtype = dtype};
    memcpy(model.own, vision, sizeof *vision);
    return model;
}

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

/* A head that pools over the whole image has one position a sample. */
dt_status vision_check_micro_batch(const struct dt_model *model, int64_t samples)
{
    const struct vision_model *m = vision_of(model);
    if (m->norm_group > 0 && samples % m->norm_group != 0)
        return dt_fail(DT_ERR_INVALID,
                       "model.norm_group: %d does not divide the %" PRId64 " samples of a micro-batch; statistics are taken within one",
                       m->norm_group, samples);
    if (m->head == VISION_DEEPLAB && (m->norm_group > 0 ? m->norm_group : samples) < 2)
        return dt_fail(DT_ERR_INVALID, "model.norm_group: DeepLabV3's head normalises what it pools of a whole image; at least 2 samples "
                                       "in a micro-batch, and in a group, have statistics");
    return DT_OK;
}

void vision_fix_micro_batch(struct dt_model *model, int64_t samples)
{
    struct vision_model *m = vision_change(model);
    m->norm_group = m->norm_group > 0 ? m->norm_group : (int)samples;
}

/* ---- for schedules, records and people ---- */

struct sizes {
    uint64_t parameters;
    int64_t flops;
    double least_boundary, largest; /* elements of a sample, between blocks, and of any tensor */
};

static struct sizes sizes_of(const struct dt_model *model, int first, int end)
{
    struct sizes s = {.least_boundary = INFINITY};
    struct vision_layer layer;
    for (int i = 0; i < end; i++) {
        if (i == 0)
            vision_first_layer(model, &layer);
        else
            vision_next_layer(model, &layer);
        if (i < first)
            continue;
        s.parameters += layer.param_elems;
        s.flops += vision_layer_flops(&layer);
        if (layer.output >= 0)
            s.least_boundary = fmin(s.least_boundary, (double)vision_output_elems(&layer));
        for (int n = 0; n < layer.node_count; n++)
            s.largest = fmax(s.largest, (double)vision_shape_elems(layer.nodes[n].shape));
    }
    return s;
}

void vision_facts(const struct dt_model *model, struct dt_model_facts *out)
{
    const struct vision_model *m = vision_of(model);
    int terms = m->head == VISION_DEEPLAB ? m->image_size * m->image_size : 1;
    *out = (struct dt_model_facts){
        .blocks = vision_block_count(model),
        .units = 1,
        .loss_terms = terms,
        .outputs = (double)terms * m->classes * (m->auxiliary > 0 ? 2 : 1),
        .least_boundary_elems = sizes_of(model, 0, vision_layer_count(model)).least_boundary,
    };
}

void vision_describe(const struct dt_model *model, struct dt_model_texts *out)
{
    const struct vision_model *m = vision_of(model);
    snprintf(out->label, sizeof out->label, "%d-%d-%d-%dx%d", m->blocks[0], m->blocks[1], m->blocks[2], m->blocks[3], m->width);
    snprintf(out->sizes, sizeof out->sizes, "%d %s blocks, %d channels at first, %d classes%s", vision_block_count(model),
             m->block == VISION_BASIC ? "basic" : "bottleneck", m->width, m->classes, m->head == VISION_DEEPLAB ? " a pixel" : "");
    snprintf(out->sample, sizeof out->sample, "an image of %d x %d pixels a sample", m->image_size, m->image_size);
}

/* Of the blocks that differ only by their place, those of conv4_x, which most networks have most of. At least one in each stage is left. */
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

double vision_largest_tensor(const struct dt_model *model, double samples, const char **keys)
{
    *keys = "model.image_size, model.channels and model.classes";
    return samples * sizes_of(model, 0, vision_layer_count(model)).largest * vision_layer_count(model);
}

double vision_end_elems(const struct dt_model *model, int ranks)
{
    int layers = vision_layer_count(model);
    return (double)sizes_of(model, layers - 1, layers).parameters;
}

uint64_t vision_parameter_count(const struct dt_model *model)
{
    return sizes_of(model, 0, vision_layer_count(model)).parameters;
}

double vision_step_flops(const struct dt_model *model, uint64_t images)
{
    return 3 * (double)sizes_of(model, 0, vision_layer_count(model)).flops * (double)images;
}

const char *vision_flops_formula(const struct dt_model *model)
{
    return "3 * 2 * K P Q C R S per image, summed over all convolutions and the linear layer";
}

int vision_block_layer(int block)
{
    return 1 + block;
}

void vision_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out)
{
    struct sizes s = sizes_of(model, layers.first, layers.end);
    int blocks = vision_block_count(model), first = layers.first > 0 ? layers.first - 1 : 0;
    int last = layers.end - 2 < blocks ? layers.end - 2 : blocks - 1;
    bool stem = layers.first == 0, head = layers.end == blocks + 2;
    char between[48] = "";
    *out = (struct dt_layers_size){.parameters = s.parameters, .flops_per_unit = 3 * (double)s.flops};
    if (first == last)
        snprintf(between, sizeof between, "block %d", first);
    else if (first < last)
        snprintf(between, sizeof between, "blocks %d to %d", first, last);
    snprintf(out->text, sizeof out->text, "%s%s%s%s%s", stem ? "stem" : "", stem && *between ? ", " : "", between,
             head && (stem || *between) ? ", " : "", head ? "head" : "");
}

dt_status vision_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer)
{
    int count = vision_layer_count(model);
    if (stages > count)
        return dt_fail(DT_ERR_INVALID, "%d pipeline stages need as many pieces, and %d blocks with stem and head make %d", stages,
                       vision_block_count(model), count);
    struct dt_piece *pieces = malloc((size_t)count * sizeof *pieces);
    if (!pieces)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d pieces of a model", count);
    for (int i = 0; i < count; i++) {
        struct sizes s = sizes_of(model, i, i + 1);
        pieces[i] = (struct dt_piece){.first_layer = i, .parameters = s.parameters, .cost = s.flops};
    }
    dt_split(pieces, count, rule, stages, first_layer);
    first_layer[stages] = count;
    free(pieces);
    return DT_OK;
}
