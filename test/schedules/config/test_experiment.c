#include "gpt/model.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "schedules/config/print.h"
#include "schedules/config/tuning.h"
#include "test/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define TINY "\"model\":{\"layers\":2,\"heads\":4,\"hidden\":64,\"vocab_size\":500,\"block_size\":32}"

static struct experiment *parse(const char *text, int *count)
{
    struct experiment *e = NULL;
    *count = 0;
    CHECK_OK(experiments_parse(text, strlen(text), "t", NULL, 0, &e, count));
    return e;
}

static void defaults(void)
{
    int count;
    struct experiment *e = parse("{\"model\":{\"preset\":\"GPTSmall\"}}", &count);
    if (!e)
        return;
    CHECK(count == 1 && strcmp(e->name, "experiment") == 0 && strcmp(e->device, "auto") == 0 && e->world_size == 1);
    CHECK(e->paradigm == PARADIGM_NONE && e->batch_size == 8 && e->micro_batches == 1);
    CHECK(gpt_of(&e->model)->layers == 12 && gpt_of(&e->model)->heads == 12 && gpt_of(&e->model)->hidden == 768 &&
          strcmp(e->model.preset, "GPTSmall") == 0);
    CHECK(gpt_of(&e->model)->vocab_size == 50000 && gpt_of(&e->model)->block_size == 256 && e->model.dtype == DT_FP16 &&
          gpt_of(&e->model)->dropout == 0.1f);
    CHECK(gpt_of(&e->model)->attention == GPT_ATTENTION_FUSED && dt_model_parameter_count(&e->model) == 162052608);
    CHECK(e->pipeline.stages == 2 && e->pipeline.chunks == 2 && strcmp(e->pipeline.order, "gpipe") == 0 && e->fsdp.unit == DT_UNIT_BLOCK);
    CHECK(e->ddp.bucket_mib == 25 && e->tensor.size == 1 && e->activation == ACTIVATION_KEEP && e->activation_blocks == 1 &&
          !e->parameter_offload);
    CHECK(e->optimizer.name == OPTIMIZER_SGD && e->optimizer.learning_rate == 0.01 && e->optimizer.beta1 == 0.9);
    CHECK(e->optimizer.beta2 == 0.999 && e->optimizer.epsilon == 1e-8 && e->loss == LOSS_CROSS_ENTROPY && e->loss_scaling == 65536);
    CHECK(e->graph && e->seed == 1 && e->steps.warmup == 4 && e->steps.timed == 4 && e->timeout.init_s == 120 && e->timeout.step_s == 600);
    CHECK(e->memory_limit_bytes == 0 && e->threads == 0 && e->cluster[0] == 0 && e->profile[0] == 0 && strlen(e->hash) == 16);
    free(e);
}

/* Many ranks take longer to start; a simulated world does not start. */
static void worlds_have_time_to_start(void)
{
    static const struct {
        const char *keys;
        double init_s;
    } all[] = {{"\"device\":\"cuda\",\"world_size\":64", 120},
               {"\"device\":\"cuda\",\"world_size\":512", 512},
               {"\"device\":\"cuda\",\"world_size\":512,\"timeout\":{\"init_s\":30}", 30},
               {"\"device\":\"cuda\",\"world_size\":512,\"timeout\":{\"init_s\":0}", 0},
               {"\"device\":\"sim\",\"world_size\":512", 120}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char text[512];
        int count;
        snprintf(text, sizeof text, "{" TINY ",\"paradigm\":\"ddp\",%s}", all[i].keys);
        struct experiment *e = parse(text, &count);
        CHECK(e && e->timeout.init_s == all[i].init_s, "%s: %g", all[i].keys, e ? e->timeout.init_s : -1);
        free(e);
    }
}

