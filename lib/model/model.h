/* A model as schedules see it: its size, the functions of its family, and one rank's layers.
 *
 * This folder contains the interface, and code that is the same for all families (layers.c,
 * stage.h).
 * A family of models is a separate folder (gpt/), and provides one `struct dt_model_family`;
 * schedules/config/families.c lists the families. Nothing here knows particular layers, kernels or
 * schedules.
 *
 * Words: a layer is the smallest unit that can be run. A stage is the layers of one rank; its parts
 * are one or several ranges of consecutive layers. A group is consecutive layers of a part, whose
 * parameters are gathered, reduced and freed together. A stash contains what the forward of one
 * micro-batch keeps for its backward. A tensor group is the ranks that compute each layer together,
 * each with a part of it. Functions queue work on `stream` and return, unless stated otherwise;
 * their errors are DT_ERR_OOM, DT_ERR_HOST_MEMORY and those of queueing. */
#pragma once

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

struct dt_prober; /* lib/model/probe.h */

/* ---- the model ---- */

enum { DT_MODEL_OWN_BYTES = 512, DT_MODEL_KEYS_MAX = 64 };

/* A model: the keys of a config that all families have, and the family's own description. */
struct dt_model {
    const struct dt_model_family *family;
    char preset[24];     /* "": the sizes were given */
    enum dt_dtype dtype; /* of parameters, gradients and activations */
    enum dt_fp8 fp8;     /* how the linear layers of blocks multiply; only on sim */
    bool fp8_gather;     /* the weights of these layers are gathered in FP8 (dp_gathered_elems) */
    /* The family's description of the model: a struct at byte own_at, which only the family reads,
     * and whose type has may_alias, because compilers may otherwise move its reads before the writes
     * of these bytes. Each family that configs can name has a different place (schedules/config/families.h). */
    int own_at;
    alignas(8) unsigned char own[DT_MODEL_OWN_BYTES];
};

static inline const void *dt_model_own(const struct dt_model *model)
{
    return model->own + model->own_at;
}

/* A published model, or a model of the study. */
struct dt_model_preset {
    const char *name;
    const void *own; /* the family's description of the model */
    bool sizes_only; /* only the first keys, the sizes, belong to the preset; all others are as in the config */
};

/* The number of rows of a tensor in another library's file: the same as here; or at least as many,
 * of which the first are those here; or any number, where missing rows are zero, as in tables of a
 * vocabulary that one side pads. */
enum dt_tensor_rows { DT_ROWS_SAME, DT_ROWS_AT_LEAST, DT_ROWS_ANY };

/* The place of one of our tensors in another library's files. `ours` and `theirs` are names without
 * the number of a block. Rows with the same `theirs` are one tensor there: the output features of
 * the first row, then those of the next. */
struct dt_tensor_word {
    const char *ours, *theirs; /* "attention.q.weight", "attn.c_attn.weight" */
    bool transposed;           /* theirs is [in, out] */
    enum dt_tensor_rows rows;
};

/* For rows: DT_TENSOR_WORD(ours, theirs, other members). */
#define DT_TENSOR_WORD(our_name, their_name, ...) {.ours = (our_name), .theirs = (their_name), __VA_ARGS__}

/* Another library's description of models of one of its types. */
struct dt_model_dialect {
    const char *type;  /* the library's name of the type; "": all other types, whose words give the reasons why they are not supported */
    const char *fixed; /* properties of all models of that type, as JSON of our config; NULL: none */
    const struct dt_word *words;
    void (*settle)(struct dt_translation *t); /* called after the words, for properties that words alone do not give; NULL: none */
    /* The next four are optional together: without them models of that type are neither read from
     * files nor written. */
    void (*unsettle)(struct dt_translation *t); /* the reverse of settle, called before the words are written */
    const char *architecture;                   /* the library's class of such models with a head */
    const char *base;                           /* prefix of the names of all tensors except the head's; some files omit it */
    /* the last has a NULL `ours`; names in blocks are base, "NAME.NUMBER." with `block` as NAME,
     * `theirs` */
    const struct dt_tensor_word *tensors;
    const char *block;
};

/* Sizes of groups. block: the embedding, each transformer block, the head; linear: each linear
 * layer, with its norm. */
enum dt_unit { DT_UNIT_BLOCK, DT_UNIT_LINEAR };

