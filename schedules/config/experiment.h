/* One experiment, fully resolved: what `dtbench check` prints and a trainer runs. Parsed from JSON by schedules/config/parse.h.
 *
 * The JSON names, defaults and ranges stand in one table, schedules/config/fields.c. Its texts live as long as the program, as those of lib/base/intern.h: an experiment owns
 * nothing, a copy of its bytes is a copy of it, and two that have the same bytes are the same. */
#ifndef SCHEDULES_CONFIG_EXPERIMENT_H
#define SCHEDULES_CONFIG_EXPERIMENT_H

#include "lib/data/sampler.h"
#include "lib/model/model.h"
#include "schedules/config/strategy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct plan;

enum reduction_kind { REDUCTION_LAST, REDUCTION_EACH };
enum reduce_kind { REDUCE_AS_MODEL, REDUCE_IN_FP32, REDUCE_IN_FP16, REDUCE_IN_BF16 };
enum gather_kind { GATHER_EACH, GATHER_ONCE }; /* for every pass, or once a step */
enum loss_kind { LOSS_CROSS_ENTROPY, LOSS_SUM };
enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE };
enum rate_scaling { SCALE_NONE, SCALE_LINEAR, SCALE_ROOT };
enum ids_kind { IDS_UINT16, IDS_UINT32 }; /* of numbers in a file */
enum slow_part { SLOW_GPU, SLOW_NODE, SLOW_LINK, SLOW_CARD };
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };
enum decayed_kind { DECAYED_ALL, DECAYED_ALL_BUT_NORMS, DECAYED_MATRICES };

enum { LOSS_SCALING_DYNAMIC = 0 };

