/* Messages of a pipeline without a model: each pass fills a buffer and keeps what it read. What
 * arrives is what was sent, and the device holds no more memory than the ledger has counted. Run on
 * any number of ranks. */
#include "schedules/pipeline/links.h"
#include "schedules/plan/plan.h"
#include "test/ranks.h"

enum { MICRO_BATCHES = 40, PARTS = 2, STEPS = 2, ELEMS = 1 << 17 };
/* lib/device/cuda/pool.c: where messages come from, and one segment for small buffers on the
 * device, one for those on the host. */
enum { SEGMENT_BYTES = 32 << 20, SMALL_BYTES = 2 * (4 << 20) };

/* Buffers of a pass on the device: the residual stream and its gradient, which are sent, and what
 * forward keeps. */
struct held {
    struct dt_buffer x, dx, kept;
};

struct walk {
    struct plan plan;
    struct plan_receipts receipts;
    struct links links;
    struct mesh mesh;
    struct timeline *timeline;
    struct dt_stream *compute;
    struct held all[PARTS][MICRO_BATCHES]; /* by slot */
    /* float [2, PARTS, MICRO_BATCHES]: what activations and gradients have at both ends, and [..,
     * 2] what has arrived there. */
    struct dt_buffer values, seen;
};

static float value_of(bool gradient, int v, uint32_t micro_batch)
{
    return (float)(1 + gradient + 2 * (v + 64 * (int)micro_batch));
}

static size_t index_of(bool gradient, int part, uint32_t micro_batch)
{
    return ((size_t)gradient * PARTS + (size_t)part) * MICRO_BATCHES + micro_batch;
}

/* The pass makes its message, in a buffer that it fills from end to end. */
static dt_status make(struct walk *w, const struct action *a, bool gradient, struct dt_buffer *out)
{
    const float *value = (const float *)w->values.data + index_of(gradient, a->part, a->micro_batch);
    DT_TRY(dt_alloc(w->compute, DT_ACTIVATIONS, ELEMS * sizeof(float), out));
    float *data = out->data;
    DT_TRY(dt_zero(w->compute, data, ELEMS * sizeof(float)));
    DT_TRY(dt_copy(w->compute, data, value, sizeof *value));
    return dt_copy(w->compute, data + ELEMS - 1, value, sizeof *value);
}

static dt_status look(struct walk *w, const struct action *a, bool gradient, const struct dt_buffer *in)
{
    float *seen = (float *)w->seen.data + 2 * index_of(gradient, a->part, a->micro_batch);
    const float *data = in->data;
    DT_TRY(dt_copy(w->compute, seen, data, sizeof *seen));
    return dt_copy(w->compute, seen + 1, data + ELEMS - 1, sizeof *seen);
}

static dt_status run(struct walk *w, const struct action *a)
{
    struct link_message message = {.dtype = DT_FP32, .elems = ELEMS};
    struct held *h = &w->all[a->part][a->slot], *before = a->part > 0 ? &w->all[a->part - 1][a->segment] : NULL;
    bool gradient = a->op == ACTION_RECV_GRADIENT || a->op == ACTION_SEND_GRADIENT;
    int v = plan_virtual_stage(&w->plan, a);
    message.key = 1 + a->micro_batch + (uint64_t)gradient * 1000 +
                  1000000 * (uint64_t)(v - (a->op == ACTION_RECV_INPUT || a->op == ACTION_SEND_GRADIENT));
    switch (a->op) {
    case ACTION_RECV_INPUT: DT_TRY(links_recv(&w->links, a, &message, w->timeline, &h->x)); return look(w, a, false, &h->x);
    case ACTION_RECV_GRADIENT: DT_TRY(links_recv(&w->links, a, &message, w->timeline, &h->dx)); return look(w, a, true, &h->dx);
    case ACTION_SEND_OUTPUT: return links_send(&w->links, a, &message, w->timeline, &h->x);
    case ACTION_SEND_GRADIENT: return links_send(&w->links, a, &message, w->timeline, &h->dx);
    case ACTION_TAKE_OVER:
        h->x = before->x;
        before->x = (struct dt_buffer){0};
        return DT_OK;
    case ACTION_GIVE_BACK:
        before->dx = h->dx;
        h->dx = (struct dt_buffer){0};
        return DT_OK;
    case ACTION_FORWARD: h->kept = h->x; return make(w, a, false, &h->x);
    case ACTION_BACKWARD:
    case ACTION_BACKWARD_INPUT:
        dt_free(w->compute, &h->x); /* the last output, which nobody was sent */
        dt_free(w->compute, &h->dx);
        DT_TRY(make(w, a, true, &h->dx));
        if (v == 0)
            dt_free(w->compute, &h->dx);
        if (a->op == ACTION_BACKWARD)
            dt_free(w->compute, &h->kept);
        return DT_OK;
    default: dt_free(w->compute, &h->kept); return DT_OK;
    }
}

