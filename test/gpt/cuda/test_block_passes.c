/* How many kernels the cuda device starts for a transformer block, forward and backward, and how
 * often they pass over memory: what fusing kernels saves, counted on the emulated GPU.
 *
 * A launch is a kernel, a product of cuBLASLt, a copy or a fill. A pass is rows x d elements that a
 * kernel reads, or that it writes; what it reads several times counts once, since caches have it.
 * What each kernel reads and what it writes are rounded down to whole passes, so that gains, biases
 * and partial sums do not count; whole pages count, and so v's columns with those of q and k that
 * rope turns. Products and attention's tiles are left out: they are bound by arithmetic, and no
 * fusion takes their operands away.
 *
 * The limits are what is reached today. A change that needs more makes a step slower; a change that
 * needs less lowers them. */
#include "gpt/family.h"
#include "gpt/kernel_set.h"
#include "gpt/stage.h"
#include "lib/model/stage.h"
#include "test/check.h"
#include "test/cuda_emulator/runtime/watch.h"

#include <stdlib.h>

enum { SAMPLES = 8, MOST = 256 };

static struct dt_device *device;
static struct dt_stream *stream;

static void open_device(const struct dt_device_options *options)
{
    CHECK_OK(dt_device_create("cuda", options, &device));
    CHECK_OK(dt_stream_create(device, "compute", &stream));
}

static void close_device(void)
{
    dt_stream_destroy(stream);
    dt_device_destroy(device);
}

/* d is small compared with the rows, so that arrays of d elements are a small part of a pass. */
static const struct gpt_model gpt = {.layers = 3, .heads = 2, .hidden = 128, .vocab_size = 64, .block_size = 32, .dropout = 0.1f};

struct count {
    int launches, passes;
};

static int warpgroup_launches; /* launches of Hopper's own kernels */
static char doubt[240];        /* of their trial */

static bool is_of_warpgroups(const char *name)
{
    return strstr(name, ", warpgroups") != NULL;
}

/* Products: of cuBLASLt, of attention, and Hopper's own. */
static bool is_of_products(const char *name)
{
    return strcmp(name, "cuBLASLt's product") == 0 || strcmp(name, "attention") == 0 || strcmp(name, "attention gradient") == 0 ||
           is_of_warpgroups(name);
}

static int passes_of(const struct emulator_touch *touch, double pass_bytes)
{
    return is_of_products(touch->name) ? 0
                                       : (int)((double)touch->read_bytes / pass_bytes) + (int)((double)touch->written_bytes / pass_bytes);
}

/* Print the watched kernels, one line each, and add them to *sum. */
static void add_up(const char *when, const struct dt_model *model, struct count *sum)
{
    struct emulator_touch touches[MOST];
    double pass_bytes = (double)SAMPLES * gpt_of(model)->block_size * gpt_of(model)->hidden * (double)dt_dtype_bytes(model->dtype);
    CHECK_OK(dt_stream_synchronize(stream));
    size_t count = emulator_watch_end(touches, MOST);
    CHECK(count <= MOST, "%zu pieces of work", count);
    for (size_t i = 0; i < count && i < MOST; i++) {
        int passes = passes_of(&touches[i], pass_bytes);
        printf("# %-8s %-22s %2d passes (read %.2f, written %.2f)\n", when, touches[i].name, passes,
               (double)touches[i].read_bytes / pass_bytes, (double)touches[i].written_bytes / pass_bytes);
        sum->launches++;
        sum->passes += passes;
        warpgroup_launches += is_of_warpgroups(touches[i].name);
    }
}

/* Groups of the stage: the embedding, three blocks, of which the one between two others is counted,
 * the end. */
enum { GROUPS = 5, BLOCK = 2 };

static struct dt_buffer buffers[2 * GROUPS];

