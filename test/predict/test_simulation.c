/* Experiments on device sim: bytes as counted, times computed by hand, and what must hold on any
 * cluster. */
#include "lib/config/json.h"
#include "predict/simulation_ranks.h"
#include "predict/symmetry.h"
#include "schedules/run/memory_fit.h"
#include "schedules/step/step_times.h"
#include "test/predict/simulation_case.h"

#include <inttypes.h>
#include <unistd.h>

/* A wait is bubble until its message was made: in the middle of the wait, before it, after it, or
 * at an unknown time. */
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

/* A step with late updates takes the longer of the times of computing and of messages, however late
 * the updates are. */
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

/* Give the field another value that its table allows. False if there is none, or if other fields
 * are derived from it (the model's sizes from its preset, or whether there is a pipeline). */
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

/* Keys that have no effect on an experiment change none of its times and bytes. */
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
            if (experiment_depends_on(&other, field)) /* it has no effect only as long as it has its default */
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

/* Eight equal stages on one node, four chunks: 7 of 11 parts of a step are bubble, and hardly any
 * time is communication. */
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

/* Slow launches make the device wait, and do not make its kernels longer. */
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
                      e->paradigm == PARADIGM_PDP, /* the framework keeps one chunk */
                  "the framework keeps more: %s", divisions[d]);
        }
        measure_result_finish(&result);

        /* A framework without memory of its own needs the same bytes as dtbench. */
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

static void one_rank_is_the_sum_of_its_kernels(void)
{
    double seconds = run_keys("\"batch_size\": 3, " TINY, only_attention);
    CHECK(fabs(seconds - 3 * 4 * (1 + 2)) < 1e-3, "%g s", seconds);
    seconds = run_keys("\"batch_size\": 4, \"micro_batches\": 2, \"activation\": \"checkpoint\", " TINY, only_attention);
    CHECK(fabs(seconds - 4 * 4 * (1 + 1 + 2)) < 1e-3, "recomputed: %g s", seconds);
}

/* Only fused attention takes time: one product of a sample, with 2 T T w operations a head, takes a
 * second. Forward has two of them, backward five. */
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

/* The device waits for its host, and at the end the host waits for the last kernels. Fused
 * attention has one launch in forward and one in backward; unfused attention has two and none
 * here. */
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
    double scale = 0.5; /* a part of attention's second, so that a step computes about as long as it communicates */
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

/* The number of simulated ranks, by hand. The whole world takes as long, and as much memory. */
static void who_stands_for_whom(void)
{
    static const struct {
        const char *keys;
        int count;
    } rows[] = {
        {"\"world_size\": 16, \"gpus_per_node\": 8, \"paradigm\": \"ddp\", " TINY, 1}, /* all of both nodes are alike */
        {"\"world_size\": 2, \"gpus_per_node\": 2, \"paradigm\": \"ddp\", " TINY, 1},
        {"\"world_size\": 8, \"gpus_per_node\": 4, \"paradigm\": \"hsdp\", \"hsdp\": {\"shard_size\": 4}, " TINY, 1},
        /* the smallest layer's 128 elements divide evenly into 16 shards; of 24 at least 20 are
         * whole: the ranks of the first two nodes are alike, those of the third are not */
        {"\"world_size\": 16, \"gpus_per_node\": 8, \"paradigm\": \"zero1\", " TINY, 1},
        {"\"world_size\": 24, \"gpus_per_node\": 8, \"paradigm\": \"zero1\", " TINY, 9},
        /* tensor ranks are alike, but not where both have a copy of the only head of keys */
        {"\"world_size\": 2, \"gpus_per_node\": 2, \"paradigm\": \"ddp\", \"tensor\": {\"size\": 2}, \"model\": {\"layers\": 2, "
         "\"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32}",
         1},
        {"\"world_size\": 2, \"gpus_per_node\": 2, \"paradigm\": \"ddp\", \"tensor\": {\"size\": 2}, \"model\": {\"layers\": 2, "
         "\"heads\": 4, \"kv_heads\": 1, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32}",
         2},
        /* groups of three on nodes of two: the second half of one node and the first of the next
         * are in other groups than their neighbours */
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
        struct measure_result whole, part;
        CHECK_OK(simulation_run(e, system, NULL, &whole));
        CHECK_OK(simulation_run_symmetric(e, system, NULL, &part));
        CHECK(fabs(whole.step_s[0] / part.step_s[0] - 1) < 1e-6, "%.9g s and %.9g s: %s", whole.step_s[0], part.step_s[0], rows[i].keys);
        for (int rank = 0; rank < e->world_size; rank++)
            CHECK(memcmp(&whole.ranks[rank].memory, &part.ranks[rank].memory, sizeof part.ranks->memory) == 0, "rank %d: %s", rank,
                  rows[i].keys);
        measure_result_finish(&whole);
        measure_result_finish(&part);
        simulated_system_destroy(system);
        free(e);
    }
}

/* Steps of many micro-batches, predicted from steps of few, take the same time as simulated whole.
 * Orders that fill and drain several times are simulated whole. */
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

/* The cost of a slow GPU, link or card, computed by hand where possible. */
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
    static const int roles[DIVISIONS] = {1, 4, 1, 1, 1, 2, 2}; /* an upper bound where there is a root */
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

static const struct test_case cases[] = {
    {"late updates", late_updates},
    {"the same twice", the_same_twice},
    {"keys without a part change nothing", keys_without_a_part},
    {"bytes are those of check", bytes_are_those_of_check},
    {"faster hardware is not slower", faster_is_not_slower},
    {"one rank is the sum of its kernels", one_rank_is_the_sum_of_its_kernels},
    {"fused attention has a peak of its own", fused_attention_has_its_own_peak},
    {"one rank is bound by its launches", one_rank_is_bound_by_its_launches},
    {"the bubble of a pipeline", the_bubble_of_a_pipeline},
    {"a bubble is counted", a_bubble_is_counted},
    {"waiting for launches is the host's", waiting_for_launches_is_the_hosts},
    {"DDP hides its network behind its kernels", ddp_hides_its_network},
    {"what does not fit", what_does_not_fit},
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