/* Defaults that depend on other fields. */
static void dependent_defaults(void)
{
    static const struct {
        const char *text;
        double scaling, rate;
        enum dt_unit unit;
        uint64_t limit;
    } all[] = {
        {"{" TINY "}", 65536, 0.01, DT_UNIT_BLOCK, 0},
        {"{" TINY ",\"loss\":\"sum\"}", 1, 0.01, DT_UNIT_BLOCK, 0},
        {"{" TINY ",\"loss\":\"sum\",\"loss_scaling\":8}", 8, 0.01, DT_UNIT_BLOCK, 0},
        {"{\"model\":{\"preset\":\"GPT76B\",\"dtype\":\"bf16\"},\"optimizer\":{\"name\":\"adam\"}}", 1, 0.001, DT_UNIT_LINEAR, 0},
        {"{\"model\":{\"preset\":\"GPT39B\"},\"optimizer\":{\"learning_rate\":0}}", 65536, 0, DT_UNIT_BLOCK, 0},
        {"{\"model\":{\"preset\":\"GPT1T\",\"dtype\":\"fp32\"},\"fsdp\":{\"unit\":\"block\"},\"memory_limit_gib\":0.5}", 1, 0.01,
         DT_UNIT_BLOCK, 1u << 29},
        {"{" TINY ",\"fsdp\":{\"unit\":\"linear\"},\"memory_limit_gib\":1e-12}", 65536, 0.01, DT_UNIT_LINEAR, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int count;
        struct experiment *e = parse(all[i].text, &count);
        if (!e)
            continue;
        CHECK(e->loss_scaling == all[i].scaling && e->optimizer.learning_rate == all[i].rate, "%s", all[i].text);
        CHECK(e->fsdp.unit == all[i].unit && e->memory_limit_bytes == all[i].limit, "%s", all[i].text);
        free(e);
    }
}

/* Errors that involve several fields. */
static void refuses_combinations(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"{}", "t: model: needs a preset (\"GPTSmall\", say), or layers, heads and hidden"},
        {"{\"model\":{\"preset\":\"GPTsmall\"}}", "t: model.preset: \"GPTsmall\" is none of 61 known names; did you mean \"GPTSmall\"?"},
        {"{\"model\":{\"preset\":\"GPTXL\",\"hidden\":64}}",
         "t: model: both a preset and model.hidden are given; a preset says the sizes itself"},
        {"{\"model\":{\"layers\":2,\"hidden\":64}}", "t: model.heads: missing; expected layers, heads and hidden, or a preset"},
        {"{\"model\":{\"layers\":2,\"heads\":3,\"hidden\":64}}", "t: model.heads: 3 does not divide model.hidden 64"},
        {"{" TINY ",\"world_size\":2}", "t: world_size: 2 ranks, but paradigm \"none\" is one device; use 1, or another paradigm"},
        {"{" TINY ",\"paradigm\":\"pdp\"}", "t: pipeline.stages: 2 does not divide world_size 1; 1 alone does"},
        {"{" TINY ",\"paradigm\":\"pdp\",\"world_size\":6,\"pipeline\":{\"stages\":4}}",
         "t: pipeline.stages: 4 does not divide world_size 6; 1, 2, 3 and 6 do"},
        {"{" TINY ",\"paradigm\":\"pdp\",\"world_size\":2,\"batch_size\":2,\"pipeline\":{\"chunks\":5}}",
         "t: pipeline.chunks: 5 chunks (times micro_batches 1) of the pipeline's 4 samples (stages * batch_size); at most one each"},
        {"{" TINY ",\"paradigm\":\"pdp\",\"world_size\":2,\"batch_size\":2,\"micro_batches\":2,\"pipeline\":{\"chunks\":3}}",
         "t: pipeline.chunks: 3 chunks (times micro_batches 2) of the pipeline's 4 samples (stages * batch_size); at most one each"},
        {"{\"model\":{\"layers\":4096,\"heads\":4,\"hidden\":64},\"paradigm\":\"pdp\",\"world_size\":4096,\"batch_size\":1,"
         "\"pipeline\":{\"stages\":4096,\"chunks\":257}}",
         "t: pipeline.chunks: 257 micro-batches through 4096 parts of a pipeline are too many passes to plan; at most 1048576 are planned, "
         "256 micro-batches here"},
        {"{" TINY ",\"micro_batches\":9}", "t: micro_batches: 9 is more than batch_size 8"},
        {"{" TINY ",\"steps\":{\"warmup\":0,\"timed\":65536},\"batch_size\":65536}",
         "t: steps: 65536 steps of 65536 samples; a run has less than 2^32 samples"},
        {"{\"model\":{\"preset\":\"GPT1T\",\"vocab_size\":2147483647,\"block_size\":1048576},\"batch_size\":65536,\"steps\":{\"warmup\":0,"
         "\"timed\":1}}",
         "t: batch_size: together with model.block_size and model.heads it makes tensors of 1.18e+21 elements; no machine can hold them"},
        {"{" TINY ",\"paradigm\":\"zero3\"}", "t: paradigm: \"zero3\" is not supported by this version; use \"fsdp\""},
        {"{" TINY ",\"paradigm\":\"hsdp\",\"world_size\":4,\"hsdp\":{\"shard_size\":3}}",
         "t: hsdp.shard_size: 3 does not divide world_size 4; 1, 2 and 4 do"},
        {"{" TINY ",\"paradigm\":\"parameter_server\",\"world_size\":2,\"parameter_server\":{\"servers\":3}}",
         "t: parameter_server.servers: 3 is more than world_size 2"},
        {"{" TINY
         ",\"paradigm\":\"parameter_server\",\"world_size\":2,\"optimizer\":{\"clip_norm\":1},\"parameter_server\":{\"staleness\":3}}",
         "t: parameter_server.staleness: 3 steps' updates are under way when a step ends; it goes with optimizer.clip_norm: 0"},
        {"{" TINY ",\"world_size\":2,\"sweep\":{\"paradigm\":[\"none\"]}}",
         "t: sweep combination 1 of 1 (paradigm=\"none\"): world_size: 2 ranks, but paradigm \"none\" is one device; use 1, or another "
         "paradigm"},
        {"[]", "t: expected an object with name, device, world_size, ..., not []"},
        {"{" TINY ",\"colour\":1}", "t: colour: unknown key; the nearest are loss, slow, model"},
        {"{\"model\":{\"preset\":\"GPTSmall\",\"xyzzy\":1}}", "t: model.xyzzy: unknown key; the nearest are from, layers, heads"},
        {"{\"model\":{\"preset\":\"GPTXL\"},\"model\":{}}", "t:1:29: model: this key is given twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct experiment *e = NULL;
        int count;
        CHECK(experiments_parse(bad[i].text, strlen(bad[i].text), "t", NULL, 0, &e, &count) == DT_ERR_INVALID && !e, "%s", bad[i].text);
        CHECK(strcmp(dt_error_message(), bad[i].message) == 0, "%s\n# wanted\n# %s", dt_error_message(), bad[i].message);
    }
    struct experiment *e = NULL;
    int count;
    const char *many = "{" TINY ",\"paradigm\":\"pdp\",\"world_size\":64,\"pipeline\":{\"stages\":64}}";
    CHECK(experiments_parse(many, strlen(many), "t", NULL, 0, &e, &count) == DT_ERR_INVALID &&
              strncmp(dt_error_message(), "t: pipeline.stages: ", 20) == 0,
          "%s", dt_error_message());
}

