/* Steps that are replayed as a graph, on a device that has graphs: the losses, bit for bit, and the
 * bytes of the same steps queued anew; and those of one cpu device, where the build has it. Run
 * alone, or on any number of ranks. */
#include "schedules/config/parse.h"
#include "schedules/run/measure.h"
#include "schedules/run/memory_fit.h"
#include "test/ranks.h"

#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 5, BATCH = 2 }; /* two steps before the captured one, and two replays */

static const char *const base = "{\"name\": \"replay\", \"batch_size\": 2, \"seed\": 5,"
                                " \"model\": {\"layers\": 2, \"heads\": 2, \"hidden\": 16, \"vocab_size\": 37, \"block_size\": 4,"
                                " \"dtype\": \"fp32\", \"dropout\": 0.1}, \"steps\": {\"warmup\": 0, \"timed\": 5},"
                                " \"optimizer\": {\"name\": \"sgd\", \"learning_rate\": 2}, \"ddp\": {\"bucket_mib\": 0.002}}";

static dt_status parse(const char *const *sets, int count, struct experiment *out)
{
    struct experiment *all = NULL;
    int number = 0;
    dt_status status = experiments_parse(base, strlen(base), "test", sets, count, &all, &number);
    if (status == DT_OK)
        *out = all[0];
    free(all);
    return status;
}

/* The samples of all ranks on one cpu device that saves nothing. */
static void train_alone(const struct experiment *e, struct measure_result *result)
{
    struct experiment alone = *e;
    struct dt_world one = {.size = 1, .local_size = 1, .launcher = "none"};
    struct dt_comm_options options = {0};
    struct dt_device_options device_options = {.threads = 1, .local_size = 1};
    struct dt_device *own = NULL;
    struct dt_comm *self = NULL;

    alone.device = "cpu";
    alone.paradigm = PARADIGM_NONE;
    alone.world_size = 1;
    alone.batch_size = BATCH * world.size;
    alone.micro_batches = 1;
    alone.activation = ACTIVATION_KEEP;
    alone.parameter_offload = false;
    experiment_settle(&alone);
    CHECK_OK(dt_device_create("cpu", &device_options, &own));
    CHECK_OK(dt_comm_create(own, &one, &options, &self));
    CHECK_OK(measure_run(&alone, own, self, NULL, result));
    dt_comm_destroy(self);
    dt_device_destroy(own);
}

static void check_bytes(const struct dt_memory_bytes *seen, const struct dt_memory_bytes *predicted, const char *what)
{
    CHECK(seen->peak_total_bytes == predicted->peak_total_bytes, "%s: %zu bytes, predicted %zu", what, (size_t)seen->peak_total_bytes,
          (size_t)predicted->peak_total_bytes);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        CHECK(seen->peak_bytes[c] == predicted->peak_bytes[c], "%s: %s: %zu bytes, predicted %zu", what,
              dt_category_name((enum dt_category)c), (size_t)seen->peak_bytes[c], (size_t)predicted->peak_bytes[c]);
}

static bool train(struct experiment *e, bool graph, const char *what, struct measure_result *result)
{
    struct dt_memory_usage predicted, left;
    const char *expected = !dt_device_captures(device) ? "" : graph ? "replayed" : "off";
    e->graph = graph;
    dt_memory_reset_peak(device);
    dt_status status = measure_run(e, device, everyone, NULL, result);
    CHECK(status == DT_OK && result->losses_done == STEPS, "%s: %s", what, dt_error_message());
    CHECK(strcmp(result->graph, expected) == 0, "%s: \"%s\", not \"%s\"", what, result->graph, expected);
    if (status < 0)
        return false;
    ranks_check_times(result, what);
    CHECK_OK(memory_fit_predict(e, world.rank, &predicted, NULL));
    check_bytes(&result->ranks[world.rank].memory.device, &predicted.device, what);
    check_bytes(&result->ranks[world.rank].memory.host, &predicted.host, what);
    dt_memory_usage(device, &left);
    CHECK(left.device.current_total_bytes == 0 && left.host.current_total_bytes == 0, "%s: memory is left behind", what);
    return true;
}

