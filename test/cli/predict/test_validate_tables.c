/* Tables of measured runs, as papers, people and programs write them, become experiments. */
#include "test/cli/predict/validate_case.h"

static void rows_become_experiments(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text(HEADER "pdp,GPTLarge,16,8,1,2,4,24,checkpoint,,1.5,4000\n"
                              "fsdp,GPT13B,8,8,1,1,1,16,,linear,8.81,12182\n"
                              "fsdp,GPT76B,8,8,1,1,1,16,offload,linear,75,4948\n"
                              "pdp,GPTSmall,8,8,0,2,2,9,keep,,0.1,\n",
                       &rows, path));
    CHECK(rows.count == 4);
    const struct experiment *pdp = &rows.rows[0].experiment;
    CHECK(pdp->paradigm == PARADIGM_PDP && pdp->world_size == 16 && pdp->gpus_per_node == 8 && pdp->batch_size == 12 &&
          pdp->pipeline.stages == 2 && pdp->pipeline.chunks == 4 && pdp->activation == ACTIVATION_CHECKPOINT && pdp->loss == LOSS_SUM &&
          gpt_of(&pdp->model)->attention == GPT_ATTENTION_UNFUSED && rows.rows[0].measured_s == 1.5 && rows.rows[0].measured_bytes == 4e9);
    CHECK(rows.rows[1].experiment.activation == ACTIVATION_KEEP && !rows.rows[1].experiment.parameter_offload);
    CHECK(rows.rows[2].experiment.parameter_offload, "81e9 parameters and gradients of 2 bytes on 8 GPUs are more than 4948 MB");
    CHECK(rows.rows[3].outcome == VALIDATE_SKIPPED && strstr(rows.rows[3].reason, "not a multiple of 2 stages") &&
              isnan(rows.rows[3].measured_bytes),
          "%s", rows.rows[3].reason);
    validate_rows_finish(&rows);
}

static void meshes_become_experiments(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text(MESH MESH_REST
                       "8,32,2,1024,16,24,2048,1,2,4,500,none,1,1F1B,none,16,1,ok,10,amp_bf16,red,a\n"
                       "8,32,2,1024,16,24,2048,1,8,1,250,zero1,1,,full,,1,OOM,,fp16,red,b\n"
                       "8,32,2,1024,16,24,2048,1,8,1,250,FULL_SHARD,1,,,8,1,ok,10,fp16,red,peak_mem printed as GB (max over stages)\n"
                       "8,32,2,1024,16,24,2048,1,4,1,250,,1,,,16,2,ok,,fp16,red,c\n"
                       "8,30,2,1024,16,24,2048,1,8,1,250,,1,,,16,1,ok,,fp16,red,c\n",
                       &rows, path));
    const struct experiment *pipelines = &rows.rows[0].experiment, *shards = &rows.rows[1].experiment;
    CHECK(rows.rows[0].outcome == VALIDATE_PREDICTED, "%s", rows.rows[0].reason);
    CHECK(pipelines->paradigm == PARADIGM_PDP && pipelines->pipeline.stages == 4 && pipelines->pipeline.chunks == 8 &&
          pipelines->batch_size == 4 && strcmp(pipelines->pipeline.order, "1f1b") == 0 && gpt_of(&pipelines->model)->block_size == 2048 &&
          pipelines->model.dtype == DT_BF16 && pipelines->optimizer.name == OPTIMIZER_ADAM && rows.rows[0].measured_s == 0.5 &&
          rows.rows[0].measured_bytes == 10 * 0x1p30 && strcmp(rows.rows[0].model, "24 x 1024") == 0);
    CHECK(shards->paradigm == PARADIGM_ZERO1 && shards->batch_size == 4 && shards->micro_batches == 2 &&
          shards->activation == ACTIVATION_CHECKPOINT && rows.rows[1].measured_fit == VALIDATE_FIT_NOT);
    CHECK(rows.rows[2].outcome == VALIDATE_PREDICTED && gpt_of(&rows.rows[2].experiment.model)->kv_heads == 8, "%s", rows.rows[2].reason);
    CHECK(rows.rows[3].outcome == VALIDATE_PREDICTED && rows.rows[3].experiment.context.size == 2 &&
              rows.rows[3].experiment.batch_size == 8 && strstr(rows.rows[4].reason, "not a multiple of dp times micro_batch"),
          "%s; %s", rows.rows[3].reason, rows.rows[4].reason);
    CHECK(rows.rows[2].measured_bytes == 10e9, "the note says that these are not GiB");
    CHECK(strcmp(rows.unused, "color") == 0, "%s", rows.unused);
    validate_rows_finish(&rows);
}

/* A Weights & Biases export of a Megatron-LM run, whose arguments are its columns; torchtitan's and
 * DeepSpeed's words. */
