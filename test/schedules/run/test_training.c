/* Every paradigm against one cpu device, and measured bytes against predicted ones. Alone, or under
 * mpirun with any number of ranks; rank 0 also trains the whole alone. */
#include "gpt/model.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/comm/backend.h"
#include "schedules/config/parse.h"
#include "schedules/data_parallel/reduce.h"
#include "schedules/run/measure.h"
#include "schedules/run/memory_fit.h"
#include "schedules/run/trainer.h"
#include "test/ranks.h"

#include <stdlib.h>

enum { STEPS = 6 }; /* all, of which the first is a warm-up */

static const char *const base = "{\"name\": \"training\", \"device\": \"cpu\", \"batch_size\": 2, \"seed\": 7,"
                                " \"model\": {\"layers\": 3, \"heads\": 3, \"hidden\": 30, \"vocab_size\": 101, \"block_size\": 12,"
                                " \"dtype\": \"fp32\", \"dropout\": 0.1}, \"steps\": {\"warmup\": 1, \"timed\": 5},"
                                " \"optimizer\": {\"name\": \"sgd\", \"learning_rate\": 0.5}, \"ddp\": {\"bucket_mib\": 0.02}}";

/* Parse an experiment on all ranks and this test's device, with these settings in addition. */
static bool parse(struct experiment *out, const char *const *sets, int count)
{
    DT_FREED struct experiment *all = NULL;
    int number = 0;
    char world_size[32];
    const char *settings[16] = {world_size, ranks_device_setting()};
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    for (int i = 0; i < count; i++)
        settings[i + 2] = sets[i];
    dt_status status = experiments_parse(base, strlen(base), "test", settings, count + 2, &all, &number);
    CHECK(status == DT_OK && number == 1, "%s", dt_error_message());
    if (status == DT_OK)
        *out = all[0];
    return status == DT_OK;
}

/* An array of strings and its length, for two arguments. */
#define COUNTED(...) (const char *const[]){__VA_ARGS__}, (int)(sizeof(const char *const[]){__VA_ARGS__} / sizeof(const char *))
#define PARSE(out, ...) parse(out, COUNTED(__VA_ARGS__))

/* The same samples on one device: the batch of all ranks, in as many micro-batches. */
static struct experiment alone_of(const struct experiment *e)
{
    struct experiment alone = *e;
    alone.paradigm = experiment_staleness(e) > 0 ? PARADIGM_PARAMETER_SERVER : PARADIGM_NONE; /* its updates are equally late */
    alone.parameter_server.servers = 1;
    alone.world_size = 1;
    alone.batch_size = e->batch_size * e->world_size;
    alone.micro_batches = e->world_size * e->micro_batches;
    alone.activation = ACTIVATION_KEEP;
    alone.parameter_offload = false;
    experiment_settle(&alone);
    return alone;
}

static void train_alone(const struct experiment *e, struct measure_result *result)
{
    struct experiment alone = alone_of(e);
    struct dt_world one = {.size = 1, .local_size = 1, .launcher = "none"};
    struct dt_comm_options options = {0};
    struct dt_device_options device_options = {.threads = 1, .local_size = 1};
    struct dt_device *own = NULL;
    struct dt_comm *self = NULL;

    CHECK_OK(dt_device_create("cpu", &device_options, &own));
    CHECK_OK(dt_comm_create(own, &one, &options, &self));
    CHECK_OK(measure_run(&alone, own, self, NULL, result));
    dt_comm_destroy(self);
    dt_device_destroy(own);
}

/* Losses of one device, by all that they depend on. Rank 0 sends them to all ranks. */
static struct {
    char key[256];
    double losses[STEPS];
} kept[80];

static const double *losses_alone(const struct experiment *e)
{
    struct experiment alone = alone_of(e);
    struct measure_result result;
    char key[sizeof kept[0].key];
    size_t i = 0;
    snprintf(key, sizeof key, "%d %g/%d %d %d %d %g %d %g", experiment_staleness(&alone), alone.batch_size, alone.micro_batches,
             alone.model.dtype, gpt_of(&alone.model)->attention, alone.optimizer.name, alone.optimizer.learning_rate,
             gpt_of(&alone.model)->vocab_size * 2 + alone.loss, alone.loss_scaling);
    while (i < sizeof kept / sizeof *kept - 1 && kept[i].key[0] && strcmp(kept[i].key, key) != 0)
        i++;
    if (strcmp(kept[i].key, key) == 0)
        return kept[i].losses;
    memcpy(kept[i].key, key, sizeof key);
    for (int step = 0; step < STEPS; step++)
        kept[i].losses[step] = NAN;
    if (world.rank == 0) {
        train_alone(e, &result);
        CHECK(result.losses_done == STEPS, "%d losses", result.losses_done);
        memcpy(kept[i].losses, result.losses, (size_t)result.losses_done * sizeof *result.losses);
        measure_result_finish(&result);
    }
    ranks_take_from_0(kept[i].losses, STEPS);
    return kept[i].losses;
}

