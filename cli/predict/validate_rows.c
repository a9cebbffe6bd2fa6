/* From a row of a table to a run: of results/study/measured.csv, or of a table of meshes. */
#include "cli/predict/validate.h"
#include "predict/profile.h"

#include "lib/base/text.h"
#include "schedules/config/families.h"
#include "schedules/plan/plan.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Read what fsdp gathers at a time, and whether once a step or for each micro-batch. */
static dt_status units_in(const struct measured_table *t, int row, struct measured_run *run)
{
    DT_TRY(measured_choice(t, row, COLUMN_FSDP_WRAP, "block,linear,unknown", &run->wrap));
    return measured_choice(t, row, COLUMN_FSDP_GATHER, "micro_batch,step", &run->gather);
}

/* ---- rows of results/study/measured.csv ---- */

/* Read one of the study's paradigms, or hsdp, which newer measurements have. */
static dt_status paradigm_in(const struct measured_table *t, int row, enum paradigm_kind *out)
{
    static const enum paradigm_kind known[] = {PARADIGM_NONE, PARADIGM_DDP, PARADIGM_PDP, PARADIGM_FSDP, PARADIGM_HSDP};
    char expected[160] = "one of ";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *name = paradigm_name(known[i]);
        size_t used = strlen(expected);
        *out = known[i];
        if (strcmp(measured_text(t, row, COLUMN_PARADIGM), name) == 0)
            return DT_OK;
        snprintf(expected + used, sizeof expected - used, "%s%s", i ? "," : "", name);
    }
    return measured_wrong(t, row, COLUMN_PARADIGM, expected);
}

static dt_status preset_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_MODEL), *owner = strrchr(text, '/'), *nearest = NULL;
    run->preset = model_find_abroad(text, &run->family);
    if (run->preset)
        return DT_OK;
    text = owner ? owner + 1 : text;
    const struct dt_model_preset *preset;
    for (int i = 0; (preset = model_preset(i, &run->family)); i++) {
        const char *name = preset->name;
        if (dt_looks_like(text, name) && (!nearest || dt_edit_distance(text, name) < dt_edit_distance(text, nearest)))
            nearest = name;
    }
    return dt_fail(DT_ERR_INVALID, "%s:%d: model: there is no %.64s; %s%s%s", t->path, t->csv.lines[row], text,
                   nearest ? "did you mean " : "dtbench list names those there are",
                   nearest       ? nearest
                   : t->is_study ? ""
                                 : ", and columns layers, hidden and heads give the sizes of others",
                   nearest ? "?" : "");
}

static bool has_stages(const struct measured_run *run)
{
    return paradigm_of(run->paradigm)->axes & MESH_ON_PIPELINE;
}

dt_status measured_run_of_study(const struct measured_table *t, int i, struct measured_run *run)
{
    int policy;
    *run = (struct measured_run){.dtype = "fp16",
                                 .attention = "unfused",
                                 .loss = "sum",
                                 .tensor = 1,
                                 .contexts = 1,
                                 .micro_batches = 1,
                                 .virtual_stages = 1,
                                 .split = SPLIT_BY_PARAMETERS};
    DT_TRY(paradigm_in(t, i, &run->paradigm));
    DT_TRY(preset_in(t, i, run));
    DT_TRY(measured_counts(t, i, run));
    DT_TRY(measured_choice(t, i, COLUMN_ACTIVATION, "keep,checkpoint,offload", &policy));
    run->activation = policy < 0 ? ACTIVATION_KEEP : (enum activation_kind)policy;
    DT_TRY(units_in(t, i, run));
    DT_TRY(measured_choice(t, i, COLUMN_PARAMETER_OFFLOAD, "0,1", &run->offload));
    if (run->stages > 1 && !has_stages(run))
        return dt_fail(DT_ERR_INVALID, "%s:%d: stages: %d, but only pdp has stages", t->path, t->csv.lines[i], run->stages);
    if (run->samples % run->stages)
        snprintf(run->reason, sizeof run->reason, "batch_per_replica %d is not a multiple of %d stages", run->samples, run->stages);
    return DT_OK;
}

/* ---- rows of tables of meshes ---- */

/* Is `text` a name of the paradigm: ZeRO's stage, FSDP's version or sharding strategy, or dtbench's
 * own? */
