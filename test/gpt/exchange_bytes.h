/* The bytes that the ranks of a tensor group, and ranks that share samples, exchange in a pass
 * through a group of layers, in closed form, compared with the communicators' counts. */
#pragma once

#include "lib/model/model.h"

/* A pass through a group: forward, also once more for backward; backward, or half of it; or both of
 * a head that is late. */
struct gpt_pass {
    bool forward, late;
    bool ends_here;            /* forward: as recompute's */
    enum dt_backward backward; /* 0: none */
};

/* Bytes that the ranks of a group exchange in it: whole buffers, as dt_comm_bytes counts. */
struct dt_exchanged {
    uint64_t all_reduce, reduce_scatter, all_gather, all_to_all, shift;
};

/* The bytes of `samples` samples through group g; zeros where the rank has whole layers. */
void gpt_exchanged_bytes(const struct dt_stage *stage, int g, struct gpt_pass pass, size_t samples, struct dt_exchanged *out);
/* The bytes of ranks that share samples, for attention. Source: gpt/attend.h. */
void gpt_context_bytes(const struct dt_stage *stage, int g, struct gpt_pass pass, size_t samples, struct dt_exchanged *out);
