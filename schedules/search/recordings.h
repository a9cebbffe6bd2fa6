/* The model on one device, recorded: what a candidate's kernels, hosts and tensors need at least, whatever its network is.
 *
 * Blocks are alike, so models of few layers are recorded, and what one more block adds is added for the others. What is known is kept: many
 * candidates share it. For any number of threads: who asks for what another is recording waits for it. */
#ifndef SCHEDULES_SEARCH_RECORDINGS_H
#define SCHEDULES_SEARCH_RECORDINGS_H

#include "schedules/predict/simulated_system.h"

/* The whole model on one device, or on the first of `tensor` ranks that share its layers, for micro-batches of `samples` samples. */
struct alone {
    enum paradigm_kind paradigm; /* fsdp has kernels of its own costs */
    int tensor;
    bool sequence_parallel;
    enum dt_unit unit; /* fsdp: these two */
    enum gather_kind gather;
    enum activation_kind activation;
    int activation_blocks, samples;
    int sharers;                                  /* ranks that share one interpreter (gpt/cost/cost.h) */
    double compute_s, host_s;                     /* of a micro-batch */
    double block_s, block_forward_s, block_bytes; /* of a micro-batch through one block, and its parameters; 0: not known */
    double parameter_bytes, optimizer_bytes, activation_bytes;
};

/* What the first and the last stage of a pipeline have besides blocks. */
struct ends {
    struct alone of; /* what they belong to */
    double first_s, first_forward_s, last_s, last_forward_s;
};

struct recordings;

/* Owner of *out: the caller; base and machine outlive it. What is known holds for other networks, memories and numbers of nodes, too: it
 * is about kernels and hosts. Errors: DT_ERR_HOST_MEMORY. */
dt_status recordings_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings **out);
void recordings_destroy(struct recordings *recordings); /* takes NULL */

/* For the experiment's ranks, under this activation policy, with micro-batches of `samples` samples. Errors: as trainer_create. */
dt_status recordings_alone(struct recordings *recordings, const struct experiment *experiment, enum activation_kind activation, int samples,
                           struct alone *out);

/* Of a pipeline whose stages have what `alone` says: nothing where blocks are not known, or where fewer samples than ranks share them.
 * Errors: as trainer_create. */
dt_status recordings_ends(struct recordings *recordings, const struct experiment *experiment, const struct alone *alone, struct ends *out);

/* Room for one more of `count` entries of entry_bytes each, here and of what bounds keep. Errors: DT_ERR_HOST_MEMORY. */
dt_status recordings_make_room(void **entries, int count, int *room, size_t entry_bytes);

#endif
