#include "schedules/config/hash.h"

#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "schedules/config/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dt_status experiment_set_hash(struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    struct cJSON *config = NULL;
    char *text = NULL;
    bool *wanted = calloc((size_t)table->count, sizeof *wanted);
    dt_status status = dt_allocated(wanted, "out of memory while writing a config");
    for (int i = 0; i < table->count && status == DT_OK; i++)
        wanted[i] = experiment_depends_on(e, &table->fields[i]) && experiment_shows(e, &table->fields[i]);
    DT_THEN(status, dt_config_write(table, e, wanted, &config));
    DT_THEN(status, dt_json_print(config, DT_JSON_SORTED, &text));
    if (status == DT_OK)
        snprintf(e->hash, sizeof e->hash, "%016" PRIx64, dt_hash_fnv1a(text, strlen(text)));
    free(text);
    dt_json_destroy(config);
    free(wanted);
    return status;
}

void experiment_hash_file(struct experiment *e, const char *text, size_t bytes)
{
    snprintf(e->hash, sizeof e->hash, "%016" PRIx64, dt_hash_fnv1a(text, bytes) ^ (uint64_t)strtoull(e->hash, NULL, 16));
}