static void compare_bytes(const struct dt_memory_bytes *seen, const struct dt_memory_bytes *predicted, const char *paradigm,
                          const char *memory)
{
    CHECK(seen->peak_total_bytes == predicted->peak_total_bytes, "%s: %s: %zu bytes, predicted %zu", paradigm, memory,
          (size_t)seen->peak_total_bytes, (size_t)predicted->peak_total_bytes);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        CHECK(seen->peak_bytes[c] == predicted->peak_bytes[c], "%s: %s %s: %zu bytes, predicted %zu", paradigm, memory, dt_category_name(c),
              (size_t)seen->peak_bytes[c], (size_t)predicted->peak_bytes[c]);
}

/* From this scaling on, only the gradients of logits at targets are infinite. */
static double large_scaling(void)
{
    return 0x1p21 * world.size;
}

/* The number of updates that all steps must then skip: all parameters, except the rows of the token
 * table, and of the head, of tokens that do not occur as inputs, or as targets. */
static double count_overflows(const struct experiment *e)
{
    double count = 0, width = gpt_of(&e->model)->hidden;
    int V = gpt_of(&e->model)->vocab_size, T = gpt_of(&e->model)->block_size;
    uint32_t samples = (uint32_t)experiment_global_batch(e);
    for (uint32_t step = 0; e->loss_scaling >= large_scaling() && step < STEPS; step++) {
        char *is_input = calloc(2, (size_t)V), *is_target = is_input + V;
        for (uint32_t i = 0; i < samples * (uint32_t)(T + 1); i++) {
            uint32_t t = i % (uint32_t)(T + 1), token = dt_random_token(e->seed, step * samples + i / (uint32_t)(T + 1), t, (uint32_t)V);
            is_input[token] |= (int)t < T;
            is_target[token] |= t > 0;
        }
        count += (double)dt_model_parameter_count(&e->model);
        for (int row = 0; row < 2 * V; row++)
            count -= is_input[row] ? 0 : width;
        free(is_input);
    }
    return count;
}

static void train_and_compare(const char *const *sets, int count, double tolerance)
{
    struct experiment e;
    struct measure_result together;
    struct dt_memory_usage predicted, before;
    if (test_leave_out() || !parse(&e, sets, count))
        return;

    dt_memory_reset_peak(device);
    dt_memory_usage(device, &before);
    CHECK(before.device.current_total_bytes == 0, "%zu bytes left from before", (size_t)before.device.current_total_bytes);
    CHECK_OK(measure_run(&e, device, everyone, NULL, &together));
    CHECK(together.losses_done == STEPS && together.steps_done == STEPS - 1);
    const double *alone = losses_alone(&e);
    for (int i = 0; i < together.losses_done; i++)
        CHECK(fabs(together.losses[i] / alone[i] - 1) <= ranks_tolerance(tolerance), "%s step %d: loss %.9g, one device has %.9g",
              paradigm_name(e.paradigm), i, together.losses[i], alone[i]);
    ranks_check_times(&together, paradigm_name(e.paradigm));
    double overflows = count_overflows(&e);
    CHECK(together.metrics.step.overflow_elements == overflows && together.metrics.step.overflow_steps == (overflows > 0 ? STEPS : 0),
          "%s: %.0f gradients of %.0f steps were not finite, expected %.0f", paradigm_name(e.paradigm),
          together.metrics.step.overflow_elements, together.metrics.step.overflow_steps, overflows);
    CHECK_OK(memory_fit_predict(&e, world.rank, &predicted, NULL));
    compare_bytes(&together.ranks[world.rank].memory.device, &predicted.device, paradigm_name(e.paradigm), "device");
    compare_bytes(&together.ranks[world.rank].memory.host, &predicted.host, paradigm_name(e.paradigm), "host");
    measure_result_finish(&together);
}

#define COMPARE(tolerance, ...) train_and_compare(COUNTED(__VA_ARGS__), tolerance)

