/* Progressive filling around the links that changed. */
#include "lib/sim/network_parts.h"

#include <math.h>

/* All flows and constraining links that the dirty links can influence. The dirty list becomes that of the links: what is no longer
 * constraining but was a moment ago comes first, since its flows may grow now. */
static void reach(struct dt_sim_network *n)
{
    n->reached_count = 0;
    for (uint32_t d = 0; d < n->dirty_count; d++) { /* grows as we go */
        struct link *l = &n->links[n->dirty[d]];
        for (uint32_t p = 0; p < l->flow_count; p++) {
            struct flow *f = &n->flows[l->flows[p].flow];
            if (f->reached)
                continue;
            f->reached = f->growing = f->stops_itself = true;
            n->reached[n->reached_count++] = l->flows[p].flow;
            for (uint32_t u = 0; u < f->spec.use_count; u++) {
                struct link *other = &n->links[f->spec.uses[u].link];
                if (!link_constrains(other))
                    continue;
                /* what a flow has alone on a shared link it never gets: the link stops it before */
                f->stops_itself &= other->capacity / f->spec.uses[u].weight > f->alone;
                if (!other->dirty) {
                    other->dirty = true;
                    n->dirty[n->dirty_count++] = f->spec.uses[u].link;
                }
            }
        }
    }
}

/* The level at which the link is full: rates are level * share. */
static double link_level(const struct link *l)
{
    return l->growing ? fmax(l->left, 0) / l->weights : INFINITY;
}

/* The flow stops at this level; its links have that much less to give. */
static void stop(struct dt_sim_network *n, struct flow *f, double level)
{
    f->growing = false;
    f->next_rate = fmin(level * f->spec.share, f->alone);
    for (uint32_t u = 0; u < f->spec.use_count; u++) {
        struct link *l = &n->links[f->spec.uses[u].link];
        if (!l->dirty || !l->growing)
            continue;
        l->left -= use_weight(&f->spec.uses[u]) * f->next_rate;
        l->growing--;
        l->weights = l->growing ? l->weights - use_weight(&f->spec.uses[u]) * f->spec.share : 0;
    }
}

static dt_status prepare(struct dt_sim_network *n)
{
    for (uint32_t d = 0; d < n->dirty_count; d++) {
        struct link *l = &n->links[n->dirty[d]];
        l->left = link_capacity(l);
        l->growing = l->flow_count;
        l->weights = 0;
        for (uint32_t p = 0; p < l->flow_count; p++) {
            const struct flow *f = &n->flows[l->flows[p].flow];
            l->weights += use_weight(&f->spec.uses[l->flows[p].use]) * f->spec.share;
        }
        if (l->flow_count && link_constrains(l))
            DT_TRY(dt_sim_heap_set(&n->filling, 2 * n->dirty[d], link_level(l)));
    }
    for (uint32_t r = 0; r < n->reached_count; r++) {
        const struct flow *f = &n->flows[n->reached[r]];
        if (f->stops_itself)
            DT_TRY(dt_sim_heap_set(&n->filling, 2 * n->reached[r] + 1, f->alone / f->spec.share));
    }
    return DT_OK;
}

/* Raise the level from stop to stop. A link's own level only rises as its flows stop below it, so the heap's order is a lower bound and
 * one look when a link comes out is enough. */
static dt_status fill(struct dt_sim_network *n)
{
    uint32_t growing = n->reached_count;
    while (growing && n->filling.count) {
        double level = dt_sim_heap_time(&n->filling); /* above 0, and never falls */
        uint32_t item = dt_sim_heap_pop(&n->filling);
        if (item % 2) {
            struct flow *f = &n->flows[item / 2];
            if (f->growing) {
                stop(n, f, level);
                growing--;
            }
            continue;
        }
        struct link *l = &n->links[item / 2];
        double now = link_level(l);
        if (now > level * (1 + 1e-12)) {
            if (l->growing)
                DT_TRY(dt_sim_heap_set(&n->filling, item, now));
            continue;
        }
        for (uint32_t p = 0; p < l->flow_count; p++) {
            struct flow *f = &n->flows[l->flows[p].flow];
            if (f->growing) {
                stop(n, f, fmax(now, level)); /* rounding must not leave a flow nothing at all */
                growing--;
            }
        }
    }
    dt_sim_heap_clear(&n->filling);
    return DT_OK;
}

/* Only a flow whose rate changes is touched: the others keep their end to the last bit. */
static dt_status settle(struct dt_sim_network *n)
{
    for (uint32_t r = 0; r < n->reached_count; r++) {
        struct flow *f = &n->flows[n->reached[r]];
        f->reached = false;
        if (f->next_rate == f->rate)
            continue;
        f->left_bytes = fmax(f->left_bytes - f->rate * (n->now_s - f->since_s), 0);
        f->since_s = n->now_s;
        f->rate = f->next_rate;
        DT_TRY(dt_sim_heap_set(&n->ends, n->reached[r], n->now_s + f->left_bytes / f->rate));
    }
    for (uint32_t d = 0; d < n->dirty_count; d++)
        n->links[n->dirty[d]].dirty = false;
    n->dirty_count = 0;
    return DT_OK;
}

dt_status dt_sim_network_share(struct dt_sim_network *n)
{
    reach(n);
    DT_TRY(prepare(n));
    DT_TRY(fill(n));
    return settle(n);
}
