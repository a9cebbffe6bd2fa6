#include "gpt/layer_shared.h"

/* ---- copies of parameters ---- */

dt_status layer_sum_head_gains_begin(const struct layer_run *r)
{
    size_t gains = 2 * (size_t)gpt_head_width(model_of(r)); /* k's gain is after q's */
    if (!shared(r))
        return DT_OK;
    return dt_all_reduce_begin(&r->stage->exchange, r->stage->exchange.group.comm, DT_EXCHANGE_GRADIENTS, r->stream,
                               layer_grad(r, GPT_Q_NORM_GAIN), gains, model_of(r)->dtype);
}

/* The number of ranks that have the same heads of k and v as this one, including this one. */
static int copies_of_kv(const struct layer_run *r)
{
    return r->layer->kind == GPT_ATTENTION ? gpt_cut_copies(model_of(r), r->stage->cut.size) : 1;
}

/* Elements of k and v, which are after those of q; v is after k. */
static size_t kv_elems(const struct layer_run *r, enum gpt_tensor_name of_q)
{
    size_t features = 2 * gpt_cut_kv_heads(r->stage->cut, model_of(r)).count * (size_t)gpt_head_width(model_of(r));
    return of_q == GPT_Q_WEIGHT ? features * r->d : features;
}

/* Set the gradients of k and v to zero if this rank's copy does not add to them. Those of q are not
 * copies. */
static dt_status begin_kv_gradients(const struct layer_run *r)
{
    int copies = copies_of_kv(r);
    if (copies == 1 || !r->accumulate || layer_adds_to_copy(r, r->stage->cut.rank % copies))
        return DT_OK;
    DT_TRY(dt_zero(r->stream, layer_grad(r, GPT_K_WEIGHT), kv_elems(r, GPT_Q_WEIGHT) * r->element_bytes));
    return gpt_has_tensor(r->layer, GPT_K_BIAS) ? dt_zero(r->stream, layer_grad(r, GPT_K_BIAS), kv_elems(r, GPT_Q_BIAS) * r->element_bytes)
                                                : DT_OK;
}

static dt_status sum_kv_gradients_begin(const struct layer_run *r)
{
    struct dt_exchange *x = &r->stage->exchange;
    if (copies_of_kv(r) == 1)
        return DT_OK;
    DT_TRY(dt_all_reduce_begin(x, x->group.copies, DT_EXCHANGE_GRADIENTS, r->stream, layer_grad(r, GPT_K_WEIGHT), kv_elems(r, GPT_Q_WEIGHT),
                               model_of(r)->dtype));
    return gpt_has_tensor(r->layer, GPT_K_BIAS)
               ? dt_all_reduce_begin(x, x->group.copies, DT_EXCHANGE_GRADIENTS, r->stream, layer_grad(r, GPT_K_BIAS),
                                     kv_elems(r, GPT_Q_BIAS), model_of(r)->dtype)
               : DT_OK;
}

dt_status layer_shared_weight_gradients(const struct layer_run *r, const void *dy, const void *x, enum gpt_tensor_name weight,
                                        enum gpt_tensor_name bias, size_t out)
{
    DT_TRY(begin_kv_gradients(r));
    DT_TRY(layer_weight_gradients(r, dy, x, weight, bias, out, r->d));
    return sum_kv_gradients_begin(r);
}

/* ---- the end of a group ---- */

/* Whether the pass has begun to sum gradients of the layer over the ranks. */
static bool sums_gradients(const struct layer_run *r)
{
    bool of_norm = r->stage->sliced && inputs_now(r) && has_norm(r->layer);
    bool of_gains = shared(r) && inputs_now(r) && gpt_has_tensor(r->layer, GPT_Q_NORM_GAIN);
    return of_norm || of_gains || (weights_now(r) && copies_of_kv(r) > 1);
}

dt_status layer_finish_gradients(const struct layer_run *r)
{
    struct layer_run at = *r;
    bool waited = false;
    for (int i = r->group->first_layer; shared(r) && i < r->group->first_layer + r->group->layer_count; i++) {
        at.layer = &r->stage->layers[i];
        at.kept = &r->stash->layers[i];
        if (!waited && sums_gradients(&at)) {
            DT_TRY(dt_exchange_wait(&r->stage->exchange, DT_EXCHANGE_GRADIENTS)); /* waits for the last sum, and so for all */
            waited = true;
        }
        if (at.kept->dnorm.bytes == 0)
            continue;
        DT_TRY(dt_kernels_add(r->stage->base.kernels, r->stream, false, layer_grad(&at, GPT_NORM_GAIN), at.kept->dnorm.data,
                              gpt_norm_elems(model_of(r))));
        dt_free(r->stream, &at.kept->dnorm);
    }
    return DT_OK;
}