static void one_device(void)
{
    if (world.size > 1)
        SKIP("one rank only");
    COMPARE(1e-5, "paradigm=none");
    COMPARE(1e-5, "paradigm=none", "micro_batches=2");
    COMPARE(1e-5, "paradigm=none", "activation=checkpoint");
    COMPARE(1e-5, "paradigm=none", "activation=checkpoint", "model.vocab_size=1001");
    COMPARE(1e-5, "paradigm=none", "activation=checkpoint", "activation_blocks=2");
    COMPARE(1e-5, "paradigm=none", "activation=checkpoint", "activation_blocks=2", "model.attention=unfused", "micro_batches=2");
    COMPARE(1e-5, "paradigm=none", "model.attention=unfused");
    COMPARE(1e-5, "paradigm=none", "loss=sum", "optimizer.learning_rate=1e-4");
    COMPARE(1e-5, "paradigm=none", "loss=sum", "optimizer.learning_rate=1e-4", "activation=checkpoint", "model.vocab_size=1001");
}

/* The comparisons above would also hold if nothing were learned. Tokens are random, so the loss
 * need not fall; but it must depend on the updates by far more than the tolerance. */
static void updates_matter(void)
{
    struct experiment e;
    struct measure_result learning, frozen;
    if (world.size > 1)
        SKIP("one rank only");
    if (!PARSE(&e, "paradigm=none"))
        return;
    train_alone(&e, &learning);
    e.optimizer.learning_rate = 1e-12;
    train_alone(&e, &frozen);
    CHECK(learning.losses[0] == frozen.losses[0], "the first loss is of the initial weights");
    for (int i = 2; i < STEPS; i++)
        CHECK(fabs(learning.losses[i] / frozen.losses[i] - 1) > 1e-3, "step %d: %.9g and %.9g", i, learning.losses[i], frozen.losses[i]);
    measure_result_finish(&learning);
    measure_result_finish(&frozen);
}

/* ---- exchanges between the ranks' hosts ---- */

static struct {
    const struct dt_comm_backend *own;
    int exchanges;
} hosts;

static dt_status count_all_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all)
{
    hosts.exchanges++;
    return hosts.own->host_all_gather(comm, mine, bytes, all);
}

static dt_status count_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all)
{
    hosts.exchanges++;
    return hosts.own->host_gather(comm, mine, bytes, all);
}

static dt_status count_reduce(struct dt_comm *comm, const double *mine, int count, double *sums_and_highest)
{
    hosts.exchanges++;
    return hosts.own->host_reduce(comm, mine, count, sums_and_highest);
}

static dt_status count_gather_among(struct dt_comm *comm, const int *ranks, int count, const void *mine, size_t bytes, void *all)
{
    hosts.exchanges++;
    return hosts.own->host_gather_among(comm, ranks, count, mine, bytes, all);
}

/* The exchanges of a run with `timed` timed steps. */
static int count_exchanges(const struct experiment *e, int timed)
{
    struct experiment counted = *e;
    struct dt_comm_backend counting = *everyone->backend;
    struct measure_result result;
    counted.steps.timed = timed;
    hosts.own = everyone->backend;
    hosts.exchanges = 0;
    counting.host_all_gather = count_all_gather;
    counting.host_gather = counting.host_gather ? count_gather : NULL;
    counting.host_reduce = counting.host_reduce ? count_reduce : NULL;
    counting.host_gather_among = counting.host_gather_among ? count_gather_among : NULL;
    everyone->backend = &counting;
    CHECK_OK(measure_run(&counted, device, everyone, NULL, &result));
    everyone->backend = hosts.own;
    CHECK(result.steps_done == timed && result.metrics.step.forward_s > 0);
    measure_result_finish(&result);
    return hosts.exchanges;
}

/* Between steps, hosts without GPUs exchange data twice; with GPUs these begin a step together.
 * After the last step the ranks exchange the parts of each step's time. */
static void hosts_exchange_at_the_end(void)
{
    static const char *const paradigms[] = {"paradigm=ddp", "paradigm=pdp"};
    int a_step = world.size == 1 || strcmp(test_device_kind(), "cuda") == 0 ? 0 : 2;
    for (int i = 0; i < (world.size == 2 ? 2 : 1); i++) { /* a pipeline has two stages */
        struct experiment e;
        if (!PARSE(&e, paradigms[i]))
            return;
        int few = count_exchanges(&e, 2), more = count_exchanges(&e, 7);
        CHECK(more - few == 5 * a_step && few > 0, "%s: %d exchanges with 2 steps, %d with 7", paradigms[i], few, more);
    }
}

