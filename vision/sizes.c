#include "vision/sizes.h"

#include "lib/model/split.h"
#include "vision/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct sizes {
    uint64_t parameters, state_elems;
    int tensors;
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
        s.state_elems += layer.state_elems;
        s.tensors += layer.tensor_count;
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
    struct sizes sizes = sizes_of(model, 0, vision_layer_count(model));
    int terms = m->head == VISION_DEEPLAB ? m->image_size * m->image_size : 1;
    *out = (struct dt_model_facts){
        .blocks = vision_block_count(model),
        .units = 1,
        .loss_terms = terms,
        .outputs = (double)terms * m->classes * (m->auxiliary > 0 ? 2 : 1),
        .state = m->running == VISION_RANK_0 ? DT_STATE_OF_FIRST : DT_STATE_AVERAGED,
        .state_elems = sizes.state_elems,
        .least_boundary_elems = sizes.least_boundary,
    };
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

int vision_tensor_count(const struct dt_model *model)
{
    return sizes_of(model, 0, vision_layer_count(model)).tensors;
}

double vision_step_flops(const struct dt_model *model, uint64_t images)
{
    return 3 * (double)sizes_of(model, 0, vision_layer_count(model)).flops * (double)images;
}

const char *vision_flops_formula(const struct dt_model *model)
{
    return "3 * 2 * K P Q C R S per image, summed over all convolutions and the linear layer";
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
    DT_TRY(dt_allocated(pieces, "no host memory for %d pieces of a model", count));
    for (int i = 0; i < count; i++) {
        struct sizes s = sizes_of(model, i, i + 1);
        pieces[i] = (struct dt_piece){.first_layer = i, .parameters = s.parameters, .cost = s.flops};
    }
    dt_split(pieces, count, rule, stages, first_layer);
    first_layer[stages] = count;
    free(pieces);
    return DT_OK;
}