/* ---- between the residual stream and the products of a layer ---- */

/* If ranks share the rows of a tensor, its FP8 scale depends on the largest number on all ranks. */
static dt_status share_amax(const struct layer_run *r)
{
    struct dt_buffer amax;
    if (!of_block(r) || !dt_fp8_recipe(model_of(r)->fp8)->shares_parts)
        return DT_OK;
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, sizeof(float), &amax));
    DT_TRY(dt_all_reduce_begin(&r->stage->exchange, r->stage->exchange.group.comm, DT_EXCHANGE_INPUT, r->stream, amax.data, 1, DT_FP32));
    DT_TRY(dt_exchange_wait(&r->stage->exchange, DT_EXCHANGE_INPUT));
    dt_free(r->stream, &amax);
    return DT_OK;
}

dt_status layer_gather_begin(const struct layer_run *r, const struct dt_buffer *own, enum dt_category category, struct dt_buffer *all)
{
    /* the products of a block read FP8, which is cast before it is sent: two numbers take the place
     * of one */
    size_t columns = of_block(r) && model_of(r)->fp8 ? (r->d + 1) / 2 : r->d;
    DT_TRY(share_amax(r));
    DT_TRY(layer_allocate(r, category, columns, all));
    return dt_all_gather_begin(&r->stage->exchange, r->stage->exchange.group.comm, DT_EXCHANGE_INPUT, r->stream, own->data, all->data,
                               r->stream_rows * columns, model_of(r)->dtype);
}

dt_status layer_gather_end(const struct layer_run *r)
{
    struct dt_exchange *x = &r->stage->exchange;
    x->input_comes = x->group.overlap && of_block(r);
    return x->input_comes ? DT_OK : dt_exchange_wait(x, DT_EXCHANGE_INPUT);
}

dt_status layer_gather(const struct layer_run *r, enum dt_category category, struct dt_buffer *rows)
{
    struct dt_buffer all;
    if (!r->stage->sliced)
        return DT_OK;
    DT_TRY(layer_gather_begin(r, rows, category, &all));
    DT_TRY(layer_gather_end(r));
    dt_free(r->stream, rows);
    *rows = all;
    return DT_OK;
}

dt_status layer_allocate_summand(const struct layer_run *r, enum dt_category category, struct dt_buffer *out)
{
    return layer_allocate(r, r->stage->sliced ? DT_WORKSPACE : category, r->d, out);
}

dt_status layer_sum_begin(const struct layer_run *r, enum dt_category category, const struct dt_buffer *summand, struct dt_buffer *sum)
{
    struct dt_exchange *x = &r->stage->exchange;
    *sum = (struct dt_buffer){0};
    if (!shared(r))
        return DT_OK;
    if (!r->stage->sliced)
        return dt_all_reduce_begin(x, x->group.comm, DT_EXCHANGE_SUM, r->stream, summand->data, r->rows * r->d, model_of(r)->dtype);
    DT_TRY(layer_allocate_stream(r, category, sum));
    return dt_reduce_scatter_begin(x, x->group.comm, DT_EXCHANGE_SUM, r->stream, summand->data, sum->data, r->stream_rows * r->d,
                                   model_of(r)->dtype);
}

dt_status layer_sum_in_turn(const struct layer_run *r, const struct dt_buffer *summand, int products)
{
    struct dt_exchange *x = &r->stage->exchange;
    if (x->group.sums_in_turn == 0)
        return DT_OK;
    for (int i = 1; x->group.sums_in_turn > 1 && !r->stage->sliced && i < products; i++)
        DT_TRY(dt_all_reduce_begin(x, x->group.comm, DT_EXCHANGE_SUM, r->stream, summand->data, r->rows * r->d, model_of(r)->dtype));
    return dt_exchange_wait(x, DT_EXCHANGE_SUM);
}

dt_status layer_sum_end(const struct layer_run *r, struct dt_buffer *summand, const struct dt_buffer *sum)
{
    if (!shared(r))
        return DT_OK;
    DT_TRY(dt_exchange_wait(&r->stage->exchange, DT_EXCHANGE_SUM));
    if (r->stage->sliced) {
        dt_free(r->stream, summand);
        *summand = *sum;
    }
    return DT_OK;
}

dt_status layer_sum_up(const struct layer_run *r, enum dt_category category, struct dt_buffer *summand)
{
    struct dt_buffer sum;
    r->stage->exchange.sums_product = r->stage->sliced && r->stage->exchange.group.overlap && of_block(r);
    DT_TRY(layer_sum_begin(r, category, summand, &sum));
    return layer_sum_end(r, summand, &sum);
}
