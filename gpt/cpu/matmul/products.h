/* Matrix products, and which way they go.
 *
 * Two ways: by the processor's tile unit for bf16 (matmul.h), where what follows a product is done as its sums are stored; and on oneDNN
 * (product_onednn.h), where it is a pass of its own. Which one: the environment variable DTBENCH_CPU_PRODUCTS:
 *
 *   not set    bf16 by the tile unit where there is AMX and the system lets this process use it; all else on oneDNN
 *   onednn     all on oneDNN
 *   amx        as not set, but a bf16 model without AMX is an error
 *   twin       bf16 by the tile unit's twin in plain C: for tests, many times slower */
#ifndef GPT_CPU_PRODUCTS_H
#define GPT_CPU_PRODUCTS_H

#include "gpt/cpu/loops/loops.h"
#include "gpt/cpu/matmul/product.h"

struct gpt_cpu_products;

/* With loops for `isa`, which this build has. Owner: the caller, who destroys. Errors: DT_ERR_INVALID for another value of the variable, DT_ERR_UNAVAILABLE, DT_ERR_DEVICE,
 * DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_products_create(enum dt_dtype dtype, enum dt_cpu_isa isa, enum gpt_mlp_kind mlp, int threads,
                                  struct gpt_cpu_products **out);
void gpt_cpu_products_destroy(struct gpt_cpu_products *products); /* takes NULL */

/* "amx", "twin" or "onednn": a literal. */
const char *gpt_cpu_products_name(const struct gpt_cpu_products *products);

/* Runs now, on the calling thread's OpenMP team, which is set to `threads`; one call at a time for one object.
 * Errors: DT_ERR_DEVICE (oneDNN's failures), DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_multiply(struct gpt_cpu_products *products, const struct gpt_cpu_product *product);

#endif
