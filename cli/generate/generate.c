#include "cli/generate/generate.h"

#include "cli/generate/completion.h"
#include "cli/generate/manual.h"
#include "cli/generate/markdown.h"
#include "lib/config/json.h"
#include "lib/record/metrics.h"
#include "lib/sim/cluster.h"
#include "schedules/config/parse.h"
#include "schedules/predict/simulated_system.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const struct dt_schema *(*schema)(void);                       /* either a schema, */
    dt_status (*tree)(struct cJSON **out);                         /* or JSON, which the caller owns, */
    void (*write)(const struct generate_tables *tables, FILE *to); /* or text */
} generated[] = {
    {"config-schema", .schema = experiment_schema},
    {"cluster-schema", .schema = dt_sim_cluster_schema},
    {"profile-schema", .schema = simulated_profile_schema},
    {"metrics-schema", .tree = dt_metrics_schema},
    {"metrics", .write = markdown_metrics},
    {"completion", .write = completion_write},
    {"configuration", .write = markdown_keys},
    {"exit-codes", .write = markdown_exit_codes},
    {"manual-synopsis", .write = manual_synopsis},
    {"manual-commands", .write = manual_commands},
    {"manual-keys", .write = manual_keys},
    {"manual-exit-codes", .write = manual_exit_codes},
    {"paradigms", .write = markdown_paradigms},
    {"paradigm-keys", .write = markdown_paradigm_keys},
};

enum { GENERATED = sizeof generated / sizeof generated[0] };

/* Print a tree, and destroy it. */
static dt_status write_tree(struct cJSON *tree, FILE *to)
{
    char *text;
    dt_status status = dt_json_print(tree, DT_JSON_FIT, &text);
    dt_json_destroy(tree);
    DT_TRY(status);
    fprintf(to, "%s\n", text);
    free(text);
    return DT_OK;
}

static dt_status unknown(const char *name)
{
    char known[512] = "";
    for (int i = 0; i < GENERATED; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", generated[i].name);
    }
    return dt_fail(DT_ERR_INVALID, "'%s': expected one of %s", name, known);
}

dt_status generate(const char *name, const struct command *const *commands, FILE *to)
{
    const struct generate_tables tables = {commands, experiment_table()};
    struct cJSON *tree;
    int row = 0;
    while (row < GENERATED && strcmp(generated[row].name, name) != 0)
        row++;
    if (row == GENERATED)
        return unknown(name);
    if (generated[row].write) {
        generated[row].write(&tables, to);
        return DT_OK;
    }
    if (generated[row].schema)
        DT_TRY(dt_schema_make(generated[row].schema(), &tree));
    else
        DT_TRY(generated[row].tree(&tree));
    return write_tree(tree, to);
}