static void arguments_as_columns(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text("Name,State,num_layers,hidden_size,num_attention_heads,seq_length,micro_batch_size,global_batch_size,"
                       "tensor_model_parallel_size,world_size,iteration-time,bf16,use_distributed_optimizer\n"
                       "a,finished,24,1024,16,2048,2,32,2,8,0.5,true,true\nb,finished,24,1024,16,2048,2,32,2,8,0.5,False,\n"
                       "c,finished,24,1024,16,2048,2,32,2,8,0.5,true,maybe\n",
                       &rows, path));
    CHECK(rows.rows[0].experiment.paradigm == PARADIGM_ZERO1 && rows.rows[0].experiment.model.dtype == DT_BF16 &&
              !rows.rows[0].sharing_open && rows.rows[1].experiment.paradigm == PARADIGM_DDP && rows.rows[1].sharing_open &&
              strstr(rows.rows[2].reason, "use_distributed_optimizer: \"maybe\""),
          "%s; %s", rows.rows[0].reason, rows.rows[2].reason);
    validate_rows_finish(&rows);
    CHECK_OK(read_text("Model,GPUs,Local BS,seq,FSDP,SamplesPerSec\nLlama-3-8B,8,2,8192,fsdp,16\nLlama-3-8B,8,2,4K,fsdp,16\n"
                       "Llama-3-8B,2k,2,8192,fsdp,16\n",
                       &rows, path));
    CHECK(gpt_of(&rows.rows[1].experiment.model)->block_size == 4096 && strcmp(rows.rows[1].note, "seq 4K is taken for 4096") == 0 &&
              strstr(rows.rows[2].reason, "GPUs: \"2k\""),
          "%s; %s", rows.rows[1].note, rows.rows[2].reason);
    CHECK(rows.rows[0].measured_s == 1 && rows.rows[0].experiment.batch_size == 2, "%g s; %s", rows.rows[0].measured_s,
          rows.rows[0].reason);
    validate_rows_finish(&rows);
    CHECK_OK(
        read_text("| Gradient Checkpointing | Gradient Accumulation Steps | Per Device Train Batch Size | Num GPUs | Model | Max Seq Len | "
                  "Time per Iteration |\n|---|---|---|---|---|---|---|\n| True | 16 | 2 | 8 | Llama-2-7B | 2048 | 5.2s |\n",
                  &rows, path));
    CHECK(rows.rows[0].measured_s == 5.2 && rows.rows[0].experiment.batch_size == 32 && rows.rows[0].experiment.micro_batches == 16 &&
              rows.rows[0].experiment.activation == ACTIVATION_CHECKPOINT && !*rows.unused,
          "%g s; %s; %s", rows.rows[0].measured_s, rows.rows[0].reason, rows.unused);
    validate_rows_finish(&rows);
}

/* Columns are found by name, in any order. */
static void columns_in_any_order(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(
        read_text("color,dtype,status,pp,dp,tp,seq,# layers,attention heads,hidden size,micro batch,global batch,gpus,iteration time (ms)\n"
                  "red,fp16,ok,1,8,1,2048,24,16,1024,2,32,8,250\n",
                  &rows, path));
    const struct experiment *e = &rows.rows[0].experiment;
    CHECK(rows.count == 1 && gpt_of(&e->model)->heads == 16 && gpt_of(&e->model)->hidden == 1024 && gpt_of(&e->model)->layers == 24 &&
              gpt_of(&e->model)->block_size == 2048 && e->world_size == 8 && e->micro_batches == 2 && rows.rows[0].measured_s == 0.25,
          "heads %d, hidden %d", gpt_of(&e->model)->heads, gpt_of(&e->model)->hidden);
    validate_rows_finish(&rows);
}

/* Frameworks' names of columns, in upper and lower case; other words for yes and no; parts of
 * stages without an order; more nodes than the cluster has. */
static void words_of_strangers(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text("#GPUs,num_layers,Hidden-Size,num_attention_heads,Sequence len,MBS,GBS,tensor_model_parallel_size,Pipeline,VPP,"
                       "Sequence Parallel,Precision,Step time (s),activation checkpointing\n"
                       "8,24,1024,16,2048,2,32,2,2,3,True,bfloat16,0.5,no\n8,24,1024,16,2048,2,32,2,2,,0,AMP_BF16,0.5,true\n"
                       "8,24,1024,16,2048,2,32,2,2,,maybe,fp16,0.5,full\n4096,24,1024,16,2048,2,4096,2,1,,no,fp16,0.5,full\n8,24,1024,16,"
                       "2048,2,32,2,2,,no,float8,0.5,full\n",
                       &rows, path));
    const struct experiment *first = &rows.rows[0].experiment, *second = &rows.rows[1].experiment;
    CHECK(rows.rows[0].outcome == VALIDATE_PREDICTED && rows.rows[1].outcome == VALIDATE_PREDICTED && !*rows.unused, "%s, %s, %s",
          rows.rows[0].reason, rows.rows[1].reason, rows.unused);
    CHECK(first->tensor.sequence_parallel && first->model.dtype == DT_BF16 && first->activation == ACTIVATION_KEEP &&
          strcmp(first->pipeline.order, "interleaved") == 0 && first->pipeline.stages == 2);
    CHECK(!second->tensor.sequence_parallel && second->model.dtype == DT_BF16 && second->activation == ACTIVATION_CHECKPOINT &&
          strcmp(second->pipeline.order, "1f1b") == 0);
    CHECK(strstr(rows.rows[2].reason, "Sequence Parallel: \"maybe\" is not one of yes, no"), "%s", rows.rows[2].reason);
    CHECK(rows.rows[3].outcome == VALIDATE_PREDICTED && rows.rows[3].experiment.world_size == 4096, "%s", rows.rows[3].reason);
    CHECK(rows.rows[4].experiment.model.fp8 == DT_FP8_DELAYED, "%s", rows.rows[4].reason);
    validate_rows_finish(&rows);
}

