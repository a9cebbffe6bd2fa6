/* Experiments on device sim: bytes as counted, times as worked out by hand, and what must hold on any cluster. */
#include "gpt/kernels.h"
#include "lib/config/json.h"
#include "predict/framework.h"
#include "predict/simulation.h"
#include "predict/simulation_ranks.h"
#include "predict/symmetry.h"
#include "schedules/config/parse.h"
#include "schedules/run/memory_fit.h"
#include "schedules/step/step_times.h"
#include "test/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* Its parts of three kinds: 2 x 8 GPUs of the study's cluster, if the keys do not say otherwise. */
static struct experiment *experiment_of(const char *keys)
{
    char text[1024];
    struct experiment *e = NULL;
    int count;
    snprintf(text, sizeof text,
             "{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"steps\": {\"warmup\": 1, \"timed\": 3}, %s}", keys);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    return e;
}

#define TINY "\"model\": {\"layers\": 4, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32}"
#define SMALL "\"model\": {\"preset\": \"GPTSmall\", \"attention\": \"unfused\"}"

/* Seconds of a step; *result is finished by the caller where it is given. */
static double run(const struct experiment *e, const struct simulated_system *system, struct measure_result *result)
{
    struct measure_result own = {0}, *at = result ? result : &own;
    CHECK_OK(simulation_run(e, system, NULL, at));
    double seconds = at->steps_done > 0 ? at->step_s[0] : NAN;
    measure_result_finish(&own);
    return seconds;
}

static double run_keys(const char *keys, void (*change)(struct simulated_system *system))
{
    struct simulated_system *system;
    struct experiment *e = experiment_of(keys);
    CHECK_OK(simulated_system_create(e, &system));
    if (change)
        change(system);
    double seconds = run(e, system, NULL);
    simulated_system_destroy(system);
    free(e);
    return seconds;
}

/* Each wait ends with its message, and is bubble until that was made: in the middle of the wait, before it, after it, or nobody knows when. */
static void bubbles_by_hand(void)
{
    struct timeline_message waits[] = {{.key = 2, .begin_ns = 300, .end_ns = 400},
                                       {.key = 1, .begin_ns = 100, .end_ns = 200},
                                       {.key = 3, .begin_ns = 500, .end_ns = 600},
                                       {.key = 4, .begin_ns = 700, .end_ns = 710}};
    struct timeline_message one[] = {{.key = 1, .begin_ns = 40}, {.key = 3, .begin_ns = 900}}, other[] = {{.key = 2, .begin_ns = 330}};
    const struct step_messages received = {waits, 4}, sent[] = {{one, 2}, {other, 1}, {NULL, 0}};
    CHECK(step_bubble_ns(&received, sent, 3) == 30 + 0 + 100 + 10, "%lld ns", (long long)step_bubble_ns(&received, sent, 3));
}

static const char *const divisions[] = {
    "\"world_size\": 16, \"paradigm\": \"ddp\", \"batch_size\": 4, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"pdp\", \"batch_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 4}, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"fsdp\", \"batch_size\": 4, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"hsdp\", \"batch_size\": 4, \"hsdp\": {\"shard_size\": 8}, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"zero2\", \"batch_size\": 4, \"optimizer\": {\"name\": \"adam\"}, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"parameter_server\", \"batch_size\": 4, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"data_parallel\", \"batch_size\": 4, " SMALL,
};
enum { DIVISIONS = sizeof divisions / sizeof *divisions };

static void the_same_twice(void)
{
    struct simulated_system *system;
    for (int d = 0; d < DIVISIONS; d++) {
        struct experiment *e = experiment_of(divisions[d]);
        struct measure_result once, twice;
        CHECK_OK(simulated_system_create(e, &system));
        run(e, system, &once);
        run(e, system, &twice);
        CHECK(once.steps_done == 3 && twice.steps_done == 3 && once.losses_done == 4 && isnan(once.losses[0]));
        CHECK(once.step_s[0] > 0 && memcmp(once.step_s, twice.step_s, 3 * sizeof *once.step_s) == 0, "%s", divisions[d]);
        const struct dt_step_metrics *step = &once.metrics.step, *again = &twice.metrics.step;
        CHECK(step->forward_s == again->forward_s && step->backward_s == again->backward_s && step->optimizer_s == again->optimizer_s &&
                  step->exposed_comm_s == again->exposed_comm_s,
              "%s", divisions[d]);
        CHECK(step->forward_s > 0 && step->backward_s > 0, "%s", divisions[d]);
        CHECK(isnan(step->overflow_steps) && isnan(once.metrics.startup_s), "nothing is computed");
        double sum =
            step->forward_s + step->backward_s + step->optimizer_s + step->exposed_comm_s + step->bubble_s + step->data_s + step->host_s;
        CHECK(fabs(sum - once.step_s[0]) < 1e-6 * once.step_s[0], "times of %g s in a step of %g s: %s", sum, once.step_s[0], divisions[d]);
        measure_result_finish(&once);
        measure_result_finish(&twice);
        simulated_system_destroy(system);
        free(e);
    }
}

/* A step with late updates takes what computing it takes, or what its messages take, whichever is longer; and however late they are. */
static void late_updates(void)
{
    static const char *const late[] = {"0", "1", "4"};
    double step_s[3], busy[3];
    struct dt_step_metrics metrics[3];
    for (int i = 0; i < 3; i++) {
        struct simulated_system *system;
        struct measure_result result;
        char text[512];
        snprintf(text, sizeof text,
                 "\"world_size\": 4, \"gpus_per_node\": 1, \"paradigm\": \"parameter_server\", \"batch_size\": 32, \"parameter_server\": "
                 "{\"servers\": 2, "
                 "\"staleness\": %s}, " SMALL,
                 late[i]);
        struct experiment *e = experiment_of(text);
        CHECK_OK(simulated_system_create(e, &system));
        run(e, system, &result);
        step_s[i] = result.step_s[1];
        metrics[i] = result.metrics.step;
        busy[i] = metrics[i].server_link_busy * step_s[i];
        measure_result_finish(&result);
        simulated_system_destroy(system);
        free(e);
    }
    CHECK(step_s[1] < 0.99 * step_s[0] && fabs(step_s[2] / step_s[1] - 1) < 0.01, "%g, %g, %g s", step_s[0], step_s[1], step_s[2]);
    CHECK(fabs(busy[1] / busy[0] - 1) < 0.05, "a server's link is busy for %g and %g s of a step", busy[0], busy[1]);
    for (int i = 0; i < 3; i++)
        CHECK(metrics[i].server_link_busy > 0.05 && metrics[i].server_link_busy <= 1 + 1e-9 && metrics[i].server_update_busy > 0 &&
                  metrics[i].server_update_busy < 1,
              "staleness %s: %g, %g", late[i], metrics[i].server_link_busy, metrics[i].server_update_busy);
}

/* Give the field another value that its table allows; false where there is none to try: what others are derived from (the model's sizes from
 * its preset, whether there is a pipeline) has no part by itself and is not tried either. */
static bool change_field(const struct dt_field *field, struct experiment *e)
{
    void *at = (char *)e + field->offset;
    bool derived = strncmp(field->path, "model.", 6) == 0 || strcmp(field->path, "pipeline.paradigms") == 0;
    if (derived || field->kind == DT_FIELD_SETTINGS)
        return false;
    switch (field->kind) {
    case DT_FIELD_BOOL: *(bool *)at = !*(bool *)at; break;
    case DT_FIELD_INT: *(int *)at += *(int *)at < field->max ? 1 : -1; break;
    case DT_FIELD_NUMBER: *(double *)at = (*(double *)at + field->min) / 2; break;
    case DT_FIELD_ENUM: *(int *)at = dt_field_choice(field, *(int *)at + 1) ? *(int *)at + 1 : 0; break;
    case DT_FIELD_STRING: snprintf(at, field->size, "%s", dt_field_choice(field, 1) ? dt_field_choice(field, 1) : "other"); break;
    case DT_FIELD_TEXT: *(const char **)at = dt_field_choice(field, 1) ? dt_field_choice(field, 1) : "other"; break;
    case DT_FIELD_FLOAT:
    case DT_FIELD_U64:
    case DT_FIELD_SETTINGS: return false;
    }
    return true;
}

