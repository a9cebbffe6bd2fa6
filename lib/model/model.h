/* A model as schedules see it: its size, what its family can do with it, and one rank's run of its layers.
 *
 * This folder contains the interface, and what follows from it for all families (layers.c, stage.h).
 * A family of models is a separate folder (gpt/), and provides one `struct dt_model_family`;
 * schedules/config/families.c lists the families. Nothing here knows a layer, a kernel or a schedule.
 *
 * Words: a layer is the smallest piece that runs by itself. A stage is the layers of one rank: a run of consecutive ones, or several such
 * runs, its parts. A group is a run of a
 * stage's layers whose parameters are gathered, reduced and freed together. A stash contains what the forward of one micro-batch keeps for
 * its backward. A tensor group is the ranks that compute each layer together, each with a part of it. Unless said otherwise functions queue work on `stream` and return; their errors
 * are DT_ERR_OOM, DT_ERR_HOST_MEMORY and what queueing reports. */
#ifndef LIB_MODEL_MODEL_H
#define LIB_MODEL_MODEL_H

#include "lib/base/dtype.h"
#include "lib/base/status.h"
#include "lib/comm/comm.h"
#include "lib/config/schema.h"
#include "lib/config/words.h"
#include "lib/cost/fp8.h"
#include "lib/cost/priced.h"
#include "lib/data/mapped_file.h"
#include "lib/device/device.h"
#include "lib/kernels/kernels.h"
#include "lib/model/tuning.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the model ---- */

enum { DT_MODEL_OWN_BYTES = 512, DT_MODEL_KEYS_MAX = 64 };

/* A model: what configs say of all families, and its family's own description of it. */
struct dt_model {
    const struct dt_model_family *family;
    char preset[24];     /* "" when the sizes were given */
    enum dt_dtype dtype; /* parameters, gradients, activations */
    enum dt_fp8 fp8;     /* how the linear layers of blocks multiply; on sim alone */
    bool fp8_gather;     /* fsdp gathers their weights in FP8 */
    /* The family's description of the model, from byte own_at: a struct that only the family reads.
     * Each family that configs can name has a different place (schedules/config/families.h). */
    int own_at;
    alignas(8) unsigned char own[DT_MODEL_OWN_BYTES];
};

static inline const void *dt_model_own(const struct dt_model *model)
{
    return model->own + model->own_at;
}

/* A published model, or one of a study. */
struct dt_model_preset {
    const char *name;
    const void *own; /* the family's description of it */
    bool sizes_only; /* of which only the first keys, the sizes, say something: the rest is as in the config */
};

/* How many rows theirs may have: as many as ours; or more, of which the first are ours; or more or fewer, where what is lacking is zero, as in
 * tables of a vocabulary that is padded on one side. */
enum dt_tensor_rows { DT_ROWS_SAME, DT_ROWS_AT_LEAST, DT_ROWS_ANY };

/* Where its files have one of our tensors. `ours` and `theirs` are names without the number of a block. Rows with the same `theirs` are one
 * tensor there: the output features of the first, then those of the next. */
struct dt_tensor_word {
    const char *ours, *theirs; /* "attention.q.weight", "attn.c_attn.weight" */
    bool transposed;           /* theirs is [in, out] */
    enum dt_tensor_rows rows;
};

/* Rows: DT_TENSOR_WORD(ours, theirs), and other members after these. */
#define DT_TENSOR_WORD(our_name, their_name, ...) {.ours = (our_name), .theirs = (their_name), __VA_ARGS__}

/* How another library describes models of one of its types. */
struct dt_model_dialect {
    const char *type;  /* its name for them; "": any other one, of which the words say why it cannot be */
    const char *fixed; /* what all of that type are, as JSON of our config; NULL: nothing */
    const struct dt_word *words;
    void (*settle)(struct dt_translation *t); /* what words alone cannot tell, after them; NULL: nothing */
    /* The next four are optional together: without them models of that type are neither read from files nor written. */
    void (*unsettle)(struct dt_translation *t); /* the reverse of settle, before words are written */
    const char *architecture;                   /* its class of them with a head */
    const char *base;                           /* begins the names of all tensors but the head's, and is left out in some files */
    const struct dt_tensor_word *tensors;       /* the last has a NULL `ours`; names of blocks: base, "NAME.NUMBER." of `block`, theirs */
    const char *block;
};

