#include "predict/chakra.h"

#include "lib/base/grow.h"
#include "predict/chakra_file.h"
#include "predict/simulation_ranks.h"
#include "predict/symmetry.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PATH_BYTES = 640, STEP = 1 };

/* Ids of nodes that a node depends on. */
struct deps {
    uint64_t *ids;
    size_t count, room;
};

static dt_status add_dep(struct deps *d, uint64_t id)
{
    if (id == 0)
        return DT_OK;
    DT_TRY(dt_allocated(DT_ROOM(d->ids, d->count, d->room), "no host memory for a trace"));
    d->ids[d->count++] = id;
    return DT_OK;
}

/* One queue of a device, and the dependencies of its next operation. Messages of a group go
 * together: each depends on what was before the group. */
struct queue {
    struct deps before, members; /* members: messages of an open group */
    double left_us;              /* the rest of durations, which the file has in whole microseconds */
};

struct writer {
    struct chakra_file *file;
    const struct dt_sim_program *program;
    const struct simulated_ranks *ranks;
    const struct simulated_rank *rank;
    int world_rank;
    struct queue *queues; /* [stream_count] */
    uint64_t *events;     /* [event_count] the node after which the event was recorded; 0: none */
    struct deps host;     /* nodes that the host has waited for since the last node of any queue */
    uint64_t next_id;
    struct chakra_totals *totals;
};

static const struct simulated_group *group_of(const struct writer *w, const struct dt_sim_op *op, int *number)
{
    *number = w->rank->groups[op->target];
    return &w->ranks->groups[*number];
}

static uint64_t whole_us(struct queue *q, double seconds)
{
    double us = seconds * 1e6 + q->left_us, whole = floor(us);
    q->left_us = us - whole;
    return (uint64_t)whole;
}

static void describe_collective(struct writer *w, const struct dt_sim_op *op, struct chakra_node *node)
{
    /* The format's CollectiveCommType. */
    static const int kinds[DT_SIM_OPERATIONS] = {[DT_SIM_ALL_REDUCE] = 0, [DT_SIM_REDUCE] = 1,         [DT_SIM_ALL_GATHER] = 2,
                                                 [DT_SIM_BROADCAST] = 5,  [DT_SIM_REDUCE_SCATTER] = 7, [DT_SIM_ALL_TO_ALL] = 6,
                                                 [DT_SIM_SHIFT] = 6}; /* the format has no shift, in which each rank sends to one other */
    const struct simulated_group *group = group_of(w, op, &node->group);
    double bytes = op->detail == DT_SIM_ALL_GATHER ? op->amount / group->count : op->amount;
    node->kind = CHAKRA_COLLECTIVE;
    node->collective = kinds[op->detail];
    node->bytes = (uint64_t)llround(bytes);
    w->totals->collectives++;
    w->totals->collective_bytes += op->amount;
}

static void describe_message(struct writer *w, const struct dt_sim_op *op, struct chakra_node *node)
{
    bool sends = op->kind == DT_SIM_SEND;
    int peer = group_of(w, op, &node->group)->ranks[op->peer];
    node->kind = sends ? CHAKRA_SEND : CHAKRA_RECEIVE;
    node->from = sends ? w->world_rank : peer;
    node->to = sends ? peer : w->world_rank;
    node->bytes = (uint64_t)llround(op->amount);
    w->totals->messages++;
    w->totals->sent_bytes += sends ? op->amount : 0;
}

static void describe(struct writer *w, const struct dt_sim_op *op, struct queue *q, struct chakra_node *node)
{
    switch ((enum dt_sim_op_kind)op->kind) {
    case DT_SIM_COLLECTIVE: describe_collective(w, op, node); return;
    case DT_SIM_SEND:
    case DT_SIM_RECV: describe_message(w, op, node); return;
    case DT_SIM_COPY:
        node->kind = op->detail == DT_SIM_TO_HOST ? CHAKRA_STORE : CHAKRA_LOAD;
        node->bytes = (uint64_t)llround(op->amount);
        w->totals->copies++;
        return;
    case DT_SIM_WORK:
    case DT_SIM_SHARED_WORK:
    case DT_SIM_HOST:
    case DT_SIM_RECORD:
    case DT_SIM_WAIT:
    case DT_SIM_HOST_WAIT:
    case DT_SIM_SYNCHRONIZE:
        node->kind = CHAKRA_COMPUTE;
        node->duration_us = whole_us(q, op->amount);
        w->totals->compute++;
    }
}

