/* Every way of saving memory with every paradigm, alone and together: the losses are those of one
 * device that saves nothing, and the bytes, by category, those that were predicted. Run alone, or
 * by mpirun on any number of ranks.
 *
 * Each number of ranks trains a third, in which every paradigm and way of saving is: two, three and
 * four ranks together train every cell. DTBENCH_MATRIX=all: every cell on any number of ranks. */
#include "test/schedules/run/one_device.h"

enum { BATCH = 8 };

/* The head's logits come in several pieces, the blocks in segments of unequal size, and buckets
 * hold a few layers each. */
static const char *const base = "{\"name\": \"matrix\", \"device\": \"cpu\", \"batch_size\": 8, \"seed\": 11,"
                                " \"model\": {\"layers\": 4, \"heads\": 2, \"hidden\": 16, \"vocab_size\": 211, \"block_size\": 6,"
                                " \"dtype\": \"fp32\", \"dropout\": 0.1}, \"steps\": {\"warmup\": 0, \"timed\": 3},"
                                " \"optimizer\": {\"name\": \"sgd\", \"learning_rate\": 2}, \"ddp\": {\"bucket_mib\": 0.01}}";

/* Made once: whatever divides and saves, the work is the same. */
static const double *reference(void)
{
    static double losses[STEPS];
    static bool made;
    if (!made)
        made = train_alone(base, BATCH, 2, losses);
    CHECK(made, "no reference");
    return losses;
}

/* One cell of the matrix. */
static void train(const char *const *sets, int count)
{
    struct experiment e;
    char what[256] = "";
    for (int i = 0, used = 0; i < count; i++)
        used += snprintf(what + used, sizeof what - (size_t)used, "%s%s", i ? " " : "", sets[i]);

    const char *all[16] = {ranks_device_setting()};
    for (int i = 0; i < count; i++)
        all[i + 1] = sets[i];
    dt_status status = parse_one(base, all, count + 1, &e);
    CHECK(status == DT_OK, "%s: %s", what, dt_error_message());
    if (status == DT_OK)
        train_and_compare(&e, reference(), what);
}

static bool in_my_third(int cell)
{
    const char *asked = getenv("DTBENCH_MATRIX");
    return (asked && strcmp(asked, "all") == 0) || cell % 3 == world.size % 3;
}

/* A paradigm's row: up to eight micro-batches of `samples`, without and with parameter offload.
 * `more`: a setting of the paradigm, or NULL. */
static void walk(const char *activation, enum paradigm_kind kind, const char *more, int samples)
{
    static const char *const offloads[] = {"parameter_offload=false", "parameter_offload=true"};
    char paradigm[48], world_size[32], micro_batches[32];
    snprintf(paradigm, sizeof paradigm, "paradigm=%s", paradigm_name(kind));
    snprintf(world_size, sizeof world_size, "world_size=%d", world.size);
    for (int offload = 0; offload < 2; offload++) {
        for (int i = 0; i < 4 && 1 << i <= samples; i++) {
            const char *sets[] = {world_size, paradigm, activation, micro_batches, offloads[offload], more};
            snprintf(micro_batches, sizeof micro_batches, "micro_batches=%d", 1 << i);
            if (in_my_third((int)kind + offload + i))
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

/* Segments of three blocks and the one that is left; unfused attention; Adam; chunks and
 * micro-batches that do not come out even. */
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

/* The comparisons would also hold if nothing were learned: the losses must depend on the updates by
 * far more than the tolerance. */
static void updates_matter(void)
{
    double frozen[STEPS];
    if (!train_alone(base, BATCH, 1e-12, frozen))
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
