/* `dtbench export`: a config as another framework's job. */
#include "cli/commands/commands.h"

#include "cli/text/text.h"
#include "cli/words/words.h"
#include "lib/base/output_file.h"
#include "predict/chakra.h"
#include "schedules/checkpoint/checkpoint.h"

#include <string.h>

struct export_arguments {
    struct config_arguments config;
    const char *framework, *output, *file_mib;
    bool anyway, all_ranks;
    uint64_t most_bytes; /* read from file_mib */
};

/* Formats that are not a framework's job: execution traces, and a model's parameters. */
#define CHAKRA "chakra"
#define TRANSFORMERS "transformers"

/* The names of the frameworks, and last the formats that are not jobs. */
static const char *target_choice(int index)
{
    static const char *const others[] = {TRANSFORMERS, CHAKRA, NULL};
    int frameworks = 0;
    while (framework_export_name(frameworks))
        frameworks++;
    return index < frameworks ? framework_export_name(index) : index - frameworks < 3 ? others[index - frameworks] : NULL;
}

static bool is_for(const struct export_arguments *a, const char *target)
{
    return strcmp(a->framework, target) == 0;
}

#define AT(member) offsetof(struct export_arguments, member)

static const struct option_row options[] = {
    CONFIG_OPTION_ROWS(struct export_arguments, config),
    {"for", 'f', OPTION_TEXT, AT(framework), "WHOM", target_choice,
     "the framework that will run it; transformers: the parameters of a checkpoint, as a Hugging Face folder; chakra: execution traces of "
     "a simulated step, for simulators of networks. The words are"},
    {"anyway", 'a', OPTION_FLAG, AT(anyway), NULL, NULL, "write the job although the framework has no setting for something that matters"},
    {"all-ranks", 'A', OPTION_FLAG, AT(all_ranks), NULL, NULL,
     "chakra: traces of all ranks; default: one rank of each set of ranks that do the same"},
    {"file-mib", 0, OPTION_TEXT, AT(file_mib), "N", NULL,
     "transformers: files of at most N MiB, unless one tensor is larger; default: 4096"},
    {"output", 'o', OPTION_TEXT, AT(output), "FILE", NULL,
     "write the job to this file; default: standard output. For chakra and transformers: the folder"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct export_arguments *a = options_read;
    DT_TRY(config_arguments_check(&a->config));
    if (!a->framework)
        return dt_fail(DT_ERR_INVALID, "needs --for WHOM");
    bool known = false;
    int file_mib = 4096;
    if ((is_for(a, CHAKRA) || is_for(a, TRANSFORMERS)) && !a->output)
        return dt_fail(DT_ERR_INVALID, "--for %s needs --output and a folder", a->framework);
    DT_TRY(options_read_count("file-mib", a->file_mib, 1 << 24, &file_mib));
    a->most_bytes = (uint64_t)file_mib << 20;
    for (int i = 0; target_choice(i); i++)
        known |= is_for(a, target_choice(i));
    return known ? DT_OK : dt_fail(DT_ERR_INVALID, "--for %.40s: is not known; dtbench export --help names them", a->framework);
}

static dt_status read_experiment(const struct export_arguments *a, struct experiment *out)
{
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *list = NULL;
    DT_TRY(config_arguments_read(&a->config, &list));
    int count = list->count;
    *out = list->all[0];
    return count == 1 ? DT_OK
                      : dt_fail(DT_ERR_INVALID, "is a sweep of %d experiments, and a job is one experiment; choose it with --set", count);
}

static dt_status write_job(const struct export_arguments *a, const struct dt_translation *t)
{
    struct dt_output_file file = {.stream = stdout};
    if (a->output)
        DT_TRY(dt_output_open(a->output, &file));
    words_write_text(framework_find(a->framework), t->theirs, file.stream);
    return a->output ? dt_output_close(&file, true) : DT_OK; /* the program's end says whether standard output was written */
}

static int finish(const struct export_arguments *a, const struct dt_translation *t)
{
    remarks_print(t, a->output ? stdout : stderr);
    if (dt_first_remark(t, DT_REMARK_CANNOT) && !a->anyway) {
        dt_fail(DT_ERR_INVALID, "%s has no setting for what is unknown above; --anyway writes the job without it",
                framework_find(a->framework)->title);
        return report_failure("export", EXIT_CODE_CONFIG);
    }
    return write_job(a, t) < 0 ? report_failure("export", EXIT_CODE_OUTPUT) : EXIT_CODE_OK;
}

static dt_status write_traces(const struct export_arguments *a, const struct experiment *e, struct chakra_totals *totals)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    if (!experiment_is_simulated(e))
        return dt_fail(DT_ERR_INVALID, "device is \"%s\": traces need --device sim", e->device);
    DT_TRY(simulated_system_create(e, &system));
    return chakra_write(e, system, a->output, a->all_ranks, totals);
}