/* Which settings fit a pipeline, and how many ranks it needs. */
static void refuses_meshes(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"{" TINY ",\"paradigm\":\"fsdp\",\"world_size\":6,\"pipeline\":{\"stages\":4}}",
         "t: pipeline.stages: 4 does not divide world_size 6; 1, 2, 3 and 6 do"},
        {"{" TINY ",\"world_size\":4,\"pipeline\":{\"stages\":2}}", "t: world_size: 4 ranks, but paradigm \"none\" is one copy of the "
                                                                    "model, on pipeline.stages 2 times tensor.size 1 ranks; use 2, or "
                                                                    "another paradigm"},
        {"{" TINY ",\"paradigm\":\"hsdp\",\"world_size\":8,\"pipeline\":{\"stages\":2},\"hsdp\":{\"shard_size\":8}}",
         "t: hsdp.shard_size: 8 does not divide the 4 ranks that hold the same stage; 1, 2 and 4 do"},
        {"{" TINY ",\"paradigm\":\"data_parallel\",\"world_size\":4,\"pipeline\":{\"stages\":2}}",
         "t: pipeline.stages: paradigm \"data_parallel\" goes with no pipeline: its root has the whole model, and makes every update; use "
         "1, "
         "or paradigm \"ddp\""},
        {"{" TINY ",\"paradigm\":\"parameter_server\",\"world_size\":4,\"pipeline\":{\"stages\":2}}",
         "t: pipeline.stages: paradigm \"parameter_server\" goes with no pipeline: its servers own layers of the whole model, and every "
         "worker "
         "computes all of it; use 1, or paradigm \"ddp\""},
        {"{" TINY ",\"paradigm\":\"zero1\",\"world_size\":4,\"batch_size\":2,\"pipeline\":{\"stages\":2,\"chunks\":5}}",
         "t: pipeline.chunks: 5 chunks (times micro_batches 1) of the pipeline's 4 samples (stages * batch_size); at most one each"},
        {"{" TINY ",\"mesh\":{\"order\":[\"tensor\",\"data\"]}}",
         "t: mesh.order: \"tensor-data\" is not one of tensor-pipeline-data, tensor-data-pipeline, pipeline-tensor-data, "
         "pipeline-data-tensor, data-tensor-pipeline, data-pipeline-tensor"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct experiment *e = NULL;
        int count;
        CHECK(experiments_parse(bad[i].text, strlen(bad[i].text), "t", NULL, 0, &e, &count) == DT_ERR_INVALID && !e, "%s", bad[i].text);
        CHECK(strcmp(dt_error_message(), bad[i].message) == 0, "%s\n# wanted\n# %s", dt_error_message(), bad[i].message);
    }
}

/* Which paradigms have the pipeline: the stages of the first experiment, and of the last. */
static void pipelines_of_paradigms(void)
{
    static const struct {
        const char *text, *sets[3];
        int first, last;
    } all[] = {
        {"{" TINY ",\"world_size\":4,\"paradigm\":\"fsdp\"}", {NULL}, 1, 1},
        {"{" TINY ",\"world_size\":4,\"paradigm\":\"pdp\"}", {NULL}, 2, 2},
        {"{" TINY ",\"world_size\":4,\"paradigm\":\"fsdp\",\"pipeline\":{\"stages\":2}}", {NULL}, 2, 2},
        {"{" TINY ",\"world_size\":4,\"paradigm\":\"fsdp\",\"pipeline\":{\"chunks\":2}}", {NULL}, 1, 1},
        {"{" TINY ",\"world_size\":2,\"pipeline\":{\"stages\":2}}", {NULL}, 2, 2},
        {"{" TINY ",\"world_size\":4,\"sweep\":{\"paradigm\":[\"ddp\",\"fsdp\"],\"pipeline.stages\":[1,4]}}", {NULL}, 1, 4},
        /* one sweep over paradigms, in which each reads its own keys */
        {"{" TINY ",\"world_size\":4,\"pipeline\":{\"stages\":4},\"sweep\":{\"paradigm\":[\"ddp\",\"pdp\"]}}", {NULL}, 1, 4},
        {"{" TINY ",\"world_size\":4,\"pipeline\":{\"stages\":4,\"paradigms\":\"all\"},\"sweep\":{\"paradigm\":[\"ddp\",\"pdp\"]}}",
         {NULL},
         4,
         4},
        {"{" TINY ",\"world_size\":4,\"pipeline\":{\"stages\":4},\"sweep\":{\"paradigm\":[\"pdp\",\"ddp\"]}}", {"paradigm=zero1"}, 1, 1},
        {"{" TINY ",\"world_size\":4,\"sweep\":{\"paradigm\":[\"pdp\",\"ddp\"]}}", {"paradigm=zero1", "pipeline.stages=2"}, 2, 2},
        {"{" TINY ",\"world_size\":4,\"sweep\":{\"paradigm\":[\"pdp\",\"ddp\"]}}", {"pipeline.stages=4"}, 4, 1},
        {"{" TINY ",\"world_size\":4,\"paradigm\":\"pdp\",\"pipeline\":{\"stages\":4}}",
         {"paradigm=ddp", "sweep.pipeline.stages=[2,4]"},
         2,
         4},
        /* the config of an older record, from before the choice existed */
        {"{" TINY ",\"world_size\":4,\"paradigm\":\"ddp\",\"pipeline\":{\"stages\":2,\"chunks\":2,\"order\":\"gpipe\"},"
         "\"hsdp\":{\"shard_size\":0},\"parameter_server\":{\"servers\":1}}",
         {NULL},
         1,
         1},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct experiment *e = NULL;
        int count = 0, sets = 0;
        while (all[i].sets[sets])
            sets++;
        CHECK_OK(experiments_parse(all[i].text, strlen(all[i].text), "t", all[i].sets, sets, &e, &count));
        if (e)
            CHECK(e[0].strategy.stages == all[i].first && e[count - 1].strategy.stages == all[i].last, "%s: %d and %d", all[i].text,
                  e[0].strategy.stages, e[count - 1].strategy.stages);
        free(e);
    }
}

