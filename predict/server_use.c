#include "predict/server_use.h"

#include "lib/cost/priced.h"

#include <math.h>
#include <string.h>

static bool is_update(const char *label)
{
    const struct dt_priced *kernels = dt_shared_pricing.kernels;
    return strcmp(label, kernels[DT_PRICED_SGD].name) == 0 || strcmp(label, kernels[DT_PRICED_ADAM].name) == 0;
}

/* Messages of a group are sent at the same time, and reported in the order in which they end. */
static void add(void *context, const struct dt_sim_span *span)
{
    struct server_use *use = context;
    struct server_use_of_rank *rank = &use->ranks[span->rank];
    if (span->peer >= 0) {
        double moving_s = fmax(span->moving_s, fmax(rank->until_s, use->from_s));
        rank->link_s += fmax(span->end_s - moving_s, 0);
        rank->until_s = fmax(rank->until_s, span->end_s);
    } else if (is_update(span->label)) {
        rank->update_s += fmax(span->end_s - fmax(span->start_s, use->from_s), 0);
    }
    if (use->next.span)
        use->next.span(use->next.context, span);
}

struct dt_sim_collector server_use_collector(struct server_use *use, const struct dt_sim_collector *next)
{
    use->next = *next;
    return (struct dt_sim_collector){.context = use, .span = add};
}

struct server_use_of_rank server_use_most(const struct server_use *use)
{
    struct server_use_of_rank most = {0};
    for (int i = 0; i < use->count; i++) {
        most.link_s = fmax(most.link_s, use->ranks[i].link_s);
        most.update_s = fmax(most.update_s, use->ranks[i].update_s);
    }
    return most;
}