static bool is_called(const struct paradigm *paradigm, const char *text)
{
    for (const char *const *name = paradigm->abroad; name && *name; name++)
        if (dt_same_name(*name, text))
            return true;
    return paradigm->axes & MESH_ON_SHARD && dt_same_name(paradigm->name, text);
}

bool measured_is_sharding(const char *name)
{
    const struct paradigm *paradigm;
    bool is = false;
    for (int i = 0; (paradigm = paradigm_of((enum paradigm_kind)i)); i++)
        is |= is_called(paradigm, name);
    return is;
}

/* A column "FSDP" of numbers, as NVIDIA's tables have it: 0 is none, 1 is yes, and other numbers
 * are the ranks that share one copy. Then `name` is that. False: it is no such number. */
static bool fsdp_number(const struct measured_table *t, int row, char name[64], struct measured_run *run)
{
    bool told, yes;
    int ranks = 1;
    if (!dt_is_one_of(measured_name(t, COLUMN_ZERO), "fsdp fsdp_size fsdp_degree"))
        return false;
    if (measured_yes(t, row, COLUMN_ZERO, &told, &yes) < 0 && measured_count(t, row, COLUMN_ZERO, &ranks) < 0)
        return false;
    snprintf(name, 64, "%s", ranks > 1 || yes ? "fsdp" : "");
    run->shard_size = ranks > 1 ? ranks : run->shard_size;
    return true;
}

/* "zero1 group=8", "HSDP (shard 8)": the number of ranks that share one copy follows the name. */
static dt_status group_in(const struct measured_table *t, int row, char name[64], struct measured_run *run)
{
    bool told, distributed;
    DT_TRY(measured_yes(t, row, COLUMN_DISTRIBUTED_OPTIMIZER, &told, &distributed));
    if (run->degrees_told && !t->paradigm)
        snprintf(name, 64, "%s", run->sharing);
    else if (t->paradigm || !fsdp_number(t, row, name, run))
        snprintf(name, 64, "%s", t->paradigm ? t->paradigm : measured_text(t, row, COLUMN_ZERO));
    if (!*name && !told && t->columns[COLUMN_ZERO] < 0 && run->shard_size > 1)
        snprintf(name, 64, "fsdp"); /* a column dp_shard alone */
    run->sharing_told = told || *name;
    if (!*name && distributed)
        snprintf(name, 64, "zero1");
    char *group = strpbrk(name, " (,;"), *end;
    if (measured_is_sharding(name) || !group || !strpbrk(group, "0123456789")) /* the number of "ZeRO stage 3" is no group's */
        return DT_OK;
    long size = strtol(strpbrk(group, "0123456789"), &end, 10);
    if (end[strspn(end, " )")] || size < 1 || size > 1 << 20)
        return measured_wrong(t, row, COLUMN_ZERO, "a name and the ranks of a group, such as \"zero1 group=8\"");
    *group = '\0';
    run->shard_size = (int)size;
    return DT_OK;
}

/* Take degrees from a text such as "TP=4+FSDP=8" or "zero1(dp2)+tp2+pp4", and leave how replicas
 * share the model in `run`. A number of FSDP is that of the ranks that share a copy. False: it has
 * other words, or none of these. */
static bool degrees_in(const struct measured_table *t, int row, struct measured_run *run)
{
    static const struct {
        const char *word;
        size_t to;
    } known[] = {{"dp", offsetof(struct measured_run, data)},        {"ddp", offsetof(struct measured_run, data)},
                 {"tp", offsetof(struct measured_run, tensor)},      {"pp", offsetof(struct measured_run, stages)},
                 {"cp", offsetof(struct measured_run, contexts)},    {"vpp", offsetof(struct measured_run, virtual_stages)},
                 {"fsdp", offsetof(struct measured_run, shard_size)}};
    struct measured_run read = *run;
    bool any = false;
    for (const char *at = measured_text(t, row, COLUMN_ZERO); *at;) {
        char word[8], *end;
        int letters = 0;
        for (at += strspn(at, " +,;()&/-_x*"); isalpha((unsigned char)at[letters]); letters++) {
        }
        snprintf(word, sizeof word, "%.*s", letters, at);
        long degree = strtol(at + letters + strspn(at + letters, "=:-_ "), &end, 10);
        bool found = !letters && !*at;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcasecmp(word, known[i].word) == 0 && degree >= 1 && degree <= 1 << 20) {
                *(int *)((char *)&read + known[i].to) = (int)degree;
                any = found = true;
            }
        if (strcasecmp(word, "zero") == 0 && degree >= 0 && degree <= 3) {
            snprintf(read.sharing, sizeof read.sharing, "zero%ld", degree);
            found = true;
        }
        if (!found)
            return false;
        at = letters ? end : at;
    }
    if (!any)
        return false;
    if (read.shard_size && !run->shard_size) {
        read.data = (read.data ? read.data : 1) * read.shard_size;
        snprintf(read.sharing, sizeof read.sharing, "fsdp");
    }
    *run = read;
    run->degrees_told = true;
    return true;
}

