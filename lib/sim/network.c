#include "lib/sim/network.h"

#include "lib/base/grow.h"
#include "lib/base/heap.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* A flow on a link: its number and which of its uses. */
struct passage {
    uint32_t flow, use;
};

struct link {
    double capacity;        /* bytes/s */
    double first, exponent; /* the flows have at most first * crowd^exponent bytes/s; first 0: no such limit */
    double demand;          /* rate that its flows would take if each were alone in the network */
    struct passage *flows;  /* [flow_count] in any order */
    uint32_t flow_count, flow_room;
    uint32_t crowd; /* number of flows, including those that they represent */
    bool dirty;

    /* only while rates are computed */
    double left, weights; /* capacity not yet given to flows; weight * share of the flows that still grow */
    uint32_t growing;     /* number of flows that still grow */
};

struct flow {
    struct dt_sim_flow spec;
    uint32_t *places; /* [use_count] positions of the flow in its links' lists */
    uint32_t place_room, tag;
    double alone;      /* bytes/s if it were the only flow */
    double rate;       /* bytes/s since since_s */
    double left_bytes; /* at since_s */
    double since_s;
    bool active, reached, growing;
    bool stops_itself; /* its own cap, or a link that only it uses, may limit it */
    double next_rate;
};

struct dt_sim_network {
    struct link *links; /* [link_count] */
    struct flow *flows; /* [flow_count], including ended ones */
    uint32_t link_count, link_room, flow_count, flow_room;
    uint32_t *free_flows, free_count; /* numbers of ended flows */
    struct dt_heap ends;              /* ends of flows */
    double now_s;

    uint32_t *dirty, dirty_count;     /* links whose flows have changed; extended to all links that these reach */
    uint32_t *reached, reached_count; /* flows whose rate may change */
    struct dt_heap filling;           /* links (even items) and flows (odd ones) by the level at which they stop growth */
};

/* Weight on the link of the flow together with the flows that it represents. */
static inline double use_weight(const struct dt_sim_use *use)
{
    return use->weight * (1 + use->others);
}

/* bytes/s that the flows on the link have together. */
static inline double link_capacity(const struct link *link)
{
    return link->first > 0 ? fmin(link->capacity, link->first * pow(link->crowd, link->exponent)) : link->capacity;
}

/* Must the link's flows share it? Not if all of them fit together, each at the rate that it would
 * have alone. The margin prevents that rounding couples flows that fill a link exactly; a link
 * exceeds its capacity by at most the margin. A single flow's own rate fits its links. */
static inline bool link_constrains(const struct link *link)
{
    return link->crowd > 1 && link->demand > link_capacity(link) * (1 + 1e-9);
}

static dt_status allocated(bool memory)
{
    return memory ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for the network");
}

dt_status dt_sim_network_create(struct dt_sim_network **out)
{
    *out = calloc(1, sizeof **out);
    return allocated(*out);
}

void dt_sim_network_destroy(struct dt_sim_network *n)
{
    if (!n)
        return;
    for (uint32_t l = 0; l < n->link_count; l++)
        free(n->links[l].flows);
    for (uint32_t f = 0; f < n->flow_count; f++)
        free(n->flows[f].places);
    dt_heap_finish(&n->ends);
    dt_heap_finish(&n->filling);
    free(n->links);
    free(n->flows);
    free(n->free_flows);
    free(n->dirty);
    free(n->reached);
    free(n);
}

dt_status dt_sim_network_add_link(struct dt_sim_network *n, double capacity, uint32_t *out_link)
{
    if (!(capacity > 0) || !isfinite(capacity))
        return dt_fail(DT_ERR_INVALID, "simulation: a link of %g bytes/s", capacity);
    DT_TRY(allocated(DT_ROOM(n->links, n->link_count, n->link_room)));
    DT_TRY(allocated(dt_resize(&n->dirty, n->link_room * sizeof *n->dirty))); /* at most all links are dirty */
    n->links[n->link_count] = (struct link){.capacity = capacity};
    *out_link = n->link_count++;
    return DT_OK;
}

