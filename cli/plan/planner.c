#include "cli/plan/planner.h"

#include "cli/text/text.h"
#include "lib/base/machine.h"
#include "lib/config/data_file.h"
#include "predict/search/search.h"
#include "schedules/config/families.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_TOP = 5, DEFAULT_MAX_BATCH = 128, SETS = OPTION_LIST_MAX + 24, SET_BYTES = 640, LARGEST_COUNT = 1 << 24 };

#define CALIBRATED_CLUSTER "cluster.json"
#define CALIBRATED_PROFILE "profile.json"

/* The floor as a fraction of the best throughput, for --objective memory without --floor. */
#define DEFAULT_FLOOR 0.9

const char *planner_objective_name(int index)
{
    static const char *const names[] = {
        [SEARCH_TOKENS] = "tokens", [SEARCH_MEMORY] = "memory", [SEARCH_COST] = "cost", [SEARCH_ENERGY] = "energy"};
    return index >= 0 && (size_t)index < sizeof names / sizeof *names ? names[index] : NULL;
}

/* ---- numbers ---- */

static dt_status read_amount(const char *option, const char *text, double *out)
{
    char *end;
    *out = NAN;
    if (!text)
        return DT_OK;
    *out = strtod(text, &end);
    if (*end || !isfinite(*out) || *out <= 0)
        return dt_fail(DT_ERR_INVALID, "--%s %.40s: expected a number above 0", option, text);
    return DT_OK;
}

/* Read "30d" or "36h". A number alone could mean either. */
static dt_status read_deadline(const char *text, double *out)
{
    char *end;
    *out = NAN;
    if (!text)
        return DT_OK;
    *out = strtod(text, &end);
    bool days = strcmp(end, "d") == 0;
    if ((!days && strcmp(end, "h") != 0) || !isfinite(*out) || *out <= 0)
        return dt_fail(DT_ERR_INVALID, "--deadline %.40s: expected days or hours with their unit, such as 30d or 36h", text);
    *out *= days ? 24 * 3600.0 : 3600.0;
    return DT_OK;
}

/* ---- the base ---- */

/* Changes to a config, in the form of --set. */
struct sets {
    char texts[SETS][SET_BYTES];
    const char *all[SETS];
    int count;
};

