/* Jobs of other frameworks: import(export(x)) is x for 1,000 random configs of settings that the
 * framework and dtbench both have. */
#include "cli/words/words.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "test/check.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIGS = 1000, TEXT_BYTES = 4096, FILES = 3 };

/* ---- random configs ---- */

struct dice {
    uint64_t state;
};

/* Source: Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014 (SplitMix64). */
static int below(struct dice *d, int count)
{
    uint64_t z = (d->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (int)((z ^ (z >> 31)) % (uint64_t)count);
}

static const char *one_of(struct dice *d, const char *const *texts, int count)
{
    return texts[below(d, count)];
}

#define ONE_OF(d, ...) one_of(d, (const char *const[]){__VA_ARGS__}, (int)(sizeof(const char *const[]){__VA_ARGS__} / sizeof(const char *)))

static int power(struct dice *d, int most_exponent)
{
    return 1 << below(d, most_exponent + 1);
}

static bool is_fp32(const char *text)
{
    return strstr(text, "\"dtype\":\"fp32\"") != NULL;
}

/* Adam's numbers, or the optimizer's defaults; clipping; fp32 copies of 16-bit parameters, or,
 * where the framework can, none of bf16 ones. */
static void add_optimizer(struct dice *d, char *text, bool can_without)
{
    bool copies = !is_fp32(text), without = can_without && strstr(text, "\"dtype\":\"bf16\"") && below(d, 2);
    sprintf(text + strlen(text), ",\"optimizer\":{\"name\":\"adam\",\"clip_norm\":%s,\"master_weights\":%s", ONE_OF(d, "0", "1", "0.5"),
            copies && !without ? "true" : "false");
    if (below(d, 2))
        sprintf(text + strlen(text), ",\"learning_rate\":%s,\"beta2\":%s,\"epsilon\":%s", ONE_OF(d, "0.0003", "6e-5"),
                ONE_OF(d, "0.95", "0.999"), ONE_OF(d, "1e-8", "1e-5"));
    strcat(text, "}");
    if (strstr(text, "\"dtype\":\"fp16\""))
        strcat(text, ONE_OF(d, ",\"loss_scaling\":1024", ",\"loss_scaling\":\"dynamic\"",
                            ",\"loss_scaling\":\"dynamic\",\"dynamic_loss_scale\":{\"initial\":4096,\"window\":500}"));
}

#define EACH ",\"gradient_reduction\":\"each\""

static void megatron_config(struct dice *d, char *text)
{
    int tensor = power(d, 2), stages = power(d, 2), parts = stages > 1 && below(d, 2) ? 2 : 1, data = power(d, 2);
    int layers = stages * parts * (1 + below(d, 3)), heads = 4 * (1 + below(d, 3)), ranks = tensor * stages;
    int batch = 1 + below(d, 4), passes = stages > 1 ? parts > 1 ? stages : ranks * batch : below(d, 2) ? ranks * batch : 1;
    const char *mlp = ONE_OF(d, "gelu", "gelu_new", "swiglu"), *norm = ONE_OF(d, "layer", "rms"),
               *activation = ONE_OF(d, "keep", "core_attention", "checkpoint");
    const char *sharded = stages > 1 ? ONE_OF(d, "ddp", "zero1") : ONE_OF(d, "ddp", "zero1", "zero2", "fsdp");
    sprintf(text,
            "{\"device\":\"sim\",\"world_size\":%d,\"paradigm\":\"%s\",\"batch_size\":%d,\"micro_batches\":%d,\"mesh\":{\"order\":"
            "\"tensor-data-pipeline\"},\"tensor\":{\"size\":%d,\"sequence_parallel\":%s},\"activation\":\"%s\",\"activation_blocks\":%d,"
            "\"ddp\":{\"bucket_mib\":%s}",
            ranks * data, data == 1 ? "none" : sharded, batch, stages > 1 ? 1 : passes, tensor, ONE_OF(d, "true", "false"), activation,
            strcmp(activation, "checkpoint") == 0 ? 1 + below(d, 2) : 1, ONE_OF(d, "25", "40", "65536,\"overlap\":false"));
    sprintf(
        text + strlen(text),
        ",\"model\":{\"layers\":%d,\"heads\":%d,\"hidden\":%d,\"vocab_size\":%d,\"block_size\":%d,\"dtype\":\"%s\",\"dropout\":%s,\"mlp\":"
        "\"%s\",\"ffn\":%d,\"norm\":\"%s\",\"norm_epsilon\":%s,\"kv_heads\":%d,\"bias\":\"%s\",\"tied\":%s,\"qk_norm\":%s,\"attention\":\"%"
        "s\"",
        layers, heads, heads * 32, 1000 * tensor, 128, ONE_OF(d, "bf16", "fp16", "fp32"),
        ONE_OF(d, "0", "0.1", "0.1,\"attention_dropout\":\"none\""), mlp, below(d, 2) * 512, norm, ONE_OF(d, "1e-5", "1e-6"),
        below(d, 2) * 4, ONE_OF(d, "all", "qkv", "none"), ONE_OF(d, "true", "false"), ONE_OF(d, "true", "false"),
        ONE_OF(d, "fused", "unfused"));
    if (below(d, 2))
        strcat(text, ",\"position\":\"learned\"}");
    else
        sprintf(text + strlen(text), ",\"position\":\"rope\",\"rope\":{\"base\":%s%s}}", ONE_OF(d, "10000", "500000"),
                ONE_OF(d, "", ",\"scaling\":\"llama3\",\"factor\":32"));
    if (stages > 1) {
        sprintf(text + strlen(text), ",\"pipeline\":{\"stages\":%d,\"chunks\":%d,\"order\":\"%s\",\"virtual_stages\":2,\"split\":[", stages,
                passes, parts > 1 ? "interleaved" : "1f1b");
        for (int i = 1; i < stages * parts; i++)
            sprintf(text + strlen(text), "%s%d", i > 1 ? "," : "", i * layers / (stages * parts));
        strcat(text, "]}");
    }
    add_optimizer(d, text, false);
    if (!is_fp32(text))
        strcat(text, ONE_OF(d, "", ",\"fp8\":{\"recipe\":\"delayed\"}", ",\"fp8\":{\"recipe\":\"current\",\"gather\":true}"));
    if (passes > 1 && stages == 1 && (strstr(text, "\"zero2\"") || strstr(text, "\"fsdp\"")))
        strcat(text, EACH);
    if (!is_fp32(text)) /* gradients that are kept in fp32 are sent in fp32 */
        strcat(text, ONE_OF(d, "", ",\"gradient_dtype\":\"fp32\""));
    strcat(text, "}");
}

/* Accumulated gradients are reduced part by part. Without FSDP weights are whole on one device alone, or products are fp32; gradients have the
 * weights' type, and travel in fp32 with FSDP. */
static void torchtitan_config(struct dice *d, char *text)
{
    int tensor = power(d, 3), stages = power(d, 2), data = power(d, 3), ranks = tensor * stages, batch = power(d, 2), parts = power(d, 1);
    const char *order = ONE_OF(d, "gpipe", "1f1b", "interleaved", "zb_v");
    const char *sharded = ranks > 1 ? ONE_OF(d, "fsdp", "hsdp") : ONE_OF(d, "ddp", "fsdp", "hsdp");
    bool plain = data == 1 || strcmp(sharded, "ddp") == 0;
    const char *dtype = plain && ranks > 1 ? "fp32" : ONE_OF(d, "bf16", "fp32");
    const char *paradigm = data == 1 ? "none" : data < 4 && strcmp(sharded, "hsdp") == 0 ? "fsdp" : sharded;
    sprintf(
        text,
        "{\"device\":\"sim\",\"world_size\":%d,\"paradigm\":\"%s\",\"batch_size\":%d,\"micro_batches\":%d,\"mesh\":{\"order\":"
        "\"tensor-data-pipeline\"},\"tensor\":{\"size\":%d},\"activation\":\"%s\",\"parameter_offload\":%s,\"fsdp\":{\"unit\":\"block\","
        "\"gather\":\"%s\"},\"hsdp\":{\"shard_size\":2},\"model\":{\"preset\":\"%s\",\"block_size\":%d,\"dtype\":\"%s\"}",
        ranks * data, paradigm, batch, parts, tensor, ONE_OF(d, "keep", "checkpoint"), ONE_OF(d, "false", "true"),
        ONE_OF(d, "micro_batch", "step"), ONE_OF(d, "Llama-3.1-8B", "Llama-3.1-70B"), 1024 * power(d, 3), dtype);
    if (stages > 1)
        sprintf(text + strlen(text), ",\"pipeline\":{\"stages\":%d,\"chunks\":%d,\"order\":\"%s\"}", stages, stages, order);
    if (parts > 1)
        strcat(text, EACH);
    if (strstr(text, "\"activation\":\"checkpoint\""))
        strcat(text, ONE_OF(d, "", ",\"activation_every\":2", ",\"activation_every\":3"));
    if (!is_fp32(text) && strstr(text, "\"parameter_offload\":false"))
        strcat(text, ONE_OF(d, "", ",\"fp8\":{\"recipe\":\"rowwise\"}", ",\"fp8\":{\"recipe\":\"tensorwise\",\"gather\":true}"));
    add_optimizer(d, text, true);
    bool copies = strstr(text, "\"master_weights\":true") != NULL;
    sprintf(text + strlen(text), ",\"ddp\":{\"bucket_mib\":%d}%s}", copies ? 50 : 100,
            copies                     ? ",\"gradient_dtype\":\"fp32\""
            : !plain && !is_fp32(text) ? ",\"reduce_dtype\":\"fp32\""
                                       : "");
}

/* DeepSpeed reduces part by part from stage 2 on, after the backward pass without ZeRO, where gradients have the model's type,
 * and with fp32 gradients by ZeRO-1 of bf16. */
static void deepspeed_config(struct dice *d, char *text)
{
    int data = power(d, 4), batch = power(d, 3);
    const char *sharded = ONE_OF(d, "ddp", "zero1", "zero2", "fsdp", "hsdp");
    const char *paradigm = data == 1 ? "none" : data < 4 && strcmp(sharded, "hsdp") == 0 ? "fsdp" : sharded;
    const char *dtype = ONE_OF(d, "bf16", "fp16", "fp32");
    bool half = strcmp(dtype, "fp32") != 0, staged = strcmp(paradigm, "ddp") != 0 && data > 1, wide = half && staged && below(d, 2);
    bool late = data > 1 && (!staged || (strcmp(paradigm, "zero1") == 0 && strcmp(dtype, "bf16") == 0 && wide));
    const char *bucket = late ? "65536,\"overlap\":false" : ONE_OF(d, "25", "500", "25,\"overlap\":false");
    bool whole = strcmp(paradigm, "fsdp") == 0 || strcmp(paradigm, "hsdp") == 0;
    int parts = 1 + below(d, 2) * (batch - 1);
    sprintf(text,
            "{\"device\":\"sim\",\"world_size\":%d,\"paradigm\":\"%s\",\"batch_size\":%d,\"micro_batches\":%d,\"parameter_offload\":%s,"
            "\"hsdp\":{\"shard_size\":2},\"ddp\":{\"bucket_mib\":%s},\"model\":{\"preset\":\"GPTSmall\",\"dtype\":\"%s\"}",
            data, paradigm, batch, parts, whole ? ONE_OF(d, "false", "true") : "false", bucket, dtype);
    if (parts > 1 && (whole || strcmp(paradigm, "zero2") == 0))
        strcat(text, EACH);
    add_optimizer(d, text, true);
    if (wide)
        strcat(text, ",\"gradient_dtype\":\"fp32\"");
    if (below(d, 2))
        sprintf(text + strlen(text), ",\"reduce_dtype\":\"%s\"", wide ? dtype : half ? "fp32" : ONE_OF(d, "bf16", "fp16"));
    strcat(text, "}");
}

/* Offload and recomputation are in the file only with FSDP; a script's own settings are not in
 * it. */
static void accelerate_config(struct dice *d, char *text)
{
    int data = power(d, 4);
    const char *sharded = ONE_OF(d, "ddp", "zero2", "fsdp", "hsdp");
    const char *paradigm = data == 1 ? "none" : data < 4 && strcmp(sharded, "hsdp") == 0 ? "fsdp" : sharded;
    bool plain = strcmp(paradigm, "none") == 0 || strcmp(paradigm, "ddp") == 0;
    const char *numbers = ONE_OF(d, "\"bf16\"}", "\"fp16\"},\"loss_scaling\":\"dynamic\"",
                                 "\"fp32\"},\"optimizer\":{\"name\":\"adam\",\"master_weights\":false}");
    sprintf(text,
            "{\"device\":\"sim\",\"world_size\":%d,\"paradigm\":\"%s\",\"batch_size\":2,\"parameter_offload\":%s,\"activation\":\"%s\","
            "\"hsdp\":{\"shard_size\":2},\"model\":{\"preset\":\"GPTSmall\",\"dtype\":%s%s",
            data, paradigm, plain ? "false" : ONE_OF(d, "false", "true"), plain ? "keep" : ONE_OF(d, "keep", "checkpoint"), numbers,
            strstr(numbers, "optimizer") ? "" : ",\"optimizer\":{\"name\":\"adam\"},\"gradient_dtype\":\"fp32\"");
    if (!is_fp32(text) && plain)
        strcat(text, ",\"ddp\":{\"bucket_mib\":12.5}");
    else if (!is_fp32(text))
        sprintf(text + strlen(text), ",\"reduce_dtype\":\"%.4s\"", numbers + 1);
    strcat(text, "}");
}

/* ---- there and back ---- */

static const struct {
    const char *name;
    void (*config)(struct dice *d, char *text);
    struct import_options options; /* options for what the file does not contain */
} spaces[] = {
    {"megatron", megatron_config, {.model = NULL}},
    {"torchtitan", torchtitan_config, {.model = NULL}},
    {"deepspeed", deepspeed_config, {.model = "GPTSmall"}},
    {"fsdp", accelerate_config, {.micro_batch = 2, .model = "GPTSmall"}},
};

static bool parse(const char *text, struct experiment *out)
{
    struct experiment *all;
    int count;
    if (experiments_parse(text, strlen(text), "x", NULL, 0, &all, &count) < 0)
        return false;
    *out = all[0];
    free(all);
    return true;
}

/* Write the job to a file and read it again. */
static struct cJSON *through_a_file(const struct framework *f, const struct cJSON *theirs)
{
    char path[] = "/tmp/dtbench-words-XXXXXX";
    struct cJSON *tree = NULL;
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    words_write_text(f, theirs, file);
    fclose(file);
    dt_status status = words_read_text(path, f, &tree);
    unlink(path);
    if (status == DT_ERR_UNAVAILABLE) /* this machine has no Python that reads the format */
        return cJSON_Duplicate(theirs, true);
    CHECK(status == DT_OK, "%s: %s", f->name, dt_error_message());
    return tree;
}

/* Flags and JSON always go through a file; formats that Python reads do so a few times, because
 * Python starts slowly. */
static void there_and_back(int space, int index, const char *text, const struct experiment *x)
{
    const struct framework *f = framework_find(spaces[space].name);
    struct dt_translation to, from;
    struct experiment y;
    char *wanted, *found, *config;
    CHECK(framework_export(f, x, &to) == DT_OK);
    const char *cannot = dt_first_remark(&to, DT_REMARK_CANNOT);
    CHECK(!cannot, "%s: %s: %s", f->name, cannot ? cannot : "", text);
    bool by_file = f->format == TEXT_FLAGS || f->format == TEXT_JSON || index < FILES;
    struct cJSON *theirs = by_file ? through_a_file(f, to.theirs) : cJSON_Duplicate(to.theirs, true);
    CHECK(framework_of(theirs) == f, "%s is known by its marks", f->name);
    CHECK(framework_import(f, theirs, &spaces[space].options, &from) == DT_OK);
    cannot = dt_first_remark(&from, DT_REMARK_CANNOT);
    CHECK(!cannot, "%s: %s: %s", f->name, cannot ? cannot : "", text);
    CHECK(dt_json_print(from.ours, DT_JSON_COMPACT, &config) == DT_OK);
    CHECK(parse(config, &y), "%s: %s of %s", f->name, dt_error_message(), config);
    CHECK(experiment_to_json(x, DT_JSON_COMPACT, &wanted) == DT_OK);
    CHECK(experiment_to_json(&y, DT_JSON_COMPACT, &found) == DT_OK);
    CHECK(strcmp(wanted, found) == 0, "%s\n# wanted %s\n# found  %s", f->name, wanted, found);
    free(config);
    free(wanted);
    free(found);
    dt_translation_finish(&to);
    dt_translation_finish(&from);
}

static void round_trips(void)
{
    for (size_t s = 0; s < sizeof spaces / sizeof *spaces; s++) {
        struct dice d = {s + 1};
        for (int i = 0, tried = 0; i < CONFIGS; tried++) {
            char text[TEXT_BYTES];
            struct experiment x;
            spaces[s].config(&d, text);
            bool is_one = parse(text, &x);
            CHECK(tried < 2 * CONFIGS, "%s: too few of the random configs are one: %s", spaces[s].name, dt_error_message());
            if (is_one && !test_leave_out())
                there_and_back((int)s, i, text, &x);
            i += is_one;
        }
    }
}

/* ---- command lines ---- */

static void shells(void)
{
    static const char script[] =
        "#!/bin/bash\nSIZE=4096 # hidden\nN='8'\nARGS=\"\n  --num-layers 3 \\\n  --swiglu\n\"\nMORE=(\n --hidden_size $SIZE\n"
        "   # --fp16\n --split '99,1,0' --lr=1e-4 \"--fp8-format hybrid\"\n)\n"
        "torchrun --nproc_per_node ${N} --nnodes ${NODES:-2} --x $((N*2)) --rank $R pretrain.py ${ARGS} ${MORE[@]} "
        "--sequence-parallel\necho done\n"
        "cp a.txt b.txt --bf16 2>&1 | tee > log --untie; ls --qk_layernorm >log 7 --mtp & wait";
    struct cJSON *flags;
    CHECK(words_read_flags(script, "test.sh", &flags) == DT_OK);
    static const struct {
        const char *flag, *value;
    } expected[] = {
        {"num-layers", "3"},           {"swiglu", "true"},      {"hidden-size", "4096"}, {"split", "99,1,0"},   {"lr", "1e-4"},
        {"fp8-format", "hybrid"},      {"nproc-per-node", "8"}, {"nnodes", "2"},         {"x", "16"},           {"rank", "$R"},
        {"sequence-parallel", "true"}, {"bf16", "true"},        {"untie", "true"},       {"qk-layernorm", "7"}, {"mtp", "true"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(dt_json_is(dt_json_at(flags, expected[i].flag), expected[i].value), "--%s", expected[i].flag);
    CHECK(!dt_json_at(flags, "fp16"), "a comment is no flag");
    dt_json_destroy(flags);
}

/* Flags that are appended, branches that are taken and those that are not, sums, and a command in a
 * quoted word. */
static void scripts(void)
{
    static const char script[] =
        "ARGS=\"--num-layers 3\"\nARGS=\"$ARGS --swiglu \\\n\"\nFSDP=\"${FSDP:-0}\"; SIZE=7B\n"
        "if [ \"$FSDP\" -eq 1 ]; then #comment\n  TP=1\n  if [[ -z $A ]]; then ARGS+=\" --use-fsdp\"; fi\nelif [[ $SIZE == 7* && ! -n "
        "\"$KEY\" ]]\n"
        "then TP=8\nelse\n TP=2; ARGS=(--bf16)\nfi\n"
        "case \"${SIZE}\" in\n  # (small)\n 1b|3b) H=1 ;;\n '7b'|7B) H=4096\n if true; then A=32; fi;;\n *) H=2; ARGS=\"--fp16 1\" "
        ";;\nesac\n"
        "if test -f x; then B=1; fi\nfor i in 1 2; do if [ $TP -gt 8 ] || false; then H=3; fi; done\n"
        "W=`python -c \"print(8)\"`\nN=$(rdma link | sed 's/(//;s/)//' | (cat))\nG=$(((2 + TP) * ${A} / 4 - 1%2))\n"
        "srun -l sh -c \"python -u train.py $ARGS --tp $TP --hidden $H --gbs $G --lr $B --w $W --y $(($1 * 2))\"";
    struct cJSON *flags;
    CHECK_OK(words_read_flags(script, "test.sh", &flags));
    static const struct {
        const char *flag, *value;
    } expected[] = {{"num-layers", "3"}, {"swiglu", "true"}, {"tp", "8"},         {"hidden", "4096"},
                    {"gbs", "79"},       {"lr", "$B"},       {"y", "$(($1 * 2))"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(dt_json_is(dt_json_at(flags, expected[i].flag), expected[i].value), "--%s", expected[i].flag);
    CHECK(!dt_json_at(flags, "use-fsdp") && !dt_json_at(flags, "bf16") && !dt_json_at(flags, "fp16"), "a branch that is not taken");
    dt_json_destroy(flags);
    CHECK_OK(words_read_flags(
        "N=${NODES:=2} M=${X-3}\n[ $N -gt 2 ] && ARGS=\"--fp8 x\" || ARGS=\"--fp16 |& tee log\"\n[[ $M == 3 && $N != 3 ]] &&\n  TP=4\n"
        "(( N * 2 >= 5 )) && TP=5\nfalse; mkdir x || TP=6 && PP=7; for ((i=0; i<3; i++)); do TP=$TP; done\n"
        "srun --nodes 2 python a.py $ARGS --tp $TP --modules a b \\\n c --pp $PP -m x --n $N |& tee y",
        "test.sh", &flags));
    static const char *const read[][2] = {{"fp16", "true"}, {"tp", "4"}, {"pp", "7"}, {"modules", "a b c"}, {"n", "2"}, {"nodes", "2"}};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        CHECK(dt_json_is(dt_json_at(flags, read[i][0]), read[i][1]), "--%s", read[i][0]);
    CHECK(!dt_json_at(flags, "fp8"), "a test that fails");
    dt_json_destroy(flags);
    CHECK(words_read_flags("[ \"$FP8\" = 1 ] && ARGS=\"--fp8 --x\"\npython a.py $ARGS", "test.sh", &flags) == DT_ERR_INVALID);
    CHECK(words_read_flags("A=1\n\nif [ \"$FP8\" = 1 ]; then A=2; ARGS=\"--fp8 --x\"; fi\npython a.py $ARGS", "test.sh", &flags) ==
          DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "test.sh:3: flags depend on [ \"$FP8\" = 1 ], which"), "%s", dt_error_message());
    CHECK_OK(words_read_flags("python - <<E\nif x:\n  y()\nE\npython a.py --x 1; if", "test.sh", &flags));
    CHECK(dt_json_is(dt_json_at(flags, "x"), "1"));
    dt_json_destroy(flags);
}

static void several_programs(void)
{
    static const char *const scripts[] = {"python a.py --x 1\npython b.py --x 2", "if x; then python a.py; else python a.py --y; fi",
                                          "python a.py --x | python b.py"};
    struct cJSON *flags;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        CHECK(words_read_flags(scripts[i], "test.sh", &flags) == DT_ERR_INVALID, "%s", scripts[i]);
        CHECK(strstr(dt_error_message(), "test.sh: has several command lines, the first one of a.py"), "%s", dt_error_message());
    }
    CHECK_OK(words_read_flags("FILES=(\na.py\nb.py\n)\nARGS=\"\n--x a.py\n --y b.py\"\npython run.py \\\n a.py --x; echo 'a b.py'",
                              "test.sh", &flags));
    dt_json_destroy(flags);
}

static const struct test_case cases[] = {
    {"a job that is exported and imported is the same one", round_trips},
    {"flags are read as a shell reads them", shells},
    {"branches that are not taken are not read", scripts},
    {"a script with several programs is refused", several_programs},
};
TEST_MAIN(cases)