struct experiment {
    struct dt_model model;  /* the first: what a family says of its keys finds it here */
    const char *model_from; /* a file that describes the model, until experiment_resolve has read it; "": none */
    const char *name;       /* at most 63 characters of UTF-8 */
    const char *device;     /* "auto", "cpu", "cuda", "sim" */
    int world_size;         /* all ranks, those of a pipeline and of a tensor-parallel group included */
    enum paradigm_kind paradigm;
    int gpus_per_node;   /* ranks on each node; 0: wherever the launcher puts them */
    bool share_gpus;     /* cuda: several ranks may be on one GPU; for correctness alone */
    bool straddle_nodes; /* a pipeline, or an hsdp shard group, may be spread over nodes */
    int batch_size;      /* samples per rank ("per GPU") and step, which the ranks of a context group have together */
    int global_batch;    /* of all ranks, from which batch_size was found; 0: that was given */
    int replica_samples; /* of a replica in a step, where that is no multiple of its ranks, as measured runs have it; 0: batch_size of each.
                          * No part of a config */
    int micro_batches;   /* gradient accumulation: the number of parts of a step's batch; pdp divides each into chunks */
    enum reduction_kind gradient_reduction; /* after the last micro-batch, or after each */
    enum reduce_kind reduce_dtype;          /* in which gradients travel */
    enum reduce_kind gradient_dtype;        /* in which they are from backward to the update */
    struct {
        enum mesh_order order;
    } mesh;
    struct {                           /* where the experiment has one */
        int stages;                    /* ranks in one pipeline; times tensor.size divides world_size */
        int chunks;                    /* parts in the pipeline at a time; times micro_batches at most the samples of a pipeline's step */
        enum pipeline_reach paradigms; /* PIPELINE_OF_ALL: this experiment has one, though it is not pdp */
        const char *order;             /* a name of schedules/plan/orders.c, or a file (schedules/plan/order_file.c) */
        const char *split;             /* a rule of split.h, or points as "4-8" */
        int virtual_stages;            /* interleaved: parts of the model on each rank */
        const char *activation; /* "keep-checkpoint": of each part of a rank, in place of `activation`; "": that one in all of them */
        int memory_limit; /* zb_auto and files: micro-batches that a rank keeps at most (plan_kept.weighted); 0: stages; of files any */
    } pipeline;
    struct {
        enum dt_unit unit; /* "block", "linear", or "auto": block below 80e9 parameters, linear from there */
        enum gather_kind gather;
        int prefetch; /* units that are gathered ahead; 0: none, and a gather waits for what is computed before */
    } fsdp;
    struct {
        int shard_size; /* hsdp: consecutive ranks that share one copy, divides world_size; 0: those of a node */
    } hsdp;
    struct {
        double bucket_mib; /* 25 */
        bool overlap;      /* backward goes on while buckets are reduced */
    } ddp;
    struct {
        int servers;   /* parameter_server: ranks that own parameters; at most world_size */
        int receives;  /* of workers at a time */
        int staleness; /* steps by which a worker's parameters may be old; 0: none */
    } parameter_server;
    struct {
        int size;               /* ranks that share each layer: neighbours in the world */
        bool sequence_parallel; /* between the products each of them has its part of the rows */
    } tensor;
    struct {
        int size; /* ranks that share the positions of each sample */
        enum dt_context_kind comm_type;
    } context;
    enum activation_kind activation;
    int activation_blocks;  /* checkpoint, offload: transformer blocks of a segment */
    int activation_every;   /* of so many segments the last one is computed again, and the others are kept; 1: all are */
    int keep_cheap;         /* enum dt_keep, added up: what is kept although it is cheap to make again */
    bool parameter_offload; /* what a rank owns of the parameters lives in host memory (schedules/data_parallel/offload.h) */
    struct {
        enum optimizer_kind name;
        double learning_rate, beta1, beta2, epsilon;
        double momentum, weight_decay;
        enum decayed_kind decayed;
        double clip_norm;    /* the longest norm of all gradients; 0: any */
        bool master_weights; /* fp32 copies of the parameters, which the optimizer updates */
        enum schedule_kind schedule;
        int warmup_steps;
        int schedule_steps; /* those of warm-up included; 0: all of the run's */
        double final_rate;  /* of the learning rate, where the schedule ends */
        enum rate_scaling scale_with_batch;
        int base_batch; /* samples of a step over all ranks for which learning_rate is meant */
    } optimizer;
    enum loss_kind loss;
    double loss_scaling; /* the loss's gradient is multiplied by it, divided again in the optimizer; 65536 for fp16 cross-entropy, else 1.
                          * LOSS_SCALING_DYNAMIC: found as the training goes on */
    struct {
        double initial, growth, backoff;
        int window; /* steps */
    } dynamic_loss_scale;
    bool fused_kernels;         /* cuda: one kernel does the work of several where there is one */
    bool early_launch;          /* cuda: kernels are launched before those in front of them are over */
    bool warpgroup_kernels;     /* cuda: Hopper's own kernels where there are some */
    int spared_multiprocessors; /* cuda: that products leave to what runs beside them */
    bool graph;                 /* on devices that have graphs, a step is captured and replayed (schedules/run/trainer.h) */
    bool graph_across_nodes;    /* also where the ranks are on several nodes */
    bool graph_in_pipelines;    /* also in a pipeline */
    bool register_buffers;      /* with NCCL */
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
        bool asynchronous;       /* a copy on the host is written beside the next steps */
    } checkpoint;
    int steps_made;        /* not in the JSON: by the runs that this one goes on with; steps has those that are left */
    uint64_t data_samples; /* not in the JSON: of the file; 0: none, or unknown on this machine */
    struct {
        int warmup, timed;
        int epochs;      /* of the file, warm-up included; 0: as many steps as warmup and timed say */
        double warmup_s; /* further warm-up steps until so much time has gone into them */
    } steps;
    struct {
        double init_s, step_s; /* 0: never */
    } timeout;
    double memory_limit_gib;          /* as in the JSON */
    uint64_t memory_limit_bytes;      /* of it; 0: the device's own */
    double host_memory_limit_gib;     /* as in the JSON */
    uint64_t host_memory_limit_bytes; /* of it; 0: the machine's */
    const char *nccl;                 /* cuda: {"NCCL_ALGO":"Ring"}, what the ranks find in their environment; "" when there is none */
    const char *tuning;               /* cuda: file of dtbench tune; "": none */
    int threads;                      /* cpu; 0: processors / ranks of the machine */
    const char *cluster, *profile;    /* sim: files that describe the cluster and the costs; "" on other devices when none are given */
    const char *rates;                /* sim: files of measured rates, ':' between them; "": none */
    struct {
        double gbit_per_s,
            latency_us; /* sim: of the nodes' network cards, instead of what the cluster's file says; 0 and -1: as that says */
    } network;
    struct {
        double by; /* sim: the part of its rate that one piece of hardware lacks; 0: none does */
        int rank;
        enum slow_part part; /* of that rank: its GPU, all GPUs of its node, its link to them, its network card */
    } slow;
    bool more_nodes;       /* sim: the cluster may have more nodes than its file says */
    bool any_profile;      /* sim: the profile may be one for another GPU than the cluster's */
    const char *directory; /* of the config file, where those files are looked for first; "" when it was not a file. Not in the JSON */
    bool passes_only; /* not in the JSON: its pipeline's passes alone are of interest, and the model may have too few layers for them */
    /* Not in the JSON: order_shape's `made`, of its order. The caller's: what finds them once for many ranks. */
    const struct plan *made_plans;
    bool several_nodes;       /* not in the JSON: the ranks are not all on one node */
    int ranks_per_node;       /* not in the JSON: where the run is laid out on nodes of equally many consecutive ranks; 0: on one */
    struct strategy strategy; /* found from what stands above: experiment_settle */
    char hash[17];            /* FNV-1a 64 of the resolved config's canonical JSON without "name"; hexadecimal */
};

