/* The search for the best candidate: its space, bounds that no simulation beats, and the same
 * result as simulating all candidates. The argument is the number of random candidates, by default
 * as many as a test has time for. */
#include "predict/search/search.h"
#include "predict/simulation.h"
#include "schedules/config/parse.h"
#include "test/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int random_candidates = 120;

/* ---- random experiments ---- */

struct dice {
    uint64_t state;
};

/* One of `count` numbers from 0. Knuth's linear congruential generator (MMIX), its upper bits. */
static int roll(struct dice *d, int count)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((d->state >> 33) % (uint64_t)count);
}

static const char *pick(struct dice *d, const char *const *names, int count)
{
    return names[roll(d, count)];
}
#define PICK(dice, ...)                                                                                                                    \
    pick(dice, (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

struct scene {
    struct experiment base;
    struct simulated_machine machine;
    struct space_request request;
    struct space *space;
    struct recordings *recordings;
};

static void scene_of(const char *text, const struct space_request *request, struct scene *out)
{
    struct experiment *e = NULL;
    int count;
    *out = (struct scene){.request = *request};
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    out->base = *e;
    free(e);
    CHECK_OK(simulated_machine_load(&out->base, &out->machine));
    CHECK_OK(space_create(&out->base, &out->machine, &out->request, &out->space));
    CHECK_OK(recordings_create(&out->base, &out->machine, &out->recordings));
}

/* A small model on a few GPUs of some cluster, under some software. */
static void random_scene(struct dice *d, int max_batch, const struct space_request *request, struct scene *out)
{
    char text[1024];
    static const int node_counts[] = {1, 2, 3, 4}; /* stages may have unequal parts of three nodes */
    int per_node = 1 << roll(d, 3), nodes = node_counts[roll(d, 4)], heads = 1 << roll(d, 3);
    const char *cluster = PICK(d, "gcp_a2", "dgx_a100", "dgx_h100", "gcp_a2_fast_socket");
    const char *fp8 = PICK(d, "{}", "{\"recipe\": \"delayed\"}", "{\"recipe\": \"delayed\", \"gather\": true}",
                           "{\"recipe\": \"tensorwise\", \"gather\": true}");
    struct space_request r = *request;
    r.max_batch = max_batch;
    if (roll(d, 3) == 0) { /* ranks of a tensor group share a sample, or three */
        int shared = 1 << roll(d, 3), most = heads < per_node ? heads : per_node;
        r.global_batch = per_node * nodes / (shared < most ? shared : most) * (1 + 2 * roll(d, 2));
    }
    snprintf(text, sizeof text,
             "{\"device\": \"sim\", \"cluster\": \"clusters/%s.json\", \"profile\": \"profiles/%s.json\", \"any_profile\": true, "
             "\"world_size\": %d, "
             "\"gpus_per_node\": %d, \"paradigm\": \"%s\", \"optimizer\": {\"name\": \"%s\"}, \"loss\": \"%s\", \"activation_every\": %d, "
             "\"fp8\": %s, \"ddp\": {\"overlap_param_gather\": %s}, "
             "\"model\": {\"layers\": %d, \"heads\": %d, \"hidden\": %d, \"vocab_size\": %d, \"block_size\": %d, \"attention\": \"%s\"}}",
             cluster, PICK(d, "pytorch_1.11_a100", "dtbench_cuda_a100", "dtbench_cuda_h100"), per_node * nodes, per_node,
             per_node * nodes > 1 ? "ddp" : "none", PICK(d, "sgd", "adam"), PICK(d, "sum", "cross_entropy"), 1 + roll(d, 2),
             strcmp(cluster, "dgx_h100") == 0 ? fp8 : "{}", PICK(d, "false", "true"), 1 + roll(d, 6), heads, heads * (8 << roll(d, 6)),
             100 << roll(d, 8), 16 << roll(d, 4), PICK(d, "fused", "unfused"));
    scene_of(text, &r, out);
}

static void scene_finish(struct scene *s)
{
    space_destroy(s->space);
    recordings_destroy(s->recordings);
}

/* ---- bounds ---- */

struct worst {
    double time, bytes; /* bound over simulation: at most 1 */
    double sum_of_time, sum_of_bytes;
    int count;
};

static void compare_bound_of(struct bounds *bounds, const struct scene *s, const struct experiment *e, struct worst *worst)
{
    struct simulated_system *system;
    struct measure_result result;
    struct bound bound;
    char *text;
    double most = 0, played_s;
    CHECK_OK(bounds_find(bounds, e, &bound));
    CHECK_OK(pipeline_played_s(e, &bound.passes, &played_s));
    bound.step_s = fmax(bound.step_s, played_s);
    CHECK_OK(simulated_system_create_on(&s->machine, e, &system));
    CHECK_OK(simulation_run_symmetric(e, system, NULL, &result));
    for (int i = 0; i < result.rank_count; i++)
        most = fmax(most, (double)result.ranks[i].memory.device.peak_total_bytes);
    double time = bound.step_s / result.step_s[result.steps_done - 1], bytes = bound.bytes / most;
    if (time > 1 + 1e-9 || bytes > 1) {
        CHECK_OK(experiment_to_json(e, 0, &text));
        CHECK(time <= 1 + 1e-9 && bytes <= 1, "time %.4f (%.3g + %.3g + %.3g of %.3g s), bytes %.4f: %s", time, bound.compute_s,
              bound.network_s, bound.host_link_s, result.step_s[0], bytes, text);
        free(text);
    }
    worst->time = fmax(worst->time, time);
    worst->bytes = fmax(worst->bytes, bytes);
    worst->sum_of_time += time;
    worst->sum_of_bytes += bytes;
    worst->count++;
    measure_result_finish(&result);
    simulated_system_destroy(system);
}

static void compare_bound(struct bounds *bounds, const struct scene *s, int candidate, struct worst *worst)
{
    struct experiment e;
    space_experiment(s->space, candidate, &e);
    compare_bound_of(bounds, s, &e, worst);
}

/* Without ranks that share samples, and with some. */
static const char *const contexts[] = {"context.size=1,2,4"};
static const struct space_request requests[] = {{0}, {.allow = contexts, .allow_count = 1}};

static void nothing_passes_a_bound(void)
{
    enum { OF_A_SCENE = 20 };
    struct dice d = {1};
    struct worst worst = {0};
    for (int n = 0; n < random_candidates; n += OF_A_SCENE) {
        struct scene s;
        struct bounds *bounds;
        random_scene(&d, 16, &requests[n / OF_A_SCENE % 2], &s);
        CHECK_OK(bounds_create(&s.base, &s.machine, s.recordings, &bounds));
        for (int i = 0; i < OF_A_SCENE; i++)
            compare_bound(bounds, &s, roll(&d, space_count(s.space)), &worst);
        bounds_destroy(bounds);
        scene_finish(&s);
    }
    printf("# %d candidates: bounds of time %.2f of the simulated on average, at most %.4f; of bytes %.2f and %.4f\n", worst.count,
           worst.sum_of_time / worst.count, worst.time, worst.sum_of_bytes / worst.count, worst.bytes);
}

/* With many blocks only a few inputs are on the device at a time. */
static void offloaded_inputs_are_on_the_host(void)
{
    static const char *const fixed[] = {"activation=offload", "micro_batches=1", "tensor.size=1"};
    const struct space_request request = {.fix = fixed, .fix_count = 3, .max_batch = 64};
    struct worst worst = {.time = 0};
    struct bounds *bounds;
    struct scene s;
    scene_of("{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"world_size\": 2, \"paradigm\": \"ddp\", "
             "\"model\": {\"layers\": 24, \"heads\": 2, \"hidden\": 64, \"vocab_size\": 100, \"block_size\": 64}}",
             &request, &s);
    CHECK_OK(bounds_create(&s.base, &s.machine, s.recordings, &bounds));
    for (int i = 0; i < space_count(s.space); i += 1 + space_count(s.space) / 40)
        compare_bound(bounds, &s, i, &worst);
    CHECK(worst.count > 0, "no candidate");
    bounds_destroy(bounds);
    scene_finish(&s);
}

/* Wide layers on slow cards: the gradients of all stages on a node share its card, and messages
 * share some links. */
static void stages_that_share_cards(void)
{
    static const struct {
        const char *cluster, *order, *mesh, *sequence_parallel;
        int nodes, per_node, tensor, stages;
        double least; /* the least part of the simulated time that a bound must reach with gcp_a2.json's constants */
    } rows[] = {
        {"gcp_a2", "1f1b", "tensor-pipeline-data", "true", 4, 8, 2, 4, 0.74},
        {"gcp_a2", "1f1b", "tensor-pipeline-data", "true", 4, 8, 4, 4, 0.58},
        {"gcp_a2", "1f1b", "tensor-data-pipeline", "true", 4, 8, 2, 4, 0.6},
        {"gcp_a2", "gpipe", "tensor-pipeline-data", "true", 4, 8, 1, 8, 0.85},
        {"gcp_a2", "interleaved", "tensor-pipeline-data", "true", 8, 4, 2, 4, 0.65},
        {"gcp_a2", "zb_v", "tensor-pipeline-data", "true", 4, 8, 4, 4, 0.58},
        {"gcp_a2_fast_socket", "zb_h1", "tensor-pipeline-data", "true", 4, 8, 2, 8, 0.68},
        {"gcp_a2", "1f1b", "tensor-data-pipeline", "true", 3, 8, 1, 4, 0.55}, /* nodes have unequal parts of the stages */
        {"gcp_a2", "zb_h2", "tensor-data-pipeline", "true", 3, 8, 2, 4, 0.56},
        {"dgx_a100", "1f1b", "tensor-pipeline-data", "true", 4, 8, 2, 4, 0.6},
        {"omnipath_a100", "1f1b", "tensor-pipeline-data", "false", 4, 8, 8, 4, 0.3}, /* whose profile divides messages */
    };
    static const struct space_request request = {.max_batch = 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        struct worst worst = {0};
        struct bounds *bounds;
        struct scene s;
        snprintf(
            text, sizeof text,
            "{\"device\": \"sim\", \"cluster\": \"clusters/%s.json\", \"world_size\": %d, \"gpus_per_node\": %d, \"paradigm\": \"pdp\", "
            "\"batch_size\": 8, \"straddle_nodes\": true, \"mesh\": {\"order\": \"%s\"}, \"tensor\": {\"size\": %d, \"sequence_parallel\": "
            "%s}, "
            "\"pipeline\": {\"stages\": %d, \"chunks\": 16, \"order\": \"%s\"}, "
            "\"model\": {\"layers\": 32, \"heads\": 32, \"hidden\": 4096, \"vocab_size\": 1000, \"block_size\": 256}}",
            rows[i].cluster, rows[i].nodes * rows[i].per_node, rows[i].per_node, rows[i].mesh, rows[i].tensor, rows[i].sequence_parallel,
            rows[i].stages, rows[i].order);
        scene_of(text, &request, &s);
        CHECK_OK(bounds_create(&s.base, &s.machine, s.recordings, &bounds));
        compare_bound_of(bounds, &s, &s.base, &worst);
        CHECK(worst.time >= rows[i].least, "row %zu: the bound tells %.3f of the step", i, worst.time);
        bounds_destroy(bounds);
        scene_finish(&s);
    }
}

/* ---- ranks that stand for others ---- */

static double simulate(const struct scene *s, const struct experiment *e, bool symmetric, struct measure_result *out)
{
    struct simulated_system *system;
    CHECK_OK(simulated_system_create_on(&s->machine, e, &system));
    CHECK_OK(symmetric ? simulation_run_symmetric(e, system, NULL, out) : simulation_run(e, system, NULL, out));
    simulated_system_destroy(system);
    return out->step_s[out->steps_done - 1];
}

/* Compare on equal nodes, or with one rank's hardware slower than the others'. */
static void check_part(const struct scene *s, const struct experiment *e)
{
    struct measure_result whole, part;
    double all_s = simulate(s, e, false, &whole), part_s = simulate(s, e, true, &part);
    CHECK(fabs(part_s / all_s - 1) < 1e-9, "%s on %d: %.12g s, and all ranks %.12g; slow part %d of rank %d", paradigm_name(e->paradigm),
          e->world_size, part_s, all_s, (int)e->slow.part, e->slow.rank);
    CHECK(fabs(part.metrics.step.exposed_comm_s - whole.metrics.step.exposed_comm_s) <= 1e-8 * all_s, "%s: exposed %.12g, %.12g",
          paradigm_name(e->paradigm), part.metrics.step.exposed_comm_s, whole.metrics.step.exposed_comm_s);
    for (int r = 0; r < e->world_size; r++)
        CHECK(part.ranks[r].memory.device.peak_total_bytes == whole.ranks[r].memory.device.peak_total_bytes, "rank %d", r);
    measure_result_finish(&whole);
    measure_result_finish(&part);
}

static void a_part_stands_for_all(void)
{
    struct dice d = {2};
    for (int n = 0; n < random_candidates; n += 4) {
        struct experiment e;
        struct scene s;
        random_scene(&d, 8, &requests[n / 4 % 2], &s);
        space_experiment(s.space, roll(&d, space_count(s.space)), &e);
        check_part(&s, &e);
        int per_node = e.gpus_per_node > 0 ? e.gpus_per_node : s.machine.cluster.gpus_per_node;
        e.slow.by = 0.3;
        e.slow.rank = roll(&d, e.world_size);
        e.slow.part = (enum slow_part)roll(&d, e.world_size > per_node ? 4 : 3);
        check_part(&s, &e);
        scene_finish(&s);
    }
}

/* ---- the search ---- */

/* Values that small spaces leave out. */
static const char *const seldom[] = {"activation=offload,selective,selective_op", "parameter_offload=true", "pipeline.order=zb_h1,zb_h2",
                                     "mesh.order=tensor-data-pipeline", "ddp.bucket_mib=100"};
enum { SELDOM = sizeof seldom / sizeof *seldom };

static void run(const struct scene *s, struct search_options options, struct search_result *out)
{
    options.recordings = s->recordings;
    CHECK_OK(search_run(s->space, &s->base, &s->machine, &options, out));
}

static void search(const struct scene *s, enum search_objective objective, bool diverse, bool all, struct search_result *out)
{
    const struct search_options options = {
        .objective = objective, .top = 3, .diverse = diverse, .all_simulated = all, .threads = 2, .only_best = all};
    run(s, options, out);
}

/* diverse: the best of each of three kinds; else the three best. */
static void check_same(const struct scene *s, enum search_objective objective, bool diverse)
{
    struct search_result found, all;
    search(s, objective, diverse, false, &found);
    search(s, objective, diverse, true, &all);
    CHECK(all.states[SEARCH_NOT_NEEDED] == 0 && all.states[SEARCH_TOO_LARGE] == 0, "%d left out", all.states[SEARCH_NOT_NEEDED]);
    CHECK(found.kinds >= 3 || found.kinds == all.kinds, "%d of %d", found.kinds, all.kinds);
    for (int place = 0; place < 3 && place < found.kinds && place < all.kinds; place++) {
        double mine = found.outcomes[found.ranking[place]].step_s, theirs = all.outcomes[all.ranking[place]].step_s;
        double my_rate = found.outcomes[found.ranking[place]].units_per_s, rate = all.outcomes[all.ranking[place]].units_per_s;
        CHECK(found.ranking[place] == all.ranking[place] || my_rate == rate, "place %d: %.9g s instead of %.9g", place + 1, mine, theirs);
    }
    search_result_finish(&found);
    search_result_finish(&all);
}

static void the_same_as_simulating_all(void)
{
    int spaces = random_candidates < 120 ? random_candidates / 4 : 30;
    static const struct space_request request = {.forbid = seldom, .forbid_count = SELDOM};
    struct dice d = {3};
    for (int n = 0; n < spaces; n++) {
        struct scene s;
        random_scene(&d, 2, &request, &s);
        check_same(&s, n % 5 == 4 ? SEARCH_COST : SEARCH_TOKENS, n % 2);
        scene_finish(&s);
    }
}

/* After the first round has simulated a candidate with a low bound and found it slow, those after
 * it in the order are still examined. */
static void the_same_after_a_slow_one(void)
{
    static const char *const fix[] = {"tensor.size=1", "activation=keep", "pipeline.stages=1", "micro_batches=4"}, *const forbid[] = {
                                                                                                                       "paradigm=pdp"};
    static const struct space_request request = {.fix = fix, .fix_count = 4, .forbid = forbid, .forbid_count = 1, .global_batch = 128};
    struct scene s;
    scene_of("{\"device\": \"sim\", \"cluster\": \"clusters/dgx_a100.json\", \"world_size\": 16, \"paradigm\": \"ddp\", "
             "\"optimizer\": {\"name\": \"adam\"}, \"model\": {\"layers\": 4, \"heads\": 16, \"hidden\": 2048, \"vocab_size\": 1000, "
             "\"block_size\": 2048, \"dtype\": \"bf16\"}}",
             &request, &s);
    check_same(&s, SEARCH_TOKENS, false);
    scene_finish(&s);
}

/* Where the best of more kinds than there are is wanted, candidates are still left out: those that
 * cannot beat the best of their own kind. */
static void worse_ones_of_a_kind_are_left_out(void)
{
    static const struct space_request request = {.forbid = seldom, .forbid_count = SELDOM, .max_batch = 8};
    const struct search_options options = {.top = 64, .diverse = true, .only_best = true};
    struct search_result found;
    struct scene s;
    scene_of("{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"world_size\": 4, \"paradigm\": \"ddp\", "
             "\"model\": {\"layers\": 4, \"heads\": 4, \"hidden\": 256}}",
             &request, &s);
    run(&s, options, &found);
    CHECK(found.kinds > 3 && found.kinds < options.top, "%d kinds", found.kinds);
    CHECK(found.states[SEARCH_NOT_NEEDED] > found.states[SEARCH_SIMULATED], "%d of %d were simulated", found.states[SEARCH_SIMULATED],
          found.count);
    search_result_finish(&found);
    scene_finish(&s);
}

static void the_least_memory(void)
{
    static const struct space_request request = {.forbid = seldom, .forbid_count = SELDOM, .max_batch = 8};
    struct search_options options = {.objective = SEARCH_TOKENS, .top = 1};
    struct search_result fastest, found;
    struct scene s;
    scene_of("{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"world_size\": 8, \"paradigm\": \"ddp\", "
             "\"model\": {\"preset\": \"GPTSmall\"}}",
             &request, &s);
    run(&s, options, &fastest);
    const struct search_outcome *best = &fastest.outcomes[fastest.ranking[0]];
    options.objective = SEARCH_MEMORY;
    options.floor_units_per_s = 0.5 * best->units_per_s;
    run(&s, options, &found);
    const struct search_outcome *least = &found.outcomes[found.ranking[0]];
    CHECK(least->peak_bytes < best->peak_bytes && least->units_per_s >= options.floor_units_per_s, "%.3g bytes at %.0f tokens/s",
          least->peak_bytes, least->units_per_s);
    for (int i = 0; i < found.ranked; i++)
        CHECK(found.outcomes[found.ranking[i]].units_per_s >= options.floor_units_per_s, "too slow");
    search_result_finish(&fastest);
    search_result_finish(&found);
    scene_finish(&s);
}

/* Stops after the first few candidates. */
static bool after_three(void *context)
{
    return *(int *)context >= 3;
}

static void count_done(void *context, const struct search_progress *progress)
{
    *(int *)context = progress->simulated;
}

static void an_interrupted_search_has_results(void)
{
    static const struct space_request request = {.forbid = seldom, .forbid_count = SELDOM, .max_batch = 8};
    int simulated = 0;
    struct search_options options = {
        .objective = SEARCH_TOKENS, .top = 50, .threads = 1, .context = &simulated, .stop = after_three, .progress = count_done};
    struct search_result found;
    struct scene s;
    scene_of("{\"device\": \"sim\", \"world_size\": 8, \"paradigm\": \"ddp\", \"model\": {\"preset\": \"GPTSmall\"}}", &request, &s);
    run(&s, options, &found);
    CHECK(found.interrupted && found.ranked == 3, "interrupted %d, %d results", found.interrupted, found.ranked);
    int told = 0;
    for (int state = 0; state < SEARCH_STATES; state++)
        told += found.states[state];
    CHECK(told == space_count(s.space), "%d of %d candidates are told of", told, space_count(s.space));
    search_result_finish(&found);
    scene_finish(&s);
}

static bool at_once(void *context)
{
    return true;
}

static void a_search_stopped_at_once_has_a_result(void)
{
    static const struct space_request request = {.max_batch = 8};
    const struct search_options options = {.objective = SEARCH_TOKENS, .top = 5, .threads = 2, .stop = at_once};
    struct search_result found;
    struct scene s;
    scene_of("{\"device\": \"sim\", \"world_size\": 16, \"paradigm\": \"ddp\", \"model\": {\"preset\": \"GPTSmall\"}}", &request, &s);
    run(&s, options, &found);
    CHECK(found.interrupted && found.ranked > 0, "interrupted %d, %d results", found.interrupted, found.ranked);
    search_result_finish(&found);
    scene_finish(&s);
}

/* Each layer is larger than the larger bucket size, so both sizes give the same buckets; the other
 * model has several layers in a bucket. */
static void twins_are_one(void)
{
    static const char *const fix[] = {"paradigm=ddp", "tensor.size=1", "batch_size=1", "activation=keep", "parameter_offload=false"};
    static const struct space_request request = {.fix = fix, .fix_count = sizeof fix / sizeof *fix, .max_batch = 1};
    static const int hidden[] = {8192, 1024};
    for (int i = 0; i < 2; i++) {
        struct search_result found, all;
        struct scene s;
        char text[512];
        snprintf(text, sizeof text,
                 "{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"world_size\": 16, \"paradigm\": \"ddp\", "
                 "\"model\": {\"layers\": 2, \"heads\": 8, \"hidden\": %d, \"vocab_size\": 100, \"block_size\": 16}}",
                 hidden[i]);
        scene_of(text, &request, &s);
        CHECK(space_count(s.space) == 2, "%d candidates", space_count(s.space));
        search(&s, SEARCH_TOKENS, false, false, &found);
        search(&s, SEARCH_TOKENS, false, true, &all);
        CHECK(all.ranked == 2 && found.ranked == i + 1, "hidden %d: %d of %d", hidden[i], found.ranked, all.ranked);
        search_result_finish(&found);
        search_result_finish(&all);
        scene_finish(&s);
    }
}

/* ---- the space ---- */

static void refused(const struct space_request *request, const char *text)
{
    struct experiment *e = NULL;
    struct simulated_machine *machine = calloc(1, sizeof *machine);
    struct space *space;
    int count;
    static const char config[] = "{\"device\": \"sim\", \"world_size\": 16, \"paradigm\": \"ddp\", \"model\": {\"preset\": \"GPTSmall\"}}";
    CHECK_OK(experiments_parse(config, sizeof config - 1, "test", NULL, 0, &e, &count));
    CHECK_OK(simulated_machine_load(e, machine));
    CHECK(space_create(e, machine, request, &space) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), text) && !strchr(dt_error_message(), '\n'), "%s", dt_error_message());
    free(machine);
    free(e);
}