static dt_status replicas_in(const struct measured_table *t, int row, struct measured_run *run)
{
    char name[64];
    int i = 0;
    DT_TRY(group_in(t, row, name, run));
    while (paradigm_of((enum paradigm_kind)i) && !is_called(paradigm_of((enum paradigm_kind)i), name))
        i++;
    if (!paradigm_of((enum paradigm_kind)i))
        return measured_wrong(t, row, COLUMN_ZERO,
                              "one of none, ddp, zero0 to zero3, fsdp, fsdp2, hsdp, NO_SHARD, SHARD_GRAD_OP, FULL_SHARD, HYBRID_SHARD, or "
                              "degrees such as TP=2+PP=4+FSDP=8");
    run->paradigm = (enum paradigm_kind)i;
    if (run->stages > 1 && run->paradigm == PARADIGM_DDP)
        run->paradigm = PARADIGM_PDP;
    else if (run->data == 1 && run->stages == 1 && run->tensor == 1 && run->contexts == 1)
        run->paradigm = PARADIGM_NONE;
    return DT_OK;
}

static void order_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_ORDER);
    const struct pipeline_order *order;
    const bool interleaved = strcasestr(text, "interleav") != NULL;
    run->order = *text && !interleaved ? NULL : interleaved || run->virtual_stages > 1 ? "interleaved" : "1f1b";
    for (int i = 0; !run->order && (order = pipeline_order_at(i)); i++)
        if (measured_begins_with(text, order->name) || measured_begins_with(text, order->abroad))
            run->order = order->name;
    for (int i = 0; run->order && run->virtual_stages < 2 && (order = pipeline_order_at(i)); i++)
        if (order->parts && strcmp(order->name, run->order) == 0)
            run->virtual_stages = order->parts; /* an order may have a number of its own */
    if (!run->order)
        snprintf(run->reason, sizeof run->reason, "schedule \"%.64s\" is not known", text);
    if (interleaved && run->virtual_stages < 2)
        snprintf(run->reason, sizeof run->reason, "schedule \"%.64s\": vpp has no number of parts a rank", text);
}

static void context_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_CONTEXT_COMM);
    for (int i = 0; *text && !run->comm_type && context_kind_name(i); i++)
        run->comm_type = strcmp(context_kind_name(i), text) == 0 ? context_kind_name(i) : NULL;
    if (*text && !run->comm_type)
        snprintf(run->reason, sizeof run->reason, "context parallelism by \"%.64s\"", text);
}

static void numbers_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_DTYPE);
    bool told, bf16;
    if (!*text && measured_yes(t, row, COLUMN_BF16, &told, &bf16) == DT_OK && bf16)
        text = "bf16";
    if (strcasestr(text, "fp8") || strcasestr(text, "float8")) {
        run->fp8 = DT_FP8_DELAYED; /* Transformer Engine's own */
        for (int i = DT_FP8_NONE + 1; i < DT_FP8_RECIPES; i++)
            if (strcasestr(text, dt_fp8_recipe((enum dt_fp8)i)->name))
                run->fp8 = (enum dt_fp8)i;
        if (strcasestr(text, "current") || strcasestr(text, "-cs")) /* Transformer Engine's Float8CurrentScaling */
            run->fp8 = DT_FP8_CURRENT;
        if (strcasestr(text, "-mx"))
            run->fp8 = DT_FP8_MXFP8;
        run->fp8_gather = strcasestr(text, "gather");
    }
    static const char *const known[] = {"16", "32", "bf", "fp8", "half", "mixed", "amp", "float", "single"};
    bool is_known = !*text;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= strcasestr(text, known[i]) != NULL;
    static const char *const others[] = {"tf32", "64", "fp4", "int", "4bit", "4-bit", "8bit", "8-bit"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        is_known &= strcasestr(text, others[i]) == NULL;
    if (!is_known)
        snprintf(run->reason, sizeof run->reason, "%s \"%.64s\" is not known", measured_name(t, COLUMN_DTYPE), text);
    run->dtype = strcasestr(text, "bf") || (run->fp8 && !strstr(text, "16")) ? "bf16"
                 : (strstr(text, "32") && !strstr(text, "16")) || strcasecmp(text, "float") == 0 || strcasecmp(text, "single") == 0
                     ? "fp32"
                     : "fp16";
    run->wide_gradients = strcasestr(text, "fp32 grad") && strcmp(run->dtype, "fp32") != 0 && !t->profile_sums;
}

