/* Measured runs, predicted: errors, skipped rows, and the accuracy on the study's measurements. */
#include "test/cli/predict/validate_case.h"

/* A run that does not fit has no time, but the bytes that it would need. Each reason is printed
 * once, with the number of its rows. */
static void rows_without_a_time(void)
{
    struct validate_rows rows;
    struct validate_summary summary;
    char path[64], *text = NULL;
    size_t length;
    CHECK_OK(read_text(HEADER "ddp,GPT76B,8,8,1,1,1,16,keep,,75,4948\n"
                              "pdp,GPTSmall,8,8,0,2,2,9,keep,,0.1,\n"
                              "pdp,GPTSmall,8,8,0,4,2,9,keep,,0.1,\n"
                              "pdp,GPTSmall,8,8,0,2,2,9,keep,,0.2,\n",
                       &rows, path));
    CHECK_OK(validate_predict(&rows, NULL));
    CHECK(rows.rows[0].outcome == VALIDATE_OUT_OF_MEMORY && rows.rows[0].predicted_bytes > 80e9 && isnan(rows.rows[0].predicted_s), "%g",
          rows.rows[0].predicted_bytes);
    CHECK_OK(validate_summarize(&rows, &summary));
    FILE *to = open_memstream(&text, &length);
    CHECK_OK(validate_print(&rows, &summary, to));
    fclose(to);
    const char *first = strstr(text, "2 rows from line 3 on: "), *second = strstr(text, "1 row from line 4 on: ");
    CHECK(first && second && !strstr(text, "from line 5 on"), "%s", text);
    free(text);
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
}

/* Where a row does not give sequence parallelism, --set does. Where neither does, and it decides
 * whether the run fits, the row is not judged. */
static void sequence_parallel_told_or_not(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,status,seq_parallel\n"
                                    "2,72,72,2048,16,4,2048,2,1,ok,%s\n"
                                    "2,72,72,2048,16,4,2048,2,1,ok,\n"
                                    "2,2,2,2048,16,4,2048,2,1,ok,\n";
    static const char *const set = "tensor.sequence_parallel=false";
    struct validate_system system = system_of_study;
    for (int told = 0; told < 2; told++) {
        struct validate_rows rows;
        struct validate_summary summary;
        char text[512], path[64];
        system.sets = &set;
        system.set_count = told;
        snprintf(text, sizeof text, mesh, "yes");
        CHECK_OK(read_text_for(&system, text, &rows, path));
        CHECK(rows.rows[0].experiment.tensor.sequence_parallel && rows.rows[1].experiment.tensor.sequence_parallel == !told);
        CHECK_OK(validate_predict(&rows, NULL));
        CHECK_OK(validate_summarize(&rows, &summary));
        CHECK(summary.fits.undecided == !told && summary.fits.rows[0][0] == 2 && summary.fits.rows[0][1] == told, "%d, %d, %d",
              summary.fits.undecided, summary.fits.rows[0][0], summary.fits.rows[0][1]);
        validate_summary_finish(&summary);
        validate_rows_finish(&rows);
    }
}

/* Equal rows of different times are named, once; those that differ as repetitions do are not. */
static void equal_rows_that_contradict(void)
{
    struct validate_rows rows;
    struct validate_summary summary;
    char path[64];
    CHECK_OK(read_text(HEADER "ddp,GPTSmall,8,8,0,1,1,8,keep,,15,\nddp,GPTSmall,8,8,0,1,1,8,keep,,18,\nddp,GPTSmall,8,8,0,1,1,8,keep,,12,\n"
                              "ddp,GPTSmall,8,8,0,1,1,4,keep,,9,\nddp,GPTSmall,8,8,0,1,1,4,keep,,9.5,\n",
                       &rows, path));
    CHECK_OK(validate_predict(&rows, NULL));
    CHECK_OK(validate_summarize(&rows, &summary));
    CHECK(summary.contradiction_count == 1 && summary.contradictions[0].first == 1 && summary.contradictions[0].second == 2, "%d",
          summary.contradiction_count);
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
}

/* A run that did fit and is predicted not to gets a hint, where nothing says how its model is
 * shared. */
static void sharing_told_or_not(void)
{
    static const char *const tables[] = {"gpus,hidden,heads,layers,seq,micro_batch,global_batch,step_s\n8,8192,64,80,2048,1,8,2\n",
                                         "gpus,hidden,heads,layers,seq,micro_batch,global_batch,step_s,zero\n8,8192,64,80,2048,1,8,2,1\n",
                                         "gpus,hidden,heads,layers,seq,micro_batch,global_batch,status\n8,8192,64,80,2048,1,8,oom\n"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct validate_rows rows;
        struct validate_summary summary;
        char path[64], *text = NULL;
        size_t length;
        CHECK_OK(read_text(tables[i], &rows, path));
        CHECK_OK(validate_predict(&rows, NULL));
        CHECK_OK(validate_summarize(&rows, &summary));
        FILE *to = open_memstream(&text, &length);
        CHECK_OK(validate_print(&rows, &summary, to));
        fclose(to);
        bool told = strstr(text, "1 that ran is predicted not to, and nothing says how ranks share the model") != NULL;
        CHECK(rows.rows[0].outcome == VALIDATE_OUT_OF_MEMORY && told == (i == 0), "%zu: %s", i, text);
        free(text);
        validate_summary_finish(&summary);
        validate_rows_finish(&rows);
    }
}

/* RMS norms in separate operations take longer and keep more than those in kernels, which are the
 * default. FSDP gathers as the table says. */
