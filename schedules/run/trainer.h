/* Everything one rank needs to train an experiment: kernels, its stage, its data-parallel mode and
 * the pipeline that runs them. */
#pragma once

#include "schedules/checkpoint/checkpoint.h"
#include "schedules/pipeline/pipeline.h"
#include "schedules/run/tuning.h"
#include "schedules/step/step_times.h"
#include "schedules/step/step_traffic.h"

struct trainer;

/* Deviations from the experiment, which a config cannot express. 0 or NULL: none. */
struct trainer_options {
    /* The first layers of stages, as experiment_partition gives them. */
    dt_status (*partition)(const struct experiment *experiment, int virtual_stages, int *first_layer);
    double gradient_bytes; /* bytes of each gradient from backward to the update, if more than the dtype's */
    bool wide_reduction;   /* 16-bit gradients are sent in 32 bits: only on device sim */
    bool key_pieces;       /* as in struct dt_context_group */
    int sums_in_turn;      /* as in struct dt_tensor_group */
    bool divides_messages; /* ranks that share layers each send a part of a message: only on device sim */
    struct activation_rules activation;
    const struct pipeline_extra *extra;
    struct dt_memory_usage *memory_at; /* as in struct pipeline_setup */
    int repetitions;                   /* as in struct pipeline_setup: the step is shortened, for counting */
};

/* Build a trainer for this rank of `world`, whose size is the experiment's. Collective. Parameters
 * are initialised in place; the work is queued, and trainer_synchronize waits for it. options:
 * NULL: none. The arguments outlive the trainer. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY,
 * DT_ERR_COMM, DT_ERR_UNAVAILABLE (no kernels for this device). */
dt_status trainer_create(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                         const struct trainer_options *options, struct trainer **out);
void trainer_destroy(struct trainer *trainer); /* collective; takes NULL */
DT_DESTROYS(trainer_destroy, struct trainer)

/* Between steps, after trainer_synchronize: save the state after `steps` steps, or load it
 * (schedules/checkpoint/checkpoint.h). On sim nothing is read or written; *steps and *bytes are 0.
 * Collective. */
/* beside: training may go on while the checkpoint is written, if the experiment wants that. */
dt_status trainer_save(struct trainer *trainer, const struct checkpoint_folder *folder, int steps, bool beside, uint64_t *bytes);
dt_status trainer_load(struct trainer *trainer, const char *path, int *steps);

/* Bytes that this rank saves and loads. Errors: DT_ERR_HOST_MEMORY. */
dt_status trainer_checkpoint_size(struct trainer *trainer, struct checkpoint_size *out);

/* Queue step `step` (from 0 over warm-up and timed steps). If the device has graphs and the
 * experiment allows it, the third step of a trainer is captured, and later steps replay it: a step
 * is then one small kernel, the graph, and the copies of the loss and counters to the host. If
 * samples come from a file, the call waits until they are read; the step before must be
 * synchronized, since both use the same buffer. */
dt_status trainer_step(struct trainer *trainer, int step);
/* How steps are queued: "replayed" as a graph, "off" if the experiment says so, or the reason why
 * not; "" if the device has no graphs. */
const char *trainer_graph(const struct trainer *trainer);
/* Why an experiment's steps are not captured as a graph on devices with graphs; NULL: they are. */
const char *trainer_no_graph(const struct experiment *experiment);
/* What computes the matrix products, if that is chosen at run time: "amx", "onednn"; ""
 * elsewhere. */
const char *trainer_products(const struct trainer *trainer);
/* used: the names of the kernels for Hopper that are used after their trial, or with
 * warpgroup_kernels always, separated by commas; "" if there are none. Returns why one is not used
 * whose trial went wrong; "": none went wrong. */
const char *trainer_trials(const struct trainer *trainer, char *used, size_t bytes);
/* How much of the experiment's tuning was used so far; all zero if there is none. Collective.
 * Errors: DT_ERR_COMM. */
dt_status trainer_tuning(struct trainer *trainer, struct tuning_facts *out);
/* For a dry rank: from here on steps add their products to `tuning`, which outlives the trainer. */
dt_status trainer_list_products(struct trainer *trainer, struct dt_tuning *tuning);
/* The same step, queued action by action and traced: *out gets the spans, phases first. Waits
 * before and after. */
dt_status trainer_traced_step(struct trainer *trainer, int step, struct dt_spans_recorded *out);
/* The stream of the data-parallel mode's collectives, for exchanges between steps. */
struct dt_stream *trainer_network(const struct trainer *trainer);
/* Wait for all queued work; returns the first failure. */
dt_status trainer_synchronize(struct trainer *trainer);
/* Whether updates of a step run during later steps (schedules/data_parallel/late.h). For this case:
 * wait only for the step; and, after trainer_synchronize, get the elements that the updates of one
 * of the last DP_LATE_STEPS steps (from 0) left out. */
bool trainer_updates_late(const struct trainer *trainer);
dt_status trainer_synchronize_step(struct trainer *trainer);
uint64_t trainer_late_overflows(const struct trainer *trainer, int step);

/* The plan of each step, and this rank's part of the model. They live as long as the trainer. */
const struct plan *trainer_plan(const struct trainer *trainer);
const struct dt_stage *trainer_stage(const struct trainer *trainer);

/* What the last step has communicated, as its communicators counted; for a replayed step that of
 * the captured step. */
void trainer_traffic(const struct trainer *trainer, struct step_traffic *out);

/* Of a step, after trainer_synchronize. */
struct trainer_result {
    double data_s;      /* how long the step has waited for its samples before it was queued */
    bool has_loss;      /* this rank has the pipeline's last stage */
    double loss;        /* the mean over this replica's samples; 0 on other stages, and on sim */
    uint64_t overflows; /* parameters that updates left out because of a gradient that was not finite: each counts on one rank only */
    bool has_norm;      /* the experiment needs the norm of the step's gradients: */
    struct dt_norm_state norm; /* the same on all ranks */
};
struct trainer_result trainer_result(const struct trainer *trainer);

/* How the compute stream's time was spent, as input of schedules/step/step_times.h: the timeline,
 * and the messages of a pipeline, sorted; the caller frees messages->all, also after a failure. */
const struct timeline *trainer_timeline(const struct trainer *trainer);
dt_status trainer_messages(const struct trainer *trainer, bool sent, struct step_messages *out);
/* The largest number of messages that a rank sends in a step, 0 without a pipeline; and the ranks
 * that send messages to `rank`: with two stages the same rank twice. */
int trainer_messages_limit(const struct trainer *trainer);
void trainer_neighbours(const struct trainer *trainer, int rank, int ranks[2]);
/* The number of stages, and the ranks [stages] of this rank's pipeline in their order. */
int trainer_stages(const struct trainer *trainer);
void trainer_pipeline(const struct trainer *trainer, int *ranks);
enum step_end trainer_end(const struct trainer *trainer);
