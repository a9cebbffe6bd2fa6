#include "cli/plan/planner.h"

#include "cli/text/text.h"
#include "lib/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void why_say(struct why *w, const char *format, ...)
{
    va_list arguments;
    if (w->count == WHY_LINES)
        return;
    va_start(arguments, format);
    vsnprintf(w->lines[w->count++], WHY_BYTES, format, arguments);
    va_end(arguments);
}

static int percent(double part, double whole)
{
    return (int)lround(100 * part / whole);
}

double why_margin(const struct planner *p, int better, int place)
{
    return 1 - planner_score(p, better) / planner_score(p, place);
}

bool why_margin_tells(const struct planner *p, int better, int place)
{
    struct experiment first = planner_candidate(p, better), other = planner_candidate(p, place);
    return why_margin(p, better, place) > planner_noise(p, &first, &other);
}

int why_alike(const struct planner *p, int place)
{
    int alike = 0;
    for (int other = p->result.kinds; other < p->result.ranked; other++)
        alike += planner_outcome(p, other)->kind == planner_outcome(p, place)->kind && !why_margin_tells(p, place, other);
    return alike;
}

/* ---- the chosen candidate ---- */

enum { PARTS_BYTES = 192 };

/* "forward 25 %, backward 65 %, ...": all parts above 0. Each is the difference of two rounded
 * sums, so that they add up to the step. */
static const char *describe_parts(const struct search_outcome *o, char text[PARTS_BYTES])
{
    const struct dt_step_metrics *s = &o->step;
    const struct {
        const char *name;
        double seconds;
    } parts[] = {{"forward", s->forward_s},
                 {"backward", s->backward_s},
                 {"optimizer", s->optimizer_s},
                 {"waiting for communication or copies", s->exposed_comm_s},
                 {"the pipeline's bubble", s->bubble_s},
                 {"waiting for the host", s->host_s},
                 {"other", INFINITY}};
    double sum_s = 0;
    int before = 0;
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        sum_s = fmin(sum_s + parts[i].seconds, o->step_s);
        int share = percent(sum_s, o->step_s) - before;
        before += share;
        if (share > 0 && used < PARTS_BYTES)
            used += (size_t)snprintf(text + used, PARTS_BYTES - used, "%s%s %d %%", used ? ", " : "", parts[i].name, share);
    }
    return text;
}

static void say_time(struct why *w, const struct search_outcome *o)
{
    char parts[PARTS_BYTES];
    why_say(w, "a step of %.4g s: %s", o->step_s, describe_parts(o, parts));
}

/* Where the batch is free, the best one is large: say how large a step is. */
static void say_batch(struct why *w, const struct planner *p, const struct experiment *e)
{
    char samples[FORMAT_BYTES], units[FORMAT_BYTES];
    uint64_t batch = (uint64_t)experiment_global_batch(e);
    if (p->request.global_batch > 0)
        return;
    why_say(w,
            "no batch was asked for: a step has %s %ss in %s samples. Larger batches are faster, but from some size on a model learns less "
            "from each sample; --global-batch N plans for N samples",
            format_count(batch * (uint64_t)dt_model_units(&e->model), units), e->model.family->unit, format_count(batch, samples));
}

/* Name the resource that limits the step: the one with the largest bound, which no schedule can
 * beat. */
static void say_limit(struct why *w, const struct search_outcome *o)
{
    const struct bound *b = &o->bound;
    double most = fmax(fmax(b->compute_s, b->host_s), fmax(b->network_s, b->host_link_s));
    const char *what = "kernels";
    if (b->network_s == most)
        what = "the network";
    else if (b->host_link_s == most)
        what = "copies to and from the host";
    else if (b->host_s == most)
        what = "the host, which issues the kernels";
    why_say(w,
            "bound by %s: of the step, no schedule can avoid %d %% for kernels, %d %% for issuing them, %d %% for communication, %d %% for "
            "copies to and from the host",
            what, percent(b->compute_s, o->step_s), percent(b->host_s, o->step_s), percent(b->network_s, o->step_s),
            percent(b->host_link_s, o->step_s));
}

/* Do all groups on the axis stay within nodes? */
static bool within_nodes(const struct planner *p, const struct mesh_shape *mesh, enum mesh_axis axis)
{
    int last = mesh->size[axis] - 1, here = p->ranks_per_node;
    for (int rank = 0; rank < p->base.world_size && rank < here; rank++)
        if (mesh_moved(mesh, axis, rank, last) / here != mesh_moved(mesh, axis, rank, 0) / here)
            return false;
    return true;
}

