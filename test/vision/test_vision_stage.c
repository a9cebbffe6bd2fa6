/* Whole small networks on the cpu device in fp32: backward against differences of the loss, in one
 * go, in halves, and with layers computed once more; and groups of samples, whose statistics do not
 * depend on how samples are divided. */
#include "lib/model/stage.h"
#include "test/check.h"
#include "test/vision/model_of.h"
#include "vision/stage.h"

#include <stdlib.h>

enum { SAMPLES = 4 };

struct fixture {
    struct dt_model model;
    struct dt_device *device;
    struct dt_stream *stream;
    struct dt_kernels *kernels;
    struct dt_stage *stage;
    struct dt_stash stash;
    float *params, *grads;
};

/* How a step is run: weights' gradients after all inputs'; every layer but the last forgotten, and
 * computed again; in how many pieces; with every second layer's input made again by backward
 * (goes_on). */
struct way {
    bool halves, again;
    int pieces;
    bool goes_on;
};

static const struct vision_model networks[] = {
    {{1, 1, 1, 1}, 64, 5, VISION_BASIC, 8, VISION_CLASSIFIER, 32, 0, 0, false, 2, VISION_AVERAGE, 0},
    {{1, 2, 1, 1}, 67, 7, VISION_BOTTLENECK, 4, VISION_CLASSIFIER, 32, 0, 0, false, 2, VISION_AVERAGE, 0},
    {{1, 1, 2, 2}, 40, 3, VISION_BOTTLENECK, 4, VISION_DEEPLAB, 8, 8, 0.4, true, 2, VISION_AVERAGE, 0},
};

static bool fixture_init(struct fixture *f, const struct vision_model *network, int keep)
{
    struct dt_device_options options = {.threads = 1, .local_size = 1}; /* oneDNN's threads wait for each other in busy loops */
    char reason[256];
    *f = (struct fixture){.model = vision_model_of(DT_FP32, network)};
    if (!vision_kernels_available(dt_device_kind_find("cpu"), reason, sizeof reason)) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%.200s", reason);
        return false;
    }
    CHECK_OK(dt_device_create("cpu", &options, &f->device));
    CHECK_OK(dt_stream_create(f->device, "compute", &f->stream));
    CHECK_OK(dt_kernels_create(&vision_own_kernels, &f->model, f->device, &f->kernels));
    struct dt_layers all = {.end = vision_layer_count(&f->model)};
    struct dt_stage_options stage = {.parts = &all, .part_count = 1, .seed = 3, .keep = keep};
    CHECK_OK(dt_stage_create(&f->model, &stage, f->kernels, f->stream, &f->stage));
    CHECK_OK(dt_stash_create(f->stage, 0, &f->stash));
    f->params = calloc(f->stage->param_elems, sizeof(float));
    f->grads = calloc(f->stage->param_elems, sizeof(float));
    size_t offset = 0;
    for (int g = 0; g < f->stage->group_count; g++) {
        struct dt_group *group = &f->stage->groups[g];
        group->params = f->params + offset;
        group->grads = f->grads + offset;
        size_t half = group->param_elems / 2; /* in two pieces, as shards are */
        CHECK_OK(dt_init_params(f->stage, group, 0, half, group->params, f->stream));
        CHECK_OK(dt_init_params(f->stage, group, half, group->param_elems - half, f->params + offset + half, f->stream));
        offset += group->param_elems;
    }
    CHECK_OK(dt_stream_synchronize(f->stream));
    return true;
}

static void fixture_finish(struct fixture *f)
{
    if (!f->device)
        return;
    struct dt_memory_usage usage;
    dt_stash_destroy(f->stage, &f->stash, f->stream);
    dt_stage_destroy(f->stage, f->stream);
    dt_kernels_destroy(f->kernels);
    CHECK_OK(dt_stream_synchronize(f->stream));
    dt_memory_usage(f->device, &usage);
    CHECK(usage.device.current_total_bytes == 0, "%zu bytes are left", (size_t)usage.device.current_total_bytes);
    dt_stream_destroy(f->stream);
    dt_device_destroy(f->device);
    free(f->params);
    free(f->grads);
}

