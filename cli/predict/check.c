#include "cli/predict/check.h"

#include "lib/base/machine.h"
#include "schedules/config/families.h"
#include "schedules/predict/simulation.h"
#include "schedules/run/device_choice.h"
#include "schedules/run/memory_fit.h"

#include <string.h>

static void note(struct check *check, const char *text)
{
    if (check->note_count < CHECK_NOTES)
        snprintf(check->notes[check->note_count++], sizeof check->notes[0], "%s", text);
}

static void note_device(const struct experiment *e, struct check *check)
{
    const char *kind;
    char text[512], advice[256];
    if (experiment_is_simulated(e) ? simulated_system_check(e) < 0 : device_choose(e, &kind) < 0) {
        snprintf(text, sizeof text, "cannot run here: %.400s", dt_error_message());
        note(check, text);
    } else if (device_choice_skips_gpu(e, advice, sizeof advice)) {
        snprintf(text, sizeof text, "would run on the cpu, though there is a GPU: %.400s", advice);
        note(check, text);
    } else if (!experiment_is_simulated(e) && strcmp(kind, "cpu") == 0 && !model_cpu_dtype_native(e->model.dtype, advice, sizeof advice)) {
        snprintf(text, sizeof text, "%s is not native on this machine's cpu: %s", dt_dtype_name(e->model.dtype), advice);
        note(check, text);
    }
}

/* The smallest of the GPUs that the ranks would take here, and its memory; 0: there is none. */
static uint64_t smallest_gpu(const struct experiment *e, struct dt_device_info *out)
{
    struct dt_device_info info;
    *out = (struct dt_device_info){.memory_bytes = 0};
    for (int i = 0; i < e->world_size && dt_device_look("cuda", i, &info); i++)
        if (i == 0 || info.memory_bytes < out->memory_bytes)
            *out = info;
    return out->memory_bytes;
}

static void note_memory(const struct experiment *e, struct check *check)
{
    char text[512], need[DT_MEMORY_TEXT], memory[DT_MEMORY_TEXT];
    const char *kind;
    struct dt_device_info gpu;
    const struct dt_memory_usage *usage = &check->usage;
    uint64_t both = usage->device.peak_total_bytes + usage->host.peak_total_bytes, has = dt_machine_memory_bytes();
    if (e->host_memory_limit_bytes && usage->host.peak_total_bytes > e->host_memory_limit_bytes) {
        snprintf(text, sizeof text, "will run out of host memory: rank %d needs %s of it, and host_memory_limit_gib is %.3g",
                 check->host_rank, dt_memory_text(usage->host.peak_total_bytes, need), e->host_memory_limit_gib);
        note(check, text);
    }
    if (e->memory_limit_bytes && usage->device.peak_total_bytes > e->memory_limit_bytes) {
        snprintf(text, sizeof text, "will run out of memory: rank %d needs %s, and memory_limit_gib is %.3g", check->rank,
                 dt_memory_text(usage->device.peak_total_bytes, need), e->memory_limit_gib);
        note(check, text);
    } else if (device_choose(e, &kind) < 0) {
        return;
    } else if (strcmp(kind, "cuda") == 0 && usage->device.peak_total_bytes > smallest_gpu(e, &gpu)) {
        snprintf(text, sizeof text, "will run out of memory: rank %d needs %s, and a GPU here (%.100s) has %s, CUDA's own share included",
                 check->rank, dt_memory_text(usage->device.peak_total_bytes, need), gpu.name, dt_memory_text(gpu.memory_bytes, memory));
        note(check, text);
    } else if (strcmp(kind, "cpu") == 0 && (double)both * e->world_size > (double)has) {
        snprintf(text, sizeof text, "all %d ranks on this machine may not fit: up to %s each, and it has %s", e->world_size,
                 dt_memory_text(both, need), dt_memory_text(has, memory));
        note(check, text);
    }
}

/* system: what a simulation runs on; NULL where there is none, and dtbench's own bytes are all. */
static dt_status predict(const struct experiment *e, const struct simulated_system *system, struct check *out)
{
    *out = (struct check){
        .parameters = dt_model_parameter_count(&e->model),
        .tokens_per_step = experiment_global_batch(e) * (uint64_t)e->model.block_size,
    };
    out->flops_per_step = dt_model_step_flops(&e->model, out->tokens_per_step);
    for (int kind = 0, rank; (rank = experiment_rank_of_kind(e, kind)) >= 0; kind++) {
        struct dt_memory_usage usage;
        DT_TRY(system ? simulation_predict_memory(e, system, rank, &usage) : memory_fit_predict(e, rank, &usage));
        if (kind == 0 || usage.device.peak_total_bytes > out->usage.device.peak_total_bytes) {
            out->usage.device = usage.device;
            out->rank = rank;
        }
        if (kind == 0 || usage.host.peak_total_bytes > out->usage.host.peak_total_bytes) {
            out->usage.host = usage.host;
            out->host_rank = rank;
        }
    }
    note_device(e, out);
    note_memory(e, out);
    bool within_limit = e->memory_limit_bytes == 0 || out->usage.device.peak_total_bytes <= e->memory_limit_bytes; /* else it was said */
    if (system && within_limit && !simulated_system_fits(system, out->usage.device.peak_total_bytes))
        note(out, "will run out of memory on the cluster's GPUs");
    return DT_OK;
}

dt_status check_experiment(const struct experiment *e, struct check *out)
{
    struct simulated_system *system = NULL;
    if (experiment_is_simulated(e))
        (void)simulated_system_create(e, &system); /* a cluster that is not there, or too small, is a note: the rest is known without it */
    dt_status status = predict(e, system, out);
    simulated_system_destroy(system);
    return status;
}