static const char *name_of(const struct writer *w, const struct dt_sim_op *op)
{
    const char *label = w->program->labels[op->label];
    static const char *const kinds[] = {
        [DT_SIM_WORK] = "work", [DT_SIM_SHARED_WORK] = "work", [DT_SIM_SEND] = "send", [DT_SIM_RECV] = "recv", [DT_SIM_COPY] = "copy"};
    if (*label)
        return label;
    return op->kind == DT_SIM_COLLECTIVE ? dt_sim_collective_name(op->detail) : kinds[op->kind];
}

/* Once the operation is queued, the queue's next one depends on it, or on all of a group whose last
 * member it is. */
static dt_status follow(struct queue *q, bool group_goes_on, uint64_t id)
{
    DT_TRY(add_dep(&q->members, id));
    if (group_goes_on)
        return DT_OK;
    struct deps done = q->before;
    q->before = q->members;
    done.count = 0;
    q->members = done;
    return DT_OK;
}

/* *id: one node that depends on everything in the queue so far; 0: the queue is empty. */
static dt_status join(struct writer *w, struct queue *q, uint64_t *id)
{
    if (q->before.count > 1) {
        struct chakra_node node = {
            .id = w->next_id++, .name = "join", .kind = CHAKRA_COMPUTE, .data_deps = q->before.ids, .data_count = q->before.count};
        DT_TRY(chakra_file_add(w->file, &node));
        DT_TRY(follow(q, false, node.id));
    }
    *id = q->before.count > 0 ? q->before.ids[0] : 0;
    return DT_OK;
}

static dt_status add_node(struct writer *w, const struct dt_sim_op *op)
{
    struct queue *q = &w->queues[op->stream];
    struct chakra_node node = {.id = w->next_id++,
                               .name = name_of(w, op),
                               .data_deps = q->before.ids,
                               .data_count = q->before.count,
                               .ctrl_deps = w->host.ids,
                               .ctrl_count = w->host.count};
    describe(w, op, q, &node);
    DT_TRY(chakra_file_add(w->file, &node));
    bool message = op->kind == DT_SIM_SEND || op->kind == DT_SIM_RECV;
    return follow(q, message && op->in_group, node.id);
}

/* Operations after this wait are issued later: one node stands for what the host has waited for. */
static dt_status add_host_node(struct writer *w, const char *name, double seconds)
{
    struct chakra_node node = {.id = w->next_id++,
                               .name = name,
                               .kind = CHAKRA_COMPUTE,
                               .on_host = true,
                               .ctrl_deps = w->host.ids,
                               .ctrl_count = w->host.count,
                               .duration_us = (uint64_t)llround(seconds * 1e6)};
    DT_TRY(chakra_file_add(w->file, &node));
    w->host.count = 0;
    return add_dep(&w->host, node.id);
}

static dt_status synchronize(struct writer *w, int stream)
{
    for (int s = 0; s < w->program->stream_count; s++)
        for (size_t i = 0; (stream == DT_SIM_ALL_STREAMS || s == stream) && i < w->queues[s].before.count; i++)
            DT_TRY(add_dep(&w->host, w->queues[s].before.ids[i]));
    return add_host_node(w, "synchronize", 0);
}

