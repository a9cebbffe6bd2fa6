/* Expand passes through a part into passes through its groups, with the actions that keep,
 * recompute and copy activations in between. */
#include "schedules/plan/plan.h"

#include <stdlib.h>

/* The state of segments' inputs while the plan is walked: it begins and ends every copy in one
 * place. */
struct expansion {
    const struct plan_part *parts;
    bool **on_host;                  /* [parts] [slots, segment_count] copied to the host, and not yet back */
    struct action leaving, arriving; /* copies that no action has waited for yet */
    bool is_leaving, is_arriving;
    bool halves; /* some backward passes of the plan are in halves: then all are computed as two halves */
};

/* An action of another kind for the same pass. */
static struct action like(const struct action *pass, enum action_op op)
{
    struct action a = *pass;
    a.op = (uint8_t)op;
    a.flags = 0;
    return a;
}

static dt_status append_group(struct plan *out, const struct action *pass, enum action_op op, int group, int flags)
{
    struct action a = like(pass, op);
    a.group = (uint16_t)group;
    a.end = (uint16_t)(group + 1);
    a.flags = (uint16_t)flags;
    return plan_append(out, a);
}

static dt_status append_range(struct plan *out, const struct action *pass, enum action_op op, int segment, int first, int end)
{
    struct action a = like(pass, op);
    a.segment = (uint16_t)segment;
    a.group = (uint16_t)first;
    a.end = (uint16_t)end;
    return plan_append(out, a);
}

static bool same_input(const struct action *a, const struct action *b)
{
    return a->part == b->part && a->slot == b->slot && a->segment == b->segment;
}

/* ---- to host memory and back ---- */

static bool *host_flag(const struct expansion *x, const struct action *input)
{
    return &x->on_host[input->part][input->slot * x->parts[input->part].segment_count + input->segment];
}

static dt_status await_out(struct expansion *x, struct plan *out)
{
    if (!x->is_leaving)
        return DT_OK;
    x->is_leaving = false;
    return plan_append(out, like(&x->leaving, ACTION_AWAIT_OUT));
}

/* The device has room for two inputs: one is copied out while the next is computed. */
static dt_status copy_out(struct expansion *x, const struct action *pass, int segment, bool backward_follows, struct plan *out)
{
    const struct plan_part *part = &x->parts[pass->part];
    struct action input = like(pass, ACTION_COPY_OUT);
    input.segment = (uint16_t)segment;
    DT_TRY(await_out(x, out));
    if (backward_follows && segment >= part->segment_count - 2)
        return DT_OK;
    x->leaving = input;
    x->is_leaving = true;
    *host_flag(x, &input) = true;
    return plan_append(out, input);
}

static dt_status copy_in(struct expansion *x, const struct action *pass, int segment, struct plan *out)
{
    struct action input = like(pass, ACTION_COPY_IN);
    input.segment = (uint16_t)segment;
    if (!x->parts[pass->part].offload || !*host_flag(x, &input) || (x->is_arriving && same_input(&x->arriving, &input)))
        return DT_OK;
    *host_flag(x, &input) = false;
    x->arriving = input;
    x->is_arriving = true;
    return plan_append(out, input);
}

static dt_status take(struct expansion *x, const struct action *pass, int segment, struct plan *out)
{
    struct action input = like(pass, ACTION_TAKE_INPUT);
    input.segment = (uint16_t)segment;
    DT_TRY(await_out(x, out));
    DT_TRY(copy_in(x, pass, segment, out));
    if (x->is_arriving && same_input(&x->arriving, &input))
        x->is_arriving = false;
    return plan_append(out, input);
}

/* ---- forward ---- */

static dt_status forward_segments(struct expansion *x, const struct action *pass, bool backward_follows, struct plan *out)
{
    const struct plan_part *part = &x->parts[pass->part];
    for (int i = 0; i < part->segment_count; i++) {
        const struct plan_segment *segment = &part->segments[i];
        int end = segment->late ? segment->first_group : segment->end_group;
        if (part->offload && segment->input_only)
            DT_TRY(copy_out(x, pass, i, backward_follows, out));
        for (int g = segment->first_group; g < end; g++)
            DT_TRY(append_group(out, pass, ACTION_FORWARD, g, pass->flags & ACTION_AGAIN));
        if (segment->input_only)
            DT_TRY(append_range(out, pass, ACTION_KEEP_INPUT, i, segment->first_group, end));
    }
    return DT_OK;
}

/* Forward of all groups, the head included, which keeps only the part's input. */
static dt_status forward_and_forget(struct expansion *x, const struct action *pass, struct plan *out)
{
    const struct plan_part *part = &x->parts[pass->part];
    for (int first = part->first_group, g = first; g < part->end_group; g++) {
        DT_TRY(append_group(out, pass, ACTION_FORWARD, g, 0));
        if (part->groups[g].kept_with_next)
            continue;
        enum action_op op = first > part->first_group ? ACTION_DROP : ACTION_KEEP_INPUT;
        DT_TRY(append_range(out, pass, op, ACTION_WHOLE_PART, first, g + 1));
        first = g + 1;
    }
    return DT_OK;
}

static dt_status forward_again(struct expansion *x, const struct action *pass, struct plan *out)
{
    DT_TRY(append_range(out, pass, ACTION_TAKE_INPUT, ACTION_WHOLE_PART, 0, 0));
    DT_TRY(forward_segments(x, pass, true, out));
    return append_range(out, pass, ACTION_DROP, ACTION_WHOLE_PART, 0, 0); /* the next stage has received it */
}