/* Sizes of groups. block: the embedding, each transformer block, the head; linear: each linear layer with its norm. */
enum dt_unit { DT_UNIT_BLOCK, DT_UNIT_LINEAR };

/* What becomes of state that is not trained, of which each rank that has samples of its own makes another one: after each step all have the
 * mean of them, or that of the first rank. */
enum dt_state_rule { DT_STATE_NONE, DT_STATE_AVERAGED, DT_STATE_OF_FIRST };

/* What schedules, records and predictions know of a model in addition to its layers. */
struct dt_model_facts {
    int blocks;                  /* runs of layers that are alike; recomputation and stages are counted in them */
    int units;                   /* of a sample: tokens, say (dt_model_family.unit) */
    int loss_terms;              /* of a sample, whose mean is the loss */
    double outputs;              /* elements of a sample that the loss reads */
    double least_boundary_elems; /* of a sample, where it goes from one layer to the next: the fewest anywhere between blocks */
    bool ends_share;             /* the last layer has parameters of the first: where they are in two parts, each has a copy */
    bool late_head;              /* its outputs are too many to be kept: the last group's forward runs with its backward */
    enum dt_state_rule state;
    uint64_t state_elems; /* of the whole model */
};

/* For people. */
struct dt_model_texts {
    char label[32];            /* "12x768" */
    char sizes[96];            /* "12 layers, 12 heads, hidden 768, vocabulary 50000" */
    char sample[48];           /* "256 tokens a sample" */
    const char *flops_formula; /* for records: how forward_flops counts, and whose way of counting it is */
};

/* A file of samples, whose format is the family's. */
struct dt_data_set {
    struct dt_mapped_file file;
    int id_bytes;     /* of the numbers in a file of ids: 2 or 4 */
    const char *path; /* for messages */
    uint64_t seed;    /* of what is done to samples at random */
};

/* ---- one rank's part of it ---- */

/* The ranks that share each layer (tensor parallelism), and where their collectives run. */
struct dt_tensor_group {
    struct dt_comm *comm;      /* the group; NULL: this rank has whole layers, and nothing below is read */
    struct dt_comm *copies;    /* those of it that hold copies of the same parameters (tensor_copies); NULL: no others do */
    struct dt_stream *network; /* for the group's collectives, concurrent with the stage's kernels */
    bool sequence_parallel;    /* between the layers each rank has its part of the rows, instead of all of them */
    int sums_in_turn;          /* as schedule.sums_in_turn of profiles: on device sim alone, since the second sums are of sums */
    /* Have the stage's stream wait for `event` of network: the caller measures how long it does. */
    dt_status (*wait)(void *context, const struct dt_event *event);
    void *context;
};

/* How ranks that share the positions of each sample (context parallelism) get each other's keys and
 * values. Before and after attention each has T / N of the T positions; with the first two those
 * are two pieces of 2 N, one from the front and its counterpart from the back, so that under a
 * causal mask all ranks have the same amount of work.
 * ring        keys and values go round beside attention to those that are there, in N - 1 steps; backward their gradients go the other way
 * all_gather  everybody's keys and values are gathered before attention, and again before its backward, which scatters their gradients' sum
 * heads       N ranks exchange positions for heads before attention, and back after it
 * Source  ring: Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context", 2023; two pieces a rank, and what goes
 *         round in backward: Megatron Core and Transformer Engine (context_parallel.py), cp_comm_type p2p. all_gather: Llama Team, "The Llama
 *         3 Herd of Models", 2024, section 3.3.2. heads: Jacobs et al., "DeepSpeed Ulysses", 2023; there a2a. */
enum dt_context_kind { DT_CONTEXT_RING, DT_CONTEXT_ALL_GATHER, DT_CONTEXT_HEADS };

struct dt_context_group {
    struct dt_comm *comm; /* NULL: this rank has whole samples. Its collectives run on tensor.network, and tensor.wait waits for them */
    enum dt_context_kind kind;
    bool key_pieces; /* with DT_CONTEXT_ALL_GATHER, on sim alone: in pieces, as a framework does it (predict/framework.h) */
};

