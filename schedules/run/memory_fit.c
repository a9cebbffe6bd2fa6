#include "schedules/run/memory_fit.h"

#include "lib/base/machine.h"
#include "lib/device/range.h"
#include "schedules/run/dry_rank.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool holds_the_same(const struct dt_memory_bytes *a, const struct dt_memory_bytes *b)
{
    return memcmp(a->current_bytes, b->current_bytes, sizeof a->current_bytes) == 0;
}

/* Memory and communication of a rank's step. */
struct dry_step {
    int micro_batches;                                 /* of it */
    struct dt_memory_usage usage, at[TIMELINE_PHASES]; /* at: when each phase first begins */
    struct step_traffic traffic;
};

static dt_status train_dry(struct dry_rank *dry)
{
    for (int step = 0; step < 2; step++) { /* the second step begins with what the first has left; if that is nothing, both are equal */
        struct dt_memory_usage before, after;
        dt_memory_usage(dry->device, &before);
        DT_TRY(trainer_step(dry->trainer, step));
        DT_TRY(trainer_synchronize(dry->trainer));
        dt_memory_usage(dry->device, &after);
        if (holds_the_same(&before.device, &after.device) && holds_the_same(&before.host, &after.host))
            break;
    }
    return DT_OK;
}

/* Run a dry step of the rank. repetitions: the number to which the step is shortened; 0: the whole
 * step. */
static dt_status take_dry_step(const struct experiment *experiment, int rank, int repetitions, struct dry_step *out)
{
    DT_ENDED(dry_rank_finish) struct dry_rank dry = {0};
    DT_TRY(dry_rank_init(&dry, experiment, rank, repetitions));
    DT_TRY(train_dry(&dry));
    out->micro_batches = trainer_plan(dry.trainer)->micro_batches;
    dt_memory_usage(dry.device, &out->usage);
    memcpy(out->at, dry.memory_at, sizeof out->at);
    trainer_traffic(dry.trainer, &out->traffic);
    return DT_OK;
}

/* One number of a rank's memory, in a step with `fewer` repetitions and in a step with one more. */
struct two_steps {
    uint64_t peak[2];
    uint64_t held[2][TIMELINE_PHASES]; /* memory in use when each phase first begins */
};

/* As a function of the number of repetitions, the memory at each moment of a step is a line, and
 * the peak is the highest line. No line rises faster than the memory at the beginning of some
 * phase, since in between memory changes evenly or falls. Once the peak rises as fast as the
 * fastest of these, it stays so. *missing: repetitions that are still needed until it must; 0:
 * none. */
static uint64_t extend_peak(const struct two_steps *s, int times, int *missing)
{
    uint64_t grows = 0, held = 0, grew = s->peak[1] - s->peak[0];
    for (int phase = 0; phase < TIMELINE_PHASES; phase++)
        if (s->held[1][phase] > s->held[0][phase] + grows) {
            grows = s->held[1][phase] - s->held[0][phase];
            held = s->held[1][phase];
        }
    if (grew > grows) /* also if the peak fell */
        *missing = INT_MAX;
    else if (grew < grows) {
        uint64_t more = (s->peak[1] - held) / (grows - grew) + 1;
        *missing = more > INT_MAX ? INT_MAX : (int)more > *missing ? (int)more : *missing;
    }
    return s->peak[1] + (uint64_t)times * grows;
}

static const struct dt_memory_bytes *bytes_of(const struct dt_memory_usage *usage, bool on_host)
{
    return on_host ? &usage->host : &usage->device;
}

static void extend_memory(const struct dry_step *const steps[2], bool on_host, int times, struct dt_memory_bytes *out, int *missing)
{
    for (int c = 0; c <= DT_CATEGORY_COUNT; c++) { /* the last one is the total */
        bool total = c == DT_CATEGORY_COUNT;
        struct two_steps s;
        for (int i = 0; i < 2; i++) {
            const struct dt_memory_bytes *whole = bytes_of(&steps[i]->usage, on_host);
            s.peak[i] = total ? whole->peak_total_bytes : whole->peak_bytes[c];
            for (int phase = 0; phase < TIMELINE_PHASES; phase++) {
                const struct dt_memory_bytes *at = bytes_of(&steps[i]->at[phase], on_host);
                s.held[i][phase] = total ? at->current_total_bytes : at->current_bytes[c];
            }
        }
        *(total ? &out->peak_total_bytes : &out->peak_bytes[c]) = extend_peak(&s, times, missing);
    }
    if (!holds_the_same(bytes_of(&steps[0]->usage, on_host), bytes_of(&steps[1]->usage, on_host)))
        *missing = INT_MAX;
}

