/* A row of results/study/measured.csv: a paradigm of the study, and its workload. */
#include "cli/predict/validate_run.h"

#include "lib/base/text.h"
#include "schedules/config/families.h"

#include <string.h>

/* Those that the study has measured, and hsdp, which newer measurements have. */
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
    const char *text = measured_text(t, row, COLUMN_MODEL), *nearest = model_preset(0, &run->family)->name;
    for (int i = 0; (run->preset = model_preset(i, &run->family)); i++) {
        if (strcmp(run->preset->name, text) == 0)
            return DT_OK;
        if (dt_edit_distance(text, run->preset->name) < dt_edit_distance(text, nearest))
            nearest = run->preset->name;
    }
    return dt_fail(DT_ERR_INVALID, "%s:%d: model: there is no %.64s; did you mean %s?", t->path, t->csv.lines[row], text, nearest);
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
                                 .micro_batches = 1,
                                 .virtual_stages = 1,
                                 .split = SPLIT_BY_PARAMETERS};
    DT_TRY(paradigm_in(t, i, &run->paradigm));
    DT_TRY(preset_in(t, i, run));
    DT_TRY(measured_count(t, i, COLUMN_GPUS, 0, &run->gpus));
    DT_TRY(measured_count(t, i, COLUMN_BATCH_PER_REPLICA, 0, &run->samples));
    if (*measured_text(t, i, COLUMN_GPUS_PER_NODE))
        DT_TRY(measured_count(t, i, COLUMN_GPUS_PER_NODE, 1, &run->gpus_per_node));
    DT_TRY(measured_count(t, i, COLUMN_STAGES, 1, &run->stages));
    DT_TRY(measured_count(t, i, COLUMN_CHUNKS, 1, &run->chunks));
    DT_TRY(measured_choice(t, i, COLUMN_ACTIVATION, "keep,checkpoint,offload", &policy));
    run->activation = policy < 0 ? ACTIVATION_KEEP : (enum activation_kind)policy;
    if (*measured_text(t, i, COLUMN_SHARD_SIZE))
        DT_TRY(measured_count(t, i, COLUMN_SHARD_SIZE, 1, &run->shard_size));
    DT_TRY(measured_choice(t, i, COLUMN_FSDP_WRAP, "block,linear,unknown", &run->wrap));
    DT_TRY(measured_choice(t, i, COLUMN_PARAMETER_OFFLOAD, "0,1", &run->offload));
    if (run->stages > 1 && !has_stages(run))
        return dt_fail(DT_ERR_INVALID, "%s:%d: stages: %d, and only pdp has any", t->path, t->csv.lines[i], run->stages);
    if (run->samples % run->stages)
        snprintf(run->reason, sizeof run->reason, "batch_per_replica %d is no multiple of %d stages", run->samples, run->stages);
    return DT_OK;
}
