#include "cli/plan/planner.h"

#include "cli/text/text.h"
#include "lib/base/dtype.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct choice {
    const char *what;
    const char *fix[RULE_FIXES]; /* KEY=VALUE; NULL past the last */
    const char *allow;           /* KEY=VALUE,VALUE,...; or NULL */
};

static double parameters_of(const struct planner *p)
{
    return (double)dt_model_parameter_count(&p->base.model);
}

/* ---- the rules ---- */

/* The decision tree's bytes, fractions of a GPU's memory and 32 layers are the source's own. Its
 * text recommends tensor parallelism in a node, pipelines between nodes and FSDP over these for
 * tens of billions of parameters; its function recommends the same without NVLink. Both conditions
 * are followed. */
static struct choice follow_decision_tree(const struct planner *p, char says[RULE_BYTES])
{
    static const struct choice ddp = {.what = "DDP",
                                      .fix = {"paradigm=ddp", "tensor.size=1", "activation=keep", "parameter_offload=false"}};
    static const struct choice repeated = {.what = "DDP with checkpointing",
                                           .fix = {"paradigm=ddp", "tensor.size=1", "activation=checkpoint", "parameter_offload=false"}};
    static const struct choice fsdp = {.what = "FSDP", .fix = {"paradigm=fsdp", "tensor.size=1"}};
    static const struct choice tensor = {.what = "tensor parallelism with FSDP", .fix = {"paradigm=fsdp", "tensor.size=4"}};
    static const struct choice all = {"tensor parallelism in a node, pipelines between nodes, FSDP over them",
                                      {"paradigm=fsdp", "tensor.size=4", "pipeline.order=1f1b", "mesh.order=tensor-data-pipeline"},
                                      "pipeline.stages=2,4,8,16,32"};
    const double very_large = 20; /* billions of parameters */
    double billions = parameters_of(p) / 1e9, state_gb = 12 * billions, gpu_gb = p->machine.cluster.gpu.memory_gib;
    double layer_gb = billions * 2 * 4 / 32, shard_gb = state_gb / p->base.world_size;
    snprintf(says, RULE_BYTES, "12 bytes a parameter are %.3g GB, %.3g GB on each of %d GPUs", state_gb, shard_gb, p->base.world_size);
    if (state_gb < 0.15 * gpu_gb)
        return ddp;
    if (state_gb < 0.25 * gpu_gb)
        return repeated;
    if (billions >= very_large && p->nodes > 1)
        return all;
    if (layer_gb < 0.5 * gpu_gb && shard_gb < 0.7 * gpu_gb)
        return fsdp;
    return p->machine.cluster.nvlink.gb_per_s > 0 ? tensor : all;
}

/* Amortised communication is estimated from the network's nominal rate: the time of a ring
 * all-reduce of all gradients on a node's cards, for each sample of a GPU. The study calls more
 * than 20 ms high. Where the batch is free, the largest one is used. */
static struct choice follow_best_practices(const struct planner *p, char says[RULE_BYTES])
{
    static const struct choice ddp = {.what = "DDP", .fix = {"paradigm=ddp", "tensor.size=1"}},
                               pdp = {.what = "PDP", .fix = {"paradigm=pdp", "tensor.size=1"}},
                               fsdp = {.what = "FSDP", .fix = {"paradigm=fsdp", "tensor.size=1"}};
    const double high_s = 20e-3, large = 10e9;
    const struct dt_sim_cluster *c = &p->machine.cluster;
    double batch = p->request.global_batch > 0 ? (double)p->request.global_batch / p->base.world_size : p->request.max_batch;
    double bytes = parameters_of(p) * (double)dt_dtype_bytes(p->base.model.dtype);
    double ring_s = p->nodes > 1 ? 2.0 * (p->nodes - 1) / p->nodes * bytes / (c->nic.count * c->nic.label_gbit_per_s * 1e9 / 8) : 0;
    if (parameters_of(p) > large) {
        snprintf(says, RULE_BYTES, "more than 10 billion parameters");
        return fsdp;
    }
    snprintf(says, RULE_BYTES, "at the network's nominal rate gradients take %.3g ms for each sample of a GPU", 1e3 * ring_s / batch);
    return ring_s / batch > high_s ? pdp : ddp;
}

static const struct {
    const char *name;
    struct choice (*follow)(const struct planner *p, char says[RULE_BYTES]);
} rules[RULES] = {{"the decision tree", follow_decision_tree}, {"the study's Best Practices", follow_best_practices}};

/* ---- what they cost ---- */