static void ddp(void)
{
    COMPARE(1e-5, "paradigm=ddp");
    COMPARE(1e-5, "paradigm=ddp", "ddp.bucket_mib=25");
    COMPARE(1e-5, "paradigm=ddp", "micro_batches=2");
    COMPARE(1e-5, "paradigm=ddp", "optimizer.name=adam", "optimizer.learning_rate=0.01");
}

static const char *const both_reductions[] = {"gradient_reduction=last", "gradient_reduction=each"};

/* The batch in micro-batches, reduced once or each time; and with an optimizer that has state. */
static void accumulation(const char *paradigm, const char *option)
{
    for (int i = 0; i < 2; i++) {
        COMPARE(1e-5, paradigm, option, both_reductions[i], "batch_size=3", "micro_batches=3");
        COMPARE(1e-5, paradigm, option, both_reductions[i], "micro_batches=2", "optimizer.name=adam", "optimizer.learning_rate=0.01",
                i ? "activation=checkpoint" : "activation=offload");
    }
}

/* Modes that hold whole parameters: one bucket, several, and as many as there are layers. */
static void replicated(void)
{
    static const char *const paradigms[] = {"paradigm=ddp", "paradigm=zero1", "paradigm=zero2", "paradigm=data_parallel"};
    for (size_t i = 0; i < sizeof paradigms / sizeof *paradigms; i++) {
        COMPARE(1e-5, paradigms[i], "ddp.bucket_mib=25");
        COMPARE(1e-5, paradigms[i], "optimizer.name=adam", "optimizer.learning_rate=0.01");
        accumulation(paradigms[i], "ddp.bucket_mib=1e-6");
    }
}

static void parameter_server(void)
{
    for (int servers = 1; servers <= world.size; servers++) {
        char option[48];
        snprintf(option, sizeof option, "parameter_server.servers=%d", servers);
        COMPARE(1e-5, "paradigm=parameter_server", option, "optimizer.name=adam", "optimizer.learning_rate=0.01");
        COMPARE(1e-5, "paradigm=parameter_server", option, "parameter_server.receives=2");
        if (servers == 1 || servers == world.size - 1)
            accumulation("paradigm=parameter_server", option);
    }
}

/* Losses of a training in which only the first step updates. rate: that of the first step */
static void train_once_updated(int staleness, const char *rate, double losses[STEPS])
{
    struct experiment e;
    struct measure_result result;
    char late[48];
    snprintf(late, sizeof late, "parameter_server.staleness=%d", staleness);
    if (!PARSE(&e, "paradigm=parameter_server", late, rate, "optimizer.schedule=linear", "optimizer.schedule_steps=1"))
        return;
    CHECK_OK(measure_run(&e, device, everyone, NULL, &result));
    CHECK(result.losses_done == STEPS && result.steps_done == STEPS - 1, "%d losses", result.losses_done);
    memcpy(losses, result.losses, sizeof(double) * STEPS);
    measure_result_finish(&result);
}

/* Each step has the version that staleness says: the first update changes losses from step
 * staleness + 1 on, and not before; without staleness from the second step on. */
static void versions_are_late(void)
{
    double never[STEPS] = {0}, at_once[STEPS] = {0}, late[STEPS] = {0};
    train_once_updated(0, "optimizer.learning_rate=0", never);
    train_once_updated(0, "optimizer.learning_rate=0.5", at_once);
    for (int staleness = 1; staleness < STEPS; staleness += 2) {
        train_once_updated(staleness, "optimizer.learning_rate=0.5", late);
        for (int i = 0; i < STEPS; i++) {
            const double *want = i <= staleness ? never : at_once;
            CHECK(late[i] == want[i] && (i == 0 || never[i] != at_once[i]), "staleness %d, step %d: loss %.9g, not %.9g", staleness, i,
                  late[i], want[i]);
        }
    }
}

static void late_updates(void)
{
    for (int staleness = 1; staleness <= 4; staleness++) {
        char late[48], servers[48];
        snprintf(late, sizeof late, "parameter_server.staleness=%d", staleness);
        snprintf(servers, sizeof servers, "parameter_server.servers=%d", (staleness - 1) % world.size + 1);
        COMPARE(1e-5, "paradigm=parameter_server", late, servers, "optimizer.name=adam", "optimizer.learning_rate=0.01");
        COMPARE(1e-5, "paradigm=parameter_server", late, servers, "parameter_server.receives=2", "micro_batches=2",
                "optimizer.momentum=0.5");
    }
}