static void norms_and_units_told(void)
{
    static const char *const mesh =
        "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,dp,fsdp,fsdp_wrap,fsdp_gather,notes\n"
        "4,8,1,2048,16,4,2048,4,fsdp,block,,kernel=flash + RMS kernel\n"
        "4,8,1,2048,16,4,2048,4,fsdp,linear,micro_batch,kernel=flash\n"
        "4,8,1,2048,16,4,2048,4,fsdp,,step,\n";
    static const char *const set = "model.norm=rms";
    struct validate_system system = system_of_study;
    struct validate_rows rows;
    char path[64];
    system.sets = &set;
    system.set_count = 1;
    CHECK_OK(read_text_for(&system, mesh, &rows, path));
    const struct validate_row *r = rows.rows;
    CHECK(r[0].experiment.fsdp.unit == DT_UNIT_BLOCK && r[1].experiment.fsdp.unit == DT_UNIT_LINEAR);
    CHECK(r[0].experiment.fsdp.gather == GATHER_EACH && r[1].experiment.fsdp.gather == GATHER_EACH &&
          r[2].experiment.fsdp.gather == GATHER_ONCE);
    rows.rows[1].experiment = rows.rows[2].experiment = r[0].experiment;
    CHECK_OK(validate_predict(&rows, NULL));
    CHECK(r[1].predicted_s > 1.05 * r[0].predicted_s && r[2].predicted_s == r[0].predicted_s, "%g, %g, %g s", r[0].predicted_s,
          r[1].predicted_s, r[2].predicted_s);
    CHECK(r[1].predicted_bytes > r[0].predicted_bytes, "%g, %g bytes", r[0].predicted_bytes, r[1].predicted_bytes);
    validate_rows_finish(&rows);
}

/* Memory from nvidia-smi is compared with all that a GPU holds: the tensors, 10 % of their peak (by
 * general_a100), the context and a communicator. The allocator also keeps freed activations, so that
 * the update's buffers are added: at most 6 bytes for each parameter of a stage, and 8 more of an
 * Adam in operations. */
static void memory_of_the_whole_gpu(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,pp,notes\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,memory from nvidia-smi\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,memory from nvidia-smi; Adam in operations\n";
    const struct validate_system system = {.cluster = "clusters/dgx_a100.json", .profile = "profiles/general_a100.json"};
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text_for(&system, mesh, &rows, path));
    CHECK_OK(validate_predict(&rows, NULL));
    const double tensors = rows.rows[0].predicted_bytes, all = rows.rows[1].predicted_bytes;
    const double beside = all - (1.1 * tensors + 6.1e8 + 6.9e8), stage = 2 * 12 * 1024 * 1024 + (50257 + 1024) * 1024;
    CHECK(beside > 1e8 && beside < 1.1 * 6 * stage, "%g of %g bytes: %g of the update", all, tensors, beside);
    const double more = rows.rows[2].predicted_bytes - all;
    CHECK(fabs(more / (1.1 * 8 * stage) - 1) < 0.03, "an Adam in operations: %g bytes more, %g parameters", more, stage);
    validate_rows_finish(&rows);
}

/* Where single operations are recomputed, PyTorch without torch.compile keeps the output of each
 * block's last product: 32 samples of 1,024 tokens, 512 numbers of 2 bytes, 4 blocks. */
static void last_products_of_eager_runs(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,pp,recompute,notes\n"
                                    "1,32,32,512,8,4,1024,1,1,1,selective op,kernel=flash_attention2 + RMS kernel\n"
                                    "1,32,32,512,8,4,1024,1,1,1,selective op,eager + RMS kernel\n";
    static const char *const sets[] = {"model.norm=rms", "model.mlp=swiglu", "model.position=rope"};
    const struct validate_system system = {
        .cluster = "clusters/dgx_a100.json", .profile = "profiles/general_a100.json", .sets = sets, .set_count = 3};
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text_for(&system, mesh, &rows, path));
    CHECK_OK(validate_predict(&rows, NULL));
    const double more = rows.rows[1].predicted_bytes - rows.rows[0].predicted_bytes;
    CHECK(more == 4.0 * 32 * 1024 * 512 * 2, "%g bytes more", more);
    validate_rows_finish(&rows);
}

/* DeepSpeed fills one stage after the other where its blocks do not divide, and some of its runs
 * sum gradients in fp32. */
static void stages_and_gradients_of_deepspeed(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,pp,dtype,schedule\n"
                                    "4,32,2,1024,16,11,1024,1,1,4,\"bf16, fp32 grad accum\",1f1b (DeepSpeed PipelineEngine)\n"
                                    "4,32,2,1024,16,11,1024,1,1,4,bf16,1f1b\n"
                                    "4,32,2,1024,16,9,1024,1,1,4,bf16,1f1b (DeepSpeed PipelineEngine)\n";
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text_for(&system_of_study, mesh, &rows, path));
    const struct validate_row *r = rows.rows;
    CHECK(r[0].outcome != VALIDATE_SKIPPED, "%s", r[0].reason);
    CHECK(strcmp(r[0].experiment.pipeline.split, "3-6-9") == 0, "%s", r[0].experiment.pipeline.split); /* the last has two */
    CHECK(strcmp(r[1].experiment.pipeline.split, "balanced") == 0, "%s", r[1].experiment.pipeline.split);
    CHECK(strcmp(r[2].experiment.pipeline.split, "balanced") == 0, "%s", r[2].experiment.pipeline.split); /* else a stage would be empty */
    CHECK(r[0].experiment.gradient_dtype == REDUCE_IN_FP32 && r[1].experiment.gradient_dtype == REDUCE_AS_MODEL);
    validate_rows_finish(&rows);
    struct validate_system of_nanotron = {.cluster = "clusters/aws_p5.json", .profile = "profiles/nanotron_h100.json"};
    CHECK_OK(read_text_for(&of_nanotron, mesh, &rows, path));
    CHECK(rows.rows[0].experiment.gradient_dtype == REDUCE_AS_MODEL, "nanotron's profile has the sums in fp32 already");
    validate_rows_finish(&rows);
}