/* State is not trained, and ranks with different samples compute different state. The rule for
 * state after each step: all ranks get the average, or the first rank's. */
enum dt_state_rule { DT_STATE_NONE, DT_STATE_AVERAGED, DT_STATE_OF_FIRST };

/* Properties of a model, besides its layers, that schedules, records and predictions read. */
struct dt_model_facts {
    int blocks;                  /* number of blocks, which are similar ranges of layers; recomputation and stages count them */
    int units;                   /* units of a sample, for example tokens (dt_model_family.unit) */
    int loss_terms;              /* terms of a sample of which the loss is the mean */
    double outputs;              /* elements of a sample from which the loss is computed */
    double least_boundary_elems; /* elements of a sample at the smallest boundary between blocks */
    bool ends_share;             /* the last layer shares parameters with the first: if they are in two parts, each has a copy */
    bool late_head;              /* the outputs are too many to keep: the last group's forward runs with its backward */
    enum dt_state_rule state;
    uint64_t state_elems; /* elements of state in the whole model */
};

/* Texts for users. */
struct dt_model_texts {
    char label[32];            /* "12x768" */
    char sizes[96];            /* "12 layers, 12 heads, hidden 768, vocabulary 50000" */
    char sample[48];           /* "256 tokens a sample" */
    const char *flops_formula; /* for records: how forward_flops counts, and the source of this way of counting */
};

/* A file of samples, whose format is the family's. */
struct dt_data_set {
    struct dt_mapped_file file;
    int id_bytes;     /* bytes of a number in a file of ids: 2 or 4 */
    const char *path; /* for messages */
    uint64_t seed;    /* of random changes of samples */
};

/* ---- one rank's part of a model ---- */

/* The ranks that share each layer (tensor parallelism), and the stream of their collectives. */
struct dt_tensor_group {
    struct dt_comm *comm;      /* the group; NULL: this rank has whole layers, and the other members are not read */
    struct dt_comm *copies;    /* the ranks of the group that have copies of the same parameters (tensor_copies); NULL: only this rank */
    struct dt_stream *network; /* for the group's collectives, concurrent with the stage's kernels */
    bool sequence_parallel;    /* between the layers each rank has a part of the rows, instead of all rows */
    bool overlap;              /* tensor.overlap; only on sim, because a product would read rows that have not come */
    int sums_in_turn;          /* schedule.sums_in_turn of profiles; only on sim, because the repeated sums would be wrong elsewhere */
    /* Make the stage's stream wait for `event` of `network`; the caller measures the time. */
    dt_status (*wait)(void *context, const struct dt_event *event);
    void *context;
};

/* How ranks that share the positions of each sample (context parallelism) exchange keys and values.
 * Before and after attention each of the N ranks has T / N of the T positions. With ring and
 * all_gather these are two of 2 N pieces, piece r counted from the front and from the back, so that
 * under a causal mask all ranks have the same amount of work.
 * ring        keys and values are sent round in N - 1 steps, while attention to those present is
 *             computed; backward also sends their gradients round
 * all_gather  keys and values of all ranks are gathered before attention, and again before its
 *             backward, which reduce-scatters their gradients
 * heads       N ranks exchange positions for heads before attention, and back after it
 * Source  ring: Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context",
 *         2023; two pieces for each rank, and the messages of backward: Megatron Core and
 *         Transformer Engine (context_parallel.py), cp_comm_type p2p. all_gather: Llama Team, "The
 *         Llama 3 Herd of Models", 2024, section 3.3.2. heads: Jacobs et al., "DeepSpeed Ulysses",
 *         2023; cp_comm_type a2a. */
enum dt_context_kind { DT_CONTEXT_RING, DT_CONTEXT_ALL_GATHER, DT_CONTEXT_HEADS };

struct dt_context_group {
    struct dt_comm *comm; /* NULL: this rank has whole samples. Collectives run on tensor.network, and tensor.wait waits for them */
    enum dt_context_kind kind;
    /* with DT_CONTEXT_ALL_GATHER, only on sim: one piece of keys after another, as a framework does
     * it (predict/framework.h) */
    bool key_pieces;
};

