/* `dtbench calibrate`: measures this machine, and writes the cluster and the profile with which
 * device sim predicts its runs. */
#include "cli/commands/commands.h"

#include "cli/predict/predict.h"
#include "cli/run/calibration_ranks.h"
#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/base/machine.h"
#include "lib/base/output_file.h"
#include "lib/device/device.h"
#include "lib/launch/launch.h"
#include "predict/calibration.h"
#include "schedules/config/families.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WORLDS = 8, MOST_RANKS = 64, MOST_THREADS = 4096 };

struct campaign {
    int worlds[MOST_WORLDS], world_count;
    struct calibration_request request;
};

struct command_options {
    const char *device, *ranks, *threads, *dtypes, *directory, *storage;
    bool quick, quiet;
    struct campaign plan; /* made from the texts above */
};

/* ---- options ---- */

/* What can be measured: "cpu", "cuda". */
static const char *measured_device(int index)
{
    const struct dt_device_kind *kind = NULL;
    for (int i = 0; index >= 0 && (kind = dt_device_kind_at(i)); i++)
        index -= !kind->simulated;
    return kind ? kind->name : NULL;
}

#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"output-dir", 'o', OPTION_TEXT, AT(directory), "DIR", NULL, "write cluster.json and profile.json here; default: ."},
    {"storage", 's', OPTION_TEXT, AT(storage), "DIR", NULL,
     "the folder of checkpoints: a file of 256 MiB is written there, read, and removed; default: the folder of --output-dir"},
    {"device", 'd', OPTION_TEXT, AT(device), "DEVICE", measured_device, "what to measure; default: cpu. They are"},
    {"ranks", 'r', OPTION_TEXT, AT(ranks), "LIST", NULL,
     "numbers of ranks to measure with; default: 1,2,4; on GPUs 1, 2, 4 and so on up to all"},
    {"threads", 't', OPTION_TEXT, AT(threads), "N", NULL, "cpu: threads of each rank; default: processors / ranks, as in experiments"},
    {"dtype", 'T', OPTION_TEXT, AT(dtypes), "LIST", dt_dtype_name,
     "data types to measure, comma-separated; default: those that this processor computes natively, on a GPU all. They are"},
    {"quick", 0, OPTION_FLAG, AT(quick), NULL, NULL, "few and small measurements, to try the command: predictions from them are worthless"},
    {"quiet", 'q', OPTION_FLAG, AT(quiet), NULL, NULL, "no progress"},
    {0},
};

static dt_status parse_ranks(const char *text, struct campaign *plan)
{
    char *end;
    for (const char *at = text;; at = end + 1) {
        long ranks = strtol(at, &end, 10);
        if (end == at || ranks < 1 || ranks > MOST_RANKS || (*end && *end != ','))
            return dt_fail(DT_ERR_INVALID, "--ranks %s: expected comma-separated integers from 1 to %d", text, MOST_RANKS);
        for (int i = 0; i < plan->world_count; i++)
            if (plan->worlds[i] == ranks)
                return dt_fail(DT_ERR_INVALID, "--ranks %s: %ld is given twice", text, ranks);
        if (plan->world_count == MOST_WORLDS)
            return dt_fail(DT_ERR_INVALID, "--ranks %s: expected at most %d numbers", text, MOST_WORLDS);
        plan->worlds[plan->world_count++] = (int)ranks;
        if (!*end)
            return DT_OK;
    }
}

static dt_status parse_device(const char *name, struct campaign *plan)
{
    const char *known;
    for (int i = 0; (known = measured_device(i)); i++)
        if (strcmp(known, name) == 0)
            snprintf(plan->request.device, sizeof plan->request.device, "%s", name);
    return *plan->request.device ? DT_OK : dt_fail(DT_ERR_INVALID, "--device %s: expected cpu or cuda", name);
}

