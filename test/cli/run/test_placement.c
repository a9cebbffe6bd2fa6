#include "cli/run/run.h"
#include "test/check.h"

#include <string.h>

/* "a a b b": the node of each rank. */
static int read_nodes(const char *nodes, struct placement_rank *ranks)
{
    int count = 0;
    for (const char *c = nodes; *c; c += c[1] ? 2 : 1)
        snprintf(ranks[count++].node, sizeof ranks->node, "%c", *c);
    return count;
}

/* One layout, and the words of the refusal; NULL: accepted. */
struct example {
    const char *nodes;
    enum paradigm_kind paradigm;
    int stages, shard_size, gpus_per_node;
    bool straddle;
    const char *refusal;
};

static void try_example(const struct example *x, enum pipeline_reach reach, enum mesh_order order)
{
    struct placement_rank ranks[16] = {0};
    struct experiment e = {.device = "", .paradigm = x->paradigm, .gpus_per_node = x->gpus_per_node, .straddle_nodes = x->straddle};
    e.world_size = read_nodes(x->nodes, ranks);
    e.tensor.size = 1;
    e.context.size = 1;
    e.mesh.order = order;
    e.pipeline.stages = x->stages;
    e.pipeline.order = e.pipeline.activation = e.pipeline.split = "";
    e.pipeline.paradigms = reach;
    e.hsdp.shard_size = x->shard_size;
    experiment_settle(&e);
    dt_status status = placement_check(&e, 2, 3, ranks);
    if (!x->refusal) {
        CHECK(status == DT_OK, "%s: %s", x->nodes, dt_error_message());
        return;
    }
    CHECK(status == DT_ERR_INVALID && strstr(dt_error_message(), x->refusal) && strstr(dt_error_message(), "experiment 2 of 3"),
          "%s: not \"%s\" but %s", x->nodes, x->refusal, dt_error_message());
}

static void try_examples(const struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        try_example(&examples[i], PIPELINE_OF_PDP, MESH_TENSOR_PIPELINE_DATA);
}

static void groups(void)
{
    static const struct example examples[] = {
        {"a a b b", PARADIGM_PDP, 2, 0, 0, false, NULL},
        {"a a a b b b", PARADIGM_PDP, 3, 0, 0, false, NULL},
        {"a a a b b b", PARADIGM_PDP, 2, 0, 0, false, "pipeline.stages: 2 ranks that belong together would straddle nodes: ranks 2 and 3"},
        {"a b a b", PARADIGM_PDP, 2, 0, 0, false, "ranks 0 and 1 are on a and b"},
        {"a b a b", PARADIGM_PDP, 2, 0, 0, true, NULL},
        {"a a b b", PARADIGM_PDP, 4, 0, 0, false, "pipeline.stages: 4 ranks"},
        {"a a b b", PARADIGM_PDP, 1, 0, 0, false, NULL},
        {"a b c d", PARADIGM_DDP, 2, 0, 0, false, NULL}, /* without pdp the stages are not used */
        {"a b a b", PARADIGM_FSDP, 2, 0, 0, false, NULL},
        {"a a b b", PARADIGM_HSDP, 0, 2, 0, false, NULL},
        {"a a b b", PARADIGM_HSDP, 0, 4, 0, false, "hsdp.shard_size: 4 ranks"},
        {"a a b b", PARADIGM_HSDP, 0, 0, 0, false, NULL},
        {"a a a b", PARADIGM_HSDP, 0, 0, 0, false, "hsdp.shard_size"}, /* unequal nodes cannot be shard groups */
        {"a a a b", PARADIGM_HSDP, 0, 0, 0, true, NULL},
    };
    try_examples(examples, sizeof examples / sizeof examples[0]);
}

/* A pipeline with each paradigm. Stages that are farther apart than replicas are meant to be on
 * several nodes. */