/* Steps that are predicted from short ones take the same time, and equal rows are predicted
 * once. */
static void brief_and_equal_rows(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,pp,notes\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,kernel=flash_attention2 + RMS kernel\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,kernel=flash_attention2\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,kernel=flash_attention2\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,kernel=fused\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,kernel=torch\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,kernel=flash_attentionv1.0.8\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,kernel=cudnn\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,eager; norms too\n"
                                    "2,32,2,1024,16,4,1024,1,1,2,eager + RMS kernel\n";
    static const unsigned kernels[] = {NORM_IN_KERNEL,
                                       NORM_IN_OPERATIONS,
                                       0,
                                       NORM_IN_OPERATIONS,
                                       NORM_IN_OPERATIONS,
                                       NORM_IN_OPERATIONS | SOFTMAX_IN_OPERATIONS,
                                       NORM_IN_OPERATIONS,
                                       NORM_IN_OPERATIONS,
                                       NORM_IN_OPERATIONS | GATE_AND_ROPE_IN_OPERATIONS,
                                       NORM_IN_KERNEL | GATE_AND_ROPE_IN_OPERATIONS};
    static const char *const sets[] = {"model.norm=rms", "model.mlp=swiglu", "model.position=rope"};
    enum { ROWS = sizeof kernels / sizeof *kernels };
    struct validate_system system = {.cluster = "clusters/dgx_a100.json", .profile = "profiles/general_a100.json"};
    double whole_s[ROWS], bytes[ROWS];
    system.sets = sets;
    system.set_count = sizeof sets / sizeof *sets;
    for (int brief = 0; brief < 2; brief++) {
        struct validate_rows rows;
        char path[64];
        CHECK_OK(read_text_for(&system, mesh, &rows, path));
        rows.steps = brief ? VALIDATE_BRIEF : VALIDATE_WHOLE;
        CHECK_OK(validate_predict(&rows, NULL));
        for (int i = 0; i < ROWS; i++) {
            CHECK(rows.rows[i].kernels == kernels[i] && rows.rows[i].outcome == VALIDATE_PREDICTED, "%d: %s", i, rows.rows[i].reason);
            whole_s[i] = brief ? whole_s[i] : rows.rows[i].predicted_s;
            bytes[i] = rows.rows[i].predicted_bytes;
            CHECK(fabs(rows.rows[i].predicted_s / whole_s[i] - 1) < 1e-9, "%d: %g, not %g s", i, rows.rows[i].predicted_s, whole_s[i]);
        }
        validate_rows_finish(&rows);
    }
    CHECK(whole_s[1] > 1.05 * whole_s[0] && whole_s[2] == whole_s[0] && whole_s[3] == whole_s[1], "%g, %g, %g, %g s", whole_s[0],
          whole_s[1], whole_s[2], whole_s[3]);
    CHECK(whole_s[8] > 1.02 * whole_s[3], "SwiGLU and rope of several kernels, too: %g and %g s", whole_s[8], whole_s[3]);
    CHECK(whole_s[9] < whole_s[8] && whole_s[9] > whole_s[0] && bytes[9] < bytes[8] && bytes[9] == bytes[0],
          "SwiGLU and rope of several kernels, norms of one: %g s and %g bytes", whole_s[9], bytes[9]);
    CHECK(whole_s[4] > whole_s[3] && whole_s[5] > 1.05 * whole_s[4] && whole_s[6] > whole_s[3] && whole_s[7] < whole_s[3],
          "%g, %g, %g, %g s", whole_s[4], whole_s[5], whole_s[6], whole_s[7]);
}

/* Products of an older cuBLAS are slower, where a profile knows both. */
static void older_products(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,pp,notes\n"
                                    "1,2,2,4096,32,4,4096,1,1,1,\n"
                                    "1,2,2,4096,32,4,4096,1,1,1,a note; cuBLAS before 12.6.2\n";
    static const struct validate_system systems[] = {{.cluster = "clusters/dgx_h100.json", .profile = "profiles/general_h100.json"},
                                                     {.cluster = "clusters/dgx_a100.json", .profile = "profiles/general_a100.json"}};
    for (int a100 = 0; a100 < 2; a100++) {
        struct validate_rows rows;
        char path[64];
        CHECK_OK(read_text_for(&systems[a100], mesh, &rows, path));
        CHECK_OK(validate_predict(&rows, NULL));
        double slower = rows.rows[1].predicted_s / rows.rows[0].predicted_s;
        CHECK(a100 ? slower == 1 : slower > 1.05 && slower < 1.2, "%d: %g times as long", a100, slower);
        validate_rows_finish(&rows);
    }
}

/* A run that does not fit has a time in coarse predictions, which do not check memory. */
static void coarse_steps_whatever_memory(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,pp\n"
                                    "1,64,32,8192,64,48,2048,1,1,1\n";
    struct validate_system system = {.cluster = "clusters/dgx_a100.json", .profile = "profiles/general_a100.json"};
    for (int coarse = 0; coarse < 2; coarse++) {
        struct validate_rows rows;
        char path[64];
        CHECK_OK(read_text_for(&system, mesh, &rows, path));
        rows.steps = coarse ? VALIDATE_COARSE : VALIDATE_BRIEF;
        CHECK_OK(validate_predict(&rows, NULL));
        CHECK(rows.rows[0].outcome == (coarse ? VALIDATE_PREDICTED : VALIDATE_OUT_OF_MEMORY), "%d: %d", coarse, rows.rows[0].outcome);
        CHECK(!coarse || rows.rows[0].predicted_s > 1, "%g s", rows.rows[0].predicted_s);
        validate_rows_finish(&rows);
    }
}

