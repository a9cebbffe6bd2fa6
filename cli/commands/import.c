/* `dtbench import`: another framework's job as a config. */
#include "cli/commands/commands.h"

#include "cli/text/text.h"
#include "cli/words/words.h"
#include "lib/base/output_file.h"
#include "lib/base/text.h"
#include "lib/config/json.h"
#include "schedules/config/model_from.h"
#include "schedules/config/parse.h"

#include <stdlib.h>
#include <string.h>

struct import_arguments {
    const char *file, *from, *gpus, *micro_batch, *output;
    struct import_options options; /* made from the texts above */
    struct option_list sets;
    bool assume, json;
};

#define AT(member) offsetof(struct import_arguments, member)

enum { MOST_GPUS = 65536 };

static const struct option_row options[] = {
    {"from", 'F', OPTION_TEXT, AT(from), "WHOSE", framework_name,
     "the framework of the job, where the file does not show it. The words are"},
    {"model", 'm', OPTION_TEXT, AT(options.model), "MODEL", NULL,
     "the model, where the file has none: a preset of dtbench list, or a Hugging Face model's config.json"},
    {"gpus", 'g', OPTION_TEXT, AT(gpus), "N", NULL, "GPUs in all, where the file does not say it"},
    {"micro-batch", 'b', OPTION_TEXT, AT(micro_batch), "N", NULL, "samples of a GPU at a time, where the file does not say it"},
    {"set", 's', OPTION_LIST, AT(sets), "PATH=VALUE", NULL, CONFIG_SET_HELP},
    {"assume", 'a', OPTION_FLAG, AT(assume), NULL, NULL,
     "write the config with the printed assumptions, although something that matters to time or memory is unknown or has no counterpart"},
    {"output", 'o', OPTION_TEXT, AT(output), "FILE", NULL, "write the config to this file; default: standard output"},
    {"json", 'j', OPTION_FLAG, AT(json), NULL, NULL, "print JSON: the config, and what was read, assumed and left out"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct import_arguments *a = options_read;
    if (a->from && !framework_find(a->from))
        return dt_fail(DT_ERR_INVALID, "--from %.40s: is not known; dtbench import --help names them", a->from);
    a->options.file = a->file;
    DT_TRY(options_read_count("gpus", a->gpus, MOST_GPUS, &a->options.gpus));
    return options_read_count("micro-batch", a->micro_batch, MOST_GPUS, &a->options.micro_batch);
}

/* A Hugging Face config describes a model, and no job. */
static dt_status import_model(const char *file, struct cJSON *tree, struct dt_translation *t)
{
    const struct dt_model_family *family;
    DT_TRY(model_translate(tree, file, t, &family));
    dt_json_put(t->ours, "device", dt_json_text("sim"));
    return DT_OK;
}

static dt_status import(const struct import_arguments *a, struct dt_translation *t)
{
    struct cJSON *tree;
    const struct framework *f = a->from ? framework_find(a->from) : NULL;
    DT_TRY(words_read_text(a->file, f, &tree));
    f = f ? f : framework_of(tree);
    if (!f && dt_json_at(tree, "model_type"))
        return import_model(a->file, tree, t);
    if (f)
        return framework_import(f, tree, &a->options, t);
    char list[256] = "";
    for (int i = 0; framework_name(i); i++)
        dt_append(list, sizeof list, ", ", "%s", framework_name(i));
    dt_json_destroy(tree);
    return dt_fail(DT_ERR_INVALID, "%s: cannot tell whose job this is: name the framework with --from, which is one of %s", a->file, list);
}

/* Does the result read as a config, after the changes of --set? */
static dt_status check_config(const struct import_arguments *a, const struct dt_translation *t)
{
    DT_FREED char *text = NULL;
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *list = NULL;
    DT_TRY(dt_json_print(t->ours, DT_JSON_COMPACT, &text));
    DT_TRY(experiments_parse_list(text, strlen(text), a->file, a->sets.items, a->sets.count, &list));
    for (int i = 0; i < a->sets.count; i++)
        DT_TRY(dt_config_set(experiment_table(), t->ours, a->sets.items[i]));
    return DT_OK;
}

static dt_status write_config(const struct import_arguments *a, const struct dt_translation *t)
{
    DT_FREED char *text = NULL;
    DT_TRY(dt_json_print(t->ours, DT_JSON_INDENT, &text));
    if (a->output)
        return dt_output_write(a->output, text);
    puts(text); /* the program's end says whether standard output was written */
    return DT_OK;
}

static dt_status print_json(struct dt_translation *t)
{
    dt_status status = dt_json_write(dt_json_object("config: %p, read: %p, assumed: %p, alike: %p, left_out: %p, unknown: %p", t->ours,
                                                    t->remarks[DT_REMARK_READ], t->remarks[DT_REMARK_ASSUMED], t->remarks[DT_REMARK_ALIKE],
                                                    t->remarks[DT_REMARK_LEFT], t->remarks[DT_REMARK_CANNOT]),
                                     stdout);
    *t = (struct dt_translation){.theirs = t->theirs}; /* the rest was passed on */
    return status;
}

/* Programs that read the config read standard output, so messages go to standard error where the
 * config is printed. */
static int finish(const struct import_arguments *a, struct dt_translation *t)
{
    bool unknown = dt_first_remark(t, DT_REMARK_CANNOT) != NULL;
    for (int i = 0; i < a->sets.count; i++)
        dt_assume_no_more(t, a->sets.items[i]);
    if (!a->json)
        remarks_print(t, a->output ? stdout : stderr);
    if (unknown && !a->assume && !a->json) {
        dt_fail(DT_ERR_INVALID, "%s: what is unknown above matters to time or memory; --assume writes the config without it", a->file);
        return report_failure("import", EXIT_CODE_CONFIG);
    }
    if (check_config(a, t) < 0)
        return report_failure("import", EXIT_CODE_CONFIG);
    dt_status status = a->json ? print_json(t) : write_config(a, t);
    return status < 0 ? report_failure("import", EXIT_CODE_OUTPUT) : unknown && !a->assume ? EXIT_CODE_CONFIG : EXIT_CODE_OK;
}

static int run(int argc, char **argv)
{
    struct import_arguments a = {.file = NULL};
    struct dt_translation t = {.origin = NULL};
    int code;
    if (!options_begin(&command_import, argc, argv, &a, check_options, &code))
        return code;
    code = import(&a, &t) < 0 ? report_failure("import", EXIT_CODE_CONFIG) : finish(&a, &t);
    dt_translation_finish(&t);
    return code;
}

const struct command command_import = {
    .name = "import",
    .summary = "make a config of another framework's job",
    .usage = "[OPTION]... FILE",
    .description =
        "Reads a Megatron-LM command line or a script with one, the YAML of Megatron-Bridge or NeMo, torchtitan's TOML, DeepSpeed's JSON, "
        "accelerate's YAML for FSDP, arguments of Hugging Face's Trainer (YAML, JSON, a command line, with the files that they name), "
        "axolotl's or torchtune's YAML, or a Hugging Face model's config.json, and makes a config for device sim of it.\n\n"
        "It prints what was read, what was assumed, what was replaced by something with the same time and memory, what was left out, and "
        "what is unknown although it matters: then the exit code is 3 and no config is written, unless --assume.\n\n"
        "    dtbench import train.sh --gpus 64 --output job.json\n"
        "    dtbench check job.json",
    .options = options,
    .argument = {"file", OPTION_TEXT, AT(file), "needs a file"},
    .run = run,
};
