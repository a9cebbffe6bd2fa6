#include "gpt/cuda/tuning.h"

#include "lib/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status no_memory(int products)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d products", products);
}

static bool same_product(const struct gpt_listed_product *a, const struct gpt_listed_product *b)
{
    return a->dtype == b->dtype && gpt_cuda_product_shapes_equal(&a->shape, &b->shape);
}

/* ---- products to be measured ---- */

dt_status gpt_tuning_list(struct dt_tuning *t, enum dt_dtype dtype, const struct gpt_cuda_product_shape *shape)
{
    struct gpt_listed_product product = {dtype, *shape};
    for (int i = 0; i < t->listed_count; i++)
        if (same_product(&t->listed[i], &product))
            return DT_OK;
    if (!DT_ROOM(t->listed, t->listed_count, t->listed_room))
        return no_memory(t->listed_count + 1);
    t->listed[t->listed_count++] = product;
    return DT_OK;
}

/* ---- known algorithms ---- */

static bool is_of(const struct gpt_tuned_product *p, const char *gpu, const char *library)
{
    return strcmp(p->gpu, gpu) == 0 && strcmp(p->library, library) == 0;
}

struct gpt_tuned_product *gpt_tuning_find(const struct dt_tuning *t, const char *gpu, const char *library,
                                          const struct gpt_listed_product *product)
{
    for (int i = 0; i < t->known_count; i++)
        if (same_product(&t->known[i].product, product) && is_of(&t->known[i], gpu, library))
            return &t->known[i];
    return NULL;
}

dt_status gpt_tuning_add(struct dt_tuning *t, const struct gpt_tuned_product *product)
{
    struct gpt_tuned_product *there = gpt_tuning_find(t, product->gpu, product->library, &product->product);
    if (!there && t->known_count == GPT_TUNED_MOST)
        return dt_fail(DT_ERR_INVALID, "a tuning has room for %d products: write another file", GPT_TUNED_MOST);
    if (!there && !DT_ROOM(t->known, t->known_count, t->known_room))
        return no_memory(t->known_count + 1);
    there = there ? there : &t->known[t->known_count++];
    *there = *product;
    return DT_OK;
}

dt_status gpt_tuning_check(const struct dt_tuning *t, const char *gpu, const char *library)
{
    for (int i = 0; i < t->known_count; i++)
        if (is_of(&t->known[i], gpu, library))
            return DT_OK;
    if (t->known_count == 0)
        return dt_fail(DT_ERR_INVALID, "%s: it knows no product; write it with dtbench tune", t->name);
    return dt_fail(DT_ERR_INVALID, "%s: its products were measured on %s with %s, and this is %s with %s: run dtbench tune here", t->name,
                   t->known[0].gpu, t->known[0].library, gpu, library);
}

void gpt_tuning_describe(const struct dt_tuning *t, char *out, size_t out_bytes)
{
    int changed = t->measured.changed, products = t->measured.products;
    double saved = t->measured.first_us > 0 ? 100 * (1 - t->measured.us / t->measured.first_us) : 0;
    snprintf(out, out_bytes,
             "%d product%s on %s with %s; for %d of them an algorithm is faster than the library's first; one of each takes %.1f %% less",
             products, products == 1 ? "" : "s", t->measured.gpu, t->measured.library, changed, saved);
}

/* ---- algorithms as text ---- */

void gpt_algorithm_to_text(const void *algorithm, char text[2 * GPT_ALGORITHM_BYTES + 1])
{
    const unsigned char *bytes = algorithm;
    for (int i = 0; i < GPT_ALGORITHM_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool gpt_algorithm_from_text(const char *text, void *algorithm)
{
    unsigned char *bytes = algorithm;
    if (strlen(text) != 2 * (size_t)GPT_ALGORITHM_BYTES)
        return false;
    for (int i = 0; i < GPT_ALGORITHM_BYTES; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(16 * high + low);
    }
    return true;
}
