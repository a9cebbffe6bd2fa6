/* Jobs of other frameworks as dtbench configs, and back.
 *
 * A job is read into a tree (read_text.c), translated by the framework's table of words, then
 * settled by the framework's code and by job.c, which all frameworks share. An export goes the
 * other way. Between the two stand keys of `job` in dtbench's tree, which no config has:
 *     job.world, job.nodes, job.gpus_per_node, job.data
 *                                    GPUs in all, machines, GPUs of one, data-parallel ranks
 *     job.micro_batch                samples of a forward pass on a data-parallel rank
 *     job.parts, job.window          gradient accumulation, where a pipeline is emptied after each part; micro-batches of a part
 *     job.global_batch               samples of a step
 *     job.sharding, job.shard        "none", "optimizer", "gradients", "parameters"; data-parallel ranks that share a copy, where not all do
 * A framework gives some of them, and the others follow. */
#pragma once

#include "lib/base/status.h"
#include "lib/config/words.h"
#include "schedules/config/experiment.h"

#include <stdbool.h>
#include <stdio.h>

enum { AT_THE_END_MIB = 65536 }; /* a ddp.bucket_mib that holds all gradients, so that their reduction begins after the backward pass */

enum text_format { TEXT_FLAGS, TEXT_JSON, TEXT_YAML, TEXT_TOML };

/* Settings that are the same in all frameworks; `fsdp`: further ones under "fsdp". */
#define PARTITIONED "gradients parameters" /* values of job.sharding with which ranks share gradients */
#define FIXED_BUT_REDUCTION(fsdp) "\"loss\": \"cross_entropy\", \"fsdp\": {\"unit\": \"block\", \"prefetch\": 1" fsdp "}"
#define FIXED_IN_ALL(fsdp) "\"gradient_reduction\": \"last\", " FIXED_BUT_REDUCTION(fsdp)
/* The search space of frameworks with data parallelism only, in addition to their own rows. */
#define DATA_PARALLEL_SPACE                                                                                                                \
    "tensor.size=1", "pipeline.stages=1", "activation=keep,checkpoint", "parameter_offload=false", "ddp.overlap_param_gather=false"

struct framework {
    const char *name, *title;
    const char *origin; /* the framework's version from which names and defaults were taken */
    enum text_format format;
    const char *const *marks; /* paths that identify one of its files: it has all paths, with blanks between, of one row; NULL at the end */
    const char *fixed;        /* settings that it cannot change, as JSON of a config */
    const char *reduces_each; /* values of job.sharding with which it reduces accumulated gradients part by part; NULL: as `fixed` says */
    const char *const *space; /* for dtbench plan: further keys with their one value, or those to choose from; NULL at the end */
    const struct dt_word *words;
    const char *no_bearing;               /* beginnings of its keys that matter to neither time nor memory, with blanks between */
    const struct framework *const *below; /* those that it runs, whose words are read after its own; NULL at the end, or none */
    const char *files;                    /* keys, with blanks between, whose text is the name of a further file of settings; NULL: none */
    const char *without_model;            /* where the model is if its files have none ("your script"); NULL: they have it */
    void (*settle)(struct dt_translation *t);                                 /* import, after the words; NULL: nothing to do */
    void (*prepare)(struct dt_translation *t, const struct experiment *from); /* export, before the words; NULL: nothing to do */
    void (*adapt)(struct dt_translation
                      *t); /* import, before the words: translates another format's names into those of the words; NULL: nothing to do */
};

/* For tables of options: the name of row `index`; NULL past the last. Frameworks with an export come
 * first. */
const char *framework_name(int index);
const char *framework_export_name(int index); /* only frameworks with an export */
const struct framework *framework_find(const char *name);
/* Call `use` with each setting of `fixed` in the form of --set:
 * "mesh.order=\"tensor-data-pipeline\"". */
typedef void framework_setting(void *context, const char *setting);
void framework_settings(const struct framework *f, framework_setting *use, void *context);
/* The framework whose file this is; NULL: unknown. */
const struct framework *framework_of(const struct cJSON *theirs);

extern const struct framework framework_megatron, framework_bridge, framework_nemo, framework_torchtitan, framework_deepspeed,
    framework_accelerate, framework_trainer, framework_axolotl, framework_torchtune;

/* Options of an importer in addition to the file; 0 and NULL: none. */
struct import_options {
    int gpus, micro_batch;
    const char *file;  /* the job's file; its folder may have files that the job names. NULL: standard input */
    const char *model; /* a preset or a Hugging Face config, in place of the file's own */
};

/* Translate `theirs` into the config t->ours. `theirs` becomes t's, also after a failure. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status framework_import(const struct framework *f, struct cJSON *theirs, const struct import_options *options, struct dt_translation *t);
/* The reverse: t->theirs is then the job. Errors: DT_ERR_HOST_MEMORY. */
dt_status framework_export(const struct framework *f, const struct experiment *e, struct dt_translation *t);

/* The parts of import and export that settle numbers of ranks and samples. */
void job_settle(struct dt_translation *t, const struct import_options *options);
void job_prepare(struct dt_translation *t, const struct experiment *e);
/* Whether job.sharding is one of these words; NULL: none. */
bool job_reduces_each(const struct dt_translation *t, const char *words);
/* Say of a 16-bit model that its parameters are fp32 there, where t->ours has copies of them. */
void job_say_copies(struct dt_translation *t);
/* The loss's scale is found as the training goes: from `initial`, and grows after 1,000 steps,
 * unless t->ours says otherwise. */
void job_scale_dynamically(struct dt_translation *t, double initial);

/* Read a file as an object of keys and values. The name's ending gives the format; a file with an
 * unknown ending, or standard input ("-"), has that of `f`, or is a command line where f is NULL.
 * Owner of *out: the caller, dt_json_destroy. Errors: DT_ERR_IO, DT_ERR_INVALID, DT_ERR_UNAVAILABLE
 * where a format needs a Python module that is not there. */
dt_status words_read_text(const char *path, const struct framework *f, struct cJSON **out);
/* The flags of a command line, or of the shell script `name` that has one. Owner of *out: the
 * caller. Errors: DT_ERR_INVALID, the script starts several Python programs, or flags depend on what
 * it does not say; nothing is owned then. */
dt_status words_read_flags(const char *text, const char *name, struct cJSON **out);
void words_write_text(const struct framework *f, const struct cJSON *theirs, FILE *to);

/* Print the remarks of a translation, a line each: "read", "assumed", "alike", "left out",
 * "unknown". */
void remarks_print(const struct dt_translation *t, FILE *to);
/* Print the remarks of one kind, each after `label`. */
void remarks_print_kind(const struct dt_translation *t, enum dt_remark kind, const char *label, FILE *to);