struct dt_group {
    int index;                    /* in the stage */
    int first_layer, layer_count; /* in the stage */
    int model_layer;              /* its first layer, in the model */
    int block;                    /* transformer block of the first layer; -1 outside of blocks */
    size_t param_elems;
    bool backward_reads_params; /* false for an embedding: its backward only adds to the gradients */
    bool kept_with_next;        /* the next group's backward reads what this one keeps: both are forgotten together */
    /* The schedule's word: what a stash keeps of this group and the next one is kept from forward to backward, the next one's forward is what
     * reads x after this one's, and this one's backward is what reads dx after the next one's. Kernels may work over such a border. */
    bool goes_on;
    /* Its layers read the parameters of their part's first group, too: both must be valid. Its backward writes or adds to all gradients of
     * that one, whose own backward then adds to them. */
    bool reads_first;
    /* Elements that the part at the model's other end has, too, first in this one's embedding and last in that one's head: a table of both.
     * Their gradient is the sum of what the two parts make of it. 0: none. */
    size_t copy_first_elem, copy_elems;
    void *params;    /* [param_elems]: valid between before_* and after_* of the data-parallel mode */
    void *grads;     /* [param_elems]: written (or added to) by backward */
    bool accumulate; /* backward adds to grads instead of overwriting */
};

/* Consecutive layers of the model: [first, end). */
struct dt_layers {
    int first, end;
    int again; /* enum dt_again, added up */
};

struct dt_layers_size {
    uint64_t parameters;
    uint64_t copies;       /* of these, of others in the model that are not among these layers */
    int tensors;           /* that these are, each counted by itself as frameworks' optimizers do */
    int64_t forward_flops; /* of a unit, multiply-adds counted as 2; backward has twice as many */
};

/* What forward may keep although backward could make it again from what is kept anyway, each in one pass over memory: outputs of norms, and
 * what the second product of an MLP reads. */
enum dt_keep { DT_KEEP_NORMS = 1, DT_KEEP_MLP = 2 };

/* What is recomputed although this takes more than a pass over memory: attention's other results
 * that its backward reads besides q, k, v and the heads' outputs; these outputs; the results of
 * every second product of a block, unless they are sums over ranks. */
enum dt_again { DT_AGAIN_WEIGHTS = 1, DT_AGAIN_HEADS = 2, DT_AGAIN_PRODUCTS = 4 };

/* By what a model is divided into the stages of a pipeline. */
enum dt_split_rule { DT_SPLIT_BALANCED, DT_SPLIT_PARAMETERS };

/* One run of consecutive layers among those of a stage. */
struct dt_part {
    int first_group, end_group; /* of the stage's groups */
    bool first, last;           /* has the embedding; has the head */
    int again;                  /* as in dt_layers */
};

/* What a step's samples on this rank were read as from a file, one sample after the other, in host memory (dt_alloc_host). */
struct dt_batch {
    const void *inputs, *targets; /* NULL, NULL: there is no file, and the family draws them at random */
};

/* The public part of a family's stage; the family's own part follows it in memory. */
struct dt_stage {
    const struct dt_model *model;
    struct dt_batch batch;      /* the caller's; the same places in every step */
    struct dt_kernels *kernels; /* the caller's */
    struct dt_group *groups;    /* [group_count] */
    int group_count;
    struct dt_part *parts; /* [part_count] all groups in sequence */
    int part_count;
    int layer_count;
    int keep; /* this one and the next three: as in dt_stage_options */
    bool separate_kernels;
    uint64_t seed;
    bool sum_loss;
    uint64_t param_elems;  /* of this rank's part of the layers */
    bool first, last;      /* has the embedding; has the head */
    struct dt_buffer loss; /* one fp64: sum over this step's rows, scaled; only when last */
    /* fp32 [state_elems]: state that is not trained, which forward changes; see dt_model_facts.state. */
    struct dt_buffer state;
    size_t state_elems;
};

/* What forward keeps for backward of one micro-batch, and what travels between stages. */
struct dt_stash {
    int part; /* of the stage */
    size_t samples;
    uint32_t first_sample;            /* from the step's first one (begin_step) */
    struct dt_buffer inputs, targets; /* the family's own, from stash_begin to stash_end; what its first and its last part read */
    struct dt_buffer x;               /* what the next layer's forward reads; at a part's ends its input and output (boundary_elems) */
    struct dt_buffer dx;              /* its gradient: from the next stage before, for the previous stage after backward */
    struct dt_layer_stash *layers;    /* [layers of the stage]: the family's */
};

