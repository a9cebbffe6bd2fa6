/* The final norm, the head and the loss: at once, or the head in pieces of the rows. */
#include "gpt/stage_layers.h"

dt_status turn_final_norm_forward(const struct turn *t)
{
    DT_TRY(turn_keep_norm_input(t));
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    return turn_norm(t, t->stash->x.data);
}

dt_status turn_final_norm_backward(const struct turn *t)
{
    struct dt_buffer dnormed;
    turn_take(&dnormed, &t->stash->dx);
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, t->d, &t->stash->dx));
    DT_TRY(turn_norm_gradient(t, dnormed.data, t->stash->dx.data, true));
    dt_free(t->stream, &dnormed);
    turn_free_norm_input(t);
    return DT_OK;
}

/* logits [rows, V] of the rows from `first_row` on become their gradient. */
static dt_status loss(const struct turn *t, void *logits, size_t first_row)
{
    struct gpt_loss a = {
        .logits = logits,
        .targets = (const int32_t *)t->stash->targets.data + first_row,
        .loss = t->stage->loss.data,
        .rows = t->rows,
        .gradient_scale = t->gradient_scale,
        .loss_scale = t->loss_scale,
        .sum = t->stage->sum_loss,
    };
    return t->k->loss(t->stage->kernels, t->stream, &a);
}

/* A simulated framework holds the model's output while backward runs, and so has the logits twice where they are made again. */
static dt_status hold_output(const struct turn *t)
{
    size_t copies = t->stash->output_copies > 1 ? (size_t)t->stash->output_copies : 1;
    if (t->recompute || t->stash->output.data)
        return t->recompute ? turn_keep_framework(t) : DT_OK;
    return dt_alloc(t->stream, DT_ACTIVATIONS, copies * t->k->output_bytes(t->stage->kernels, t->stash->samples), &t->stash->output);
}

dt_status turn_head_forward(const struct turn *t)
{
    size_t V = (size_t)t->stage->model->vocab_size;
    turn_take(&t->kept->input, &t->stash->x);
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, V, &t->kept->logits));
    DT_TRY(hold_output(t));
    DT_TRY(turn_linear(t, t->kept->logits.data, t->kept->input.data, "weight", NULL, V, t->d));
    return loss(t, t->kept->logits.data, 0);
}

dt_status turn_head_backward(const struct turn *t)
{
    size_t V = (size_t)t->stage->model->vocab_size;
    DT_TRY(turn_linear_gradients(t, t->kept->logits.data, t->kept->input.data, "weight", NULL, V, t->d));
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, t->d, &t->stash->dx));
    DT_TRY(turn_linear_input_gradient(t, t->stash->dx.data, t->kept->logits.data, "weight", V, t->d));
    dt_free(t->stream, &t->kept->logits);
    dt_free(t->stream, &t->kept->framework);
    dt_free(t->stream, &t->kept->input);
    return DT_OK;
}

dt_status turn_head_in_pieces(const struct turn *t, const struct dt_buffer *x, const struct dt_buffer *dx, size_t piece_rows)
{
    size_t V = (size_t)t->stage->model->vocab_size, row_bytes = t->d * t->element_bytes;
    struct turn piece = *t;
    struct dt_buffer logits;
    DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, piece_rows * V * t->element_bytes, &logits));
    for (size_t row = 0; row < t->rows; row += piece_rows) {
        const char *input = (const char *)x->data + row * row_bytes;
        piece.rows = t->rows - row < piece_rows ? t->rows - row : piece_rows;
        piece.accumulate = t->accumulate || row > 0;
        DT_TRY(turn_linear(&piece, logits.data, input, "weight", NULL, V, t->d));
        DT_TRY(loss(&piece, logits.data, row));
        DT_TRY(turn_linear_gradients(&piece, logits.data, input, "weight", NULL, V, t->d));
        DT_TRY(turn_linear_input_gradient(&piece, (char *)dx->data + row * row_bytes, logits.data, "weight", V, t->d));
    }
    dt_free(t->stream, &logits);
    return DT_OK;
}
