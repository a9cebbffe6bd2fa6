#include "gpt/attend.h"

static struct dt_exchange *exchange_of(const struct layer_run *r)
{
    return &r->stage->exchange;
}

/* The number of ranks that share each sample. */
static int ranks_of(const struct layer_run *r)
{
    struct dt_comm *comm = exchange_of(r)->context.comm;
    return comm ? dt_comm_size(comm) : 1;
}

static bool exchanges_heads(const struct layer_run *r)
{
    return ranks_of(r) > 1 && exchange_of(r)->context.kind == DT_CONTEXT_HEADS;
}

/* The heads for which this rank computes attention: its part of `heads` if ranks exchange heads for
 * positions. */
static struct gpt_part attending(const struct layer_run *r, struct gpt_part heads)
{
    if (!exchanges_heads(r))
        return heads;
    size_t count = heads.count / (size_t)ranks_of(r);
    return (struct gpt_part){heads.first + count * (size_t)dt_comm_rank(exchange_of(r)->context.comm), count};
}

static bool in_pieces(const struct layer_run *r)
{
    return exchange_of(r)->context.key_pieces && exchange_of(r)->context.kind == DT_CONTEXT_ALL_GATHER;
}

/* Elements of the keys and values of this rank's own positions. With context.key_pieces, which only
 * sim has because it sends nothing, every query head has its own keys and values. */
static size_t key_elems(const struct layer_run *r)
{
    struct gpt_part heads = (in_pieces(r) ? gpt_cut_heads : gpt_cut_kv_heads)(r->stage->cut, model_of(r));
    return r->rows * 2 * heads.count * (size_t)gpt_head_width(model_of(r));
}

/* A piece with this rank's queries. The caller sets its keys. */
static struct gpt_piece piece_of(const struct layer_run *r)
{
    return (struct gpt_piece){.queries = r->stage->where, .ranks = ranks_of(r), .key_ranks = 1};
}

/* Copy k and v from the rows of qkv into `keys`, where they are contiguous. back: in the other
 * direction, for gradients. */
static dt_status move_keys(const struct layer_run *r, struct dt_buffer *qkv, void *keys, bool back)
{
    size_t columns = key_elems(r) / r->rows;
    void *beside_q = (char *)qkv->data + (r->c - columns) * r->element_bytes;
    struct gpt_move a = {beside_q, keys, r->rows, columns, r->c, columns};
    if (back)
        a = (struct gpt_move){keys, beside_q, r->rows, columns, columns, r->c};
    return r->k->move(r->kernels, r->stream, &a);
}

static dt_status allocate_keys(const struct layer_run *r, size_t count_elems, struct dt_buffer *out)
{
    return dt_alloc(r->stream, DT_WORKSPACE, count_elems * r->element_bytes, out);
}

/* Dropout of the attention weights. */
static struct gpt_dropout attention_dropout(const struct layer_run *r)
{
    struct gpt_dropout dropout = layer_dropout(r);
    if (gpt_of(model_of(r))->attention_dropout == GPT_ATTENTION_DROPOUT_NONE)
        dropout.probability = 0;
    return dropout;
}

/* ---- forward ---- */

static dt_status attend_to(const struct layer_run *r, void *out, struct gpt_piece piece)
{
    struct gpt_attention_forward a = {
        .qkv = r->kept->qkv.data,
        .out = out,
        .lse = r->kept->lse.data,
        .weights = r->kept->weights.data,
        .samples = r->stash->samples,
        .heads = attending(r, gpt_cut_heads(r->stage->cut, model_of(r))),
        .kv_heads = attending(r, gpt_cut_kv_heads(r->stage->cut, model_of(r))),
        .dropout = attention_dropout(r),
        .piece = piece,
    };
    return r->k->attention(r->kernels, r->stream, &a);
}

/* Send `here`, keys or their gradients, to the next rank, and allocate memory for those that the
 * rank before sends. */
static dt_status pass_on(const struct layer_run *r, enum dt_exchange_slot slot, const struct dt_buffer *here, struct dt_buffer *next)
{
    DT_TRY(allocate_keys(r, key_elems(r), next));
    return dt_shift_begin(exchange_of(r), slot, r->stream, here->data, next->data, key_elems(r), model_of(r)->dtype);
}

