/* What replicas do, with a pipeline, tensor and context parallelism and every way of saving memory:
 * losses are those of one device, and each rank's bytes those that were predicted. Run alone, or by
 * mpirun on any number of ranks.
 *
 * All combinations of the axes below are numbered. By default a fixed sample of them is trained;
 * with DTBENCH_COMBINATIONS=FIRST:COUNT those numbers of the whole list, and with
 * DTBENCH_COMBINATIONS=random:SEED:COUNT a random walk. */
#include "schedules/plan/plan.h"
#include "test/schedules/run/one_device.h"

#include "lib/base/random.h"
#include "lib/base/text.h"

enum { BATCH = 4, SAMPLE = 20 };

#define BASE(model_keys, optimizer_keys)                                                                                                   \
    "{\"name\": \"composition\", \"device\": \"cpu\", \"batch_size\": 4, \"seed\": 11,"                                                    \
    " \"model\": {\"layers\": 10, \"heads\": 4, \"hidden\": 16, \"vocab_size\": 212, \"block_size\": 8," model_keys                        \
    " \"dtype\": \"fp32\", \"dropout\": 0.1}, \"steps\": {\"warmup\": 0, \"timed\": 3},"                                                   \
    " \"optimizer\": {\"name\": \"sgd\", \"learning_rate\": 2" optimizer_keys "}, \"ddp\": {\"bucket_mib\": 0.01}}"

/* The norm that clipping compares is one of all ranks: copies count once, and every wrong part of
 * it changes all gradients. */
#define CLIPPED ", \"clip_norm\": 0.3"

/* The study's model, and between them all other kinds of layers. Steps are large, so that a wrong
 * gradient shows in the next loss; not so large that rounding does. */
static const struct shape {
    const char *name, *base;
    uint32_t sample; /* of combinations */
    double rate;     /* of learning */
} shapes[] = {
    {"GPT", BASE("", ""), SAMPLE, 2},
    {"swiglu, rms, rope, two heads to one of keys and values",
     BASE("\"mlp\": \"swiglu\", \"ffn\": 24, \"norm\": \"rms\", \"position\": \"rope\", \"kv_heads\": 2, \"bias\": false,", CLIPPED), 6, 5},
    {"alibi, tied, no bias", BASE("\"position\": \"alibi\", \"bias\": false, \"tied\": true,", CLIPPED), 5, 0.1},
    {"norms of q and k, biases of q, k and v",
     BASE("\"position\": \"rope\", \"rope\": {\"scaling\": \"llama3\", \"original_length\": 16}, \"kv_heads\": 1, \"qk_norm\": true,"
          "\"bias\": \"qkv\", \"norm\": \"rms\",",
          ""),
     3, 2},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The axes: the settings that each value stands for, NULL after the last. Those of `numbered` are
 * in the list of combinations; of the others a value is drawn for each. */
struct axis {
    const char *name, *const *values;
};

static const char *const paradigms[] = {"none", "ddp", "zero1", "zero2", "fsdp", "hsdp", "pdp", NULL};
static const char *const stages[] = {"1", "2", "4", NULL};
static const char *const tensors[] = {"1", "2", "4", NULL};
static const char *const activations[] = {"keep", "checkpoint", "offload", "selective", "core_attention", "selective_op", NULL};
static const char *const switches[] = {"false", "true", NULL};
static const char *const parts[] = {"1", "2", "3", NULL};
static const char *const reductions[] = {"last", "each", NULL};
static const char *orders[16];

static const struct axis numbered[] = {
    {"paradigm", paradigms},     {"pipeline.stages", stages},     {"tensor.size", tensors}, {"pipeline.order", orders},
    {"activation", activations}, {"parameter_offload", switches}, {"micro_batches", parts}, {"gradient_reduction", reductions},
};

static const char *const chunks[] = {"1", "2", "3", "4", NULL};
static const char *const virtual_stages[] = {"2", "3", "1", NULL};
static const char *const gathers[] = {"micro_batch", "step", NULL};
static const char *const prefetches[] = {"1", "0", "3", NULL};
static const char *const overlaps[] = {"true", "false", NULL};
static const char *const units[] = {"block", "linear", NULL};
static const char *const shard_sizes[] = {"0", "1", "2", NULL};
static const char *const attentions[] = {"fused", "unfused", NULL};
static const char *const blocks[] = {"1", "2", NULL};
static const char *const contexts[] = {"1", "2", "1", "4", NULL};
static const char *const exchanges[] = {"all_gather", "a2a", "p2p", NULL};
static const char *mesh_orders[MESH_ORDERS + 1];

static const struct axis drawn[] = {
    {"pipeline.chunks", chunks},
    {"mesh.order", mesh_orders},
    {"fsdp.gather", gathers},
    {"fsdp.prefetch", prefetches},
    {"ddp.overlap", overlaps},
    {"fsdp.unit", units},
    {"hsdp.shard_size", shard_sizes},
    {"model.attention", attentions},
    {"activation_blocks", blocks},
    {"activation_every", blocks},
    {"tensor.sequence_parallel", switches},
    {"pipeline.virtual_stages", virtual_stages},
    {"context.size", contexts},
    {"context.comm_type", exchanges},
    {"ddp.overlap_param_gather", switches},
};

enum { NUMBERED = sizeof numbered / sizeof *numbered, DRAWN = sizeof drawn / sizeof *drawn, SETTINGS = NUMBERED + DRAWN + 5 };

static uint32_t count_of(const struct axis *axis)
{
    uint32_t count = 0;
    while (axis->values[count])
        count++;
    return count;
}

static uint32_t combinations(void)
{
    uint32_t all = 1;
    for (int i = 0; i < NUMBERED; i++)
        all *= count_of(&numbered[i]);
    return all;
}

static void fill_orders(void)
{
    const struct pipeline_order *order;
    int count = 0;
    for (int i = 0; (order = pipeline_order_at(i)) && count < 15; i++)
        orders[count++] = order->name;
    for (int i = 0; i < MESH_ORDERS; i++)
        mesh_orders[i] = mesh_order_name((enum mesh_order)i);
}

struct combination {
    char settings[SETTINGS][64];
    const char *sets[SETTINGS];
    int count;
    char what[640];
};

static void add_setting(struct combination *c, const char *name, const char *value)
{
    size_t used = strlen(c->what);
    snprintf(c->settings[c->count], sizeof c->settings[0], "%s=%s", name, value);
    c->sets[c->count] = c->settings[c->count];
    snprintf(c->what + used, sizeof c->what - used, " %s", c->settings[c->count++]);
}

/* The value of a setting that has been added. */
static const char *setting_of(const struct combination *c, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < c->count; i++)
        if (strncmp(c->settings[i], name, length) == 0 && c->settings[i][length] == '=')
            return c->settings[i] + length + 1;
    return "";
}

