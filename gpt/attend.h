/* Attention itself: from q, k and v to the heads' outputs, and their gradients.
 *
 * The ranks of a context group (struct dt_context_group) share the positions of each sample. Each
 * of the N ranks has the same amount of work and sends the same number of bytes. In this table KV
 * is the number of elements of a rank's own keys and values. E is the number of elements of its q,
 * k, v and heads' outputs together.
 *   ring        Forward sends (N - 1) KV while it computes attention. Backward sends the keys
 *               again, and their gradients one step later. Nothing is computed while the last of
 *               these messages is sent.
 *   all_gather  Forward sends (N - 1) KV before attention. Backward sends the same amount before
 *               attention, and the same after it.
 *   heads       Forward sends E (N - 1) / N: q, k and v before attention, the heads' outputs after
 *               it. Backward sends the same amount.
 * The workspace contains the messages: with ring the keys of two ranks, and in backward also four
 * pieces of gradients; with all_gather the keys of all N ranks (on GPUs
 * also gpt_ordered_bytes); with heads a second copy of q, k
 * and v, and of the heads' outputs while they are exchanged. With heads the heads' outputs are also
 * kept twice: by positions for the projection, by heads for the backward of attention.
 * q, k and v of a position are contiguous in memory. They are copied before they are sent;
 * predictions do not count this copy.
 * Errors: those of layer.h. */
#pragma once

#include "gpt/layer_parts.h"

/* Prepare kept->qkv for attention. If ranks exchange heads for positions, it contains all positions
 * of some heads after this; otherwise it does not change. */
dt_status attend_prepare(const struct layer_run *r);
/* Compute kept->mixed from kept->qkv, unless it exists already, and the buffers that backward
 * reads. */
dt_status attend(const struct layer_run *r);
/* Free what backward can compute again from q, k and v. */
void attend_forget(const struct layer_run *r);
/* Whether attend_backward also applies the inverse rotation of rope to the gradients of q and k. */
bool attend_turns_back(const struct layer_run *r);
/* Compute kept->dqkv from dmixed [M, e]. Frees dmixed and all that forward has kept, except
 * kept->mixed. */
dt_status attend_backward(const struct layer_run *r, struct dt_buffer *dmixed);
