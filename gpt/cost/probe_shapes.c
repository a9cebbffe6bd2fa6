/* The shapes that calibration times. Sizes are a factor of three or four apart, because the time
 * between them is smooth. They range from one sample of a small model to sizes beyond which the
 * speed is constant. */
#include "gpt/cost/probe_shapes.h"
#include "gpt/kernels.h"

#define SHARED(kind, ...) {.kernel = DT_PRICED_##kind, __VA_ARGS__}
#define GRID(kind, kind_variant, ...) {.kernel = GPT_KERNEL_##kind, .variant = DT_VARIANT_##kind_variant, __VA_ARGS__}
#define ROWS(...) .rows = {__VA_ARGS__}
#define COLUMNS(...) .columns = {__VA_ARGS__}
#define INNER(...) .inner = {__VA_ARGS__}
#define PRODUCTS(kind, variant)                                                                                                            \
    GRID(kind, variant, ROWS(64, 256, 1024), COLUMNS(128, 512, 2048), INNER(128, 512)),                                                    \
        GRID(kind, variant, ROWS(64, 256, 1024), COLUMNS(128, 512, 1024), INNER(1024, 2048)),                                              \
        GRID(kind, variant, ROWS(64, 256, 1024), COLUMNS(8192), INNER(128, 512))
#define ATTENTIONS(kind, variant) GRID(kind, variant, ROWS(8, 48), COLUMNS(64, 256), INNER(32, 64))
#define OF_ROWS(kind, variant) GRID(kind, variant, ROWS(256, 2048), COLUMNS(128, 512))
#define EMBEDDINGS(kind, variant) GRID(kind, variant, ROWS(256, 2048), COLUMNS(128, 512), INNER(1024, 8192))
#define FLAT ROWS(1 << 13, 1 << 16, 1 << 19, 1 << 21)

const struct dt_grid gpt_probe_full[] = {
    PRODUCTS(LINEAR, PLAIN),
    PRODUCTS(LINEAR_INPUT_GRADIENT, PLAIN),
    PRODUCTS(LINEAR_WEIGHT_GRADIENT, PLAIN),
    GRID(LINEAR_WEIGHT_GRADIENT, ACCUMULATE, ROWS(64, 256, 1024), COLUMNS(128, 512, 2048), INNER(128, 512)),
    ATTENTIONS(ATTENTION, PLAIN),
    ATTENTIONS(ATTENTION, DROPOUT),
    ATTENTIONS(ATTENTION, UNFUSED),
    ATTENTIONS(ATTENTION_GRADIENT, PLAIN),
    ATTENTIONS(ATTENTION_GRADIENT, DROPOUT),
    ATTENTIONS(ATTENTION_GRADIENT, UNFUSED),
    OF_ROWS(LAYER_NORM, PLAIN),
    OF_ROWS(LAYER_NORM_GRADIENT, PLAIN),
    OF_ROWS(RMS_NORM, PLAIN),
    OF_ROWS(RMS_NORM_GRADIENT, PLAIN),
    OF_ROWS(HEAD_NORM, PLAIN),
    OF_ROWS(HEAD_NORM_GRADIENT, PLAIN),
    OF_ROWS(ROPE, PLAIN),
    OF_ROWS(SWIGLU, PLAIN),
    OF_ROWS(SWIGLU_GRADIENT, PLAIN),
    OF_ROWS(DROPOUT_RESIDUAL, PLAIN),
    OF_ROWS(DROPOUT_RESIDUAL, DROPOUT),
    OF_ROWS(DROPOUT_GRADIENT, PLAIN),
    OF_ROWS(DROPOUT_GRADIENT, DROPOUT),
    EMBEDDINGS(EMBEDDING, DROPOUT),
    EMBEDDINGS(EMBEDDING_GRADIENT, DROPOUT),
    GRID(LOSS, PLAIN, ROWS(64, 512), COLUMNS(512, 8192)),
    GRID(GELU, PLAIN, FLAT),
    GRID(GELU_GRADIENT, PLAIN, FLAT),
    SHARED(SGD, ROWS(1 << 13, 1 << 16, 1 << 19, 1 << 21, 1 << 23)),
    SHARED(ADAM, FLAT),
    SHARED(ADD, ROWS(1 << 13, 1 << 16, 1 << 19, 1 << 21, 1 << 23)),
    SHARED(COPY, FLAT),
    {0},
};

const struct dt_grid gpt_probe_quick[] = {
    GRID(LINEAR, PLAIN, ROWS(64), COLUMNS(64, 256), INNER(64)),
    GRID(LINEAR_INPUT_GRADIENT, PLAIN, ROWS(64), COLUMNS(64, 256), INNER(64)),
    GRID(LINEAR_WEIGHT_GRADIENT, PLAIN, ROWS(64), COLUMNS(64, 256), INNER(64)),
    GRID(ATTENTION, PLAIN, ROWS(8), COLUMNS(32), INNER(16)),
    GRID(ATTENTION_GRADIENT, PLAIN, ROWS(8), COLUMNS(32), INNER(16)),
    GRID(LAYER_NORM, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(LAYER_NORM_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(RMS_NORM, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(RMS_NORM_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(HEAD_NORM, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(HEAD_NORM_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(ROPE, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(SWIGLU, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(SWIGLU_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(DROPOUT_RESIDUAL, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(DROPOUT_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(EMBEDDING, PLAIN, ROWS(64), COLUMNS(64), INNER(256)),
    GRID(EMBEDDING_GRADIENT, PLAIN, ROWS(64), COLUMNS(64), INNER(256)),
    GRID(LOSS, PLAIN, ROWS(64), COLUMNS(256)),
    GRID(GELU, PLAIN, ROWS(1 << 13)),
    GRID(GELU_GRADIENT, PLAIN, ROWS(1 << 13)),
    SHARED(SGD, ROWS(1 << 13)),
    SHARED(ADAM, ROWS(1 << 13)),
    SHARED(ADD, ROWS(1 << 13)),
    SHARED(COPY, ROWS(1 << 13)),
    {0},
};