struct dt_group {
    int index;                    /* within the stage */
    int first_layer, layer_count; /* within the stage */
    int model_layer;              /* index of its first layer in the model */
    int block;                    /* block of the first layer; -1 outside of blocks */
    size_t param_elems;
    bool backward_reads_params; /* false for an embedding: its backward only adds to the gradients */
    bool kept_with_next;        /* the next group's backward reads what this group keeps: both are freed together */
    /* Set by the schedule: this group's stash is kept until its backward, the next group's forward
     * reads x directly after this group's, and this group's backward reads dx directly after the
     * next group's. A kernel may then combine operations of both groups. */
    bool goes_on;
    /* The layers also read the parameters of the first group of their part, so both groups must be
     * gathered. The backward writes or adds to all gradients of the first group, whose own backward
     * then adds to them. */
    bool reads_first;
    /* Elements that the part at the other end of the model has, too: a table that both ends have,
     * first among the parameters of the embedding and last among those of the head. Their gradient
     * is the sum of both parts' gradients. 0: none. */
    size_t copy_first_elem, copy_elems;
    void *params;    /* [param_elems]; valid between before_* and after_* of the data-parallel mode */
    void *grads;     /* [param_elems]; backward writes or adds to them */
    bool accumulate; /* backward adds to grads instead of overwriting */
};

/* Consecutive layers of the model: [first, end). */
struct dt_layers {
    int first, end;
    int again; /* enum dt_again, added up */
};

struct dt_layers_size {
    uint64_t parameters;
    uint64_t copies;       /* parameters that are copies of parameters of other layers of the model */
    int tensors;           /* number of parameter tensors, as optimizers of frameworks count them */
    int64_t forward_flops; /* of a unit, multiply-adds counted as 2; backward has twice as many */
};

/* Values that forward may keep, although backward could compute them again in one pass over memory:
 * outputs of norms, and the input of an MLP's second product. */
enum dt_keep { DT_KEEP_NORMS = 1, DT_KEEP_MLP = 2 };

/* Values that backward computes again with more work than a pass over memory: attention's results
 * that its backward reads, besides q, k, v and the heads' outputs; the heads' outputs; the results
 * of every second product of a block, unless they are sums over ranks. */
enum dt_again { DT_AGAIN_WEIGHTS = 1, DT_AGAIN_HEADS = 2, DT_AGAIN_PRODUCTS = 4 };

/* The rule that divides a model into the stages of a pipeline. */
enum dt_split_rule { DT_SPLIT_BALANCED, DT_SPLIT_PARAMETERS };

/* A range of consecutive layers of a stage. */
struct dt_part {
    int first_group, end_group; /* indices of groups of the stage */
    bool first, last;           /* contains the embedding; contains the head */
    int again;                  /* as in dt_layers */
};

/* This rank's samples of a step from a file, one after the other, in host memory
 * (dt_alloc_host). */
struct dt_batch {
    const void *inputs, *targets; /* NULL, NULL: there is no file, and the family draws random samples */
};

/* The public part of a family's stage; the family's own part follows it in memory. */
struct dt_stage {
    const struct dt_model *model;
    struct dt_batch batch;      /* the caller's; at the same address in every step */
    struct dt_kernels *kernels; /* the caller's */
    struct dt_group *groups;    /* [group_count] */
    int group_count;
    struct dt_part *parts; /* [part_count], all groups in order */
    int part_count;
    int layer_count;
    int keep; /* this member and the next three: as in dt_stage_options */
    bool separate_kernels;
    uint64_t seed;
    bool sum_loss;
    uint64_t param_elems;  /* parameters of this rank's part of the layers */
    bool first, last;      /* contains the embedding; contains the head */
    struct dt_buffer loss; /* one fp64: sum over this step's rows, scaled; only if `last` */
    /* fp32 [state_elems]: values that are not trained, and that forward changes; see
     * dt_model_facts.state. */
    struct dt_buffer state;
    size_t state_elems;
};

/* What forward keeps for the backward of one micro-batch, and the tensors that stages send to each
 * other. */
struct dt_stash {
    int part; /* index within the stage */
    size_t samples;
    uint32_t first_sample;            /* counted from the step's first sample (begin_step) */
    struct dt_buffer inputs, targets; /* from stash_begin to stash_end; read by the first and the last part, in the family's format */
    /* the input of the next layer's forward; at the ends of a part its input and output
     * (boundary_elems) */
    struct dt_buffer x;
    struct dt_buffer dx;           /* the gradient of x: before backward from the next stage, after it for the previous stage */
    struct dt_layer_stash *layers; /* [layers of the stage]: the family's */
};

