/* Internals of the config reader, only for the files of this folder. Labels are the beginnings of
 * errors: "FILE: path". */
#pragma once

#include "lib/config/config.h"

enum { DT_CONFIG_PATH_BYTES = 192, DT_CONFIG_LABEL_BYTES = 512 };

/* Limits of a setting's name, with its prefix, and of its value. */
enum { DT_CONFIG_SETTING_NAME_BYTES = 63, DT_CONFIG_SETTING_CHARACTERS = 255 };

/* prefix.key, or key if the prefix is "". Truncated if it is too long: no row has a path of that
 * length, so it is not found. */
void dt_config_join(const char *prefix, const char *key, char path[DT_CONFIG_PATH_BYTES]);

/* The object that contains the last word of `path` as a key; NULL: there is none, and `make` is
 * false, or no memory for it. *last gets that word. */
struct cJSON *dt_json_parent(struct cJSON *tree, const char *path, bool make, const char **last);

/* Whether there is a field below `path`; always true for "". */
bool dt_config_is_object(const struct dt_table *table, const char *path);

/* Go through the keys of the object at `prefix` in the table's order: the path of the next key, a
 * field or an object, from row *row on (0 at first). False after the last. The keys of an object
 * are adjacent in a table. */
bool dt_config_next_key(const struct dt_table *table, const char *prefix, int *row, char path[DT_CONFIG_PATH_BYTES]);

/* The row of settings to which `path` belongs, and the setting's name; -1: none. */
int dt_config_settings_above(const struct dt_table *table, const char *path, const char **out_name);

/* Whether there is anything at `path`: a field, an object of fields, or a setting (even with a
 * wrong name). */
bool dt_config_is_known(const struct dt_table *table, const char *path);

/* Store a text in `target` (NULL: check only). Errors: DT_ERR_INVALID if the field has no room for
 * it, DT_ERR_HOST_MEMORY. */
dt_status dt_config_store_text(const struct dt_field *field, const char *text, const char *label, void *target);

/* Add one setting, or if name is NULL an object of settings, to those in `target` (NULL: check
 * only). */
dt_status dt_config_read_settings(const struct dt_field *field, const char *name, const struct cJSON *value, const char *label,
                                  void *target);

/* Read the value at `path`: a field's, or an object of fields. Marks given (may be NULL). */
dt_status dt_config_read_at(const struct dt_table *table, const char *path, const struct cJSON *value, const char *label, void *target,
                            bool *given);

/* Messages (lib/config/message.c); each returns DT_ERR_INVALID. */
dt_status dt_config_fail_unknown(const struct dt_table *table, const char *prefix, const char *key, const char *label);
dt_status dt_config_fail_object(const struct dt_table *table, const char *path, const struct cJSON *value, const char *label);
dt_status dt_config_fail_missing(const struct dt_field *field, const char *where);
dt_status dt_config_fail_type(const struct dt_field *field, const struct cJSON *value, const char *label);
dt_status dt_config_fail_range(const struct dt_field *field, const struct cJSON *value, const char *label);
dt_status dt_config_fail_choice(const struct dt_field *field, const struct cJSON *value, const char *label);
