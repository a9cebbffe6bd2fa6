/* `dtbench generate`: the files of the source tree that are made from dtbench's tables, for scripts/generate. */
#include "cli/commands/commands.h"

#include "cli/text/exit_code.h"
#include "cli/text/options.h"
#include "lib/config/json.h"
#include "lib/record/metrics.h"
#include "lib/sim/cluster.h"
#include "schedules/config/parse.h"

#include <stdlib.h>
#include <string.h>

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

static dt_status write_schema(const struct dt_schema *schema, FILE *to)
{
    struct cJSON *tree;
    DT_TRY(dt_schema_make(schema, &tree));
    return write_tree(tree, to);
}

static dt_status write_config_schema(FILE *to)
{
    return write_schema(experiment_schema(), to);
}

static dt_status write_cluster_schema(FILE *to)
{
    return write_schema(dt_sim_cluster_schema(), to);
}

static dt_status write_metrics_schema(FILE *to)
{
    struct cJSON *tree;
    DT_TRY(dt_metrics_schema(&tree));
    return write_tree(tree, to);
}

/* "mean of the ranks, median of the timed steps" */
static void write_rule(const struct dt_metric *metric, FILE *to)
{
    static const char *const over_ranks[] = {
        [DT_RANKS_ONE] = "", [DT_RANKS_MEAN] = "mean of the ranks", [DT_RANKS_SUM] = "sum of the ranks", [DT_RANKS_MAX] = "highest rank"};
    static const char *const over_steps[] = {
        [DT_STEPS_RUN] = "", [DT_STEPS_MEDIAN] = "median of the timed steps", [DT_STEPS_SUM] = "sum of all steps"};
    const char *ranks = over_ranks[metric->ranks], *steps = over_steps[metric->steps];
    fprintf(to, "%s%s%s", ranks, *ranks && *steps ? ", " : "", steps);
}

static dt_status write_metrics(FILE *to)
{
    fputs("| metric | unit | over ranks and steps | meaning |\n|---|---|---|---|\n", to);
    for (int i = 0; dt_metric_at(i); i++) {
        const struct dt_metric *metric = dt_metric_at(i);
        fprintf(to, "| `%s` | %s | ", metric->key, dt_unit_name(metric->unit));
        write_rule(metric, to);
        fprintf(to, " | %s |\n", metric->help);
    }
    return DT_OK;
}

struct generated {
    const char *name;
    dt_status (*write)(FILE *to);
};

static const struct generated generated[] = {
    {"config-schema", write_config_schema},
    {"cluster-schema", write_cluster_schema},
    {"metrics-schema", write_metrics_schema},
    {"metrics", write_metrics},
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