static void forward(struct fixture *f, struct way way, int terms, struct dt_buffer *inputs)
{
    float scale = 1.0f / (float)(SAMPLES * terms);
    int last = f->stage->group_count - 1;
    for (int g = 0; g <= last; g++) {
        CHECK_OK(vision_forward(f->stage, g, &f->stash, (struct dt_loss_scales){scale, scale}, f->stream));
        if (way.again && g < last)
            dt_stash_forget(f->stage, &f->stash, g, g + 1, f->stream, &inputs[g]);
    }
}

static void backward(struct fixture *f, struct way way, struct dt_buffer *inputs)
{
    for (int g = f->stage->group_count - 1; g >= 0; g--) {
        if (way.again && g < f->stage->group_count - 1) {
            f->stash.x = inputs[g];
            CHECK_OK(vision_recompute(f->stage, g, &f->stash, true, f->stream));
        }
        CHECK_OK(vision_backward(f->stage, g, &f->stash, way.halves ? DT_BACKWARD_INPUT : DT_BACKWARD_WHOLE, f->stream));
    }
    for (int g = f->stage->group_count - 1; way.halves && g >= 0; g--)
        CHECK_OK(vision_backward(f->stage, g, &f->stash, DT_BACKWARD_WEIGHTS, f->stream));
}

static double loss_of(struct fixture *f, struct way way)
{
    struct dt_model_facts facts = {.loss_terms = vision_of(&f->model)->head == VISION_DEEPLAB ? vision_of(&f->model)->image_size : 1};
    int terms = facts.loss_terms * facts.loss_terms;
    double loss = 0;
    for (int g = 0; g < f->stage->group_count - 1; g++)
        f->stage->groups[g].goes_on = way.goes_on;
    memset(f->grads, 0xff, f->stage->param_elems * sizeof *f->grads); /* memory that is not written, or added to by mistake, is NaN */
    CHECK_OK(dt_zero(f->stream, f->stage->loss.data, sizeof(double)));
    for (int piece = 0; piece < way.pieces; piece++) {
        struct dt_buffer inputs[16] = {{0}};
        size_t samples = (size_t)(SAMPLES / way.pieces);
        for (int g = 0; g < f->stage->group_count; g++)
            f->stage->groups[g].accumulate = piece > 0;
        CHECK_OK(dt_stash_begin(f->stage, &f->stash, samples, 5 + (uint32_t)piece * (uint32_t)samples, f->stream));
        forward(f, way, terms, inputs);
        backward(f, way, inputs);
        dt_stash_end(&f->stash, f->stream);
    }
    CHECK_OK(dt_copy_to_host(f->stream, &loss, f->stage->loss.data, sizeof loss));
    CHECK_OK(dt_stream_synchronize(f->stream));
    return loss;
}

/* Along a random direction in each layer's parameters the loss changes as its gradient says.
 * Differences of fp32's losses over a small step are not exact, and a ReLU that changes its mind
 * within it makes them worse: a few in a hundred are allowed. */
static void compare_with_differences(struct fixture *f)
{
    const float STEP = 3e-5f;
    float *analytic = malloc(f->stage->param_elems * sizeof *analytic), *before = malloc(f->stage->param_elems * sizeof *before);
    loss_of(f, (struct way){.pieces = 1});
    memcpy(analytic, f->grads, f->stage->param_elems * sizeof *analytic);
    memcpy(before, f->params, f->stage->param_elems * sizeof *before);
    size_t first = 0;
    for (int g = 0; g < f->stage->group_count; first += f->stage->groups[g++].param_elems) {
        double along = 0, norm = 0, change[2], end = (double)(first + f->stage->groups[g].param_elems);
        for (size_t i = first; i < (size_t)end; i++)
            norm += (double)analytic[i] * (double)analytic[i];
        norm = sqrt(norm);
        for (int side = 0; side < 2; side++) {
            along = 0;
            for (size_t i = first; i < (size_t)end; i++) { /* mostly along the gradient, where rounding shows least */
                double step = (double)analytic[i] / norm + 0.02 * ((double)(i * 2654435761u % 1000) / 500 - 1) / sqrt(end - (double)first);
                f->params[i] = before[i] + (side ? -STEP : STEP) * (float)step;
                along += (double)analytic[i] * step;
            }
            change[side] = loss_of(f, (struct way){.pieces = 1});
        }
        memcpy(f->params, before, f->stage->param_elems * sizeof *before);
        double found = (change[0] - change[1]) / (2 * (double)STEP);
        CHECK(fabs(found - along) < 0.03 * along, "layer %d: the gradient says %.5g, differences say %.5g", g, along, found);
    }
    free(analytic);
    free(before);
}

