#include "schedules/plan/plan.h"

#include "lib/base/grow.h"

#include <stdlib.h>
#include <string.h>

const struct plan_times plan_unit_times = {.forward = 1, .backward_input = 1, .backward_weight = 1};

dt_status plan_append(struct plan *plan, struct action action)
{
    DT_TRY(dt_allocated(DT_ROOM(plan->actions, plan->count, plan->room), "no host memory for a plan of %d actions", plan->count + 1));
    plan->actions[plan->count++] = action;
    return DT_OK;
}

dt_status plan_copy(const struct plan *from, struct plan *out)
{
    struct action *actions = malloc((size_t)from->count * sizeof *actions);
    *out = (struct plan){0};
    DT_TRY(dt_allocated(actions, "no host memory for a plan of %d actions", from->count));
    *out = *from;
    out->room = from->count;
    out->actions = memcpy(actions, from->actions, (size_t)from->count * sizeof *actions);
    return DT_OK;
}

void plan_finish(struct plan *plan)
{
    free(plan->actions);
    *plan = (struct plan){0};
}

dt_status plan_rewrite(struct plan *plan, dt_status (*each)(void *context, const struct plan *from, int at, struct plan *out),
                       void *context)
{
    DT_ENDED(plan_finish) struct plan out = *plan;
    out.actions = NULL;
    out.count = out.room = 0;
    for (int i = 0; i < plan->count; i++)
        DT_TRY(each(context, plan, i, &out));
    struct plan before = *plan;
    *plan = out;
    out = before;
    return DT_OK;
}

const char *action_name(enum action_op op)
{
    static const char *const names[ACTION_OPS] = {
        [ACTION_FORWARD] = "forward",
        [ACTION_BACKWARD] = "backward",
        [ACTION_BACKWARD_INPUT] = "backward input",
        [ACTION_BACKWARD_WEIGHT] = "backward weight",
        [ACTION_RECOMPUTE] = "recompute",
        [ACTION_FORWARD_BACKWARD] = "forward backward",
        [ACTION_RECV_INPUT] = "recv input",
        [ACTION_SEND_OUTPUT] = "send output",
        [ACTION_RECV_GRADIENT] = "recv gradient",
        [ACTION_SEND_GRADIENT] = "send gradient",
        [ACTION_TAKE_OVER] = "take over",
        [ACTION_GIVE_BACK] = "give back",
        [ACTION_BEGIN] = "begin",
        [ACTION_END] = "end",
        [ACTION_KEEP_INPUT] = "keep input",
        [ACTION_TAKE_INPUT] = "take input",
        [ACTION_DROP] = "drop",
        [ACTION_COPY_OUT] = "copy out",
        [ACTION_AWAIT_OUT] = "await out",
        [ACTION_COPY_IN] = "copy in",
        [ACTION_PUBLISH] = "publish",
        [ACTION_GATHER] = "gather",
        [ACTION_BEGIN_GRADIENTS] = "begin gradients",
        [ACTION_FREE] = "free",
        [ACTION_SUM_COPIES] = "sum copies",
        [ACTION_REDUCE] = "reduce",
        [ACTION_UPDATE] = "update",
        [ACTION_END_STEP] = "end step",
        [ACTION_EXTRA] = "extra",
    };
    return names[op];
}

char action_letter(enum action_op op)
{
    static const char letters[ACTION_OPS] = {
        [ACTION_FORWARD] = 'F', [ACTION_BACKWARD] = 'B', [ACTION_BACKWARD_INPUT] = 'I', [ACTION_BACKWARD_WEIGHT] = 'W'};
    return letters[op];
}

const struct action *plan_next_computing(const struct plan *plan, int at)
{
    for (int i = at + 1; i < plan->count; i++)
        if (action_computes(&plan->actions[i]))
            return &plan->actions[i];
    return NULL;
}

struct plan_kept plan_keeps(const struct plan *plan)
{
    int whole = 0, waiting = 0;
    struct plan_kept most = {0};
    for (int i = 0; i < plan->count; i++) {
        uint8_t op = plan->actions[i].op;
        whole += op == ACTION_FORWARD;
        double activations = (whole + waiting) / (double)plan->parts, weighted = (whole + 0.5 * waiting) / plan->parts;
        most.activations = activations > most.activations ? activations : most.activations;
        most.weighted = weighted > most.weighted ? weighted : most.weighted;
        whole -= op == ACTION_BACKWARD || op == ACTION_BACKWARD_INPUT;
        waiting += (op == ACTION_BACKWARD_INPUT) - (op == ACTION_BACKWARD_WEIGHT);
    }
    return most;
}
