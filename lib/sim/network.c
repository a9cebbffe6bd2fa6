#include "lib/sim/network.h"
#include "lib/sim/network_parts.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for the network");
}

dt_status dt_sim_network_create(struct dt_sim_network **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : no_memory();
}

void dt_sim_network_destroy(struct dt_sim_network *n)
{
    if (!n)
        return;
    for (uint32_t l = 0; l < n->link_count; l++)
        free(n->links[l].flows);
    for (uint32_t f = 0; f < n->flow_count; f++)
        free(n->flows[f].places);
    dt_sim_heap_finish(&n->ends);
    dt_sim_heap_finish(&n->filling);
    free(n->links);
    free(n->flows);
    free(n->free_flows);
    free(n->dirty);
    free(n->reached);
    free(n);
}

/* Room for one more of `size` bytes behind `count`. */
static bool grow(void *array, uint32_t count, uint32_t *room, size_t size)
{
    void **pointer = array;
    if (count < *room)
        return true;
    uint32_t wanted = *room ? 2 * *room : 64;
    void *grown = realloc(*pointer, wanted * size);
    if (!grown)
        return false;
    *pointer = grown;
    *room = wanted;
    return true;
}

dt_status dt_sim_network_add_link(struct dt_sim_network *n, double capacity, uint32_t *out_link)
{
    if (!(capacity > 0) || !isfinite(capacity))
        return dt_fail(DT_ERR_INVALID, "simulation: a link of %g bytes/s", capacity);
    if (!grow(&n->links, n->link_count, &n->link_room, sizeof *n->links))
        return no_memory();
    /* every link may be dirty at once */
    uint32_t *dirty = realloc(n->dirty, n->link_room * sizeof *dirty);
    if (!dirty)
        return no_memory();
    n->dirty = dirty;
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

/* The flow's place on one of its links. */
static dt_status enter_link(struct dt_sim_network *n, uint32_t number, uint32_t use)
{
    struct flow *f = &n->flows[number];
    struct link *l = &n->links[f->spec.uses[use].link];
    if (!grow(&l->flows, l->flow_count, &l->flow_room, sizeof *l->flows))
        return no_memory();
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
    if (!grow(&n->flows, n->flow_count, &n->flow_room, sizeof *n->flows))
        return no_memory();
    if (room != n->flow_room) {
        uint32_t *free_flows = realloc(n->free_flows, n->flow_room * sizeof *free_flows);
        uint32_t *reached = free_flows ? realloc(n->reached, n->flow_room * sizeof *reached) : NULL;
        n->free_flows = free_flows ? free_flows : n->free_flows;
        n->reached = reached ? reached : n->reached;
        if (!free_flows || !reached) {
            n->flow_room = room;
            return no_memory();
        }
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
    if (!places && spec->use_count)
        return no_memory();
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
    return dt_sim_heap_set(&n->ends, number, now_s + f->left_bytes / f->rate);
}

uint32_t dt_sim_network_take(struct dt_sim_network *n, double now_s)
{
    if (dt_sim_heap_time(&n->ends) > now_s)
        return UINT32_MAX;
    n->now_s = now_s;
    uint32_t number = dt_sim_heap_pop(&n->ends);
    struct flow *f = &n->flows[number];
    f->active = false;
    for (uint32_t u = 0; u < f->spec.use_count; u++)
        leave_link(n, f, u);
    n->free_flows[n->free_count++] = number;
    return f->tag;
}

dt_status dt_sim_network_next(struct dt_sim_network *n, double *out_s)
{
    if (n->dirty_count)
        DT_TRY(dt_sim_network_share(n));
    *out_s = dt_sim_heap_time(&n->ends);
    return DT_OK;
}

double dt_sim_network_rate(struct dt_sim_network *n, uint32_t tag)
{
    if (n->dirty_count && dt_sim_network_share(n) < 0)
        return 0;
    for (uint32_t f = 0; f < n->flow_count; f++)
        if (n->flows[f].active && n->flows[f].tag == tag)
            return n->flows[f].rate;
    return 0;
}
