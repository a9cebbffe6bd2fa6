#include "cli/run/run.h"

#include "cli/records/records.h"
#include "schedules/config/parse.h"
#include "schedules/run/device_choice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify_reference {
    char hash[sizeof((struct experiment *)0)->hash];
    struct report report;
    struct verify_reference *next;
};

dt_status verify_reference_of(const struct experiment *e, struct experiment *out)
{
    const struct dt_device_kind *kind;
    *out = *e;
    out->name = "reference";
    out->paradigm = experiment_staleness(e) > 0 ? PARADIGM_PARAMETER_SERVER : PARADIGM_NONE; /* one worker's updates are as late */
    out->world_size = 1;
    out->batch_size = e->world_size * e->batch_size;
    out->micro_batches = e->world_size;
    if (device_choose(e, &kind) == DT_OK) /* "auto" may mean another one for one rank */
        out->device = kind->name;
    out->share_gpus = false;
    out->parameter_offload = false;
    out->activation = ACTIVATION_KEEP;
    out->activation_blocks = 1;
    out->pipeline.activation = "";
    /* What one device alone may use, and what makes no difference to it: so that more experiments share a reference. */
    out->memory_limit_gib = out->host_memory_limit_gib = 0;
    out->threads = 0;
    out->mesh.order = MESH_TENSOR_PIPELINE_DATA;
    out->pipeline.stages = out->pipeline.chunks = 1;
    out->pipeline.order = "gpipe";
    out->tensor.size = 1;
    out->tensor.sequence_parallel = true;
    out->fsdp.unit = DT_UNIT_BLOCK;
    out->fsdp.gather = GATHER_EACH;
    out->hsdp.shard_size = 0;
    out->ddp.bucket_mib = 25;
    out->parameter_server.servers = out->parameter_server.receives = 1;
    out->gradient_reduction = REDUCTION_LAST;
    out->reduce_dtype = REDUCE_AS_MODEL;
    out->checkpoint.path = "";
    out->checkpoint.save_every = 0;
    if (e->model.family->fix_micro_batch) { /* micro-batches of the same size, whose samples have to do with each other */
        int64_t samples = experiment_replica_samples(e) / e->strategy.micro_batches;
        e->model.family->fix_micro_batch(&out->model, &samples);
        out->micro_batches = (int)((int64_t)out->batch_size / samples);
    }
    return experiment_resolve(out, NULL, "the reference of --verify");
}

const struct report *verify_find(const struct verify_cache *cache, const struct experiment *reference)
{
    for (const struct verify_reference *r = cache->first; r; r = r->next)
        if (strcmp(r->hash, reference->hash) == 0)
            return &r->report;
    return NULL;
}

dt_status verify_keep(struct verify_cache *cache, const struct experiment *reference, struct report *report)
{
    struct verify_reference *r = calloc(1, sizeof *r);
    if (!r) {
        report_finish(report);
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory to keep a reference's losses");
    }
    memcpy(r->hash, reference->hash, sizeof r->hash);
    r->report = *report;
    r->next = cache->first;
    cache->first = r;
    return DT_OK;
}

void verify_finish(struct verify_cache *cache)
{
    while (cache->first) {
        struct verify_reference *next = cache->first->next;
        report_finish(&cache->first->report);
        free(cache->first);
        cache->first = next;
    }
}

static void fail(struct report *report, const char *error)
{
    report->verification = "failed";
    report_end(report, DT_ERR_VERIFY, error);
}

void verify_compare(struct report *report, const struct experiment *e, const struct report *reference)
{
    char error[sizeof report->error];
    const struct measure_result *mine = &report->result, *its = &reference->result;
    int count = mine->losses_done, wrong = -1;
    double tolerance = loss_tolerance(e), largest = 0;
    if (reference->status < 0) {
        snprintf(error, sizeof error, "verification: the reference on one device failed: %.900s", reference->error);
        fail(report, error);
        return;
    }
    if (its->losses_done != count) {
        snprintf(error, sizeof error, "verification: %d losses, but one device has %d", count, its->losses_done);
        fail(report, error);
        return;
    }
    for (int i = 0; i < count; i++) {
        double difference = fabs(mine->losses[i] - its->losses[i]) / fmax(fabs(its->losses[i]), 1e-30);
        if (!(difference <= tolerance) && wrong < 0) /* NaN is wrong too */
            wrong = i;
        if (!(difference <= largest))
            largest = difference;
    }
    report->verification = "passed";
    report->verification_error = largest;
    if (wrong < 0)
        return;
    snprintf(error, sizeof error, "verification: the loss of step %d is %.9g, but on one device %.9g; %s may differ by %g of it%s",
             wrong + 1, mine->losses[wrong], its->losses[wrong], dt_dtype_name(loss_rounded_to(e)), tolerance,
             e->loss == LOSS_SUM ? "; loss \"sum\" may diverge, or be almost 0: verify with cross_entropy, or with a learning rate near 0"
                                 : "");
    fail(report, error);
}