static dt_status make_steps(struct trainer *t, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        DT_TRY(trainer_step(t, i));
        DT_TRY(trainer_synchronize_step(t));
    }
    return DT_OK;
}

/* All ranks except the last make the steps that staleness allows before the last rank begins. A
 * rank that waited for it would never end. */
static void workers_run_ahead(void)
{
    enum { STALENESS = 2 };
    struct experiment e;
    struct trainer *t = NULL;
    char all[64];
    bool late = world.rank == world.size - 1;
    if (world.size > 64 || !PARSE(&e, "paradigm=parameter_server", "parameter_server.staleness=2"))
        return;
    CHECK_OK(trainer_create(&e, device, everyone, NULL, &t));
    if (!late)
        CHECK_OK(make_steps(t, 0, STALENESS + 1));
    CHECK_OK(dt_host_all_gather(everyone, &late, 1, all));
    if (late)
        CHECK_OK(make_steps(t, 0, STALENESS + 1));
    CHECK_OK(make_steps(t, STALENESS + 1, 2));
    CHECK_OK(trainer_synchronize(t));
    trainer_destroy(t);
}

/* Every number of ranks that can share a copy: from 1 (nothing shared) to all (nothing copied). */
static void hsdp(void)
{
    for (int ranks = 1; ranks <= world.size; ranks++) {
        char option[48];
        if (world.size % ranks)
            continue;
        snprintf(option, sizeof option, "hsdp.shard_size=%d", ranks);
        COMPARE(1e-5, "paradigm=hsdp", option, "fsdp.unit=linear");
        accumulation("paradigm=hsdp", option);
    }
}

static void fsdp(void)
{
    COMPARE(1e-5, "paradigm=fsdp", "fsdp.unit=block");
    COMPARE(1e-5, "paradigm=fsdp", "fsdp.unit=linear");
    COMPARE(1e-5, "paradigm=fsdp", "fsdp.unit=block", "activation=checkpoint");
    COMPARE(1e-5, "paradigm=fsdp", "fsdp.unit=linear", "activation=checkpoint");
    COMPARE(1e-5, "paradigm=fsdp", "optimizer.name=adam", "optimizer.learning_rate=0.01");
    COMPARE(1e-5, "paradigm=fsdp", "loss=sum", "optimizer.learning_rate=1e-4");
    accumulation("paradigm=fsdp", "fsdp.unit=block");
    accumulation("paradigm=fsdp", "fsdp.unit=linear");
}

/* Every number of stages that divides the ranks; chunks that divide the batch and chunks that do
 * not. */
static void pdp(void)
{
    if (world.size == 1)
        SKIP("a pipeline needs two ranks");
    for (int stages = 2; stages <= world.size; stages++) {
        char set_stages[48];
        if (world.size % stages)
            continue;
        snprintf(set_stages, sizeof set_stages, "pipeline.stages=%d", stages);
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=1");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=2");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=3");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=2", "micro_batches=2");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=4", "pipeline.order=1f1b");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=3", "pipeline.order=1f1b", "activation=offload");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=3", "activation=checkpoint");
        /* a head so large that from three stages on it is a stage, and the final norm is the end of
         * the stage before */
        COMPARE(1e-5, "paradigm=pdp", set_stages, "model.vocab_size=2001", "activation=checkpoint");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "model.vocab_size=2001", "activation=offload", "activation_blocks=2");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=2", "activation=checkpoint", "micro_batches=2");
        COMPARE(1e-5, "paradigm=pdp", set_stages, "pipeline.chunks=4", "optimizer.name=adam", "optimizer.learning_rate=0.01");
        accumulation("paradigm=pdp", set_stages);
    }
}

/* Optimizer state and sums of gradients on the host; recomputation needs parameters twice. */
static void offloaded(void)
{
    static const char *const paradigms[] = {"paradigm=none", "paradigm=ddp",  "paradigm=zero1",         "paradigm=zero2",
                                            "paradigm=fsdp", "paradigm=hsdp", "paradigm=data_parallel", "paradigm=parameter_server"};
    char stages[48];
    snprintf(stages, sizeof stages, "pipeline.stages=%d", world.size);
    for (size_t i = world.size > 1; i < sizeof paradigms / sizeof *paradigms; i++) {
        COMPARE(1e-5, paradigms[i], "parameter_offload=true", "optimizer.name=adam", "optimizer.learning_rate=0.01");
        for (int reduction = 0; reduction < 2; reduction++)
            COMPARE(1e-5, paradigms[i], "parameter_offload=true", both_reductions[reduction], "batch_size=3", "micro_batches=3",
                    "optimizer.name=adam", "optimizer.learning_rate=0.01", "activation=checkpoint");
    }
    if (world.size > 1)
        COMPARE(1e-5, "paradigm=pdp", stages, "parameter_offload=true", "optimizer.name=adam", "optimizer.learning_rate=0.01");
}

