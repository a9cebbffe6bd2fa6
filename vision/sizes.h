/* What a network's layers add up to: parameters, operations, the largest tensors; and how its layers are dealt to stages. The functions are
 * the entries of the same name in struct dt_model_family. */
#ifndef VISION_SIZES_H
#define VISION_SIZES_H

#include "vision/model.h"

void vision_facts(const struct dt_model *model, struct dt_model_facts *out);
double vision_largest_tensor(const struct dt_model *model, double samples, const char **keys);
double vision_end_elems(const struct dt_model *model, int ranks);
uint64_t vision_parameter_count(const struct dt_model *model);
int vision_tensor_count(const struct dt_model *model);
double vision_step_flops(const struct dt_model *model, uint64_t images);
const char *vision_flops_formula(const struct dt_model *model);
dt_status vision_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer);
void vision_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);

#endif