/* One cell: by graph, on the cpu, and where `both` is true, or there is no cpu device, queued
 * anew. */
static void compare(bool both, double tolerance, const char *const *sets, int count)
{
    char reason[200];
    bool has_cpu = dt_device_available("cpu", reason, sizeof reason);
    struct experiment e;
    struct measure_result replayed = {0}, queued = {0}, alone = {0};
    char world_size[32], what[256] = "";
    const char *all[16] = {world_size, ranks_device_setting()};
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    for (int i = 0, used = 0; i < count; i++) {
        all[i + 2] = sets[i];
        used += snprintf(what + used, sizeof what - (size_t)used, "%s%s", i ? " " : "", sets[i]);
    }
    dt_status status = parse(all, count + 2, &e);
    CHECK(status == DT_OK, "%s: %s", what, dt_error_message());
    both |= !has_cpu;
    if (status == DT_OK && train(&e, true, what, &replayed) && (!both || train(&e, false, what, &queued))) {
        if (has_cpu)
            train_alone(&e, &alone);
        const struct measure_result *right = has_cpu ? &alone : &queued;
        for (int i = 0; i < STEPS; i++) {
            CHECK(!both || replayed.losses[i] == queued.losses[i], "%s: step %d: loss %.17g, queued anew %.17g", what, i,
                  replayed.losses[i], queued.losses[i]);
            CHECK(fabs(replayed.losses[i] / right->losses[i] - 1) <= tolerance, "%s: step %d: loss %.9g, it should be %.9g", what, i,
                  replayed.losses[i], right->losses[i]);
        }
        CHECK(replayed.metrics.step.overflow_steps == right->metrics.step.overflow_steps &&
                  replayed.metrics.step.overflow_elements == right->metrics.step.overflow_elements,
              "%s: %.0f overflows, it should be %.0f", what, replayed.metrics.step.overflow_elements,
              right->metrics.step.overflow_elements);
    }
    measure_result_finish(&replayed);
    measure_result_finish(&queued);
    measure_result_finish(&alone);
}

#define COMPARE(both, tolerance, ...)                                                                                                      \
    do {                                                                                                                                   \
        const char *const sets_[] = {__VA_ARGS__};                                                                                         \
        compare(both, tolerance, sets_, (int)(sizeof sets_ / sizeof *sets_));                                                              \
    } while (0)

/* Adam's step, the dropouts' samples and the tokens change under a graph that stays as it is. */
static void one_device(void)
{
    if (world.size > 1)
        SKIP("one rank only");
    COMPARE(true, 1e-5, "paradigm=none", "micro_batches=2", "optimizer.name=adam", "optimizer.learning_rate=0.05");
    COMPARE(false, 1e-5, "paradigm=none", "activation=offload", "model.attention=unfused");
    COMPARE(false, 1e-5, "paradigm=none", "keep_cheap=all", "micro_batches=2");
    COMPARE(false, 1e-5, "paradigm=none", "keep_cheap=mlp", "activation=checkpoint", "activation_blocks=2");
    COMPARE(true, 1e-5, "paradigm=none", "parameter_offload=true", "micro_batches=2", "activation=checkpoint", "optimizer.name=adam",
            "optimizer.learning_rate=0.05");
}

/* So do the learning rate and the samples of a file. */
static void rates_and_files(void)
{
    char path[] = "/tmp/test_replay_XXXXXX", source[64];
    int file = mkstemp(path);
    uint16_t ids[97];
    for (int i = 0; i < 97; i++)
        ids[i] = (uint16_t)(i * i % 37);
    CHECK(file >= 0 && write(file, ids, sizeof ids) == sizeof ids && close(file) == 0, "cannot write %s", path);
    snprintf(source, sizeof source, "data.source=%s", path);
    if (world.size == 1) {
        COMPARE(true, 1e-5, "paradigm=none", "optimizer.schedule=linear", "optimizer.warmup_steps=2", "optimizer.momentum=0.5",
                "optimizer.weight_decay=0.01", source);
        COMPARE(true, 1e-5, "paradigm=none", "optimizer.schedule=cosine", "optimizer.name=adamw", "optimizer.learning_rate=0.05",
                "parameter_offload=true");
    }
    COMPARE(false, 1e-5, "paradigm=zero1", "optimizer.schedule=cosine", "optimizer.momentum=0.5", source);
    unlink(path);
}