enum { SUMMED = 1200 }; /* a multiple of all tested numbers of ranks */

/* A gradient of a rank, of a magnitude from 2^-12 to 2^3. */
static float summand(int rank, int i)
{
    uint32_t bits = (uint32_t)(rank * SUMMED + i + 1) * 2654435761u;
    return ldexpf((float)(bits >> 8) / 0x1p24f - 0.5f, (int)(bits & 15) - 11);
}

/* got [count]: elements from `first` on of the averages, or sums, times `scale`: numbers of the
 * narrow type, with the accuracy of schedules/data_parallel/reduce.h, and not exact. */
static void check_averages(const struct dp_setup *s, const float *got, int first, int count, double scale, const char *what)
{
    bool bf16 = s->reduce_dtype == DT_BF16;
    double unit = bf16 ? 0x1p-8 : 0x1p-11, tiny = bf16 ? 0 : world.size * 0x1p-25;
    int far = 0, wider = 0, rounded = 0;
    for (int i = 0; i < count; i++) {
        double mean = 0, magnitude = 0, x = got[i];
        for (int rank = 0; rank < world.size; rank++) {
            mean += (double)summand(rank, first + i) / world.size;
            magnitude += fabs((double)summand(rank, first + i)) / world.size;
        }
        far += !(fabs(x / scale - mean) <= (pow(1 + unit, world.size + 1) - 1) * magnitude + tiny);
        wider += x != (double)(bf16 ? dt_bf16_to_fp32(dt_fp32_to_bf16(got[i])) : dt_fp16_to_fp32(dt_fp32_to_fp16(got[i])));
        rounded += fabs(x / scale - mean) > 1e-6 * magnitude;
    }
    CHECK(far == 0 && wider == 0 && rounded > count / 2, "%s in %s: of %d averages %d are too far, %d were not narrow, %d are rounded",
          what, dt_dtype_name(s->reduce_dtype), count, far, wider, rounded);
}

/* Average fp32 gradients that are sent in `dtype`, in each of the three ways. */
static void average_in(struct dp_setup *s, enum dt_dtype dtype, void *grads, void *share)
{
    float mine[SUMMED], got[SUMMED];
    int part = SUMMED / world.size;
    uint64_t bytes = dt_comm_bytes(everyone, DT_COMM_ALL_REDUCE);
    s->reduce_dtype = dtype;
    s->replicas = everyone;
    for (int i = 0; i < SUMMED; i++)
        mine[i] = summand(world.rank, i);
    CHECK_OK(dt_copy_from_host(s->network, grads, mine, sizeof mine));
    CHECK_OK(reduce_everywhere(s, grads, SUMMED));
    CHECK_OK(dt_copy_to_host(s->network, got, grads, sizeof got));
    CHECK_OK(dt_stream_synchronize(s->network));
    check_averages(s, got, 0, SUMMED, 1, "reduce_everywhere");
    CHECK(dt_comm_bytes(everyone, DT_COMM_ALL_REDUCE) - bytes == SUMMED * 2);

    CHECK_OK(dt_copy_from_host(s->network, grads, mine, sizeof mine));
    CHECK_OK(reduce_sums_at(s, grads, SUMMED, 0));
    CHECK_OK(dt_copy_to_host(s->network, got, grads, sizeof got));
    CHECK_OK(dt_stream_synchronize(s->network));
    if (world.rank == 0)
        check_averages(s, got, 0, SUMMED, world.size, "reduce_sums_at");

    CHECK_OK(dt_copy_from_host(s->network, grads, mine, sizeof mine));
    s->replicas = NULL;
    CHECK_OK(reduce_shares(s, grads, share, (size_t)part));
    CHECK_OK(dt_copy_to_host(s->network, got, share, (size_t)part * sizeof *got));
    CHECK_OK(dt_stream_synchronize(s->network));
    check_averages(s, got, world.rank * part, part, 1, "reduce_shares");
}