/* One column for all degrees, as reports write it. */
static void degrees_in_one_column(void)
{
    static const struct {
        const char *text, *reason;
        enum paradigm_kind paradigm;
        int tensor, stages, shards;
    } known[] = {{"TP=4+FSDP=4", "", PARADIGM_FSDP, 4, 1, 0},
                 {"zero1(dp2)+tp2+pp4", "", PARADIGM_ZERO1, 2, 4, 0},
                 {"zero2(dp16)", "", PARADIGM_ZERO2, 1, 1, 0},
                 {"DP2-TP4-PP2", "", PARADIGM_PDP, 4, 2, 0},
                 {"dp=8 tp=2", "", PARADIGM_DDP, 2, 1, 0},
                 {"DP=2, FSDP=8", "", PARADIGM_HSDP, 1, 1, 8},
                 {"FSDP=16", "", PARADIGM_FSDP, 1, 1, 0},
                 {"zero2", "", PARADIGM_ZERO2, 1, 1, 0},
                 {"tp8", "", PARADIGM_DDP, 8, 1, 0}, /* the other GPUs are data-parallel ranks */
                 {"TP=4+FSDP=2", "16 GPUs are not dp times tp", PARADIGM_FSDP, 4, 1, 0},
                 {"tp4+sp4", "Parallelism: \"tp4+sp4\" is not one of", PARADIGM_DDP, 4, 1, 0}};
    enum { KNOWN = sizeof known / sizeof *known };
    char table[2048] = "gpus;layers;hidden;heads;seq;micro_batch;global_batch;Parallelism;step_ms\n", path[64];
    struct validate_rows rows;
    for (size_t i = 0; i < KNOWN; i++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "16;24;1024;16;1024;1;16;%s;512\n", known[i].text);
    CHECK_OK(read_text(table, &rows, path));
    for (size_t i = 0; i < KNOWN; i++) {
        const struct experiment *e = &rows.rows[i].experiment;
        CHECK(strncmp(rows.rows[i].reason, known[i].reason, strlen(known[i].reason)) == 0 && !*rows.rows[i].reason == !*known[i].reason,
              "%s: %s", known[i].text, rows.rows[i].reason);
        CHECK(*known[i].reason || (e->paradigm == known[i].paradigm && rows.rows[i].tensor == known[i].tensor &&
                                   rows.rows[i].stages == known[i].stages && (!known[i].shards || e->hsdp.shard_size == known[i].shards)),
              "%s: %s, tensor %d, stages %d", known[i].text, paradigm_name(e->paradigm), rows.rows[i].tensor, rows.rows[i].stages);
    }
    validate_rows_finish(&rows);
}

/* A ResNet's samples are images, and have no sequence; a decoder's do. */
static void models_of_images(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(
        read_text("model,GPUs,batch size per GPU,precision,images/s\nResNet50,8,256,mixed,16384\nLlama-2-7B,8,1,bf16,1\n", &rows, path));
    const struct experiment *e = &rows.rows[0].experiment;
    CHECK(!*rows.rows[0].reason && e->model.family != model_family(0) && e->batch_size == 256 && e->paradigm == PARADIGM_DDP &&
              e->optimizer.name == OPTIMIZER_SGD && e->keep_cheap && rows.rows[0].measured_s == 0.125,
          "%s, %g s", rows.rows[0].reason, rows.rows[0].measured_s);
    CHECK(strcmp(rows.rows[1].reason, "seq: no value; expected a whole number from 1") == 0, "%s", rows.rows[1].reason);
    validate_rows_finish(&rows);
}

/* Numbers as programs and people write them, in a column of `unit`; NAN: not a number. */
static void numbers_of_strangers(void)
{
    static const struct {
        const char *text, *unit;
        bool comma_is_decimal;
        double value;
    } known[] = {
        {"8", "", false, 8},
        {"8.0", "", false, 8},
        {"2,048", "", false, 2048},
        {"1,234,567", "", false, 1234567},
        {"1,234.5", "s", false, 1234.5},
        {"1.234,5", "s", false, 1234.5},
        {"31,5", "GiB", false, 31.5},
        {"1,234", "ms", true, 1.234},
        {"1 234", "", false, 1234},
        {"1_000_000", "", false, 1e6},
        {"1.2e3", "", false, 1200},
        {"5.04s", "ms", false, 5040},
        {"5040 ms", "s", false, 5.04},
        {"32 GB", "GiB", false, 32e9 / 0x1p30},
        {"9,500 tok/s/gpu", "tokens/s/gpu", false, 9500},
        {"9,500 tok/s", "tokens/s/gpu", false, 9500},
        {"9,500 tok/s/gpu", "tokens/s", false, NAN}, /* of one GPU, not of all */
        {"17.13 samp/s", "samples/s", false, 17.13},
        {"1.234.567", "", false, 1234567},
        {"", "", false, NAN},
        {"-5", "", false, NAN},
        {"45%", "", false, NAN},
        {"5 s", "GiB", false, NAN},
        {"12,34,567", "", false, NAN},
        {"1,234 567", "", false, NAN},
        {"0x10", "", false, NAN},
        {"1e", "", false, NAN},
        {"0,512", "s", false, 0.512},
        {"OOM", "s", false, NAN},
        {"8 W", "s", false, NAN},
        {"1,2,3.4", "", false, NAN},
        {"1\u202f234", "", false, 1234},
        {"1\u00a0200 ms", "s", false, 1.2},
        {"1200000 us", "s", false, 1.2},
        {"1200 µs", "ms", false, 1.2},
        {"2 min", "s", false, 120},
        {"12.3*", "s", false, 12.3},
        {"12\u2009300\u2020 tok/s", "tokens/s", false, 12300},
        {"~3\u2019158 \u00b1 20", "tokens/s", false, 3158},
        {"12.3k tokens/s/GPU", "tokens/s/gpu", false, 12300},
        {"1.2M", "tokens/s", false, 1.2e6},
        {"12.3k", "GB", false, NAN},
        {"2*8", "", false, NAN},
        {"80 s/it", "s", false, 80},
        {"80 s/sample", "s", false, NAN},
        {"12-13", "s", false, NAN},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", known[i].text);
        validate_plain(text);
        double value = validate_number(text, known[i].unit, known[i].comma_is_decimal);
        CHECK(isnan(known[i].value) ? isnan(value) : fabs(value - known[i].value) <= 1e-12 * value, "\"%s\" in %s: %g", known[i].text,
              known[i].unit, value);
    }
}

/* A byte order mark, semicolons, a column without a name, decimal commas, units, words for missing
 * values, OOM in place of a time, a quoted line break; the number of GPUs from dp, tp and pp. A row
 * that cannot be read is skipped with its reason, and the others stay. */