/* The keys that have no part in an experiment change neither a time nor a byte of it. */
static void keys_without_a_part(void)
{
    static const char *const more[] = {"", "\"tensor\": {\"size\": 2}, "};
    int tried = 0;
    for (int p = 0; p < 2 * PARADIGM_COUNT; p++) {
        char keys[512];
        int size = 1 + p % 2, world = p / 2 == PARADIGM_NONE ? size : 4;
        snprintf(keys, sizeof keys, "\"world_size\": %d, \"paradigm\": \"%s\", \"batch_size\": 4, %s" TINY, world,
                 paradigm_name((enum paradigm_kind)(p / 2)), more[p % 2]);
        struct experiment *e = experiment_of(keys);
        struct simulated_system *system;
        struct measure_result plain, changed;
        CHECK_OK(simulated_system_create(e, &system));
        run(e, system, &plain);
        for (int i = 0; i < experiment_table()->count; i++) {
            const struct dt_field *field = &experiment_table()->fields[i];
            struct experiment other = *e;
            if (experiment_depends_on(e, field) || !change_field(field, &other))
                continue;
            if (experiment_depends_on(&other, field)) /* it has no part as long as it has its default */
                continue;
            run(&other, system, &changed);
            CHECK(changed.step_s[0] == plain.step_s[0] && changed.rank_count == plain.rank_count &&
                      memcmp(changed.ranks, plain.ranks, (size_t)plain.rank_count * sizeof *plain.ranks) == 0,
                  "%s in %s", field->path, keys);
            tried++;
            measure_result_finish(&changed);
        }
        measure_result_finish(&plain);
        simulated_system_destroy(system);
        free(e);
    }
    CHECK(tried > 12 * 2 * PARADIGM_COUNT, "%d", tried);
}

/* Eight equal stages on one node, four chunks: 7 of 11 parts of a step are bubble, and nothing is left that no time has. */
static void a_bubble_is_counted(void)
{
    struct simulated_system *system;
    struct measure_result result;
    struct experiment *e = experiment_of("\"world_size\": 8, \"paradigm\": \"pdp\", \"batch_size\": 8, \"pipeline\": {\"stages\": 8, "
                                         "\"chunks\": 4}, \"model\": {\"preset\": \"GPTLarge\"}");
    CHECK_OK(simulated_system_create(e, &system));
    run(e, system, &result);
    const struct dt_step_metrics *step = &result.metrics.step;
    CHECK(fabs(step->bubble_s / result.step_s[0] - 7.0 / 11) < 0.04, "%g of a step", step->bubble_s / result.step_s[0]);
    CHECK(step->exposed_comm_s < 0.05 * result.step_s[0], "%g s of %g s are communication", step->exposed_comm_s, result.step_s[0]);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
}

/* A host that takes long for each launch keeps the device waiting, and its kernels are no longer for that. */
static void slow_launches(struct simulated_system *system)
{
    system->costs.profile.host.launch_s *= 50;
    system->costs.profile.host.interpreter_launch_s *= 50;
}

static void waiting_for_launches_is_the_hosts(void)
{
    struct dt_step_metrics step[2];
    double seconds[2];
    for (int slow = 0; slow < 2; slow++) {
        struct simulated_system *system;
        struct measure_result result;
        struct experiment *e = experiment_of("\"world_size\": 1, \"batch_size\": 4, " SMALL);
        CHECK_OK(simulated_system_create(e, &system));
        if (slow)
            slow_launches(system);
        seconds[slow] = run(e, system, &result);
        step[slow] = result.metrics.step;
        measure_result_finish(&result);
        simulated_system_destroy(system);
        free(e);
    }
    CHECK(step[1].host_s > 0.5 * seconds[1] && seconds[1] > 2 * seconds[0], "%g s of %g s", step[1].host_s, seconds[1]);
    CHECK(fabs(step[1].backward_s / step[0].backward_s - 1) < 0.01 && fabs(step[1].forward_s / step[0].forward_s - 1) < 0.01,
          "kernels: forward %g and %g s, backward %g and %g s", step[0].forward_s, step[1].forward_s, step[0].backward_s,
          step[1].backward_s);
}

static void bytes_are_those_of_check(void)
{
    struct simulated_system *system;
    for (int d = 0; d < DIVISIONS; d++) {
        struct experiment *e = experiment_of(divisions[d]);
        struct measure_result result;
        struct dt_memory_usage usage, own;
        CHECK_OK(simulated_system_create(e, &system));
        run(e, system, &result);
        for (int rank = 0; rank < 16; rank += 5) {
            CHECK_OK(simulation_predict_memory(e, system, rank, &usage, NULL));
            CHECK(memcmp(&usage, &result.ranks[rank].memory, sizeof usage) == 0, "rank %d of %s", rank, divisions[d]);
            CHECK_OK(memory_fit_predict(e, rank, &own, NULL));
            CHECK(own.device.peak_total_bytes < usage.device.peak_total_bytes ||
                      e->paradigm == PARADIGM_PDP, /* of which it keeps one chunk */
                  "the framework keeps more: %s", divisions[d]);
        }
        measure_result_finish(&result);

        /* A stack that keeps nothing of its own needs what every device of dtbench's needs. */
        memset(&system->costs.profile.memory, 0, sizeof system->costs.profile.memory);
        memset(&system->costs.profile.schedule, 0, sizeof system->costs.profile.schedule);
        system->device.granularity_bytes = 1;
        run(e, system, &result);
        for (int rank = 0; rank < 16; rank++) {
            CHECK_OK(memory_fit_predict(e, rank, &own, NULL));
            CHECK(memcmp(&own, &result.ranks[rank].memory, sizeof own) == 0, "rank %d of %s", rank, divisions[d]);
        }
        measure_result_finish(&result);
        simulated_system_destroy(system);
        free(e);
    }
}

/* A host so fast that nothing waits for it: a step is then bound by network and device alone. */
static void free_host(struct simulated_system *s)
{
    int runs_ahead = s->costs.profile.host.runs_ahead;
    memset(&s->costs.profile.host, 0, sizeof s->costs.profile.host);
    s->costs.profile.host.runs_ahead = runs_ahead;
    s->device.copy_host_s = s->device.collective_host_s = s->device.gather_host_s = s->device.message_host_s = 0;
    s->device.queue_kernels = 0;
}

static void faster_network(struct simulated_system *s)
{
    free_host(s);
    s->cluster.nic.label_gbit_per_s *= 3;
    s->cluster.nic.flow_gbit_per_s *= 3;
    s->cluster.nic.total_gbit_per_s *= 3;
}

static void faster_gpu(struct simulated_system *s)
{
    free_host(s);
    s->costs.hardware.peak_flops *= 3;
    s->costs.hardware.memory_bytes_per_s *= 3;
}

static void faster_is_not_slower(void)
{
    for (int d = 0; d < DIVISIONS; d++) {
        double seconds = run_keys(divisions[d], free_host), network = run_keys(divisions[d], faster_network),
               gpu = run_keys(divisions[d], faster_gpu);
        CHECK(network < seconds && gpu <= seconds, "%g s, %g s with three times the network, %g s with such GPUs: %s", seconds, network,
              gpu, divisions[d]);
    }
}

/* Nothing costs anything but attention, by its passes alone: 1 s for each of TINY's samples and blocks forward, and 2 s backward. The
 * memory is so fast that only so many passes are felt, and the products' own traffic is not. */
