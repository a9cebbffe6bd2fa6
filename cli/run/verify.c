#include "cli/run/run.h"

#include "cli/records/records.h"
#include "schedules/config/parse.h"
#include "schedules/run/device_choice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A change of the learning rate that moves weights by about as much as one rounding in fp32, and by
 * itself moves losses by less than any bound. */
static const double SHAKE = 1e-5;

enum { ALWAYS_COMPARED = 2 }; /* the loss with the initial weights, and the loss after the first update */

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
    out->paradigm = experiment_staleness(e) > 0 ? PARADIGM_PARAMETER_SERVER : PARADIGM_NONE; /* one worker's updates have the same delay */
    out->world_size = 1;
    out->batch_size = (double)experiment_global_batch(e);
    out->micro_batches = (int)fmin(e->world_size / e->context.size, out->batch_size);
    if (device_choose(e, &kind) == DT_OK) /* "auto" may choose another device for one rank */
        out->device = kind->name;
    out->share_gpus = false;
    out->parameter_offload = false;
    out->activation = ACTIVATION_KEEP;
    out->activation_blocks = 1;
    out->pipeline.activation = "";
    /* Remove limits that one device alone need not keep, and keys that do not affect it, so that
     * more experiments share a reference. */
    out->memory_limit_gib = out->host_memory_limit_gib = 0;
    out->threads = 0;
    out->mesh.order = MESH_TENSOR_PIPELINE_DATA;
    out->pipeline.stages = out->pipeline.chunks = 1;
    out->pipeline.order = "gpipe";
    out->tensor.size = 1;
    out->context.size = 1;
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
    if (e->model.family->fix_micro_batch) { /* micro-batches of the same size, because samples of one micro-batch depend on each other */
        int64_t samples = experiment_replica_samples(e) / e->strategy.micro_batches;
        e->model.family->fix_micro_batch(&out->model, &samples);
        out->micro_batches = (int)((int64_t)out->batch_size / samples);
    }
    return experiment_resolve(out, "the reference of --verify");
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

dt_status verify_shaken(const struct experiment *reference, struct experiment *out)
{
    *out = *reference;
    out->optimizer.learning_rate *= 1 + SHAKE;
    return experiment_resolve(out, "the shaken reference of --verify");
}

static void fail(struct report *report, const char *error)
{
    report->verification = "failed";
    report_end(report, DT_ERR_VERIFY, error);
}

static double difference(const struct report *report, const struct report *reference, int i)
{
    double its = reference->result.losses[i];
    return fabs(report->result.losses[i] - its) / fmax(fabs(its), 1e-30);
}

/* Index of the first of `count` losses that is off by more than `most`; count: none. NaN is off,
 * too. */
static int first_off(const struct report *report, const struct report *reference, int count, double most)
{
    int i = 0;
    while (i < count && difference(report, reference, i) <= most)
        i++;
    return i;
}

static bool comparable(const struct report *report, const struct report *reference)
{
    return reference->status >= 0 && reference->result.losses_done == report->result.losses_done;
}

/* Is only rounding left of the gradients? Then only the loss with the initial weights is alike. */
static bool gradients_cancel(const struct experiment *e)
{
    const struct dt_model_family *family = e->model.family;
    return family->gradients_cancel && family->gradients_cancel(&e->model, experiment_replica_samples(e) / e->strategy.micro_batches);
}

bool verify_needs_shaken(const struct report *report, const struct experiment *e, const struct report *reference)
{
    int count = report->result.losses_done;
    if (!comparable(report, reference) || gradients_cancel(e))
        return false;
    int wrong = first_off(report, reference, count, loss_tolerance(e));
    return wrong >= ALWAYS_COMPARED && wrong < count;
}

/* Number of losses that can be compared: those before the shaken reference's differ by a tenth of
 * the tolerance. */
static int trusted(const struct experiment *e, const struct report *reference, const struct report *shaken, double tolerance)
{
    int count = reference->result.losses_done;
    if (gradients_cancel(e))
        return 1;
    if (!shaken || !comparable(reference, shaken))
        return count;
    int off = first_off(shaken, reference, count, tolerance / 10);
    return off < ALWAYS_COMPARED ? ALWAYS_COMPARED : off;
}

/* Steps in which some parameters were not updated, or none. */
static double steps_left_out(const struct measure_result *result)
{
    const struct dt_step_metrics *step = &result->metrics.step;
    return fmax(step->overflow_steps, 0) + fmax(step->skipped_steps, 0);
}

/* What makes losses differ where all is computed as it should be; or "". */
static const char *likely_cause(const struct experiment *e, const struct measure_result *mine, const struct measure_result *its)
{
    if (e->loss == LOSS_SUM)
        return "; loss \"sum\" may diverge, or be almost 0: verify with cross_entropy, or with a learning rate near 0";
    if (steps_left_out(mine) > 0 || steps_left_out(its) > 0)
        return "; gradients were not finite, and what they would update was left out, here or there: verify with a smaller loss_scaling";
    return "";
}

void verify_compare(struct report *report, const struct experiment *e, const struct report *reference, const struct report *shaken)
{
    char error[sizeof report->error];
    const struct measure_result *mine = &report->result, *its = &reference->result;
    if (reference->status < 0) {
        snprintf(error, sizeof error, "verification: the reference on one device failed: %.900s", reference->error);
        fail(report, error);
        return;
    }
    if (!comparable(report, reference)) {
        snprintf(error, sizeof error, "verification: %d losses, but one device has %d", mine->losses_done, its->losses_done);
        fail(report, error);
        return;
    }
    double tolerance = loss_tolerance(e);
    int count = mine->losses_done, wrong = first_off(report, reference, count, tolerance);
    int compared = wrong < count ? trusted(e, reference, shaken, tolerance) : count;
    report->verification = "passed";
    report->verified_losses = compared < count ? compared : -1;
    report->verification_error = 0;
    for (int i = 0; i < compared; i++)
        if (!(difference(report, reference, i) <= report->verification_error))
            report->verification_error = difference(report, reference, i);
    if (wrong >= compared)
        return;
    snprintf(error, sizeof error, "verification: the loss of step %d is %.9g, but on one device %.9g; %s may differ by %g of it%s",
             wrong + 1, mine->losses[wrong], its->losses[wrong], dt_dtype_name(loss_rounded_to(e)), tolerance, likely_cause(e, mine, its));
    fail(report, error);
}