/* Extend to the whole step: each further repetition does and communicates the same. *missing: as in
 * extend_peak; INT_MAX: no number of repetitions suffices. */
static void extend(const struct dry_step *fewer, const struct dry_step *more, int micro_batches, struct dry_step *out, int *missing)
{
    int each = more->micro_batches - fewer->micro_batches, left = micro_batches - more->micro_batches;
    *out = *more;
    *missing = 0;
    if (each <= 0 || left % each) {
        *missing = INT_MAX;
        return;
    }
    extend_memory((const struct dry_step *const[]){fewer, more}, false, left / each, &out->usage.device, missing);
    extend_memory((const struct dry_step *const[]){fewer, more}, true, left / each, &out->usage.host, missing);
    out->micro_batches = micro_batches;
    for (int group = 0; group < TRAFFIC_GROUPS; group++)
        for (int kind = 0; kind < DT_COMM_KINDS; kind++) {
            uint64_t before = fewer->traffic.bytes[group][kind], after = more->traffic.bytes[group][kind];
            if (after < before)
                *missing = INT_MAX;
            out->traffic.bytes[group][kind] += (uint64_t)(left / each) * (after - before);
        }
}

enum { REPETITIONS = 3 };

/* Predict from a step with a few repetitions, or with as many as certainty needs if these are few
 * compared with the whole step; otherwise run the whole step. */
static dt_status predict(const struct experiment *experiment, int rank, struct dry_step *out)
{
    int micro_batches = experiment->strategy.micro_batches, missing = 0;
    for (int repetitions = REPETITIONS; missing < micro_batches / 4 - repetitions; repetitions += missing) {
        struct dry_step fewer, more;
        DT_TRY(take_dry_step(experiment, rank, repetitions, &fewer));
        *out = fewer;
        if (fewer.micro_batches == micro_batches)
            return DT_OK;
        DT_TRY(take_dry_step(experiment, rank, repetitions + 1, &more));
        extend(&fewer, &more, micro_batches, out, &missing);
        if (missing == 0)
            return DT_OK;
    }
    return take_dry_step(experiment, rank, 0, out);
}

dt_status memory_fit_predict(const struct experiment *experiment, int rank, struct dt_memory_usage *out, struct step_traffic *traffic)
{
    struct dry_step step;
    dt_range_push("predict memory", -1);
    dt_status status = predict(experiment, rank, &step);
    dt_range_pop();
    DT_TRY(status);
    *out = step.usage;
    if (traffic)
        *traffic = step.traffic;
    return DT_OK;
}

static dt_status check_limit(int rank, uint64_t bytes, uint64_t limit_bytes, const char *memory, const char *limit)
{
    char need[DT_MEMORY_TEXT], most[DT_MEMORY_TEXT];
    if (limit_bytes == 0 || bytes <= limit_bytes)
        return DT_OK;
    return dt_fail(DT_ERR_OOM, "rank %d needs %s%s and the %smemory limit is %s", rank, dt_memory_text(bytes, need), memory, limit,
                   dt_memory_text(limit_bytes, most));
}

static bool same_host(const struct memory_fit_rank *a, const struct memory_fit_rank *b)
{
    return strcmp(a->host, b->host) == 0;
}

/* The ranks of a machine share its memory; with GPUs this holds only for offloaded data. Checked
 * once per machine, with its first rank. */
