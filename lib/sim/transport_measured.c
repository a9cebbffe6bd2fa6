/* Work of processors, and collectives and messages as they were measured: flows of nanoseconds. What one takes alone it takes here, and
 * longer where processors or cards are asked for more than they have. */
#include "lib/sim/transport_parts.h"

#include <math.h>
#include <stdlib.h>

enum { LOADS = DT_SIM_MAX_LOAD * LOAD_STEPS + 1 };

struct measured {
    int kind;
    double bytes;
    struct dt_sim_flow flow;
    struct dt_sim_use *uses;
    struct measured *next;
};

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for measured collectives");
}

static int step_of(double load)
{
    return (int)fmin(fmax(1, round(load * LOAD_STEPS)), LOADS - 1);
}

/* Where loads are more than is left, threads get equal parts of it, as the operating system deals them out. */
struct dt_sim_flow links_flow_of_work(const struct dt_sim_links *l, int node, double seconds, double load, int threads)
{
    int step = step_of(load);
    return (struct dt_sim_flow){.bytes = 1e9 * seconds,
                                .rate_cap = 1e9,
                                .share = threads * (double)LOAD_STEPS / step,
                                .uses = l->processors ? &l->processors[node * LOADS + step] : NULL,
                                .use_count = l->processors ? 1 : 0};
}

/* Does an earlier rank of the operation use these processors too? */
static bool seen_before(const struct dt_sim_links *l, const struct measured_operation *o, int rank)
{
    for (int i = 0; i < rank; i++)
        if (l->cluster.host.shared_processors || l->ranks[o->ranks[i]].node == l->ranks[o->ranks[rank]].node)
            return true;
    return false;
}

/* Cards carry the operation's bytes while it lasts, and alone it cannot ask for more than there is: what was measured went through. */
static void use_cards(const struct dt_sim_links *l, const struct measured_operation *o, double seconds, struct measured *m)
{
    double most = l->cluster.nic.total_gbit_per_s / 8; /* bytes a nanosecond */
    for (uint32_t i = 0; i < o->pattern->count; i++) {
        const struct dt_sim_use *use = &o->pattern->uses[i];
        if (l->is_nic[use->link])
            m->uses[m->flow.use_count++] = (struct dt_sim_use){
                .link = use->link, .weight = fmin(most, use->weight * o->sent / (1e9 * seconds)), .others = use->others};
    }
}

static void use_processors(const struct dt_sim_links *l, const struct measured_operation *o, double load, struct measured *m)
{
    for (int i = 0; i < o->count; i++)
        if (!seen_before(l, o, i))
            m->uses[m->flow.use_count++] = l->processors[l->ranks[o->ranks[i]].node * LOADS + step_of(load)];
}

static dt_status make(const struct dt_sim_links *l, const struct measured_operation *o, double seconds, double load, struct measured **out)
{
    struct measured *m = calloc(1, sizeof *m);
    struct dt_sim_use *uses = calloc(o->pattern->count + (size_t)o->count, sizeof *uses);
    if (!m || !uses) {
        free(m);
        free(uses);
        return no_memory();
    }
    *m = (struct measured){.kind = o->kind, .bytes = o->bytes, .uses = uses, .next = *out};
    m->flow = links_flow_of_work(l, 0, seconds, load, o->count);
    m->flow.uses = uses;
    m->flow.use_count = 0;
    use_cards(l, o, seconds, m);
    if (l->processors)
        use_processors(l, o, load, m);
    *out = m;
    return DT_OK;
}

dt_status links_carry_measured(struct dt_sim_links *l, const struct measured_operation *o, struct measured **cache,
                               struct dt_sim_movement *out, bool *out_found)
{
    double seconds, load;
    *out_found = dt_sim_measured_find(&l->cluster.collectives.measured, o->kind, o->of_count, o->nodes, o->bytes, &seconds, &load);
    if (!*out_found)
        return DT_OK;
    if (o->nodes == 1) {
        *out = (struct dt_sim_movement){.flow = links_flow_of_work(l, l->ranks[o->ranks[0]].node, seconds, load, o->count)};
        return DT_OK;
    }
    struct measured *m = *cache;
    while (m && (m->kind != o->kind || m->bytes != o->bytes))
        m = m->next;
    if (!m) {
        DT_TRY(make(l, o, seconds, load, cache));
        m = *cache;
    }
    *out = (struct dt_sim_movement){.flow = m->flow};
    return DT_OK;
}

void links_forget_measured(struct measured *cache)
{
    for (struct measured *m = cache, *next; m; m = next) {
        next = m->next;
        free(m->uses);
        free(m);
    }
}