static void set(struct sets *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set(struct sets *s, const char *format, ...)
{
    va_list arguments;
    if (s->count == SETS)
        return;
    va_start(arguments, format);
    vsnprintf(s->texts[s->count], SET_BYTES, format, arguments);
    va_end(arguments);
    s->all[s->count] = s->texts[s->count];
    s->count++;
}

static void set_file(struct sets *s, const char *key, const char *folder, const char *name)
{
    char file[SET_BYTES];
    dt_data_file_name(folder, name, file, sizeof file);
    set(s, "%s=\"%.400s\"", key, file);
}

static const struct dt_device_kind *kind_of(const struct planner_arguments *a)
{
    return a->device ? dt_device_kind_find(a->device) : dt_device_kind_at(DT_DEVICE_SIM);
}

/* Check that a plan for this machine has its calibration. */
static dt_status check_device(const struct planner_arguments *a)
{
    const struct dt_device_kind *kind = kind_of(a);
    if (!kind)
        return dt_fail(DT_ERR_INVALID, "--device %.40s: expected sim, cpu or cuda", a->device);
    if (kind->simulated || a->cluster || a->file)
        return DT_OK;
    if (kind->gpus)
        return dt_fail(DT_ERR_INVALID,
                       "--device cuda: needs --cluster, which describes GPUs and network, and --profile where the cluster names none");
    if (access(CALIBRATED_CLUSTER, R_OK) != 0 || access(CALIBRATED_PROFILE, R_OK) != 0)
        return dt_fail(
            DT_ERR_UNAVAILABLE,
            "--device %s: there is no %s and %s here: make them with dtbench calibrate, or name others with --cluster and --profile",
            a->device, CALIBRATED_CLUSTER, CALIBRATED_PROFILE);
    return DT_OK;
}

/* Is it a file? Names of models have no slash, and no such ending. */
static bool is_file(const char *model)
{
    size_t length = strlen(model);
    return strchr(model, '/') || (length > 5 && strcmp(model + length - 5, ".json") == 0);
}

static dt_status check_names(const struct planner_arguments *a)
{
    const struct dt_model_family *family;
    bool sized = a->file != NULL;
    for (int i = 0; i < a->sets.count; i++)
        sized |= strncmp(a->sets.items[i], "model.", 6) == 0;
    if (!a->model && !sized)
        return dt_fail(DT_ERR_INVALID, "needs a model: --model GPT13B (dtbench list names them), or a config file");
    if (a->model && !is_file(a->model) && !model_find_preset(a->model, &family))
        return dt_fail(DT_ERR_INVALID,
                       "--model %.40s: is not known; dtbench list names the models, a Hugging Face config.json describes one, and --set "
                       "model.layers=... takes any size",
                       a->model);
    if (a->gpus && a->nodes)
        return dt_fail(DT_ERR_INVALID, "--gpus and --nodes both give the number of GPUs: give one of them");
    if (a->global_batch && a->max_batch)
        return dt_fail(DT_ERR_INVALID, "--global-batch fixes the batch, and --max-batch bounds a free one: give one of them");
    return DT_OK;
}

/* Does the assignment set a key of the space? Then the key is fixed. The number of ranks is given
 * by --gpus and --nodes instead. */
static bool is_axis_key(const char *assignment)
{
    size_t bytes = strcspn(assignment, "=");
    for (int i = 0; space_axis(i); i++) {
        const char *key = space_axis(i)->key;
        if (strlen(key) == bytes && strncmp(key, assignment, bytes) == 0)
            return strcmp(key, "world_size") != 0;
    }
    return false;
}

/* Set the defaults of the workload, where neither a config file nor an option does. Most trainings
 * use Adam; dtbench run's default is SGD. */
static dt_status set_workload(const struct planner_arguments *a, enum dt_dtype dtype, struct sets *s)
{
    bool says_optimizer, says_dtype;
    DT_TRY(config_file_says(a->file, "optimizer", "name", &says_optimizer));
    DT_TRY(config_file_says(a->file, "model", "dtype", &says_dtype));
    if (!says_optimizer)
        set(s, "optimizer.name=\"adam\"");
    if (!says_dtype)
        set(s, "model.dtype=\"%s\"", dt_dtype_name(dtype));
    return DT_OK;
}

static dt_status read_base(const struct planner_arguments *a, const struct sets *s, struct experiment *out)
{
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *experiments = NULL;
    DT_TRY(a->file ? experiments_read(a->file, s->all, s->count, false, &experiments)
                   : experiments_parse_list("{}", 2, "dtbench plan", s->all, s->count, &experiments));
    int count = experiments->count + experiments->left_out.count;
    *out = experiments->all[0];
    return count == 1 ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: is a sweep of %d experiments; expected one", a->file, count);
}

static dt_status set_common(const struct planner_arguments *a, enum dt_dtype dtype, struct sets *s)
{
    const struct dt_device_kind *kind = kind_of(a);
    bool here = !kind->simulated && !a->file; /* use the files of dtbench calibrate */
    /* the search chooses how the job is divided; the file's own division may need more ranks than
     * the base has */
    static const char *const undivided[] = {"tensor.size=1", "context.size=1", "pipeline.stages=1", "pipeline.split=\"balanced\""};
    s->count = 0;
    DT_TRY(set_workload(a, dtype, s));
    set(s, "name=\"plan\"");
    set(s, "device=\"sim\"");
    if (a->model)
        set(s, is_file(a->model) ? "model.from=\"%.400s\"" : "model.preset=\"%.64s\"", a->model);
    if (here && !kind->gpus)
        set(s, "model.dtype=\"fp32\"");
    if (a->cluster || here)
        set_file(s, "cluster", "clusters", a->cluster ? a->cluster : CALIBRATED_CLUSTER);
    if (a->profile || (here && !a->cluster))
        set_file(s, "profile", "profiles", a->profile ? a->profile : CALIBRATED_PROFILE);
    if (a->rates)
        set(s, "rates=\"%.512s\"", a->rates);
    if (a->optimizer)
        set(s, "optimizer.name=\"%.64s\"", a->optimizer);
    if (a->sequence)
        set(s, "model.block_size=%.64s", a->sequence);
    for (size_t i = 0; a->file && i < sizeof undivided / sizeof *undivided; i++)
        set(s, "%s", undivided[i]);
    for (int i = 0; i < a->sets.count; i++)
        if (!is_axis_key(a->sets.items[i]))
            set(s, "%.600s", a->sets.items[i]);
    return DT_OK;
}

/* A 16-bit type that the GPU computes with. */
static enum dt_dtype usual_dtype(const struct dt_sim_cluster *c)
{
    if (c->gpu.peak_tflops[DT_BF16] > 0)
        return DT_BF16;
    return c->gpu.peak_tflops[DT_FP16] > 0 ? DT_FP16 : DT_FP32;
}

/* Check that this machine has a processor for each rank: calibrations may have measured more
 * ranks. */
static dt_status check_processors(const struct planner_arguments *a, int *ranks)
{
    int processors = dt_machine_processors();
    if (kind_of(a)->simulated || kind_of(a)->gpus || *ranks <= processors)
        return DT_OK;
    if (a->gpus || a->nodes)
        return dt_fail(DT_ERR_UNAVAILABLE, "--%s %s: %d ranks, but this machine has %d processor%s", a->gpus ? "gpus" : "nodes",
                       a->gpus ? a->gpus : a->nodes, *ranks, processors, processors > 1 ? "s" : "");
    *ranks = processors;
    return DT_OK;
}

/* Make the base: once to read the cluster, which gives the number of ranks, and again with that
 * number. */
static dt_status make_base(const struct planner_arguments *a, struct sets *s, struct planner *p)
{
    DT_TRY(set_common(a, DT_FP32, s));
    set(s, "world_size=1");
    set(s, "paradigm=\"none\"");
    DT_TRY(read_base(a, s, &p->base));
    DT_TRY(simulated_machine_load(&p->base, &p->machine));
    const struct dt_sim_cluster *c = &p->machine.cluster;
    p->ranks_per_node = p->base.gpus_per_node > 0 ? p->base.gpus_per_node : c->gpus_per_node;
    p->nodes = c->nodes;
    DT_TRY(options_read_count("nodes", a->nodes, LARGEST_COUNT, &p->nodes));
    int gpus = p->nodes * p->ranks_per_node;
    DT_TRY(options_read_count("gpus", a->gpus, LARGEST_COUNT, &gpus));
    bool more_allowed = p->base.more_nodes && c->nodes > 1;
    if (gpus > c->nodes * c->gpus_per_node && !more_allowed)
        return dt_fail(DT_ERR_UNAVAILABLE, "--%s %s: cluster %s has %d node%s of %d %ss%s", a->gpus ? "gpus" : "nodes",
                       a->gpus ? a->gpus : a->nodes, c->name, c->nodes, c->nodes > 1 ? "s" : "", c->gpus_per_node, planner_unit(p),
                       c->nodes > 1 ? "; --set more_nodes=true allows more of this kind" : "");
    DT_TRY(check_processors(a, &gpus));
    if (gpus > p->ranks_per_node && gpus % p->ranks_per_node)
        return dt_fail(DT_ERR_INVALID, "--gpus %d: nodes of cluster %s have %d; give a multiple, or fewer", gpus, c->name,
                       p->ranks_per_node);
    p->ranks_per_node = gpus < p->ranks_per_node ? gpus : p->ranks_per_node;
    p->nodes = gpus / p->ranks_per_node;
    DT_TRY(set_common(a, usual_dtype(c), s));
    set(s, "world_size=%d", gpus);
    set(s, "paradigm=\"%s\"", gpus > 1 ? "ddp" : "none");
    struct slow_sets slow;
    DT_TRY(config_slow_sets(a->slow, &slow));
    for (int i = 0; i < slow.count; i++)
        set(s, "%s", slow.texts[i]);
    return read_base(a, s, &p->base);
}

/* Check that the machine can simulate: is the profile for its GPU, and does the GPU compute the
 * dtype? */
static dt_status check_machine(const struct planner *p)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    if (p->options.objective == SEARCH_ENERGY && p->machine.cluster.gpu.power_w <= 0)
        return dt_fail(DT_ERR_INVALID, "--objective energy: cluster %s has no gpu.power_w, the maximum power of a GPU in watts",
                       p->machine.cluster.name);
    DT_TRY(simulated_system_create_on(&p->machine, &p->base, &system));
    return DT_OK;
}

