/* Sums over a network's layers: parameters, operations, the largest tensors; and the division of
 * layers into stages. The functions are the entries of the same name in struct dt_model_family. */
#pragma once

#include "vision/model.h"

void vision_facts(const struct dt_model *model, struct dt_model_facts *out);
double vision_largest_tensor(const struct dt_model *model, double samples, const char **keys);
bool vision_gradients_cancel(const struct dt_model *model, int64_t samples);
void vision_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);