/* Keys that affect the result are in the written config, also with their default, and in the hash;
 * other keys are in neither. */
static void keys_with_a_part(void)
{
#define RUN(more) "{" TINY ",\"device\":\"sim\",\"world_size\":4,\"batch_size\":4," more "}"
    static const struct {
        const char *text, *same, *other; /* configs with the same hash, and with another one */
        const char *has[5], *lacks[9];
    } rows[] = {
        {RUN("\"paradigm\":\"fsdp\""),
         RUN("\"paradigm\":\"fsdp\",\"pipeline\":{\"chunks\":4,\"order\":\"1f1b\"},\"ddp\":{\"bucket_mib\":1},\"mesh\":{\"order\":"
             "\"data-tensor-pipeline\"},\"optimizer\":{\"beta1\":0.5},\"graph\":false"),
         RUN("\"paradigm\":\"fsdp\",\"fsdp\":{\"gather\":\"step\"}"),
         {"\"fsdp\":{\"unit\":\"block\",\"gather\":\"micro_batch\",\"prefetch\":1}", "\"mlp\":\"gelu\"", "\"position\":\"learned\"",
          "\"network\":{\"gbit_per_s\":0,\"latency_us\":-1}"},
         {"pipeline", "hsdp", "ddp", "parameter_server", "mesh", "straddle", "beta", "graph", "rope"}},
        {RUN("\"paradigm\":\"pdp\""),
         RUN("\"paradigm\":\"pdp\",\"pipeline\":{\"split\":\"balanced\",\"virtual_stages\":3,\"memory_limit\":1}"),
         RUN("\"paradigm\":\"pdp\",\"pipeline\":{\"split\":\"parameters\"}"),
         {"\"pipeline\":{\"stages\":2,\"chunks\":2,\"order\":\"gpipe\",\"split\":\"balanced\"}",
          "\"mesh\":{\"order\":\"tensor-pipeline-data\"}", "\"ddp\":{\"bucket_mib\":25,\"overlap\":true}", "\"straddle_nodes\":false"},
         {"fsdp", "virtual", "memory_limit\"", "paradigms", "sequence_parallel"}},
        {RUN("\"paradigm\":\"zero1\""),
         RUN("\"paradigm\":\"zero1\",\"ddp\":{\"overlap_param_gather\":false}"),
         RUN("\"paradigm\":\"zero1\",\"ddp\":{\"overlap_param_gather\":true}"),
         {"\"ddp\":{\"bucket_mib\":25,\"overlap\":true}"},
         {"overlap_param_gather"}},
        {RUN("\"paradigm\":\"ddp\""),
         RUN("\"paradigm\":\"ddp\",\"ddp\":{\"overlap_param_gather\":true}"),
         RUN("\"paradigm\":\"ddp\",\"ddp\":{\"overlap\":false}"),
         {"\"ddp\":{\"bucket_mib\":25,\"overlap\":true}"},
         {"overlap_param_gather"}},
        {RUN("\"paradigm\":\"zero1\",\"pipeline\":{\"stages\":2}"),
         RUN("\"paradigm\":\"zero1\",\"pipeline\":{\"stages\":2,\"paradigms\":\"all\"}"),
         RUN("\"paradigm\":\"zero1\",\"pipeline\":{\"stages\":2},\"mesh\":{\"order\":\"tensor-data-pipeline\"}"),
         {"\"pipeline\":{\"stages\":2,", "\"mesh\":{\"order\":\"tensor-pipeline-data\"}"},
         {"paradigms"}},
        {RUN("\"paradigm\":\"ddp\",\"tensor\":{\"size\":2},\"optimizer\":{\"name\":\"adam\"}"),
         RUN("\"paradigm\":\"ddp\",\"tensor\":{\"size\":2},\"optimizer\":{\"name\":\"adam\"},\"seed\":1"),
         RUN("\"paradigm\":\"ddp\",\"tensor\":{\"size\":2,\"sequence_parallel\":false},\"optimizer\":{\"name\":\"adam\"}"),
         {"\"tensor\":{\"size\":2,\"sequence_parallel\":true}", "\"beta1\":0.9,\"beta2\":0.999,\"epsilon\":1e-08", "\"mesh\""},
         {"pipeline\":", "fsdp"}},
        /* records of older versions, with the keys of all paradigms and without those that came
         * later */
        {RUN("\"paradigm\":\"fsdp\""),
         RUN("\"paradigm\":\"fsdp\",\"straddle_nodes\":false,\"pipeline\":{\"stages\":2,\"chunks\":2,\"order\":\"gpipe\",\"virtual_"
             "stages\":2,"
             "\"memory_limit\":0},\"fsdp\":{\"unit\":\"block\"},\"hsdp\":{\"shard_size\":0},\"ddp\":{\"bucket_mib\":25},"
             "\"parameter_server\":{\"servers\":1},\"tensor\":{\"size\":1}"),
         RUN("\"paradigm\":\"fsdp\",\"pipeline\":{\"stages\":2}"),
         {NULL},
         {NULL}},
    };
#undef RUN
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int count;
        char *text = NULL;
        struct experiment *e = parse(rows[i].text, &count), *same = parse(rows[i].same, &count), *other = parse(rows[i].other, &count);
        if (e && same && other) {
            CHECK(strcmp(e->hash, same->hash) == 0 && strcmp(e->hash, other->hash) != 0, "%s: %s %s %s", rows[i].text, e->hash, same->hash,
                  other->hash);
            CHECK_OK(experiment_to_json(same, DT_JSON_COMPACT, &text));
            for (const char *const *key = rows[i].has; text && *key; key++)
                CHECK(strstr(text, *key), "no %s in %s", *key, text);
            for (int k = 0; text && k < 9 && rows[i].lacks[k]; k++)
                CHECK(!strstr(text, rows[i].lacks[k]), "%s in %s", rows[i].lacks[k], text);
        }
        free(text);
        free(e);
        free(same);
        free(other);
    }
}

