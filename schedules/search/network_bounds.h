/* What a candidate's ranks send at least, in seconds: the network's part of bounds.h. */
#ifndef SCHEDULES_SEARCH_NETWORK_BOUNDS_H
#define SCHEDULES_SEARCH_NETWORK_BOUNDS_H

#include "schedules/predict/simulated_system.h"
#include "schedules/search/pipeline_fill.h"

struct network_bounds;

/* Owner of *out: the caller, network_bounds_destroy, also after a failure. machine and system outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_create(const struct simulated_machine *machine, const struct simulated_system *system,
                                struct network_bounds **out);
void network_bounds_destroy(struct network_bounds *bounds); /* takes NULL */

/* Bytes that a stage of P parameter bytes gathers, or fetches from the host, in one pass over its groups. One that was used last may still be
 * there, and backward reads no table of embeddings; no group is larger than that table, or than a layer's share of all. */
double gathered_bytes(const struct dt_model *model, const struct mesh_shape *mesh, double parameter_bytes);

/* What the mode sends, in seconds. */
struct traffic {
    double gather; /* parameters, for one pass over a stage's groups */
    double passes; /* how often in a step */
    double end;    /* gradients and what follows on them, once a step: not before the last micro-batch's backward */
    double update; /* of that, what updated parameters take: not before all backward passes are over */
};

/* bytes: of the parameters of this rank's stage. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_traffic(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 int micro_batches, double bytes, struct traffic *out);

/* What a block of `bytes` bytes adds to the end of a step of each stage that has it, whose groups share their nodes' cards with no other; and,
 * of_card, what it adds on such a card, which carries the gradients of all stages of its node at a time. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_block_s(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 double bytes, double *out, double *of_card);

/* Ranks that share a layer put its output together, in forward after attention and MLP: kernels wait for it, and for attention's once more
 * where forward is repeated. In backward they wait for the rows of what comes in, where ranks have parts of them; what goes out is put
 * together beside the weights' gradients, or by itself where these come later. */
struct summing {
    double forward, again, backward; /* seconds of one micro-batch through one block */
};

/* samples: of a micro-batch; halves: gradients of weights come later. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_summing(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 int samples, bool halves, struct summing *out);

/* Activations of a micro-batch from one stage to the next, with those of equal ranks beside them, where that is shortest. samples: of a micro-batch.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_messages(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                  int samples, struct message_times *out);

#endif