static void recomputed_in(const struct measured_table *t, int row, struct measured_run *run)
{
    /* The first row matches whose words the text begins with. Korthikanti et al.'s "selective" is
     * Megatron-LM's. */
    static const struct {
        const char *begins;
        enum activation_kind activation;
    } words[] = {{"no", ACTIVATION_KEEP},
                 {"none", ACTIVATION_KEEP},
                 {"false", ACTIVATION_KEEP},
                 {"off", ACTIVATION_KEEP},
                 {"yes", ACTIVATION_CHECKPOINT},
                 {"true", ACTIVATION_CHECKPOINT},
                 {"on", ACTIVATION_CHECKPOINT},
                 {"full", ACTIVATION_CHECKPOINT},
                 {"checkpoint", ACTIVATION_CHECKPOINT},
                 {"checkpointing", ACTIVATION_CHECKPOINT},
                 {"selective op", ACTIVATION_SELECTIVE_OP},
                 {"selective_op", ACTIVATION_SELECTIVE_OP},
                 {"selective-op", ACTIVATION_SELECTIVE_OP},
                 {"op", ACTIVATION_SELECTIVE_OP},
                 {"per op", ACTIVATION_SELECTIVE_OP},
                 {"selective", ACTIVATION_CORE_ATTENTION},
                 {"core", ACTIVATION_CORE_ATTENTION}};
    const char *text = measured_text(t, row, COLUMN_RECOMPUTE);
    bool known = !*text;
    for (size_t i = 0; !known && i < sizeof words / sizeof *words; i++)
        if (measured_begins_with(text, words[i].begins) && !isalpha((unsigned char)text[strlen(words[i].begins)])) {
            run->activation = words[i].activation;
            known = true;
        }
    const char *number = strpbrk(text, "0123456789");
    if (known && run->activation == ACTIVATION_CORE_ATTENTION && (number || measured_begins_with(text, "selective layer"))) {
        run->activation = ACTIVATION_CHECKPOINT;
        run->activation_every = number ? atoi(number) : 2; /* every n-th block; 2: torchtitan's default */
    }
    if (!known || (number && run->activation_every < 1))
        snprintf(run->reason, sizeof run->reason, "%s \"%.64s\" is not known", measured_name(t, COLUMN_RECOMPUTE), text);
}

/* Read a vocabulary size, or a rounded one in thousands ("250k"). */
static dt_status vocabulary_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_VOCAB);
    char *end;
    double thousands = strtod(text, &end);
    if (end == text || strcasecmp(end, "k") != 0 || !(thousands > 0) || thousands > 1 << 14)
        return measured_count(t, row, COLUMN_VOCAB, &run->vocab);
    run->vocab = (int)lround(1000 * thousands);
    snprintf(run->note, sizeof run->note, "%s %.32s is taken as %d", measured_name(t, COLUMN_VOCAB), text, run->vocab);
    return DT_OK;
}

/* Take the sizes of a published model by its name. */
static dt_status sizes_of_preset(const struct measured_table *t, int row, struct measured_run *run)
{
    DT_TRY(preset_in(t, row, run));
    const struct dt_model model = model_of_preset(run->preset, run->family);
    run->layers = dt_model_blocks(&model);
    run->of_images = run->family != model_family(0);
    if (run->of_images && run->sequence)
        return measured_wrong(t, row, COLUMN_MODEL, "a model that is trained on tokens");
    if (run->of_images)
        run->optimizer = "sgd";
    return run->sequence || run->of_images ? DT_OK : measured_wrong(t, row, COLUMN_SEQUENCE, "a whole number from 1");
}

