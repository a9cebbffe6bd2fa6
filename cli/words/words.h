/* Jobs of other frameworks as dtbench configs, and back.
 *
 * A job is read into a tree (read_text.c), translated by the framework's words, settled by its own code and then by job.c, which all of them
 * share; an export goes the other way. What stands between the two are keys of `job` in our tree, which no config has:
 *     job.world, job.nodes, job.gpus_per_node, job.data
 *                                    GPUs in all, machines, GPUs of one, data-parallel ranks
 *     job.micro_batch                samples of a forward pass on a data-parallel rank
 *     job.parts, job.window          gradient accumulation, where a pipeline is emptied after each part; micro-batches of a part
 *     job.global_batch               samples of a step
 *     job.sharding, job.shard        "none", "optimizer", "gradients", "parameters"; data-parallel ranks that share a copy, where not all do
 * A framework says some of them, and the others follow. */
#ifndef CLI_WORDS_WORDS_H
#define CLI_WORDS_WORDS_H

#include "lib/base/status.h"
#include "lib/config/words.h"
#include "schedules/config/experiment.h"

#include <stdbool.h>
#include <stdio.h>

enum { AT_THE_END_MIB = 65536 }; /* ddp.bucket_mib that all gradients fit in: their reduction begins after the backward pass */

enum text_format { TEXT_FLAGS, TEXT_JSON, TEXT_YAML, TEXT_TOML };

/* What none of them does otherwise; `fsdp`: what else is always so under "fsdp". */
#define FIXED_IN_ALL(fsdp)                                                                                                                 \
    "\"gradient_reduction\": \"last\", \"loss\": \"cross_entropy\", \"fsdp\": {\"unit\": \"block\", \"prefetch\": 1" fsdp "}"
/* For paradigms with data parallelism only, in addition to their own. */
#define DATA_PARALLEL_SPACE "tensor.size=1", "pipeline.stages=1", "activation=keep,checkpoint", "parameter_offload=false"

struct framework {
    const char *name, *title;
    const char *origin; /* the version that names and defaults were read from */
    enum text_format format;
    const char *const *marks; /* paths by which one of its files is known: all of a row of them; NULL at the end */
    const char *fixed;        /* what it always does, as JSON of our config */
    const char *const *space; /* for dtbench plan: further keys with their one value, or those to choose from; NULL at the end */
    const struct dt_word *words;
    const char *no_bearing;                   /* beginnings of its keys that matter to neither time nor memory, with blanks between */
    const char *without_model;                /* its files have no model: who has it ("your script"); NULL: they have */
    void (*settle)(struct dt_translation *t); /* after the words, from theirs; NULL: nothing */
    void (*prepare)(struct dt_translation *t, const struct experiment *from); /* before the words, to theirs; NULL: nothing */
    void (*adapt)(struct dt_translation *t); /* before the words: another format's names become those of the words; NULL: nothing */
};

/* Row `index`; NULL past the last. Those that can be exported to come first. */
const struct framework *framework_at(int index);
const char *framework_name(int index);        /* for tables of options */
const char *framework_export_name(int index); /* of those that can be exported to */
const struct framework *framework_find(const char *name);
/* What it always does, as --set would say it: `use` is called with each "mesh.order=\"tensor-data-pipeline\"". */
typedef void framework_setting(void *context, const char *setting);
void framework_settings(const struct framework *f, framework_setting *use, void *context);
/* The framework of a file; NULL: none. */
const struct framework *framework_of(const struct cJSON *theirs);

extern const struct framework framework_megatron, framework_bridge, framework_nemo, framework_torchtitan, framework_deepspeed,
    framework_accelerate;

/* Options of an importer in addition to the file; 0 and NULL: none. */
struct import_options {
    int gpus, micro_batch;
    const char *model; /* a preset or a Hugging Face config, in place of the file's own */
};

/* Translate `theirs`, which becomes t's, whatever comes of it: t->ours is then a config. Errors: DT_ERR_HOST_MEMORY. */
dt_status framework_import(const struct framework *f, struct cJSON *theirs, const struct import_options *options, struct dt_translation *t);
/* The reverse: t->theirs is then the job. Errors: DT_ERR_HOST_MEMORY. */
dt_status framework_export(const struct framework *f, const struct experiment *e, struct dt_translation *t);

/* The parts of both that are about numbers of ranks and samples. */
void job_settle(struct dt_translation *t, const struct import_options *options);
void job_prepare(struct dt_translation *t, const struct experiment *e);
/* Say of a 16-bit model that its parameters are fp32 there, where t->ours has copies of them. */
void job_say_copies(struct dt_translation *t);
/* The loss's scale is found as the training goes: from `initial`, and grows after 1,000 steps, unless t->ours says otherwise. */
void job_scale_dynamically(struct dt_translation *t, double initial);

/* Read a file; "-" is standard input, whose format is that of `f`. f NULL: the ending of its name says the format, and what has none that is
 * known is a command line. Owner of *out: the caller, dt_json_destroy. Errors: DT_ERR_IO, DT_ERR_INVALID, DT_ERR_UNAVAILABLE where a format
 * needs a Python module that is not there. */
dt_status words_read_text(const char *path, const struct framework *f, struct cJSON **out);
/* The flags of a command line, or of a shell script that has one. */
dt_status words_read_flags(const char *text, struct cJSON **out);
void words_write_text(const struct framework *f, const struct cJSON *theirs, FILE *to);

/* What became of a translation, a line each: "read", "assumed", "alike", "left out", "unknown". */
void remarks_print(const struct dt_translation *t, FILE *to);
/* Of one kind, each after `label`. */
void remarks_print_kind(const struct dt_translation *t, enum dt_remark kind, const char *label, FILE *to);

#endif