/* ---- the request ---- */

static dt_status make_request(const struct planner_arguments *a, struct planner *p)
{
    struct search_options *o = &p->options;
    int fixed = 0, objective = SEARCH_TOKENS;
    for (int i = 0; i < a->fix.count; i++)
        p->fix[fixed++] = a->fix.items[i];
    for (int i = 0; i < a->sets.count; i++)
        if (is_axis_key(a->sets.items[i]))
            p->fix[fixed++] = a->sets.items[i];
    p->request = (struct space_request){.fix = p->fix,
                                        .fix_count = fixed,
                                        .allow = a->allow.items,
                                        .allow_count = a->allow.count,
                                        .forbid = a->forbid.items,
                                        .forbid_count = a->forbid.count};
    p->request.max_batch = DEFAULT_MAX_BATCH;
    o->top = DEFAULT_TOP;
    o->diverse = !a->top;
    DT_TRY(options_read_count("global-batch", a->global_batch, LARGEST_COUNT, &p->request.global_batch));
    DT_TRY(options_read_count("max-batch", a->max_batch, LARGEST_COUNT, &p->request.max_batch));
    DT_TRY(options_read_count("top", a->top, LARGEST_COUNT, &o->top));
    DT_TRY(options_read_count("threads", a->threads, LARGEST_COUNT, &o->threads));
    DT_TRY(options_read_choice("objective", a->objective, planner_objective_name, &objective));
    o->objective = (enum search_objective)objective;
    DT_TRY(read_amount("floor", a->floor, &o->floor_units_per_s));
    DT_TRY(read_amount("price", a->price, &p->price_per_hour));
    DT_TRY(read_amount("tokens", a->tokens, &p->tokens));
    DT_TRY(read_deadline(a->deadline, &p->deadline_s));
    if (a->floor && o->objective != SEARCH_MEMORY)
        return dt_fail(DT_ERR_INVALID, "--floor needs --objective memory");
    if (a->deadline && (a->floor || !a->tokens))
        return dt_fail(DT_ERR_INVALID, "--deadline %.40s: %s", a->deadline,
                       a->floor ? "--floor says the same: give one of them" : "needs --tokens, the number of tokens to train on");
    if (a->deadline) {
        o->floor_units_per_s = p->tokens / p->deadline_s;
        o->floor_units = p->tokens;
    }
    p->request.any_nodes = o->objective == SEARCH_COST || o->objective == SEARCH_ENERGY;
    return DT_OK;
}

