/* One experiment, fully resolved: what `dtbench check` prints and a trainer runs. Parsed from JSON
 * by schedules/config/parse.h.
 *
 * The JSON names, defaults and ranges stand in one table, schedules/config/fields.c. Its strings
 * are interned (lib/base/grow.h) and live as long as the program. So an experiment owns nothing,
 * can be copied by its bytes, and two with the same bytes are equal. */
#pragma once

#include "lib/data/sampler.h"
#include "lib/model/model.h"
#include "schedules/config/strategy.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct plan;

enum reduction_kind { REDUCTION_LAST, REDUCTION_EACH };
enum reduce_kind { REDUCE_AS_MODEL, REDUCE_IN_FP32, REDUCE_IN_FP16, REDUCE_IN_BF16 };
enum gather_kind { GATHER_EACH, GATHER_ONCE }; /* for every pass, or once per step */
enum loss_kind { LOSS_CROSS_ENTROPY, LOSS_SUM };
enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE };
enum rate_scaling { SCALE_NONE, SCALE_LINEAR, SCALE_ROOT };
enum ids_kind { IDS_UINT16, IDS_UINT32 }; /* type of the numbers in a file */
enum slow_part { SLOW_GPU, SLOW_NODE, SLOW_LINK, SLOW_CARD };
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };
enum decayed_kind { DECAYED_ALL, DECAYED_ALL_BUT_NORMS, DECAYED_MATRICES };

enum { LOSS_SCALING_DYNAMIC = 0 };

