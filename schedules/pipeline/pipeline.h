/* The executor: it runs this rank's plan of a step (schedules/plan/plan.h), for every paradigm.
 *
 * Each action is one short function: kernels of a group, a message to or from a neighbour, what is
 * kept of a micro-batch (schedules/pipeline/activation.h), and what the data-parallel mode does
 * (schedules/data_parallel/mode.h). The order and the passes over its plan have decided before the
 * first step what is run when. One stage and one micro-batch is plain training. */
#pragma once

#include "schedules/config/order.h"
#include "schedules/data_parallel/mode.h"
#include "schedules/mesh/mesh.h"
#include "schedules/pipeline/activation.h"
#include "schedules/plan/plan.h"

/* Further passes over the plan, in addition to those of schedules/plan, and actions that they
 * place. Predictions have some (predict/framework.h). */
struct pipeline_extra {
    /* change_passes: change the passes that the order has emitted, with messages and slots, and the
     * rules by which the mode's actions are placed. change_plan: change the finished plan. */
    dt_status (*change_passes)(void *context, struct data_parallel *dp, struct plan *plan);
    dt_status (*change_plan)(void *context, const struct data_parallel *dp, struct plan *plan);
    /* Run an ACTION_EXTRA of step `step` for a micro-batch of `samples`. */
    dt_status (*run)(void *context, const struct action *action, int step, size_t samples, struct data_parallel *dp);
    void (*finish)(void *context, const struct data_parallel *dp); /* frees what `run` has allocated */
    void *context;
};

struct pipeline_setup {
    const struct experiment *experiment;
    struct dt_stage *stage;
    struct data_parallel *dp;
    struct dt_device *device;
    struct dt_stream *compute, *network; /* network: the data-parallel mode's */
    struct timeline *timeline;
    const struct dt_event *copied; /* changes of parameters wait for it, since they are being saved; NULL: nothing is saved */
    /* Only on sim, NULL: messages are whole. Otherwise ranks that share layers each send a part of
     * a message, and gather the parts on this stream. */
    struct dt_stream *gather;
    const struct mesh *mesh; /* this rank's stage, and its neighbours */
    size_t samples;          /* of one step: divided into the order's micro-batches; if uneven, the first ones have one sample more */
    const struct experiment_order *order;
    struct activation_rules activation;
    const struct pipeline_extra *extra; /* NULL: none */
    struct dt_memory_usage *memory_at;  /* [TIMELINE_PHASES] gets the memory in use when each phase first begins; NULL: not wanted */
    int repetitions;                    /* above 0: the plan is shortened to this number of repetitions (plans_shorten), for counting */
};

struct pipeline;

/* Collective over the mesh's world. The parts of setup outlive the pipeline. Errors: DT_ERR_COMM,
 * DT_ERR_HOST_MEMORY, DT_ERR_DEVICE, DT_ERR_INVALID if the order has a deadlock, which the text
 * names. */
dt_status pipeline_create(const struct pipeline_setup *setup, struct pipeline **out);
void pipeline_destroy(struct pipeline *pipeline); /* streams must be synchronized; takes NULL */
DT_DESTROYS(pipeline_destroy, struct pipeline)

/* The plan of a step. Lives as long as the pipeline. */
const struct plan *pipeline_plan(const struct pipeline *pipeline);

/* Queue one whole step on the streams. `step` counts from 1 over the run; samples are numbered from
 * the replica's first one in the step, which begin_step has told the kernels. After
 * pipeline_synchronize, the stage's loss buffer holds this replica's mean loss on its last
 * stage. */
dt_status pipeline_step(struct pipeline *pipeline, int step);

/* Bytes that this rank has sent to neighbouring stages so far, and summed with the stage at the
 * other end of the pipeline. */
uint64_t pipeline_sent_bytes(const struct pipeline *pipeline);
uint64_t pipeline_summed_bytes(const struct pipeline *pipeline);

/* Wait for everything that is queued on the compute and neighbour streams; the first failure
 * wins. */
dt_status pipeline_synchronize(struct pipeline *pipeline);