static void only_attention(struct simulated_system *s)
{
    struct dt_profile *p = &s->costs.profile;
    const double sample_bytes = 32 * 64 * 2, passes = 1e9;
    memset(p->kernels, 0, sizeof p->kernels);
    memset(&p->schedule, 0, sizeof p->schedule);
    p->kernels[GPT_KERNEL_ATTENTION].passes = passes;
    p->kernels[GPT_KERNEL_ATTENTION_GRADIENT].passes = 2 * passes;
    p->bandwidth_fraction = p->gemm.peak_fraction = 1;
    p->kernel_s = 0;
    s->costs.hardware.peak_flops = 1e30;
    s->costs.hardware.memory_bytes_per_s = sample_bytes * passes;
    s->device.memory_bytes_per_s = 1e30;
    s->device.kernel_s = 0;
    free_host(s);
    p->host.runs_ahead = 0;
}

static void one_rank_is_the_sum_of_its_kernels(void)
{
    double seconds = run_keys("\"batch_size\": 3, " TINY, only_attention);
    CHECK(fabs(seconds - 3 * 4 * (1 + 2)) < 1e-3, "%g s", seconds);
    seconds = run_keys("\"batch_size\": 4, \"micro_batches\": 2, \"activation\": \"checkpoint\", " TINY, only_attention);
    CHECK(fabs(seconds - 4 * 4 * (1 + 1 + 2)) < 1e-3, "recomputed: %g s", seconds);
}

/* Fused attention alone computes at such a rate that one product of a sample, 2 T T w operations a head, takes a second. Forward has two of
 * them, backward five. */
static void a_product_takes_a_second(struct simulated_system *s)
{
    only_attention(s);
    s->costs.hardware.memory_bytes_per_s = 1e30;
    s->costs.profile.gemm.fused_peak_fraction = 4 * 2.0 * 32 * 32 * 16 / s->costs.hardware.peak_flops;
    s->costs.profile.gemm.fused_attention = 1;
}

static void a_product_of_short_sequences(struct simulated_system *s)
{
    a_product_takes_a_second(s);
    s->costs.profile.gemm.fused_half_t = 64;
}

static void fused_attention_has_its_own_peak(void)
{
    double seconds = run_keys("\"batch_size\": 3, " TINY, a_product_takes_a_second);
    CHECK(fabs(seconds - 3 * 4 * (2 + 5)) < 1e-3, "%g s", seconds);
    seconds = run_keys("\"batch_size\": 3, " TINY, a_product_of_short_sequences);
    CHECK(fabs(seconds - 3 * 3 * 4 * (2 + 5)) < 1e-3, "%g s, of 32 tokens at a third of the rate", seconds);
}

static void launches_take_a_second(struct simulated_system *s)
{
    only_attention(s);
    s->costs.profile.host.launch_s = s->costs.profile.host.interpreter_launch_s = 10;
    s->costs.profile.kernels[GPT_KERNEL_ATTENTION].launches = 2;
    s->costs.profile.host.step_s = 5;
}

/* The device waits for its host, and at the end the host for the last kernels. Fused attention is one launch, forward and backward; the
 * other has two and none here. */
static void one_rank_is_bound_by_its_launches(void)
{
    double fused = run_keys("\"batch_size\": 1, " TINY, launches_take_a_second);
    double unfused =
        run_keys("\"batch_size\": 1, \"model\": {\"layers\": 4, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32, "
                 "\"attention\": \"unfused\"}",
                 launches_take_a_second);
    CHECK(fabs(fused - (5 + 8 * 10 + 2)) < 1e-3, "fused: %g s", fused);
    CHECK(fabs(unfused - (5 + 4 * 20 + 1 + 4 * 2)) < 1e-3, "unfused: %g s", unfused);
}

static void only_updates(struct simulated_system *s)
{
    only_attention(s);
    memset(s->costs.profile.kernels, 0, sizeof s->costs.profile.kernels);
    s->costs.profile.kernels[DT_PRICED_SGD].launches = 1;
    s->costs.profile.host.interpreter_launch_s = 10;
    s->costs.profile.optimizer_fused = 1;
}

static void updates_together(struct simulated_system *s)
{
    only_updates(s);
    s->costs.profile.optimizer_fused = 2;
}

/* An optimizer of a framework updates all parameters with one launch; dtbench's, each bucket. */
static void updates_are_launched_once(void)
{
    double each_s = run_keys("\"batch_size\": 1, \"paradigm\": \"ddp\", \"world_size\": 2, " SMALL, only_updates);
    double together_s = run_keys("\"batch_size\": 1, \"paradigm\": \"ddp\", \"world_size\": 2, " SMALL, updates_together);
    CHECK(fabs(together_s - 10) < 1, "together: %g s", together_s);
    CHECK(each_s > 5 * together_s, "162M parameters are more than five buckets: %g s", each_s);
}

static void updates_by_tensors(struct simulated_system *s)
{
    only_updates(s);
    s->costs.profile.optimizer_fused = 0;
}

/* Two ranks that share layers have a half of each tensor, so that each launches as many updates as one rank does for whole ones. */
static void shared_tensors_are_updated_by_all(void)
{
    double whole_s = run_keys("\"batch_size\": 1, \"paradigm\": \"none\", " SMALL, updates_by_tensors);
    double halves_s =
        run_keys("\"batch_size\": 2, \"paradigm\": \"ddp\", \"world_size\": 2, \"tensor\": {\"size\": 2}, " SMALL, updates_by_tensors);
    CHECK(whole_s > 1000 && fabs(halves_s / whole_s - 1) < 0.02, "%g s, and %g s with halves", whole_s, halves_s);
}

static void only_gathers(struct simulated_system *s)
{
    only_attention(s);
    memset(s->costs.profile.kernels, 0, sizeof s->costs.profile.kernels);
    s->device.gather_host_s = 10;
}

/* What a framework does around the gathers of its shards is not done around those of sequence parallelism. */
static void only_shards_cost_gathers(void)
{
    double tensor_s =
        run_keys("\"batch_size\": 2, \"paradigm\": \"ddp\", \"world_size\": 2, \"tensor\": {\"size\": 2}, " SMALL, only_gathers);
    double shards_s = run_keys("\"batch_size\": 1, \"paradigm\": \"fsdp\", \"world_size\": 2, " SMALL, only_gathers);
    CHECK(tensor_s < 1 && shards_s > 100, "%g s for layers, %g s for shards", tensor_s, shards_s);
}

#define FP8 "\"cluster\": \"clusters/dgx_h100_1.json\", \"world_size\": 2, \"batch_size\": 2, \"micro_batches\": 2, "
#define FP8_MODEL "\"model\": {\"layers\": 4, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32, \"dtype\": \"bf16\"}"

/* What two ranks gather and all-reduce, and hold of parameters. */
static struct dt_step_metrics in_fp8(const char *keys, double *held)
{
    char text[512];
    struct simulated_system *system;
    struct measure_result result;
    struct experiment *e = NULL;
    int count;
    snprintf(text, sizeof text, "{\"device\": \"sim\", %s, " FP8 FP8_MODEL "}", keys);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    CHECK_OK(simulated_system_create(e, &system));
    run(e, system, &result);
    struct dt_step_metrics step = result.metrics.step;
    *held = (double)result.ranks[0].memory.device.peak_bytes[DT_PARAMETERS];
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
    return step;
}