/* The ranks of a shard group, in both kinds of tables; by default a group has the ranks of a
 * node. */
static void hsdp_in_tables(void)
{
    static const char *const mesh = "gpus,global batch,micro batch,hidden size,attention heads,# layers,seq,dp,zero/fsdp,dp_shard\n"
                                    "16,32,2,1024,16,24,2048,16,HYBRID_SHARD,4\n"
                                    "16,32,2,1024,16,24,2048,16,hsdp,\n"
                                    "16,32,2,1024,16,24,2048,16,FULL_SHARD,16\n";
    static const int shards[] = {4, 0, 0};
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text(mesh, &rows, path));
    for (int i = 0; i < 3; i++) {
        const struct experiment *e = &rows.rows[i].experiment;
        CHECK(rows.rows[i].outcome == VALIDATE_PREDICTED && e->paradigm == (i < 2 ? PARADIGM_HSDP : PARADIGM_FSDP) &&
                  e->hsdp.shard_size == shards[i],
              "row %d: %s", i, rows.rows[i].reason);
    }
    CHECK(*rows.unused == '\0', "%s", rows.unused);
    validate_rows_finish(&rows);
    CHECK_OK(read_text("paradigm,model,gpus,gpus_per_node,batch_per_replica,shard_size,step_s\nhsdp,GPTSmall,16,8,8,4,1\n"
                       "hsdp,GPTSmall,16,8,8,,1\nfsdp,GPTSmall,16,8,8,,1\n",
                       &rows, path));
    CHECK_OK(validate_predict(&rows, NULL));
    CHECK(rows.rows[0].experiment.hsdp.shard_size == 4 && rows.rows[1].predicted_bytes < rows.rows[0].predicted_bytes &&
              rows.rows[1].predicted_bytes > rows.rows[2].predicted_bytes,
          "%g, %g, %g bytes for shards of 4, 8 and 16 ranks", rows.rows[0].predicted_bytes, rows.rows[1].predicted_bytes,
          rows.rows[2].predicted_bytes);
    validate_rows_finish(&rows);
}

/* A run that the profile's framework would refuse is not predicted, and counts as one that does not
 * fit. */
static void framework_refuses(void)
{
    struct validate_rows rows;
    struct validate_summary summary;
    char path[64];
    CHECK_OK(read_text(MESH MESH_REST "8,8,2,1024,16,24,2048,1,2,4,500,none,1,1F1B,none,16,1,OOM,10,bf16,red,a\n"
                                      "8,16,2,1024,16,24,2048,1,2,4,500,none,1,1F1B,none,16,1,ok,10,bf16,red,a\n",
                       &rows, path));
    for (int i = 0; i < rows.count; i++) {
        rows.rows[i].experiment.cluster = "clusters/dgx_h100_1.json";
        rows.rows[i].experiment.profile = "profiles/nanotron_h100.json";
    }
    CHECK_OK(validate_predict(&rows, NULL));
    CHECK(rows.rows[0].outcome == VALIDATE_REFUSED && strstr(rows.rows[0].reason, "pipeline.chunks: 2 for 4 stages"), "%s",
          rows.rows[0].reason);
    CHECK(rows.rows[1].outcome == VALIDATE_PREDICTED, "%s", rows.rows[1].reason);
    CHECK_OK(validate_summarize(&rows, &summary));
    CHECK(summary.fits.rows[0][0] == 1 && summary.fits.rows[1][1] == 1);
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
}

/* A replica's samples need not be a multiple of its GPUs. */
static void any_number_of_samples(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text(MESH MESH_REST "8,8,1,512,8,8,256,2,1,4,500,,1,1F1B,none,8,1,ok,,fp16,red,a\n"
                                      "8,12,1,512,8,8,256,2,1,4,500,,1,1F1B,none,8,1,ok,,fp16,red,a\n"
                                      "8,16,1,512,8,8,256,2,1,4,500,,1,1F1B,none,8,1,ok,,fp16,red,a\n",
                       &rows, path));
    CHECK(rows.rows[0].experiment.batch_size == 1 && rows.rows[1].experiment.batch_size == 1.5 &&
          rows.rows[1].experiment.pipeline.chunks == 12 && rows.rows[1].batch_per_gpu == 1.5);
    CHECK_OK(validate_predict(&rows, NULL));
    double few_s = rows.rows[0].predicted_s, some_s = rows.rows[1].predicted_s, many_s = rows.rows[2].predicted_s;
    CHECK(fabs((some_s - few_s) / (many_s - some_s) - 1) < 0.05 && few_s < some_s, "%g, %g, %g s: four micro-batches more each", few_s,
          some_s, many_s);
    validate_rows_finish(&rows);
}

static const struct validate_group *group(const struct validate_summary *summary, const char *key, const char *value)
{
    for (int g = 0; g < summary->group_count; g++)
        if (strcmp(summary->groups[g].key, key) == 0 && strcmp(summary->groups[g].value, value) == 0)
            return &summary->groups[g];
    static const struct validate_group none;
    return &none;
}

/* Rows with a missing value or an unknown name are skipped with their own reason; the others
 * count. */