static void test_gradients(void)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct fixture f;
        if (fixture_init(&f, &networks[i], 0))
            compare_with_differences(&f);
        fixture_finish(&f);
    }
}

/* Whatever the way, loss and gradients are the same to the last bit; but in two pieces sums over
 * samples are rounded in between. */
static void test_ways_are_the_same(void)
{
    static const struct way ways[] = {{.pieces = 1},
                                      {.halves = true, .pieces = 1},
                                      {.again = true, .pieces = 1},
                                      {.halves = true, .again = true, .pieces = 1},
                                      {.again = true, .pieces = 2},
                                      {.pieces = 1, .goes_on = true},
                                      {.halves = true, .pieces = 1, .goes_on = true},
                                      {.pieces = 2, .goes_on = true}};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        float *wanted = NULL;
        double loss = 0;
        uint64_t peak = 0; /* of the first way */
        for (size_t w = 0; w < 2 * sizeof ways / sizeof *ways; w++) {
            struct fixture f;
            if (!fixture_init(&f, &networks[i], w % 2 ? DT_KEEP_NORMS : 0))
                return;
            double found = loss_of(&f, ways[w / 2]), largest = 0, worst = 0;
            struct dt_memory_usage usage;
            dt_memory_usage(f.device, &usage);
            peak = w == 0 ? usage.device.peak_total_bytes : peak;
            bool less = ways[w / 2].goes_on && !ways[w / 2].halves && w % 2 == 0; /* halves keep everything until the weights' turn */
            CHECK(!less || usage.device.peak_total_bytes < peak, "network %zu, way %zu: a peak of %zu bytes, not less than %zu", i, w,
                  (size_t)usage.device.peak_total_bytes, (size_t)peak);
            wanted = wanted ? wanted : memcpy(malloc(f.stage->param_elems * sizeof(float)), f.grads, f.stage->param_elems * sizeof(float));
            loss = w == 0 ? found : loss;
            for (size_t p = 0; p < f.stage->param_elems; p++) {
                largest = fmax(largest, (double)fabsf(wanted[p]));
                double off = (double)fabsf(f.grads[p] - wanted[p]);
                worst = off <= worst ? worst : off;
            }
            double allowed = ways[w / 2].pieces > 1 ? 1e-5 : 0;
            CHECK(fabs(found - loss) <= allowed * loss, "network %zu, way %zu: loss %.9g, not %.9g", i, w, found, loss);
            CHECK(worst <= allowed * largest, "network %zu, way %zu: gradients differ by %g of %g", i, w, worst, largest);
            fixture_finish(&f);
        }
        free(wanted);
    }
}

/* Running statistics move once a step, and not again where forward is computed once more. */
static void test_running_statistics(void)
{
    float *first = NULL;
    for (int again = 0; again < 2; again++) {
        struct fixture f;
        if (!fixture_init(&f, &networks[1], 0))
            return;
        struct vision_stage *s = (struct vision_stage *)f.stage;
        float *now = malloc(s->base.state.bytes);
        size_t moved = 0, count = s->base.state.bytes / sizeof *now;
        loss_of(&f, (struct way){.again = again, .pieces = 1});
        CHECK_OK(dt_copy_to_host(f.stream, now, s->base.state.data, s->base.state.bytes));
        CHECK_OK(dt_stream_synchronize(f.stream));
        for (size_t i = 0; i < count; i++)
            moved += now[i] != s->initial_state[i];
        CHECK(moved > count * 9 / 10, "%zu of %zu statistics have moved", moved, count);
        CHECK(!first || memcmp(first, now, s->base.state.bytes) == 0, "statistics move more where layers are computed again");
        if (!first)
            first = now;
        else
            free(now);
        fixture_finish(&f);
    }
    free(first);
}

static const struct test_case cases[] = {
    {"gradients are those of the loss", test_gradients},
    {"halves, recomputation and pieces change nothing", test_ways_are_the_same},
    {"running statistics move once a step", test_running_statistics},
};

TEST_MAIN(cases)
