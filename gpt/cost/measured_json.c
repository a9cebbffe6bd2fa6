/* "measured" of a profile: reading and writing. */
#include "gpt/cost/measured.h"

#include <stddef.h>

/* A kernel, or, after the last, a copy within the device. */
static const char *kernel_choice(int index)
{
    return index <= GPT_KERNEL_COUNT ? gpt_kernel_info((enum gpt_kernel_kind)index)->name : NULL;
}

static const char *variant_choice(int index)
{
    static const char *const names[GPT_VARIANTS] = {"plain", "dropout", "unfused", "accumulate"};
    return index < GPT_VARIANTS ? names[index] : NULL;
}

static const char *dtype_choice(int index)
{
    return index < DT_DTYPE_COUNT ? dt_dtype_name((enum dt_dtype)index) : NULL;
}

#define AT(member) .offset = offsetof(struct gpt_measured, member)
#define SHAPE(index) AT(shape[index]), .min = 1, .max = 1e12
#define SECONDS(member) AT(member), .min = 1e-9, .max = 1e6

static const struct dt_field fields[] = {
    {"kernel", DT_FIELD_ENUM, AT(kernel), .choice = kernel_choice,
     .description = "one of those under \"kernels\", or a copy within the device"},
    {"variant", DT_FIELD_ENUM, AT(variant), .choice = variant_choice, .description = "what makes it another kernel of the same shape"},
    {"dtype", DT_FIELD_ENUM, AT(dtype), .choice = dtype_choice, .description = "of its operands"},
    {"ranks", DT_FIELD_INT, AT(ranks), .min = 1, .max = 4096, .description = "on the machine"},
    {"threads", DT_FIELD_INT, AT(threads), .min = 1, .max = 65536, .description = "of a rank"},
    {"rows", DT_FIELD_NUMBER, SHAPE(0),
     .description = "rows; of attention samples * heads; elements where a kernel has no rows; of a copy bytes"},
    {"columns", DT_FIELD_NUMBER, SHAPE(1), .description = "columns; out; of attention T; 1 where there are none"},
    {"inner", DT_FIELD_NUMBER, SHAPE(2), .description = "in; of attention the width of a head; of embeddings V + T; 1 where there is none"},
    {"alone_s", DT_FIELD_NUMBER, SECONDS(alone_s), .description = "seconds while the other ranks rest"},
    {"together_s", DT_FIELD_NUMBER, SECONDS(together_s), .description = "seconds while all ranks do the same"},
};

const struct dt_list *gpt_measured_table(void)
{
    static const struct dt_table table = {.fields = fields, .count = sizeof fields / sizeof fields[0], .complete = true};
    static const struct dt_list list = {&table, sizeof(struct gpt_measured), GPT_MEASURED_MAX};
    return &list;
}

dt_status gpt_measured_read(const struct cJSON *array, const char *where, struct gpt_measured_list *out)
{
    return dt_config_read_list(gpt_measured_table(), array, where, out->entries, &out->count);
}

dt_status gpt_measured_write(const struct gpt_measured_list *list, struct cJSON **out)
{
    return dt_config_write_list(gpt_measured_table(), list->entries, list->count, out);
}
