#include "lib/sim/cluster_measured.h"

#include <math.h>
#include <stddef.h>

/* The measured number of ranks that is nearest by ratio; 0: the kind was not measured. */
static int nearest_ranks(const struct dt_sim_measured_list *list, int kind, int ranks)
{
    double least = INFINITY;
    int nearest = 0;
    for (int i = 0; i < list->count; i++) {
        const struct dt_sim_measured *m = &list->entries[i];
        double distance = fabs(log((double)m->ranks / ranks));
        if (m->kind == kind && distance < least) {
            least = distance;
            nearest = m->ranks;
        }
    }
    return nearest;
}

bool dt_sim_measured_find(const struct dt_sim_measured_list *list, int kind, int ranks, double bytes, double *out_seconds, double *out_load)
{
    const struct dt_sim_measured *below = NULL, *above = NULL;
    int measured = nearest_ranks(list, kind, ranks);
    for (int i = 0; i < list->count; i++) {
        const struct dt_sim_measured *m = &list->entries[i];
        if (m->kind != kind || m->ranks != measured)
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