#define REQUEST(option, ...)                                                                                                               \
    &(struct space_request){.option = (const char *const[]){__VA_ARGS__},                                                                  \
                            .option##_count = (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)),                          \
                            .max_batch = 4}

static void wrong_requests_are_refused(void)
{
    refused(REQUEST(fix, "tensor.size"), "KEY=VALUE");
    refused(REQUEST(fix, "paradigm=fspd"), "fsdp");
    refused(REQUEST(allow, "pipelin.stages=2"), "pipeline");
    refused(REQUEST(fix, "paradigm=ddp,fsdp"), "--allow takes several");
    refused(REQUEST(forbid, "paradigm=ddp,zero1,zero2,fsdp,hsdp,pdp"), "no candidate is left");
    refused(REQUEST(allow, "paradigm=pdp", "pipeline.stages=3"), "does not divide");
    static const char *const whole[] = {"paradigm=ddp", "tensor.size=1"};
    refused(&(struct space_request){.fix = whole, .fix_count = 2, .global_batch = 40}, "use a multiple of 16");
    refused(&(struct space_request){.fix = whole, .fix_count = 2, .global_batch = 8}, "use a multiple of 16");
}

/* With fewer samples than GPUs, each copy of the model is on several GPUs. */
static void few_samples(void)
{
    const struct space_request request = {.global_batch = 2};
    struct scene s;
    scene_of("{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"world_size\": 8, \"paradigm\": \"ddp\", "
             "\"model\": {\"layers\": 4, \"heads\": 8, \"hidden\": 256, \"vocab_size\": 100, \"block_size\": 16}}",
             &request, &s);
    CHECK(space_count(s.space) > 20, "%d candidates", space_count(s.space));
    for (int i = 0; i < space_count(s.space); i++) {
        struct experiment e;
        space_experiment(s.space, i, &e);
        CHECK(experiment_global_batch(&e) == 2 && e.strategy.stages * e.tensor.size >= 4, "%g samples of a rank", e.batch_size);
    }
    scene_finish(&s);
}

