/* A stage's tensors by their names in the whole model, for files. The number of the node in its
 * layer distinguishes several convolutions or norms. */
#include "vision/stage.h"

#include <stdio.h>

/* The node that owns the parameter: the last one that does not begin after it. */
static int node_of(const struct vision_layer *layer, const struct vision_tensor *tensor)
{
    int found = 0;
    for (int n = 0; n < layer->node_count; n++) {
        const struct vision_node *node = &layer->nodes[n];
        if ((node->op == VISION_CONV || node->op == VISION_NORM) && node->first_elem <= tensor->first_elem)
            found = n;
    }
    return found;
}

bool vision_tensor_of(const struct dt_stage *stage, const struct dt_group *group, int index, struct dt_model_tensor *out)
{
    const struct vision_layer *layer = &((const struct vision_stage *)stage)->layers[group->first_layer];
    if (index >= layer->tensor_count)
        return false;
    const struct vision_tensor *tensor = &layer->tensors[index];
    int n = node_of(layer, tensor);
    const struct vision_node *node = &layer->nodes[n];
    bool first = tensor->first_elem == node->first_elem;
    size_t rows = first && node->op == VISION_CONV ? (size_t)node->shape.channels : tensor->count;
    *out = (struct dt_model_tensor){.offset_elems = tensor->first_elem,
                                    .count_elems = tensor->count,
                                    .run_elems = tensor->count,
                                    .stride_elems = tensor->count,
                                    .rows = rows,
                                    .columns = tensor->count / rows,
                                    .id = tensor->id,
                                    .init = tensor->init,
                                    .scale = tensor->scale};
    snprintf(out->name, sizeof out->name, "layers.%d.nodes.%d.%s", layer->index, n,
             !first                    ? "bias"
             : node->op == VISION_CONV ? "weight"
                                       : "gain");
    return true;
}

bool vision_state_tensor(const struct dt_stage *stage, int index, struct dt_model_tensor *out)
{
    const struct vision_stage *s = (const struct vision_stage *)stage;
    if (index >= stage->group_count)
        return false;
    size_t first = s->state_first[index], count = s->state_first[index + 1] - first;
    *out = (struct dt_model_tensor){
        .offset_elems = first, .count_elems = count, .run_elems = count, .stride_elems = count, .rows = count, .columns = 1};
    snprintf(out->name, sizeof out->name, "layers.%d.running_statistics", s->layers[index].index);
    return true;
}
