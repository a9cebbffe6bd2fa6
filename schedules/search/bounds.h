/* What a candidate needs at least: bytes on the rank that needs most, seconds of a step. Never more than the simulation says, and thousands
 * of times cheaper.
 *
 * Memory   the parameters, gradients and optimizer state that its mode cannot do without, and the activations of one micro-batch, measured
 *          on a recorded step of the model on one device; a pipeline's stages share them, and the fullest has at least its part of those
 *          that its order keeps at a time.
 * Time     the largest of what no schedule can avoid. Host: what it takes to issue everything, since a step's work follows its host, however
 *          far that runs ahead. Compute: the kernels of all micro-batches, of the same recordings, with the sums over ranks that share
 *          layers in forward, what backward waits for of them, and the update of the rank's parameters. Network: bytes that the mode sends
 *          once a step, or gathers for each micro-batch, at the best rate of the group's algorithms; and over each network card at no more
 *          than all its flows get together. Host links: bytes that are offloaded.
 *          One after the other: gradients go behind all micro-batches but the last one's backward; parameters that other ranks' hosts have
 *          updated come to this one's behind all of it.
 *          Pipelines: p stages with m micro-batches of work W in all cannot be faster than W / (1 - (1 - 1/m)^p), however layers are divided:
 *          a stage waits for the first micro-batch to pass those before it, and these for its last one to come back. As they are divided,
 *          the same of the blocks of each virtual stage; pipeline_played_s plays the order with the passes and messages that are told here,
 *          and adds what a card that several stages share needs for all their gradients.
 *
 * Where kernels and collectives were measured on shared processors (dtbench calibrate) the network's part is left out. */
#ifndef SCHEDULES_SEARCH_BOUNDS_H
#define SCHEDULES_SEARCH_BOUNDS_H

#include "schedules/predict/simulated_system.h"
#include "schedules/search/pipeline_fill.h"

struct bounds;
struct recordings;

/* For experiments that differ from `base` in keys of a space. recordings: the caller's, of the same kernels; NULL: makes its own. Owner: the
 * caller; base, machine and recordings outlive it.
 * Errors: DT_ERR_HOST_MEMORY, and those of simulated_system_create. */
dt_status bounds_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings *recordings,
                        struct bounds **out);
void bounds_destroy(struct bounds *bounds); /* takes NULL */

struct bound {
    double bytes; /* of the device, of the rank that needs most */
    double step_s;
    double compute_s, host_s, network_s, host_link_s; /* of it by themselves; host_s: to issue the kernels */
    double micro_batch_s;                             /* what each further micro-batch adds */
    struct pass_times passes;                         /* of a pipeline */
};

/* Not for several threads at once: what was found out is kept. Errors: as trainer_create. */
dt_status bounds_find(struct bounds *bounds, const struct experiment *experiment, struct bound *out);

/* Bytes that a GPU has for tensors, as the profile's allocator divides them. */
double bounds_capacity_bytes(const struct simulated_machine *machine, const struct simulated_system *system);

#endif