static void whole_parameters(void)
{
    if (world.size > 1)
        COMPARE(true, 1e-5, "paradigm=ddp", "micro_batches=2", "gradient_reduction=each");
    COMPARE(false, 1e-5, "paradigm=zero1", "optimizer.name=adam", "optimizer.learning_rate=0.05");
    COMPARE(false, 1e-5, "paradigm=zero2", "parameter_offload=true");
    COMPARE(false, 1e-5, "paradigm=data_parallel", "micro_batches=2");
    if (world.size > 1)
        COMPARE(false, 1e-5, "paradigm=parameter_server", "activation=checkpoint");
}

static void shards(void)
{
    COMPARE(false, 1e-5, "paradigm=fsdp", "fsdp.unit=linear", "optimizer.name=adam", "optimizer.learning_rate=0.05");
    COMPARE(false, 1e-5, "paradigm=hsdp", "parameter_offload=true", "activation=offload", "micro_batches=2", "gradient_reduction=each");
}

/* What is replayed only where the config itself says so: on several nodes, and in a pipeline. */
static void only_if_asked_for(bool in_pipeline)
{
    char world_size[32];
    const char *sets[] = {world_size, ranks_device_setting(),
                          in_pipeline      ? "paradigm=pdp"
                          : world.size > 1 ? "paradigm=ddp"
                                           : "paradigm=none"};
    struct experiment e;
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    dt_status parsed = parse(sets, 3, &e);
    CHECK(parsed == DT_OK, "%s", dt_error_message());
    if (parsed < 0)
        return;
    for (int given = 0; given < 2; given++) {
        struct measure_result result = {0};
        e.several_nodes = !in_pipeline;
        e.ranks_per_node = 1; /* laid out so: nobody looks for nodes */
        *(in_pipeline ? &e.graph_in_pipelines : &e.graph_across_nodes) = given;
        CHECK_OK(measure_run(&e, device, everyone, NULL, &result));
        CHECK(!dt_device_captures(device) || strncmp(result.graph, given ? "replayed" : "off: ", given ? 8 : 5) == 0, "%s", result.graph);
        measure_result_finish(&result);
    }
}

static void pipelines(void)
{
    if (world.size == 1)
        SKIP("a pipeline needs two ranks");
    only_if_asked_for(true);
    COMPARE(true, 1e-5, "paradigm=pdp", "optimizer.name=adam", "optimizer.learning_rate=0.05", "graph_in_pipelines=true");
    COMPARE(false, 1e-5, "paradigm=pdp", "activation=checkpoint", "parameter_offload=true", "graph_in_pipelines=true");
}

static void several_nodes(void)
{
    only_if_asked_for(false);
}

/* All gradients of the logits are infinite. What is left out of every update is counted on the
 * device, or on the host. */
static void overflows(void)
{
    COMPARE(false, 4e-3, "paradigm=ddp", "model.dtype=fp16", "loss_scaling=4294967296");
    if (world.size == 1)
        COMPARE(false, 4e-3, "paradigm=none", "model.dtype=fp16", "loss_scaling=4294967296", "parameter_offload=true");
}

static const struct test_case cases[] = {
    {"one device", one_device},
    {"learning rates and samples of a file", rates_and_files},
    {"modes that hold whole parameters", whole_parameters},
    {"shards", shards},
    {"pipelines", pipelines},
    {"ranks on several nodes", several_nodes},
    {"gradients that are not finite are counted in replays", overflows},
};

int main(void)
{
    return ranks_main(cases, (int)(sizeof cases / sizeof *cases));
}
