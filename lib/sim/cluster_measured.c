#include "lib/sim/cluster_measured.h"

#include <math.h>
#include <stddef.h>

/* An entry with the measured numbers of ranks and nodes that are nearest by ratio; NULL: the kind was not measured. */
static const struct dt_sim_measured *nearest(const struct dt_sim_measured_list *list, int kind, int ranks, int nodes)
{
    double least = INFINITY;
    const struct dt_sim_measured *found = NULL;
    for (int i = 0; i < list->count; i++) {
        const struct dt_sim_measured *m = &list->entries[i];
        double distance = fabs(log((double)m->ranks / ranks)) + fabs(log((double)m->nodes / nodes));
        if (m->kind == kind && (m->nodes > 1) == (nodes > 1) && distance < least) {
            least = distance;
            found = m;
        }
    }
    return found;
}

bool dt_sim_measured_find(const struct dt_sim_measured_list *list, int kind, int ranks, int nodes, double bytes, double *out_seconds,
                          double *out_load)
{
    const struct dt_sim_measured *below = NULL, *above = NULL;
    const struct dt_sim_measured *like = nearest(list, kind, ranks, nodes);
    for (int i = 0; like && i < list->count; i++) {
        const struct dt_sim_measured *m = &list->entries[i];
        if (m->kind != kind || m->ranks != like->ranks || m->nodes != like->nodes)
            continue;
        if (m->bytes <= bytes && (!below || m->bytes > below->bytes))
            below = m;
        if (m->bytes >= bytes && (!above || m->bytes < above->bytes))
            above = m;
    }
    if (!below && !above)
        return false;
    const struct dt_sim_measured *low = below ? below : above, *high = above ? above : below;
    double part = high->bytes > low->bytes ? log(bytes / low->bytes) / log(high->bytes / low->bytes) : 0;
    double scale = above ? 1 : bytes / low->bytes; /* more bytes than were measured: at the speed of the most */
    *out_seconds = exp((1 - part) * log(low->seconds) + part * log(high->seconds)) * scale;
    *out_load = (1 - part) * low->load + part * high->load;
    return true;
}