/* The hash of a record's config can be recomputed from its sorted keys, without the name. */
static void hashes_what_it_writes(void)
{
    int count;
    char *text = NULL;
    struct experiment *e = parse("{" TINY ",\"device\":\"cpu\",\"name\":\"aaa\"}", &count);
    if (e && experiment_to_json(e, DT_JSON_SORTED, &text) == DT_OK) {
        char *name = strstr(text, ",\"name\":\"aaa\"");
        CHECK(name, "%s", text);
        if (name)
            memmove(name, name + 13, strlen(name + 13) + 1);
        char hash[17];
        snprintf(hash, sizeof hash, "%016" PRIx64, dt_hash_fnv1a(text, strlen(text)));
        CHECK(strcmp(hash, e->hash) == 0, "%s, not %s: %s", hash, e->hash, text);
    }
    free(text);
    free(e);
}

/* The largest that the table allows can be described. */
static void describes_large(void)
{
    int count;
    struct experiment *e = parse("{\"model\":{\"preset\":\"GPT1T\"},\"world_size\":4096,\"paradigm\":\"pdp\",\"batch_size\":20,"
                                 "\"pipeline\":{\"stages\":128,\"chunks\":2560}}",
                                 &count);
    CHECK(e && experiment_global_batch(e) == 81920 && dt_model_parameter_count(&e->model) > 1000000000000u);
    free(e);
    e = parse(
        "{\"model\":{\"layers\":4096,\"heads\":4096,\"hidden\":65536,\"vocab_size\":2147483647,\"block_size\":1},\"world_size\":65536,"
        "\"batch_size\":1,\"paradigm\":\"pdp\",\"pipeline\":{\"stages\":4096,\"chunks\":1}}",
        &count);
    CHECK(e && dt_model_parameter_count(&e->model) / 1000000000000u == 492, "%g", e ? (double)dt_model_parameter_count(&e->model) : 0.0);
    free(e);
}

/* Resolved experiments are configs: they parse to themselves, whatever they were made of. */
static void round_trips(void)
{
    static const char *const configs[] = {
        "{" TINY "}",
        "{\"name\":\"\xc3\xa9t\xc3\xa9 "
        "\\\"x\\\"\",\"model\":{\"preset\":\"GPT76B\",\"dropout\":0.3,\"dtype\":\"bf16\"},\"device\":\"sim\",\"cluster\":\"c.json\","
        "\"profile\":\"p.json\"}",
        "{" TINY
        ",\"world_size\":4,\"seed\":9007199254740991,\"optimizer\":{\"name\":\"adam\",\"epsilon\":1.5e-9},\"memory_limit_gib\":0.1,"
        "\"nccl\":{\"NCCL_NET\":\"Socket\",\"NCCL_DEBUG\":\"INFO\"},"
        "\"sweep\":{\"paradigm\":[\"ddp\",\"pdp\",\"fsdp\"],\"model.dtype\":[\"fp32\",\"fp16\",\"bf16\"],\"model.dropout\":[0,0.1,0.7]}}",
        "{" TINY ",\"world_size\":8,\"sweep\":{\"paradigm\":[\"ddp\",\"zero1\",\"fsdp\",\"hsdp\"],\"pipeline.stages\":[1,2,4],"
        "\"mesh.order\":[[\"tensor\",\"data\",\"pipeline\"],\"tensor-pipeline-data\"],\"fsdp.gather\":[\"step\",\"micro_batch\"]}}",
        "{" TINY ",\"sweep\":{\"model.position\":[\"learned\",\"rope\",\"alibi\"],\"seed\":[9,10,9007199254740991],"
        "\"cases\":[{},{\"model\":{\"mlp\":\"swiglu\"}},{\"nccl\":{\"NCCL_NET\":\"Socket\"}}]}}",
        "{\"batch_size\":4,\"sweep\":{\"model.preset\":[\"GPTSmall\",\"Llama-3.1-8B\",\"GPT76B\"],\"seed\":[1,20]}}",
    };
    static const int counts[] = {1, 1, 27, 30, 27, 6}; /* fsdp.gather multiplies two of the four, mesh.order what has a pipeline */
    for (size_t c = 0; c < sizeof configs / sizeof configs[0]; c++) {
        int count, again_count;
        struct experiment *all = parse(configs[c], &count);
        for (int i = 0; i < count; i++) {
            char *text;
            CHECK_OK(experiment_to_json(&all[i], DT_JSON_COMPACT, &text));
            struct experiment *again = parse(text, &again_count);
            CHECK(again_count == 1 && again && strcmp(again->hash, all[i].hash) == 0, "%s", text);
            for (int f = 0; again && f < experiment_table()->count; f++) {
                const struct dt_field *field = &experiment_table()->fields[f];
                CHECK(!experiment_shows(&all[i], field) || dt_field_same(field, again, &all[i]), "%s of %s", field->path, text);
            }
            free(again);
            free(text);
            for (int k = 0; k < i; k++)
                CHECK(strcmp(all[i].hash, all[k].hash) != 0, "combinations %d and %d have the same hash", i, k);
        }
        CHECK(count == counts[c], "config %zu: %d", c, count);
        free(all);
    }
}