/* Which part of a backward to run. Weight gradients may be computed later than input gradients; the
 * stash keeps what they need until then. Source: Qi et al., "Zero Bubble Pipeline Parallelism",
 * ICLR 2024, section 2 (B and W). */
enum dt_backward {
    DT_BACKWARD_INPUT = 1,   /* gradients of activations, and of norms, which are computed with them */
    DT_BACKWARD_WEIGHTS = 2, /* gradients of weights, biases and embeddings; frees what the stash kept for them */
    DT_BACKWARD_WHOLE = DT_BACKWARD_INPUT | DT_BACKWARD_WEIGHTS,
};

/* Scales of the loss. The sum over a micro-batch's rows is multiplied by the first (1 / rows of the
 * whole replica's step), gradients by the second (the same, times the loss scaling of fp16). */
struct dt_loss_scales {
    float loss, gradient;
};

/* A tensor of a group, or this rank's part of it if a tensor group divides it. */
struct dt_model_tensor {
    char name[96];                    /* name of the whole tensor in the whole model: "blocks.3.attention.q.weight" */
    size_t offset_elems, count_elems; /* of the part, within the group's parameters on this rank */
    /* The place of the part in the whole tensor: from first_elem on, in runs of run_elems, which
     * start stride_elems apart. */
    size_t first_elem, run_elems, stride_elems;
    size_t rows, columns; /* of the whole tensor; a vector has one column */
    uint32_t id;          /* selects the random numbers of its elements; only copies have the same */
    enum dt_init init;    /* as in struct dt_initial */
    float scale;
    bool copy; /* true on all ranks but one, if several ranks of this tensor group or of other stages have the same elements */
};

/* A whole tensor of a model, and the place of its elements in a file of another library. Its rows
 * are rows [first, first + rows) of a tensor of their_rows rows there, which is stored [their_rows,
 * columns], or transposed. */
struct dt_foreign_tensor {
    char ours[96], theirs[160];
    size_t rows, columns; /* a vector has one column */
    size_t first, their_rows;
    bool transposed;
    enum dt_tensor_rows may_have;
};

struct dt_stage_options {
    const struct dt_layers *parts; /* [part_count] of the model, in its order */
    int part_count;
    enum dt_unit unit;
    struct dt_tensor_group tensor;
    struct dt_context_group context;
    /* The ranks whose samples of a micro-batch are computed together with this rank's
     * (sample_ranks), in the samples' order; NULL: none. Collectives run on tensor.network, and
     * tensor.wait waits for them. */
    struct dt_comm *together;
    int keep;              /* enum dt_keep, added up */
    bool separate_kernels; /* do not use fused kernels: to measure their gain */
    uint64_t seed;
    bool sum_loss; /* the study's sum of the logits instead of cross-entropy */
};

/* A family's kernels in addition to those of lib/kernels: lib/model/stage.h creates and destroys
 * them. */
struct dt_own_kernels {
    size_t bytes; /* size of the family's struct, which begins with a struct dt_kernels */
    /* Create the family's part; the public part is ready. Errors: also DT_ERR_UNAVAILABLE. */
    dt_status (*begin)(struct dt_kernels *kernels, const struct dt_model *model);
    void (*end)(struct dt_kernels *kernels); /* streams must be synchronized; also called if `begin` failed */
};

/* ---- what a family provides: all entries exist, except those marked optional ---- */

struct dt_model_family {
    const char *name;
    const struct dt_model_preset *presets; /* the last one's name is NULL */
    /* The family's keys in a config: paths in "model", offsets in the family's struct; `matters`
     * gets the whole experiment, which begins with its model. The first `sizes` of them are given
     * by a preset, or all by a config without a preset; in documents and records the first
     * `first_keys` come before model.dtype. No two families have a key with the same name. */
    const struct dt_field *keys;
    int key_count, sizes, first_keys;
    const char *const *titles; /* [first_keys], for tables */
    const char *const *shape;  /* NULL-terminated paths of keys, or of objects of keys, that belong to a preset */
    size_t own_bytes;          /* size of that struct */
    /* Optional: config.json of Hugging Face models, by model_type; the last has a NULL type. */
    const struct dt_model_dialect *hugging_face;
    const struct dt_schema_section *sections; /* sections of the schema, for objects in "model"; the last has a NULL path; NULL: none */