/* Find the architecture of a model that is no preset by its name: "TinyLlama-1.1B" is a Llama. All
 * others are GPTs. */
static void architecture_in(const struct measured_table *t, int row, struct measured_run *run)
{
    static const struct measured_architecture known[] = {
        {"llama", "swiglu", "rms", "rope", "none", 8. / 3},    {"mistral", "swiglu", "rms", "rope", "none", 3.5},
        {"internlm", "swiglu", "rms", "rope", "none", 8. / 3}, {"baichuan", "swiglu", "rms", "rope", "none", 8. / 3},
        {"deepseek", "swiglu", "rms", "rope", "none", 8. / 3}, {"smollm", "swiglu", "rms", "rope", "none", 8. / 3},
        {"qwen", "swiglu", "rms", "rope", "qkv", 8. / 3},      {"mpt", "gelu", "layer", "alibi", "none", 4}};
    enum { MULTIPLE = 256 }; /* of ffn. Source  meta-llama/llama, llama/model.py, multiple_of */
    const char *name = measured_text(t, row, COLUMN_MODEL);
    for (size_t i = 0; !run->architecture && i < sizeof known / sizeof *known; i++)
        run->architecture = strcasestr(name, known[i].word) ? &known[i] : NULL;
    if (run->architecture && !run->ffn)
        run->ffn = (int)ceil(run->architecture->ffn * run->hidden / MULTIPLE) * MULTIPLE;
    if (!run->architecture && run->ffn && run->ffn != 4 * run->hidden)
        dt_append(run->note, sizeof run->note, "; ", "an ffn of %d is taken for an MLP without a gate", run->ffn);
}

static dt_status model_in(const struct measured_table *t, int row, struct measured_run *run)
{
    bool told;
    run->family = model_family(0);
    if (!run->layers && !run->hidden && !run->heads && *measured_text(t, row, COLUMN_MODEL))
        DT_TRY(sizes_of_preset(t, row, run));
    if (!run->preset)
        DT_TRY(measured_has_sizes(t, row, run));
    if (!run->preset)
        architecture_in(t, row, run);
    run->ffn = run->ffn ? run->ffn : 4 * run->hidden;
    run->kv_heads = run->kv_heads ? run->kv_heads : run->heads;
    DT_TRY(measured_yes(t, row, COLUMN_TIED, &told, &run->tied));
    return *measured_text(t, row, COLUMN_VOCAB) ? vocabulary_in(t, row, run) : DT_OK;
}

/* Stages have equal numbers of blocks in Megatron-LM (megatron/model/transformer.py, --num-layers)
 * and DeepSpeed (pipe/module.py, type:transformer). Where the number of blocks is not divisible,
 * but would be with two more, embedding and head count as one block each (Qi et al., arXiv
 * 2401.10241, section 5.1). Else DeepSpeed fills one stage after the other: of 78 blocks on 12
 * stages the last has one (bigscience-workshop/bigscience,
 * train/tr11-176B-ml/chronicles-prequel.md, "Re-do"). */
static void split_in(const struct measured_table *t, int row, struct measured_run *run)
{
    int parts = run->stages * run->virtual_stages, filled = (run->layers + parts - 1) / parts;
    bool deepspeed = strcasestr(measured_text(t, row, COLUMN_ORDER), "deepspeed") && (parts - 1) * filled < run->layers;
    run->split = run->layers % parts == 0         ? SPLIT_EQUAL_BLOCKS
                 : (run->layers + 2) % parts == 0 ? SPLIT_EQUAL_BUT_ENDS
                 : deepspeed                      ? SPLIT_FILLED
                                                  : SPLIT_BALANCED;
}

/* What the table says of a replica's batch before it is accumulated. Without pipelines it is the
 * micro-batch; with them torchtitan cuts it into micro-batches of one sample, and the global batch
 * is that of all replicas, unless more is said (torchtitan/config/job_config.py, local_batch_size,
 * global_batch_size, pipeline_parallel_microbatch_size). */
