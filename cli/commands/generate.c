/* `dtbench generate`: the files of the source tree that are made from dtbench's tables, for scripts/generate. */
#include "cli/commands/commands.h"

#include "cli/text/exit_code.h"
#include "cli/text/options.h"
#include "lib/config/json.h"
#include "lib/sim/cluster.h"
#include "schedules/config/parse.h"

#include <stdlib.h>
#include <string.h>

static dt_status write_schema(const struct dt_schema *schema, FILE *to)
{
    struct cJSON *tree;
    char *text;
    DT_TRY(dt_schema_make(schema, &tree));
    dt_status status = dt_json_print(tree, DT_JSON_FIT, &text);
    dt_json_destroy(tree);
    DT_TRY(status);
    fprintf(to, "%s\n", text);
    free(text);
    return DT_OK;
}

static dt_status write_config_schema(FILE *to)
{
    return write_schema(experiment_schema(), to);
}

static dt_status write_cluster_schema(FILE *to)
{
    return write_schema(dt_sim_cluster_schema(), to);
}

struct generated {
    const char *name;
    dt_status (*write)(FILE *to);
};

static const struct generated generated[] = {
    {"config-schema", write_config_schema},
    {"cluster-schema", write_cluster_schema},
    {0},
};

static int unknown(const char *name)
{
    fprintf(stderr, "dtbench generate: '%s' is not known; known are", name);
    for (const struct generated *g = generated; g->name; g++)
        fprintf(stderr, "%s %s", g == generated ? "" : ",", g->name);
    fputc('\n', stderr);
    return EXIT_CODE_USAGE;
}

int cmd_generate(int argc, char **argv)
{
    const char *name = NULL;
    bool help = false;
    const struct option_row rows[] = {{"help", 'h', OPTION_FLAG, &help, NULL, "print this"}, {0}};
    const struct option_spec spec = {
        .rows = rows,
        .argument = "name of a file",
        .argument_target = &name,
        .help = &help,
        .usage = "Usage: dtbench generate WHAT\n\n"
                 "Prints a file, or a part of one, that is made from dtbench's tables. scripts/generate calls it.\n"};
    if (options_parse(&spec, argc, argv) < 0)
        return report_failure("generate", EXIT_CODE_USAGE);
    if (help)
        return EXIT_CODE_OK;
    for (const struct generated *g = generated; name && g->name; g++)
        if (strcmp(g->name, name) == 0)
            return g->write(stdout) < 0 ? report_failure("generate", EXIT_CODE_OTHER) : EXIT_CODE_OK;
    return unknown(name ? name : "");
}