/* Four blocks of 12 x 64 x 64 weights, with 13 x 64 numbers of biases and norms, are gathered four times in two micro-batches. */
static void products_in_fp8(void)
{
    enum { BLOCKS = 4 * (12 * 64 * 64 + 13 * 64) };
    double held, all_held, none, copies;
    struct dt_step_metrics wide = in_fp8("\"paradigm\": \"fsdp\"", &none);
    struct dt_step_metrics all = in_fp8("\"paradigm\": \"fsdp\", \"fp8\": {\"recipe\": \"tensorwise\", \"gather\": true}", &all_held);
    CHECK(wide.all_gather_bytes - all.all_gather_bytes == 4.0 * BLOCKS, "%g and %g bytes", wide.all_gather_bytes, all.all_gather_bytes);
    CHECK(wide.all_reduce_bytes == 0 && all.all_reduce_bytes > 0 && all_held == none, "%g bytes of amaxes", all.all_reduce_bytes);
    struct dt_step_metrics ddp = in_fp8("\"paradigm\": \"ddp\"", &held);
    struct dt_step_metrics delayed = in_fp8("\"paradigm\": \"ddp\", \"fp8\": {\"recipe\": \"delayed\"}", &copies);
    CHECK(copies - held == 2.0 * BLOCKS, "weights in FP8, also transposed: %g bytes", copies - held);
    CHECK(delayed.all_reduce_bytes > ddp.all_reduce_bytes && delayed.forward_s > ddp.forward_s,
          "casts of such small operands cost more than products gain: %g s, %g s", delayed.forward_s, ddp.forward_s);
    struct dt_step_metrics blocks = in_fp8("\"paradigm\": \"ddp\", \"fp8\": {\"recipe\": \"blockwise\"}", &copies);
    CHECK(copies - held == 2.0 * BLOCKS && blocks.all_reduce_bytes == ddp.all_reduce_bytes, "no amaxes: %g bytes", blocks.all_reduce_bytes);
}

/* With tensor parallelism: amaxes of all ranks after each forward and each backward; or one number before each gather of rows, of which a block has four. */
static void amaxes_of_parts(void)
{
    enum { BLOCKS = 4, MICRO_BATCHES = 2, GATHERS = 4 };
    double held;
    struct dt_step_metrics wide = in_fp8("\"paradigm\": \"none\", \"tensor\": {\"size\": 2}", &held);
    struct dt_step_metrics delayed = in_fp8("\"paradigm\": \"none\", \"tensor\": {\"size\": 2}, \"fp8\": {\"recipe\": \"delayed\"}", &held);
    struct dt_step_metrics parts =
        in_fp8("\"paradigm\": \"none\", \"tensor\": {\"size\": 2}, \"fp8\": {\"recipe\": \"tensorwise\"}", &held);
    CHECK(delayed.all_reduce_bytes > wide.all_reduce_bytes, "%g and %g bytes", delayed.all_reduce_bytes, wide.all_reduce_bytes);
    CHECK(parts.all_reduce_bytes - wide.all_reduce_bytes >= 4.0 * BLOCKS * MICRO_BATCHES * GATHERS, "%g bytes",
          parts.all_reduce_bytes - wide.all_reduce_bytes);
}

/* GPUs before Blackwell have no products with a scale for 32 numbers. */
static void mxfp8_needs_its_rate(void)
{
    for (int blackwell = 0; blackwell < 2; blackwell++) {
        char text[512];
        struct simulated_system *system = NULL;
        struct experiment *e = NULL;
        int count;
        snprintf(text, sizeof text,
                 "{\"device\": \"sim\", \"cluster\": \"clusters/%s.json\", \"fp8\": {\"recipe\": \"mxfp8\"}, " FP8_MODEL "}",
                 blackwell ? "dgx_b200" : "dgx_h100_1");
        CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
        dt_status status = simulated_system_create(e, &system);
        CHECK(blackwell ? status == DT_OK : status == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "gpu.peak_tflops.mxfp8"), "%s",
              dt_error_message());
        simulated_system_destroy(system);
        free(e);
    }
}

static void copies_take_ten_seconds(struct simulated_system *s)
{
    s->device.copy_host_s = 10;
}

static void copies_of_shares_take_ten_seconds(struct simulated_system *s)
{
    copies_take_ten_seconds(s);
    s->costs.profile.schedule.copies_shares = 1;
}

/* Of one bucket's gradients twice for each rank; then of what is gathered once, and of each layer's parameters: the embedding, three of
 * each block, the head. */
static void shares_are_copied(void)
{
    enum { BLOCKS = 4, OF_BLOCK = 3, OTHERS = 2 };
    for (int ranks = 8; ranks <= 16; ranks *= 2) {
        char keys[512];
        snprintf(keys, sizeof keys, "\"world_size\": %d, \"paradigm\": \"zero1\", \"batch_size\": 4, " TINY, ranks);
        double copies = (run_keys(keys, copies_of_shares_take_ten_seconds) - run_keys(keys, copies_take_ten_seconds)) / 10;
        CHECK(fabs(copies / ranks - (2 + 1 + BLOCKS * OF_BLOCK + OTHERS)) < 0.01, "%g copies for each of %d ranks", copies / ranks, ranks);
    }
}

static void slow_network(struct simulated_system *s)
{
    s->cluster.nvlink.gb_per_s = 5;
    s->device.copy_host_s = s->device.kernel_s = s->device.memory_bytes_per_s = 0;
}

static void slow_network_of_shares(struct simulated_system *s)
{
    slow_network(s);
    s->costs.profile.schedule.copies_shares = 1;
}

/* Kernels wait for the reduction only where ranks share layers, which asks for one queue. */
static void one_queue_waits_for_reductions(void)
{
    static const char *const keys[] = {"\"world_size\": 8, \"paradigm\": \"zero1\", \"batch_size\": 32, " SMALL,
                                       "\"world_size\": 8, \"paradigm\": \"zero1\", \"batch_size\": 32, \"tensor\": {\"size\": 2}, " SMALL};
    double more[2];
    for (int i = 0; i < 2; i++)
        more[i] = run_keys(keys[i], slow_network_of_shares) / run_keys(keys[i], slow_network) - 1;
    CHECK(fabs(more[0]) < 1e-3 && more[1] > 5e-3, "%g, and %g where ranks share layers", more[0], more[1]);
}

static void sums_wait(struct simulated_system *s)
{
    s->costs.profile.schedule.sums_in_turn = 1;
}

static void each_product_has_a_sum(struct simulated_system *s)
{
    s->costs.profile.schedule.sums_in_turn = 2;
}

/* Weight gradients hide the sums of inputs' gradients, unless a framework waits for them. */
static void sums_in_turn(void)
{
    static const char *const rows[] = {"false", "true"};
    static const char *const model =
        "\"model\": {\"layers\": 2, \"heads\": 16, \"hidden\": 2048, \"vocab_size\": 512, \"block_size\": 1024, "
        "\"mlp\": \"swiglu\", \"norm\": \"rms\"}";
    for (int sliced = 0; sliced < 2; sliced++) {
        char keys[512];
        snprintf(keys, sizeof keys,
                 "\"world_size\": 4, \"paradigm\": \"none\", \"batch_size\": 4, \"tensor\": {\"size\": 4, \"sequence_parallel\": %s}, %s",
                 rows[sliced], model);
        double beside = run_keys(keys, NULL), waiting = run_keys(keys, sums_wait), each = run_keys(keys, each_product_has_a_sum);
        CHECK(waiting > beside && (sliced ? each == waiting : each > waiting), "%g, %g, %g s", beside, waiting, each);
    }
}

static void again_to_the_end(struct simulated_system *s)
{
    s->costs.profile.schedule.recomputes_outputs = 1;
}

/* What is computed again ends before a product that nobody reads, unless a framework calls its whole forward: with two blocks twice that product,
 * and twice its sum. */
static void outputs_computed_again(void)
{
    static const char *const activations[] = {"keep", "checkpoint"};
    double more[2][2];
    for (int tensor = 1; tensor <= 4; tensor += 3)
        for (int i = 0; i < 2; i++) {
            char keys[512];
            snprintf(keys, sizeof keys,
                     "\"world_size\": %d, \"paradigm\": \"none\", \"batch_size\": 4, \"activation\": \"%s\", \"tensor\": {\"size\": %d}, "
                     "\"model\": {\"layers\": 2, \"heads\": 16, \"hidden\": 2048, \"vocab_size\": 512, \"block_size\": 1024}",
                     tensor, activations[i], tensor);
            more[tensor > 1][i] = run_keys(keys, again_to_the_end) - run_keys(keys, NULL);
        }
    CHECK(more[0][0] == 0 && more[1][0] == 0, "kept: %g, %g s", more[0][0], more[1][0]);
    CHECK(more[0][1] > 0 && more[1][1] > more[0][1] / 4, "one rank %g s, four %g", more[0][1], more[1][1]);
}