    const char *unit; /* the unit that counts a sample's size: "token" */
    /* How much two losses of the same training may differ by rounding alone, as a multiple of a
     * decoder's. */
    double loss_spread;
    /* Names of the layers before and after the blocks, NULL-terminated lists; NULL: there are
     * none. */
    const char *const *before, *const *after;
    int block_layers;  /* number of layers of each block */
    bool blocks_alike; /* all blocks have equal sizes */
    int again;         /* enum dt_again, added up: what stages can recompute within blocks; 0: nothing */
    bool fp8;          /* its linear layers can be predicted in FP8 */

    /* Whether the family supports this model. DT_ERR_INVALID names the key and the reason. If two
     * descriptions mean the same, *model becomes one of them. */
    dt_status (*check_model)(struct dt_model *model);
    /* The next three are optional together, for families whose results for a sample depend on the
     * other samples of its micro-batch. Whether each of `replicas` can train its `samples` samples
     * in `count` micro-batches; if the sizes are uneven, the first are one larger. DT_ERR_INVALID
     * names the key and the reason. */
    dt_status (*check_micro_batches)(const struct dt_model *model, int64_t samples, int64_t count, int64_t replicas);
    /* The number of adjacent replicas that compute their micro-batches, of `samples` samples each,
     * together. 1: each computes separately. */
    int64_t (*sample_ranks)(const struct dt_model *model, int64_t samples);
    /* Change the model so that it computes the same in micro-batches of any size that is a multiple
     * of *samples, which may be increased. Returns true if the results depended on that size
     * before. */
    bool (*fix_micro_batch)(struct dt_model *model, int64_t *samples);
    const char *micro_batch_key; /* the key of a config with the same effect */
    /* Optional. Do most of the gradients cancel in micro-batches of `samples` samples, so that only
     * rounding is left of them? Losses after an update can then not be compared. */
    bool (*gradients_cancel)(const struct dt_model *model, int64_t samples);

    /* Optional together: samples from a file. Bytes of one sample's inputs and of its targets, as
     * in a batch. */
    void (*sample_bytes)(const struct dt_model *model, size_t *inputs, size_t *targets);
    /* Bytes of a sample that are read from the file, whose ids have id_bytes bytes; if only a part
     * of the sample is used, the bytes of that part. */
    size_t (*stored_bytes)(const struct dt_model *model, int id_bytes);
    /* The number of samples in the file. DT_ERR_INVALID: it has none, or has another format. */
    dt_status (*sample_count)(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out);
    /* Read sample `sample` of the file, which is at `position` among all samples of the run. May
     * run on another thread than the family's other functions. DT_ERR_IO: it does not fit the
     * model. */
    dt_status (*read_sample)(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                             void *targets);

