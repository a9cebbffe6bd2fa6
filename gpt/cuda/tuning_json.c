/* A tuning's file: {"tuning": 1, "products": [{...}, ...]}, with a line for each measured
 * product. */
#include "gpt/cuda/tuning.h"

#include "lib/config/config.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1 }; /* changes if the meaning of the file changes */

#define AT(member) .offset = offsetof(struct gpt_tuned_product, member), .size = sizeof(((struct gpt_tuned_product *)0)->member)
#define SIZE(member) AT(member), .min = 1, .max = 2147483647
#define ALIGNMENT(member) AT(member), .min = 1, .max = 16

static const struct dt_field fields[] = {
    {"gpu", DT_FIELD_STRING, AT(gpu), .min = 1, .max = 127, .description = "the GPU's own name"},
    {"library", DT_FIELD_STRING, AT(library), .min = 1, .max = 47, .description = "the library with its version"},
    {"dtype", DT_FIELD_ENUM, AT(product.dtype), .choice = dt_dtype_name, .description = "of operands and result"},
    {"m", DT_FIELD_U64, SIZE(product.shape.m), .description = "rows of the result, in column-major order"},
    {"n", DT_FIELD_U64, SIZE(product.shape.n), .description = "columns of the result"},
    {"k", DT_FIELD_U64, SIZE(product.shape.k), .description = "what is summed over"},
    {"transpose_a", DT_FIELD_BOOL, AT(product.shape.transpose_a), .max = 1, .description = "the first operand lies transposed"},
    {"transpose_b", DT_FIELD_BOOL, AT(product.shape.transpose_b), .max = 1, .description = "the second operand lies transposed"},
    {"epilogue", DT_FIELD_ENUM, AT(product.shape.epilogue),
     .names =
         DT_NAMES([GPT_CUDA_PLAIN] = "none", [GPT_CUDA_BIAS] = "bias", [GPT_CUDA_BIAS_GRADIENT] = "bias_gradient", [GPT_CUDA_RELU] = "relu",
                  [GPT_CUDA_BIAS_RELU] = "bias_relu", [GPT_CUDA_GELU] = "gelu", [GPT_CUDA_BIAS_GELU] = "bias_gelu",
                  [GPT_CUDA_GELU_GRADIENT] = "gelu_gradient", [GPT_CUDA_GELU_BIAS_GRADIENT] = "gelu_bias_gradient"),
     .description = "what the same kernel does beside the product"},
    {"a_bytes", DT_FIELD_INT, ALIGNMENT(product.shape.a_bytes), .description = "alignment of the first operand"},
    {"b_bytes", DT_FIELD_INT, ALIGNMENT(product.shape.b_bytes), .description = "of the second operand"},
    {"d_bytes", DT_FIELD_INT, ALIGNMENT(product.shape.d_bytes), .description = "of the result"},
    {"extra_bytes", DT_FIELD_INT, ALIGNMENT(product.shape.extra_bytes), .description = "of the epilogue's array"},
    {"algorithm", DT_FIELD_STRING, AT(algorithm), .min = 2 * GPT_ALGORITHM_BYTES, .max = 2 * GPT_ALGORITHM_BYTES,
     .description = "the library's own description, in hexadecimal digits"},
    {"place", DT_FIELD_INT, AT(place), .max = 1000, .description = "among what the library named; 0 is its first"},
    {"us", DT_FIELD_NUMBER, AT(us), .max = 1e12, .description = "microseconds of one product"},
    {"first_us", DT_FIELD_NUMBER, AT(first_us), .max = 1e12, .description = "the same of the library's first algorithm"},
};

static const struct dt_table table = {.fields = fields, .count = sizeof fields / sizeof fields[0], .complete = true};
static const struct dt_list list = {&table, sizeof(struct gpt_tuned_product), GPT_TUNED_MOST};

static dt_status take(struct dt_tuning *t, const struct gpt_tuned_product *products, int count)
{
    unsigned char algorithm[GPT_ALGORITHM_BYTES];
    for (int i = 0; i < count; i++) {
        if (!gpt_algorithm_from_text(products[i].algorithm, algorithm))
            return dt_fail(DT_ERR_INVALID, "%s: products[%d].algorithm: expected %d hexadecimal digits in lower case", t->name, i,
                           2 * GPT_ALGORITHM_BYTES);
        DT_TRY(gpt_tuning_add(t, &products[i]));
    }
    return DT_OK;
}

static dt_status read_products(struct dt_tuning *t, const struct cJSON *array)
{
    char where[sizeof t->name + 16];
    int count = cJSON_GetArraySize(array);
    snprintf(where, sizeof where, "%s: products", t->name);
    if (!cJSON_IsArray(array))
        return dt_fail(DT_ERR_INVALID, "%s: expected a list of objects", where);
    DT_FREED struct gpt_tuned_product *products =
        calloc((size_t)(count > 0 && count <= GPT_TUNED_MOST ? count : GPT_TUNED_MOST), sizeof *products);
    DT_TRY(dt_allocated(products, "no host memory for %d products", count));
    DT_TRY(dt_config_read_list(&list, array, where, products, &count));
    return take(t, products, count);
}

dt_status gpt_tuning_read(struct dt_tuning *t, const char *name, const char *text)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    snprintf(t->name, sizeof t->name, "%s", name);
    DT_TRY(dt_json_parse(text, strlen(text), name, &object));
    const struct cJSON *format = cJSON_GetObjectItemCaseSensitive(object, "tuning");
    return cJSON_IsNumber(format) && format->valuedouble == FORMAT
               ? read_products(t, cJSON_GetObjectItemCaseSensitive(object, "products"))
               : dt_fail(DT_ERR_INVALID, "%s: tuning: expected %d: this is no file of dtbench tune, or one of another version", name,
                         FORMAT);
}

dt_status gpt_tuning_write(const struct dt_tuning *t, char **out)
{
    struct cJSON *object = cJSON_CreateObject(), *products = NULL;
    dt_status status = object && cJSON_AddNumberToObject(object, "tuning", FORMAT)
                           ? dt_config_write_list(&list, t->known, t->known_count, &products)
                           : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a tuning");
    if (status == DT_OK) {
        cJSON_AddItemToObject(object, "products", products);
        status = dt_json_print(object, DT_JSON_FIT, out);
    }
    cJSON_Delete(object);
    return status;
}
