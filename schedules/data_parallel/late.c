#include "schedules/data_parallel/late.h"

#include "schedules/data_parallel/optimizer.h"

#include <stdlib.h>

struct late_updates {
    struct dt_kernels kernels; /* for updates, whose step differs from that of compute */
    int steps;                 /* number of updates so far */
    struct dt_buffer grads;    /* [staleness] times the replica's size; the replica's own are slot 0 */
    struct dt_buffer versions; /* [staleness + 1] times the flat parameters */
    struct dt_buffer newest;   /* the parameters that this rank updates, in the order of the optimizer's state */
    struct dt_event **arrived; /* [staleness + 1] network: the version is complete */
};

static int staleness(const struct buckets *b)
{
    return b->base.setup.experiment->parameter_server.staleness;
}

/* The slot of a step's version, and of its gradients. */
static int slot_of(const struct buckets *b, int step)
{
    return step % (staleness(b) + 1);
}

static char *version_at(const struct buckets *b, int slot)
{
    return (char *)b->late->versions.data + (size_t)slot * b->replica.params.bytes;
}

static char *newest_of(const struct buckets *b, const struct bucket *bucket)
{
    return (char *)b->late->newest.data + dp_bytes(&b->base.setup, bucket->own_state_elem);
}

static dt_status allocate(struct buckets *b)
{
    const struct dp_setup *s = &b->base.setup;
    struct late_updates *late = b->late;
    size_t copies = (size_t)staleness(b), own_elems = 0;
    for (int i = 0; i < b->bucket_count; i++)
        own_elems += b->buckets[i].own_elems;
    DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, copies * b->replica.grads.bytes, &late->grads));
    DT_TRY(dt_alloc(s->compute, DT_COMMUNICATION, (copies + 1) * b->replica.params.bytes, &late->versions));
    if (own_elems > 0)
        DT_TRY(dt_alloc(s->compute, DT_PARAMETERS, dp_bytes(s, own_elems), &late->newest));
    for (int i = 0; i < b->bucket_count; i++) {
        const struct bucket *bucket = &b->buckets[i];
        if (bucket->own_elems > 0)
            DT_TRY(
                dt_copy(s->compute, newest_of(b, bucket), replica_params(&b->replica, s, bucket->first_elem), dp_bytes(s, bucket->elems)));
    }
    return DT_OK;
}

dt_status late_create(struct buckets *b)
{
    const struct dp_setup *s = &b->base.setup;
    struct late_updates *late = b->late = calloc(1, sizeof *late);
    DT_TRY(dt_allocated(late, "no host memory for a parameter server"));
    late->arrived = calloc((size_t)staleness(b) + 1, sizeof *late->arrived);
    DT_TRY(dt_allocated(late->arrived, "no host memory for %d versions", staleness(b) + 1));
    for (int i = 0; i <= staleness(b); i++)
        DT_TRY(dt_event_create(s->device, &late->arrived[i]));
    DT_TRY(dt_kernels_init(&late->kernels, s->device, s->experiment->model.dtype));
    optimizer_use(b->replica.optimizer, &late->kernels);
    return allocate(b);
}

void late_destroy(struct buckets *b)
{
    struct late_updates *late = b->late;
    if (!late)
        return;
    for (int i = 0; late->arrived && i <= staleness(b); i++)
        dt_event_destroy(late->arrived[i]);
    dt_kernels_finish(&late->kernels);
    dt_free(b->base.setup.compute, &late->grads);
    dt_free(b->base.setup.compute, &late->versions);
    dt_free(b->base.setup.compute, &late->newest);
    free(late->arrived);
    free(late);
    b->late = NULL;
}

void *late_grads(const struct buckets *b, const struct bucket *bucket)
{
    int slot = slot_of(b, b->late->steps);
    size_t first = dp_bytes(&b->base.setup, bucket->first_elem);
    return slot == 0 ? replica_grads(&b->replica, &b->base.setup, bucket->first_elem)
                     : (char *)b->late->grads.data + (size_t)(slot - 1) * b->replica.grads.bytes + first;
}

dt_status late_begin_step(struct buckets *b)
{
    const struct dp_setup *s = &b->base.setup;
    struct late_updates *late = b->late;
    int slot = slot_of(b, late->steps);
    if (late->steps <= staleness(b)) /* the first parameters, which have not changed yet */
        return DT_OK;
    DT_TRY(timeline_wait(s->timeline, late->arrived[slot]));
    DT_TRY(dt_copy(s->compute, b->replica.params.data, version_at(b, slot), b->replica.params.bytes));
    return dt_stream_follow(s->network, s->compute);
}

static dt_status update_and_publish(struct buckets *b, struct bucket *bucket, char *version)
{
    const struct dp_setup *s = &b->base.setup;
    char *place = version + dp_bytes(s, bucket->first_elem);
    bucket->params = place;
    if (bucket->own_elems > 0) {
        bucket->params = newest_of(b, bucket);
        DT_TRY(optimizer_apply(b->replica.optimizer, bucket->params, bucket->own_grads, bucket->first_elem, bucket->own_state_elem,
                               bucket->elems, s->network));
        DT_TRY(dt_copy(s->network, place, bucket->params, dp_bytes(s, bucket->elems)));
    }
    return b->scheme->publish(b, bucket);
}

dt_status late_end_step(struct buckets *b)
{
    const struct dp_setup *s = &b->base.setup;
    struct late_updates *late = b->late;
    int made = late->steps++, slot = slot_of(b, made); /* also used by the step with this version: staleness + 1 later */
    late->kernels.rate = s->stage->kernels->rate;
    DT_TRY(dt_kernels_begin_step(&late->kernels, s->network, 0, made + 1));
    for (int i = 0; i < b->bucket_count; i++)
        DT_TRY(update_and_publish(b, &b->buckets[i], version_at(b, slot)));
    DT_TRY(dt_event_record(late->arrived[slot], s->network));
    return dt_kernels_overflows(&late->kernels, s->network, &b->base.late_overflows[made % DP_LATE_STEPS]);
}