static void narrow_averages(void)
{
    struct experiment e;
    struct dt_kernels kernels;
    struct dt_stage stage = {.kernels = &kernels};
    struct dp_setup s = {.experiment = &e, .stage = &stage, .shards = everyone, .converts = true};
    struct dt_buffer grads, share;
    if (world.size == 1)
        SKIP("several ranks only");
    CHECK(SUMMED % world.size == 0);
    if (!PARSE(&e, "paradigm=ddp"))
        return;
    CHECK_OK(dt_stream_create(device, "network", &s.network));
    CHECK_OK(dt_kernels_init(&kernels, device, DT_FP32));
    CHECK_OK(dt_alloc(s.network, DT_GRADIENTS, SUMMED * sizeof(float), &grads));
    CHECK_OK(dt_alloc(s.network, DT_GRADIENTS, SUMMED * sizeof(float), &share));
    average_in(&s, DT_FP16, grads.data, share.data);
    average_in(&s, DT_BF16, grads.data, share.data);
    dt_free(s.network, &grads);
    dt_free(s.network, &share);
    CHECK_OK(dt_stream_synchronize(s.network));
    dt_kernels_finish(&kernels);
    dt_stream_destroy(s.network);
}

/* 16-bit types: gradients are rounded where they are summed, and that differs between paradigms.
 * One rounding is 2^-9 (bf16) or 2^-12 (fp16) of a gradient; over ten steps losses stay within a
 * few of these. */
static void half_precision(void)
{
    static const char *const all[] = {"paradigm=ddp",  "paradigm=zero1",         "paradigm=zero2",           "paradigm=fsdp",
                                      "paradigm=hsdp", "paradigm=data_parallel", "paradigm=parameter_server"};
    char stages[48];
    snprintf(stages, sizeof stages, "pipeline.stages=%d", world.size);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        COMPARE(2e-2, all[i], "model.dtype=bf16");
        COMPARE(4e-3, all[i], "model.dtype=fp16");
    }
    if (world.size > 1) {
        COMPARE(2e-2, "paradigm=pdp", stages, "model.dtype=bf16");
        COMPARE(4e-3, "paradigm=pdp", stages, "model.dtype=fp16");
    }
}

/* Gradients too large for fp16: every paradigm skips the same updates, and counts each once. */
static void overflow(void)
{
    static const char *const all[] = {"paradigm=none", "paradigm=ddp",           "paradigm=zero1",           "paradigm=zero2",
                                      "paradigm=fsdp", "paradigm=data_parallel", "paradigm=parameter_server"};
    char stages[48], scaling[48], copies[48];
    snprintf(scaling, sizeof scaling, "loss_scaling=%.0f", large_scaling());
    for (size_t i = world.size > 1; i < sizeof all / sizeof *all; i++) {
        COMPARE(4e-3, all[i], "model.dtype=fp16", "model.vocab_size=2001", scaling);
        COMPARE(4e-3, all[i], "model.dtype=fp16", "model.vocab_size=2001", scaling, "optimizer.name=adam", "optimizer.learning_rate=0.01",
                "parameter_offload=true");
    }
    for (int ranks = 1; ranks <= world.size; ranks++) {
        snprintf(copies, sizeof copies, "hsdp.shard_size=%d", ranks);
        snprintf(stages, sizeof stages, "pipeline.stages=%d", ranks);
        if (world.size % ranks == 0)
            COMPARE(4e-3, "paradigm=hsdp", copies, "model.dtype=fp16", "model.vocab_size=2001", scaling);
        if (world.size % ranks == 0 && ranks > 1)
            COMPARE(4e-3, "paradigm=pdp", stages, "model.dtype=fp16", "model.vocab_size=2001", scaling);
    }
}

/* If a rank needs more memory than the limit, all ranks fail alike, and nothing stays allocated. */
static void out_of_memory(void)
{
    struct experiment e;
    struct measure_result result;
    struct dt_memory_usage left;
    if (!PARSE(&e, "paradigm=ddp"))
        return;
    e.memory_limit_bytes = 100000;
    CHECK(measure_run(&e, device, everyone, NULL, &result) == DT_ERR_OOM, "%s", dt_error_message());
    CHECK(strstr(dt_error_message(), "memory limit") != NULL, "%s", dt_error_message());
    measure_result_finish(&result);
    e.memory_limit_bytes = 0;
    e.host_memory_limit_bytes = 100000;
    e.parameter_offload = true;
    CHECK(measure_run(&e, device, everyone, NULL, &result) == DT_ERR_OOM, "%s", dt_error_message());
    CHECK(strstr(dt_error_message(), "of host memory and the host memory limit") != NULL, "%s", dt_error_message());
    measure_result_finish(&result);
    dt_memory_usage(device, &left);
    CHECK(left.device.current_total_bytes == 0 && left.host.current_total_bytes == 0);
}

