/* A tuning of this family (struct dt_tuning): the products to be measured, and the known
 * algorithms. No CUDA in here; tune.c measures, and linear_plan.c asks for known algorithms. */
#pragma once

#include "gpt/cuda/product.h"
#include "lib/model/tuning.h"

/* Size of cuBLASLt's description of an algorithm, which can be stored and used again with the same
 * version of cuBLASLt (its manual, cublasLtMatmulAlgo_t). */
enum { GPT_ALGORITHM_BYTES = 64, GPT_TUNED_MOST = 16384 };

struct gpt_listed_product {
    enum dt_dtype dtype;
    struct gpt_cuda_product_shape shape;
};

/* An entry of a file. */
struct gpt_tuned_product {
    char gpu[128], library[48]; /* "NVIDIA H100 80GB HBM3", "cuBLASLt 13.0.2" */
    struct gpt_listed_product product;
    char algorithm[2 * GPT_ALGORITHM_BYTES + 1]; /* hexadecimal */
    int place;                                   /* number among the algorithms that the library named: 0 is its first */
    double us, first_us;                         /* microseconds of one product with this algorithm, and with the library's first */
};

struct dt_tuning {
    char name[512]; /* name of the file that was read last; "" */
    struct gpt_listed_product *listed;
    int listed_count, listed_room;
    struct gpt_tuned_product *known;
    int known_count, known_room;
    struct {
        int products, changed; /* changed: number of those whose fastest algorithm is not the library's first */
        double us, first_us;   /* sums over the products */
        char gpu[128], library[48];
    } measured; /* the last measurement */
};

/* Add one product to be measured, unless it is listed already. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_tuning_list(struct dt_tuning *tuning, enum dt_dtype dtype, const struct gpt_cuda_product_shape *shape);

/* NULL: the tuning does not have the product. */
struct gpt_tuned_product *gpt_tuning_find(const struct dt_tuning *tuning, const char *gpu, const char *library,
                                          const struct gpt_listed_product *product);
/* Add an entry, in place of that of the same product, GPU and library. Errors: DT_ERR_HOST_MEMORY;
 * DT_ERR_INVALID above GPT_TUNED_MOST. */
dt_status gpt_tuning_add(struct dt_tuning *tuning, const struct gpt_tuned_product *product);
/* One line about the last measurement. */
void gpt_tuning_describe(const struct dt_tuning *tuning, char *out, size_t out_bytes);
/* Refuse a tuning without entries for this GPU and library. Errors: DT_ERR_INVALID. */
dt_status gpt_tuning_check(const struct dt_tuning *tuning, const char *gpu, const char *library);

void gpt_algorithm_to_text(const void *algorithm, char text[2 * GPT_ALGORITHM_BYTES + 1]);
bool gpt_algorithm_from_text(const char *text, void *algorithm); /* false: the text is not an algorithm */

/* tuning_json.c: `read` and `write` of struct dt_tuner. */
dt_status gpt_tuning_read(struct dt_tuning *tuning, const char *name, const char *text);
dt_status gpt_tuning_write(const struct dt_tuning *tuning, char **out);

/* tune.c, or none.c: `measure` of struct dt_tuner. */
dt_status gpt_cuda_tune(struct dt_tuning *tuning, struct dt_device *device, const struct dt_tune_hooks *hooks);