static dt_status take_keys(const struct layer_run *r, struct dt_buffer *here, struct dt_buffer *next)
{
    DT_TRY(dt_exchange_wait(exchange_of(r), DT_EXCHANGE_KEYS));
    dt_free(r->stream, here);
    dt_buffer_move(here, next);
    return DT_OK;
}

static dt_status begin_ring(const struct layer_run *r, struct dt_buffer *here)
{
    DT_TRY(allocate_keys(r, key_elems(r), here));
    return move_keys(r, &r->kept->qkv, here->data, false);
}

/* The piece of step `step`: the keys that are here now belong to the rank `step` places before this
 * one. */
static struct gpt_piece ring_piece(const struct layer_run *r, int step, const struct dt_buffer *here)
{
    struct gpt_piece piece = piece_of(r);
    piece.keys = here->data;
    piece.key_rank = (dt_comm_rank(exchange_of(r)->context.comm) + piece.ranks - step) % piece.ranks;
    piece.joins = step > 0;
    return piece;
}

/* Ring: each step computes attention to one rank's keys, and joins its result with that of the
 * steps before. */
static dt_status attend_around(const struct layer_run *r)
{
    struct dt_buffer here, next;
    DT_TRY(begin_ring(r, &here));
    for (int step = 0, steps = ranks_of(r); step < steps; step++) {
        if (step + 1 < steps)
            DT_TRY(pass_on(r, DT_EXCHANGE_KEYS, &here, &next));
        DT_TRY(attend_to(r, r->kept->mixed.data, ring_piece(r, step, &here)));
        if (step + 1 < steps)
            DT_TRY(take_keys(r, &here, &next));
    }
    dt_free(r->stream, &here);
    return DT_OK;
}

/* The place of this rank's own keys among those of all ranks. */
static void *own_part(const struct layer_run *r, const struct dt_buffer *all)
{
    return (char *)all->data + (size_t)dt_comm_rank(exchange_of(r)->context.comm) * key_elems(r) * r->element_bytes;
}

static dt_status gather_keys(const struct layer_run *r, struct dt_buffer *all)
{
    DT_TRY(allocate_keys(r, key_elems(r) * (size_t)ranks_of(r), all));
    DT_TRY(move_keys(r, &r->kept->qkv, own_part(r, all), false));
    DT_TRY(dt_all_gather_begin(exchange_of(r), exchange_of(r)->context.comm, DT_EXCHANGE_KEYS, r->stream, own_part(r, all), all->data,
                               key_elems(r), model_of(r)->dtype));
    return dt_exchange_wait(exchange_of(r), DT_EXCHANGE_KEYS);
}

static struct gpt_piece gathered_piece(const struct layer_run *r, const struct dt_buffer *all)
{
    struct gpt_piece piece = piece_of(r);
    piece.keys = all->data;
    piece.key_ranks = piece.ranks;
    return piece;
}

static dt_status attend_gathered(const struct layer_run *r)
{
    struct dt_buffer all;
    DT_TRY(gather_keys(r, &all));
    for (int step = 0; step < (in_pieces(r) ? ranks_of(r) : 0); step++)
        DT_TRY(attend_to(r, r->kept->mixed.data, ring_piece(r, step, &all)));
    if (!in_pieces(r))
        DT_TRY(attend_to(r, r->kept->mixed.data, gathered_piece(r, &all)));
    dt_free(r->stream, &all);
    return DT_OK;
}

/* The columns that ranks exchange: those of q, k and v, or only those of the heads' outputs. Every
 * rank gets an equal part of each. */
struct exchanged {
    size_t columns[3], all;
};

static struct exchanged of_qkv(const struct layer_run *r)
{
    size_t keys = key_elems(r) / r->rows / 2;
    return (struct exchanged){{r->e, keys, keys}, r->c};
}

static struct exchanged of_outputs(const struct layer_run *r)
{
    return (struct exchanged){{r->e}, r->e};
}

static void *elements_at(const struct layer_run *r, void *data, size_t elems)
{
    return (char *)data + elems * r->element_bytes;
}

static dt_status move(const struct layer_run *r, const struct gpt_move *a, bool back)
{
    const struct gpt_move other = {a->to, (void *)a->from, a->rows, a->columns, a->to_stride, a->from_stride};
    return r->k->move(r->kernels, r->stream, back ? &other : a);
}

/* Copy between `whole`, own positions of all heads [M, columns], and `parts` by the heads of each
 * rank [N, M, columns / N]. */