    /* Arithmetic; nothing is queued. */
    void (*facts)(const struct dt_model *model, struct dt_model_facts *out);
    void (*describe)(const struct dt_model *model, struct dt_model_texts *out);
    /* Change the number of blocks. Optional if it is an int of the family's struct, at byte
     * blocks_at. */
    void (*set_blocks)(struct dt_model *model, int blocks);
    size_t blocks_at;
    /* Optional. Change the model so that `ranks` that share each layer have equal parts, by making
     * tensors outside the blocks smaller. */
    void (*divide_evenly)(struct dt_model *model, int ranks);
    /* Elements of the model's largest tensor for `samples` samples; *keys: the keys that determine
     * it, for a message. Optional: without it, the elements that the loss reads, times the number
     * of layers. */
    double (*largest_tensor)(const struct dt_model *model, double samples, const char **keys);
    /* Optional, for families of which one rank can have less than the whole layers before or after
     * the blocks: a lower bound of the larger one's parameters on one of `ranks` that share each
     * layer. */
    double (*end_elems)(const struct dt_model *model, int ranks);
    /* Operations of a step (dt_model_step_flops), counting only the half of attention's products
     * that a causal mask leaves. Optional: without it, dt_model_step_flops. */
    double (*causal_step_flops)(const struct dt_model *model, uint64_t units);
    void (*layers_size)(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);
    /* The next three are optional together: without them ranks cannot share a layer.
     * Whether `ranks` ranks can share each layer. DT_ERR_INVALID names what does not divide, and
     * the possible numbers. */
    dt_status (*check_tensor_group)(const struct dt_model *model, int ranks, bool sequence_parallel);
    /* Some tensors are too small to be divided over the `ranks` that share each layer: the number
     * of adjacent ranks with copies of the same parameters. 1: no parameters are copied. */
    int (*tensor_copies)(const struct dt_model *model, int ranks);
    /* Optional: without it ranks cannot share samples. Whether `ranks` ranks can share the
     * positions of each sample in this way, if `tensor_ranks` ranks share each layer.
     * DT_ERR_INVALID names what does not divide. */
    dt_status (*check_context_group)(const struct dt_model *model, int ranks, enum dt_context_kind kind, int tensor_ranks,
                                     bool sequence_parallel);
    /* Whether ranks `left` and `right`, of `ranks` that share each layer, have equal parts of every
     * layer. If a size does not divide evenly, some ranks have more. */
    bool (*tensor_ranks_alike)(const struct dt_model *model, int ranks, int left, int right);
    /* Optional: whether the parameters of every layer, on each of `ranks` ranks that share it, divide
     * evenly into `parts`. Without it nobody knows. */
    bool (*layers_divide)(const struct dt_model *model, int ranks, int parts);

    /* Whether the kernels for a device of this kind have all that they need. `text` becomes the
     * libraries that they use, or what is missing and which build option adds it. Optional: without
     * it there are kernels for cpu and sim, without libraries. */
    bool (*kernels_available)(const struct dt_device_kind *kind, char *text, size_t text_bytes);
    unsigned cpu_lacks; /* types in which no processor's kernels compute, as bits 1 << enum dt_dtype */
    /* Whether this machine's processor computes `dtype` natively; if not, `advice` names the
     * alternative. Optional: without it only fp32 is native. */
    bool (*cpu_dtype_native)(enum dt_dtype dtype, char *advice, size_t advice_bytes);

    const struct dt_own_kernels *kernels; /* optional: without it there are only those of lib/kernels */
    /* Optional: the library or unit that computes matrix products ("amx", "onednn"), if it is
     * chosen at run time; "" if it is not. */
    const char *(*products)(const struct dt_kernels *kernels);
    const struct dt_tuner *tuner;     /* optional */
    const struct dt_pricing *pricing; /* optional: the family's kernels for which profiles have constants */
    const struct dt_prober *prober;   /* optional: without it calibration does not time the family's kernels */
    /* Optional: begin or end to record each of the family's kernels as a span of the trace
     * (lib/device/span.h). Streams must be synchronized. */
    dt_status (*trace_kernels)(struct dt_kernels *kernels, bool on);

    /* lib/model/stage.h creates stages. stage_bytes: size of the family's struct, which begins with
     * the public part; 0: there is only the public part. */
    size_t stage_bytes;
    /* Optional: create the family's part of a stage of `layers` layers. The public part is
     * complete, but has no groups yet. Allocates state. */
    dt_status (*stage_begin)(struct dt_stage *stage, const struct dt_stage_options *options, int layers, struct dt_stream *stream);
    void (*stage_end)(struct dt_stage *stage); /* optional; also called if stage_begin failed */
    /* Optional: set param_elems of a group, and members that differ from their usual values, which
     * the others have. Called for each group in order. Without it a group has the parameters of its
     * layers. */
    void (*describe_group)(struct dt_stage *stage, const struct dt_part *part, struct dt_group *group);
    /* Elements of x, and of dx, for `samples` samples on this rank at the beginning, or the end
     * (output), of a part: the size of a message there. Sender and receiver return the same. */
    size_t (*boundary_elems)(const struct dt_stage *stage, int part, bool output, size_t samples);
    /* Tensor `index` of the group, in the order of its parameters; false after the last. */
    bool (*tensor)(const struct dt_stage *stage, const struct dt_group *group, int index, struct dt_model_tensor *out);

    /* For families with state: piece `index` of the stage's state, with
     * its name in the whole model, and offset_elems within the state; false after the last. */
    bool (*state_tensor)(const struct dt_stage *stage, int index, struct dt_model_tensor *out);