static void name_link(const struct planner *p, bool within, char text[64])
{
    const struct dt_sim_cluster *c = &p->machine.cluster;
    if (within && c->gpu.architecture == DT_SIM_CPU)
        snprintf(text, 64, "within the machine");
    else if (within)
        snprintf(text, 64, "within a node (%s)", c->nvlink.gb_per_s > 0 ? c->nvlink.name : "PCIe");
    else
        snprintf(text, 64, "between nodes (%d x %g Gbit/s each)", c->nic.count, c->nic.label_gbit_per_s);
}

static void say_axes(struct why *w, const struct planner *p, const struct experiment *e)
{
    struct mesh_shape mesh = e->strategy.mesh;
    double bytes = (double)dt_model_parameter_count(&e->model) * (double)dt_dtype_bytes(e->model.dtype) / mesh.size[MESH_PIPELINE] /
                   mesh.size[MESH_TENSOR] / 1e9;
    int shards = mesh_group_size(&mesh, MESH_SHARD), replicas = mesh_group_size(&mesh, MESH_REPLICA);
    char link[64];
    if (mesh.size[MESH_TENSOR] > 1) {
        name_link(p, within_nodes(p, &mesh, MESH_TENSOR), link);
        why_say(w, "each layer is shared by %d ranks, %s", mesh.size[MESH_TENSOR], link);
    }
    if (mesh.size[MESH_PIPELINE] > 1) {
        name_link(p, within_nodes(p, &mesh, MESH_PIPELINE), link);
        why_say(w, "activations pass %d stages, %s", mesh.size[MESH_PIPELINE], link);
    }
    if (mesh.size[MESH_CONTEXT] > 1) {
        name_link(p, within_nodes(p, &mesh, MESH_CONTEXT), link);
        why_say(w, "%d ranks share the positions of each sample, %s", mesh.size[MESH_CONTEXT], link);
    }
    if (shards > 1) {
        name_link(p, within_nodes(p, &mesh, MESH_SHARD), link);
        if (e->strategy.paradigm->reads & READS_UNITS)
            why_say(w, "parameters of %.3g GB are gathered for forward and backward and their gradients reduced among %d shards, %s", bytes,
                    shards, link);
        else
            why_say(w, "gradients and updated parameters of %.3g GB are exchanged among %d ranks, %s", bytes, shards, link);
    }
    if (replicas > 1) {
        name_link(p, within_nodes(p, &mesh, MESH_REPLICA), link);
        why_say(w, "gradients of %.3g GB a rank are averaged over %d replicas once a step, %s", bytes / shards, replicas, link);
    }
}

void why_chosen(const struct planner *p, int place, struct why *out)
{
    const struct search_outcome *o = planner_outcome(p, place);
    struct experiment e = planner_candidate(p, place);
    *out = (struct why){.count = 0};
    say_time(out, o);
    say_batch(out, p, &e);
    say_limit(out, o);
    say_axes(out, p, &e);
    why_say(out, "memory: %.4g of %.4g GiB on the fullest %s%s", o->peak_bytes / 0x1p30, p->result.capacity_bytes / 0x1p30, planner_unit(p),
            o->host_peak_bytes > 0 ? ", the rest on the host" : "");
}

/* ---- the rejected candidates ---- */

static bool is_shown(const struct planner *p, int paradigm)
{
    for (int place = 0; place < planner_shown(p); place++)
        if (planner_outcome(p, place)->paradigm == paradigm)
            return true;
    return false;
}

/* The place of the best simulated candidate of a paradigm; -1: none was simulated. */
static int best_place(const struct planner *p, int paradigm)
{
    for (int place = 0; place < p->result.ranked; place++)
        if (planner_outcome(p, place)->paradigm == paradigm)
            return place;
    return -1;
}

static void say_slower(struct why *w, const struct planner *p, int paradigm, int place)
{
    const struct search_outcome *o = planner_outcome(p, place);
    char rate[FORMAT_BYTES], strategy[STRATEGY_BYTES], parts[PARTS_BYTES];
    struct experiment e = planner_candidate(p, place);
    strategy_describe(&e, strategy);
    why_say(w, "%s: %s %ss/s at best (%s, batch %g), %d %% worse; a step of %.3g s: %s", paradigm_of((enum paradigm_kind)paradigm)->title,
            format_number(o->units_per_s, rate), e.model.family->unit, strategy, e.batch_size, percent(why_margin(p, 0, place), 1),
            o->step_s, describe_parts(o, parts));
}