static dt_status run_step(struct walk *w)
{
    DT_TRY(timeline_start(w->timeline));
    for (int i = 0; i < w->plan.count; i++)
        DT_TRY(run(w, &w->plan.actions[i]));
    links_end_step(&w->links);
    return timeline_stop(w->timeline);
}

static dt_status synchronize(struct walk *w)
{
    struct dt_stream *streams[LINKS];
    DT_TRY(dt_stream_synchronize(w->compute));
    links_streams(&w->links, streams);
    for (int i = 0; i < LINKS; i++)
        DT_TRY(streams[i] ? dt_stream_synchronize(streams[i]) : DT_OK);
    return DT_OK;
}

static dt_status make_values(struct walk *w)
{
    float values[2 * PARTS * MICRO_BATCHES];
    DT_TRY(dt_alloc(w->compute, DT_WORKSPACE, sizeof values, &w->values));
    DT_TRY(dt_alloc(w->compute, DT_WORKSPACE, 2 * sizeof values, &w->seen));
    for (int part = 0; part < w->plan.parts; part++) {
        int v = virtual_stage_of(part, w->plan.stage, w->plan.stages, w->plan.folded);
        for (uint32_t i = 0; i < MICRO_BATCHES; i++)
            for (int gradient = 0; gradient < 2; gradient++)
                values[index_of(gradient, part, i)] = value_of(gradient, v, i);
    }
    DT_TRY(dt_copy_from_host(w->compute, w->values.data, values, sizeof values));
    return dt_stream_synchronize(w->compute);
}

static dt_status check_messages(struct walk *w, const char *order)
{
    float seen[4 * PARTS * MICRO_BATCHES];
    DT_TRY(dt_copy_to_host(w->compute, seen, w->seen.data, sizeof seen));
    DT_TRY(dt_zero(w->compute, w->seen.data, sizeof seen));
    DT_TRY(dt_stream_synchronize(w->compute));
    for (int i = 0; i < w->plan.count; i++) {
        const struct action *a = &w->plan.actions[i];
        bool gradient = a->op == ACTION_RECV_GRADIENT;
        int v = plan_virtual_stage(&w->plan, a);
        if (!action_receives(a))
            continue;
        const float *ends = &seen[2 * index_of(gradient, a->part, a->micro_batch)];
        float expected = value_of(gradient, gradient ? v + 1 : v - 1, a->micro_batch);
        CHECK(ends[0] == expected && ends[1] == expected, "%s: rank %d, %s of micro-batch %u: %g and %g, not %g", order, world.rank,
              action_name((enum action_op)a->op), a->micro_batch, ends[0], ends[1], expected);
    }
    return DT_OK;
}

/* On a GPU only the host's program decides which memory is reused, so the peak is the same in every
 * run. On a cpu it depends on timing. */