static void rows_that_cannot_be_read(void)
{
    static const char *const wrong[][2] = {{"dpd,GPTSmall,8,8,0,1,1,8,keep,,1,1", "paradigm: \"dpd\" is not one of"},
                                           {"ddp,GPTSmall,\"8,8,0,1,1,8,keep,,1,1", "gpus: \"\"8\" is not a whole number"},
                                           {"ddp,GPTTiny,8,8,0,1,1,8,keep,,1,1", "model: there is no GPTTiny; dtbench list names"},
                                           {"ddp,GPTSmall,0,8,0,1,1,8,keep,,1,1", "gpus: \"0\" is not a whole number from 1"},
                                           {"ddp,GPTSmall,,8,0,1,1,8,keep,,1,1", "gpus: no value; expected a whole number from 1"},
                                           {"ddp,GPTSmall,8,8,0,1,1,8.5,keep,,1,1", "batch_per_replica: \"8.5\""},
                                           {"ddp,GPTSmall,8,8,0,1,1,8,keep,,-1,1", "step_s: \"-1\" is not a number above 0"},
                                           {"ddp,GPTSmall,8,8,0,1,1,8,keep,,inf,1", "step_s: \"inf\""},
                                           {"ddp,GPTSmall,8,8,0,1,1,8,keep,,1e-300,1", "its step takes 1e-300 s, and no step does"},
                                           {"ddp,GPTSmall,8,16,0,1,1,8,keep,,1,1", "gpus_per_node: 16 of 8 gpus"},
                                           {"ddp,GPTSmall,8,8,0,2,1,8,keep,,1,1", "stages: 2, but only pdp has stages"},
                                           {"ddp,GPTSmall,8,8,0,1,1", "7 fields, and the first line names 12 columns"}};
    enum { WRONG = sizeof wrong / sizeof *wrong };
    char table[2048] = HEADER "ddp,GPTSmall,8,8,0,1,1,8,keep,,1,1\n", path[64], *text = NULL;
    struct validate_rows rows;
    struct validate_summary summary;
    size_t length;
    for (size_t i = 0; i < WRONG; i++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "%s\n", wrong[i][0]);
    CHECK_OK(read_text(table, &rows, path));
    CHECK(rows.count == WRONG + 1 && rows.rows[0].outcome == VALIDATE_PREDICTED, "%d rows", rows.count);
    for (int i = 1; i < rows.count; i++)
        CHECK(rows.rows[i].outcome == VALIDATE_SKIPPED && rows.rows[i].line == i + 2 &&
                  strncmp(rows.rows[i].reason, wrong[i - 1][1], strlen(wrong[i - 1][1])) == 0,
              "line %d: %s", rows.rows[i].line, rows.rows[i].reason);
    CHECK_OK(validate_summarize(&rows, &summary));
    CHECK(group(&summary, "all", "")->rows == WRONG + 1 && group(&summary, "all", "")->skipped == WRONG &&
          group(&summary, "paradigm", "ddp")->rows == 1 && group(&summary, "GPUs", "8")->rows == 1 && summary.group_count == 8);
    FILE *to = open_memstream(&text, &length);
    CHECK_OK(validate_print(&rows, &summary, to));
    CHECK_OK(validate_print_json(&rows, &summary, to));
    fclose(to);
    CHECK(strstr(text, "1 row from line 3 on: paradigm: \"dpd\""), "%s", text);
    free(text);
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
}

/* Errors by hand: +10 %, -20 %, and one row without a time. Two cells: a clear one, predicted
 * wrong, and a close one, predicted right. */
static void summaries(void)
{
    struct validate_rows rows;
    struct validate_summary summary;
    char path[64];
    CHECK_OK(read_text(HEADER "ddp,GPTSmall,8,8,0,1,1,8,keep,,1.0,1000\n"
                              "fsdp,GPTSmall,8,8,0,1,1,8,keep,,2.0,1000\n"
                              "ddp,GPTSmall,8,8,0,1,1,16,keep,,1.0,\n"
                              "pdp,GPTSmall,8,8,0,2,2,32,keep,,1.1,1000\n"
                              "ddp,GPT2.7B,16,8,0,1,1,8,keep,,5.0,\n",
                       &rows, path));
    const double predicted[] = {1.1, 1.0, 1.0, 1.2, NAN};
    for (int i = 0; i < 5; i++)
        rows.rows[i].predicted_s = predicted[i];
    rows.rows[0].predicted_bytes = 1.03e9;
    rows.rows[4].outcome = VALIDATE_OUT_OF_MEMORY;
    CHECK_OK(validate_summarize(&rows, &summary));
    const struct validate_group *all = group(&summary, "all", ""), *ddp = group(&summary, "paradigm", "ddp");
    CHECK(all->rows == 5 && all->out_of_memory == 1 && all->time.rows == 4 && all->memory.rows == 1 &&
          fabs(all->memory.bias - 0.03) < 1e-12);
    CHECK(ddp->rows == 3 && fabs(ddp->time.median - 0.05) < 1e-12 && fabs(ddp->time.p90 - 0.09) < 1e-12, "%g %g", ddp->time.median,
          ddp->time.p90);
    CHECK(group(&summary, "nodes", "several")->rows == 1 && group(&summary, "model", "GPT2.7B")->time.rows == 0);
    const struct validate_winners *w = &summary.winners;
    CHECK(w->cells == 2 && w->right == 1 && w->clear_cells == 1 && w->clear_right == 0, "%d of %d, %d of %d", w->right, w->cells,
          w->clear_right, w->clear_cells);
    const struct validate_choices *c = &summary.choices;
    CHECK(c->cells == 2 && c->right == 1, "%d of %d", c->right, c->cells);
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
}

/* Every sixth of the study's rows. The accuracy on the whole file is in results/study/README.md;
 * that of a sixth differs by about a percent. */