static void tables_of_strangers(void)
{
    static const char *const reasons[] = {
        "", "", "tensor_parallel_degree: \"two\" is not", "", "heads: no value", "3 fields, and the first line names 13 columns"};
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text("\xEF\xBB\xBF;layers;hidden;heads;seq;train_micro_batch_size_per_gpu;train_batch_size;dp;tensor_parallel_degree;"
                       "zero_stage;step_ms;peak_mem_gib;vocab\r\n"
                       "0;24;1024;16;2048;4;64;8;1;1;1.234,5;31,5 GiB;50304\r\n1;24;1024;16;2048;4;64;8;1;1;OOM;n/a;50304\r\n"
                       "2;24;1024;16;2048;4;64;8;two;1;1000;-;50304\r\n3;24,0;1024;16;2048;4;64;8;2;NaN;\"1,2 s\";;50304\r\n"
                       "\"4\n5\";24;1024;-;2048;4;64;8;1;1;1000;;50304\r\n6;24;1024\r\n",
                       &rows, path));
    CHECK(rows.count == 6 && !*rows.unused, "%d rows, unused: %s", rows.count, rows.unused);
    for (int i = 0; i < rows.count && i < 6; i++)
        CHECK(*reasons[i] ? rows.rows[i].outcome == VALIDATE_SKIPPED && strncmp(rows.rows[i].reason, reasons[i], strlen(reasons[i])) == 0
                          : rows.rows[i].outcome == VALIDATE_PREDICTED,
              "row %d: %s", i, rows.rows[i].reason);
    CHECK(rows.rows[0].measured_s == 1.2345 && rows.rows[0].measured_bytes == 31.5 * 0x1p30 && rows.rows[0].experiment.world_size == 8);
    CHECK(isnan(rows.rows[1].measured_s) && rows.rows[1].measured_fit == VALIDATE_FIT_NOT && rows.rows[0].measured_fit == VALIDATE_FIT);
    CHECK(rows.rows[3].measured_s == 1.2 && isnan(rows.rows[3].measured_bytes) && rows.rows[3].experiment.world_size == 16);
    validate_rows_finish(&rows);
}

/* torchtitan's batch of a replica: a micro-batch without pipelines, several of one sample with
 * them; where more is said it must agree. */
static void local_batches(void)
{
    static const struct {
        const char *fields, *reason, *note;
        int micro_batches, chunks, samples;
    } known[] = {
        {"8,1,4,,", "", "", 1, 0, 4},
        {"8,1,4,64,", "", "", 2, 0, 8},
        {"4,2,4,,", "", "micro-batches have one sample, torchtitan's default", 1, 4, 4},
        {"4,2,4,,2", "", "", 1, 2, 4},
        {"8,1,4,64,2", "a local batch of 4, and micro-batches of 2", "", 0, 0, 0},
        {"4,2,4,16,3", "a local batch of 4, and micro-batches of 3", "", 0, 0, 0},
        {"4,2,4,32,2", "global_batch is not dp times the local batch: pipelines that run several times a step", "", 0, 0, 0},
        {"8,1,,64,", "micro_batch: no value; expected a whole number from 1", "", 0, 0, 0},
    };
    enum { KNOWN = sizeof known / sizeof *known };
    char table[2048] = "layers,hidden,heads,seq,step_ms,data_parallel_size,pp,local_batch_size,global_batch_size,micro_batch\n", path[64];
    struct validate_rows rows;
    for (size_t i = 0; i < KNOWN; i++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "24,1024,16,1024,512,%s\n", known[i].fields);
    CHECK_OK(read_text(table, &rows, path));
    for (size_t i = 0; i < KNOWN; i++) {
        const struct experiment *e = &rows.rows[i].experiment;
        CHECK(strcmp(rows.rows[i].reason, known[i].reason) == 0 && (*known[i].reason || strcmp(rows.rows[i].note, known[i].note) == 0),
              "%s: %s; %s", known[i].fields, rows.rows[i].reason, rows.rows[i].note);
        CHECK(*known[i].reason ||
                  (e->micro_batches == known[i].micro_batches && (!known[i].chunks || e->pipeline.chunks == known[i].chunks) &&
                   rows.rows[i].batch_per_gpu * e->strategy.stages == known[i].samples),
              "%s: %d micro-batches, %d chunks, %g samples", known[i].fields, e->micro_batches, e->pipeline.chunks,
              rows.rows[i].batch_per_gpu);
    }
    validate_rows_finish(&rows);
}

/* Text that is easily misread: words that only begin like known ones, data types, times that
 * differ, other GPUs than the cluster's, two columns with the same meaning. */