static void nccl_settings(void)
{
    static const char config[] =
        "{" TINY ",\"nccl\":{\"NCCL_PROTO\":\"LL\",\"NCCL_ALGO\":\"Ring\",\"NCCL_P2P_DISABLE\":true,\"NCCL_BUFFSIZE\":4194304},"
        "\"sweep\":{\"nccl\":[{},{\"NCCL_PROTO\":\"Simple\"}],\"seed\":[1,2]}}";
    static const char *const set[] = {"nccl.NCCL_ALGO=Tree", "sweep.nccl=[{}]", "sweep.seed=[3]"};
    int count;
    struct experiment *all = parse(config, &count), *changed = NULL;
    if (!all)
        return;
    const char *base = "{\"NCCL_ALGO\":\"Ring\",\"NCCL_BUFFSIZE\":\"4194304\",\"NCCL_P2P_DISABLE\":\"1\",\"NCCL_PROTO\":\"LL\"}";
    CHECK(count == 4 && strcmp(all[0].nccl, base) == 0, "%d: %s", count, all[0].nccl);
    CHECK(strstr(all[2].nccl, "\"NCCL_PROTO\":\"Simple\"") && strstr(all[2].nccl, "\"NCCL_ALGO\":\"Ring\""), "%s", all[2].nccl);
    CHECK(strcmp(all[0].hash, all[2].hash) != 0);
    CHECK_OK(experiment_set_environment(&all[2]));
    CHECK(strcmp(getenv("NCCL_PROTO"), "Simple") == 0 && strcmp(getenv("NCCL_P2P_DISABLE"), "1") == 0);
    CHECK_OK(experiments_parse(config, strlen(config), "t", set, 3, &changed, &count));
    CHECK(count == 1 && strstr(changed->nccl, "\"NCCL_ALGO\":\"Tree\"") && strstr(changed->nccl, "\"NCCL_PROTO\":\"LL\""), "%s",
          changed->nccl);
    free(changed);
    free(all);
    for (int length = 63; length <= 64; length++) {
        char text[512], name[65] = "NCCL_";
        memset(name + 5, 'A', (size_t)length - 5);
        snprintf(text, sizeof text, "{" TINY ",\"nccl\":{\"%s\":1}}", name);
        dt_status status = experiments_parse(text, strlen(text), "t", NULL, 0, &all, &count);
        CHECK((status == DT_OK) == (length == 63), "%d characters: %s", length, dt_error_message());
        free(status == DT_OK ? all : NULL);
    }
}

static void hashes(void)
{
    int count;
    struct experiment *a = parse("{" TINY "}", &count);
    struct experiment *same =
        parse("{\"name\":\"other\",\"steps\":{\"timed\":4},\"fsdp\":{\"unit\":\"auto\"}," TINY ",\"loss_scaling\":65536.0}", &count);
    struct experiment *other = parse("{" TINY ",\"seed\":2}", &count), *none = parse("{" TINY ",\"seed\":0}", &count);
    CHECK(a && none && none->seed == 0 && strcmp(a->hash, none->hash) != 0);
    free(none);
    CHECK(a && same && strcmp(a->hash, same->hash) == 0);
    CHECK(a && other && strcmp(a->hash, other->hash) != 0);
    CHECK(a && strspn(a->hash, "0123456789abcdef") == 16);
    free(a);
    free(same);
    free(other);
}

/* Unchanged parts of a sweep are not hashed again, but each hash equals that of the experiment
 * alone. */
static void hashes_of_a_sweep(void)
{
    int count, one;
    struct experiment *all =
        parse("{" TINY ",\"sweep\":{\"seed\":[3,1,22],\"optimizer.learning_rate\":[0.5,0.125],\"batch_size\":[4,2,16]}}", &count);
    CHECK(all && count == 18);
    for (int i = 0; all && i < count; i++) {
        char text[512];
        snprintf(text, sizeof text, "{" TINY ",\"seed\":%" PRIu64 ",\"optimizer\":{\"learning_rate\":%g},\"batch_size\":%g}", all[i].seed,
                 all[i].optimizer.learning_rate, all[i].batch_size);
        struct experiment *alone = parse(text, &one);
        CHECK(alone && strcmp(alone->hash, all[i].hash) == 0, "%s", text);
        free(alone);
    }
    free(all);
}

static void sets_and_files(void)
{
    static const char *const sets[] = {"model.dtype=bf16", "paradigm=fsdp", "sweep.batch_size=[1,2]", "device=cpu"};
    char path[] = "/tmp/dt_test_experiment_XXXXXX";
    const char *text = "{" TINY ",\"world_size\":2,\"sweep\":{\"paradigm\":[\"ddp\",\"pdp\"]}}";
    int fd = mkstemp(path), count;
    FILE *file = fdopen(fd, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
    struct experiment *e = NULL;
    struct experiment_list *list = NULL;
    CHECK_OK(experiments_read(path, sets, 4, false, &list));
    CHECK(list && list->count == 2 && list->all[0].paradigm == PARADIGM_FSDP && list->all[1].batch_size == 2 &&
          list->all[0].model.dtype == DT_BF16 && strcmp(list->all[1].device, "cpu") == 0);
    experiment_list_destroy(list);
    remove(path);
    CHECK(experiments_read(path, NULL, 0, false, &list) == DT_ERR_IO && strstr(dt_error_message(), path), "%s", dt_error_message());
    const char *const wrong[] = {"model.dtype=fp8"};
    CHECK(experiments_parse(text, strlen(text), "t", wrong, 1, &e, &count) == DT_ERR_INVALID);
    CHECK(strcmp(dt_error_message(), "--set model.dtype=fp8: \"fp8\" is not one of fp32, fp16, bf16") == 0, "%s", dt_error_message());
}

/* The table is consistent: strings fit their fields, defaults are in range, every field has a
 * description. */
static void table_is_sound(void)
{
    const struct dt_table *table = experiment_table();
    struct experiment e;
    CHECK_OK(dt_config_defaults(table, &e));
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *f = &table->fields[i];
        CHECK(f->description && strlen(f->description) > 3, "%s", f->path);
        CHECK(dt_config_find(table, f->path) == i, "%s stands twice", f->path);
        double room = f->kind == DT_FIELD_STRING ? (double)f->size - 1 : f->kind == DT_FIELD_TEXT ? DT_FIELD_TEXT_MOST : INFINITY;
        CHECK(dt_field_has_choices(f) || 4 * f->max <= room, "%s: %g characters need not fit %g bytes", f->path, f->max, room);
        for (const char *const *path = f->replaces; path && *path; path++) {
            bool known = false;
            for (int j = 0; j < table->count; j++)
                known |= strncmp(table->fields[j].path, *path, strlen(*path)) == 0;
            CHECK(known, "%s replaces %s, which is no key", f->path, *path);
        }
        for (int c = 0; f->kind == DT_FIELD_STRING && dt_field_choice(f, c); c++)
            CHECK(strlen(dt_field_choice(f, c)) < f->size, "%s: %s is too long", f->path, dt_field_choice(f, c));
    }
}

