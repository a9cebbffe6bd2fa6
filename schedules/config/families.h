/* The families of models that configs can name: the one place outside of a family's own folder, and of its tests, that knows them.
 * A new family is a folder beside gpt/ and one line in families.c. */
#ifndef SCHEDULES_CONFIG_FAMILIES_H
#define SCHEDULES_CONFIG_FAMILIES_H

#include "lib/model/model.h"

/* Families after dtbench's own; NULL past the last. Here there are none. The function is weak, as paradigm_more (paradigm.h). */
const struct dt_model_family *model_family_more(int index);

/* Family `index`, from 0; NULL past the last. */
const struct dt_model_family *model_family(int index);

/* Make `model` one of that family. Each family's description has a place of its own in a model, so that keys of all of them can be read
 * before it is known which one it is. */
void model_set_family(struct dt_model *model, const struct dt_model_family *family);

/* Preset `index`, counted over all families, and the family it belongs to; NULL past the last. */
const struct dt_model_preset *model_preset(int index, const struct dt_model_family **family);
/* The preset of that name, exactly, and its family; NULL when there is none. */
const struct dt_model_preset *model_find_preset(const char *name, const struct dt_model_family **family);

/* Give `model`, of the preset's family, the preset's sizes, and of its other keys what it says and `given` [the family's key_count] does not. */
void model_take_preset(struct dt_model *model, const struct dt_model_preset *preset, const bool *given);
/* A model of that preset, with the keys' defaults where it says nothing. */
struct dt_model model_of_preset(const struct dt_model_preset *preset, const struct dt_model_family *family);

#endif