static void bars(void)
{
    enum { EVERY = 6 };
    struct validate_rows rows;
    struct validate_summary summary;
    int kept = 0;
    char path[1024];
    const char *root = getenv("DTBENCH_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/results/study/measured.csv", root ? root : ".");
    CHECK_OK(validate_rows_read(path, &system_of_study, &rows));
    for (int i = 0; i < rows.count; i += EVERY)
        rows.rows[kept++] = rows.rows[i];
    rows.count = kept;
    CHECK_OK(validate_predict(&rows, NULL));
    CHECK_OK(validate_summarize(&rows, &summary));
    const struct validate_group *one = group(&summary, "nodes", "one"), *several = group(&summary, "nodes", "several"),
                                *all = group(&summary, "all", "");
    CHECK(all->rows > 150 && all->skipped == 0 && all->out_of_memory == 0, "%d rows, %d skipped", all->rows, all->skipped);
    CHECK(one->time.median < 0.08 && one->time.p90 < 0.25, "one node: %.3f and %.3f", one->time.median, one->time.p90);
    CHECK(several->time.median < 0.09 && several->time.p90 < 0.25, "several nodes: %.3f and %.3f", several->time.median, several->time.p90);
    CHECK(all->memory.median < 0.015 && all->memory.p90 < 0.05, "memory: %.4f and %.4f", all->memory.median, all->memory.p90);
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
}

static dt_status read_collectives(const char *text, struct validate_collectives *out, bool *is)
{
    char path[64] = "/tmp/test_validate_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "cannot write %s", path);
    close(fd);
    CHECK_OK(validate_is_collectives(path, is));
    dt_status status = validate_collectives_predict(path, "aws_p5", NULL, 0, out);
    unlink(path);
    return status;
}

/* Names and sizes as people write them; rows that need more nodes than the cluster has are
 * skipped. */
static void collectives_alone(void)
{
    struct validate_collectives c;
    bool is;
    CHECK_OK(read_collectives("collective,size,nodes,gpus,busbw_GB_s,note\nAllReduce,256MB,1,8,436,a\nall-gather,268435456,2,16,184,b\n"
                              "Reduce_Scatter,0.25GiB,2,16,184,b\nbroadcast,1K,2000,4000,1,c\n",
                              &c, &is));
    CHECK(is && c.count == 4 && c.rows[0].kind == DT_SIM_ALL_REDUCE && c.rows[1].kind == DT_SIM_ALL_GATHER && c.rows[2].bytes == 0x1p28 &&
          c.rows[1].bytes == 0x1p28 && c.rows[3].skipped && strstr(c.rows[3].reason, "nodes"));
    for (int i = 0; i < 3; i++)
        CHECK(fabs(c.rows[i].predicted / c.rows[i].measured - 1) < 0.15, "row %d: %g", i, c.rows[i].predicted);
    validate_collectives_finish(&c);
    static const char *const wrong[][2] = {{"all,1M,1,8,1\n", "collective"},    {"reduce,big,1,8,1\n", "size"},
                                           {"reduce,1M,1,8,0\n", "busbw_GB_s"}, {"reduce,1M,3,8,1\n", "gpus"},
                                           {"reduce,1M,x,8,1\n", "nodes"},      {"reduce,1M,1,1,1\n", "gpus"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[128];
        snprintf(text, sizeof text, "collective,size,nodes,gpus,busbw_GB_s\n%sreduce,1M,1,8,1\n", wrong[i][0]);
        CHECK_OK(read_collectives(text, &c, &is));
        CHECK(c.rows[0].skipped && !c.rows[1].skipped && strncmp(c.rows[0].reason, wrong[i][1], strlen(wrong[i][1])) == 0, "%s",
              c.rows[0].reason);
        validate_collectives_finish(&c);
    }
    CHECK(read_collectives(HEADER, &c, &is) == DT_ERR_INVALID && !is);
    validate_collectives_finish(&c);
    static const char *const orders[] = {"size,gpus,nodes,busbw_GB_s,collective\n1M,8,1,100,AllReduce\n",
                                         "gpus,nodes,busbw_GB_s,collective,size\n8,1,100,AllReduce,1M\n",
                                         "busbw_GB_s,collective,size,gpus,nodes\n100,AllReduce,1M,8,1\n"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        CHECK_OK(read_collectives(orders[i], &c, &is));
        CHECK(is && c.count == 1 && c.rows[0].bytes == 0x1p20, "order %zu", i);
        validate_collectives_finish(&c);
    }
}

/* The columns of NVIDIA's own tables. --set paradigm decides as a column would, so that a row with
 * stages keeps its micro-batches. */
static void a_vendors_table(void)
{
    static const char *const text =
        "Model,#-GPUs,Precision,GBS,MBS,Sequence Length,TP,PP,CP,VP,Tokens / sec / GPU,Model TFLOP / sec / GPU\n"
        "LLAMA2-13B,16,FP8-CS,128,1,4096,1,4,1,10,8646,754\nLLAMA3-8B,8,FP8-MX,128,1,8192,1,1,2,1,12036,697\n"
        "LLAMA3-8B,8,BF16,128,1,8192,1,1,2,1,8000,500\n";
    static const char *const sets[] = {"paradigm=zero1", "fp8.gather=true", "activation=checkpoint"};
    struct validate_system system = {.cluster = "clusters/dgx_h100.json", .sets = sets, .set_count = 1};
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text_for(&system, text, &rows, path));
    const struct experiment *first = &rows.rows[0].experiment, *second = &rows.rows[1].experiment;
    CHECK(!*rows.unused && rows.rows[0].outcome == VALIDATE_PREDICTED && rows.rows[1].outcome == VALIDATE_PREDICTED, "%s, %s, %s",
          rows.unused, rows.rows[0].reason, rows.rows[1].reason);
    CHECK(first->paradigm == PARADIGM_ZERO1 && first->pipeline.virtual_stages == 10 && first->pipeline.chunks == 32 &&
              first->model.fp8 == DT_FP8_CURRENT && second->model.fp8 == DT_FP8_MXFP8,
          "%s, %d parts, %d chunks", paradigm_name(first->paradigm), first->pipeline.virtual_stages, first->pipeline.chunks);
    CHECK(fabs(rows.rows[0].measured_s - 128 * 4096.0 / (16 * 8646)) < 1e-9, "%g s", rows.rows[0].measured_s);
    CHECK(rows.rows[0].fp8_open && rows.rows[0].recompute_open && !rows.rows[2].fp8_open, "the table does not say it");
    validate_rows_finish(&rows);
    system.set_count = 3;
    CHECK_OK(read_text_for(&system, text, &rows, path));
    CHECK(!rows.rows[0].fp8_open && !rows.rows[0].recompute_open && rows.rows[0].experiment.model.fp8_gather && !*rows.rows[2].reason,
          "a row in BF16 is read without fp8.gather: %s", rows.rows[2].reason);
    validate_rows_finish(&rows);
}

