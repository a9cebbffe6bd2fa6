/* `dtbench validate`: how good the simulated cluster is, told by runs that were measured. */
#include "cli/commands/commands.h"

#include "cli/predict/validate.h"
#include "cli/run/signals.h"
#include "cli/text/exit_code.h"
#include "cli/text/options.h"

#include <string.h>

struct arguments {
    const char *data, *cluster, *profile;
    struct option_list sets;
    bool json, help;
};

static dt_status parse_options(int argc, char **argv, struct arguments *a)
{
    const struct option_row rows[] = {
        {"data", 'D', OPTION_TEXT, &a->data, "FILE", "measured runs, as comma-separated text; '-' is standard input"},
        {"cluster", 'C', OPTION_TEXT, &a->cluster, "FILE", "what they ran on; clusters/gcp_a2.json when not given"},
        {"profile", 'P', OPTION_TEXT, &a->profile, "FILE", "the software they ran; profiles/pytorch_1.11_a100.json when not given"},
        {"set", 's', OPTION_LIST, &a->sets, "PATH=VALUE", "change every run's config: --set pipeline.order=1f1b; any number of times"},
        {"json", 'j', OPTION_FLAG, &a->json, NULL, "print JSON: the same, and every row's prediction"},
        {"help", 'h', OPTION_FLAG, &a->help, NULL, "print this"},
        {0},
    };
    const struct option_spec spec = {
        .rows = rows,
        .help = &a->help,
        .usage =
            "Usage: dtbench validate --data FILE.csv [OPTION]...\n\n"
            "Predicts step time and peak memory of runs that were measured, on the simulated cluster, and prints how far off it is: by\n"
            "paradigm, model, GPUs, nodes and activation policy, and in all; and how often the fastest paradigm is named right, among\n"
            "runs of the same model, GPUs and batch per GPU. FILE has the columns of results/study/measured.csv: paradigm, model, gpus,\n"
            "batch_per_replica, and where they matter gpus_per_node, stages, chunks, activation, fsdp_wrap, parameter_offload, step_s,\n"
            "peak_mb (1e6 bytes). Needs no device, MPI or GPU.\n"};
    DT_TRY(options_parse(&spec, argc, argv));
    if (a->help)
        return DT_OK;
    return a->data ? DT_OK : dt_fail(DT_ERR_INVALID, "--data FILE is missing");
}

static bool interrupted(void *context)
{
    return signals_count() > 0;
}

int cmd_validate(int argc, char **argv)
{
    struct arguments a = {0};
    struct validate_rows rows = {0};
    struct validate_summary summary = {0};
    if (parse_options(argc, argv, &a) < 0)
        return report_failure("validate", EXIT_CODE_USAGE);
    if (a.help)
        return EXIT_CODE_OK;
    signals_install();
    struct validate_system system = {.cluster = a.cluster ? a.cluster : "clusters/gcp_a2.json",
                                     .profile = a.profile ? a.profile : "profiles/pytorch_1.11_a100.json",
                                     .sets = a.sets.items,
                                     .set_count = a.sets.count};
    dt_status status = validate_rows_read(a.data, &system, &rows);
    if (status == DT_OK)
        status = validate_predict(&rows, interrupted, NULL);
    if (status == DT_OK)
        status = validate_summarize(&rows, &summary);
    if (status == DT_OK)
        status = a.json ? validate_print_json(&rows, &summary, stdout) : validate_print(&rows, &summary, stdout);
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
    if (status == DT_OK)
        return EXIT_CODE_OK;
    bool config = status == DT_ERR_INVALID || status == DT_ERR_IO || status == DT_ERR_UNAVAILABLE;
    return report_failure("validate", config ? EXIT_CODE_CONFIG : EXIT_CODE_OTHER);
}
