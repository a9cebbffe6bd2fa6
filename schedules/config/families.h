/* The families of models that configs can name: the one place outside of a family's own folder, and of its tests, that knows them.
 * A new family is a folder beside gpt/ and one line in families.c. */
#ifndef SCHEDULES_CONFIG_FAMILIES_H
#define SCHEDULES_CONFIG_FAMILIES_H

#include "lib/model/model.h"

/* Families after dtbench's own; NULL past the last. Here there are none. The function is weak, as paradigm_more (paradigm.h). */
const struct dt_model_family *model_family_more(int index);

/* Family `index`, from 0; NULL past the last. Family 0 is that of a model that is given by its sizes. */
const struct dt_model_family *model_family(int index);

/* Preset `index`, counted over all families, and the family it belongs to; NULL past the last. */
const struct dt_model_preset *model_preset(int index, const struct dt_model_family **family);
/* The preset of that name, exactly, and its family; NULL when there is none. */
const struct dt_model_preset *model_find_preset(const char *name, const struct dt_model_family **family);

/* A model of that preset, with what presets do not say as the config's defaults have it for vocabulary and sequence. */
struct dt_model model_of_preset(const struct dt_model_preset *preset, const struct dt_model_family *family);

#endif