static void mark_dirty(struct dt_sim_network *n, uint32_t link)
{
    if (!n->links[link].dirty) {
        n->links[link].dirty = true;
        n->dirty[n->dirty_count++] = link;
    }
}

/* ---- flows come and go ---- */

/* Enter the flow in the list of one of its links. */
static dt_status enter_link(struct dt_sim_network *n, uint32_t number, uint32_t use)
{
    struct flow *f = &n->flows[number];
    struct link *l = &n->links[f->spec.uses[use].link];
    DT_TRY(allocated(DT_ROOM(l->flows, l->flow_count, l->flow_room)));
    l->flows[l->flow_count] = (struct passage){number, use};
    f->places[use] = l->flow_count++;
    l->crowd += 1 + f->spec.uses[use].others;
    l->demand += use_weight(&f->spec.uses[use]) * f->alone;
    if (link_constrains(l))
        mark_dirty(n, f->spec.uses[use].link);
    return DT_OK;
}

static void leave_link(struct dt_sim_network *n, struct flow *f, uint32_t use)
{
    struct link *l = &n->links[f->spec.uses[use].link];
    if (link_constrains(l))
        mark_dirty(n, f->spec.uses[use].link);
    struct passage moved = l->flows[--l->flow_count];
    l->flows[f->places[use]] = moved;
    n->flows[moved.flow].places[moved.use] = f->places[use];
    l->crowd -= 1 + f->spec.uses[use].others;
    l->demand = l->flow_count ? l->demand - use_weight(&f->spec.uses[use]) * f->alone : 0;
}

static dt_status new_flow(struct dt_sim_network *n, uint32_t *out)
{
    if (n->free_count) {
        *out = n->free_flows[--n->free_count];
        return DT_OK;
    }
    uint32_t room = n->flow_room;
    DT_TRY(allocated(DT_ROOM(n->flows, n->flow_count, n->flow_room)));
    if (room != n->flow_room &&
        (!dt_resize(&n->free_flows, n->flow_room * sizeof *n->free_flows) || !dt_resize(&n->reached, n->flow_room * sizeof *n->reached))) {
        n->flow_room = room;
        return allocated(false);
    }
    n->flows[n->flow_count] = (struct flow){0};
    *out = n->flow_count++;
    return DT_OK;
}

dt_status dt_sim_network_set_gain(struct dt_sim_network *n, uint32_t link, double first, double exponent)
{
    if (link >= n->link_count || !(first > 0) || first > n->links[link].capacity * (1 + 1e-9) || !(exponent >= 0) || exponent > 1)
        return dt_fail(DT_ERR_INVALID, "simulation: no link whose first flow has %g bytes/s, more by the power of %g", first, exponent);
    n->links[link].first = first;
    n->links[link].exponent = exponent;
    return DT_OK;
}

void dt_sim_network_slow(struct dt_sim_network *n, uint32_t link, double left)
{
    n->links[link].capacity *= left;
    n->links[link].first = fmin(n->links[link].first, n->links[link].capacity);
}

dt_status dt_sim_network_start(struct dt_sim_network *n, double now_s, const struct dt_sim_flow *spec, uint32_t tag)
{
    double alone = spec->rate_cap;
    uint32_t number = 0;
    for (uint32_t u = 0; u < spec->use_count; u++)
        alone = fmin(alone, n->links[spec->uses[u].link].capacity / spec->uses[u].weight);
    if (!(spec->bytes > 0) || !(alone > 0) || !isfinite(alone) || !(spec->share > 0))
        return dt_fail(DT_ERR_INVALID, "simulation: a flow of %g bytes at %g bytes/s can never end", spec->bytes, alone);
    DT_TRY(new_flow(n, &number));

    struct flow *f = &n->flows[number];
    uint32_t *places = f->place_room >= spec->use_count ? f->places : realloc(f->places, spec->use_count * sizeof *places);
    DT_TRY(allocated(places || spec->use_count == 0));
    f->places = places;
    f->place_room = f->place_room > spec->use_count ? f->place_room : spec->use_count;
    f->spec = *spec;
    f->tag = tag;
    f->alone = f->rate = alone;
    f->left_bytes = spec->bytes;
    f->since_s = now_s;
    f->active = true;
    n->now_s = now_s;
    for (uint32_t u = 0; u < spec->use_count; u++)
        DT_TRY(enter_link(n, number, u));
    return dt_heap_set(&n->ends, number, now_s + f->left_bytes / f->rate);
}