    /* Optional, if hugging_face has tensors: tensor `index` of the whole model, in the order of its
     * layers, in files of that dialect; false after the last. */
    bool (*foreign_tensor)(const struct dt_model *model, const struct dt_model_dialect *dialect, int index, struct dt_foreign_tensor *out);

    /* Size of the family's struct dt_layer_stash, which begins with stash_buffers buffers. The
     * first is the layer's input. */
    size_t stash_bytes;
    int stash_buffers;
    /* Begin the stash's samples, in the model's first or last part: draw inputs and targets if the
     * part needs them, or take them from the stage's batch. */
    dt_status (*begin_samples)(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream);

    /* Forward of group `g`, from stash->x to stash->x. The last group of a last stage also computes
     * the loss and its gradient. */
    dt_status (*forward)(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_loss_scales scales, struct dt_stream *stream);
    /* Backward of group `g`, from stash->dx to stash->dx: whole, or one half now and the other
     * later. Frees what forward kept as soon as no half needs it. */
    dt_status (*backward)(struct dt_stage *stage, int g, struct dt_stash *stash, enum dt_backward part, struct dt_stream *stream);
    /* Recompute what the backward of group `g` needs, from stash->x as it was before forward.
     * ends_here: the output of the group is not read, so products that only make it are skipped;
     * stash->x may then be empty. Not for the group with the head. */
    dt_status (*recompute)(struct dt_stage *stage, int g, struct dt_stash *stash, bool ends_here, struct dt_stream *stream);
    /* Optional, if it needs less memory than forward and backward one after the other: forward,
     * loss and whole backward of the last group of a last stage, from stash->x. At a time it keeps
     * no more outputs than the layers of a segment of `blocks` blocks keep. The last layer's
     * gradient is rounded to the model's dtype after every piece. */
    dt_status (*forward_backward)(struct dt_stage *stage, int g, struct dt_stash *stash, int blocks, struct dt_loss_scales scales,
                                  struct dt_stream *stream);
};

/* ---- shorthands ---- */

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

/* ---- computed from the sizes of a family's layers (layers.c) ---- */

uint64_t dt_model_parameter_count(const struct dt_model *model);
int dt_model_tensor_count(const struct dt_model *model);
/* Multiply-adds counted as 2, forward and backward, without recomputation. */
double dt_model_step_flops(const struct dt_model *model, uint64_t units);

/* ---- optional entries, with what holds without them (layers.c) ---- */

bool dt_kernels_available(const struct dt_model_family *family, const struct dt_device_kind *kind, char *text, size_t text_bytes);
bool dt_cpu_dtype_native(const struct dt_model_family *family, enum dt_dtype dtype, char *advice, size_t advice_bytes);
double dt_largest_tensor(const struct dt_model *model, double samples, const char **keys);
void dt_set_blocks(struct dt_model *model, int blocks);

/* ---- layers, as described by their family (layers.c) ---- */

/* The first layer of block `block`. For the number after the last block: the first layer after the
 * blocks. */
int dt_block_layer(const struct dt_model_family *family, int block);
int dt_layer_count(const struct dt_model *model);

/* The layers that are in blocks: [first, end), of `layers`. */
struct dt_blocks {
    int first, end, layers;
};
struct dt_blocks dt_blocks_of(const struct dt_model *model);
/* The end of the group that begins with layer `first`. The layers after the blocks are one group,
 * because a norm there has too few parameters for a separate collective. */
int dt_unit_end(const struct dt_model_family *family, struct dt_blocks blocks, int first, enum dt_unit unit);

/* Divide the layers into the stages of a pipeline: each stage gets whole blocks, and layers outside
 * of blocks. first_layer [stages + 1] becomes the first layer of each stage. Only the model
 * decides, so that every rank on every device gets the same result. Errors: DT_ERR_INVALID, more
 * stages than pieces; DT_ERR_HOST_MEMORY. */
dt_status dt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer);

/* "embedding, blocks 0 to 7" */
void dt_layers_text(const struct dt_model *model, struct dt_layers layers, char *out, size_t out_bytes);

/* end_elems of the family; without it the parameters of all layers before the blocks, or after
 * them, whichever are more. */
double dt_end_elems(const struct dt_model *model, int ranks);