/* Which part of a backward to run. The weight gradients may come later than the input gradients: the stash then keeps what they need
 * until they do. Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2 (B and W). */
enum dt_backward {
    DT_BACKWARD_INPUT = 1,   /* gradients of the activations, and of norms, which come with them */
    DT_BACKWARD_WEIGHTS = 2, /* the rest: gradients of weights, biases and embeddings; frees what the stash kept for it */
    DT_BACKWARD_WHOLE = DT_BACKWARD_INPUT | DT_BACKWARD_WEIGHTS,
};

/* Scales of the loss: what the sum over a micro-batch's rows is multiplied by (1 / rows of the whole replica's step), and the same for
 * gradients, times the loss scaling of fp16. */
struct dt_loss_scales {
    float loss, gradient;
};

/* A tensor of a group, or the part of one that this rank of a tensor group has. */
struct dt_model_tensor {
    char name[96];                    /* of the whole, in the whole model: "blocks.3.attention.q.weight" */
    size_t offset_elems, count_elems; /* within the group's parameters on this rank */
    /* Where the part is in the whole tensor: from first_elem on, in runs of run_elems, each stride_elems after the one before. */
    size_t first_elem, run_elems, stride_elems;
    size_t rows, columns; /* of the whole; a vector has one column */
    bool copy;            /* another rank, of this tensor group or of another stage, has the same elements, and says no */
};

/* A whole tensor of a model, and the place of its elements in a file of another library. Its rows are rows [first, first + rows) of a tensor of
 * their_rows rows there, which is stored [their_rows, columns], or transposed. */
struct dt_foreign_tensor {
    char ours[96], theirs[160];
    size_t rows, columns; /* a vector has one column */
    size_t first, their_rows;
    bool transposed;
    enum dt_tensor_rows may_have;
};

struct dt_stage_options {
    const struct dt_layers *parts; /* [part_count] of the model, in its sequence */
    int part_count;
    enum dt_unit unit;
    struct dt_tensor_group tensor;
    struct dt_context_group context;
    /* The ranks whose samples of a micro-batch have to do with this one's (sample_ranks), in the samples' order; NULL: none do. Its
     * collectives run on tensor.network, and tensor.wait waits for them. */
    struct dt_comm *together;
    int keep;              /* enum dt_keep, added up */
    bool separate_kernels; /* never one kernel for the work of several: to measure what that gains */
    uint64_t seed;
    bool sum_loss; /* the study's plain sum of the logits instead of cross-entropy */
};

/* What a family's kernels have in addition to those of lib/kernels: lib/model/stage.h creates and destroys them. */
struct dt_own_kernels {
    size_t bytes; /* of the family's struct, which begins with a struct dt_kernels */
    /* The family's part; the public one is ready. Errors: also DT_ERR_UNAVAILABLE. */
    dt_status (*begin)(struct dt_kernels *kernels, const struct dt_model *model);
    void (*end)(struct dt_kernels *kernels); /* streams are synchronized; also after a begin that failed */
};

/* ---- what a family provides: every entry that is not called optional is present ---- */

struct dt_model_family {
    const char *name;
    const struct dt_model_preset *presets; /* the last one's name is NULL */
    /* The keys of its description in a config: paths in "model", offsets in the family's own struct; `matters` gets the whole experiment,
     * which begins with its model. The first `sizes` of them are said by a preset, or all of them by a config without one; documents and
     * records have the first `first_keys` before model.dtype. No two families have a key of one name. */
    const struct dt_field *keys;
    int key_count, sizes, first_keys;
    const char *const *titles; /* [first_keys] of those in tables */
    const char *const *shape;  /* NULL-terminated paths of keys, or objects of keys, that a preset says */
    size_t own_bytes;          /* of that struct */
    /* Optional: config.json of Hugging Face models, by model_type; the last has a NULL type. */
    const struct dt_model_dialect *hugging_face;
    const struct dt_schema_section *sections; /* of the schema, for objects in "model"; the last has a NULL path; NULL: none */

