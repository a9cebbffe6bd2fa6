/* Every way of saving memory with every paradigm, alone and together: the losses are those of one device that saves nothing, and the bytes,
 * by category, those that were predicted. Run alone, or by mpirun on any number of ranks. */
#include "schedules/config/parse.h"
#include "schedules/run/measure.h"
#include "schedules/run/memory_fit.h"
#include "test/ranks.h"

#include <stdlib.h>

enum { STEPS = 4, BATCH = 8 };

/* The head's logits come in several pieces, the blocks in segments of unequal size, and buckets hold a few layers each. */
static const char *const base = "{\"name\": \"matrix\", \"device\": \"cpu\", \"batch_size\": 8, \"seed\": 11,"
                                " \"model\": {\"layers\": 4, \"heads\": 2, \"hidden\": 16, \"vocab_size\": 211, \"block_size\": 6,"
                                " \"dtype\": \"fp32\", \"dropout\": 0.1}, \"steps\": {\"warmup\": 0, \"timed\": 4},"
                                " \"optimizer\": {\"name\": \"sgd\", \"learning_rate\": 2}, \"ddp\": {\"bucket_mib\": 0.01}}";

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

/* The samples of all ranks on one device that keeps everything. */
static bool train_alone(double learning_rate, double losses[STEPS])
{
    struct experiment alone;
    struct measure_result result = {0};
    struct dt_world one = {.size = 1, .local_size = 1, .launcher = "none"};
    struct dt_comm_options options = {0};
    struct dt_device_options device_options = {.threads = 1, .local_size = 1};
    struct dt_device *own = NULL;
    struct dt_comm *self = NULL;

    CHECK_OK(parse(NULL, 0, &alone));
    alone.batch_size = BATCH * world.size;
    alone.optimizer.learning_rate = learning_rate;
    CHECK_OK(dt_device_create("cpu", &device_options, &own));
    CHECK_OK(dt_comm_create(own, &one, &options, &self));
    CHECK_OK(measure_run(&alone, own, self, NULL, &result));
    bool complete = result.losses_done == STEPS;
    for (int i = 0; complete && i < STEPS; i++)
        losses[i] = result.losses[i];
    measure_result_finish(&result);
    dt_comm_destroy(self);
    dt_device_destroy(own);
    return complete;
}

/* Made once: whatever divides and saves, the work is the same. */
static const double *reference(void)
{
    static double losses[STEPS];
    static bool made;
    if (!made)
        made = train_alone(2, losses);
    CHECK(made, "no reference");
    return losses;
}

static void compare_bytes(const struct dt_memory_bytes *seen, const struct dt_memory_bytes *predicted, const char *where, const char *what)
{
    CHECK(seen->peak_total_bytes == predicted->peak_total_bytes, "%s: %s: %zu bytes, predicted %zu", what, where,
          (size_t)seen->peak_total_bytes, (size_t)predicted->peak_total_bytes);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        CHECK(seen->peak_bytes[c] == predicted->peak_bytes[c], "%s: %s %s: %zu bytes, predicted %zu", what, where,
              dt_category_name((enum dt_category)c), (size_t)seen->peak_bytes[c], (size_t)predicted->peak_bytes[c]);
}

/* One cell of the matrix. */
static void train(const char *const *sets, int count)
{
    struct experiment e;
    struct measure_result result;
    struct dt_memory_usage predicted, left;
    char what[256] = "";
    for (int i = 0, used = 0; i < count; i++)
        used += snprintf(what + used, sizeof what - (size_t)used, "%s%s", i ? " " : "", sets[i]);

    const char *all[16] = {ranks_device_setting()};
    for (int i = 0; i < count; i++)
        all[i + 1] = sets[i];
    dt_status status = parse(all, count + 1, &e);
    CHECK(status == DT_OK, "%s: %s", what, dt_error_message());
    if (status < 0)
        return;

    dt_memory_reset_peak(device);
    status = measure_run(&e, device, everyone, NULL, &result);
    CHECK(status == DT_OK && result.losses_done == STEPS, "%s: %s", what, dt_error_message());
    for (int i = 0; status == DT_OK && i < STEPS; i++)
        CHECK(fabs(result.losses[i] / reference()[i] - 1) <= ranks_tolerance(1e-5), "%s: step %d: loss %.9g, one device has %.9g", what, i,
              result.losses[i], reference()[i]);
    CHECK_OK(memory_fit_predict(&e, world.rank, &predicted));
    if (status == DT_OK) {
        ranks_check_times(&result, what);
        compare_bytes(&result.ranks[world.rank].memory.device, &predicted.device, "device", what);
        compare_bytes(&result.ranks[world.rank].memory.host, &predicted.host, "host", what);
    }
    dt_memory_usage(device, &left);
    CHECK(left.device.current_total_bytes == 0 && left.host.current_total_bytes == 0, "%s: memory is left behind", what);
    measure_result_finish(&result);
}