static void requests_restrict(void)
{
    static const char *const fix[] = {"paradigm=hsdp", "batch_size=8"}, *const allow[] = {"activation_blocks=1,2"},
                             *const forbid[] = {"activation=offload", "hsdp.shard_size=2"};
    const struct space_request request = {
        .fix = fix, .fix_count = 2, .allow = allow, .allow_count = 1, .forbid = forbid, .forbid_count = 2, .max_batch = 64};
    struct scene s;
    bool blocks[3] = {false};
    scene_of("{\"device\": \"sim\", \"world_size\": 16, \"paradigm\": \"ddp\", \"model\": {\"preset\": \"GPTSmall\"}}", &request, &s);
    for (int i = 0; i < space_count(s.space); i++) {
        struct experiment e;
        space_experiment(s.space, i, &e);
        CHECK(e.paradigm == PARADIGM_HSDP && e.batch_size == 8 && e.activation != ACTIVATION_OFFLOAD && e.hsdp.shard_size != 2, "%d", i);
        blocks[e.activation_blocks] = true;
    }
    CHECK(blocks[1] && blocks[2], "both are tried");
    scene_finish(&s);
}

enum { MOST_SIZE = 32 };

/* The sizes of rank groups that the space proposes on nodes of eight, and whether a step with one
 * gather is proposed in several ways. */
