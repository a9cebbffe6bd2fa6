/* Attention itself: from q, k and v to the heads' outputs, and their gradients; also where ranks share the positions of each sample
 * (struct dt_context_group). Each rank then has the same amount of work and sends the same bytes. With KV the elements of its own keys and
 * values, E those of its q, k, v and of the heads' outputs together, and N ranks:
 *   ring        forward sends (N - 1) KV beside attention; backward sends the keys again, and one step after them their gradients,
 *               the last of which are not beside attention
 *   all_gather  sends (N - 1) KV forward before attention; backward as much before, and as much after it
 *   heads       sends E (N - 1) / N forward, of which the heads' outputs after attention, and as much backward
 * What lies there meanwhile is workspace: two pieces of keys, backward four of their gradients as well; all N pieces; or q, k, v once more,
 * and the heads' outputs once more while they are exchanged. With heads the heads' outputs are kept twice: by positions for the projection,
 * by heads for attention's backward.
 * q, k and v of a row lie together here: what is sent is packed for the way, which predictions leave out.
 * Errors: those of layer.h. */
#ifndef GPT_ATTEND_H
#define GPT_ATTEND_H

#include "gpt/layer_parts.h"

/* kept->qkv, as the product and what follows it have made it, becomes what is attended to: all positions of some heads, where ranks exchange
 * the one for the other. */
dt_status attend_prepare(const struct layer_run *r);
/* kept->mixed, unless it is there, from kept->qkv, and what the backward of that reads. */
dt_status attend(const struct layer_run *r);
/* Free what is computed again from q, k and v. */
void attend_forget(const struct layer_run *r);
/* Whether attend_backward turns the gradients of q and k back with their positions. */
bool attend_turns_back(const struct layer_run *r);
/* From dmixed [M, e], which it frees, to kept->dqkv; frees what forward kept for it, but for kept->mixed. */
dt_status attend_backward(const struct layer_run *r, struct dt_buffer *dmixed);

#endif