static void readings_that_mislead(void)
{
    static const struct {
        const char *fields, *reason, *note;
        enum activation_kind activation;
    } known[] = {
        {"fp16,none (assumed),A100,512,", "", "", ACTIVATION_KEEP},
        {"half,full (uniform),NVIDIA a100,512,", "", "", ACTIVATION_CHECKPOINT},
        {"bf16,selective,,512,", "", "", ACTIVATION_CORE_ATTENTION},
        {"bf16,selective layer,,512,", "", "", ACTIVATION_CHECKPOINT},
        {"bf16,selective layer 3,,512,", "", "", ACTIVATION_CHECKPOINT},
        {"bf16,offload,,512,", "recompute \"offload\" is not known", "", ACTIVATION_KEEP},
        {"bf16,only attention,,512,", "recompute \"only attention\" is not known", "", ACTIVATION_KEEP},
        {"int8,none,,512,", "precision \"int8\" is not known", "", ACTIVATION_KEEP},
        {"int8 (bf16 sums),none,,512,", "precision \"int8 (bf16 sums)\" is not known", "", ACTIVATION_KEEP},
        {"fp4 (16-bit master),none,,512,", "precision \"fp4 (16-bit master)\" is not known", "", ACTIVATION_KEEP},
        {"fp16,none,,\"1,234\",", "", "step_ms 1,234 is taken for 1234", ACTIVATION_KEEP},
        {"tf32,none,,512,", "precision \"tf32\" is not known", "", ACTIVATION_KEEP},
        {"fp16,none,,512,8000", "", "", ACTIVATION_KEEP},
        {"fp16,none,,512,4000", "its columns give a step of 0.512 and of 1.024 s", "", ACTIVATION_KEEP},
        {"fp16,none,H100 SXM,512,", "", "gpu \"H100 SXM\" is predicted as NVIDIA A100-SXM4-40GB, the cluster's", ACTIVATION_KEEP},
    };
    enum { KNOWN = sizeof known / sizeof *known };
    char table[2048] = "gpus,world_size,layers,hidden,heads,seq,micro_batch,global_batch,precision,recompute,gpu,step_ms,tgs\n", path[64];
    struct validate_rows rows;
    for (size_t i = 0; i < KNOWN; i++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "8,16,24,1024,16,1024,4,32,%s\n", known[i].fields);
    CHECK_OK(read_text(table, &rows, path));
    for (size_t i = 0; i < KNOWN; i++)
        CHECK(strcmp(rows.rows[i].reason, known[i].reason) == 0 && strcmp(rows.rows[i].note, known[i].note) == 0 &&
                  rows.rows[i].experiment.activation == known[i].activation,
              "%s: %s; %s", known[i].fields, rows.rows[i].reason, rows.rows[i].note);
    CHECK(rows.rows[3].experiment.activation_every == 2 && rows.rows[4].experiment.activation_every == 3, "torchtitan's layers: %d, %d",
          rows.rows[3].experiment.activation_every, rows.rows[4].experiment.activation_every);
    CHECK(strcmp(rows.unused, "world_size (there is gpus)") == 0, "%s", rows.unused);
    validate_rows_finish(&rows);
}

/* Amounts: a decimal comma in one field speaks for all of them; what has no unit, and what two
 * columns say of one thing; a line of units; numbers of micro-batches. */
static void amounts_that_mislead(void)
{
    static const struct {
        const char *table, *reason, *note;
        double seconds, bytes;
    } known[] = {
        {"micro_batch,global_batch,step_s,peak_gb\n4,64,\"1,234\",\"31,50\"\n", "", "", 1.234, 31.5e9},
        {"micro_batch,global_batch,step_s,peak_gb\n4,64,1.2s,31500 MB\n", "", "", 1.2, 31.5e9},
        {"micro_batch,global_batch,Step Time,Memory\n4,64,1.2,31\n", "", "Step Time has no unit: seconds; Memory has no unit: not used",
         1.2, NAN},
        {"micro_batch,global_batch,Step Time,Memory\n4,64,850 ms,31 GB\n", "", "", 0.85, 31e9},
        {"micro_batch,global_batch,Step Time (s),Peak Mem(MiB)\n4,64,0.85,1024\n", "", "", 0.85, 0x1p30},
        {"micro_batch,global_batch,Sec/it,Mem/GPU\n4,64,1.2,31GB\n", "", "", 1.2, 31e9},
        {"micro_batch,global_batch,step_s,max mem (GB/GPU)\n4,64,1.2,31\n", "", "", 1.2, 31e9},
        {"micro_batch,global_batch,step_s,peak_gb,peak_mb\n4,64,1.2,31,15000\n", "its columns give a peak of 1.5e+10 and of 3.1e+10 bytes",
         "", 1.2, 15e9},
        {"micro_batch,grad_acc,step_s\n4,2,1.2\n", "", "", 1.2, NAN},
        {"micro_batch,global_batch,grad_acc,step_s\n4,64,3,1.2\n", "grad_acc 3 times dp times micro_batch is 96, and global_batch is 64",
         "", 1.2, NAN},
        {"micro_batch,grad_acc,step_s\n4,auto,1.2\n", "grad_acc: \"auto\" is not a whole number from 1", "", NAN, NAN},
        {"micro_batch;global_batch;step_s\n2.000;64;1,2\n", "micro_batch: \"2.000\" is not a whole number from 1", "", NAN, NAN},
        {"micro_batch;global_batch;tokens/s/gpu\n4;64;16,384\n", "", "tokens/s/gpu 16,384 is taken for 16384", 0.5, NAN},
        {"micro_batch;global_batch;step_s\n4;64;1,234\n", "", "step_s 1,234 is taken for 1.234", 1.234, NAN},
        {"micro_batch;global_batch;samples/s;peak_gb\n4;64;16 s;31,5\n", "samples/s: \"16 s\" is not", "", NAN, NAN},
        {"micro_batch,global_batch,step_s,result\n4,64,,NCCL timeout\n", "result: \"NCCL timeout\"", "", NAN, NAN},
        {"micro_batch,global_batch,step_s,moe_experts\n4,64,1.2,8\n", "moe_experts 8: dtbench has no mixture of experts", "", 1.2, NAN},
        {"micro_batch,global_batch,step_s,model\n4,64,1.2,Mixtral-8x7B\n", "model Mixtral-8x7B: dtbench has no mixture", "", 1.2, NAN},
        {"micro_batch,global_batch,step_s,model\n4,64,1.2,24x1024\n", "", "", 1.2, NAN},
    };
    char text[512], path[64];
    struct validate_rows rows;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *line = strchr(known[i].table, '\n') + 1;
        bool semicolons = strchr(known[i].table, ';') != NULL;
        snprintf(text, sizeof text,
                 semicolons ? "gpus;layers;hidden;heads;seq;%.*s8;24;1024;16;1024;%s"
                            : "gpus,layers,hidden,heads,seq,%.*s8,24,1024,16,1024,%s",
                 (int)(line - known[i].table), known[i].table, line);
        CHECK_OK(read_text(text, &rows, path));
        const struct validate_row *row = &rows.rows[0];
        CHECK(strncmp(row->reason, known[i].reason, strlen(known[i].reason)) == 0 && !*row->reason == !*known[i].reason &&
                  strcmp(row->note, known[i].note) == 0 && !*rows.unused,
              "%s: %s; %s; %s", known[i].table, row->reason, row->note, rows.unused);
        CHECK(isnan(known[i].seconds) ? isnan(row->measured_s) : fabs(row->measured_s - known[i].seconds) < 1e-9, "%s: %g s",
              known[i].table, row->measured_s);
        CHECK(isnan(known[i].bytes) ? isnan(row->measured_bytes) : fabs(row->measured_bytes - known[i].bytes) < 1, "%s: %g bytes",
              known[i].table, row->measured_bytes);
        validate_rows_finish(&rows);
    }
    CHECK(read_text("gpus,layers,hidden,heads,seq,micro_batch,global_batch,step time\n-,-,-,-,-,-,-,(ms)\n8,24,1024,16,1024,4,64,1200\n",
                    &rows, path) == DT_ERR_INVALID &&
              strstr(dt_error_message(), ":2: a line of units, not of a run: write them into the first line, \"step time (ms)\""),
          "%s", dt_error_message());
    validate_rows_finish(&rows);
}

