/* Everything one rank needs to train an experiment: kernels, its stage, its data-parallel mode and the pipeline that runs them. */
#ifndef SCHEDULES_RUN_TRAINER_H
#define SCHEDULES_RUN_TRAINER_H

#include "schedules/checkpoint/checkpoint.h"
#include "schedules/pipeline/pipeline.h"
#include "schedules/run/tuning.h"
#include "schedules/step/step_times.h"
#include "schedules/step/step_traffic.h"

struct trainer;

/* Where a trainer is to do otherwise than an experiment can say. What is 0 or NULL is as usual. */
struct trainer_options {
    /* The layers with which stages begin, as experiment_partition gives them. */
    dt_status (*partition)(const struct experiment *experiment, int virtual_stages, int *first_layer);
    double gradient_bytes; /* of each gradient, from backward to the update, where that is more than those of the model's dtype */
    bool wide_reduction;   /* gradients in 16 bits travel in 32: on device sim alone */
    bool key_pieces;       /* as of struct dt_context_group */
    int sums_in_turn;      /* as of struct dt_tensor_group */
    struct activation_rules activation;
    const struct pipeline_extra *extra;
    struct dt_memory_usage *memory_at; /* as of struct pipeline_setup */
    int repetitions;                   /* as of struct pipeline_setup: steps are shorter than the experiment's, to count with */
};

/* Build it for this rank of `world`, whose size is the experiment's. Collective. Parameters are initialised where they live; the work is
 * queued, trainer_synchronize waits for it. options: NULL: none. The arguments outlive it.
 * Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY, DT_ERR_COMM, DT_ERR_UNAVAILABLE (no kernels for this device). */
dt_status trainer_create(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                         const struct trainer_options *options, struct trainer **out);
void trainer_destroy(struct trainer *trainer); /* collective; takes NULL */

/* Between steps, after trainer_synchronize: save the state after `steps` steps, or load it (schedules/checkpoint/checkpoint.h). On sim nothing is
 * read or written, and *steps and *bytes are 0. Collective. */
/* beside: training may go on while it is written, where the experiment wants that. */
dt_status trainer_save(struct trainer *trainer, const struct checkpoint_folder *folder, int steps, bool beside, uint64_t *bytes);
dt_status trainer_load(struct trainer *trainer, const char *path, int *steps);

/* What this rank saves and loads. Errors: DT_ERR_HOST_MEMORY. */
dt_status trainer_checkpoint_size(struct trainer *trainer, struct checkpoint_size *out);

/* Queue step `step` (from 0 over warm-up and timed steps). Where the device has graphs, and unless the experiment says no, the third step of a trainer is
 * captured and replayed from then on: a step is then one small kernel, the graph, and the copies of what the host wants to know. Where samples
 * come from a file it waits until they are read, and the step before must be synchronized: their place is the same. */
dt_status trainer_step(struct trainer *trainer, int step);
/* How long this step, before it was queued, has waited for its samples to be read. */
double trainer_data_s(const struct trainer *trainer);
/* How steps are queued: "replayed" as a graph, "off" by the experiment's word, or else why not; "" where the device has no graphs. */
const char *trainer_graph(const struct trainer *trainer);
/* Why an experiment's steps are not captured as a graph, where devices do that; NULL: they are. */
const char *trainer_no_graph(const struct experiment *experiment);
/* What computes the matrix products, where that is chosen as the program runs: "amx", "onednn"; "" elsewhere. */
const char *trainer_products(const struct trainer *trainer);
/* What the experiment's tuning was good for so far; all zero where there is none. Collective. Errors: DT_ERR_COMM. */
dt_status trainer_tuning(struct trainer *trainer, struct tuning_facts *out);
/* Of a dry rank: from here on steps add the products that they ask for to `tuning`, which outlives the trainer. */
dt_status trainer_list_products(struct trainer *trainer, struct dt_tuning *tuning);
/* The same, piece by piece and traced: *out is what ran when, phases first. Waits before and after.
 * Errors: as trainer_step and trainer_synchronize; *out is then zeroed. */
dt_status trainer_traced_step(struct trainer *trainer, int step, struct dt_spans_recorded *out);
/* Between steps, after trainer_synchronize: return at about the same moment on all ranks (dt_comm_start_together). */
dt_status trainer_start_together(struct trainer *trainer);
/* At the same place: every rank's numbers of the step (dt_comm_reduce_numbers). */
dt_status trainer_reduce_numbers(struct trainer *trainer, const double *mine, int count, double *sums_and_highest);
/* Wait for all that is queued; the first failure wins. */
dt_status trainer_synchronize(struct trainer *trainer);
/* Do updates of a step go on while later ones are computed (schedules/data_parallel/late.h)? Then wait for the step alone; and, after
 * trainer_synchronize, what the updates of one of the last DP_LATE_STEPS steps, from 0, have left out. */
bool trainer_updates_late(const struct trainer *trainer);
dt_status trainer_synchronize_step(struct trainer *trainer);
uint64_t trainer_late_overflows(const struct trainer *trainer, int step);

/* What each step does; and this rank's part of the model. They live as long as the trainer. */
const struct plan *trainer_plan(const struct trainer *trainer);
const struct dt_stage *trainer_stage(const struct trainer *trainer);

/* What the last step has communicated, as its communicators counted; of a step that was replayed what the captured one has. */
void trainer_traffic(const struct trainer *trainer, struct step_traffic *out);

/* After a step and trainer_synchronize: its loss, the mean over this replica's samples, on the pipeline's last stage (NaN elsewhere; 0 on
 * sim), and the parameters that its updates have left out for a gradient that was not finite, each on one rank alone. */
bool trainer_has_loss(const struct trainer *trainer); /* it is of the last stage */
double trainer_loss(const struct trainer *trainer);
uint64_t trainer_overflows(const struct trainer *trainer);
/* The norm of the step's gradients, the same on all ranks. false: this experiment does not ask for it. */
bool trainer_norm(const struct trainer *trainer, struct dt_norm_state *out);

/* Where the compute stream's time went, of which schedules/step/step_times.h makes the step's times: the timeline, its first mark, and the
 * messages of a pipeline, sorted; the caller frees messages->all, also after a failure. */
dt_status trainer_times(const struct trainer *trainer, struct timeline_times *out);
const struct dt_event *trainer_begin(const struct trainer *trainer);
dt_status trainer_messages(const struct trainer *trainer, bool sent, struct step_messages *out);
/* How many messages a rank sends in a step at most, 0 without a pipeline; and the ranks that send some to `rank`, one twice where there are
 * two stages. */
int trainer_messages_limit(const struct trainer *trainer);
void trainer_neighbours(const struct trainer *trainer, int rank, int ranks[2]);
/* The stages of a pipeline; and the ranks [stages] of this one's, in their order. */
int trainer_stages(const struct trainer *trainer);
void trainer_pipeline(const struct trainer *trainer, int *ranks);
enum step_end trainer_end(const struct trainer *trainer);

#endif
