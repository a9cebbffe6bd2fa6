#include "schedules/step/step_times.h"

#include <math.h>
#include <stdlib.h>

static int compare_keys(const void *left, const void *right)
{
    uint64_t a = ((const struct timeline_message *)left)->key, b = ((const struct timeline_message *)right)->key;
    return (a > b) - (a < b);
}

void step_messages_sort(struct step_messages *messages)
{
    if (messages->count > 0)
        qsort(messages->all, (size_t)messages->count, sizeof *messages->all, compare_keys);
}

static const struct timeline_message *find(const struct step_messages *sent, int senders, const struct timeline_message *like)
{
    const struct timeline_message *found = NULL;
    for (int i = 0; i < senders && !found; i++)
        if (sent[i].count > 0)
            found = bsearch(like, sent[i].all, (size_t)sent[i].count, sizeof *like, compare_keys);
    return found;
}

int64_t step_bubble_ns(const struct step_messages *received, const struct step_messages *sent, int senders)
{
    int64_t bubble = 0;
    for (int i = 0; i < received->count; i++) {
        const struct timeline_message *wait = &received->all[i], *made = find(sent, senders, wait);
        int64_t until = made && made->begin_ns < wait->end_ns ? made->begin_ns : wait->end_ns;
        bubble += until > wait->begin_ns ? until - wait->begin_ns : 0;
    }
    return bubble;
}

void step_times_divide(const struct step_times *times, double step_s, enum step_end end, struct dt_step_metrics *out)
{
    const struct timeline_times *t = &times->timeline;
    int64_t waited = t->phase_ns[TIMELINE_MESSAGE], bubble = times->bubble_ns < waited ? times->bubble_ns : waited;
    double all_s = (double)t->all_ns * 1e-9, own_s = fmax(times->own_s, all_s), rest_s = fmax(step_s - own_s, 0);
    double unit = own_s > step_s ? step_s / own_s * 1e-9 : 1e-9; /* a replayed step may begin before the previous one has ended */
    out->forward_s = (double)t->phase_ns[TIMELINE_FORWARD] * unit;
    out->backward_s = (double)t->phase_ns[TIMELINE_BACKWARD] * unit;
    out->optimizer_s = (double)t->phase_ns[TIMELINE_OPTIMIZER] * unit;
    out->exposed_comm_s = (double)(t->phase_ns[TIMELINE_EXPOSED] + waited - bubble) * unit + (end == STEP_ENDS_WITH_RANKS ? rest_s : 0);
    out->bubble_s = (double)bubble * unit + (end == STEP_ENDS_WITH_STAGES ? rest_s : 0);
    double data_s = fmin(times->data_s, own_s - all_s);
    out->data_s = data_s * 1e9 * unit;
    out->host_s = ((double)t->host_ns + (own_s - all_s - data_s) * 1e9) * unit + (end == STEP_ENDS_ALONE ? rest_s : 0);
}