static dt_status add_op(struct writer *w, const struct dt_sim_op *op)
{
    switch ((enum dt_sim_op_kind)op->kind) {
    case DT_SIM_HOST: return op->host_s > 0 ? add_host_node(w, "host", op->host_s) : DT_OK;
    case DT_SIM_RECORD: return op->stream == DT_SIM_ON_HOST ? DT_OK : join(w, &w->queues[op->stream], &w->events[op->target]);
    case DT_SIM_WAIT: return add_dep(&w->queues[op->stream].before, w->events[op->target]);
    case DT_SIM_HOST_WAIT: DT_TRY(add_dep(&w->host, w->events[op->target])); return add_host_node(w, "wait", 0);
    case DT_SIM_SYNCHRONIZE: return synchronize(w, op->peer);
    case DT_SIM_WORK:
    case DT_SIM_SHARED_WORK:
    case DT_SIM_COLLECTIVE:
    case DT_SIM_SEND:
    case DT_SIM_RECV:
    case DT_SIM_COPY: break;
    }
    return add_node(w, op);
}

static dt_status write_rank(struct writer *w, const char *folder)
{
    char path[PATH_BYTES];
    const struct dt_sim_program *p = w->program;
    snprintf(path, sizeof path, "%s/dtbench.%d.et", folder, w->world_rank);
    w->queues = calloc((size_t)p->stream_count + 1, sizeof *w->queues);
    w->events = calloc((size_t)p->event_count + 1, sizeof *w->events);
    dt_status status = dt_allocated(w->queues && w->events, "no host memory for a trace");
    DT_THEN(status, chakra_file_create(path, w->world_rank, w->ranks->part->world_size, &w->file));
    for (size_t i = 0; i < p->op_count && status == DT_OK; i++)
        status = add_op(w, &p->ops[i]);
    dt_status closed = chakra_file_close(w->file);
    for (int s = 0; w->queues && s < p->stream_count; s++) {
        free(w->queues[s].before.ids);
        free(w->queues[s].members.ids);
    }
    free(w->queues);
    free(w->events);
    free(w->host.ids);
    return status < 0 ? status : closed;
}

/* {"0": [0, 1], ...}: each communicator once, by its number. */
static dt_status write_groups(const struct simulated_ranks *r, const char *folder)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/comm_groups.json", folder);
    FILE *to = fopen(path, "w");
    if (!to)
        return dt_fail(DT_ERR_IO, "%s: cannot be written", path);
    for (int g = 0; g < r->group_count; g++) {
        fprintf(to, "%s\"%d\": [", g ? ",\n " : "{", g);
        for (int i = 0; i < r->groups[g].count; i++)
            fprintf(to, "%s%d", i ? ", " : "", r->groups[g].ranks[i]);
        fputs("]", to);
    }
    fputs("}\n", to);
    bool failed = ferror(to) != 0;
    failed |= fclose(to) != 0;
    return failed ? dt_fail(DT_ERR_IO, "%s: cannot be written", path) : DT_OK;
}

static dt_status write_ranks(const struct simulated_ranks *r, const char *folder, struct chakra_totals *totals)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return dt_fail(DT_ERR_IO, "%s: cannot be made", folder);
    for (int i = 0; i < r->count; i++) {
        struct writer w = {.program = r->roles[r->ranks[i].role].steps[STEP],
                           .ranks = r,
                           .rank = &r->ranks[i],
                           .world_rank = r->part->ranks[i],
                           .next_id = 1,
                           .totals = totals};
        DT_TRY(write_rank(&w, folder));
        totals->ranks++;
    }
    return write_groups(r, folder);
}

dt_status chakra_write(const struct experiment *e, const struct simulated_system *s, const char *folder, bool all,
                       struct chakra_totals *out)
{
    struct experiment with_framework = *e; /* outlives what points to it */
    DT_ENDED(symmetric_part_finish) struct symmetric_part part = {0};
    DT_ENDED(simulated_ranks_finish) struct simulated_ranks ranks = {0};
    *out = (struct chakra_totals){.ranks = 0};
    simulated_system_apply(s, &with_framework);
    DT_TRY(simulated_system_check_stages(s, e));
    DT_TRY(all ? symmetric_part_all(&with_framework, &part) : symmetric_part_find(&with_framework, s, &part));
    DT_TRY(simulated_ranks_record(&with_framework, s, &s->device, &part, true, NULL, NULL, &ranks));
    return write_ranks(&ranks, folder, out);
}