static dt_status move_by_heads(const struct layer_run *r, const struct exchanged *x, void *whole, void *parts, bool back)
{
    size_t ranks = (size_t)ranks_of(r);
    for (size_t rank = 0, place = 0; rank < ranks; rank++, place += (r->rows - 1) * (x->all / ranks))
        for (size_t i = 0, before = 0; i < 3 && x->columns[i] > 0; before += x->columns[i++]) {
            size_t columns = x->columns[i] / ranks;
            struct gpt_move a = {
                elements_at(r, whole, before + rank * columns), elements_at(r, parts, place), r->rows, columns, x->all, x->all / ranks};
            DT_TRY(move(r, &a, back));
            place += columns;
        }
    return DT_OK;
}

/* Copy between `whole`, all positions of own heads [samples, T, columns / N], and `parts` by the
 * positions of each rank [N, samples, T / N, columns / N]. */
static dt_status move_by_positions(const struct layer_run *r, const struct exchanged *x, void *whole, void *parts, bool back)
{
    size_t ranks = (size_t)ranks_of(r), samples = r->stash->samples, of_sample = r->rows / samples * (x->all / ranks);
    for (size_t rank = 0; rank < ranks; rank++) {
        struct gpt_move a = {elements_at(r, whole, rank * of_sample),
                             elements_at(r, parts, rank * samples * of_sample),
                             samples,
                             of_sample,
                             ranks * of_sample,
                             of_sample};
        DT_TRY(move(r, &a, back));
    }
    return DT_OK;
}

/* From own positions of all heads to all positions of own heads, or back. All buffers are [M,
 * columns]. `room` may be `from`, which is then overwritten. */
static dt_status exchange_heads(const struct layer_run *r, struct exchanged x, void *from, void *room, void *to, bool back)
{
    DT_TRY((back ? move_by_positions : move_by_heads)(r, &x, from, to, false));
    DT_TRY(dt_heads_exchange_begin(exchange_of(r), r->stream, to, room, r->rows * x.all, model_of(r)->dtype));
    DT_TRY(dt_exchange_wait(exchange_of(r), DT_EXCHANGE_KEYS));
    return (back ? move_by_heads : move_by_positions)(r, &x, to, room, true);
}

/* Exchange the outputs of this rank's heads for those of all heads at its positions. Its own heads'
 * outputs are also kept, because backward reads them. */
static dt_status exchange_outputs(const struct layer_run *r)
{
    struct dt_buffer room;
    DT_TRY(layer_allocate(r, DT_WORKSPACE, r->e, &room));
    DT_TRY(exchange_heads(r, of_outputs(r), r->kept->attended.data, room.data, r->kept->mixed.data, true));
    dt_free(r->stream, &room);
    return DT_OK;
}

static dt_status attend_some_heads(const struct layer_run *r, bool has_outputs)
{
    if (r->kept->attended.bytes == 0)
        DT_TRY(layer_allocate(r, DT_ACTIVATIONS, r->e, &r->kept->attended));
    DT_TRY(attend_to(r, r->kept->attended.data, (struct gpt_piece){0}));
    return has_outputs ? DT_OK : exchange_outputs(r);
}

dt_status attend_prepare(const struct layer_run *r)
{
    struct dt_buffer made;
    if (!exchanges_heads(r))
        return DT_OK;
    dt_buffer_move(&made, &r->kept->qkv);
    DT_TRY(layer_allocate(r, DT_ACTIVATIONS, r->c, &r->kept->qkv));
    DT_TRY(exchange_heads(r, of_qkv(r), made.data, made.data, r->kept->qkv.data, false));
    dt_free(r->stream, &made);
    return DT_OK;
}

dt_status attend(const struct layer_run *r)
{
    size_t pairs = r->rows * gpt_cut_heads(r->stage->cut, model_of(r)).count; /* pairs of a position and a head */
    bool has_outputs = r->kept->mixed.bytes > 0;
    if (gpt_of(model_of(r))->attention == GPT_ATTENTION_FUSED)
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, pairs * sizeof(float), &r->kept->lse));
    else
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, pairs * (size_t)gpt_of(model_of(r))->block_size * r->element_bytes, &r->kept->weights));
    if (!has_outputs)
        DT_TRY(layer_allocate(r, DT_ACTIVATIONS, r->e, &r->kept->mixed));
    if (ranks_of(r) == 1)
        return attend_to(r, r->kept->mixed.data, (struct gpt_piece){0});
    switch (exchange_of(r)->context.kind) {
    case DT_CONTEXT_RING: return attend_around(r);
    case DT_CONTEXT_ALL_GATHER: return attend_gathered(r);
    case DT_CONTEXT_HEADS: break;
    }
    return attend_some_heads(r, has_outputs);
}