static dt_status check_machine(const struct memory_fit_rank *ranks, int size, int first)
{
    char need[DT_MEMORY_TEXT], has[DT_MEMORY_TEXT];
    const struct memory_fit_rank *here = &ranks[first];
    uint64_t bytes = 0;
    int count = 0;
    for (int i = 0; i < size; i++) {
        if (!same_host(&ranks[i], here))
            continue;
        if (i < first)
            return DT_OK;
        bytes += ranks[i].host_bytes + (*ranks[i].gpu ? 0 : ranks[i].device_bytes);
        count++;
    }
    if (here->machine_bytes == 0 || bytes <= here->machine_bytes)
        return DT_OK;
    dt_memory_text(bytes, need);
    dt_memory_text(here->machine_bytes, has);
    if (count == size)
        return dt_fail(DT_ERR_OOM, "this machine's ranks need %s and it has %s", need, has);
    return dt_fail(DT_ERR_OOM, "the %d ranks on %s need %s and it has %s", count, here->host, need, has);
}

/* Check a GPU, and the ranks that share it, if any. The memory that CUDA itself takes is measured:
 * it is not free. */
static dt_status check_gpu(const struct memory_fit_rank *ranks, int size, int first)
{
    char need[DT_MEMORY_TEXT], left[DT_MEMORY_TEXT], has[DT_MEMORY_TEXT], who[64];
    const struct memory_fit_rank *here = &ranks[first];
    uint64_t bytes = 0, free_bytes = here->gpu_free_bytes;
    int count = 0;
    for (int i = 0; i < size && *here->gpu; i++) {
        if (!same_host(&ranks[i], here) || strcmp(ranks[i].gpu, here->gpu) != 0)
            continue;
        if (i < first)
            return DT_OK;
        bytes += ranks[i].device_bytes;
        free_bytes = ranks[i].gpu_free_bytes < free_bytes ? ranks[i].gpu_free_bytes : free_bytes;
        count++;
    }
    if (free_bytes == 0 || bytes <= free_bytes)
        return DT_OK;
    if (count == 1)
        snprintf(who, sizeof who, "rank %d needs", first);
    else
        snprintf(who, sizeof who, "rank %d and %d more on its GPU need", first, count - 1);
    return dt_fail(DT_ERR_OOM, "%s %s, and of the GPU's %s buffers can have %s: CUDA, its libraries and other processes hold the rest", who,
                   dt_memory_text(bytes, need), dt_memory_text(here->gpu_bytes, has), dt_memory_text(free_bytes, left));
}

dt_status memory_fit_check(const struct experiment *e, const struct memory_fit_rank *ranks, int size)
{
    for (int i = 0; i < size; i++) {
        if (ranks[i].status < 0)
            return dt_fail((dt_status)ranks[i].status, "rank %d could not be laid out", i);
        DT_TRY(check_limit(i, ranks[i].device_bytes, e->memory_limit_bytes, "", ""));
        DT_TRY(check_limit(i, ranks[i].host_bytes, e->host_memory_limit_bytes, " of host memory", "host "));
    }
    for (int i = 0; i < size; i++) {
        DT_TRY(check_machine(ranks, size, i));
        DT_TRY(check_gpu(ranks, size, i));
    }
    return DT_OK;
}

dt_status memory_fit_agree(const struct experiment *e, const struct dt_device *device, struct dt_comm *world)
{
    struct dt_device_info info;
    struct dt_memory_usage usage = {0};
    char own[1024];
    dt_device_info(device, &info);
    if (info.kind->simulated)
        return DT_OK;

    struct memory_fit_rank mine = {0};
    DT_FREED struct memory_fit_rank *all = NULL;
    gethostname(mine.host, sizeof mine.host - 1);
    memcpy(mine.gpu, info.uuid, sizeof mine.gpu);
    mine.gpu_bytes = info.memory_bytes;
    mine.gpu_free_bytes = info.available_bytes;
    mine.machine_bytes = dt_machine_memory_bytes();
    mine.status = memory_fit_predict(e, dt_comm_rank(world), &usage, NULL);
    snprintf(own, sizeof own, "%s", dt_error_message());
    mine.device_bytes = usage.device.peak_total_bytes;
    mine.host_bytes = usage.host.peak_total_bytes;

    DT_TRY(dt_host_collect(world, &mine, sizeof mine, &all));
    if (mine.status < 0) /* a rank's own text is more precise than "could not be laid out" */
        return dt_fail((dt_status)mine.status, "%s", own);
    return memory_fit_check(e, all, dt_comm_size(world));
}