static dt_status fill(const struct planner_arguments *a, struct planner *p)
{
    DT_FREED struct sets *s = calloc(1, sizeof *s);
    DT_TRY(dt_allocated(s, "no host memory for a config"));
    dt_status status = check_device(a);
    DT_THEN(status, check_names(a));
    DT_THEN(status, make_request(a, p));
    DT_THEN(status, make_base(a, s, p));
    DT_TRY(status);
    DT_TRY(check_machine(p));
    DT_TRY(recordings_create(&p->base, &p->machine, &p->options.recordings));
    return space_create(&p->base, &p->machine, &p->request, &p->space);
}

dt_status planner_create(const struct planner_arguments *arguments, struct planner **out)
{
    DT_DESTROYED(planner_destroy) struct planner *p = calloc(1, sizeof *p);
    *out = NULL;
    DT_TRY(dt_allocated(p, "no host memory for a plan"));
    DT_TRY(fill(arguments, p));
    *out = DT_PASSED_ON(p);
    return DT_OK;
}

void planner_destroy(struct planner *p)
{
    if (!p)
        return;
    search_result_finish(&p->result);
    free(p->equal_units_per_s);
    recordings_destroy(p->options.recordings);
    space_destroy(p->space);
    free(p);
}

dt_status planner_search_best(const struct space *space, const struct experiment *base, const struct simulated_machine *machine,
                              const struct search_options *options, struct planner_best *out)
{
    struct search_options o = *options;
    DT_ENDED(search_result_finish) struct search_result result = {0};
    o.top = 1;
    o.diverse = false;
    o.done = NULL;
    dt_status status = search_run(space, base, machine, &o, &result);
    out->interrupted = result.interrupted;
    out->found = status == DT_OK && result.ranked > 0;
    if (out->found) {
        space_experiment(space, result.ranking[0], &out->experiment);
        out->outcome = result.outcomes[result.ranking[0]];
    }
    return status;
}