/* The same vendor's later table has other columns: the ranks that share the model, experts, accumulation. */
static void a_vendors_later_table(void)
{
    static const struct {
        const char *fields, *reason;
        enum paradigm_kind paradigm;
        int shards;
    } known[] = {{"LLAMA3_8B,8,128,1,8192,8,1,1,1,n/a,1,16,14451", "", PARADIGM_FSDP, 0},
                 {"LLAMA3_8B,16,256,1,8192,8,1,1,1,n/a,1,16,14451", "", PARADIGM_HSDP, 8},
                 {"LLAMA3_8B,8,128,1,8192,8,1,1,2,n/a,1,32,14451", "", PARADIGM_FSDP, 0}, /* with the context ranks */
                 {"LLAMA3_8B,8,128,1,8192,1,1,1,1,n/a,1,16,14451", "", PARADIGM_FSDP, 0}, /* yes */
                 {"LLAMA3_8B,8,128,1,8192,0,1,1,1,n/a,1,16,14451", "", PARADIGM_DDP, 0},
                 {"LLAMA3_8B,8,128,1,8192,0,1,1,1,n/a,1,8,14451", "GA 8 times dp times micro_batch is 64", PARADIGM_DDP, 0},
                 {"GPT OSS 120B,64,512,4,4096,0,1,4,1,1,8,2,5630", "EP 8: dtbench has no mixture", PARADIGM_DDP, 0},
                 {"Qwen3_30B_a3B,16,512,2,4096,0,1,2,1,24,1,32,5275", "model Qwen3_30B_a3B: dtbench has no mixture", PARADIGM_DDP, 0}};
    enum { KNOWN = sizeof known / sizeof *known };
    static const struct validate_system system = {.cluster = "clusters/dgx_h100.json"};
    char table[2048] = "Model,#-GPUs,GBS,MBS,Sequence Length,FSDP,TP,PP,CP,VP,EP,GA,Tokens / sec / GPU\n", path[64];
    struct validate_rows rows;
    for (size_t i = 0; i < KNOWN; i++)
        snprintf(table + strlen(table), sizeof table - strlen(table), "%s\n", known[i].fields);
    CHECK_OK(read_text_for(&system, table, &rows, path));
    for (size_t i = 0; i < KNOWN; i++)
        CHECK(strncmp(rows.rows[i].reason, known[i].reason, strlen(known[i].reason)) == 0 &&
                  (*known[i].reason || (!*rows.rows[i].reason && rows.rows[i].experiment.paradigm == known[i].paradigm)) &&
                  (!known[i].shards || rows.rows[i].experiment.hsdp.shard_size == known[i].shards),
              "%s: %s, %s", known[i].fields, paradigm_name(rows.rows[i].experiment.paradigm), rows.rows[i].reason);
    CHECK(rows.rows[4].sharing_open && !rows.rows[0].sharing_open, "0 does not tell how ranks share the optimizer's state");
    validate_rows_finish(&rows);
}

/* Amounts in one table of a spreadsheet with decimal commas; GPUs as nodes and of a kind; numbers
 * with marks of footnotes in a column with a unit; words for too little memory; a column that asks. */
