/* Matrix products, and the choice of how to compute them.
 *
 * There are two ways: by the processor's tile unit for bf16 (matmul.h), where operations that
 * follow a product are done as its sums are stored; and by oneDNN (product_onednn.h), where they
 * are separate passes. The environment variable DTBENCH_CPU_PRODUCTS chooses:
 *
 *   not set    bf16 by the tile unit if there is AMX and the system lets this process use it; all
 *              else by oneDNN
 *   onednn     all by oneDNN
 *   amx        as not set, but a bf16 model without AMX is an error
 *   twin       bf16 by an implementation of the tile unit in plain C: for tests, many times
 *              slower */
#pragma once

#include "gpt/cpu/loops/loops.h"
#include "gpt/cpu/matmul/product.h"

struct gpt_cpu_products;

/* isa: the instruction set of the loops, which this build must have. Owner: the caller, who
 * destroys. Errors: DT_ERR_INVALID for another value of the variable, DT_ERR_UNAVAILABLE,
 * DT_ERR_DEVICE, DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_products_create(enum dt_dtype dtype, enum dt_cpu_isa isa, enum gpt_mlp_kind mlp, int threads,
                                  struct gpt_cpu_products **out);
void gpt_cpu_products_destroy(struct gpt_cpu_products *products); /* takes NULL */
DT_DESTROYS(gpt_cpu_products_destroy, struct gpt_cpu_products)

/* "amx", "twin" or "onednn": a literal. */
const char *gpt_cpu_products_name(const struct gpt_cpu_products *products);

/* Runs now, on the calling thread's OpenMP team, which is set to `threads`; one call at a time for
 * one object. Errors: DT_ERR_DEVICE (oneDNN's failures), DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_multiply(struct gpt_cpu_products *products, const struct gpt_cpu_product *product);
