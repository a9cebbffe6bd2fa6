/* `dtbench tune`: times the algorithms of the matrix products that configs ask for on this
 * machine's GPU, and writes which is the fastest. */
#include "cli/commands/commands.h"

#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/base/output_file.h"
#include "lib/config/json.h"
#include "lib/device/device.h"
#include "lib/launch/launch.h"
#include "schedules/config/families.h"
#include "schedules/config/parse.h"
#include "schedules/run/dry_rank.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tune_options {
    struct option_list files, sets;
    const char *output;
    bool quiet;
};

#define AT(member) offsetof(struct tune_options, member)

static const struct option_row options[] = {
    {"output", 'o', OPTION_TEXT, AT(output), "FILE", NULL,
     "write to this file, and keep its entries of other products, GPUs and libraries; default: tuning.json"},
    {"set", 's', OPTION_LIST, AT(sets), "PATH=VALUE", NULL,
     "change the configs before they are read, as in dtbench run. Any number of times"},
    {"quiet", 'q', OPTION_FLAG, AT(quiet), NULL, NULL, "no progress"},
    {0},
};

/* ---- what is asked for ---- */

/* List the products of one config's experiments. The config's own tuning file is ignored: it may be
 * the one that this command writes. */
static dt_status list_config(const struct tune_options *o, const char *file, const struct dt_model_family *family, struct dt_tuning *tuning)
{
    const char *sets[OPTION_LIST_MAX + 1];
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *experiments = NULL;
    memcpy(sets, o->sets.items, sizeof o->sets.items);
    sets[o->sets.count] = "tuning=\"\"";
    DT_TRY(experiments_read(file, sets, o->sets.count + 1, false, &experiments));
    if (!o->quiet)
        config_note_left_out(experiments);
    for (int i = 0; i < experiments->count; i++)
        if (experiments->all[i].model.family == family)
            DT_TRY(product_list_add(tuning, &experiments->all[i]));
    return DT_OK;
}

static dt_status read_output(const char *path, const struct dt_tuner *tuner, struct dt_tuning *tuning)
{
    DT_FREED char *text = NULL;
    size_t length;
    if (access(path, F_OK) != 0)
        return DT_OK;
    DT_TRY(dt_read_file(path, &text, &length));
    return tuner->read(tuning, path, text);
}

/* ---- measuring ---- */

static dt_status show_progress(void *context, int done, int total)
{
    const bool *live = context;
    if (signals_count() > 0)
        return dt_fail(DT_ERR_INTERRUPTED, "stopped after %d of %d products", done, total);
    if (*live)
        status_line("measuring products: %d/%d", done, total);
    return DT_OK;
}

static dt_status measure(const struct dt_tuner *tuner, struct dt_tuning *tuning, bool quiet)
{
    bool live = !quiet && terminal_is_live(stderr);
    struct dt_device *device;
    const struct dt_tune_hooks hooks = {&live, show_progress};
    DT_TRY(dt_device_create("cuda", NULL, &device));
    dt_status status = tuner->measure(tuning, device, &hooks);
    dt_device_destroy(device);
    if (live)
        status_clear();
    return status;
}

/* ---- writing ---- */

static dt_status write_tuning(const struct dt_tuner *tuner, const struct dt_tuning *tuning, const char *path)
{
    DT_FREED char *text = NULL;
    DT_TRY(tuner->write(tuning, &text));
    return dt_output_write(path, text);
}

static dt_status tune(const struct tune_options *o, const struct dt_tuner *tuner, struct dt_tuning *tuning)
{
    const char *path = o->output ? o->output : "tuning.json";
    char text[512];
    DT_TRY(read_output(path, tuner, tuning));
    DT_TRY(measure(tuner, tuning, o->quiet));
    DT_TRY(write_tuning(tuner, tuning, path));
    tuner->describe(tuning, text, sizeof text);
    if (!o->quiet)
        line_print(stdout, "%s; written: %s", text, path);
    return DT_OK;
}

/* The model family whose kernels can choose between algorithms. */
static const struct dt_model_family *tuned_family(void)
{
    int f = 0;
    while (model_family(f + 1) && !model_family(f)->tuner)
        f++;
    return model_family(f);
}

static dt_status check_options(const struct tune_options *o)
{
    char reason[512];
    struct dt_world world;
    for (int i = 0; i < o->sets.count; i++)
        if (!strchr(o->sets.items[i], '='))
            return dt_fail(DT_ERR_INVALID, "'--set %s' has no value: --set PATH=VALUE", o->sets.items[i]);
    if (o->sets.count == OPTION_LIST_MAX)
        return dt_fail(DT_ERR_INVALID, "--set is given %d times, one more than is possible: write the setting into the config",
                       o->sets.count);
    DT_TRY(dt_world_from_environment(&world));
    if (world.size > 1)
        return dt_fail(DT_ERR_INVALID, "%s has started %d processes: one GPU is measured, so start one", world.launcher, world.size);
    if (!dt_device_available("cuda", reason, sizeof reason) ||
        !dt_kernels_available(tuned_family(), dt_device_kind_at(DT_DEVICE_CUDA), reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"cuda\" is not available: %s", reason);
    return DT_OK;
}

static int run(int argc, char **argv)
{
    struct tune_options o = {.output = NULL};
    const struct dt_model_family *family = tuned_family();
    struct dt_tuning *tuning;
    int code;
    if (!options_begin(&command_tune, argc, argv, &o, NULL, &code))
        return code;
    dt_status status = check_options(&o);
    if (status < 0)
        return report_failure("tune", status == DT_ERR_UNAVAILABLE ? EXIT_CODE_CONFIG : EXIT_CODE_USAGE);
    if (family->tuner->create(&tuning) < 0)
        return report_failure("tune", EXIT_CODE_OTHER);
    signals_install();
    for (int i = 0; i < o.files.count && status == DT_OK; i++)
        status = list_config(&o, o.files.items[i], family, tuning);
    code = status < 0 ? EXIT_CODE_CONFIG : EXIT_CODE_OK;
    if (status == DT_OK) {
        status = tune(&o, family->tuner, tuning);
        code = status < 0 ? signals_exit_code(status) : EXIT_CODE_OK;
    }
    family->tuner->destroy(tuning);
    return status < 0 ? report_failure("tune", code) : EXIT_CODE_OK;
}

const struct command command_tune = {
    .name = "tune",
    .summary = "time the algorithms of a config's matrix products on this GPU, for device cuda",
    .usage = "[OPTION]... FILE...",
    .description =
        "Finds the matrix products that the experiments of the configs ask for, on every rank, and times what cuBLASLt offers for each of "
        "them on this machine's first GPU, on operands that are in no cache. The file gets the fastest algorithm of each, by shape, dtype, "
        "epilogue, GPU and version of cuBLASLt. Then\n"
        "\n"
        "  dtbench run CONFIG --set tuning=FILE\n"
        "\n"
        "computes with them; other products are computed by the first algorithm that cuBLASLt names, as all products are without a file. A "
        "run never measures by itself: two runs with the same file give the same bits. Records name the file "
        "and say how many products it decided.",
    .options = options,
    .argument = {"config file", OPTION_LIST, AT(files), "needs a config file"},
    .run = run,
};