/* Four micro-batches of 2 samples of 128 tokens through two stages in turn, which hold 2 and 1 of them: the first has the outputs and gradients
 * of three more, 512 numbers wide, the second three inputs more and the logits of three, of a vocabulary of 1,024; in 2 bytes each. */
static void buffers_of_a_stage(void)
{
    enum { TOKENS = 2 * 128, HIDDEN = 512, VOCABULARY = 1024, OTHERS = 3 };
    static const uint64_t more[] = {2 * (2 * OTHERS * TOKENS * HIDDEN), 2 * (OTHERS * TOKENS * HIDDEN + OTHERS * TOKENS * VOCABULARY)};
    uint64_t bytes[2][2];
    for (int held = 0; held < 2; held++) {
        struct simulated_system *system;
        struct measure_result result;
        struct experiment *e = experiment_of(
            "\"world_size\": 2, \"paradigm\": \"pdp\", \"batch_size\": 4, \"pipeline\": {\"stages\": 2, \"chunks\": 4, \"order\": "
            "\"1f1b\"}, \"model\": {\"layers\": 4, \"heads\": 8, \"hidden\": 512, \"vocab_size\": 1024, \"block_size\": 128, "
            "\"dtype\": \"bf16\"}");
        CHECK_OK(simulated_system_create(e, &system));
        system->costs.profile.schedule.stage_buffers = held;
        run(e, system, &result);
        for (int rank = 0; rank < 2; rank++)
            bytes[held][rank] = result.ranks[rank].memory.device.peak_total_bytes;
        measure_result_finish(&result);
        simulated_system_destroy(system);
        free(e);
    }
    for (int rank = 0; rank < 2; rank++)
        CHECK(bytes[1][rank] - bytes[0][rank] == more[rank], "stage %d: %llu bytes more instead of %llu", rank,
              (unsigned long long)(bytes[1][rank] - bytes[0][rank]), (unsigned long long)more[rank]);
}

static void the_bubble_of_a_pipeline(void)
{
    static const int stages[] = {2, 4}, chunks[] = {1, 2, 4, 8};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            char keys[512];
            int batch = 8 / stages[i], samples = 8 / chunks[j], blocks = 8 / stages[i]; /* 8 samples in all, 8 blocks */
            snprintf(keys, sizeof keys,
                     "\"world_size\": %d, \"paradigm\": \"pdp\", \"batch_size\": %d, \"pipeline\": {\"stages\": %d, \"chunks\": %d}, "
                     "\"model\": {\"layers\": 8, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 8, \"block_size\": 32}",
                     stages[i], batch, stages[i], chunks[j]);
            double wanted = (chunks[j] + stages[i] - 1) * samples * blocks * 3.0, seconds = run_keys(keys, only_attention);
            CHECK(fabs(seconds - wanted) < 0.001 * wanted, "%d stages, %d chunks: %g s, wanted %g s", stages[i], chunks[j], seconds,
                  wanted);
        }
}

static void free_kernels(struct simulated_system *s)
{
    only_attention(s);
    s->costs.profile.kernels[GPT_KERNEL_ATTENTION].passes = s->costs.profile.kernels[GPT_KERNEL_ATTENTION_GRADIENT].passes = 0;
}

static void kernels_as_long_as_messages(struct simulated_system *s)
{
    double scale = 0.5; /* of attention's second, so that a step computes about as long as it communicates */
    only_attention(s);
    s->costs.profile.kernels[GPT_KERNEL_ATTENTION].passes *= 32 * 64 * scale / (256 * 768.0) / 12 / 3;
    s->costs.profile.kernels[GPT_KERNEL_ATTENTION_GRADIENT].passes *= 32 * 64 * scale / (256 * 768.0) / 12 / 3;
}

static void ddp_hides_its_network(void)
{
    static const char *const ddp = "\"world_size\": 16, \"paradigm\": \"ddp\", \"batch_size\": 1, " SMALL;
    static const char *const alone = "\"paradigm\": \"none\", \"batch_size\": 1, " SMALL;
    double network = run_keys(ddp, free_kernels), compute = run_keys(alone, kernels_as_long_as_messages);
    double both = run_keys(ddp, kernels_as_long_as_messages);
    CHECK(network > 0.05 && compute > 0.1, "%g s and %g s", network, compute);
    CHECK(both >= fmax(network, compute) && both < 0.9 * (network + compute), "%g s of network, %g s of kernels, %g s together", network,
          compute, both);
}

/* A gigabyte is given back and taken anew in 1000 s, were there one rank on one node; a third of another node's waits does not coincide. */
static void a_full_device(struct simulated_system *s)
{
    s->costs.profile.memory.full_at = 1e-9;
    s->costs.profile.memory.reallocation_s_per_gb = 1000;
    s->costs.profile.memory.reallocation_spread = 1 / 3.0;
}

/* One after another on a node, and a collective waits for all nodes: 2, 4 and 2 x (1 + 1/3) times as long, and 2 x (1 + 3/3) on four nodes. */
static void ranks_of_a_node_reallocate_in_turn(void)
{
    static const char *const placed[] = {"\"world_size\": 2", "\"world_size\": 4", "\"world_size\": 4, \"gpus_per_node\": 2",
                                         "\"world_size\": 8, \"gpus_per_node\": 2"};
    static const double expected[] = {1, 2, 4 / 3.0, 2};
    char keys[512];
    double seconds[4];
    for (int i = 0; i < 4; i++) {
        snprintf(keys, sizeof keys, "%s, \"paradigm\": \"fsdp\", \"batch_size\": 4, " SMALL, placed[i]);
        seconds[i] = run_keys(keys, a_full_device);
        CHECK(fabs(seconds[i] / seconds[0] - expected[i]) < 0.01, "%s: %g s, and %g s with two ranks", placed[i], seconds[i], seconds[0]);
    }
}

/* PyTorch's DataParallel: the root has the outputs of all other ranks, and each of them its own. */
static void outputs_go_to_the_root(void)
{
    struct simulated_system *system;
    struct experiment *e = experiment_of("\"world_size\": 4, \"paradigm\": \"data_parallel\", \"batch_size\": 4, " SMALL);
    struct measure_result result;
    uint64_t bytes[4];
    CHECK_OK(simulated_system_create(e, &system));
    run(e, system, &result);
    for (int r = 0; r < 4; r++)
        bytes[r] = result.ranks[r].memory.device.peak_bytes[DT_COMMUNICATION];
    CHECK(bytes[1] == 4u * 256 * 50000 * 2 && bytes[2] == bytes[1] && bytes[3] == bytes[1], "%.0f bytes", (double)bytes[1]);
    CHECK(bytes[0] == 3 * bytes[1], "the root has %.0f bytes", (double)bytes[0]);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
}

static void what_does_not_fit(void)
{
    struct simulated_system *system;
    struct experiment *e =
        experiment_of("\"world_size\": 8, \"paradigm\": \"ddp\", \"batch_size\": 1, \"model\": {\"preset\": \"GPT13B\"}");
    struct measure_result result;
    CHECK_OK(simulated_system_create(e, &system));
    CHECK(simulation_run(e, system, NULL, &result) == DT_ERR_OOM);
    CHECK(strstr(dt_error_message(), "rank 0 needs ") && result.steps_done == 0, "%s", dt_error_message());
    CHECK(result.rank_count == 8 && result.ranks[7].memory.device.peak_total_bytes > (uint64_t)60 << 30, "bytes are told all the same");
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
}