void attend_forget(const struct layer_run *r)
{
    if (makes_again(r, DT_AGAIN_HEADS))
        dt_free(r->stream, &r->kept->mixed);
    dt_free(r->stream, &r->kept->attended);
    dt_free(r->stream, &r->kept->lse);
    dt_free(r->stream, &r->kept->weights);
}

/* ---- backward ---- */

bool attend_turns_back(const struct layer_run *r)
{
    return gpt_of(model_of(r))->position == GPT_POSITION_ROPE && ranks_of(r) == 1 && fused(r) && fused(r)->attention_rope_gradient;
}

/* dkeys: gradients of the keys in piece.keys. */
static dt_status attend_to_backward(const struct layer_run *r, const struct dt_buffer *dout, const struct dt_buffer *out,
                                    struct dt_buffer *dqkv, struct gpt_piece piece, void *dkeys)
{
    struct gpt_attention_backward a = {
        .dout = dout->data,
        .out = out->data,
        .qkv = r->kept->qkv.data,
        .lse = r->kept->lse.data,
        .weights = r->kept->weights.data,
        .dqkv = dqkv->data,
        .samples = r->stash->samples,
        .heads = attending(r, gpt_cut_heads(r->stage->cut, model_of(r))),
        .kv_heads = attending(r, gpt_cut_kv_heads(r->stage->cut, model_of(r))),
        .dropout = attention_dropout(r),
        .piece = piece,
        .dkeys = dkeys,
    };
    return (attend_turns_back(r) ? r->k->attention_rope_gradient : r->k->attention_gradient)(r->kernels, r->stream, &a);
}

/* Wait for the gradients of keys in `coming`, which the rank before has sent, and add them to
 * `made`. Frees `coming`, and `sums`, which has been sent. */
static dt_status take_sums(const struct layer_run *r, struct dt_buffer *sums, struct dt_buffer *coming, struct dt_buffer *made)
{
    DT_TRY(dt_exchange_wait(exchange_of(r), DT_EXCHANGE_DKEYS));
    DT_TRY(dt_kernels_add(r->stage->base.kernels, r->stream, false, made->data, coming->data, key_elems(r)));
    dt_free(r->stream, sums);
    dt_free(r->stream, coming);
    return DT_OK;
}

/* Ring: the keys are sent round once more. Each rank adds its part to the gradients of the keys
 * that it has, and sends them on one step after the keys. After the last step a rank gets the
 * gradients of its own keys back, and adds its own part, which it has kept since step 0. */
static dt_status backward_around(const struct layer_run *r, const struct dt_buffer *dmixed)
{
    struct dt_buffer here, next, own = {0}, sums = {0}, made, coming;
    DT_TRY(begin_ring(r, &here));
    for (int step = 0, steps = ranks_of(r); step < steps; step++) {
        if (step + 1 < steps)
            DT_TRY(pass_on(r, DT_EXCHANGE_KEYS, &here, &next));
        if (step > 1)
            DT_TRY(pass_on(r, DT_EXCHANGE_DKEYS, &sums, &coming));
        DT_TRY(allocate_keys(r, key_elems(r), &made));
        DT_TRY(attend_to_backward(r, dmixed, &r->kept->mixed, &r->kept->dqkv, ring_piece(r, step, &here), made.data));
        if (step + 1 < steps)
            DT_TRY(take_keys(r, &here, &next));
        if (step > 1)
            DT_TRY(take_sums(r, &sums, &coming, &made));
        dt_buffer_move(step ? &sums : &own, &made);
    }
    dt_free(r->stream, &here);
    DT_TRY(pass_on(r, DT_EXCHANGE_DKEYS, &sums, &coming));
    DT_TRY(take_sums(r, &sums, &coming, &own));
    DT_TRY(move_keys(r, &r->kept->dqkv, own.data, true));
    dt_free(r->stream, &own);
    return DT_OK;
}