/* A pipeline that is written for pdp stays pdp's when an override chooses another paradigm, unless
 * overrides ask for stages, in any order. */
static void whose_pipeline(void)
{
    static const struct {
        const char *sets[2];
        enum pipeline_reach reach;
    } rows[] = {
        {{"paradigm=ddp", "seed=2"}, PIPELINE_OF_PDP},
        {{"pipeline.stages=2", "paradigm=ddp"}, PIPELINE_OF_ALL},
        {{"paradigm=ddp", "pipeline.stages=2"}, PIPELINE_OF_ALL},
        {{"paradigm=ddp", "pipeline={\"stages\":2}"}, PIPELINE_OF_ALL},
        {{"sweep.pipeline.stages=[2]", "paradigm=ddp"}, PIPELINE_OF_ALL},
    };
    static const char text[] = "{" TINY ",\"paradigm\":\"pdp\",\"world_size\":4,\"pipeline\":{\"stages\":2,\"chunks\":2}}";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct experiment *e = NULL;
        int count = 0;
        CHECK_OK(experiments_parse(text, strlen(text), "t", rows[i].sets, 2, &e, &count));
        CHECK(e && e->pipeline.paradigms == rows[i].reach && e->pipeline.stages == 2, "row %zu", i);
        free(e);
    }
}

/* Only GPUs have tuned algorithms of products: other devices do not look for the file. */
static void tuning_is_of_gpus(void)
{
    static const char *const devices[] = {"cuda", "auto", "cpu", "sim"};
    for (int d = 0; d < 4; d++) {
        struct experiment *e = NULL;
        int count;
        char text[512];
        snprintf(text, sizeof text, "{" TINY ",\"device\":\"%s\",\"tuning\":\"nowhere/t.json\"}", devices[d]);
        dt_status status = experiments_parse(text, strlen(text), "t", NULL, 0, &e, &count);
        if (status == DT_OK) {
            status = experiment_check_tuning(e, "t");
            CHECK((status == DT_OK) == (d >= 2), "%s: %s", devices[d], dt_error_message());
        }
        CHECK(d < 2 ? status < 0 && strstr(dt_error_message(), "nowhere/t.json") : status == DT_OK, "%s: %s", devices[d],
              dt_error_message());
        free(e);
    }
}

/* Failures without room in the text are counted. */
static void counts_failures(void)
{
    enum { COMBINATIONS = 1000 };
    char text[8192];
    int length = snprintf(text, sizeof text, "{" TINY ",\"world_size\":2,\"sweep\":{\"seed\":[0");
    for (int seed = 1; seed < COMBINATIONS; seed++)
        length += snprintf(text + length, sizeof text - (size_t)length, ",%d", seed);
    length += snprintf(text + length, sizeof text - (size_t)length, "]}}");
    struct experiment *e = NULL;
    int count, lines = 0, left_out = 0;
    CHECK(experiments_parse(text, (size_t)length, "t", NULL, 0, &e, &count) == DT_ERR_INVALID && !e, "refused");
    const char *last = dt_error_message();
    for (const char *feed = strchr(last, '\n'); feed; feed = strchr(last, '\n')) {
        last = feed + 1;
        lines++;
    }
    CHECK(sscanf(last, "and %d more", &left_out) == 1 && lines > 1 && lines + left_out == COMBINATIONS, "%d lines, then %s", lines, last);
}

/* Impossible combinations are left out and counted; other errors of the config still refuse all of
 * it. */