double why_too_slow(const struct planner *p, int paradigm)
{
    double rate = 0;
    struct experiment e;
    for (int i = 0; i < p->result.count; i++) {
        const struct search_outcome *o = &p->result.outcomes[i];
        if (o->state != SEARCH_TOO_SLOW || (paradigm >= 0 && o->paradigm != paradigm))
            continue;
        space_experiment(p->space, i, &e);
        rate = fmax(rate, isnan(o->step_s) ? search_units_per_s(&e, o->bound.step_s) : search_floor_rate(&p->options, &e, o));
    }
    return rate;
}

/* Say why no candidate of a paradigm was simulated. */
static void say_rejected(struct why *w, const struct planner *p, int paradigm)
{
    double least = p->result.least_bytes[paradigm], capacity = p->result.capacity_bytes;
    const char *name = paradigm_of((enum paradigm_kind)paradigm)->title;
    double slow = why_too_slow(p, paradigm);
    char rate[FORMAT_BYTES], asked[FORMAT_BYTES];
    if (slow > 0)
        why_say(w, "%s: too slow: at most %s %ss/s, but %s are needed", name, format_number(slow, rate), p->base.model.family->unit,
                format_number(p->options.floor_units_per_s, asked));
    else if (p->result.interrupted)
        why_say(w, "%s: not reached before the search was stopped", name);
    else if (least > capacity)
        why_say(w, "%s: needs at least %.4g GiB on a %s, which has %.4g", name, least / 0x1p30, planner_unit(p), capacity / 0x1p30);
    else if (*p->result.short_of[paradigm])
        why_say(w, "%s: the smallest candidate takes %.4g of a %s's %.4g GiB, but lacks other memory: %s", name, least / 0x1p30,
                planner_unit(p), capacity / 0x1p30, p->result.short_of[paradigm]);
    else if (least > 0) /* 0: no candidate was too large */
        why_say(w, "%s: its fast candidates do not fit; the smallest one needs %.4g of %.4g GiB", name, least / 0x1p30, capacity / 0x1p30);
}

void why_not(const struct planner *p, struct why *out)
{
    bool there[PARADIGM_ROOM] = {false};
    *out = (struct why){.count = 0};
    for (int i = 0; i < p->result.count; i++)
        there[p->result.outcomes[i].paradigm] = true;
    for (int paradigm = 0; paradigm_of((enum paradigm_kind)paradigm); paradigm++) {
        int place = best_place(p, paradigm);
        if (!there[paradigm] || is_shown(p, paradigm))
            continue;
        if (place >= 0)
            say_slower(out, p, paradigm, place);
        else
            say_rejected(out, p, paradigm);
    }
}

/* ---- a slow part ---- */

void why_slow(const struct planner *p, struct why *out)
{
    static const char *const parts[] = {[SLOW_GPU] = "the GPU of rank %d",
                                        [SLOW_NODE] = "each GPU of rank %d's node",
                                        [SLOW_LINK] = "the link of rank %d to its node's GPUs",
                                        [SLOW_CARD] = "the network card of rank %d"};
    const struct experiment *e = &p->base;
    int least = 0, shown = planner_shown(p);
    char part[64], strategy[STRATEGY_BYTES];
    *out = (struct why){.count = 0};
    if (!p->equal_units_per_s || shown == 0)
        return;
    for (int place = 1; place < shown; place++)
        least = planner_slow_cost(p, place) < planner_slow_cost(p, least) ? place : least;
    struct experiment best = planner_candidate(p, least);
    strategy_describe(&best, strategy);
    snprintf(part, sizeof part, parts[e->slow.part], e->slow.rank);
    why_say(out, "%s has %.3g %% of the usual speed: the first plan loses %.1f %% of its rate", part, 100 * (1 - e->slow.by),
            100 * planner_slow_cost(p, 0));
    why_say(out, "number %d (%s) loses the least of those shown, %.1f %%", least + 1, strategy, 100 * planner_slow_cost(p, least));
}

/* ---- how sure ---- */