/* A paradigm's row: up to eight micro-batches of `samples`, without and with parameter offload. `more`: a setting of the paradigm, or NULL.
 */
static void walk(const char *activation, enum paradigm_kind kind, const char *more, int samples)
{
    static const char *const offloads[] = {"parameter_offload=false", "parameter_offload=true"};
    char paradigm[48], world_size[32], micro_batches[32];
    snprintf(paradigm, sizeof paradigm, "paradigm=%s", paradigm_name(kind));
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    for (int offload = 0; offload < 2; offload++) {
        for (int n = 1; n <= 8 && n <= samples; n *= 2) {
            const char *sets[] = {world_size, paradigm, activation, micro_batches, offloads[offload], more};
            snprintf(micro_batches, sizeof micro_batches, "micro_batches=%d", n);
            train(sets, more ? 6 : 5);
        }
    }
}

/* All paradigms that this number of ranks can have. */
static void walk_paradigms(const char *activation)
{
    for (int i = 0; paradigm_name((enum paradigm_kind)i); i++) {
        enum paradigm_kind kind = (enum paradigm_kind)i;
        if (kind == PARADIGM_NONE && world.size > 1)
            continue;
        if (kind != PARADIGM_PDP)
            walk(activation, kind, NULL, BATCH);
        for (int stages = 2; kind == PARADIGM_PDP && stages <= world.size; stages++) {
            char set_stages[48];
            snprintf(set_stages, sizeof set_stages, "pipeline.stages=%d", stages);
            if (world.size % stages == 0)
                walk(activation, kind, set_stages, stages * BATCH / 2); /* two chunks each */
        }
        if (kind == PARADIGM_FSDP)
            walk(activation, kind, "fsdp.unit=linear", BATCH);
    }
}

static void keep(void)
{
    walk_paradigms("activation=keep");
}

static void checkpoint(void)
{
    walk_paradigms("activation=checkpoint");
}

static void offload(void)
{
    walk_paradigms("activation=offload");
}

/* Segments of three blocks and the one that is left; unfused attention; Adam; chunks and micro-batches that do not come out even. */
static void uneven(void)
{
    char world_size[32], stages[48];
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    snprintf(stages, sizeof stages, "pipeline.stages=%d", world.size);
    for (int i = 0; i < 2; i++) {
        const char *activation = i ? "activation=offload" : "activation=checkpoint";
        const char *blocks[] = {world_size,        "paradigm=ddp",           activation, "activation_blocks=3",
                                "micro_batches=3", "model.attention=unfused"};
        const char *shards[] = {world_size, "paradigm=fsdp", activation, "activation_blocks=3", "fsdp.unit=linear"};
        const char *chunks[] = {world_size, "paradigm=pdp", activation, stages, "pipeline.chunks=3", "micro_batches=2"};
        train(blocks, 6);
        train(shards, 5);
        if (world.size > 1)
            train(chunks, 6);
        chunks[5] = "pipeline.order=1f1b";
        train(chunks, 6);
    }
}

/* The comparisons would also hold if nothing were learned: the losses must depend on the updates by far more than the tolerance. */
static void updates_matter(void)
{
    double frozen[STEPS];
    if (!train_alone(1e-12, frozen))
        return;
    CHECK(frozen[0] == reference()[0]);
    CHECK(fabs(frozen[STEPS - 1] / reference()[STEPS - 1] - 1) > 1e-3, "%.9g and %.9g", frozen[STEPS - 1], reference()[STEPS - 1]);
}

static const struct test_case cases[] = {
    {"updates matter", updates_matter},           {"keep", keep}, {"checkpoint", checkpoint}, {"offload", offload},
    {"pieces that do not come out even", uneven},
};

int main(void)
{
    return ranks_main(cases, (int)(sizeof cases / sizeof *cases));
}
