#include "cli/plan/rule.h"

#include "lib/base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct choice {
    const char *what;
    const char *fix[RULE_FIXES]; /* KEY=VALUE; NULL past the last */
};

static double parameters_of(const struct planner *p)
{
    return (double)dt_model_parameter_count(&p->base.model);
}

/* ---- the rules ---- */

/* Its bytes, parts of a GPU's memory and its 32 layers are the source's own. Its third dimension, FSDP over pipelines, is DDP here. */
static struct choice follow_decision_tree(const struct planner *p, char says[RULE_BYTES])
{
    static const struct choice ddp = {"DDP", {"paradigm=ddp", "tensor.size=1", "activation=keep", "parameter_offload=false"}};
    static const struct choice repeated = {"DDP with checkpointing",
                                           {"paradigm=ddp", "tensor.size=1", "activation=checkpoint", "parameter_offload=false"}};
    static const struct choice fsdp = {"FSDP", {"paradigm=fsdp", "tensor.size=1"}};
    static const struct choice tensor = {"tensor parallelism with FSDP", {"paradigm=fsdp", "tensor.size=4"}};
    static const struct choice all = {"tensor, pipeline and data parallelism", {"paradigm=pdp", "tensor.size=4"}};
    double billions = parameters_of(p) / 1e9, state_gb = 12 * billions, gpu_gb = p->machine.cluster.gpu.memory_gib;
    double layer_gb = billions * 2 * 4 / 32, shard_gb = state_gb / p->base.world_size;
    snprintf(says, RULE_BYTES, "12 bytes a parameter are %.3g GB, %.3g GB on each of %d GPUs", state_gb, shard_gb, p->base.world_size);
    if (state_gb < 0.15 * gpu_gb)
        return ddp;
    if (state_gb < 0.25 * gpu_gb)
        return repeated;
    if (layer_gb < 0.5 * gpu_gb && shard_gb < 0.7 * gpu_gb)
        return fsdp;
    return p->machine.cluster.nvlink.gb_per_s > 0 ? tensor : all;
}

/* Amortised communication is taken from the network's label: the time that a ring's all-reduce of all gradients takes on a node's cards, for
 * each sample of a GPU. More than 20 ms is the study's high. Where the batch is free, it is the largest. */
static struct choice follow_best_practices(const struct planner *p, char says[RULE_BYTES])
{
    static const struct choice ddp = {"DDP", {"paradigm=ddp", "tensor.size=1"}}, pdp = {"PDP", {"paradigm=pdp", "tensor.size=1"}},
                               fsdp = {"FSDP", {"paradigm=fsdp", "tensor.size=1"}};
    const double high_s = 20e-3, large = 10e9;
    const struct dt_sim_cluster *c = &p->machine.cluster;
    double batch = p->request.global_batch > 0 ? (double)p->request.global_batch / p->base.world_size : p->request.max_batch;
    double bytes = parameters_of(p) * (double)dt_dtype_bytes(p->base.model.dtype);
    double ring_s = p->nodes > 1 ? 2.0 * (p->nodes - 1) / p->nodes * bytes / (c->nic.count * c->nic.label_gbit_per_s * 1e9 / 8) : 0;
    if (parameters_of(p) > large) {
        snprintf(says, RULE_BYTES, "more than 10 billion parameters");
        return fsdp;
    }
    snprintf(says, RULE_BYTES, "at the network's label gradients take %.3g ms for each sample of a GPU", 1e3 * ring_s / batch);
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
    struct search_result result = {0};
    options.top = 1;
    options.diverse = false;
    options.done = NULL;
    options.progress = NULL;
    options.only_best = true;
    dt_status status = search_run(space, &p->base, &p->machine, &options, &result);
    if (status == DT_OK && result.ranked > 0) {
        struct experiment e;
        space_experiment(space, result.ranking[0], &e);
        strategy_describe(&e, out->strategy);
        out->batch = e.batch_size;
        out->tokens_per_s = result.outcomes[result.ranking[0]].tokens_per_s;
        if (p->result.ranked > 0)
            out->regret = 1 - out->tokens_per_s / planner_outcome(p, 0)->tokens_per_s;
    }
    out->interrupted = result.interrupted;
    search_result_finish(&result);
    return status;
}

/* Within what the user leaves: a rule that --fix, --allow or --forbid excludes has no strategy. */
static dt_status follow(const struct planner *p, const struct choice *choice, struct rule_result *out)
{
    const char *fix[2 * OPTION_LIST_MAX + RULE_FIXES];
    struct space_request request = p->request;
    struct space *space;
    memcpy(fix, request.fix, (size_t)request.fix_count * sizeof *fix);
    for (int i = 0; i < RULE_FIXES && choice->fix[i]; i++)
        fix[request.fix_count++] = choice->fix[i];
    request.fix = fix;
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
        *one = (struct rule_result){.name = rules[i].name, .tokens_per_s = NAN, .regret = NAN};
        snprintf(one->says, sizeof one->says, "%s (%.120s)", choice.what, figures);
        DT_TRY(follow(p, &choice, one));
    }
    return DT_OK;
}