static void check_memory(const struct walk *w, const char *order)
{
    struct dt_memory_usage usage;
    dt_memory_usage(device, &usage);
    uint64_t messages = (usage.device.peak_total_bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES * SEGMENT_BYTES;
    if (strcmp(test_device_kind(), "cuda") == 0)
        CHECK(dt_device_reserved_bytes(device) <= messages + SMALL_BYTES, "%s: rank %d holds %zu MiB for a peak of %zu MiB", order,
              world.rank, (size_t)(dt_device_reserved_bytes(device) >> 20), (size_t)(usage.device.peak_total_bytes >> 20));
    CHECK(usage.device.current_total_bytes == dt_ledger_rounded(w->values.bytes) + dt_ledger_rounded(w->seen.bytes),
          "%s: rank %d leaves %zu bytes", order, world.rank, (size_t)usage.device.current_total_bytes);
}

static dt_status walk(struct walk *w, const char *order)
{
    int stages = world.size, around[] = {world.rank, (world.rank + 1) % stages, (world.rank + stages - 1) % stages};
    int count = stages < 3 ? stages : 3;
    struct order_shape shape = {
        .stages = stages, .virtual_stages = PARTS, .micro_batches = MICRO_BATCHES, .window = MICRO_BATCHES, .times = plan_unit_times};
    struct mesh_shape ranks = {.size = {1, 1, 1, 1, stages}, .order = {MESH_TENSOR, MESH_CONTEXT, MESH_SHARD, MESH_REPLICA, MESH_PIPELINE}};
    struct plan plans[3] = {0};
    dt_status status = plans_of_stages(pipeline_order_find(order), &shape, around, count, plans);
    if (status == DT_OK)
        status = plan_receipts_find(world.rank, &plans[count - 1], &plans[1], &w->receipts);
    w->plan = plans[0];
    plan_finish(&plans[1]);
    plan_finish(&plans[2]);
    DT_TRY(status);
    DT_TRY(plan_assign_slots(&w->plan));
    DT_TRY(mesh_init(&w->mesh, &ranks, 0, everyone));
    DT_TRY(dt_stream_create(device, "compute", &w->compute));
    DT_TRY(timeline_create(device, w->compute, &w->timeline));
    DT_TRY(links_init(&w->links, &w->mesh, w->compute, &w->plan, &w->receipts));
    DT_TRY(make_values(w));
    for (int step = 0; step < STEPS; step++) {
        DT_TRY(run_step(w));
        check_memory(w, order);
        DT_TRY(synchronize(w));
        DT_TRY(check_messages(w, order));
    }
    return DT_OK;
}

static void check_order(const char *order)
{
    struct walk *w = calloc(1, sizeof *w);
    if (world.size == 1)
        SKIP("a pipeline needs two ranks");
    dt_status status = walk(w, order);
    CHECK(status == DT_OK, "%s: %s", order, dt_error_message());
    links_finish(&w->links);
    dt_free(w->compute, &w->values);
    dt_free(w->compute, &w->seen);
    timeline_destroy(w->timeline);
    dt_stream_destroy(w->compute);
    mesh_finish(&w->mesh);
    plan_receipts_finish(&w->receipts);
    plan_finish(&w->plan);
    free(w);
}

/* The ledger's peak is that of all orders so far: those that keep little come first. */
static void one_forward_one_backward(void)
{
    check_order("1f1b");
}

static void a_ring(void)
{
    check_order("interleaved");
}

static void a_folded_pipeline(void)
{
    check_order("zb_v");
}

static void forward_first(void)
{
    check_order("gpipe");
}

static const struct test_case cases[] = {
    {"1f1b", one_forward_one_backward},
    {"interleaved: a ring", a_ring},
    {"zb_v: folded", a_folded_pipeline},
    {"gpipe: all forward passes come first", forward_first},
};

int main(void)
{
    return ranks_main(cases, (int)(sizeof cases / sizeof *cases));
}