    const char *unit; /* what samples are made of and counted in: "token" */
    /* How many times as far as a decoder's the losses of one training may lie apart, of which rounding alone is the cause. */
    double loss_spread;
    /* Its layers: names of those before and after the blocks, each list ending with NULL; NULL: there are none. */
    const char *const *before, *const *after;
    int block_layers;  /* of each block */
    bool blocks_alike; /* all blocks have equal sizes */
    int again;         /* enum dt_again, added up: what its stages can compute again within blocks; 0: nothing */
    bool fp8;          /* its linear layers can be predicted in FP8 */

    /* Whether this family can be that. DT_ERR_INVALID: which key, and why not. Two ways to say the same become one. */
    dt_status (*check_model)(struct dt_model *model);
    /* The next three are optional together: present where what is computed of a sample depends on the others of its micro-batch.
     * Whether each of `replicas` can train its `samples` samples in `count` micro-batches, of which the first are one larger where they do
     * not come out even. DT_ERR_INVALID: which key, and why not. */
    dt_status (*check_micro_batches)(const struct dt_model *model, int64_t samples, int64_t count, int64_t replicas);
    /* Of how many neighbouring replicas the micro-batches, of `samples` samples each, are computed together. 1: each by itself. */
    int64_t (*sample_ranks)(const struct dt_model *model, int64_t samples);
    /* Make it a model that computes the same in micro-batches of any size that is a multiple of *samples, which may become more. True:
     * it did depend on that size before. */
    bool (*fix_micro_batch)(struct dt_model *model, int64_t *samples);
    const char *micro_batch_key; /* of a config, which does the same */

    /* Optional together: samples from a file, as a batch has them. Bytes of one sample's inputs and of its targets. */
    void (*sample_bytes)(const struct dt_model *model, size_t *inputs, size_t *targets);
    /* Bytes of one that are read of the file, whose ids have id_bytes; where only a part of them is used, those of that part. */
    size_t (*stored_bytes)(const struct dt_model *model, int id_bytes);
    /* Samples in the file. DT_ERR_INVALID: it has none, or is no such file. */
    dt_status (*sample_count)(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out);
    /* Sample `sample` of the file, which comes at `position` among all samples of the run. May run on another thread than the family's other
     * entries. DT_ERR_IO: it is not one of this model. */
    dt_status (*read_sample)(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                             void *targets);

    /* Arithmetic: nothing is queued. */
    void (*facts)(const struct dt_model *model, struct dt_model_facts *out);
    void (*describe)(const struct dt_model *model, struct dt_model_texts *out);
    /* The same model with another number of blocks. Optional where that is an int of the family's own struct, at this byte of it. */
    void (*set_blocks)(struct dt_model *model, int blocks);
    size_t blocks_at;
    /* Optional. Change the model so that `ranks` that share each layer have equal parts, by
     * reducing what is outside the blocks. */
    void (*divide_evenly)(struct dt_model *model, int ranks);
    /* Elements of the largest tensor anywhere in the model for `samples` samples; *keys: the keys that
     * determine it, for a message. Optional: else what the loss reads, times the number of layers. */
    double (*largest_tensor)(const struct dt_model *model, double samples, const char **keys);
    /* Optional, where ranks that share these layers have less than all of it: parameters of what comes before the blocks, or after them,
     * whichever is more, on one of `ranks` that share each layer; at least. */
    double (*end_elems)(const struct dt_model *model, int ranks);
    /* Operations of a step (dt_model_step_flops) with half of attention's products, which a causal
     * mask leaves. Optional: else the same number. */
    double (*causal_step_flops)(const struct dt_model *model, uint64_t units);
    void (*layers_size)(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);
    /* The next three are optional together: without them no two ranks can share a layer.
     * Whether `ranks` ranks can share each layer. DT_ERR_INVALID: what does not divide, and the numbers that would do. */
    dt_status (*check_tensor_group)(const struct dt_model *model, int ranks, bool sequence_parallel);
    /* Some parameters are too few to be divided over the `ranks` that share each layer: how many neighbouring ranks hold copies of the same
     * ones. 1: no parameters are copied. */
    int (*tensor_copies)(const struct dt_model *model, int ranks);
    /* Optional: without it no two ranks can share samples. Whether `ranks` ranks can share the positions of each sample in this way, where
     * `tensor_ranks` share each layer, perhaps with sequence parallelism. DT_ERR_INVALID: what does not divide. */
    dt_status (*check_context_group)(const struct dt_model *model, int ranks, enum dt_context_kind kind, int tensor_ranks,
                                     bool sequence_parallel);
    /* Whether ranks `left` and `right`, of `ranks` that share each layer, have equal parts of every layer. Where a size does not divide evenly
     * some ranks have more. */
    bool (*tensor_ranks_alike)(const struct dt_model *model, int ranks, int left, int right);

