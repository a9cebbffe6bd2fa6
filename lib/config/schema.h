/* JSON Schemas made from tables of fields, so that no key is typed twice.
 *
 * A table says of each key its type, range, choices, default and meaning. Separate data says what
 * an object of keys is for, and which rules hold between its keys (sections), and describes lists
 * and maps that have no rows (parts). */
#pragma once

#include "lib/config/config.h"

/* An object of keys; path "" is the whole file. */
struct dt_schema_section {
    const char *path, *description;
    const char *rules; /* further members of the object's schema, as a JSON object; NULL: none */
};

/* A key without a row in the table: a list of objects, or what `schema` says. */
struct dt_schema_part {
    const char *path, *description;
    bool required;
    const struct dt_list *(*list)(void); /* NULL: not a list */
    const char *schema;                  /* its schema but the description, as a JSON object, if it is not a list */
};

struct dt_schema {
    const char *title;
    const struct dt_table *table;
    const struct dt_schema_section *sections; /* the last has a NULL path; NULL: none */
    const struct dt_schema_part *parts;       /* the last has a NULL path; NULL: none */
    bool sweeps;                              /* it has the key "sweep": every path or object may have a list instead of a value */
};

/* Write the schema (JSON Schema, draft 2020-12): keys in the table's order. Owner of *out: the
 * caller, dt_json_destroy.
 * Errors: DT_ERR_HOST_MEMORY, also where rules or a part's schema are not JSON. */
dt_status dt_schema_make(const struct dt_schema *schema, struct cJSON **out);