static dt_status search_best(const struct planner *p, const struct space *space, struct rule_result *out)
{
    struct search_options options = p->options;
    struct planner_best best;
    options.progress = NULL;
    options.only_best = true;
    DT_TRY(planner_search_best(space, &p->base, &p->machine, &options, &best));
    out->interrupted = best.interrupted;
    if (!best.found)
        return DT_OK;
    strategy_describe(&best.experiment, out->strategy);
    out->batch = best.experiment.batch_size;
    out->units_per_s = best.outcome.units_per_s;
    if (p->result.ranked > 0)
        out->regret = 1 - out->units_per_s / planner_outcome(p, 0)->units_per_s;
    return DT_OK;
}

/* Follow a rule within the user's limits: if --fix, --allow or --forbid exclude it, it has no
 * strategy. */
static dt_status follow(const struct planner *p, const struct choice *choice, struct rule_result *out)
{
    const char *fix[2 * OPTION_LIST_MAX + RULE_FIXES], *allow[OPTION_LIST_MAX + 1];
    struct space_request request = p->request;
    struct space *space;
    memcpy(fix, request.fix, (size_t)request.fix_count * sizeof *fix);
    for (int i = 0; i < RULE_FIXES && choice->fix[i]; i++)
        fix[request.fix_count++] = choice->fix[i];
    request.fix = fix;
    memcpy(allow, request.allow, (size_t)request.allow_count * sizeof *allow);
    if (choice->allow)
        allow[request.allow_count++] = choice->allow;
    request.allow = allow;
    dt_status status = space_create(&p->base, &p->machine, &request, &space);
    out->left_out = status == DT_ERR_INVALID;
    if (out->left_out)
        return DT_OK;
    DT_TRY(status);
    status = search_best(p, space, out);
    space_destroy(space);
    return status;
}

dt_status rules_follow(const struct planner *p, struct rule_results *out)
{
    *out = (struct rule_results){.count = 0};
    for (int i = 0; i < RULES && p->base.world_size > 1; i++) {
        struct rule_result *one = &out->all[out->count++];
        char figures[RULE_BYTES];
        struct choice choice = rules[i].follow(p, figures);
        *one = (struct rule_result){.name = rules[i].name, .units_per_s = NAN, .regret = NAN};
        snprintf(one->says, sizeof one->says, "%s (%.120s)", choice.what, figures);
        DT_TRY(follow(p, &choice, one));
    }
    return DT_OK;
}

/* ---- what would change a plan ---- */

struct change {
    const char *name;
    double network, memory;
    int nodes;
};

/* Has the experiment the mesh of the one at `what`? */
static bool is_like(const void *what, const struct experiment *b)
{
    const struct experiment *a = what;
    struct mesh_shape left = a->strategy.mesh, right = b->strategy.mesh;
    bool same = a->paradigm == b->paradigm;
    for (int axis = 0; axis < MESH_REPLICA; axis++)
        same &= left.size[axis] == right.size[axis] ||
                left.size[axis] == a->world_size; /* an axis over all ranks stays the same when their number changes */
    return same && left.size[MESH_PIPELINE] == right.size[MESH_PIPELINE];
}

static bool is_unlike(const void *what, const struct experiment *e)
{
    return !is_like(what, e);
}

/* The search under one changed condition. */
struct replan {
    struct experiment base, winner; /* winner: what was best before the change */
    struct simulated_machine machine;
    struct space *space;
    bool stopped;
};

/* The earlier winner's score after the change; *score is 0 where it is not possible. */
static dt_status score_winner(const struct planner *p, const struct replan *r, double *score)
{
    struct experiment e = r->winner;
    DT_ENDED(measure_result_finish) struct measure_result result = {0};
    const struct measure_hooks hooks = {.context = p->options.context, .stop_requested = p->options.stop};
    *score = 0;
    if (!p->request.any_nodes)
        e.world_size = r->base.world_size;
    if (p->request.global_batch > 0)
        e.batch_size = (double)p->request.global_batch * e.context.size / e.world_size;
    if (experiment_check(&e, "") < 0)
        return DT_OK;
    dt_status status = search_simulate(&r->machine, &e, &hooks, &result);
    if (status == DT_OK) {
        double step_s = result.step_s[result.steps_done - 1];
        struct search_outcome outcome = {.step_s = step_s, .units_per_s = search_units_per_s(&e, step_s), .storage = result.storage};
        bool too_slow = search_floor_rate(&p->options, &e, &outcome) < p->options.floor_units_per_s;
        *score = too_slow ? 0 : search_score(p->options.objective, &e, step_s, simulated_peak_bytes(&result));
    }
    return status == DT_ERR_OOM ? DT_OK : status;
}

/* Find the best candidate of the earlier winner's kind, or of all other kinds, that scores less
 * than `than` (0: no limit). *score is NAN where there is none. */