/* Say how far off predictions of this mode are. Modes of which the same is known share a line. */
static void say_error(struct why *w, const struct planner *p, const struct experiment *e)
{
    struct confidence c = confidence_of(e, &p->machine);
    const char *name = e->strategy.paradigm->title;
    char known[WHY_BYTES], names[WHY_BYTES];
    const char *last = w->count ? strstr(w->lines[w->count - 1], ": ") : NULL;
    if (c.measured)
        snprintf(known, sizeof known, ": step times of measured runs are off by %.1f %% (median; %s)", 100 * c.error, c.source);
    else if (c.source)
        snprintf(known, sizeof known,
                 ": none measured with this profile; nine of ten predictions of its other modes are off by less than %.0f %%",
                 100 * c.error);
    else
        snprintf(known, sizeof known, ": none measured; an error of %.0f %% is assumed", 100 * c.error);
    if (!last || strcmp(last, known) != 0) {
        why_say(w, "%s%s", name, known);
        return;
    }
    snprintf(names, sizeof names, "%.*s", (int)(last - w->lines[w->count - 1]), w->lines[w->count - 1]);
    w->count--;
    why_say(w, "%s, %s%s", names, name, known);
}

/* Say the interval of the rate. Eight of ten step times `what` are off by no more than `within`, a
 * fraction of the measured step; so the rate is off by the same fraction of the predicted rate. */
static void say_interval(struct why *w, const struct planner *p, const struct experiment *first, const char *what, double within)
{
    char low[FORMAT_BYTES], high[FORMAT_BYTES];
    double rate = planner_outcome(p, 0)->units_per_s;
    if (!isnan(within) && within < 1)
        why_say(w, "eight of ten step times%s are off by no more than %.0f %%: the first reaches %s to %s %ss/s", what, 100 * within,
                format_number(rate * (1 - within), low), format_number(rate * (1 + within), high), first->model.family->unit);
}

/* "numbers 2, 3 differ from the first by" `how`; nothing for an empty list. */
static void say_differing(struct why *w, const char *where, const char *list, const char *how)
{
    bool several = strchr(list, ',');
    if (*list)
        why_say(w, "%snumber%s %s differ%s from the first by %s", where, several ? "s" : "", list, several ? "" : "s", how);
}

/* Say how far off predictions may be for software that the profile was not fitted to, and which
 * candidates then still differ from the first. */
static void say_unseen(struct why *w, const struct planner *p, const struct experiment *first)
{
    char told[WHY_BYTES] = "", how[64];
    double unseen = confidence_of(first, &p->machine).unseen;
    int shown = planner_shown(p);
    if (isnan(unseen))
        return;
    say_interval(w, p, first, " with software that the profile was not fitted to", unseen);
    for (int place = 1; place < shown; place++)
        if (why_margin(p, 0, place) > unseen)
            dt_append(told, sizeof told, ", ", "%d", place + 1);
    snprintf(how, sizeof how, "more than %.0f %%", 100 * unseen);
    if (shown < 2 || p->options.objective == SEARCH_MEMORY)
        return;
    if (!*told)
        why_say(w, "with such software no other differs from the first by %s", how);
    say_differing(w, "with such software ", told, how);
}

void why_trusted(const struct planner *p, struct why *out)
{
    bool said[PARADIGM_ROOM] = {false};
    char text[WHY_BYTES];
    struct experiment e, first = planner_candidate(p, 0);
    char alike[WHY_BYTES] = "", told[WHY_BYTES] = "";
    int at = 0, shown = planner_shown(p);
    *out = (struct why){.count = 0};
    for (int place = 0; place < shown; place++) {
        e = planner_candidate(p, place);
        if (!said[e.paradigm])
            say_error(out, p, &e);
        said[e.paradigm] = true;
        if (place > 0)
            dt_append(why_margin_tells(p, 0, place) ? told : alike, WHY_BYTES, ", ", "%d", place + 1);
    }
    struct confidence c = confidence_of(&first, &p->machine);
    if (c.eight != c.unseen) /* a general profile's runs are all of software that its fit had not seen */
        say_interval(out, p, &first, "", c.eight);
    say_unseen(out, p, &first);
    while (shown && confidence_next_doubt(&e, &p->machine, &at, text, sizeof text))
        why_say(out, "not measured: %s", text);
    if (p->options.objective == SEARCH_ENERGY)
        why_say(out,
                "energy: an upper estimate, each GPU at its %g W all the time; processors, network and cooling are not in it, and a GPU "
                "that waits takes less",
                p->machine.cluster.gpu.power_w);
    say_differing(out, "", alike, "less than the error of their modes: measure them");
    say_differing(out, "", told, "more than the error of their modes");
}
