#include "cli/plan/confidence.h"

#include "schedules/config/families.h"

#include <stdio.h>
#include <string.h>

/* What a profile was held against: measured runs on one kind of cluster. */
struct validation {
    const char *profile, *gpu; /* names in their files */
    const char *source;
    struct {
        enum paradigm_kind paradigm;
        double median;
    } modes[4];
    int mode_count;
    double most; /* nine of ten predictions of its worst mode are no farther off */
    uint64_t least_parameters, most_parameters;
    int most_gpus;
    int block_size;
    enum dt_attention attention;
    enum dt_dtype dtype;
    enum optimizer_kind optimizer;
};

/* The figures stand in results/study/README.md (dtbench validate --data results/study/measured.csv); test_plan_cli.py compares the two. */
static const struct validation validations[] = {
    {.profile = "PyTorch 1.11 eager, A100",
     .gpu = "NVIDIA A100-SXM4-40GB",
     .source = "results/study/README.md",
     .modes = {{PARADIGM_DDP, 0.040}, {PARADIGM_PDP, 0.045}, {PARADIGM_FSDP, 0.054}},
     .mode_count = 3,
     .most = 0.148,
     .least_parameters = 162052608,
     .most_parameters = 175000000000,
     .most_gpus = 128,
     .block_size = 256,
     .attention = DT_ATTENTION_UNFUSED,
     .dtype = DT_FP16,
     .optimizer = OPTIMIZER_SGD},
};

/* A machine that dtbench has calibrated: docs/simulator.md and README.md say how far off step times were. */
#define CALIBRATED_MEDIAN 0.075
#define NEVER_MEASURED 0.3

static const struct validation *find(const struct simulated_machine *m)
{
    for (size_t i = 0; i < sizeof validations / sizeof *validations; i++)
        if (strcmp(validations[i].profile, m->profile.name) == 0)
            return &validations[i];
    return NULL;
}

struct confidence confidence_of(const struct experiment *e, const struct simulated_machine *m)
{
    const struct validation *v = find(m);
    if (m->profile.measured.count > 0)
        return (struct confidence){.measured = true, .error = CALIBRATED_MEDIAN, .source = "README.md, dtbench calibrate"};
    if (!v)
        return (struct confidence){.error = NEVER_MEASURED};
    for (int i = 0; i < v->mode_count; i++)
        if (v->modes[i].paradigm == e->paradigm)
            return (struct confidence){.measured = true, .error = v->modes[i].median, .source = v->source};
    return (struct confidence){.error = v->most, .source = v->source};
}

/* Each looks at one thing; false: no doubt there. */
static bool doubts_gpu(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text, size_t bytes)
{
    snprintf(text, bytes, "GPU: the profile was measured on %s, and this is %s", v->gpu, m->cluster.gpu.name);
    return strcmp(v->gpu, m->cluster.gpu.name) != 0;
}

static bool doubts_network(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text,
                           size_t bytes)
{
    snprintf(text, bytes,
             "network: runs over several nodes were measured on 100 Gbit/s Ethernet with plain sockets, and this is cluster %s",
             m->cluster.name);
    return e->world_size > m->cluster.gpus_per_node && strcmp(m->cluster.name, "gcp_a2") != 0;
}

static bool doubts_model(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text,
                         size_t bytes)
{
    uint64_t parameters = dt_model_parameter_count(&e->model);
    snprintf(text, bytes, "model: %.3g parameters; measured models have %.3g to %.3g", (double)parameters, (double)v->least_parameters,
             (double)v->most_parameters);
    return (double)parameters < 0.95 * (double)v->least_parameters || (double)parameters > 1.05 * (double)v->most_parameters;
}

static bool doubts_gpus(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text, size_t bytes)
{
    snprintf(text, bytes, "GPUs: %d; at most %d were measured", e->world_size, v->most_gpus);
    return e->world_size > v->most_gpus;
}

static bool doubts_workload(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text,
                            size_t bytes)
{
    char what[160] = "";
    size_t used = 0;
    if (e->model.attention != v->attention)
        used += (size_t)snprintf(what + used, sizeof what - used, ", unfused attention");
    if (e->model.block_size != v->block_size)
        used += (size_t)snprintf(what + used, sizeof what - used, ", %d tokens a sample", v->block_size);
    if (e->optimizer.name != v->optimizer)
        used += (size_t)snprintf(what + used, sizeof what - used, ", SGD");
    if (e->model.dtype != v->dtype)
        used += (size_t)snprintf(what + used, sizeof what - used, ", %s", dt_dtype_name(v->dtype));
    snprintf(text, bytes, "workload: measured with %s", used ? what + 2 : "the same");
    return used > 0;
}

bool confidence_next_doubt(const struct experiment *e, const struct simulated_machine *m, int *at, char *text, size_t text_bytes)
{
    static bool (*const doubts[])(const struct experiment *, const struct simulated_machine *, const struct validation *, char *,
                                  size_t) = {doubts_gpu, doubts_network, doubts_model, doubts_gpus, doubts_workload};
    const struct validation *v = find(m);
    if (!v && m->profile.measured.count == 0 && (*at)++ == 0) {
        snprintf(text, text_bytes, "profile \"%s\" has never been held against a measurement", m->profile.name);
        return true;
    }
    for (; v && *at < (int)(sizeof doubts / sizeof *doubts);)
        if (doubts[(*at)++](e, m, v, text, text_bytes))
            return true;
    return false;
}