/* A policy for each part of a rank, where the order has several; half of the time. */
static void add_part_policies(struct combination *c, uint32_t number, uint32_t seed)
{
    const char *order = setting_of(c, "pipeline.order"), *of_ring = setting_of(c, "pipeline.virtual_stages");
    struct dt_philox random = dt_philox4x32(seed, number, DRAWN, 0, 0);
    int count = strcmp(order, "zb_v") == 0 ? 2 : strcmp(order, "interleaved") == 0 ? atoi(of_ring) : 0;
    char policies[48] = "";
    for (int i = 0, used = 0; i < count; i++, random.word[1] /= 4)
        used += snprintf(policies + used, sizeof policies - (size_t)used, "%s%s", i ? "-" : "", activations[random.word[1] % 4]);
    if (count > 0 && random.word[0] % 2 == 0)
        add_setting(c, "pipeline.activation", policies);
}

/* Combination `number`, its other settings drawn by `seed`. */
static void compose(uint32_t number, uint32_t seed, struct combination *c)
{
    char size[16];
    uint32_t rest = number;
    *c = (struct combination){0};
    snprintf(c->what, sizeof c->what, "%u:", number);
    snprintf(size, sizeof size, "%d", world.size);
    add_setting(c, "device", test_device_kind());
    add_setting(c, "world_size", size);
    for (int i = 0; i < NUMBERED; i++) {
        add_setting(c, numbered[i].name, numbered[i].values[rest % count_of(&numbered[i])]);
        rest /= count_of(&numbered[i]);
    }
    for (int i = 0; i < DRAWN; i++) {
        struct dt_philox random = dt_philox4x32(seed, number, (uint32_t)i, 0, 0);
        add_setting(c, drawn[i].name, drawn[i].values[random.word[0] % count_of(&drawn[i])]);
    }
    snprintf(size, sizeof size, "%d", BATCH * atoi(setting_of(c, "context.size"))); /* of these ranks together */
    add_setting(c, "batch_size", size);
    add_part_policies(c, number, seed);
}

/* Whether the numbers mean something that another combination does not: an order where there is a
 * pipeline, a reduction where there are several to choose from. */