static void which_peaks_are_reported(void)
{
    struct simulated_system *system;
    struct experiment *e = experiment_of(divisions[0]);
    struct dt_rank_memory ranks[] = {{.memory.device.peak_total_bytes = 1000}, {.memory.device.peak_total_bytes = 3000}};
    const struct measure_result result = {.ranks = ranks, .rank_count = 2};
    CHECK_OK(simulated_system_create(e, &system));
    CHECK(simulated_system_reported_bytes(system, &result) == 3000, "the most of all ranks");
    system->costs.profile.memory.peaks_of_first_rank = 1;
    CHECK(simulated_system_reported_bytes(system, &result) == 1000, "the first one's");
    system->costs.profile.memory.peaks_reserved = 1;
    system->costs.profile.memory.fragmentation = 0.25;
    CHECK(simulated_system_reported_bytes(system, &result) == 1250, "with what the allocator cannot use");
    system->reserved_bytes = 500;
    CHECK(simulated_system_used_bytes(system, &result) == 3000 * 1.25 + 500, "the highest, with what is beside the allocator");
    simulated_system_destroy(system);
    free(e);
}

/* NCCL's buffers: once for each axis along which ranks communicate. */
static void communicators_take_memory(void)
{
    static const char *const meshes[] = {
        "\"world_size\": 1, \"paradigm\": \"none\", \"profile\": \"general_a100\", " SMALL,
        "\"world_size\": 8, \"paradigm\": \"ddp\", \"batch_size\": 8, \"profile\": \"general_a100\", " SMALL,
        "\"world_size\": 8, \"paradigm\": \"pdp\", \"batch_size\": 8, \"profile\": \"general_a100\", \"pipeline\": {\"stages\": 2}, "
        "\"tensor\": {\"size\": 2}, " SMALL,
    };
    static const int axes[] = {0, 1, 3};
    double alone = 0;
    for (int i = 0; i < 3; i++) {
        struct simulated_system *system;
        struct experiment *e = experiment_of(meshes[i]);
        CHECK_OK(simulated_system_create(e, &system));
        double each = system->costs.profile.memory.communicator_bytes;
        alone = i == 0 ? (double)system->memory_bytes : alone;
        CHECK(each > 0 && fabs(alone - (double)system->memory_bytes - axes[i] * each) < 2, "%d: %g of %g", i,
              alone - (double)system->memory_bytes, each);
        simulated_system_destroy(system);
        free(e);
    }
}

static void refused(const char *keys, const char *wanted)
{
    struct simulated_system *system;
    struct experiment *e = experiment_of(keys);
    CHECK(simulated_system_create(e, &system) < 0 && strstr(dt_error_message(), wanted), "%s", dt_error_message());
    free(e);
}

static void what_is_refused(void)
{
    refused("\"paradigm\": \"ddp\", \"world_size\": 513, " TINY, "world_size: 513 ranks, and cluster clusters/gcp_a2.json has 512");
    refused("\"paradigm\": \"ddp\", \"world_size\": 512, \"gpus_per_node\": 4, " TINY, "has 256 (64 nodes of 4)");
    refused("\"gpus_per_node\": 16, " TINY, "gpus_per_node: 16");
    refused("\"profile\": \"clusters/gcp_a2.json\", " TINY, "clusters/gcp_a2.json: ");
    refused("\"profile\": \"profiles/none.json\", " TINY, "profile: profiles/none.json: not found in ");
}

