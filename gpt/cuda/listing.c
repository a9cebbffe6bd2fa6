/* Kernels that compute nothing, and record the products that they are called for. A step on device
 * sim so shows the products of a step on a GPU, with the alignments that its arrays will have. */
#include "gpt/cuda/tuning.h"

#include <stdlib.h>

struct gpt_kernels {
    struct dt_tuning *to;
    struct dt_model model;
};

dt_status gpt_kernels_listing_create(struct dt_tuning *to, const struct dt_model *model, struct gpt_kernels **out)
{
    *out = calloc(1, sizeof **out);
    DT_TRY(dt_allocated(*out, "no host memory for a list of products"));
    **out = (struct gpt_kernels){to, *model};
    return DT_OK;
}

static dt_status listing_create(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out)
{
    *out = NULL;
    return dt_fail(DT_ERR_INVALID, "kernels that list products are made for a list");
}

static void listing_destroy(struct gpt_kernels *k)
{
    free(k);
}

static dt_status note(struct gpt_kernels *k, struct gpt_cuda_product product)
{
    struct gpt_cuda_product_shape shape = gpt_cuda_product_shape(&product);
    return gpt_tuning_list(k->to, k->model.dtype, &shape);
}

/* Kernels without a product. */
#define NOTHING(entry, arguments, ...)                                                                                                     \
    static GPT_KERNEL_FUNCTION(list_##entry, arguments)                                                                                    \
    {                                                                                                                                      \
        return DT_OK;                                                                                                                      \
    }
NOTHING(tokens, gpt_tokens)
NOTHING(embedding, gpt_embedding)
NOTHING(embedding_gradient, gpt_embedding_gradient)
NOTHING(layer_norm, gpt_norm)
NOTHING(layer_norm_gradient, gpt_norm_gradient)
NOTHING(rms_norm, gpt_norm)
NOTHING(rms_norm_gradient, gpt_norm_gradient)
NOTHING(head_norm, gpt_head_norm)
NOTHING(head_norm_gradient, gpt_head_norm_gradient)
NOTHING(gelu, gpt_gelu)
NOTHING(gelu_gradient, gpt_gelu_gradient)
NOTHING(swiglu, gpt_swiglu)
NOTHING(swiglu_gradient, gpt_swiglu_gradient)
NOTHING(move, gpt_move)
NOTHING(rope, gpt_rope)
NOTHING(attention, gpt_attention_forward)
NOTHING(attention_gradient, gpt_attention_backward)
NOTHING(dropout_residual, gpt_dropout_residual)
NOTHING(dropout_gradient, gpt_dropout_gradient)
NOTHING(loss, gpt_loss)
NOTHING(loss_part, gpt_loss_part)
NOTHING(loss_gradient, gpt_loss_gradient)
NOTHING(residual_norm, gpt_residual_norm)
NOTHING(norm_branch_gradient, gpt_norm_branch_gradient)
NOTHING(attention_rope_gradient, gpt_attention_backward)

static GPT_KERNEL_FUNCTION(list_linear, gpt_linear)
{
    return note(k, gpt_cuda_product_forward(a));
}

/* Entries that combine a product with other kernels; linear.c computes the product separately. */
static GPT_KERNEL_FUNCTION(list_linear_residual, gpt_linear_residual)
{
    struct gpt_linear plain = a->linear;
    if (a->active)
        plain.x = a->active;
    return note(k, gpt_cuda_product_forward(&plain));
}

static GPT_KERNEL_FUNCTION(list_linear_input_gradient, gpt_linear_input_gradient)
{
    return note(k, gpt_cuda_product_input_gradient(a));
}

static GPT_KERNEL_FUNCTION(list_linear_gelu, gpt_linear_gelu)
{
    bool in_one = gpt_cuda_product_takes_gelu(&k->model, a->linear.out, a->linear.y);
    if (a->active == a->linear.y)
        return note(k, gpt_cuda_product_relu(&a->linear));
    return note(k, in_one ? gpt_cuda_product_gelu(a) : gpt_cuda_product_forward(&a->linear));
}

static dt_status note_gelu_gradient(struct gpt_kernels *k, const struct gpt_linear_gelu_input_gradient *a, void *db)
{
    bool in_one = gpt_cuda_product_takes_gelu(&k->model, a->linear.in, a->hidden);
    return note(k, in_one ? gpt_cuda_product_gelu_gradient(a, db) : gpt_cuda_product_input_gradient(&a->linear));
}

static GPT_KERNEL_FUNCTION(list_linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
{
    return note_gelu_gradient(k, a, NULL);
}

static GPT_KERNEL_FUNCTION(list_gelu_gradient_sums, gpt_gelu_gradient_sums)
{
    return note_gelu_gradient(k, &a->product, a->accumulate ? NULL : a->db);
}

static GPT_KERNEL_FUNCTION(list_linear_weight_gradient, gpt_linear_weight_gradient)
{
    return note(k, gpt_cuda_product_weight_gradient(a));
}

static GPT_KERNEL_FUNCTION(list_linear_gelu_weight_gradient, gpt_linear_gelu_weight_gradient)
{
    struct gpt_linear_weight_gradient plain = a->linear;
    plain.x = a->active;
    return note(k, gpt_cuda_product_weight_gradient(&plain));
}

#define ROW(entry, ...) .entry = list_##entry,
const struct gpt_kernel_table gpt_kernels_listing = {.name = "listing",
                                                     .create = listing_create,
                                                     .destroy = listing_destroy,
                                                     GPT_FUSED_KERNELS(ROW) GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, ROW)};