static bool is_distinct(const struct experiment *e)
{
    bool pipelined = e->strategy.stages > 1;
    if (e->paradigm == PARADIGM_PDP && e->pipeline.stages == 1)
        return false;
    return (pipelined || strcmp(e->pipeline.order, orders[0]) == 0) && (e->micro_batches > 1 || e->gradient_reduction == REDUCTION_LAST);
}

static const double *reference(const struct shape *shape)
{
    static double losses[SHAPES][STEPS];
    static bool made[SHAPES];
    int i = (int)(shape - shapes);
    if (!made[i])
        made[i] = train_alone(shape->base, BATCH, shape->rate, losses[i]);
    CHECK(made[i], "no reference");
    return losses[i];
}

/* Train the combination, if there is one of that number on so many ranks. */
static bool train(const struct shape *shape, uint32_t number, uint32_t seed)
{
    struct combination c;
    struct experiment e;
    compose(number, seed, &c);
    if (parse_one(shape->base, c.sets, c.count, &e) < 0 || !is_distinct(&e))
        return false;
    e.optimizer.learning_rate = shape->rate;
    train_and_compare(&e, reference(shape), c.what);
    return true;
}

static void train_list(uint32_t first, uint32_t count)
{
    uint32_t trained = 0;
    for (uint32_t number = first; number < first + count && number < combinations(); number++)
        trained += train(&shapes[0], number, 1);
    if (world.rank == 0)
        printf("# %u combinations on %d ranks, of the numbers from %u on\n", trained, world.size, first);
}

static void walk(const struct shape *shape, uint32_t seed, uint32_t count)
{
    uint32_t trained = 0;
    for (uint32_t i = 0; trained < count && i < 4000 * count; i++) {
        struct dt_philox random = dt_philox4x32(seed, i, 1, 0, 0);
        trained += train(shape, random.word[0] % combinations(), random.word[1]);
    }
    CHECK(trained == count, "%s: %u of %u", shape->name, trained, count);
    if (world.rank == 0)
        printf("# a walk of %u combinations on %d ranks, seed %u: %s\n", trained, world.size, seed, shape->name);
}

/* Orders with halves of backward, or several parts, whose layers a tensor group shares: weight
 * gradients beside its sums, at any time. */
static void train_tensor_groups_in_pipelines(void)
{
    static const char *const orders_and_policies[][2] = {
        {"pipeline.order=zb_v", "pipeline.activation=checkpoint-keep"},
        {"pipeline.order=zb_h1", "activation=selective_op"},
        {"pipeline.order=interleaved", "tensor.sequence_parallel=false"},
        {"pipeline.order=zb_h1", "keep_cheap=all"},
    };
    char world_size[32];
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    for (size_t i = 0; i < sizeof orders_and_policies / sizeof *orders_and_policies && world.size % 4 == 0; i++) {
        const char *sets[] = {ranks_device_setting(), world_size,          "paradigm=zero1",          "pipeline.stages=2",
                              "tensor.size=2",        "pipeline.chunks=3", orders_and_policies[i][0], orders_and_policies[i][1]};
        struct experiment e;
        dt_status status = parse_one(shapes[0].base, sets, sizeof sets / sizeof *sets, &e);
        CHECK(status == DT_OK, "%s: %s", sets[6], dt_error_message());
        if (status == DT_OK)
            train_and_compare(&e, reference(&shapes[0]), sets[6]);
    }
}

enum { ROW_SETS = 6 };

/* Train a shape with the given settings, and compare it with one device. */
static void train_row(const char *what, const struct shape *shape, const char *const settings[ROW_SETS], const double *losses)
{
    char world_size[32], text[256];
    const char *sets[2 + ROW_SETS] = {ranks_device_setting(), world_size};
    struct experiment e;
    int count = 2;
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    snprintf(text, sizeof text, "%s", what);
    for (int i = 0; i < ROW_SETS && settings[i]; i++) {
        dt_append(text, sizeof text, " ", "%s", settings[i]);
        sets[count++] = settings[i];
    }
    dt_status status = parse_one(shape->base, sets, count, &e);
    CHECK(status == DT_OK, "%s: %s", text, dt_error_message());
    if (status < 0)
        return;
    e.optimizer.learning_rate = shape->rate;
    train_and_compare(&e, losses, text);
}

/* What several ranks hold copies of: heads of keys and values that are fewer than the ranks of a
 * tensor group, gains of the heads' norms, and the table of a tied head at the other end of a
 * pipeline. */
