/* The families of models that configs can name. Only this module, and a family's own folder and
 * tests, know families by name. A new family is a folder next to gpt/ and one line in families.c. */
#pragma once

#include "lib/model/model.h"

/* Families after dtbench's own; NULL past the last. dtbench has none; the function is weak, as
 * paradigm_more (paradigm.h) is. */
const struct dt_model_family *model_family_more(int index);

/* Family `index`, from 0; NULL past the last. */
const struct dt_model_family *model_family(int index);

/* Make `model` one of that family. A model has a separate place for each family's description, so
 * that keys can be read before the family is known. */
void model_set_family(struct dt_model *model, const struct dt_model_family *family);

/* Preset `index`, counted over all families, and its family; NULL past the last. */
const struct dt_model_preset *model_preset(int index, const struct dt_model_family **family);
/* The preset of that name, exactly, and its family; NULL when there is none. */
const struct dt_model_preset *model_find_preset(const char *name, const struct dt_model_family **family);

/* The preset that others call so: "meta-llama/Meta-Llama-3-8B-Instruct", "llama3_8b". */
const struct dt_model_preset *model_find_abroad(const char *name, const struct dt_model_family **family);

/* Give `model`, of the preset's family, the preset's sizes, and those other values of the preset
 * whose keys are not marked in `given` [the family's key_count]. */
void model_take_preset(struct dt_model *model, const struct dt_model_preset *preset, const bool *given);
/* A model of that preset, with defaults for the keys that the preset does not set. */
struct dt_model model_of_preset(const struct dt_model_preset *preset, const struct dt_model_family *family);