static void local_batch_in(struct measured_run *run, bool is_accumulated)
{
    if (!run->micro_batch && run->stages > 1)
        snprintf(run->note, sizeof run->note, "micro-batches have one sample, torchtitan's default");
    run->micro_batch = run->micro_batch ? run->micro_batch : run->stages > 1 ? 1 : run->local_batch;
    if (!run->global_batch && !is_accumulated)
        run->global_batch = run->local_batch * run->data;
    if (run->stages == 1 ? run->micro_batch != run->local_batch : run->local_batch % run->micro_batch)
        snprintf(run->reason, sizeof run->reason, "a local batch of %d, and micro-batches of %d", run->local_batch, run->micro_batch);
    else if (run->stages > 1 && run->global_batch != run->local_batch * run->data)
        snprintf(run->reason, sizeof run->reason, "global_batch is not dp times the local batch: pipelines that run several times a step");
}

/* Divide a replica's batch into micro-batches: chunks of a pipeline, or else gradient
 * accumulation. */
static void batch_in(struct measured_run *run)
{
    run->samples = run->global_batch / run->data;
    int parts = run->samples / run->micro_batch;
    run->chunks = run->stages > 1 ? parts : 1;
    run->micro_batches = run->stages > 1 ? 1 : parts;
    if (!*run->reason && (run->global_batch % run->data || run->samples % run->micro_batch || parts < 1))
        snprintf(run->reason, sizeof run->reason, "global_batch is not a multiple of dp times micro_batch");
}

/* Read kernels as in aleph_alpha_layouts.csv (results/validation): "kernel=torch" and
 * "kernel=fused", whose attention keeps all its weights in memory, and "+ RMS kernel". Notes that
 * begin with "eager" are of PyTorch without torch.compile (reported_runs.csv, float8.csv), whose
 * norms may be kernels all the same: "eager + RMS kernel". "Adam in operations" is in
 * internevo.csv, "cuBLAS before 12.6.2" in those of H100. */
static void kernels_in(const struct measured_table *t, int i, struct measured_run *run)
{
    const char *notes = measured_text(t, i, COLUMN_NOTES);
    const bool eager = measured_begins_with(notes, "eager") && !isalpha((unsigned char)notes[strlen("eager")]);
    if (eager || strstr(notes, "kernel="))
        run->kernels = strstr(notes, "RMS kernel") ? NORM_IN_KERNEL : NORM_IN_OPERATIONS;
    if (eager)
        run->kernels |= GATE_AND_ROPE_IN_OPERATIONS;
    run->attention_rate = profile_attention_rate(notes);
    if (strstr(notes, "kernel=torch"))
        run->kernels |= SOFTMAX_IN_OPERATIONS;
    if (strstr(notes, "Adam in operations"))
        run->kernels |= ADAM_IN_OPERATIONS;
    if (strstr(notes, "cuBLAS before 12.6.2"))
        run->kernels |= OLDER_PRODUCTS;
    if (strstr(notes, "kernel=torch") || strstr(notes, "kernel=fused"))
        run->attention = "unfused";
}

/* "Mixtral", "GPT-MoE 1.3B", "8x7B", and "30B-A3B", of which 3 billion parameters are active */
static bool names_experts(const char *model)
{
    bool has = strcasestr(model, "mixtral") || strcasestr(model, "moe");
    for (const char *x = model; !has && (x = strpbrk(x, "xX")); x++) {
        size_t digits = strspn(x + 1, "0123456789.");
        has = x > model && isdigit((unsigned char)x[-1]) && digits > 0 && strchr("bB", x[1 + digits]) && x[1 + digits];
    }
    for (const char *a = model; !has && (a = strpbrk(a, "aA")); a++) {
        size_t digits = strspn(a + 1, "0123456789.");
        has = a > model && ispunct((unsigned char)a[-1]) && digits > 0 && strchr("bB", a[1 + digits]) && a[1 + digits];
    }
    return has;
}

/* Give rows with experts a reason: dtbench's models are dense. */
static void experts_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *model = measured_text(t, row, COLUMN_MODEL);
    for (int i = 0; i < t->csv.column_count; i++) {
        const char *text = dt_csv_field(&t->csv, row, i);
        bool is_of_experts = measured_is_of_experts(t->csv.names[i]) || i == t->columns[COLUMN_EXPERT_RANKS];
        if (is_of_experts && !validate_is_missing(text) && !dt_is_one_of(text, "0 1 no none false"))
            snprintf(run->reason, sizeof run->reason, "%.64s %.64s: dtbench has no mixture of experts", t->csv.names[i], text);
    }
    if (names_experts(model))
        snprintf(run->reason, sizeof run->reason, "model %.64s: dtbench has no mixture of experts", model);
}

