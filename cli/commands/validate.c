/* `dtbench validate`: how well the simulated cluster predicts runs that were measured. */
#include "cli/commands/commands.h"

#include "cli/predict/predict.h"
#include "cli/predict/validate.h"
#include "cli/run/run.h"
#include "cli/text/text.h"

#define DEFAULT_CLUSTER "clusters/gcp_a2.json"
#define DEFAULT_PROFILE "profiles/pytorch_1.11_a100.json"

struct arguments {
    const char *file, *data; /* the file of runs, as an argument or by --data */
    const char *cluster, *profile;
    const char *rates;
    struct option_list sets, where;
    bool brief, coarse, json;
};

#define AT(member) offsetof(struct arguments, member)

static const struct option_row options[] = {
    {"data", 'D', OPTION_TEXT, AT(data), "FILE", NULL,
     "measured runs: comma-separated values ('-' is standard input), or dtbench's own records (a folder: all *.jsonl in it)"},
    {"cluster", 'C', OPTION_TEXT, AT(cluster), "FILE", NULL,
     "the cluster of the runs, with as many nodes as they have; default for tables: " DEFAULT_CLUSTER},
    {"profile", 'P', OPTION_TEXT, AT(profile), "FILE", NULL,
     "the software of the runs; default for tables: what --cluster names, or " DEFAULT_PROFILE},
    CONFIG_RATES_ROW(struct arguments, rates),
    {"set", 's', OPTION_LIST, AT(sets), "PATH=VALUE", NULL, "change every run's config: --set model.attention=fused; any number of times"},
    {"where", 'w', OPTION_LIST, AT(where), "COND", NULL,
     "only rows that meet a condition on a column, with = != < <= > or >=: --where 'tp<=8'. Of several conditions, all must be met"},
    {"brief", 'b', OPTION_FLAG, AT(brief), NULL, NULL,
     "predict a step of many micro-batches from three steps of few, where these grow evenly: faster, for fits"},
    {"coarse", 'o', OPTION_FLAG, AT(coarse), NULL, NULL,
     "predict it from two steps of two or three micro-batches: faster still, but good only to see how a step changes with a profile"},
    {"json", 'j', OPTION_FLAG, AT(json), NULL, NULL, "print JSON: the same, and the prediction of each row"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct arguments *a = options_read;
    if (a->brief && a->coarse)
        return dt_fail(DT_ERR_INVALID, "--brief and --coarse exclude each other: give one");
    if (a->file && a->data)
        return dt_fail(DT_ERR_INVALID, "takes one file of measured runs, not two: '%s' and '%s'", a->file, a->data);
    a->data = a->file ? a->file : a->data;
    return a->data ? DT_OK : dt_fail(DT_ERR_INVALID, "needs a file of measured runs");
}

static dt_status validate(const struct arguments *a, struct validate_rows *rows, struct validate_summary *summary)
{
    char rates[RATES_SET_BYTES];
    struct option_list sets = a->sets;
    if (a->rates) {
        if (sets.count == OPTION_LIST_MAX)
            return dt_fail(DT_ERR_INVALID, "--set: more than %d with --rates", OPTION_LIST_MAX - 1);
        sets.items[sets.count++] = config_rates_set(a->rates, rates);
    }
    bool records = validate_is_records(a->data); /* their machine is not the study's, so its cluster and profile are not the defaults */
    struct validate_system system = {.cluster = a->cluster || records ? a->cluster : DEFAULT_CLUSTER,
                                     .profile = a->profile || records || a->cluster ? a->profile : DEFAULT_PROFILE,
                                     .sets = sets.items,
                                     .set_count = sets.count,
                                     .where = a->where.items,
                                     .where_count = a->where.count};
    DT_TRY(validate_rows_read(a->data, &system, rows));
    rows->steps = a->coarse ? VALIDATE_COARSE : a->brief ? VALIDATE_BRIEF : VALIDATE_WHOLE;
    DT_TRY(validate_predict(rows, signals_came));
    DT_TRY(validate_summarize(rows, summary));
    DT_TRY(a->json ? validate_print_json(rows, summary, stdout) : validate_print(rows, summary, stdout));
    return validate_rows_check(rows);
}

static dt_status validate_collectives(const struct arguments *a)
{
    DT_ENDED(validate_collectives_finish) struct validate_collectives collectives = {0};
    if (a->rates)
        return dt_fail(DT_ERR_INVALID, "--rates: not for a table of collectives, which is compared with the cluster file");
    dt_status status =
        validate_collectives_predict(a->data, a->cluster ? a->cluster : DEFAULT_CLUSTER, a->where.items, a->where.count, &collectives);
    DT_THEN(status, a->json ? validate_collectives_print_json(&collectives, stdout) : validate_collectives_print(&collectives, stdout));
    return status;
}

static int run(int argc, char **argv)
{
    struct arguments a = {0};
    struct validate_rows rows = {0};
    struct validate_summary summary = {0};
    bool of_collectives = false;
    int code;
    if (!options_begin(&command_validate, argc, argv, &a, check_options, &code))
        return code;
    signals_install();
    rates_note(a.rates, NULL);
    dt_status status = validate_is_records(a.data) ? DT_OK : validate_is_collectives(a.data, &of_collectives);
    DT_THEN(status, of_collectives ? validate_collectives(&a) : validate(&a, &rows, &summary));
    validate_summary_finish(&summary);
    validate_rows_finish(&rows);
    if (status == DT_ERR_INTERRUPTED)
        return report_failure("validate", signals_exit_code(status));
    return status == DT_OK ? EXIT_CODE_OK : report_wrong("validate", status);
}

const struct command command_validate = {
    .name = "validate",
    .summary = "compare the simulated cluster's predictions with measured runs",
    .usage = "[OPTION]... FILE",
    .description =
        "Predicts step time and peak memory of measured runs on the simulated cluster, and prints the errors: by paradigm, model, GPUs, "
        "nodes and activation policy, and over all. Among runs of the same model, GPUs and batch per GPU it counts how often the paradigm "
        "predicted as the fastest was the fastest. FILE has measured records of dtbench, which are printed with prediction and error one "
        "by one. Or it has the columns of results/study/measured.csv: paradigm, model, gpus, batch_per_replica, and where they matter "
        "gpus_per_node, stages, chunks, activation, shard_size, fsdp_wrap, parameter_offload, step_s, peak_mb (1e6 bytes). Or it is a "
        "table of meshes: gpus, layers, hidden, heads, seq, micro_batch, global_batch or gradient_accumulation_steps, or torchtitan's "
        "local_batch_size (the name of a published model in the column model stands for its sizes; models of images have no seq, and "
        "images_per_s), and where they matter dp, tp, pp, cp, "
        "vpp, schedule, zero/fsdp, dp_shard, fsdp_wrap, fsdp_gather, recompute, seq_parallel, dtype, vocab, ffn, kv_heads, tied_emb, "
        "model, gpus_per_node, step_s, step_ms, tokens_per_s_per_gpu, total_tokens_per_s or samples_per_s, peak_mem_gib, status (ok, oom; "
        "\"OOM\" may stand for a time, too). Or it has collectives that were timed alone: collective, size, gpus, nodes, busbw_GB_s. "
        "Semicolons, tabs or bars may divide columns, as in a spreadsheet's or Markdown's tables, and lines that begin with # are "
        "comments; numbers may have marks between thousands and a unit (1,234.5 ms), and \"n/a\", - and NaN say nothing; without a column "
        "gpus, dp, tp, pp and cp are multiplied. Columns that are not used are listed, and so are rows that name another GPU than the "
        "cluster's; rows that lack a value, name what is not known, give two different times or are no experiment of this version are "
        "skipped and counted with the reason. Needs no device, MPI or GPU.",
    .options = options,
    .argument = {"file", OPTION_TEXT, AT(file), NULL},
    .run = run,
};
