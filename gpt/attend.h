/* Attention itself: from q, k and v to the heads' outputs, and their gradients.
 *
 * The ranks of a context group (struct dt_context_group) share the positions of each sample. Each of the N ranks has the same amount of work
 * and sends the same number of bytes. In this table KV is the number of elements of a rank's own keys and values, and E that of its q, k and
 * v and of its heads' outputs together:
 *   ring        Forward sends (N - 1) KV while it computes attention. Backward sends the keys again, and with a delay of one step their
 *               gradients: while the last of these messages is sent, nothing is computed.
 *   all_gather  Forward sends (N - 1) KV before attention. Backward sends as much before attention, and as much after it.
 *   heads       Forward sends E (N - 1) / N, of which the part of the heads' outputs after attention. Backward sends as much.
 * The workspace holds what is on its way: with ring two ranks' keys, and in backward also four pieces of gradients; with all_gather the keys
 * of all N ranks; with heads q, k and v a second time, and the heads' outputs a second time while they are exchanged. With heads the heads'
 * outputs are also kept twice: by positions for the projection, by heads for the backward of attention.
 * In memory q, k and v of a position lie together. They are copied before they are sent; predictions leave this copy out.
 * Errors: those of layer.h. */
#ifndef GPT_ATTEND_H
#define GPT_ATTEND_H

#include "gpt/layer_parts.h"

/* Prepare kept->qkv for attention. Where ranks exchange heads for positions, it then has all positions of some heads; else it stays. */
dt_status attend_prepare(const struct layer_run *r);
/* Compute kept->mixed from kept->qkv, unless it is there already, and what backward reads. */
dt_status attend(const struct layer_run *r);
/* Free what backward computes again from q, k and v. */
void attend_forget(const struct layer_run *r);
/* Whether attend_backward also applies the inverse rotation of rope to the gradients of q and k. */
bool attend_turns_back(const struct layer_run *r);
/* Compute kept->dqkv from dmixed [M, e], and free dmixed and what forward has kept, except kept->mixed. */
dt_status attend_backward(const struct layer_run *r, struct dt_buffer *dmixed);

#endif