/* The micro-batches that are accumulated, of all replicas, are the global batch, whether the table
 * says that or not. */
static dt_status accumulated_in(const struct measured_table *t, int row, struct measured_run *run)
{
    int parts;
    const bool told = run->global_batch > 0;
    if (told && !(measured_number(t, row, COLUMN_ACCUMULATED) >= 1)) /* "16 (recipe)" and the like */
        return DT_OK;
    DT_TRY(measured_count(t, row, COLUMN_ACCUMULATED, &parts));
    const long long all = (long long)parts * run->micro_batch * run->data;
    if (!told && all > 1 << 24)
        return measured_wrong(t, row, COLUMN_ACCUMULATED, "a number of micro-batches for so many GPUs");
    run->global_batch = told ? run->global_batch : (int)all;
    if (all != run->global_batch)
        snprintf(run->reason, sizeof run->reason, "%s %d times dp times micro_batch is %lld, and global_batch is %d",
                 measured_name(t, COLUMN_ACCUMULATED), parts, all, run->global_batch);
    return DT_OK;
}

dt_status measured_run_of_mesh(const struct measured_table *t, int i, struct measured_run *run)
{
    *run = (struct measured_run){.attention = "fused", .loss = "cross_entropy", .optimizer = "adam"};
    DT_TRY(measured_counts(t, i, run));
    DT_TRY(units_in(t, i, run));
    if (!measured_has_degrees(t) && !measured_is_sharding(measured_text(t, i, COLUMN_ZERO)))
        degrees_in(t, i, run);
    if (!run->gpus && run->nodes && run->gpus_per_node && (long long)run->nodes * run->gpus_per_node <= 1 << 24)
        run->gpus = run->nodes * run->gpus_per_node;
    long long copy = (long long)run->tensor * run->stages * run->contexts;
    if (!run->gpus && (!run->data || copy * run->data > 1 << 24))
        return measured_wrong(t, i, COLUMN_GPUS, "a whole number from 1");
    if (!run->gpus)
        run->gpus = (int)(copy * run->data);
    if (!run->data)
        run->data = copy < run->gpus ? (int)(run->gpus / copy) : 1;
    dt_status status = model_in(t, i, run);
    if (status == DT_ERR_INVALID)
        experts_in(t, i, run);
    if (*run->reason) /* that no such model is known says less */
        return dt_fail(DT_ERR_INVALID, "%s:%d: %s", t->path, t->csv.lines[i], run->reason);
    DT_TRY(status);
    DT_TRY(replicas_in(t, i, run));
    if (run->local_batch)
        local_batch_in(run, *measured_text(t, i, COLUMN_ACCUMULATED));
    DT_TRY(accumulated_in(t, i, run));
    batch_in(run);
    run->gpus_per_node = run->gpus_per_node > run->gpus
                             ? run->gpus
                             : run->gpus_per_node; /* the table's number is the GPUs that a node has, not those that are used */
    DT_TRY(measured_yes(t, i, COLUMN_SEQUENCE_PARALLEL, &run->sequence_parallel_told, &run->sequence_parallel));
    kernels_in(t, i, run);
    numbers_in(t, i, run);
    recomputed_in(t, i, run);
    if (run->stages > 1) {
        order_in(t, i, run);
        split_in(t, i, run);
    }
    context_in(t, i, run);
    experts_in(t, i, run);
    if (run->shard_size == run->data * run->contexts) /* NVIDIA counts the context ranks in */
        run->shard_size = run->data;
    if (run->shard_size && run->shard_size < run->data && run->paradigm == PARADIGM_FSDP)
        run->paradigm = PARADIGM_HSDP;
    else if (run->shard_size && run->shard_size != run->data && run->paradigm != PARADIGM_HSDP)
        snprintf(run->reason, sizeof run->reason, "%s in groups of %d of %d replicas", paradigm_name(run->paradigm), run->shard_size,
                 run->data);
    if (run->data * copy != run->gpus)
        snprintf(run->reason, sizeof run->reason, "%d GPUs are not dp times tp times pp times cp", run->gpus);
    return DT_OK;
}
