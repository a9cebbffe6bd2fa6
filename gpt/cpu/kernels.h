/* The cpu kernels' internal header: the object, and the entries of the table by file. */
#pragma once

#include "gpt/cpu/loops/loops.h"
#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/team.h"

#include <pthread.h>

struct gpt_kernels {
    struct dt_kernels *base; /* the kernels of all families. Calls copy the step's first sample from it when they are queued */
    struct dt_model model;
    int threads;
    struct gpt_simd simd;
    const struct dt_simd *flat, *flat_fp32; /* for arrays of the model's dtype, and for sums kept in fp32 */
    /* The scratch memory of products and attention is used by one kernel at a time, on any
     * stream. */
    pthread_mutex_t mutex;
    struct gpt_cpu_products *products;
    struct gpt_cpu_attention *attention;
    float *rope; /* [T, 2, w / 2] cosines and sines of each position's angles; NULL without rope */
};

/* The table's create, with a given instruction set instead of the processor's best, for tests.
 * DT_ERR_UNAVAILABLE if this machine does not have it. */
dt_status gpt_kernels_cpu_create(struct dt_kernels *base, const struct dt_model *model, enum dt_cpu_isa isa, struct gpt_kernels **out);

/* The entries of the table: elementwise.c, embedding.c, norm.c, rows.c, swiglu.c, rope.c, linear.c,
 * attention.c. */
#define DECLARE(entry, arguments, ...) GPT_KERNEL_FUNCTION(gpt_cpu_##entry, arguments);
GPT_KERNELS(DECLARE, GPT_NO_KERNEL_ROW, DECLARE)
#undef DECLARE

/* rope.c: the table of angles; NULL for a model without rope. Owner: the caller, who frees it.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_rope_table(const struct dt_model *model, float **out);

/* The dropout with its samples' global numbers. Call it when the kernel is queued. */
struct gpt_dropout gpt_cpu_dropout(const struct gpt_kernels *k, const struct gpt_dropout *dropout);

/* The masks of a queued dropout, and row `row` of a call's M rows in them. */
struct gpt_dropout_rows gpt_cpu_dropout_rows(const struct gpt_kernels *k, const struct gpt_dropout *dropout);
struct gpt_dropout_row gpt_cpu_dropout_row(const struct gpt_kernels *k, const struct gpt_dropout *dropout, size_t row);

/* Queue a kernel over rows that are independent of each other. */
static inline dt_status gpt_cpu_submit_rows(const struct gpt_kernels *k, struct dt_stream *stream, const char *label, dt_cpu_items make,
                                            size_t rows, const void *arguments, size_t arguments_bytes)
{
    const struct dt_cpu_work work = {.make = make, .k = k, .count = rows, .granule = 1, .threads = k->threads};
    return dt_cpu_submit_work(stream, label, &work, arguments, arguments_bytes);
}

static inline size_t gpt_cpu_element_bytes(const struct gpt_kernels *k)
{
    return dt_dtype_bytes(k->model.dtype);
}

/* Row r of a matrix [.., columns] of the model's dtype. */
static inline void *gpt_cpu_row(const struct gpt_kernels *k, const void *matrix, size_t r, size_t columns)
{
    return (char *)matrix + r * columns * gpt_cpu_element_bytes(k);
}