static void cells_of_strangers(void)
{
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text("sep=;\nModel;GPUs;Seq;MBS;GBS;Tokens/s/GPU;Peak Mem (MiB)\nLlama-2-7B;8;4096;1;64;3.276,8;61440*\n"
                       "Llama-2-7B;2x4 H100;4096;1;64;3.276;61\u202f440\nLlama-2-7B;8 A100;4096;1;64;3.276;OutOfMemoryError\n"
                       "Llama-2-7B;2x8 y9;4096;1;64;O.O.M.;\nLlama-2-7B;2k GPUs;4096;1;64;1;\nLlama-2-7B;8;4096;1;64;1;too "
                       "many\nLlama-2-7B;2 nodes;4096;1;64;1;\n",
                       &rows, path));
    CHECK(rows.rows[0].measured_s == 10 && fabs(rows.rows[0].measured_bytes - 61440 * 0x1p20) < 1, "%g s, %g; %s", rows.rows[0].measured_s,
          rows.rows[0].measured_bytes, rows.rows[0].reason);
    CHECK(fabs(rows.rows[1].measured_s - 10) < 0.01 && fabs(rows.rows[1].measured_bytes - 61440 * 0x1p20) < 1 &&
              rows.rows[1].gpus_per_node == 4 && rows.rows[1].experiment.world_size == 8 &&
              strcmp(rows.rows[1].note, "GPUs 2x4 H100 is taken for 8") == 0,
          "%g s, %s, %s", rows.rows[1].measured_s, rows.rows[1].note, rows.rows[1].reason);
    CHECK(rows.rows[2].measured_fit == VALIDATE_FIT_NOT && rows.rows[2].experiment.world_size == 8 &&
          rows.rows[3].measured_fit == VALIDATE_FIT_NOT);
    CHECK(strstr(rows.rows[4].reason, "GPUs: \"2k GPUs\" is not") && strstr(rows.rows[5].reason, "\"too many\" is not") &&
              strstr(rows.rows[6].reason, "\"2 nodes\" is not"),
          "%s; %s", rows.rows[4].reason, rows.rows[5].reason);
    validate_rows_finish(&rows);
    CHECK_OK(read_text(
        "model,gpus,seq,local_batch_size,dp_shard,tps/gpu\nLlama-2-7B,8,4096,2,8,819.2\nLlama-2-7B,8,4096,2,4,1\nLlama-2-7B,8,4096,2,1,1\n",
        &rows, path));
    CHECK(rows.rows[0].experiment.paradigm == PARADIGM_FSDP && !rows.rows[0].sharing_open && rows.rows[0].measured_s == 10 &&
          rows.rows[1].experiment.paradigm == PARADIGM_HSDP && rows.rows[1].experiment.hsdp.shard_size == 4 &&
          rows.rows[2].experiment.paradigm == PARADIGM_DDP && rows.rows[2].sharing_open);
    validate_rows_finish(&rows);
    CHECK_OK(read_text("model,gpus,seq,mbs,gbs,throughput\nLlama-2-7B,8,4096,8,64,OOM\nLlama-2-7B,8,4096,1,64,3.2768k tokens/s/GPU\n",
                       &rows, path));
    CHECK(rows.rows[0].measured_fit == VALIDATE_FIT_NOT && rows.rows[1].measured_s == 10 && !*rows.unused, "%g s; %s",
          rows.rows[1].measured_s, rows.unused);
    validate_rows_finish(&rows);
    CHECK_OK(read_text("config/model,nodes,GPUs/node,seq,mbs,gbs,throughput/device/tokens_per_sec,tps\nLlama-2-7B,2,8,4096,1,64,1638.4,3\n",
                       &rows, path));
    CHECK(rows.rows[0].experiment.world_size == 16 && rows.rows[0].measured_s == 10 && rows.rows[0].gpus_per_node == 8 &&
              strstr(rows.unused, "tps (if of each GPU"),
          "%g s, %s; %s", rows.rows[0].measured_s, rows.rows[0].reason, rows.unused);
    validate_rows_finish(&rows);
}

/* Gradients that ranks share and accumulate are whole until the last part, unless it is said. */
static void reductions_that_are_open(void)
{
    static const char *const sets[] = {"gradient_reduction=each"};
    struct validate_system told = system_of_study;
    struct validate_rows rows;
    char path[64];
    told.sets = sets;
    for (told.set_count = 0; told.set_count < 2; told.set_count++) {
        CHECK_OK(read_text_for(&told,
                               "model,gpus,seq,mbs,gbs,zero,step_s\nLlama-2-7B,8,4096,1,64,fsdp,1\nLlama-2-7B,8,4096,8,64,fsdp,1\n"
                               "Llama-2-7B,8,4096,1,64,zero1,1\nLlama-2-7B,8,4096,1,64,zero2,1\n",
                               &rows, path));
        for (int i = 0; i < rows.count; i++)
            CHECK(rows.rows[i].reduction_open == (told.set_count == 0 && (i == 0 || i == 3)), "row %d, %d sets: %s", i, told.set_count,
                  rows.rows[i].reason);
        validate_rows_finish(&rows);
    }
}

/* A time in which the GPUs cannot have done the step's operations, also of a row that is predicted
 * with another one; what a causal mask leaves out is not counted. */
static void impossible_times(void)
{
    static const char *const words = "faster than the peak";
    struct validate_rows rows;
    char path[64];
    CHECK_OK(read_text("model,gpus,seq,mbs,gbs,zero,step_s\nGPT-2-XL,8,1024,1,64,zero1,0.3\nGPT-2-XL,8,1024,1,64,zero1,0.2\n"
                       "GPT-2-XL,8,1024,1,64,zero1,\n",
                       &rows, path));
    CHECK_OK(validate_predict(&rows, NULL));
    CHECK(!strstr(rows.rows[0].note, words) && strstr(rows.rows[1].note, words) && !strstr(rows.rows[2].note, words), "%s; %s",
          rows.rows[0].note, rows.rows[1].note);
    validate_rows_finish(&rows);
}

static const struct test_case cases[] = {
    {"cells of strangers", cells_of_strangers},
    {"reductions that are open", reductions_that_are_open},
    {"times that are impossible", impossible_times},
    {"norms and units that a table tells", norms_and_units_told},
    {"memory of the whole GPU", memory_of_the_whole_gpu},
    {"last products of eager runs", last_products_of_eager_runs},
    {"stages and gradients of DeepSpeed", stages_and_gradients_of_deepspeed},
    {"brief and equal rows", brief_and_equal_rows},
    {"products of an older cuBLAS", older_products},
    {"coarse steps, whatever memory", coarse_steps_whatever_memory},
    {"hsdp in both kinds of tables", hsdp_in_tables},
    {"sequence parallelism that a row tells, or --set, or nobody", sequence_parallel_told_or_not},
    {"rows that have no time", rows_without_a_time},
    {"equal rows that contradict each other", equal_rows_that_contradict},
    {"how ranks share the model, told or not", sharing_told_or_not},
    {"what a framework does not run", framework_refuses},
    {"samples that are no multiple of the GPUs", any_number_of_samples},
    {"rows that cannot be read are skipped", rows_that_cannot_be_read},
    {"errors, groups and cells, by hand", summaries},
    {"the study's own measurements", bars},
    {"collectives that were timed alone", collectives_alone},
    {"a vendor's table", a_vendors_table},
    {"a vendor's later table", a_vendors_later_table},
};
TEST_MAIN(cases)