/* Rows that must not be predicted as another run: failed runs, an interleaved schedule without its
 * number of parts, and experts. */
static void runs_of_another_kind(void)
{
    static const struct {
        const char *fields, *reason;
        enum validate_fit fit;
    } known[] = {
        {"1f1b,1,OK,,1", "", VALIDATE_FIT},
        {"interleaved 1F1B,2,,,", "", VALIDATE_FIT}, /* it has a time, so it ran */
        {"ZB-V,,,,", "", VALIDATE_FIT},
        {"1f1b,1,CUDA out of memory,,", "", VALIDATE_FIT_NOT},
        {"1f1b,1,crashed,,", "status: \"crashed\" is neither ok nor oom", VALIDATE_FIT},
        {"1F1B interleaved,,,,", "schedule \"1F1B interleaved\": vpp has no number of parts a rank", VALIDATE_FIT_UNKNOWN},
        {"1f1b,1,,8,1", "num_experts 8: dtbench has no mixture of experts", VALIDATE_FIT_UNKNOWN},
        {"1f1b,1,,,2", "ep 2: dtbench has no mixture of experts", VALIDATE_FIT_UNKNOWN},
    };
    enum { KNOWN = sizeof known / sizeof *known };
    char table[2048] = "dp,pp,layers,hidden,heads,seq,micro_batch,global_batch,step_ms,schedule,vpp,status,num_experts,ep\n", path[64];
    struct validate_rows rows;
    for (size_t i = 0; i < KNOWN; i++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "2,4,24,1024,16,1024,4,32,512,%s\n", known[i].fields);
    CHECK_OK(read_text(table, &rows, path));
    for (size_t i = 0; i < KNOWN; i++)
        CHECK(strcmp(rows.rows[i].reason, known[i].reason) == 0 && (rows.rows[i].measured_fit == known[i].fit || *known[i].reason),
              "%s: %s", known[i].fields, rows.rows[i].reason);
    CHECK(!*rows.unused, "%s", rows.unused);
    validate_rows_finish(&rows);
}

/* A published model's name gives its sizes, with or without the owner's name; sizes in the table
 * take precedence. */
static void models_by_name(void)
{
    static const char *const reasons[] = {"",
                                          "",
                                          "",
                                          "model: there is no Llama-9B; did you mean Llama-7B?",
                                          "Model: \"ResNet50\" is not a model that is trained on tokens",
                                          "hidden: no value"};
    struct validate_rows rows;
    char path[64];
    CHECK_OK(
        read_text("Model,layers,hidden,heads,Seq length,Micro batch size,Global batch size,GPUs,GPUs/node,TP,ZeRO stage,Step time (s),Peak "
                  "memory (GB)\n"
                  "meta-llama/Llama-2-7b-chat-hf,,,,4096,1,8,8,8,1,3,4,60\nmeta-llama/Llama-2-70B,,,,4096,1,8,8,8,8,0,OOM,\n"
                  "Llama-2-7B,2,128,2,64,1,8,8,8,1,3,4,60\nLlama-9B,,,,4096,1,8,8,8,1,3,4,60\nResNet50,,,,4096,1,8,8,8,1,3,4,60\n"
                  "my own,4,,4,4096,1,8,8,8,1,3,4,60\n",
                  &rows, path));
    CHECK(rows.count == 6 && !*rows.unused, "%d rows, unused: %s", rows.count, rows.unused);
    for (int i = 0; i < rows.count && i < 6; i++)
        CHECK(*reasons[i] ? rows.rows[i].outcome == VALIDATE_SKIPPED && strncmp(rows.rows[i].reason, reasons[i], strlen(reasons[i])) == 0
                          : rows.rows[i].outcome == VALIDATE_PREDICTED,
              "row %d: %s", i, rows.rows[i].reason);
    const struct dt_model *small = &rows.rows[0].experiment.model, *large = &rows.rows[1].experiment.model,
                          *own = &rows.rows[2].experiment.model;
    CHECK(dt_model_parameter_count(small) == 6738415616 && rows.rows[0].measured_bytes == 60e9);
    CHECK(dt_model_parameter_count(large) == 68976648192 && rows.rows[1].measured_fit == VALIDATE_FIT_NOT);
    CHECK(dt_model_blocks(own) == 2);
    validate_rows_finish(&rows);
}