static dt_status expand_forward(struct expansion *x, const struct plan *from, int at, struct plan *out)
{
    const struct action *pass = &from->actions[at], *next = plan_next_computing(from, at);
    bool backward_follows = next && next->op != ACTION_FORWARD && next->part == pass->part && next->micro_batch == pass->micro_batch;
    if (pass->flags & ACTION_AGAIN)
        return forward_again(x, pass, out);
    if (plan_virtual_stage(from, pass) == 0)
        DT_TRY(plan_append(out, like(pass, ACTION_BEGIN)));
    return pass->flags & ACTION_FORGETS ? forward_and_forget(x, pass, out) : forward_segments(x, pass, backward_follows, out);
}

/* ---- backward ---- */

static dt_status recompute(const struct action *pass, const struct plan_segment *segment, struct plan *out)
{
    for (int g = segment->first_group; g < segment->end_group; g++)
        DT_TRY(append_group(out, pass, ACTION_RECOMPUTE, g, g == segment->end_group - 1 ? ACTION_ENDS_HERE : 0));
    return append_range(out, pass, ACTION_DROP, ACTION_WHOLE_PART, 0, 0); /* a final norm's output, if the part ends with one */
}

/* Copy in the next segment's input while this one is computed. */
static dt_status prepare_next(struct expansion *x, const struct action *pass, int segment, const struct action *next, struct plan *out)
{
    const struct plan_part *part = &x->parts[pass->part];
    if (segment > 0 && part->segments[segment - 1].input_only)
        return copy_in(x, pass, segment - 1, out);
    bool backward = next && (next->op == ACTION_BACKWARD || next->op == ACTION_BACKWARD_INPUT);
    return backward ? copy_in(x, next, x->parts[next->part].segment_count - 1, out) : DT_OK;
}

static dt_status backward_groups(const struct action *pass, enum action_op op, const struct plan_segment *segment, struct plan *out)
{
    for (int g = segment->end_group - 1; g >= segment->first_group; g--)
        DT_TRY(append_group(out, pass, segment->late ? ACTION_FORWARD_BACKWARD : op, g, 0));
    return DT_OK;
}

static bool precedes(const struct plan *from, int at, enum action_op op)
{
    const struct action *pass = &from->actions[at];
    return at > 0 && pass[-1].op == op && pass[-1].part == pass->part && pass[-1].micro_batch == pass->micro_batch;
}

/* A late head's whole backward ran with the inputs' gradients. */
static dt_status expand_weights(struct expansion *x, const struct action *pass, struct plan *out)
{
    const struct plan_part *part = &x->parts[pass->part];
    for (int i = part->segment_count - 1; i >= 0; i--)
        if (!part->segments[i].late)
            DT_TRY(backward_groups(pass, ACTION_BACKWARD_WEIGHT, &part->segments[i], out));
    return plan_append(out, like(pass, ACTION_END));
}

static dt_status expand_backward(struct expansion *x, const struct plan *from, int at, struct plan *out)
{
    const struct action *pass = &from->actions[at], *next = plan_next_computing(from, at);
    const struct plan_part *part = &x->parts[pass->part];
    bool whole = pass->op == ACTION_BACKWARD;
    enum action_op op = whole && !x->halves ? ACTION_BACKWARD : ACTION_BACKWARD_INPUT;
    for (int i = part->segment_count - 1; i >= 0; i--) {
        const struct plan_segment *segment = &part->segments[i];
        if (segment->input_only) {
            DT_TRY(take(x, pass, i, out));
            DT_TRY(prepare_next(x, pass, i, next, out));
        }
        if (segment->input_only && !segment->late)
            DT_TRY(recompute(pass, segment, out));
        if (i == part->segment_count - 1 && precedes(from, at, ACTION_RECV_GRADIENT))
            DT_TRY(plan_append(out, pass[-1]));
        DT_TRY(backward_groups(pass, op, segment, out));
    }
    if (whole && x->halves)
        return expand_weights(x, pass, out);
    return whole ? plan_append(out, like(pass, ACTION_END)) : DT_OK;
}

static dt_status expand_action(void *context, const struct plan *from, int at, struct plan *out)
{
    struct expansion *x = context;
    const struct action *a = &from->actions[at];
    if (a->op == ACTION_FORWARD)
        return expand_forward(x, from, at, out);
    if (a->op == ACTION_BACKWARD || a->op == ACTION_BACKWARD_INPUT)
        return expand_backward(x, from, at, out);
    if (a->op == ACTION_BACKWARD_WEIGHT)
        return expand_weights(x, a, out);
    if (a->op == ACTION_RECV_GRADIENT)
        return DT_OK; /* its backward pass places this action */
    if (a->op == ACTION_RECV_INPUT || a->op == ACTION_TAKE_OVER)
        DT_TRY(plan_append(out, like(a, ACTION_BEGIN)));
    return plan_append(out, *a);
}

bool plan_has_halves(const struct plan *plan)
{
    for (int i = 0; i < plan->count; i++)
        if (plan->actions[i].op == ACTION_BACKWARD_WEIGHT)
            return true;
    return false;
}

dt_status plan_expand(struct plan *plan, const struct plan_part *parts)
{
    struct expansion x = {.parts = parts, .halves = plan_has_halves(plan), .on_host = calloc((size_t)plan->parts, sizeof *x.on_host)};
    bool all = x.on_host != NULL;
    for (int i = 0; all && i < plan->parts; i++) {
        x.on_host[i] = calloc((size_t)plan->slots * (size_t)parts[i].segment_count + 1, sizeof **x.on_host);
        all = x.on_host[i] != NULL;
    }
    dt_status status = all ? plan_rewrite(plan, expand_action, &x)
                           : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the segments of %d micro-batches", plan->slots);
    for (int i = 0; x.on_host && i < plan->parts; i++)
        free(x.on_host[i]);
    free(x.on_host);
    return status;
}
