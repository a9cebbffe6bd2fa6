#include "schedules/plan/plan.h"

#include <stdlib.h>

dt_status plan_append(struct plan *plan, struct action action)
{
    if (plan->count == plan->room) {
        int room = plan->room ? 2 * plan->room : 64;
        struct action *actions = realloc(plan->actions, (size_t)room * sizeof *actions);
        if (!actions)
            return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a plan of %d actions", room);
        plan->actions = actions;
        plan->room = room;
    }
    plan->actions[plan->count++] = action;
    return DT_OK;
}

void plan_finish(struct plan *plan)
{
    free(plan->actions);
    *plan = (struct plan){0};
}

const char *action_name(enum action_op op)
{
    static const char *const names[ACTION_OPS] = {
        [ACTION_FORWARD] = "forward",
        [ACTION_BACKWARD] = "backward",
        [ACTION_BACKWARD_INPUT] = "backward input",
        [ACTION_BACKWARD_WEIGHT] = "backward weight",
        [ACTION_RECV_INPUT] = "recv input",
        [ACTION_SEND_OUTPUT] = "send output",
        [ACTION_RECV_GRADIENT] = "recv gradient",
        [ACTION_SEND_GRADIENT] = "send gradient",
    };
    return names[op];
}