/* Without --floor the floor is a fraction of the best throughput, which is searched for first. */
static dt_status find_floor(struct planner *p)
{
    struct search_options fastest = p->options;
    struct planner_best best;
    fastest.objective = SEARCH_TOKENS;
    DT_TRY(planner_search_best(p->space, &p->base, &p->machine, &fastest, &best));
    if (best.found)
        p->options.floor_units_per_s = DEFAULT_FLOOR * best.outcome.units_per_s;
    return DT_OK;
}

/* Simulate the shown candidates again without slow hardware. */
static dt_status find_equal(struct planner *p)
{
    int shown = planner_shown(p);
    dt_status status = DT_OK;
    p->equal_units_per_s = calloc((size_t)shown + 1, sizeof *p->equal_units_per_s);
    DT_TRY(dt_allocated(p->equal_units_per_s, "no host memory for a plan"));
    for (int place = 0; place < shown && status == DT_OK; place++) {
        struct experiment e;
        struct measure_result result;
        DT_TRY(planner_experiment(p, place, &e));
        e.slow.by = 0;
        status = search_simulate(&p->machine, &e, NULL, &result);
        if (status == DT_OK)
            p->equal_units_per_s[place] = search_units_per_s(&e, result.step_s[0]);
        measure_result_finish(&result);
    }
    return status;
}

dt_status planner_search(struct planner *p)
{
    if (p->options.objective == SEARCH_MEMORY && isnan(p->options.floor_units_per_s))
        DT_TRY(find_floor(p));
    DT_TRY(search_run(p->space, &p->base, &p->machine, &p->options, &p->result));
    return p->base.slow.by > 0 ? find_equal(p) : DT_OK;
}

double planner_slow_cost(const struct planner *p, int place)
{
    double lost = p->equal_units_per_s ? 1 - planner_outcome(p, place)->units_per_s / p->equal_units_per_s[place] : NAN;
    return fabs(lost) < 1e-9 ? 0 : lost; /* the two simulations round their sums differently */
}

struct experiment planner_candidate(const struct planner *p, int place)
{
    struct experiment e;
    space_experiment(p->space, p->result.ranking[place], &e);
    return e;
}

double planner_score(const struct planner *p, int place)
{
    const struct search_outcome *o = planner_outcome(p, place);
    struct experiment e = planner_candidate(p, place);
    return search_score(p->options.objective, &e, o->step_s, o->peak_bytes);
}

dt_status planner_experiment(const struct planner *p, int place, struct experiment *out)
{
    *out = planner_candidate(p, place);
    return experiment_resolve(out, "dtbench plan");
}

double planner_training_s(const struct planner *p, int place, double tokens)
{
    struct experiment e = planner_candidate(p, place);
    return search_training_s(&e, planner_outcome(p, place), tokens);
}

double planner_joules_per_token(const struct planner *p, int place)
{
    struct experiment e = planner_candidate(p, place);
    double watts = p->machine.cluster.gpu.power_w;
    return watts > 0 ? watts * e.world_size / planner_outcome(p, place)->units_per_s : NAN;
}

int planner_shown(const struct planner *p)
{
    return p->result.kinds < p->options.top ? p->result.kinds : p->options.top;
}

const char *planner_unit(const struct planner *p)
{
    return p->machine.cluster.gpu.architecture == DT_SIM_CPU ? "rank" : "GPU";
}