struct experiment {
    struct dt_model model;  /* the first member: a family's keys have offsets from here */
    const char *model_from; /* a file that describes the model, until experiment_resolve has read it; "": none */
    const char *name;       /* at most 63 characters of UTF-8 */
    const char *device;     /* "auto", "cpu", "cuda", "sim" */
    int world_size;         /* all ranks, those of a pipeline and of a tensor-parallel group included */
    enum paradigm_kind paradigm;
    int gpus_per_node;   /* ranks on each node; 0: wherever the launcher puts them */
    bool share_gpus;     /* cuda: several ranks may be on one GPU; for correctness alone */
    bool straddle_nodes; /* a pipeline, or an hsdp shard group, may be spread over nodes */
    double batch_size;   /* samples per rank ("per GPU") and step; the ranks of a context group share them. A replica's are whole:
                            a rank of a tensor group, or of a pipeline, may have an eighth of one */
    int global_batch;    /* of all ranks; batch_size was computed from it. 0: batch_size was given */
    int micro_batches;   /* gradient accumulation: the number of parts of a step's batch; pdp divides each into chunks */
    enum reduction_kind gradient_reduction; /* after the last micro-batch, or after each */
    enum reduce_kind reduce_dtype;          /* data type in which gradients are sent */
    enum reduce_kind gradient_dtype;        /* data type from backward to the update */
    struct {
        enum mesh_order order;
    } mesh;
    struct {                           /* used where the experiment has a pipeline */
        int stages;                    /* ranks in one pipeline; times tensor.size divides world_size */
        int chunks;                    /* parts in the pipeline at a time; times micro_batches at most the samples of a pipeline's step */
        enum pipeline_reach paradigms; /* PIPELINE_OF_ALL: this experiment has one, though it is not pdp */
        const char *order;             /* a name from schedules/plan/orders.c, or a file (schedules/plan/order_file.c) */
        const char *split;             /* a rule of split.h, or points as "4-8" */
        int virtual_stages;            /* interleaved: parts of the model on each rank */
        const char *activation;        /* "keep-checkpoint": a policy for each part of a rank; "": `activation` for all */
        int memory_limit; /* zb_auto and files: micro-batches that a rank keeps at most (plan_kept.weighted); 0: stages; of files any */
    } pipeline;
    struct {
        enum dt_unit unit; /* "block", "linear", or "auto": block below 80e9 parameters, linear from there */
        enum gather_kind gather;
        int prefetch; /* units that are gathered ahead of time; 0: none, a gather waits for the computation before it */
    } fsdp;
    struct {
        int shard_size; /* hsdp: consecutive ranks that share one copy, divides world_size; 0: those of a node */
    } hsdp;
    struct {
        double bucket_mib;         /* 25 */
        bool overlap;              /* backward goes on while buckets are reduced */
        bool overlap_param_gather; /* zero1, zero2: updated parameters are gathered when the next step begins */
    } ddp;
    struct {
        int servers;   /* parameter_server: ranks that own parameters; at most world_size */
        int receives;  /* workers that a server receives from at a time */
        int staleness; /* number of steps by which a worker's parameters may be old; 0: always current */
    } parameter_server;
    struct {
        int size;               /* ranks that share each layer: neighbours in the world */
        bool sequence_parallel; /* between products each rank has its part of the rows */
        bool overlap;           /* sim: a product runs while its rows are gathered, and while its results are summed */
    } tensor;
    struct {
        int size; /* ranks that share the positions of each sample */
        enum dt_context_kind comm_type;
    } context;
    enum activation_kind activation;
    int activation_blocks;  /* checkpoint, offload: transformer blocks of a segment */
    int activation_every;   /* the last of every N segments is recomputed, the others are kept; 1: all are recomputed */
    int keep_cheap;         /* bits of enum dt_keep: what is kept although recomputing it is cheap */
    bool parameter_offload; /* the parameters that a rank owns are in host memory (schedules/data_parallel/offload.h) */
    struct {
        enum optimizer_kind name;
        double learning_rate, beta1, beta2, epsilon;
        double momentum, weight_decay;
        enum decayed_kind decayed;
        double clip_norm;    /* limit of the norm over all gradients; 0: none */
        bool master_weights; /* fp32 copies of the parameters, which the optimizer updates */
        enum schedule_kind schedule;
        int warmup_steps;
        int schedule_steps; /* steps of the schedule, its warm-up included; 0: all steps of the run */
        double final_rate;  /* the learning rate at the schedule's end, as a part of the full one */
        enum rate_scaling scale_with_batch;
        int base_batch; /* samples of a step over all ranks for which learning_rate is meant */
    } optimizer;
    enum loss_kind loss;
    double loss_scaling; /* factor of the loss's gradient, which the optimizer divides out; LOSS_SCALING_DYNAMIC: adapted */
    struct {
        double initial, growth, backoff;
        int window; /* steps */
    } dynamic_loss_scale;
    bool fused_kernels;                          /* cuda: use fused kernels where they exist */
    bool early_launch;                           /* cuda: a kernel is launched before the kernels queued before it have ended */
    enum dt_warpgroup_kernels warpgroup_kernels; /* cuda: "auto", "never", "always" */
    int spared_multiprocessors;                  /* cuda: multiprocessors that products leave to concurrent kernels */
    bool graph;              /* on devices that have graphs, a step is captured and replayed (schedules/run/trainer.h) */
    bool graph_across_nodes; /* also if the ranks are on several nodes */
    bool graph_in_pipelines; /* also in a pipeline */
    bool register_buffers;   /* with NCCL */
    uint64_t seed;
    struct {
        const char *source; /* "random", or a file */
        enum ids_kind ids;
        enum dt_last_step last;
        bool shuffle;
    } data;
    struct {
        const char *path, *from; /* folders; "": none */
        int save_every;          /* steps; 0: after the last one alone */
        bool asynchronous;       /* save a host copy while the next steps run */
    } checkpoint;
    int steps_made;        /* not in the JSON: steps of the runs that this run continues; `steps` has the remaining ones */
    uint64_t data_samples; /* not in the JSON: samples in the file; 0: no file, or unknown on this machine */
    struct {
        int warmup, timed;
        int epochs;      /* of the file, warm-up included; 0: as many steps as warmup and timed say */
        double warmup_s; /* seconds; more warm-up steps follow until this time has passed */
    } steps;
    struct {
        double init_s, step_s; /* 0: never */
    } timeout;
    double memory_limit_gib;          /* as in the JSON */
    uint64_t memory_limit_bytes;      /* the same in bytes; 0: the device's own limit */
    double host_memory_limit_gib;     /* as in the JSON */
    uint64_t host_memory_limit_bytes; /* the same in bytes; 0: the machine's own limit */
    const char *nccl;                 /* cuda: {"NCCL_ALGO":"Ring"}: environment variables of the ranks; "": none */
    const char *tuning;               /* cuda: file of dtbench tune; "": none */
    int threads;                      /* cpu; 0: processors / ranks of the machine */
    const char *cluster, *profile;    /* sim: files that describe the cluster and the costs; "" on other devices when none are given */
    const char *rates;                /* sim: files of measured rates, ':' between them; "": none */
    struct {
        double gbit_per_s, latency_us; /* sim: of the nodes' network cards, instead of the cluster file's values; 0 and -1: the file's */
    } network;
    struct {
        double by; /* sim: the part by which one piece of hardware is slower; 0: none is */
        int rank;
        enum slow_part part; /* what is slow: that rank's GPU, all GPUs of its node, its link to them, or its network card */
    } slow;
    bool more_nodes;       /* sim: the cluster may have more nodes than its file says */
    bool any_profile;      /* sim: the profile may be one for another GPU than the cluster's */
    const char *directory; /* folder of the config file, where the above files are looked for first; "": not from a file. Not in the JSON */
    bool passes_only;      /* not in the JSON: only the passes of the pipeline matter, so the model may have too few layers for them */
    /* Not in the JSON: order_shape's `made`, the plans of this order. Owned by a caller that makes
     * them once for many ranks. */
    const struct plan *made_plans;
    bool several_nodes;       /* not in the JSON: the ranks are not all on one node */
    int ranks_per_node;       /* not in the JSON: ranks per node if all nodes have equally many consecutive ranks; 0: all on one node */
    struct strategy strategy; /* computed from the members above by experiment_settle */
    char hash[17];            /* FNV-1a 64 of the resolved config's canonical JSON without "name"; hexadecimal */
};