/* The name of a model that is no preset tells what its layers are, and --set overrides that. */
static void architectures_by_name(void)
{
    struct validate_system system = system_of_study;
    struct validate_rows rows;
    char path[64];
    const char *table = "model,layers,hidden,heads,kv_heads,ffn,seq,micro_batch,global_batch,gpus,step_s\n"
                        "TinyLlama-1.1B,22,2048,32,4,5632,2048,1,8,8,4\nCode Llama 34B,48,8192,64,8,,2048,1,8,8,4\n"
                        "my-mpt,24,1024,16,,,2048,1,8,8,4\nmine,24,1024,16,,2816,2048,1,8,8,4\nGPT-J,24,1024,16,,,2048,1,8,8,4\n";
    CHECK_OK(read_text(table, &rows, path));
    const struct gpt_model *model[5];
    for (int i = 0; i < 5; i++) {
        CHECK(rows.rows[i].outcome == VALIDATE_PREDICTED, "%s", rows.rows[i].reason);
        model[i] = gpt_of(&rows.rows[i].experiment.model);
    }
    for (int i = 0; i < 2; i++)
        CHECK(model[i]->mlp == GPT_MLP_SWIGLU && model[i]->norm == GPT_NORM_RMS && model[i]->position == GPT_POSITION_ROPE &&
              model[i]->bias == GPT_BIAS_NONE && model[i]->dropout == 0 && !*rows.rows[i].note);
    CHECK(dt_model_parameter_count(&rows.rows[0].experiment.model) > 1.09e9 && model[0]->kv_heads == 4);
    CHECK(model[1]->ffn == 22016, "Llama's own rule: %d", model[1]->ffn);
    CHECK(model[2]->position == GPT_POSITION_ALIBI && model[2]->mlp == GPT_MLP_GELU && model[2]->bias == GPT_BIAS_NONE);
    CHECK(model[3]->mlp == GPT_MLP_GELU && strcmp(rows.rows[3].note, "an ffn of 2816 is taken for an MLP without a gate") == 0, "%s",
          rows.rows[3].note);
    CHECK(model[4]->mlp == GPT_MLP_GELU && model[4]->position == GPT_POSITION_LEARNED && !*rows.rows[4].note);
    validate_rows_finish(&rows);
    const char *set[] = {"model.mlp=gelu"};
    system.sets = set;
    system.set_count = 1;
    CHECK_OK(read_text_for(&system, table, &rows, path));
    CHECK(gpt_of(&rows.rows[0].experiment.model)->mlp == GPT_MLP_GELU);
    validate_rows_finish(&rows);
}

/* An unusual ffn width is used; four times the hidden size is the default. */
static void widths_of_layers(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text(MESH "ffn," MESH_REST "8,32,2,1024,16,24,2048,1,8,1,250,,1,,3000,,16,1,ok,,fp16,red,c\n"
                            "8,32,2,1024,16,24,2048,1,8,1,250,,1,,4096,,16,1,ok,,fp16,red,c\n",
                       &rows, path));
    CHECK(gpt_of(&rows.rows[0].experiment.model)->ffn == 3000 && gpt_of(&rows.rows[1].experiment.model)->ffn == 0, "%d, %d",
          gpt_of(&rows.rows[0].experiment.model)->ffn, gpt_of(&rows.rows[1].experiment.model)->ffn);
    validate_rows_finish(&rows);
}

static void conditions(void)
{
    static const struct {
        const char *condition;
        int rows;          /* rows rows that are left */
        const char *error; /* the error the error where none are left left */
    } wanted[] = {{"gpu=a b", 2, NULL},        {"gpu!=a b", 1, NULL},         {"gpus<=8", 2, NULL},
                  {"gpus>8.0", 1, NULL},       {"step_s>=1", 1, NULL},        {"step_s<1", 1, NULL},
                  {"gpus=9", 0, "no row"},     {"gpu<a", 0, "not a number"},  {"cards=8", 0, "has no column cards"},
                  {"gpus", 0, "expected COL"}, {"=8", 0, "expected COLUMN="}, {"gpus=", 0, "no row"}};
    static const char text[] = "gpus,gpu,step_s\n8,a b,0.5\n8,c,\n16,a b,1\n";
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct dt_csv csv;
        CHECK_OK(dt_csv_parse(text, sizeof text - 1, "t", &csv));
        dt_status status = validate_where(&csv, "t", &wanted[i].condition, 1);
        if (wanted[i].error)
            CHECK(status == DT_ERR_INVALID && strstr(dt_error_message(), wanted[i].error), "%s: %s", wanted[i].condition,
                  dt_error_message());
        else
            CHECK(status == DT_OK && csv.row_count == wanted[i].rows, "%s: %d rows", wanted[i].condition, csv.row_count);
        dt_csv_finish(&csv);
    }
}

static void faults(void)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"paradigm,model,gpus\n", ":1: there is no column batch_per_replica"},
        {"paradigm,model,gpus,batch_per_replic\n1,2,3,4\n",
         ":1: there is no column batch_per_replica; not used: batch_per_replic (did you mean batch_per_replica?)"},
        {"gpus,bs,mm\n1,2,3\n", "; not used: bs, mm"}, /* nothing is like so short a name */
        {"gpus,layers,batch_size,tok/s\n1,2,3,4\n", "; not used: batch_size (if of a micro-batch: micro_batch; of a data-parallel rank: "
                                                    "local_batch; of all GPUs: global_batch), tok/s (if of each GPU: tokens_per"},
        {"gpus,global_batch,seq\n1,2,3\n", ":1: there is no column layers, nor model with the name of a published one"},
        {"My runs on the new cluster,,\n,,\ngpus,layers,hidden\n8,4,512\n",
         ":1: names no column that is known; expected a first line such as"},
        {"| Llama 3.1 8b | 8x H100 | 16x H100 |\n|---|---|---|\n| Training step time (seconds per step) | 12.27 | 12.3 |\n",
         ":3: Training step time (seconds per step) begins a line: here each run is a line"},
        {HEADER, ": no rows"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct validate_rows rows;
        char path[64];
        dt_status status = read_text(wrong[i].text, &rows, path);
        const char *error = dt_error_message();
        CHECK(status == DT_ERR_INVALID && strncmp(error, path, strlen(path)) == 0 && strstr(error, wrong[i].error), "case %zu: %s", i,
              error);
        validate_rows_finish(&rows);
    }
}