/* Plan for 1, 2, 4, ... GPUs of this machine, and for all of them. */
static dt_status ranks_of_gpus(const char *device, struct campaign *plan)
{
    int count = dt_device_count(device);
    plan->worlds[plan->world_count++] = 1;
    for (int ranks = 2; ranks <= count && plan->world_count < MOST_WORLDS; ranks = ranks < count && 2 * ranks > count ? count : 2 * ranks)
        plan->worlds[plan->world_count++] = ranks;
    return DT_OK;
}

/* Does any measured family compute this type natively? */
static bool is_native(enum dt_dtype dtype)
{
    char advice[128];
    for (int f = 0; model_family(f); f++)
        if (model_family(f)->prober && dt_cpu_dtype_native(model_family(f), dtype, advice, sizeof advice))
            return true;
    return false;
}

static dt_status make_plan(void *options_read)
{
    struct command_options *o = options_read;
    struct campaign *plan = &o->plan;
    plan->request.quick = o->quick;
    DT_TRY(parse_device(o->device ? o->device : "cpu", plan));
    bool gpus = !calibration_shares(&plan->request);
    DT_TRY(gpus && !o->ranks ? ranks_of_gpus(o->device, plan) : parse_ranks(o->ranks ? o->ranks : "1,2,4", plan));
    if (gpus && o->threads)
        return dt_fail(DT_ERR_INVALID, "--threads: only with --device cpu");
    DT_TRY(options_read_count("threads", o->threads, MOST_THREADS, &plan->request.threads));
    if (o->dtypes)
        return options_read_words("dtype", o->dtypes, dt_dtype_name, plan->request.dtypes);
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        plan->request.dtypes[dtype] = gpus || is_native((enum dt_dtype)dtype);
    return DT_OK;
}

/* ---- measuring ---- */

static dt_status measure(const struct campaign *plan, bool quiet, struct calibration *calibration)
{
    struct calibration_watch run = {.threads = plan->request.threads, .live = !quiet && terminal_is_live(stderr)};
    struct calibration_request request = plan->request;
    dt_status status = DT_OK;
    for (int w = 0; w < plan->world_count; w++) {
        request.kernels = w == 0;
        run.total += calibration_count(&request, plan->worlds[w] > 1);
    }
    for (int w = 0; w < plan->world_count && status == DT_OK; w++) {
        run.ranks = plan->worlds[w];
        request.kernels = w == 0;
        status = calibration_measure_world(&request, &run, calibration);
        run.before += calibration_count(&request, plan->worlds[w] > 1);
    }
    if (run.live)
        status_clear();
    return status;
}

/* ---- writing ---- */

/* Called before the measurements, so that a folder that cannot be written to wastes no minute. */
static dt_status prepare_directory(const char *directory)
{
    if (mkdir(directory, 0777) < 0 && errno != EEXIST)
        return dt_fail(DT_ERR_IO, "--output-dir %s: cannot create the folder: %s", directory, strerror(errno));
    if (access(directory, W_OK | X_OK) < 0)
        return dt_fail(DT_ERR_IO, "--output-dir %s: cannot write into the folder: %s", directory, strerror(errno));
    return DT_OK;
}

static dt_status measure_storage(const char *folder, const struct command_options *o, struct calibration *calibration)
{
    dt_status status = calibration_storage_measure(folder, o->quick, &calibration->storage);
    return status == DT_OK ? DT_OK : dt_fail(DT_ERR_IO, "--storage %s", dt_error_message());
}

static dt_status write_file(const char *directory, const char *name, const char *text)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return dt_fail(DT_ERR_IO, "cannot write %.80s.../%s: its name is too long", directory, name);
    return dt_output_write(path, text);
}

/* "measured by dtbench calibrate on Intel Xeon ..., 2 processors, 2026-11-22", or on a GPU by its
 * name */