static void train_copies(void)
{
    static const struct {
        int ranks, shape;
        const char *sets[ROW_SETS];
    } rows[] = {
        {4, 1, {"paradigm=none", "tensor.size=4", "micro_batches=2", "keep_cheap=norms"}},
        {4,
         3,
         {"paradigm=none", "tensor.size=4", "micro_batches=3", "tensor.sequence_parallel=false", "activation=checkpoint",
          "keep_cheap=all"}},
        {4, 3, {"paradigm=zero2", "tensor.size=2", "pipeline.stages=2", "pipeline.order=zb_h1", "pipeline.chunks=3"}},
        {8, 1, {"paradigm=fsdp", "tensor.size=4", "fsdp.unit=linear", "micro_batches=2", "gradient_reduction=each"}},
        {8, 3, {"paradigm=ddp", "tensor.size=4", "micro_batches=2", "gradient_reduction=each", "parameter_offload=true"}},
        {4, 2, {"paradigm=pdp", "pipeline.stages=4", "pipeline.order=1f1b", "pipeline.chunks=3"}},
        {4, 2, {"paradigm=none", "tensor.size=2", "pipeline.stages=2", "micro_batches=2", "parameter_offload=true"}},
        {4, 2, {"paradigm=zero1", "pipeline.stages=2", "pipeline.order=interleaved", "micro_batches=2", "gradient_reduction=each"}},
        {4, 2, {"paradigm=fsdp", "pipeline.stages=2", "pipeline.order=zb_v", "pipeline.chunks=3", "activation=checkpoint"}},
        {8,
         2,
         {"paradigm=hsdp", "pipeline.stages=2", "pipeline.order=zb_h1", "micro_batches=2", "hsdp.shard_size=2", "parameter_offload=true"}},
        {8, 2, {"paradigm=zero2", "tensor.size=2", "pipeline.stages=2", "pipeline.chunks=2", "gradient_reduction=each"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].ranks == world.size)
            train_row("copies:", &shapes[rows[i].shape], rows[i].sets, reference(&shapes[rows[i].shape]));
}

/* Fewer samples in a step than ranks: those that share a copy of the model share a sample. */
static void train_few_samples(void)
{
    static const struct {
        int ranks;
        const char *sets[ROW_SETS];
    } rows[] = {
        {4, {"global_batch=2", "paradigm=none", "tensor.size=4", "micro_batches=2"}},
        {4, {"global_batch=2", "paradigm=ddp", "tensor.size=2", "tensor.sequence_parallel=false"}},
        {4, {"global_batch=2", "paradigm=fsdp", "tensor.size=2", "activation=checkpoint"}},
        {4, {"global_batch=2", "paradigm=pdp", "pipeline.stages=2", "tensor.size=2", "pipeline.order=1f1b"}},
        {4, {"global_batch=2", "paradigm=zero1", "pipeline.stages=2", "pipeline.chunks=1"}},
        {8, {"global_batch=2", "paradigm=zero2", "pipeline.stages=2", "pipeline.chunks=1", "tensor.size=2"}},
        {8, {"global_batch=2", "paradigm=pdp", "pipeline.stages=4", "pipeline.order=zb_h1", "tensor.size=2"}},
        {8, {"global_batch=2", "paradigm=hsdp", "hsdp.shard_size=2", "tensor.size=4"}},
        {8, {"global_batch=2", "paradigm=fsdp", "tensor.size=2", "context.size=2"}},
    };
    double losses[STEPS];
    bool trained = train_alone(shapes[0].base, 2.0 / world.size, shapes[0].rate, losses);
    CHECK(trained, "one device");
    for (size_t i = 0; i < sizeof rows / sizeof *rows && trained; i++)
        if (rows[i].ranks == world.size)
            train_row("few samples:", &shapes[0], rows[i].sets, losses);
}

static void train_all(void)
{
    const char *asked = getenv("DTBENCH_COMBINATIONS");
    unsigned first, count;
    fill_orders();
    for (int i = 0; !asked && i < SHAPES; i++)
        walk(&shapes[i], 7, shapes[i].sample);
    if (!asked)
        return;
    if (sscanf(asked, "random:%u:%u", &first, &count) == 2)
        for (int i = 0; i < SHAPES; i++)
            walk(&shapes[i], first, count);
    else if (sscanf(asked, "%u:%u", &first, &count) == 2)
        train_list(first, count);
    else
        CHECK(false, "DTBENCH_COMBINATIONS=%s: FIRST:COUNT or random:SEED:COUNT", asked);
}

static const struct test_case cases[] = {
    {"combinations", train_all},
    {"tensor groups in pipelines with halves and parts", train_tensor_groups_in_pipelines},
    {"copies that several ranks hold", train_copies},
    {"fewer samples than ranks", train_few_samples},
};

int main(void)
{
    return ranks_main(cases, (int)(sizeof cases / sizeof *cases));
}