static void give_memory(struct dt_stage *stage)
{
    for (int g = 0; g < stage->group_count; g++) {
        struct dt_group *group = &stage->groups[g];
        size_t bytes = group->param_elems * dt_dtype_bytes(stage->model->dtype);
        CHECK_OK(dt_alloc(stream, DT_PARAMETERS, bytes, &buffers[2 * g]));
        CHECK_OK(dt_alloc(stream, DT_GRADIENTS, bytes, &buffers[2 * g + 1]));
        group->params = buffers[2 * g].data;
        group->grads = buffers[2 * g + 1].data;
        CHECK_OK(dt_init_params(stage, group, 0, group->param_elems, group->params, stream));
    }
}

static struct count count_block(const struct dt_model *model, int keep)
{
    struct count sum = {0, 0};
    struct dt_kernels *kernels;
    struct dt_stage *stage;
    struct dt_stash stash;
    struct dt_layers all = {.end = gpt_layer_count(model)};
    struct dt_stage_options options = {.parts = &all, .part_count = 1, .unit = DT_UNIT_BLOCK, .keep = keep, .seed = 3};
    float scale = 1.0f / (float)(SAMPLES * gpt_of(model)->block_size);

    CHECK_OK(dt_kernels_create(&gpt_own_kernels, model, device, &kernels));
    snprintf(doubt, sizeof doubt, "%s", kernels->trials.doubt);
    CHECK_OK(dt_stage_create(model, &options, kernels, stream, &stage));
    CHECK(stage->group_count == GROUPS, "%d groups", stage->group_count);
    for (int g = 0; g < GROUPS - 1; g++)
        stage->groups[g].goes_on = true;
    CHECK_OK(dt_stash_create(stage, 0, &stash));
    give_memory(stage);
    CHECK_OK(dt_kernels_begin_step(kernels, stream, 0, 1));
    CHECK_OK(dt_zero(stream, stage->loss.data, sizeof(double)));
    CHECK_OK(dt_stash_begin(stage, &stash, SAMPLES, 0, stream));
    for (int g = 0; g < GROUPS; g++) {
        CHECK_OK(dt_stream_synchronize(stream));
        bool counts = g == BLOCK && emulator_watch_begin();
        CHECK_OK(gpt_forward(stage, g, &stash, (struct dt_loss_scales){scale, scale}, stream));
        if (counts)
            add_up("forward", model, &sum);
    }
    for (int g = GROUPS - 1; g >= BLOCK; g--) {
        CHECK_OK(dt_stream_synchronize(stream));
        bool counts = g == BLOCK && emulator_watch_begin();
        CHECK_OK(gpt_backward(stage, g, &stash, DT_BACKWARD_WHOLE, stream));
        if (counts)
            add_up("backward", model, &sum);
    }
    dt_stash_end(&stash, stream);
    for (int i = 0; i < 2 * GROUPS; i++)
        dt_free(stream, &buffers[i]);
    dt_stash_destroy(stage, &stash, stream);
    dt_stage_destroy(stage, stream);
    dt_kernels_destroy(kernels);
    return sum;
}

/* warpgroups: launches of Hopper's own kernels. */
static void check(const struct gpt_model *of, int keep, struct count most, int warpgroups)
{
    struct dt_model model = gpt_model_of(DT_FP16, of);
    model.family = &gpt_family;
    if (!emulator_watch_begin())
        SKIP("this processor does not tell reads from writes");
    emulator_watch_end(NULL, 0);
    warpgroup_launches = 0;
    struct count seen = count_block(&model, keep);
    CHECK(warpgroup_launches == warpgroups, "%d launches of Hopper's own kernels, not %d", warpgroup_launches, warpgroups);
    printf("# a block: %d launches, %d passes over memory\n", seen.launches, seen.passes);
    CHECK(seen.launches > 0 && seen.launches <= most.launches, "%d launches, and at most %d are allowed", seen.launches, most.launches);
    CHECK(seen.passes > 0 && seen.passes <= most.passes, "%d passes, and at most %d are allowed", seen.passes, most.passes);
}

/* Of warpgroups: attention's forward and the two kernels of its backward, and the gradient of
 * mlp_down's input, at whose end is exact GELU's. */