static int run_chakra(const struct export_arguments *a, const struct experiment *e)
{
    struct chakra_totals t;
    char compute[FORMAT_BYTES], copies[FORMAT_BYTES], messages[FORMAT_BYTES], collectives[FORMAT_BYTES];
    dt_status status = write_traces(a, e, &t);
    if (status < 0)
        return report_failure("export", status == DT_ERR_IO ? EXIT_CODE_OUTPUT : EXIT_CODE_CONFIG);
    line_print(stdout, "%d of %d ranks in %s: %s kernels, %s copies, %s messages, %s collectives", t.ranks, e->world_size, a->output,
               format_count(t.compute, compute), format_count(t.copies, copies), format_count(t.messages, messages),
               format_count(t.collectives, collectives));
    return EXIT_CODE_OK;
}

/* Export the checkpoint that a run would continue from, or the one that a run has written. */
static int run_transformers(const struct export_arguments *a, const struct experiment *e)
{
    struct checkpoint_exported made;
    bool given = *e->checkpoint.from && strcmp(e->checkpoint.from, "auto") != 0;
    const char *path = given ? e->checkpoint.from : e->checkpoint.path;
    char bytes[FORMAT_BYTES];
    dt_status status = *path ? checkpoint_export(e, path, a->output, a->most_bytes, &made)
                             : dt_fail(DT_ERR_INVALID, "no checkpoint: name one with --from FOLDER");
    if (status < 0)
        return report_failure("export", status == DT_ERR_IO ? EXIT_CODE_OUTPUT : EXIT_CODE_CONFIG);
    line_print(stdout, "%s (%s): %s in %d file%s, %s", made.architecture, made.type, dt_memory_text((double)made.bytes, bytes), made.files,
               made.files > 1 ? "s" : "", a->output);
    return EXIT_CODE_OK;
}

static int run(int argc, char **argv)
{
    struct export_arguments a = {.framework = NULL};
    DT_ENDED(dt_translation_finish) struct dt_translation t = {.origin = NULL};
    struct experiment e;
    int code;
    if (!options_begin(&command_export, argc, argv, &a, check_options, &code))
        return code;
    dt_status status = read_experiment(&a, &e);
    if (status == DT_OK && is_for(&a, CHAKRA))
        return run_chakra(&a, &e);
    if (status == DT_OK && is_for(&a, TRANSFORMERS))
        return run_transformers(&a, &e);
    DT_THEN(status, framework_export(framework_find(a.framework), &e, &t));
    return status < 0 ? report_failure("export", EXIT_CODE_CONFIG) : finish(&a, &t);
}

const struct command command_export = {
    .name = "export",
    .summary = "write a config as another framework's job, or a checkpoint as its model",
    .usage = "[OPTION]... --for WHOM FILE",
    .description =
        "Writes a config of one experiment as the flags of Megatron-LM, torchtitan's TOML, DeepSpeed's JSON or accelerate's YAML for FSDP. "
        "Only what that framework has a setting for is written. What it has no setting for is printed, and the exit code is then 3, unless "
        "--anyway.\n\n"
        "dtbench plan --for WHOM writes the best plan in the same form.\n\n"
        "    dtbench export plan.json --for megatron\n\n"
        "For transformers it writes the parameters of the checkpoint that --from names, in model.dtype: a folder of config.json and "
        "safetensors, which from_pretrained() reads, and --from, too.",
    .options = options,
    .argument = {"config file", OPTION_TEXT, AT(config.file), NULL},
    .run = run,
};