static void sizes_of_groups(void)
{
    static const char *const shards[] = {"paradigm=hsdp", "tensor.size=1"}, *const tensors[] = {"paradigm=ddp"},
                             *const gathers[] = {"paradigm=fsdp", "micro_batches=1", "pipeline.stages=1"};
    static const struct {
        struct space_request request;
        unsigned long long shards, tensors; /* bit n: size n */
    } rows[] = {
        /* 24 ranks: divisors that fill nodes evenly; three, six and twelve would straddle nodes */
        {{.fix = shards, .fix_count = 2, .max_batch = 1}, 1 << 2 | 1 << 4 | 1 << 8, 1 << 1},
        {{.fix = tensors, .fix_count = 1, .max_batch = 1}, 1 << 0, 1 << 1 | 1 << 2 | 1 << 4}, /* of four heads */
        {{.fix = gathers, .fix_count = 3, .max_batch = 1}, 1 << 0, 1 << 1 | 1 << 2 | 1 << 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene s;
        unsigned long long found_shards = 0, found_tensors = 0;
        scene_of("{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"world_size\": 24, \"paradigm\": \"ddp\", "
                 "\"model\": {\"layers\": 2, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 100, \"block_size\": 16}}",
                 &rows[i].request, &s);
        for (int c = 0; c < space_count(s.space); c++) {
            struct experiment e;
            space_experiment(s.space, c, &e);
            CHECK(e.hsdp.shard_size <= MOST_SIZE && e.tensor.size <= MOST_SIZE);
            found_shards |= e.paradigm == PARADIGM_HSDP ? 1ull << e.hsdp.shard_size : 1;
            found_tensors |= 1ull << e.tensor.size;
            CHECK(e.paradigm != PARADIGM_FSDP || e.fsdp.gather == GATHER_EACH, "one gather is each one");
        }
        CHECK(found_shards == rows[i].shards && found_tensors == rows[i].tensors, "row %zu: shards %#llx, tensors %#llx", i, found_shards,
              found_tensors);
        scene_finish(&s);
    }
}

/* A pipeline has from one to eight chunks for each stage, doubled each time, as far as there are
 * samples. */
static void numbers_of_chunks(void)
{
    static const char *const fix[] = {"paradigm=pdp", "pipeline.stages=2", "tensor.size=1", "batch_size=32"};
    static const struct space_request request = {.fix = fix, .fix_count = 4, .max_batch = 32};
    struct scene s;
    unsigned chunks = 0;
    scene_of("{\"device\": \"sim\", \"world_size\": 2, \"paradigm\": \"ddp\", \"model\": {\"preset\": \"GPTSmall\"}}", &request, &s);
    for (int c = 0; c < space_count(s.space); c++) {
        struct experiment e;
        space_experiment(s.space, c, &e);
        CHECK(e.pipeline.chunks < 32 && e.micro_batches == 1);
        chunks |= 1u << e.pipeline.chunks;
    }
    CHECK(chunks == (1u << 2 | 1u << 4 | 1u << 8 | 1u << 16), "%#x", chunks);
    scene_finish(&s);
}

static double compute_bound_s(struct scene *s)
{
    struct bounds *bounds;
    struct bound bound;
    CHECK_OK(bounds_create(&s->base, &s->machine, s->recordings, &bounds));
    CHECK_OK(bounds_find(bounds, &s->base, &bound));
    bounds_destroy(bounds);
    return bound.compute_s;
}

/* Forward waits for the sums of tensor ranks, and longer on channels of half the speed. For MPI's
 * sums there is no bound. */
static void sums_of_tensor_ranks(void)
{
    static const struct space_request request = {.max_batch = 1};
    double own_s, slow_s, mpi_s;
    struct scene s;
    scene_of(
        "{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"world_size\": 2, \"paradigm\": \"ddp\", \"tensor\": {\"size\": 2}, "
        "\"model\": {\"preset\": \"GPTSmall\"}}",
        &request, &s);
    own_s = compute_bound_s(&s);
    s.machine.cluster.collectives.channel_gb_per_s /= 2;
    slow_s = compute_bound_s(&s);
    s.machine.cluster.collectives.library = DT_SIM_MPI;
    mpi_s = compute_bound_s(&s);
    CHECK(mpi_s < own_s && own_s < slow_s && slow_s - mpi_s < 2.5 * (own_s - mpi_s), "%g s, %g s, %g s", own_s, slow_s, mpi_s);
    scene_finish(&s);
}

/* The host's time for each step is added to the time of issuing work. */
static void a_slower_host(void)
{
    static const struct space_request request = {.max_batch = 1};
    struct bound bound[2];
    struct scene s;
    scene_of("{\"device\": \"sim\", \"world_size\": 8, \"paradigm\": \"ddp\", \"model\": {\"preset\": \"GPTSmall\"}}", &request, &s);
    for (int slow = 0; slow < 2; slow++) {
        struct bounds *bounds;
        s.machine.profile.host.step_s += slow;
        CHECK_OK(bounds_create(&s.base, &s.machine, s.recordings, &bounds));
        CHECK_OK(bounds_find(bounds, &s.base, &bound[slow]));
        bounds_destroy(bounds);
    }
    CHECK(fabs(bound[1].host_s - bound[0].host_s - 1) < 1e-9 && bound[1].step_s >= 1, "%g s and %g s", bound[0].host_s, bound[1].host_s);
    scene_finish(&s);
}

/* A rank of a tensor group issues as many kernels for few samples as for many. */
static void hosts_of_few_samples(void)
{
    static const struct space_request request = {.max_batch = 1};
    double host_s[2];
    for (int few = 0; few < 2; few++) {
        char text[512];
        struct scene s;
        struct bound bound;
        struct bounds *bounds;
        snprintf(text, sizeof text,
                 "{\"device\": \"sim\", \"world_size\": 8, \"paradigm\": \"ddp\", \"tensor\": {\"size\": 8}, \"batch_size\": %g, "
                 "\"model\": {\"preset\": \"GPTMedium\"}}",
                 few ? 0.5 : 1.0);
        scene_of(text, &request, &s);
        CHECK_OK(bounds_create(&s.base, &s.machine, s.recordings, &bounds));
        CHECK_OK(bounds_find(bounds, &s.base, &bound));
        host_s[few] = bound.host_s;
        bounds_destroy(bounds);
        scene_finish(&s);
    }
    CHECK(fabs(host_s[1] / host_s[0] - 1) < 0.1, "%g s for eight samples, %g s for four", host_s[0], host_s[1]);
}

static const struct test_case cases[] = {
    {"sizes of groups", sizes_of_groups},
    {"offloaded inputs are on the host", offloaded_inputs_are_on_the_host},
    {"numbers of chunks", numbers_of_chunks},
    {"sums of tensor ranks", sums_of_tensor_ranks},
    {"a slower host", a_slower_host},
    {"hosts of few samples", hosts_of_few_samples},
    {"wrong requests are refused", wrong_requests_are_refused},
    {"few samples", few_samples},
    {"requests restrict the space", requests_restrict},
    {"nothing passes a bound", nothing_passes_a_bound},
    {"stages that share cards", stages_that_share_cards},
    {"a part stands for all", a_part_stands_for_all},
    {"the same as simulating all", the_same_as_simulating_all},
    {"the same after a slow one", the_same_after_a_slow_one},
    {"worse ones of a kind are left out", worse_ones_of_a_kind_are_left_out},
    {"the least memory", the_least_memory},
    {"an interrupted search has results", an_interrupted_search_has_results},
    {"a search stopped at once has a result", a_search_stopped_at_once_has_a_result},
    {"twins are one", twins_are_one},
};

int main(int argc, char **argv)
{
    random_candidates = argc > 1 ? atoi(argv[1]) : random_candidates;
    return test_main(cases, sizeof cases / sizeof *cases);
}