_Static_assert(offsetof(struct experiment, model) == 0, "an experiment begins with its model");

/* Is the experiment a prediction, on device "sim"? */
static inline bool experiment_is_simulated(const struct experiment *e)
{
    return e->strategy.device && e->strategy.device->simulated;
}

/* The period of blocks: after this number of blocks, activations are treated in the same way
 * again. */
static inline int experiment_alike_blocks(const struct experiment *e)
{
    return e->activation_blocks * e->activation_every;
}

static inline bool experiment_is_adam(const struct experiment *e)
{
    return e->optimizer.name != OPTIMIZER_SGD;
}

/* Number of steps by which parameters are old; 0 in all paradigms but parameter_server. */
static inline int experiment_staleness(const struct experiment *e)
{
    return e->strategy.servers > 0 ? e->parameter_server.staleness : 0;
}

static inline enum dt_dtype experiment_gradient_dtype(const struct experiment *e)
{
    return e->gradient_dtype == REDUCE_IN_FP32 ? DT_FP32 : e->model.dtype;
}

/* The data type in which gradients are summed over ranks. */
static inline enum dt_dtype experiment_reduce_dtype(const struct experiment *e)
{
    const enum dt_dtype of[] = {[REDUCE_AS_MODEL] = experiment_gradient_dtype(e),
                                [REDUCE_IN_FP32] = DT_FP32,
                                [REDUCE_IN_FP16] = DT_FP16,
                                [REDUCE_IN_BF16] = DT_BF16};
    return of[e->reduce_dtype];
}

/* Bytes that the optimizer keeps for a parameter: two moments, one or none, and perhaps a master
 * copy; all of them fp32. */
static inline size_t experiment_state_bytes(const struct experiment *e)
{
    int moments = experiment_is_adam(e) ? 2 : e->optimizer.momentum > 0 ? 1 : 0;
    return sizeof(float) * (size_t)(moments + e->optimizer.master_weights);
}

static inline bool experiment_scales_dynamically(const struct experiment *e)
{
    return e->loss_scaling == LOSS_SCALING_DYNAMIC;
}

/* The factor of the loss's gradient, if it is the same in all steps. */
static inline double experiment_static_scale(const struct experiment *e)
{
    return experiment_scales_dynamically(e) ? 1 : e->loss_scaling;
}

/* Does the run continue a checkpoint that its own checkpoints replace? */
static inline bool experiment_replaces_its_checkpoint(const struct experiment *e)
{
    return strcmp(e->checkpoint.from, "auto") == 0 || (*e->checkpoint.from && strcmp(e->checkpoint.from, e->checkpoint.path) == 0);
}

/* Do samples come from a file? */
static inline bool experiment_reads_data(const struct experiment *e)
{
    return *e->data.source && strcmp(e->data.source, "random") != 0;
}

static inline int experiment_id_bytes(const struct experiment *e)
{
    return e->data.ids == IDS_UINT16 ? 2 : 4;
}

/* Samples of one step over all ranks: batch_size of each context group. */
static inline uint64_t experiment_global_batch(const struct experiment *e)
{
    return (uint64_t)llround(e->batch_size * (e->world_size / e->context.size));
}