uint32_t dt_sim_network_take(struct dt_sim_network *n, double now_s)
{
    if (dt_heap_time(&n->ends) > now_s)
        return UINT32_MAX;
    n->now_s = now_s;
    uint32_t number = dt_heap_pop(&n->ends);
    struct flow *f = &n->flows[number];
    f->active = false;
    for (uint32_t u = 0; u < f->spec.use_count; u++)
        leave_link(n, f, u);
    n->free_flows[n->free_count++] = number;
    return f->tag;
}

/* ---- rates: progressive filling around the links that changed ---- */

/* Find all flows and constraining links that the dirty links can influence. The dirty list becomes
 * the list of these links. Links that no longer constrain but did so before come first, since their
 * flows may grow now. */
static void reach(struct dt_sim_network *n)
{
    n->reached_count = 0;
    for (uint32_t d = 0; d < n->dirty_count; d++) { /* the list grows in this loop */
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
                /* a flow never reaches its rate alone on a shared link: the link stops it
                 * earlier */
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

/* Stop the flow at this level; its links have that much less capacity left. */
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
            DT_TRY(dt_heap_set(&n->filling, 2 * n->dirty[d], link_level(l)));
    }
    for (uint32_t r = 0; r < n->reached_count; r++) {
        const struct flow *f = &n->flows[n->reached[r]];
        if (f->stops_itself)
            DT_TRY(dt_heap_set(&n->filling, 2 * n->reached[r] + 1, f->alone / f->spec.share));
    }
    return DT_OK;
}

/* Raise the level from stop to stop. A link's own level only rises while its flows stop below it,
 * so its position in the heap is a lower bound, and one check when the link is removed is
 * enough. */
static dt_status fill(struct dt_sim_network *n)
{
    uint32_t growing = n->reached_count;
    while (growing && n->filling.count) {
        double level = dt_heap_time(&n->filling); /* above 0, never decreases */
        uint32_t item = dt_heap_pop(&n->filling);
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
                DT_TRY(dt_heap_set(&n->filling, item, now));
            continue;
        }
        for (uint32_t p = 0; p < l->flow_count; p++) {
            struct flow *f = &n->flows[l->flows[p].flow];
            if (f->growing) {
                stop(n, f, fmax(now, level)); /* rounding must not leave a flow without any rate */
                growing--;
            }
        }
    }
    dt_heap_clear(&n->filling);
    return DT_OK;
}

/* Only flows whose rate changes are touched: the others keep their end time to the last bit. */
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
        DT_TRY(dt_heap_set(&n->ends, n->reached[r], n->now_s + f->left_bytes / f->rate));
    }
    for (uint32_t d = 0; d < n->dirty_count; d++)
        n->links[n->dirty[d]].dirty = false;
    n->dirty_count = 0;
    return DT_OK;
}

/* Recompute the rates around the dirty links. */
static dt_status share(struct dt_sim_network *n)
{
    reach(n);
    DT_TRY(prepare(n));
    DT_TRY(fill(n));
    return settle(n);
}

dt_status dt_sim_network_next(struct dt_sim_network *n, double *out_s)
{
    if (n->dirty_count)
        DT_TRY(share(n));
    *out_s = dt_heap_time(&n->ends);
    return DT_OK;
}

double dt_sim_network_rate(struct dt_sim_network *n, uint32_t tag)
{
    if (n->dirty_count && share(n) < 0)
        return 0;
    for (uint32_t f = 0; f < n->flow_count; f++)
        if (n->flows[f].active && n->flows[f].tag == tag)
            return n->flows[f].rate;
    return 0;
}