/* How many ranks are simulated, by hand. */
static void who_stands_for_whom(void)
{
    static const struct {
        const char *keys;
        int count;
    } rows[] = {
        {"\"world_size\": 16, \"gpus_per_node\": 8, \"paradigm\": \"ddp\", " TINY, 1}, /* all of both nodes are alike */
        {"\"world_size\": 2, \"gpus_per_node\": 2, \"paradigm\": \"ddp\", " TINY, 1},
        {"\"world_size\": 8, \"gpus_per_node\": 4, \"paradigm\": \"hsdp\", \"hsdp\": {\"shard_size\": 4}, " TINY, 1},
        /* the smallest layer's 128 elements give 16 shards at least 14 whole ones: the first node's ranks are alike, the second's are not */
        {"\"world_size\": 16, \"gpus_per_node\": 8, \"paradigm\": \"zero1\", " TINY, 9},
        /* tensor ranks are alike, but not where both have a copy of the only head of keys */
        {"\"world_size\": 2, \"gpus_per_node\": 2, \"paradigm\": \"ddp\", \"tensor\": {\"size\": 2}, \"model\": {\"layers\": 2, "
         "\"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32}",
         1},
        {"\"world_size\": 2, \"gpus_per_node\": 2, \"paradigm\": \"ddp\", \"tensor\": {\"size\": 2}, \"model\": {\"layers\": 2, "
         "\"heads\": 4, \"kv_heads\": 1, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32}",
         2},
        /* groups of three on nodes of two: the second half of one node and the first of the next are in other groups than their neighbours */
        {"\"world_size\": 6, \"gpus_per_node\": 2, \"straddle_nodes\": true, \"paradigm\": \"hsdp\", \"hsdp\": {\"shard_size\": 3}, " TINY,
         6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct simulated_system *system;
        struct experiment *e = experiment_of(rows[i].keys);
        CHECK_OK(simulated_system_create(e, &system));
        simulated_system_apply(system, e);
        CHECK(symmetric_part_count(e, system) == rows[i].count, "%d, not %d: %s", symmetric_part_count(e, system), rows[i].count,
              rows[i].keys);
        simulated_system_destroy(system);
        free(e);
    }
}

/* Steps of many micro-batches by two of few: as the whole ones; and what fills and drains several times is simulated whole. */
static void long_steps_by_short_ones(void)
{
    static const char *const keys[] = {
        "\"world_size\": 8, \"paradigm\": \"pdp\", \"batch_size\": 16, \"pipeline\": {\"stages\": 4, \"chunks\": 64, \"order\": "
        "\"1f1b\"}, " SMALL,
        "\"world_size\": 8, \"paradigm\": \"pdp\", \"batch_size\": 6, \"tensor\": {\"size\": 2}, "
        "\"pipeline\": {\"stages\": 4, \"chunks\": 48, \"order\": \"1f1b\"}, " SMALL,
        "\"world_size\": 4, \"paradigm\": \"pdp\", \"batch_size\": 48, \"pipeline\": {\"stages\": 4, \"chunks\": 48, \"order\": "
        "\"interleaved\", \"virtual_stages\": 2}, " SMALL,
        "\"world_size\": 4, \"paradigm\": \"fsdp\", \"batch_size\": 20, \"micro_batches\": 20, " SMALL,
        "\"world_size\": 4, \"paradigm\": \"ddp\", \"batch_size\": 40, \"micro_batches\": 40, " TINY,
        "\"world_size\": 8, \"paradigm\": \"pdp\", \"batch_size\": 8, \"micro_batches\": 8, \"pipeline\": {\"stages\": 2, \"chunks\": 2, "
        "\"order\": \"gpipe\"}, " SMALL,
    };
    for (int i = 0; i < (int)(sizeof keys / sizeof *keys); i++) {
        struct simulated_system *system;
        struct measure_result whole, brief, coarse;
        struct experiment *e = experiment_of(keys[i]);
        CHECK_OK(simulated_system_create(e, &system));
        system->costs.profile.schedule.fewest_chunks = i % 2; /* 1: the framework refuses fewer chunks than stages - 1 */
        CHECK_OK(simulation_run_symmetric(e, system, NULL, &whole));
        CHECK_OK(simulation_run_brief(e, system, NULL, &brief));
        double ratio = brief.step_s[brief.steps_done - 1] / whole.step_s[whole.steps_done - 1];
        CHECK(fabs(ratio - 1) < 1e-9, "%s: %.12g times as long", keys[i], ratio);
        CHECK_OK(simulation_run_coarse(e, system, NULL, &coarse));
        ratio = coarse.step_s[coarse.steps_done - 1] / whole.step_s[whole.steps_done - 1];
        CHECK(fabs(ratio - 1) < 0.02, "%s, coarse: %.12g times as long", keys[i], ratio);
        measure_result_finish(&whole);
        measure_result_finish(&brief);
        measure_result_finish(&coarse);
        struct experiment few = *e;
        int micro_batches = e->strategy.micro_batches;
        int64_t samples = experiment_replica_samples(e);
        CHECK(simulation_take_few(&few, micro_batches / 4) && few.strategy.micro_batches == micro_batches / 4 &&
                  experiment_replica_samples(&few) == samples / 4,
              "%s: %d micro-batches of %" PRId64 " samples", keys[i], few.strategy.micro_batches, experiment_replica_samples(&few));
        CHECK(!simulation_take_few(&few, micro_batches) && few.strategy.micro_batches == micro_batches / 4);
        simulated_system_destroy(system);
        free(e);
    }
}

/* What a slow GPU, link or card costs, worked out by hand where that can be. */
static void a_slow_part(void)
{
    static const char *const parts[] = {"gpu", "node", "link", "card"};
    double equal = run_keys("\"world_size\": 16, \"paradigm\": \"ddp\", \"batch_size\": 64, " SMALL, NULL), slow[4];
    double alone = run_keys("\"batch_size\": 64, " SMALL, NULL);
    double half = run_keys("\"batch_size\": 64, \"slow\": {\"by\": 0.5}, " SMALL, NULL);
    char keys[512];
    for (int i = 0; i < 4; i++) {
        snprintf(
            keys, sizeof keys,
            "\"world_size\": 16, \"paradigm\": \"ddp\", \"batch_size\": 64, \"slow\": {\"rank\": 9, \"by\": %g, \"part\": \"%s\"}, " SMALL,
            i < 2 ? 0.5 : 0.9, parts[i]);
        slow[i] = run_keys(keys, NULL);
    }
    CHECK(half > 1.5 * alone && half <= 2 * alone, "%g s and %g s: kernels take twice as long, and the host issues them as fast", half,
          alone);
    CHECK(slow[0] - equal > 0.3 * (half - alone) && slow[0] - equal <= half - alone,
          "all wait for one, and some of it beside communication: %g s more, and it needs %g", slow[0] - equal, half - alone);
    CHECK(fabs(slow[1] / slow[0] - 1) < 1e-6, "a slow node of ddp costs what one GPU of it does: %g s, %g s", slow[1], slow[0]);
    CHECK(slow[2] >= equal && slow[3] > 1.02 * equal, "link %g s, card %g s, equal %g s", slow[2], slow[3], equal);
}

static void ranks_that_do_the_same_are_one(void)
{
    static const int roles[DIVISIONS] = {1, 4, 1, 1, 1, 2, 2}; /* at most, where there is a root: its own and the others' */
    struct simulated_system *system;
    for (int d = 0; d < DIVISIONS; d++) {
        struct experiment *e = experiment_of(divisions[d]);
        struct simulated_ranks ranks;
        CHECK_OK(simulated_system_create(e, &system));
        struct symmetric_part part;
        CHECK_OK(symmetric_part_all(e, &part));
        CHECK_OK(simulated_ranks_record(e, system, &system->device, &part, false, NULL, NULL, &ranks));
        CHECK(ranks.role_count >= 1 && (d >= 5 || ranks.role_count == roles[d]), "%d roles: %s", ranks.role_count, divisions[d]);
        simulated_ranks_finish(&ranks);
        symmetric_part_finish(&part);
        simulated_system_destroy(system);
        free(e);
    }
}

/* 512 nodes of the study's machine. */
static void four_thousand_ranks(void)
{
    struct simulated_system *system;
    static const char *const keys[] = {"\"world_size\": 4096, \"paradigm\": \"fsdp\", " TINY,
                                       "\"world_size\": 4096, \"paradigm\": \"pdp\", " TINY};
    for (int i = 0; i < 2; i++) {
        struct experiment *e = experiment_of(keys[i]);
        int world_size = e->world_size;
        struct measure_result result;
        e->world_size = 512;
        experiment_settle(e);
        CHECK_OK(simulated_system_create(e, &system));
        e->world_size = system->placement.world_size = world_size;
        experiment_settle(e);
        system->cluster.nodes = 512;
        CHECK(run(e, system, &result) > 0 && result.rank_count == 4096 && result.ranks[4095].memory.device.peak_total_bytes > 0);
        measure_result_finish(&result);
        simulated_system_destroy(system);
        free(e);
    }
}

static bool stop_at_once(void *context)
{
    return true;
}

static void it_can_be_stopped(void)
{
    struct simulated_system *system;
    struct experiment *e = experiment_of(divisions[0]);
    struct measure_hooks hooks = {.stop_requested = stop_at_once};
    struct measure_result result;
    CHECK_OK(simulated_system_create(e, &system));
    CHECK(simulation_run(e, system, &hooks, &result) == DT_ERR_INTERRUPTED && result.steps_done == 0);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
}

static void traces(void)
{
    struct simulated_system *system;
    char path[] = "/tmp/dtbench_trace_XXXXXX", *text;
    size_t length;
    struct cJSON *json;
    struct experiment *e = experiment_of(divisions[1]);
    struct measure_result result;
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_OK(simulated_system_create(e, &system));
    double without = run(e, system, NULL);
    CHECK_OK(simulation_run(e, system, &(struct measure_hooks){.trace = {.path = path}}, &result));
    CHECK(fabs(result.step_s[0] - without) < 1e-9 * without, "looking on changes nothing");
    CHECK_OK(dt_read_file(path, &text, &length));
    CHECK_OK(dt_json_parse(text, length, path, &json));
    CHECK(strstr(text, "rank 15 (node 1, GPU 7)") && strstr(text, "\"send activations up\"") && strstr(text, "\"all_reduce replicas\""));
    dt_json_destroy(json);
    free(text);
    measure_result_finish(&result);
    CHECK(simulation_run(e, system, &(struct measure_hooks){.trace = {.path = "/nowhere/trace.json"}}, &result) == DT_ERR_IO);
    measure_result_finish(&result);
    unlink(path);
    simulated_system_destroy(system);
    free(e);
}

#define HEAVY_HEAD                                                                                                                         \
    "\"hidden\": 2048, \"heads\": 32, \"vocab_size\": 131072, \"mlp\": \"swiglu\", \"norm\": \"rms\", \"position\": \"rope\"}"

/* Blocks of each stage, by nanotron's rule, of a model whose head counts for 3.2 blocks. */
static void stages_that_take_their_share(void)
{
    static const int blocks[][8] = {{10, 6}, {5, 5, 5, 1}, {3, 2, 3, 2, 3, 1, 1, 1}}; /* of 8, one would only cast the logits */
    struct experiment *e = experiment_of("\"model\": {\"layers\": 16, \"ffn\": 8192, \"block_size\": 4096, " HEAVY_HEAD);
    const struct dt_model_family *family = e->model.family;
    int first[17];
    for (int i = 0; i < 3; i++) {
        int stages = 2 << i;
        CHECK_OK(framework_fill_stages(e, stages, first));
        CHECK(first[0] == 0 && first[stages] == dt_block_layer(family, gpt_of(&e->model)->layers) + 2);
        for (int s = 0; s < stages; s++) {
            int own = 0;
            for (int block = 0; block < gpt_of(&e->model)->layers; block++)
                own += dt_block_layer(family, block) >= first[s] && dt_block_layer(family, block) < first[s + 1];
            CHECK(own == blocks[i][s], "stage %d of %d has %d blocks, not %d", s, stages, own, blocks[i][s]);
        }
        CHECK(first[stages - 1] < dt_block_layer(family, gpt_of(&e->model)->layers), "norm and head stay after the last block");
    }
    CHECK(framework_fill_stages(e, 16, first) == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "2 of 16 stages empty"));
    free(e);

    /* A head heavier than all before it: its stage is the first one, and there is none before it to be divided. */
    e = experiment_of("\"model\": {\"layers\": 2, \"ffn\": 2048, \"block_size\": 64, " HEAVY_HEAD);
    CHECK(framework_fill_stages(e, 2, first) == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "1 of 2 stages empty"));
    free(e);
}