static void study(void)
{
    check(&gpt, 0, (struct count){21, 28}, 4);
}

static void study_keeping(void)
{
    check(&gpt, DT_KEEP_NORMS | DT_KEEP_MLP, (struct count){21, 26}, 4);
}

static void check_with(enum dt_warpgroup_kernels kernels, int keep, struct count most, int warpgroups)
{
    close_device();
    open_device(&(struct dt_device_options){.warpgroup_kernels = kernels});
    check(&gpt, keep, most, warpgroups);
    close_device();
    open_device(NULL);
}

static void without_warpgroups(void)
{
    check_with(DT_WARPGROUPS_NEVER, 0, (struct count){21, 44}, 0);
    check_with(DT_WARPGROUPS_NEVER, DT_KEEP_NORMS | DT_KEEP_MLP, (struct count){21, 38}, 0);
}

/* The trial finds one kernel wrong: it alone is not used, and without a trial it is. */
static void a_wrong_kernel(void)
{
    setenv("DTBENCH_EMULATED_WRONG_PRODUCTS", "attention gradient, warpgroups", 1);
    check(&gpt, 0, (struct count){21, 28}, 2);
    CHECK(strstr(doubt, "kernel of attention gradient is not used") != NULL, "doubt: %s", doubt);
    setenv("DTBENCH_EMULATED_WRONG_PRODUCTS", "gelu gradient, warpgroups", 1);
    check(&gpt, 0, (struct count){21, 44}, 3);
    CHECK(strstr(doubt, "kernel of gelu gradient is not used") != NULL, "doubt: %s", doubt);
    check_with(DT_WARPGROUPS_ALWAYS, 0, (struct count){21, 28}, 4);
    CHECK(!*doubt, "doubt: %s", doubt);
    unsetenv("DTBENCH_EMULATED_WRONG_PRODUCTS");
}

/* GELU's tanh form and relu are cuBLASLt's to do. */
static void check_mlp(enum gpt_mlp_kind mlp, int keep, struct count most)
{
    struct gpt_model other = gpt;
    other.mlp = mlp;
    check(&other, keep, most, 3);
}

static void tanh_form(void)
{
    check_mlp(GPT_MLP_GELU_NEW, 0, (struct count){20, 28});
}

static void tanh_form_keeping(void)
{
    check_mlp(GPT_MLP_GELU_NEW, DT_KEEP_NORMS | DT_KEEP_MLP, (struct count){19, 18});
}

static void relu(void)
{
    check_mlp(GPT_MLP_RELU, 0, (struct count){20, 32});
}

static const struct gpt_model llama = {
    .layers = 3,
    .heads = 2,
    .hidden = 128,
    .vocab_size = 64,
    .block_size = 32,
    .norm = GPT_NORM_RMS,
    .mlp = GPT_MLP_SWIGLU,
    .position = GPT_POSITION_ROPE,
};

static void llama_block(void)
{
    check(&llama, 0, (struct count){22, 56}, 3);
}

static void llama_keeping(void)
{
    check(&llama, DT_KEEP_NORMS | DT_KEEP_MLP, (struct count){22, 50}, 3);
}

static const struct test_case cases[] = {
    {"the study's block", study},
    {"the study's block with what is cheap kept", study_keeping},
    {"the study's block without Hopper's own kernels", without_warpgroups},
    {"the study's block where one of Hopper's own kernels is wrong", a_wrong_kernel},
    {"GPT-2's block", tanh_form},
    {"GPT-2's block with what is cheap kept", tanh_form_keeping},
    {"OPT's block", relu},
    {"Llama's block", llama_block},
    {"Llama's block with what is cheap kept", llama_keeping},
};

int main(void)
{
    unsetenv("DTBENCH_POISON"); /* because its fills would be counted */
    open_device(NULL);
    int code = test_main(cases, sizeof cases / sizeof *cases);
    close_device();
    return code;
}