static void describe_source(const struct calibration *calibration, bool quick, char *text, size_t text_bytes)
{
    char processor[96], day[32];
    time_t now = time(NULL);
    struct tm date;
    localtime_r(&now, &date);
    strftime(day, sizeof day, "%Y-%m-%d", &date);
    dt_machine_processor_name(processor, sizeof processor);
    const char *few = quick ? " --quick, no base for predictions," : "";
    if (*calibration->gpu.name)
        snprintf(text, text_bytes, "measured by dtbench calibrate%s on %s, %s", few, calibration->gpu.name, day);
    else
        snprintf(text, text_bytes, "measured by dtbench calibrate%s on %s, %d processors, %s", few, processor, dt_machine_processors(),
                 day);
}

static dt_status write_files(const struct calibration *calibration, bool quick, const char *directory)
{
    char source[256];
    DT_FREED char *cluster = NULL, *profile = NULL;
    describe_source(calibration, quick, source, sizeof source);
    DT_TRY(calibration_cluster_text(calibration, source, &cluster));
    DT_TRY(calibration_profile_text(calibration, source, &profile));
    DT_TRY(write_file(directory, "cluster.json", cluster));
    return write_file(directory, "profile.json", profile);
}

/* *calibration is too large for the stack. Under a launcher, rank 0 writes the files. */
static dt_status calibrate(void *options_read, const struct dt_world *world, struct calibration *calibration)
{
    const struct command_options *o = options_read;
    const char *directory = o->directory ? o->directory : ".", *storage = o->storage ? o->storage : directory;
    char reason[256];
    struct calibration_request request = o->plan.request; /* of a rank that a launcher has started */
    const char *device = request.device;
    if (!dt_device_available(device, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" is not available: %s", device, reason);
    if (world->rank == 0)
        DT_TRY(prepare_directory(directory));
    if (world->rank == 0)
        DT_TRY(measure_storage(storage, o, calibration));
    request.kernels = true;
    DT_TRY(world->size > 1 ? calibration_measure_inside(&request, world, o->quiet, calibration) : measure(&o->plan, o->quiet, calibration));
    if (world->rank > 0)
        return DT_OK;
    DT_TRY(write_files(calibration, o->quick, directory));
    if (!o->quiet) {
        DT_TRY(calibration_print(calibration, stdout));
        fputs("\n", stdout);
        line_print(stdout, "storage in %s: %.3g GB/s written, with fsync, and %.3g GB/s read", storage,
                   1e-9 * calibration->storage.write_bytes_per_s, 1e-9 * calibration->storage.read_bytes_per_s);
        line_print(stdout, "%d kernels and %d collectives measured; written: %s/cluster.json, %s/profile.json", calibration->kernels.count,
                   calibration->collectives.count, directory, directory);
    }
    return DT_OK;
}

static int run(int argc, char **argv)
{
    struct command_options o = {.directory = NULL};
    int code;
    if (!options_begin(&command_calibrate, argc, argv, &o, make_plan, &code))
        return code;
    return calibration_command("calibrate", o.ranks, EXIT_CODE_CONFIG, calibrate, &o);
}

const struct command command_calibrate = {
    .name = "calibrate",
    .summary = "measure this machine for device sim",
    .usage = "[OPTION]...",
    .description =
        "Measures this machine's processors, or with --device cuda its GPUs: the kernels of a training step by shape, copies, and "
        "collectives by size, for each number of ranks in --ranks; kernels on one rank alone, and, where ranks share processors, on all of "
        "them at once. Then\n"
        "\n"
        "  dtbench run CONFIG --device sim --set cluster=DIR/cluster.json --set profile=DIR/profile.json\n"
        "\n"
        "predicts a run of CONFIG on this machine. Prints what it has measured: the fastest shape of each product, and of copies, and each "
        "collective's time with its algorithm and bus bandwidth, as nccl-tests define them, and the speed of storage. Takes about a "
        "minute. The machine should be idle: the times include the effect of whatever else is running.\n"
        "\n"
        "Started by mpirun or srun on several nodes, it measures their network too, and the files describe these nodes.",
    .options = options,
    .run = run,
};