static void pipelines(void)
{
    static const struct {
        struct example example;
        enum mesh_order order;
    } all[] = {
        {{"a a b b", PARADIGM_ZERO1, 2, 0, 0, false, NULL}, MESH_TENSOR_PIPELINE_DATA},
        {{"a b a b", PARADIGM_ZERO1, 2, 0, 0, false, "pipeline.stages: 2 ranks"}, MESH_TENSOR_PIPELINE_DATA},
        {{"a a b b", PARADIGM_FSDP, 4, 0, 0, false, "put a multiple of 4 on each node"}, MESH_TENSOR_PIPELINE_DATA},
        {{"a a b b", PARADIGM_FSDP, 2, 0, 0, false, NULL}, MESH_TENSOR_DATA_PIPELINE},
        {{"a a a a b b b b", PARADIGM_HSDP, 2, 2, 0, false, NULL}, MESH_TENSOR_PIPELINE_DATA},
        {{"a a b b a a b b", PARADIGM_HSDP, 2, 2, 0, false,
          "hsdp.shard_size: 2 ranks that belong together would straddle nodes: ranks 0 and 2"},
         MESH_TENSOR_PIPELINE_DATA},
        {{"a a b b a a b b", PARADIGM_HSDP, 2, 2, 0, false, NULL}, MESH_TENSOR_DATA_PIPELINE},
        {{"a a a a b b b b", PARADIGM_HSDP, 2, 0, 0, false, NULL}, MESH_TENSOR_PIPELINE_DATA},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        try_example(&all[i].example, PIPELINE_OF_ALL, all[i].order);
}

static void nodes(void)
{
    static const struct example examples[] = {
        {"a a b b", PARADIGM_DDP, 0, 0, 2, false, NULL},
        {"a b a b", PARADIGM_DDP, 0, 0, 2, false, NULL},
        {"a a b b c", PARADIGM_DDP, 0, 0, 2, false, NULL},
        {"a", PARADIGM_NONE, 0, 0, 8, false, NULL},
        {"a a b", PARADIGM_DDP, 0, 0, 4, false, "gpus_per_node: 4 are asked for, and node a has 2 of the 3 ranks"},
        {"a b c d", PARADIGM_DDP, 0, 0, 2, false, "node a has 1 of the 4"},
        {"a a a b", PARADIGM_DDP, 0, 0, 2, false, "node a has 3 of the 4"},
        {"a a b c", PARADIGM_DDP, 0, 0, 2, false, "node b has 1 of the 4"},
        {"a a b c d", PARADIGM_DDP, 0, 0, 2, false, "node c has 1 of the 5"},
    };
    try_examples(examples, sizeof examples / sizeof examples[0]);
    struct experiment e = {.device = "", .world_size = 4, .gpus_per_node = 2};
    CHECK(placement_check_alone(&e, 1, 1, -1) == DT_ERR_INVALID && strstr(dt_error_message(), "on 2 nodes"), "%s", dt_error_message());
    e.gpus_per_node = 4;
    CHECK_OK(placement_check_alone(&e, 1, 1, -1));
    e.gpus_per_node = 0;
    CHECK_OK(placement_check_alone(&e, 1, 1, -1));
    CHECK(placement_check_alone(&e, 1, 1, 0) == DT_ERR_INVALID && strstr(dt_error_message(), "this machine has 0 GPUs"), "%s",
          dt_error_message());
}

/* "a:G a:H b:G": node and GPU of each rank; none where the name is missing. */
static int read_gpus(const char *places, int gpus, int slurm_gpus, struct placement_rank *ranks)
{
    int count = 0;
    for (const char *c = places; *c; c += strcspn(c, " "), c += *c == ' ') {
        ranks[count] = (struct placement_rank){.gpus = gpus, .slurm_gpus = slurm_gpus};
        snprintf(ranks[count].node, sizeof ranks->node, "%c", c[0]);
        if (c[1] == ':')
            snprintf(ranks[count].gpu, sizeof ranks->gpu, "GPU-%c", c[2]);
        count++;
    }
    return count;
}

static void gpus(void)
{
    static const struct {
        const char *places;
        int gpus, slurm_gpus, gpus_per_node;
        bool share;
        const char *refusal;
    } examples[] = {
        {"a:G a:H b:G b:H", 2, 0, 0, false, NULL}, /* the same number on another node is another GPU */
        {"a:G a:H b:G b:H", 1, 0, 0, false, NULL},
        {"a:G a:H a:G", 2, 0, 0, false, "node a has 3 ranks and 2 GPUs: start 2 ranks there"},
        {"a:G a:H a:G", 2, 0, 0, true, NULL},
        {"a:G a:G", 1, 0, 0, false, "ranks 0 and 1 are both on GPU-G of node a"},
        {"a:G a:G", 1, 0, 0, true, NULL},
        {"a:G a:H b:I b:H b:I", 3, 0, 0, false, "ranks 2 and 4 are both on GPU-I of node b"},
        {"a:G a:H b:G", 2, 2, 0, false, NULL},
        {"a:G a:H b:G", 2, 1, 0, false,
         "node a has 2 ranks, and Slurm gave the job 1 GPU there (SLURM_GPUS_ON_NODE): pass --gpus-per-node=2"},
        {"a:G a:H", 2, 1, 0, true, NULL},
        {"a:G a:H", 2, 4, 2, false, NULL},
        {"a:G a:H", 2, 1, 2, false, "gpus_per_node: 2 are asked for, and Slurm gave the job 1 on node a"},
        {"a a a", 0, 1, 0, false, NULL}, /* any number of cpu ranks may share a machine */
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct placement_rank ranks[8] = {0};
        struct experiment e = {.device = "",
                               .paradigm = PARADIGM_DDP,
                               .tensor.size = 1,
                               .context.size = 1,
                               .pipeline.split = "",
                               .gpus_per_node = examples[i].gpus_per_node,
                               .share_gpus = examples[i].share};
        e.world_size = read_gpus(examples[i].places, examples[i].gpus, examples[i].slurm_gpus, ranks);
        experiment_settle(&e);
        dt_status status = placement_check(&e, 1, 1, ranks);
        if (!examples[i].refusal)
            CHECK(status == DT_OK, "%s: %s", examples[i].places, dt_error_message());
        else
            CHECK(status == DT_ERR_INVALID && strstr(dt_error_message(), examples[i].refusal), "%s: not \"%s\" but %s", examples[i].places,
                  examples[i].refusal, dt_error_message());
    }
    struct experiment e = {.device = "", .world_size = 4};
    CHECK_OK(placement_check_alone(&e, 1, 1, 4));
    CHECK(placement_check_alone(&e, 1, 1, 1) == DT_ERR_INVALID &&
              strstr(dt_error_message(), "4 ranks, and this machine has 1 GPU for them"),
          "%s", dt_error_message());
    e.share_gpus = true;
    CHECK_OK(placement_check_alone(&e, 1, 1, 1));
}

/* A launcher that shows each rank only one GPU, with several ranks on a node, is reported. */
static void hidden_gpus(void)
{
    struct placement_rank ranks[8] = {0};
    int count = read_gpus("a:G a:H b:G", 1, 0, ranks);
    CHECK(placement_hidden_gpus(ranks, count) == 0);
    count = read_gpus("a:G b:G b:H", 1, 0, ranks);
    CHECK(placement_hidden_gpus(ranks, count) == 1);
    count = read_gpus("a:G b:G c:G", 1, 0, ranks);
    CHECK(placement_hidden_gpus(ranks, count) == -1);
    count = read_gpus("a:G a:H b:G", 2, 0, ranks);
    CHECK(placement_hidden_gpus(ranks, count) == -1);
    count = read_gpus("a a b", 1, 0, ranks); /* no GPUs */
    CHECK(placement_hidden_gpus(ranks, count) == -1);
}

static const struct test_case cases[] = {{"groups that straddle nodes", groups},
                                         {"pipelines with every paradigm", pipelines},
                                         {"ranks on each node", nodes},
                                         {"GPUs", gpus},
                                         {"GPUs that are hidden from each other", hidden_gpus}};
TEST_MAIN(cases)
