/* Messages between virtual stages: where they are needed. */
#include "schedules/plan/passes.h"

static bool makes_input_gradient(uint8_t op)
{
    return op == ACTION_BACKWARD || op == ACTION_BACKWARD_INPUT;
}

static dt_status append_message(struct plan *plan, const struct action *pass, enum action_op op, bool exists)
{
    struct action message = *pass;
    message.op = (uint8_t)op;
    return exists ? plan_append(plan, message) : DT_OK;
}

static dt_status add_around(void *context, const struct plan *from, int at, struct plan *out)
{
    const struct action *pass = &from->actions[at];
    int v = plan_virtual_stage(from, pass), end = from->stages * from->parts;
    bool previous = v > 0, next = v + 1 < end;
    bool previous_here = previous && plan_rank_of(from, v - 1) == from->stage, next_here = next && plan_rank_of(from, v + 1) == from->stage;
    bool forward = pass->op == ACTION_FORWARD, backward = makes_input_gradient(pass->op);
    DT_TRY(append_message(out, pass, ACTION_TAKE_OVER, forward && previous_here));
    DT_TRY(append_message(out, pass, ACTION_RECV_INPUT, forward && previous && !previous_here));
    DT_TRY(append_message(out, pass, ACTION_RECV_GRADIENT, backward && next && !next_here));
    DT_TRY(plan_append(out, *pass));
    DT_TRY(append_message(out, pass, ACTION_SEND_OUTPUT, forward && next && !next_here));
    DT_TRY(append_message(out, pass, ACTION_SEND_GRADIENT, backward && previous && !previous_here));
    return append_message(out, pass, ACTION_GIVE_BACK, backward && previous_here);
}

dt_status plan_add_messages(struct plan *plan)
{
    return plan_rewrite(plan, add_around, NULL);
}