/* A step of 2 s and 32 samples of 2048 tokens on 16 GPUs, in all ways to say it. */
static void throughput_in_other_units(void)
{
    static const char *const said[][2] = {{"tokens/s/gpu", "2048"},
                                          {"metrics.tokens_per_s_per_gpu", "2048"},
                                          {"Tokens / sec (per device)", "2048"},
                                          {"avg. tokens per GPU per second", "2048"},
                                          {"Avg iter time [ms]", "2000"},
                                          {"elapsed_time_per_iteration_ms", "2000"},
                                          {"Time per Global Step (s)", "2"},
                                          {"s/it", "2"},
                                          {"Training step time (seconds per step)", "2"},
                                          {"Throughput", "16 samp/s"},
                                          {"Throughput", "2048 tokens/s/GPU"},
                                          {"Throughput [tokens/s/GPU]", "\"2,048\""},
                                          {"seconds/iteration", "2"},
                                          {"total tokens/s", "32768"},
                                          {"Samples/sec", "16"},
                                          {"throughput (samples/s)", "16"},
                                          {"step_ms", "2000"}};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char table[512], path[64];
        struct validate_rows rows;
        snprintf(table, sizeof table, "gpus,tp,layers,hidden,heads,seq,micro_batch,global_batch,%s\n16,2,24,1024,16,2048,2,32,%s\n",
                 said[i][0], said[i][1]);
        CHECK_OK(read_text(table, &rows, path));
        CHECK(!*rows.rows[0].reason && rows.rows[0].measured_s == 2, "%s: %s, %g s", said[i][0], rows.rows[0].reason,
              rows.rows[0].measured_s);
        validate_rows_finish(&rows);
    }
}

/* Other projects' names of sharding, followed by the ranks of a group; and vocabularies in
 * thousands. */
static void names_of_other_projects(void)
{
    static const struct {
        const char *name, *vocab;
        enum paradigm_kind paradigm;
        int shards, vocab_size;
        const char *reason;
    } known[] = {{"fsdp2", "50k", PARADIGM_FSDP, 0, 50000, ""},
                 {"FSDP", "50257", PARADIGM_FSDP, 0, 50257, ""},
                 {"HSDP", "1.5K", PARADIGM_HSDP, 0, 1500, ""},
                 {"hsdp (shard 4)", "1k", PARADIGM_HSDP, 4, 1000, ""},
                 {"FSDP (full shard)", "1k", PARADIGM_FSDP, 0, 1000, ""},
                 {"DeepSpeed ZeRO stage 3", "1k", PARADIGM_FSDP, 0, 1000, ""},
                 {"ZeRO-1", "1k", PARADIGM_ZERO1, 0, 1000, ""},
                 {"zero1 group=16", "1k", PARADIGM_ZERO1, 0, 1000, ""},
                 {"2", "1k", PARADIGM_ZERO2, 0, 1000, ""},
                 {"FULL_SHARD group=8", "1k", PARADIGM_HSDP, 8, 1000, ""},
                 {"zero1 group=8x", "1k", 0, 0, 0, "zero/fsdp: \"zero1 group=8x\" is not"},
                 {"zero4", "1k", 0, 0, 0, "zero/fsdp: \"zero4\" is not one of none, ddp"},
                 {"none", "about 1k", 0, 0, 0, "vocab: \"about 1k\""}};
    enum { KNOWN = sizeof known / sizeof *known };
    char table[2048] = "gpus,layers,hidden,heads,seq,micro_batch,global_batch,zero/fsdp,vocab,tokens_per_s_per_gpu\n", path[64];
    struct validate_rows rows;
    for (size_t i = 0; i < KNOWN; i++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "16,24,1024,16,2048,2,32,%s,%s,4096\n", known[i].name,
                 known[i].vocab);
    CHECK_OK(read_text(table, &rows, path));
    for (size_t i = 0; i < KNOWN; i++) {
        const struct validate_row *row = &rows.rows[i];
        const struct experiment *e = &row->experiment;
        CHECK(strncmp(row->reason, known[i].reason, strlen(known[i].reason)) == 0 && (*row->reason != 0) == (*known[i].reason != 0),
              "%s: %s", known[i].name, row->reason);
        if (*row->reason)
            continue;
        CHECK(e->paradigm == known[i].paradigm && e->hsdp.shard_size == known[i].shards && row->measured_s == 1 &&
                  gpt_of(&e->model)->vocab_size == known[i].vocab_size && (*row->note != 0) == (strpbrk(known[i].vocab, "kK") != NULL),
              "%s: %g s, %s", known[i].name, row->measured_s, row->note);
    }
    CHECK(strcmp(rows.rows[0].note, "vocab 50k is taken as 50000") == 0, "%s", rows.rows[0].note);
    validate_rows_finish(&rows);
}

static const struct test_case cases[] = {
    {"rows become the study's experiments", rows_become_experiments},
    {"rows of meshes become experiments, or say why not", meshes_become_experiments},
    {"arguments of a program as columns", arguments_as_columns},
    {"columns in any order", columns_in_any_order},
    {"words of strangers", words_of_strangers},
    {"numbers of strangers", numbers_of_strangers},
    {"tables of strangers", tables_of_strangers},
    {"local batches", local_batches},
    {"amounts that mislead", amounts_that_mislead},
    {"readings that mislead", readings_that_mislead},
    {"runs of another kind", runs_of_another_kind},
    {"widths of layers", widths_of_layers},
    {"a file that is wrong gets one line", faults},
    {"models by name", models_by_name},
    {"architectures by name", architectures_by_name},
    {"names and numbers as other projects write them", names_of_other_projects},
    {"models of images", models_of_images},
    {"degrees in one column", degrees_in_one_column},
    {"a time as throughput in other units", throughput_in_other_units},
    {"conditions on rows", conditions},
};
TEST_MAIN(cases)