static dt_status backward_gathered(const struct layer_run *r, const struct dt_buffer *dmixed)
{
    struct dt_buffer all, dall;
    DT_TRY(gather_keys(r, &all));
    DT_TRY(allocate_keys(r, key_elems(r) * (size_t)ranks_of(r), &dall));
    DT_TRY(attend_to_backward(r, dmixed, &r->kept->mixed, &r->kept->dqkv, gathered_piece(r, &all), dall.data));
    dt_free(r->stream, &all);
    DT_TRY(dt_reduce_scatter_begin(exchange_of(r), exchange_of(r)->context.comm, DT_EXCHANGE_DKEYS, r->stream, dall.data,
                                   own_part(r, &dall), key_elems(r), model_of(r)->dtype));
    DT_TRY(dt_exchange_wait(exchange_of(r), DT_EXCHANGE_DKEYS));
    DT_TRY(move_keys(r, &r->kept->dqkv, own_part(r, &dall), true));
    dt_free(r->stream, &dall);
    return DT_OK;
}

/* The sums of gradients, in fp32, are sent to the next rank after each piece; after the last piece
 * they are back at their own rank. */
static dt_status backward_in_pieces(const struct layer_run *r, const struct dt_buffer *dmixed)
{
    struct dt_buffer all, made, sums, coming;
    size_t bytes = key_elems(r) * sizeof(float);
    DT_TRY(gather_keys(r, &all));
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, bytes, &sums));
    for (int step = 0; step < ranks_of(r); step++) {
        DT_TRY(allocate_keys(r, key_elems(r), &made));
        DT_TRY(attend_to_backward(r, dmixed, &r->kept->mixed, &r->kept->dqkv, ring_piece(r, step, &all), made.data));
        DT_TRY(dt_kernels_add_wide(r->stage->base.kernels, r->stream, false, sums.data, model_of(r)->dtype, made.data, key_elems(r)));
        dt_free(r->stream, &made);
        DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, bytes, &coming));
        DT_TRY(dt_shift_begin(exchange_of(r), DT_EXCHANGE_DKEYS, r->stream, sums.data, coming.data, key_elems(r), DT_FP32));
        DT_TRY(dt_exchange_wait(exchange_of(r), DT_EXCHANGE_DKEYS));
        dt_free(r->stream, &sums);
        dt_buffer_move(&sums, &coming);
    }
    dt_free(r->stream, &all);
    dt_free(r->stream, &sums);
    return DT_OK;
}

static dt_status backward_some_heads(const struct layer_run *r, const struct dt_buffer *dmixed)
{
    struct dt_buffer dattended, made;
    DT_TRY(layer_allocate(r, DT_WORKSPACE, r->e, &dattended));
    DT_TRY(exchange_heads(r, of_outputs(r), dmixed->data, dmixed->data, dattended.data, false));
    DT_TRY(layer_allocate(r, DT_WORKSPACE, r->c, &made));
    DT_TRY(attend_to_backward(r, &dattended, &r->kept->attended, &made, (struct gpt_piece){0}, NULL));
    dt_free(r->stream, &dattended);
    DT_TRY(exchange_heads(r, of_qkv(r), made.data, made.data, r->kept->dqkv.data, true));
    dt_free(r->stream, &made);
    return DT_OK;
}

static dt_status backward_of(const struct layer_run *r, const struct dt_buffer *dmixed)
{
    if (ranks_of(r) == 1)
        return attend_to_backward(r, dmixed, &r->kept->mixed, &r->kept->dqkv, (struct gpt_piece){0}, NULL);
    switch (exchange_of(r)->context.kind) {
    case DT_CONTEXT_RING: return backward_around(r, dmixed);
    case DT_CONTEXT_ALL_GATHER: return (in_pieces(r) ? backward_in_pieces : backward_gathered)(r, dmixed);
    case DT_CONTEXT_HEADS: break;
    }
    return backward_some_heads(r, dmixed);
}

dt_status attend_backward(const struct layer_run *r, struct dt_buffer *dmixed)
{
    DT_TRY(layer_allocate(r, gradient_category(r), r->c, &r->kept->dqkv));
    DT_TRY(backward_of(r, dmixed));
    dt_free(r->stream, dmixed);
    dt_free(r->stream, &r->kept->qkv);
    dt_free(r->stream, &r->kept->attended);
    dt_free(r->stream, &r->kept->lse);
    dt_free(r->stream, &r->kept->weights);
    dt_free(r->stream, &r->kept->besides);
    return DT_OK;
}