/* ---- storage ---- */

static struct dt_metrics training_of(const char *keys, double read, double write, double total, struct experiment *out)
{
    struct simulated_system *system;
    struct measure_result result;
    struct experiment *e = experiment_of(keys);
    CHECK_OK(simulated_system_create(e, &system));
    system->cluster.storage.read_gb_per_s = read;
    system->cluster.storage.write_gb_per_s = write;
    system->cluster.storage.total_read_gb_per_s = system->cluster.storage.total_write_gb_per_s = total;
    system->cluster.pcie.gb_per_s = 1e6;
    run(e, system, &result);
    struct dt_metrics metrics = result.metrics;
    double seconds = 0;
    for (int i = 0; i < result.steps_done; i++)
        seconds += result.step_s[i];
    CHECK(metrics.steps_s > 1.2 * seconds && metrics.steps_s < 1.6 * seconds, "with warm-up %g, without %g", metrics.steps_s, seconds);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    *out = *e;
    free(e);
    return metrics;
}

static bool near(double value, double expected)
{
    return fabs(value - expected) <= 1e-4 * expected;
}

/* Each byte is saved once, whatever the division: by one node after the other as by all together. */
static void every_byte_is_saved_once(void)
{
    char keys[512];
    struct experiment e;
    for (int d = 0; d < DIVISIONS; d++) {
        snprintf(keys, sizeof keys, "\"checkpoint\": {\"path\": \"c\", \"save_every\": 3}, %s", divisions[d]);
        struct dt_metrics m = training_of(keys, 1, 1e6, 1, &e);
        double whole_s = 1e-9 * (double)checkpoint_bytes(&e);
        CHECK(m.saves == 2 && near(m.save_s, 2 * whole_s), "%s: %g s for %g saves, not %g", divisions[d], m.save_s, m.saves, whole_s);
        CHECK(m.checkpoint_bytes == (double)checkpoint_bytes(&e) && isnan(m.load_s) && near(m.training_s, m.steps_s + m.save_s));
    }
}

/* Two nodes: of replicas the first node saves all, of shards each node half. Both read all that their ranks hold. */
static void nodes_save_and_load_side_by_side(void)
{
    static const struct {
        int division;
        double saved, loaded;
    } parts[] = {{0, 1, 1}, {2, 0.5, 0.5}, {3, 1, 1}};
    char keys[512];
    struct experiment e;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(keys, sizeof keys, "\"checkpoint\": {\"path\": \"c\", \"from\": \"d\"}, %s", divisions[parts[i].division]);
        struct dt_metrics m = training_of(keys, 4, 2, 0, &e);
        double whole_s = 1e-9 * (double)checkpoint_bytes(&e);
        CHECK(near(m.save_s, parts[i].saved * whole_s / 2), "%s: saves %g s", divisions[parts[i].division], m.save_s);
        CHECK(near(m.load_s, parts[i].loaded * whole_s / 4), "%s: loads %g s", divisions[parts[i].division], m.load_s);
    }
}

static void a_step_waits_for_slow_storage(void)
{
    struct experiment e;
    struct dt_metrics m =
        training_of("\"data\": {\"source\": \"ids\"}, \"world_size\": 16, \"paradigm\": \"ddp\", \"batch_size\": 4, " TINY, 1e-6, 1, 0, &e);
    double read_s = 8 * 4 * 32 * 2 / 1e3; /* samples of a node, of 32 ids */
    CHECK(near(m.steps_s, 4 * read_s), "%g, not %g", m.steps_s, 4 * read_s);
    CHECK(m.step.data_s > 0.9 * read_s && near(m.reading_s, 4 * m.step.data_s));
}

/* Five saves in 50 steps of 2 s: what is written in 6 s is hidden, of 30 s a third waits for the next one. */
static void saves_beside_the_steps(void)
{
    struct experiment *e = experiment_of("\"checkpoint\": {\"path\": \"c\", \"save_every\": 10, \"asynchronous\": true}, " TINY);
    struct storage_times times = {.copy_s = 1, .write_s = 6, .save_s = 7};
    struct dt_metrics m;
    training_time_predict(e, &times, 50, 100, &m);
    CHECK(m.saves == 5 && m.save_s == 4 * 1 + 7 && m.training_s == 111, "%g", m.save_s);
    times.write_s = 30;
    times.save_s = 31;
    training_time_predict(e, &times, 50, 100, &m);
    CHECK(m.save_s == 4 * 1 + 4 * 10 + 31, "%g", m.save_s);
    training_time_predict(e, &times, 53, 106, &m); /* three steps after the fifth, 6 s of its 30 are hidden */
    CHECK(m.saves == 6 && m.save_s == 5 * 1 + 4 * 10 + 24 + 31, "%g", m.save_s);
    times.beside = 0.25; /* half of each copy */
    training_time_predict(e, &times, 53, 106, &m);
    CHECK(m.save_s == 5 * 0.5 + 4 * 10 + 24 + 31, "%g", m.save_s);
    e->checkpoint.asynchronous = false;
    training_time_predict(e, &times, 53, 106, &m);
    CHECK(m.save_s == 6 * 31 && m.training_s == 106 + 6 * 31);
    e->checkpoint.save_every = 0;
    training_time_predict(e, &times, 53, 106, &m);
    CHECK(m.saves == 1 && m.save_s == 31);
    free(e);
}

static const struct test_case cases[] = {
    {"every byte is saved once", every_byte_is_saved_once},
    {"nodes save and load side by side", nodes_save_and_load_side_by_side},
    {"a step waits for slow storage", a_step_waits_for_slow_storage},
    {"saves beside the steps", saves_beside_the_steps},
    {"stages that take their share", stages_that_take_their_share},
    {"late updates", late_updates},
    {"the same twice", the_same_twice},
    {"keys without a part change nothing", keys_without_a_part},
    {"bytes are those of check", bytes_are_those_of_check},
    {"faster hardware is not slower", faster_is_not_slower},
    {"one rank is the sum of its kernels", one_rank_is_the_sum_of_its_kernels},
    {"fused attention has a peak of its own", fused_attention_has_its_own_peak},
    {"one rank is bound by its launches", one_rank_is_bound_by_its_launches},
    {"updates are launched once", updates_are_launched_once},
    {"ranks that share layers update a part of each tensor", shared_tensors_are_updated_by_all},
    {"sequence parallelism gathers as a collective", only_shards_cost_gathers},
    {"products in FP8", products_in_fp8},
    {"amaxes of parts of tensors", amaxes_of_parts},
    {"MXFP8 needs a rate of its own", mxfp8_needs_its_rate},
    {"shares are copied", shares_are_copied},
    {"one queue waits for reductions", one_queue_waits_for_reductions},
    {"sums in turn", sums_in_turn},
    {"outputs computed again", outputs_computed_again},
    {"buffers of a stage", buffers_of_a_stage},
    {"the bubble of a pipeline", the_bubble_of_a_pipeline},
    {"a bubble is counted", a_bubble_is_counted},
    {"waiting for launches is the host's", waiting_for_launches_is_the_hosts},
    {"DDP hides its network behind its kernels", ddp_hides_its_network},
    {"ranks of a node reallocate in turn", ranks_of_a_node_reallocate_in_turn},
    {"outputs go to the root", outputs_go_to_the_root},
    {"what does not fit", what_does_not_fit},
    {"which peaks are reported", which_peaks_are_reported},
    {"communicators take memory", communicators_take_memory},
    {"what is refused", what_is_refused},
    {"ranks that do the same are one", ranks_that_do_the_same_are_one},
    {"who stands for whom", who_stands_for_whom},
    {"long steps by short ones", long_steps_by_short_ones},
    {"a slow part", a_slow_part},
    {"bubbles by hand", bubbles_by_hand},
    {"four thousand ranks", four_thousand_ranks},
    {"it can be stopped", it_can_be_stopped},
    {"traces", traces},
};
TEST_MAIN(cases)