    /* Whether kernels for a device of this kind find what they need. `text` gets the libraries that
     * they use, or what is missing and which build option adds it. Optional: else there are kernels
     * for cpu and sim, and no libraries. */
    bool (*kernels_available)(const struct dt_device_kind *kind, char *text, size_t text_bytes);
    unsigned cpu_lacks; /* types in which no processor's kernels compute, as bits 1 << enum dt_dtype */
    /* Whether this machine's processor computes `dtype` natively; if not, `advice` names the
     * alternative. Optional: else it computes fp32 alone natively. */
    bool (*cpu_dtype_native)(enum dt_dtype dtype, char *advice, size_t advice_bytes);

    const struct dt_own_kernels *kernels; /* optional: without it they are those of lib/kernels alone */
    /* Optional: what computes the matrix products, in a word ("amx", "onednn"), where that is chosen as the program runs; "" where it is not. */
    const char *(*products)(const struct dt_kernels *kernels);
    const struct dt_tuner *tuner;     /* optional */
    const struct dt_pricing *pricing; /* optional: its kernels that profiles have constants for */
    const struct dt_prober *prober;   /* optional: without it calibration leaves them out */
    /* Optional: from here on each kernel of the family's own is a span of the trace (lib/device/span.h), or no longer. Streams must be synchronized. */
    dt_status (*trace_kernels)(struct dt_kernels *kernels, bool on);

    /* Stages are made by lib/model/stage.h. stage_bytes: of the family's, which begins with its public part; 0: it is that alone. */
    size_t stage_bytes;
    /* Optional: the family's own part of a stage of `layers` layers, whose public part has no groups yet and is otherwise complete; state
     * is allocated here. */
    dt_status (*stage_begin)(struct dt_stage *stage, const struct dt_stage_options *options, int layers, struct dt_stream *stream);
    void (*stage_end)(struct dt_stage *stage); /* optional; also after a stage_begin that failed */
    /* Optional: sets param_elems of a group, whose other members have their usual values, and what is particular about it. Called for each
     * group in sequence. Without it a group has the parameters of its layers. */
    void (*describe_group)(struct dt_stage *stage, const struct dt_part *part, struct dt_group *group);
    /* Elements of x, and of dx, for `samples` samples on this rank where a part begins, or ends (output): the size of a message there. Both of
     * its sides have the same. */
    size_t (*boundary_elems)(const struct dt_stage *stage, int part, bool output, size_t samples);
    /* Write elements [first, first + count) of the group's flat parameters, freshly initialised, to `to`: whole replicas and shards alike
     * are initialised where they live. */
    dt_status (*init_params)(const struct dt_stage *stage, const struct dt_group *group, size_t first, size_t count, void *to,
                             struct dt_stream *stream);

    /* Optional: tensor `index` of the group's, in the sequence of its parameters; false past the last. Without it there are no checkpoints. */
    bool (*tensor)(const struct dt_stage *stage, const struct dt_group *group, int index, struct dt_model_tensor *out);

    /* Where there is state, optional as `tensor` is: run `index` of the stage's state, by its name in the whole model, with offset_elems within
     * the state; false past the last. */
    bool (*state_tensor)(const struct dt_stage *stage, int index, struct dt_model_tensor *out);

    /* Optional, where hugging_face has tensors: tensor `index` of the whole model, in the sequence of its layers, in files of that dialect; false
     * past the last. */
    bool (*foreign_tensor)(const struct dt_model *model, const struct dt_model_dialect *dialect, int index, struct dt_foreign_tensor *out);

    /* Bytes of its struct dt_layer_stash, which begins with that many buffers. The first one is what
     * the layer read. */
    size_t stash_bytes;
    int stash_buffers;
    /* Begin the stash's samples, in the model's first or last part: draws inputs and targets where
     * the part needs them, or takes them from the stage's batch. */
    dt_status (*begin_samples)(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream);

