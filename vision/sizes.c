#include "vision/family_parts.h"

#include "vision/layers.h"

#include <math.h>

struct sizes {
    uint64_t parameters, state_elems;
    int tensors;
    int64_t flops;
    double least_boundary, largest; /* elements of a sample at the smallest boundary between blocks, and of the largest tensor */
};

static struct sizes sizes_of(const struct dt_model *model, int first, int end)
{
    struct sizes s = {.least_boundary = INFINITY};
    struct vision_layer layer;
    for (int i = first; i < end; i++) {
        vision_describe_layer(model, i, &layer);
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

void vision_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out)
{
    struct sizes s = sizes_of(model, layers.first, layers.end);
    *out = (struct dt_layers_size){.parameters = s.parameters, .tensors = s.tensors, .forward_flops = s.flops};
}

/* A norm of two values makes them +1 and -1, whatever they were: they have no slope, except by
 * epsilon. The last block has the fewest positions, and all gradients before it pass its norms. */
bool vision_gradients_cancel(const struct dt_model *model, int64_t samples)
{
    const struct vision_model *m = vision_of(model);
    struct vision_layer last;
    vision_describe_layer(model, vision_block_count(model), &last);
    struct vision_shape positions = last.nodes[last.output].shape;
    return (m->norm_group > 0 ? m->norm_group : samples) * positions.height * positions.width == 2;
}