static void leaves_out_combinations(void)
{
    static const struct {
        const char *text;
        int count, left_out, of; /* count 0: refused */
        const char *first;       /* or the whole error */
    } rows[] = {
        {"{" TINY ",\"paradigm\":\"ddp\",\"sweep\":{\"world_size\":[1,2],\"paradigm\":[\"ddp\",\"none\",\"pdp\"]}}", 4, 2, 6,
         "t: sweep combination 3 of 6 (world_size=1, paradigm=\"pdp\"): pipeline.stages: 2 does not divide world_size 1; 1 alone does"},
        {"{" TINY ",\"sweep\":{\"micro_batches\":[16,1,9]}}", 1, 2, 3,
         "t: sweep combination 1 of 3 (micro_batches=16): micro_batches: 16 is more than batch_size 8"},
        {"{" TINY ",\"sweep\":[{\"world_size\":2},{\"world_size\":1}]}", 1, 1, 2,
         "t: sweep combination 1 of 2 ({\"world_size\":2}): world_size: 2 ranks, but paradigm \"none\" is one device; use 1, or another "
         "paradigm"},
        {"{\"sweep\":{\"model\":[{\"layers\":2,\"heads\":3,\"hidden\":64},{\"layers\":2,\"heads\":4,\"hidden\":64}]}}", 1, 1, 2,
         "t: sweep combination 1 of 2 (model={\"layers\":2,\"heads\":3,\"hidden\":64}): model.heads: 3 does not divide model.hidden 64"},
        {"{" TINY ",\"sweep\":{\"seed\":[1,2,1]}}", 3, 0, 3, ""},
        {"{" TINY ",\"sweep\":{\"world_size\":[2,1,3]},\"paradigm\":\"pdp\"}", 1, 2, 3,
         "t: sweep combination 2 of 3 (world_size=1): pipeline.stages: 2 does not divide world_size 1; 1 alone does"},
        {"{\"sweep\":{\"model\":[{\"preset\":\"GPTSmall\"},{\"layers\":2,\"hidden\":64}],\"world_size\":[1,2]}}", 0, 0, 0,
         "t: sweep combination 3 of 4 (model={\"layers\":2,\"hidden\":64}, world_size=1): model.heads: missing; expected layers, heads and "
         "hidden, or a preset\n"
         "t: sweep combination 4 of 4 (model={\"layers\":2,\"hidden\":64}, world_size=2): model.heads: missing; expected layers, heads and "
         "hidden, or a preset"},
        {"{" TINY ",\"sweep\":{\"world_size\":[1,2],\"paradigm\":[\"none\",\"ddpp\"]}}", 0, 0, 0,
         "t: sweep.paradigm[1]: \"ddpp\" is not one of none, ddp, pdp, fsdp, zero1, zero2, hsdp, data_parallel, parameter_server; did you "
         "mean \"ddp\"?"},
        {"{" TINY ",\"sweep\":{\"world_size\":[2,3]}}", 0, 0, 0,
         "t: sweep combination 1 of 2 (world_size=2): world_size: 2 ranks, but paradigm \"none\" is one device; use 1, or another "
         "paradigm\n"
         "t: sweep combination 2 of 2 (world_size=3): world_size: 3 ranks, but paradigm \"none\" is one device; use 1, or another "
         "paradigm"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct experiment_list *list = NULL;
        dt_status status = experiments_parse_list(rows[i].text, strlen(rows[i].text), "t", NULL, 0, &list);
        if (rows[i].count == 0) {
            CHECK(status == DT_ERR_INVALID && !list && strcmp(dt_error_message(), rows[i].first) == 0, "%s", dt_error_message());
            continue;
        }
        CHECK_OK(status);
        if (!list)
            continue;
        const struct left_out *left = &list->left_out;
        CHECK(list->count == rows[i].count && left->count == rows[i].left_out && left->of == rows[i].of,
              "%s: %d experiments, %d of %d left out", rows[i].text, list->count, left->count, left->of);
        CHECK(strcmp(left->first, rows[i].first) == 0, "%s", left->first);
        experiment_list_destroy(list);
    }
}

/* experiments_parse_list and experiments_parse give the same experiments for any sweep, both
 * without repeated combinations. */
static void lists_are_whole(void)
{
#define DDP "{" TINY ",\"world_size\":4,\"paradigm\":\"ddp\","
    static const char *const texts[] = {
        DDP "\"sweep\":{\"seed\":[1,2,3,2,1]}}",
        DDP "\"sweep\":{\"name\":[\"a\",\"b\",\"a\"],\"paradigm\":[\"ddp\",\"fsdp\"],\"ddp.bucket_mib\":[1,2]}}",
        DDP "\"device\":\"cuda\",\"sweep\":{\"nccl.NCCL_ALGO\":[\"Ring\",\"Tree\"],\"tuning\":[\"\",\"t.json\"]}}",
    };
#undef DDP
    static const int counts[] = {5, 9, 4}; /* fsdp has no buckets: one experiment for both sizes */
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct experiment *all = NULL;
        struct experiment_list *list = NULL;
        int count = 0;
        CHECK_OK(experiments_parse(texts[t], strlen(texts[t]), "t", NULL, 0, &all, &count));
        CHECK_OK(experiments_parse_list(texts[t], strlen(texts[t]), "t", NULL, 0, &list));
        CHECK(count == counts[t] && list && list->count == count, "text %zu has %d", t, count);
        for (int i = 0; list && i < count; i++)
            CHECK(memcmp(&list->all[i], &all[i], sizeof *all) == 0, "text %zu, experiment %d", t, i);
        experiment_list_destroy(list);
        free(all);
    }
}

static const struct test_case cases[] = {
    {"tuning is of GPUs", tuning_is_of_gpus},
    {"a list of experiments", lists_are_whole},
    {"combinations that cannot be are left out", leaves_out_combinations},
    {"whose pipeline it is", whose_pipeline},
    {"defaults", defaults},
    {"worlds have time to start", worlds_have_time_to_start},
    {"defaults that hang on other fields", dependent_defaults},
    {"combinations that make no sense are refused", refuses_combinations},
    {"failures beyond the room for them are counted", counts_failures},
    {"meshes that make no sense are refused", refuses_meshes},
    {"whose the pipeline is", pipelines_of_paradigms},
    {"what is written has a part in the result", keys_with_a_part},
    {"the hash is that of what is written", hashes_what_it_writes},
    {"the largest can be described", describes_large},
    {"resolved experiments parse to themselves", round_trips},
    {"NCCL settings", nccl_settings},
    {"the hash sees what matters and nothing else", hashes},
    {"hashes of a sweep", hashes_of_a_sweep},
    {"--set, and files", sets_and_files},
    {"the table of fields is sound", table_is_sound},
};
TEST_MAIN(cases)