    /* Forward of group `g`, from stash->x to stash->x. The last group of a last stage computes the loss and its gradient too. */
    dt_status (*forward)(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_loss_scales scales, struct dt_stream *stream);
    /* Backward of group `g`, from stash->dx to stash->dx; the whole of it, or first one half and later the other. Frees what forward kept
     * for it as soon as no half needs it any more. */
    dt_status (*backward)(struct dt_stage *stage, int g, struct dt_stash *stash, enum dt_backward part, struct dt_stream *stream);
    /* Recompute what the backward of group `g` needs, from stash->x as it was before forward.
     * ends_here: the output of this group is not read, so a product that only makes it is left out;
     * stash->x may then be none. Not for the group with the head. */
    dt_status (*recompute)(struct dt_stage *stage, int g, struct dt_stash *stash, bool ends_here, struct dt_stream *stream);
    /* Optional, where it needs less memory than forward and backward in turn: forward, loss and whole backward of the last group of a last
     * stage in one go, from stash->x. Of the outputs no more exist at a time than what a segment of `blocks` blocks keeps between its layers.
     * The last layer's gradient is rounded to the model's dtype after every piece. */
    dt_status (*forward_backward)(struct dt_stage *stage, int g, struct dt_stash *stash, int blocks, struct dt_loss_scales scales,
                                  struct dt_stream *stream);
};

/* ---- in short ---- */

static inline struct dt_model_facts dt_model_facts(const struct dt_model *model)
{
    struct dt_model_facts facts;
    model->family->facts(model, &facts);
    return facts;
}

static inline struct dt_model_texts dt_model_texts(const struct dt_model *model)
{
    struct dt_model_texts texts;
    model->family->describe(model, &texts);
    return texts;
}

static inline int dt_model_units(const struct dt_model *model)
{
    return dt_model_facts(model).units;
}

static inline int dt_model_blocks(const struct dt_model *model)
{
    return dt_model_facts(model).blocks;
}

/* ---- what follows from the sizes of its layers (layers.c) ---- */

uint64_t dt_model_parameter_count(const struct dt_model *model);
int dt_model_tensor_count(const struct dt_model *model);
/* Multiply-adds counted as 2, forward and backward, without recomputation. */
double dt_model_step_flops(const struct dt_model *model, uint64_t units);

/* ---- what is optional, with what holds without it (layers.c) ---- */

bool dt_kernels_available(const struct dt_model_family *family, const struct dt_device_kind *kind, char *text, size_t text_bytes);
bool dt_cpu_dtype_native(const struct dt_model_family *family, enum dt_dtype dtype, char *advice, size_t advice_bytes);
double dt_largest_tensor(const struct dt_model *model, double samples, const char **keys);
void dt_set_blocks(struct dt_model *model, int blocks);

/* ---- its layers, by what its family says of them (layers.c) ---- */

/* The first layer of block `block`; of the number of blocks: what comes after the last. */
int dt_block_layer(const struct dt_model_family *family, int block);
int dt_layer_count(const struct dt_model *model);

/* Which layers are in blocks: [first, end), of `layers`. */
struct dt_blocks {
    int first, end, layers;
};
struct dt_blocks dt_blocks_of(const struct dt_model *model);
/* The end of the group that begins with layer `first` of such a model. The layers after the blocks are one group: a norm there has too few
 * parameters for a collective of its own. */
int dt_unit_end(const struct dt_model_family *family, struct dt_blocks blocks, int first, enum dt_unit unit);

/* Which layers the stages of a pipeline get: runs of whole blocks, and of layers outside of blocks. first_layer [stages + 1] gets the layer
 * with which each stage begins. The model alone decides, so that every rank on every device finds the same. Errors: DT_ERR_INVALID, more
 * stages than pieces; DT_ERR_HOST_MEMORY. */
dt_status dt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer);

/* "embedding, blocks 0 to 7" */
void dt_layers_text(const struct dt_model *model, struct dt_layers layers, char *out, size_t out_bytes);

/* end_elems of the family, or the parameters of all layers before the blocks, or after them, whichever is more. */
double dt_end_elems(const struct dt_model *model, int ranks);

#endif