_Static_assert(offsetof(struct experiment, model) == 0, "an experiment begins with its model");

/* Is it a prediction, on device "sim"? */
static inline bool experiment_is_simulated(const struct experiment *e)
{
    return e->strategy.device && e->strategy.device->simulated;
}

/* The blocks after which the next ones are treated as these. */
static inline int experiment_alike_blocks(const struct experiment *e)
{
    return e->activation_blocks * e->activation_every;
}

static inline bool experiment_is_adam(const struct experiment *e)
{
    return e->optimizer.name != OPTIMIZER_SGD;
}

/* Steps by which parameters are old; 0 in all paradigms but one. */
static inline int experiment_staleness(const struct experiment *e)
{
    return e->strategy.servers > 0 ? e->parameter_server.staleness : 0;
}

static inline enum dt_dtype experiment_gradient_dtype(const struct experiment *e)
{
    return e->gradient_dtype == REDUCE_IN_FP32 ? DT_FP32 : e->model.dtype;
}

/* In which gradients are summed over ranks. */
static inline enum dt_dtype experiment_reduce_dtype(const struct experiment *e)
{
    const enum dt_dtype of[] = {[REDUCE_AS_MODEL] = experiment_gradient_dtype(e),
                                [REDUCE_IN_FP32] = DT_FP32,
                                [REDUCE_IN_FP16] = DT_FP16,
                                [REDUCE_IN_BF16] = DT_BF16};
    return of[e->reduce_dtype];
}

/* Bytes that the optimizer keeps for a parameter: two moments, one or none, and perhaps a master copy; all of them fp32. */
static inline size_t experiment_state_bytes(const struct experiment *e)
{
    int moments = experiment_is_adam(e) ? 2 : e->optimizer.momentum > 0 ? 1 : 0;
    return sizeof(float) * (size_t)(moments + e->optimizer.master_weights);
}

static inline bool experiment_scales_dynamically(const struct experiment *e)
{
    return e->loss_scaling == LOSS_SCALING_DYNAMIC;
}

/* What the loss's gradient is multiplied by in all steps alike. */
static inline double experiment_static_scale(const struct experiment *e)
{
    return experiment_scales_dynamically(e) ? 1 : e->loss_scaling;
}

/* Does it go on with a checkpoint that its own take the place of? */
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

/* Samples of one step over all ranks: batch_size of each context group, whatever replica_samples says. */
static inline uint64_t experiment_global_batch(const struct experiment *e)
{
    return (uint64_t)(e->world_size / e->context.size) * (uint64_t)e->batch_size;
}

#endif