static bool stop_after_three(void *context)
{
    return ++*(int *)context >= 3 && world.rank == world.size - 1;
}

/* One rank is asked to stop: all ranks stop after the same step. */
static void interrupted(void)
{
    struct experiment e;
    struct measure_result result;
    int asked = 0;
    struct measure_hooks hooks = {.context = &asked, .stop_requested = stop_after_three};
    if (!PARSE(&e, "paradigm=ddp"))
        return;
    CHECK(measure_run(&e, device, everyone, &hooks, &result) == DT_ERR_INTERRUPTED, "%s", dt_error_message());
    CHECK(result.losses_done == 3 && result.steps_done == 2, "%d losses, %d timed steps", result.losses_done, result.steps_done);
    measure_result_finish(&result);
}

/* The ranks repeat warm-up steps until the time is over, and all make the same number of steps. */
static void warmup_by_time(void)
{
    struct experiment e;
    DT_ENDED(measure_result_finish) struct measure_result result = {0};
    int losses[64];
    if (world.size > 64 || !PARSE(&e, "paradigm=ddp", "steps.warmup_s=0.05"))
        return;
    CHECK_OK(measure_run(&e, device, everyone, NULL, &result));
    CHECK(result.warmup_s >= 0.05 && result.steps_done == STEPS - 1, "%g s, then %d steps", result.warmup_s, result.steps_done);
    CHECK(result.losses_done >= STEPS, "%d losses", result.losses_done); /* on a slow machine one step may take the whole time */
    CHECK_OK(dt_host_all_gather(everyone, &result.losses_done, sizeof result.losses_done, losses));
    for (int i = 0; i < world.size; i++)
        CHECK(losses[i] == losses[0]);
}

/* The last rank pauses for longer than several steps of a busy machine. context [STEPS]: pauses. */
static void dawdle(void *context, int step, double seconds, double loss)
{
    double pause_s = fmax(0.1, 5 * seconds);
    ((double *)context)[step] = pause_s;
    if (world.rank == world.size - 1)
        dt_sleep_ms((int)(1000 * pause_s));
}

/* One rank pauses between steps: those of the others do not begin before it is back. */
static void steps_begin_together(void)
{
    struct experiment e;
    DT_ENDED(measure_result_finish) struct measure_result result = {0};
    double pauses[STEPS], least = INFINITY;
    struct measure_hooks hooks = {.context = pauses, .step_done = dawdle};
    if (!PARSE(&e, "paradigm=ddp"))
        return;
    CHECK_OK(measure_run(&e, device, everyone, &hooks, &result));
    for (int i = 1; i < result.steps_done; i++) /* before the first one the ranks exchange other things */
        least = fmin(least, result.step_s[i] / pauses[i + e.steps.warmup - 1]);
    CHECK(least < 0.75, "each step has at least %g of the pause of a rank that is not in the step", least);
}

static const struct test_case cases[] = {
    {"one device", one_device},
    {"updates matter", updates_matter},
    {"hosts exchange after the last step", hosts_exchange_at_the_end},
    {"DDP equals one device", ddp},
    {"ZeRO-1, ZeRO-2 and DataParallel equal one device", replicated},
    {"parameter servers equal one device", parameter_server},
    {"a step has the version that staleness says", versions_are_late},
    {"late updates equal those of one device", late_updates},
    {"workers do not wait for one that is late", workers_run_ahead},
    {"FSDP equals one device", fsdp},
    {"HSDP equals one device", hsdp},
    {"PDP equals one device", pdp},
    {"parameters in host memory equal one device", offloaded},
    {"bf16 and fp16 stay close", half_precision},
    {"averages of fp32 gradients in 16 bits", narrow_averages},
    {"gradients that are not finite are left out alike", overflow},
    {"a memory limit is refused by all ranks", out_of_memory},
    {"all ranks stop together", interrupted},
    {"a warm-up by time", warmup_by_time},
    {"steps begin together", steps_begin_together},
};

int main(void)
{
    return ranks_main(cases, (int)(sizeof cases / sizeof *cases));
}