static dt_status search_part(const struct planner *p, struct replan *r, bool like, double than, double *score, struct planner_best *best)
{
    struct search_options o = p->options;
    *score = NAN;
    o.progress = NULL;
    o.only_best = true;
    o.better_than = than;
    o.wanted = like ? is_like : is_unlike;
    o.what = &r->winner;
    DT_TRY(planner_search_best(r->space, &r->base, &r->machine, &o, best));
    r->stopped |= best->interrupted;
    double found = best->found ? search_score(o.objective, &best->experiment, best->outcome.step_s, best->outcome.peak_bytes) : NAN;
    if (than == 0 || found < than)
        *score = found;
    return DT_OK;
}

/* After the change, find a strategy that is better than the earlier winner, and than the best of
 * the winner's kind, by more than the predictions' error; *found: there is one. *gain: how much
 * less it scores than the earlier winner after the change; NAN where the winner cannot run. */
static dt_status find_other(const struct planner *p, struct replan *r, struct planner_best *other, bool *found, double *gain)
{
    double score, other_score, like_score;
    struct planner_best like;
    *found = false;
    *gain = NAN;
    dt_status status = score_winner(p, r, &score);
    if (status == DT_ERR_INTERRUPTED) {
        r->stopped = true;
        return DT_OK;
    }
    DT_TRY(status);
    DT_TRY(search_part(p, r, false, score * (1 - planner_noise(p, &r->winner, &r->winner)), &other_score, other));
    if (isnan(other_score) || r->stopped)
        return DT_OK;
    double noise = planner_noise(p, &r->winner, &other->experiment);
    if (score > 0 && other_score >= score * (1 - noise))
        return DT_OK;
    DT_TRY(search_part(p, r, true, other_score / (1 - noise), &like_score, &like));
    if (!isnan(like_score) || r->stopped)
        return DT_OK;
    *found = true;
    *gain = score > 0 ? 1 - other_score / score : NAN;
    return DT_OK;
}

static dt_status say_change(const struct planner *p, const struct change *change, struct replan *r, struct why *w)
{
    struct dt_sim_cluster *c = &r->machine.cluster;
    char strategy[STRATEGY_BYTES], rate[FORMAT_BYTES], better[64] = "the first one cannot run in that case";
    struct planner_best other;
    double gain = NAN;
    bool found = false;
    *r = (struct replan){.base = p->base, .machine = p->machine, .winner = planner_candidate(p, 0)};
    c->nic.label_gbit_per_s *= change->network;
    c->nic.flow_gbit_per_s *= change->network;
    c->nic.total_gbit_per_s *= change->network;
    c->gpu.memory_gib *= change->memory;
    r->base.world_size *= change->nodes;
    c->nodes = c->nodes < p->nodes * change->nodes ? p->nodes * change->nodes : c->nodes;
    if (change->nodes > 1 && p->ranks_per_node < c->gpus_per_node) /* more nodes of as many GPUs as the one that is planned for */
        r->base.gpus_per_node = r->winner.gpus_per_node = p->ranks_per_node;
    dt_status status = space_create(&r->base, &r->machine, &p->request, &r->space);
    if (status == DT_ERR_INVALID) /* the batch cannot be divided among that many GPUs */
        return DT_OK;
    DT_THEN(status, find_other(p, r, &other, &found, &gain));
    space_destroy(r->space);
    DT_TRY(status);
    if (r->stopped)
        why_say(w, "%s: not known, because the search was stopped", change->name);
    if (r->stopped || !found)
        return DT_OK;
    strategy_describe(&other.experiment, strategy);
    if (!isnan(gain))
        snprintf(better, sizeof better, "%.0f %% better than the first one in that case", 100 * gain);
    why_say(w, "%s: %s, batch %g, %s %ss/s; %s", change->name, strategy, other.experiment.batch_size,
            format_number(other.outcome.units_per_s, rate), other.experiment.model.family->unit, better);
    return DT_OK;
}

dt_status changes_find(const struct planner *p, struct why *out)
{
    const struct dt_sim_cluster *c = &p->machine.cluster;
    char network[64], memory[64], nodes[64];
    *out = (struct why){.count = 0};
    if (p->result.ranked == 0 || c->gpu.architecture == DT_SIM_CPU)
        return DT_OK;
    snprintf(network, sizeof network, "with %g Gbit/s", 4 * c->nic.label_gbit_per_s);
    snprintf(memory, sizeof memory, "with GPUs of %.0f GiB", 2 * c->gpu.memory_gib);
    snprintf(nodes, sizeof nodes, "on %d nodes", 2 * p->nodes);
    const struct change changes[] = {{network, 4, 1, 1}, {memory, 1, 2, 1}, {nodes, 1, 1, 2}};
    DT_FREED struct replan *replan = malloc(sizeof *replan);
    DT_TRY(dt_allocated(replan, "no host memory for a cluster"));
    size_t end = sizeof changes / sizeof *changes - (c->nic.count == 0); /* without a network there cannot be more nodes */
    for (size_t i = p->nodes > 1 ? 0 : 1; i < end; i++)
        DT_TRY(say_change(p, &changes[i], replan, out));
    return DT_OK;
}
