/* Convolutions by oneDNN. Images are stored with channels last, which oneDNN's kernels read and
 * write directly. Weights are small compared with images, and converted to oneDNN's preferred
 * layout for each call, in scratch memory that the ledger does not count. */
#include "vision/cpu/kernels.h"

#include "lib/base/grow.h"
#include "lib/kernels/cpu/team.h"
#include "vision/cpu/onednn.h"

#include <stdlib.h>
#include <string.h>

/* With fewer channels than an AVX-512 vector has lanes, oneDNN's kernels for the weight gradients
 * of strided 1x1 windows write past the end of their scratch memory, in versions 2 and 3: wrong
 * gradients, or a crash (uxlfoundation/oneDNN, issue 6035). */
enum { VECTOR = 16 };

/* Two calls with equal members differ only in their pointers, and share a primitive. */
struct kind {
    enum vision_pass pass;
    struct vision_sliding over;
    bool has_bias, accumulate;
};

/* One pass of a convolution, ready to run. */
struct primitive {
    struct kind kind;
    /* reorder: weights from the parameters, or their gradient to the gradients; NULL: both have the
     * same layout */
    dnnl_primitive_t convolution, reorder;
    dnnl_memory_t source, weights, bias, target, scratch, parameters;
    size_t weights_bytes, bias_bytes, scratch_bytes;
};

struct vision_convolutions {
    dnnl_data_type_t type;
    struct dt_onednn onednn;
    struct primitive *primitives;
    int count;
    struct dt_cpu_scratch scratch; /* weights, gradient of the bias, oneDNN's scratchpad */
    bool converts;                 /* bf16 without AVX-512, for which oneDNN has no convolution: compute in fp32 */
    struct dt_cpu_scratch wide;    /* operands that are converted */
};

dt_status vision_convolutions_create(enum dt_dtype dtype, struct vision_convolutions **out)
{
    struct vision_convolutions *c = calloc(1, sizeof *c);
    *out = NULL;
    DT_TRY(dt_allocated(c, "cpu kernels: no host memory"));
    c->converts = dtype == DT_BF16 && dt_cpu_isa() < DT_ISA_AVX512;
    c->type = dtype == DT_BF16 && !c->converts ? dnnl_bf16 : dnnl_f32;
    dnnl_status_t status = dt_onednn_create(&c->onednn);
    if (status != dnnl_success) {
        vision_convolutions_destroy(c);
        return dt_fail(DT_ERR_DEVICE, "oneDNN: no cpu engine: status %d", (int)status);
    }
    *out = c;
    return DT_OK;
}

static void destroy_primitive(struct primitive *p)
{
    dnnl_memory_t memories[] = {p->source, p->weights, p->bias, p->target, p->scratch, p->parameters};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    if (p->convolution)
        dnnl_primitive_destroy(p->convolution);
    if (p->reorder)
        dnnl_primitive_destroy(p->reorder);
}

void vision_convolutions_destroy(struct vision_convolutions *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->count; i++)
        destroy_primitive(&c->primitives[i]);
    dt_onednn_destroy(&c->onednn);
    free(c->primitives);
    dt_cpu_scratch_free(&c->scratch);
    dt_cpu_scratch_free(&c->wide);
    free(c);
}

/* ---- primitives ---- */

static struct vision_onednn_convolution describe(dnnl_data_type_t type, const struct primitive *p)
{
    const struct vision_sliding *o = &p->kind.over;
    int kernel = o->window.kernel, stride = o->window.stride, apart = o->window.dilation - 1, padding = o->window.padding;
    return (struct vision_onednn_convolution){
        .type = type,
        .source = {(dnnl_dim_t)o->samples, o->in.channels, o->in.height, o->in.width},
        .weights = {o->out.channels, o->in.channels, kernel, kernel},
        .bias = {o->out.channels},
        .target = {(dnnl_dim_t)o->samples, o->out.channels, o->out.height, o->out.width},
        .strides = {stride, stride},
        .dilations = {apart, apart},
        .padding = {padding, padding},
        .has_bias = p->kind.has_bias,
        .without_1x1 = kernel == 1 && stride > 1 && o->in.channels < VECTOR,
    };
}

static dnnl_status_t make_memories(struct vision_convolutions *c, struct primitive *p, const_dnnl_primitive_desc_t desc)
{
    const struct {
        dnnl_query_t source, weights, target;
    } operands[] =
        {
            [VISION_FORWARD] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
            [VISION_INPUT_GRADIENT] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
            [VISION_WEIGHT_GRADIENT] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
        },
      *of = &operands[p->kind.pass];
    dnnl_status_t status = dt_onednn_memory(c->onednn.engine, desc, of->source, 0, &p->source, NULL);
    DT_THEN(status, dt_onednn_memory(c->onednn.engine, desc, of->weights, 0, &p->weights, &p->weights_bytes));
    if (status == dnnl_success && p->kind.has_bias)
        status = dt_onednn_memory(c->onednn.engine, desc, of->weights, 1, &p->bias, &p->bias_bytes);
    DT_THEN(status, dt_onednn_memory(c->onednn.engine, desc, of->target, 0, &p->target, NULL));
    return status == dnnl_success ? dt_onednn_memory(c->onednn.engine, desc, dnnl_query_scratchpad_md, 0, &p->scratch, &p->scratch_bytes)
                                  : status;
}

/* Copy between parameters and the operand of the pass, if their layouts differ or one is added to
 * the other. */
static dnnl_status_t make_reorder(struct vision_convolutions *c, struct primitive *p)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dt_onednn_layout outside = NULL, inside = NULL;
    dnnl_status_t status = dnnl_memory_get_memory_desc(p->parameters, &outside);
    DT_THEN(status, dnnl_memory_get_memory_desc(p->weights, &inside));
    if (status != dnnl_success || (dnnl_memory_desc_equal(outside, inside) && !p->kind.accumulate))
        return status;
    bool to_parameters = p->kind.pass == VISION_WEIGHT_GRADIENT;
    status = dnnl_primitive_attr_create(&attributes);
    if (status == dnnl_success && p->kind.accumulate)
        status = dt_onednn_accumulate(attributes);
    DT_THEN(status, dnnl_reorder_primitive_desc_create(&desc, to_parameters ? inside : outside, c->onednn.engine,
                                                       to_parameters ? outside : inside, c->onednn.engine, attributes));
    DT_THEN(status, dnnl_primitive_create(&p->reorder, desc));
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static dnnl_status_t make_primitive(struct vision_convolutions *c, struct primitive *p)
{
    const struct vision_onednn_convolution convolution = describe(c->type, p);
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t forward = NULL, desc = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
    DT_THEN(status, dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    if (status == dnnl_success && p->kind.pass != VISION_FORWARD)
        status = vision_onednn_describe(c->onednn.engine, VISION_FORWARD, &convolution, NULL, NULL, &forward);
    DT_THEN(status, vision_onednn_describe(c->onednn.engine, p->kind.pass, &convolution, attributes, forward, &desc));
    DT_THEN(status, dnnl_primitive_create(&p->convolution, desc));
    DT_THEN(status, make_memories(c, p, desc));
    DT_THEN(status, vision_onednn_parameters(c->onednn.engine, &convolution, &p->parameters));
    DT_THEN(status, make_reorder(c, p));
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_desc_destroy(forward);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static dt_status dnnl_failed(const char *what, dnnl_status_t status, const struct kind *k)
{
    return dt_fail(status == dnnl_out_of_memory ? DT_ERR_HOST_MEMORY : DT_ERR_DEVICE,
                   "oneDNN: %s for a convolution of %d x %d x %d to %d channels: status %d", what, k->over.in.channels, k->over.in.height,
                   k->over.in.width, k->over.out.channels, (int)status);
}

/* A network has some tens of different convolutions, so a linear search takes no measurable
 * time. */
static dt_status find_primitive(struct vision_convolutions *c, const struct kind *wanted, struct primitive **out)
{
    for (int i = 0; i < c->count; i++) {
        struct primitive *p = *out = &c->primitives[i];
        if (p->kind.pass == wanted->pass && p->kind.has_bias == wanted->has_bias && p->kind.accumulate == wanted->accumulate &&
            memcmp(&p->kind.over, &wanted->over, sizeof wanted->over) == 0)
            return DT_OK;
    }
    DT_TRY(dt_allocated(DT_ONE_MORE(c->primitives, c->count), "cpu kernels: no host memory"));
    *out = &c->primitives[c->count];
    **out = (struct primitive){.kind = *wanted};
    dnnl_status_t status = make_primitive(c, *out);
    if (status != dnnl_success) {
        destroy_primitive(*out);
        return dnnl_failed("none", status, wanted);
    }
    c->count++;
    return DT_OK;
}

/* ---- running ---- */

/* A queued call of one pass: images, and weights or their gradients. oneDNN only reads some of
 * these, but its interface lacks the const. */
struct call {
    struct vision_kernels *k;
    struct kind kind;
    void *source, *target, *parameters, *bias;
};

/* Parts of the scratch memory: the weights in the layout of the pass, the bias's gradient, oneDNN's
 * scratchpad. */
struct places {
    char *weights, *bias, *scratch;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static dt_status reserve(struct vision_convolutions *c, const struct primitive *p, const struct call *call, struct places *out)
{
    size_t weights = p->reorder ? aligned(p->weights_bytes) : 0, bias = aligned(p->bias_bytes);
    DT_TRY(dt_cpu_scratch_reserve(&c->scratch, weights + bias + p->scratch_bytes));
    char *data = c->scratch.data;
    *out = (struct places){p->reorder ? data : call->parameters, call->bias, data + weights + bias};
    if (p->kind.has_bias && p->kind.accumulate)
        out->bias = data + weights;
    return DT_OK;
}

static dnnl_status_t reorder(struct vision_convolutions *c, const struct primitive *p)
{
    bool to_parameters = p->kind.pass == VISION_WEIGHT_GRADIENT;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, to_parameters ? p->weights : p->parameters},
                                         {DNNL_ARG_TO, to_parameters ? p->parameters : p->weights}};
    return dnnl_primitive_execute(p->reorder, c->onednn.stream, 2, arguments);
}

static dnnl_status_t execute(struct vision_convolutions *c, const struct primitive *p)
{
    static const struct {
        int source, weights, bias, target;
    } names[] = {
        [VISION_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
        [VISION_INPUT_GRADIENT] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST},
        [VISION_WEIGHT_GRADIENT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST},
    };
    const dnnl_exec_arg_t arguments[] = {{names[p->kind.pass].source, p->source},
                                         {names[p->kind.pass].weights, p->weights},
                                         {names[p->kind.pass].target, p->target},
                                         {DNNL_ARG_SCRATCHPAD, p->scratch},
                                         {names[p->kind.pass].bias, p->bias}};
    return dnnl_primitive_execute(p->convolution, c->onednn.stream, p->kind.has_bias ? 5 : 4, arguments);
}

static dnnl_status_t run_primitive(struct vision_convolutions *c, const struct primitive *p, const struct call *call,
                                   const struct places *places)
{
    const struct {
        dnnl_memory_t memory;
        void *data;
    } all[] = {{p->source, call->source},     {p->target, call->target},     {p->parameters, call->parameters},
               {p->weights, places->weights}, {p->scratch, places->scratch}, {p->bias, places->bias}};
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < (p->kind.has_bias ? 6 : 5) && status == dnnl_success; i++)
        status = dnnl_memory_set_data_handle(all[i].memory, all[i].data);
    if (status == dnnl_success && p->reorder && p->kind.pass != VISION_WEIGHT_GRADIENT)
        status = reorder(c, p);
    DT_THEN(status, execute(c, p));
    if (status == dnnl_success && p->reorder && p->kind.pass == VISION_WEIGHT_GRADIENT)
        status = reorder(c, p);
    return status == dnnl_success ? dnnl_stream_wait(c->onednn.stream) : status;
}

static dt_status run_in_turn(const struct call *call)
{
    struct vision_convolutions *c = call->k->backend->convolutions;
    struct primitive *p = NULL;
    struct places places;
    if (call->kind.pass == VISION_WEIGHT_GRADIENT && !call->kind.has_bias && vision_weight_gradient_fits(&call->kind.over))
        return vision_weight_gradient(&call->kind.over, call->source, call->target, call->parameters, call->kind.accumulate,
                                      call->k->base.host.threads, &c->scratch);
    DT_TRY(find_primitive(c, &call->kind, &p));
    DT_TRY(reserve(c, p, call, &places));
    dnnl_status_t status = run_primitive(c, p, call, &places);
    if (status != dnnl_success)
        return dnnl_failed("running it", status, &p->kind);
    if (places.bias != call->bias)
        dt_simd_for(dt_cpu_isa(), c->type == dnnl_bf16 ? DT_BF16 : DT_FP32)
            ->add(call->bias, places.bias, (size_t)p->kind.over.out.channels);
    return DT_OK;
}

/* ---- operands converted to fp32 ---- */

struct conversion {
    const struct dt_simd *loops;
    void *narrow;
    float *wide;
    size_t count;
    bool back, add;
};

static void convert_part(void *argument, int thread, int threads)
{
    const struct conversion *v = argument;
    struct dt_cpu_share share = dt_cpu_share(v->count, 256, thread, threads);
    if (share.end == share.first) /* an operand that is NULL has no elements */
        return;
    void *narrow = (char *)v->narrow + share.first * 2;
    size_t count = share.end - share.first;
    if (!v->back)
        v->loops->widen(v->wide + share.first, narrow, count);
    else
        (v->add ? v->loops->narrow_add : v->loops->narrow)(narrow, v->wide + share.first, count);
}

/* Convert all operands to fp32, run the pass, round its result once, and then add it if
 * required. */
static dt_status run_converted(const struct call *call)
{
    const struct vision_sliding *o = &call->kind.over;
    size_t weights = (size_t)(o->out.channels * o->in.channels * o->window.kernel * o->window.kernel), at = 0;
    bool of_weights = call->kind.pass == VISION_WEIGHT_GRADIENT;
    struct call wide = *call;
    struct {
        void **data;
        size_t count;
        bool made;
    } operands[] = {{&wide.source, o->samples * vision_shape_elems(o->in), call->kind.pass == VISION_INPUT_GRADIENT},
                    {&wide.target, o->samples * vision_shape_elems(o->out), call->kind.pass == VISION_FORWARD},
                    {&wide.parameters, weights, of_weights},
                    {&wide.bias, call->kind.has_bias ? (size_t)o->out.channels : 0, of_weights}};
    struct conversion conversions[4];
    for (int i = 0; i < 4; i++)
        at += operands[i].count;
    DT_TRY(dt_cpu_scratch_reserve(&call->k->backend->convolutions->wide, at * sizeof(float)));
    float *data = call->k->backend->convolutions->wide.data;
    for (int i = 0; i < 4; data += operands[i++].count) {
        conversions[i] =
            (struct conversion){.loops = call->k->base.host.loops, .narrow = *operands[i].data, .wide = data, .count = operands[i].count};
        if (!operands[i].made)
            dt_cpu_parallel(call->k->base.host.threads, convert_part, &conversions[i]);
        *operands[i].data = data;
    }
    wide.kind.accumulate = false;
    DT_TRY(run_in_turn(&wide));
    for (int i = 0; i < 4; i++) {
        conversions[i].back = true;
        conversions[i].add = call->kind.accumulate;
        if (operands[i].made)
            dt_cpu_parallel(call->k->base.host.threads, convert_part, &conversions[i]);
    }
    return DT_OK;
}

static dt_status run(void *arguments)
{
    struct call *call = arguments;
    pthread_mutex_lock(&call->k->backend->mutex);
    dt_status status = call->k->backend->convolutions->converts ? run_converted(call) : run_in_turn(call);
    pthread_mutex_unlock(&call->k->backend->mutex);
    return status;
}

/* ---- the entries ---- */

VISION_KERNEL_FUNCTION(vision_cpu_convolution, vision_convolution)
{
    struct call call = {.k = k,
                        .kind = {.pass = VISION_FORWARD, .over = a->over, .has_bias = a->b},
                        .source = (void *)a->x,
                        .target = a->y,
                        .parameters = (void *)a->w,
                        .bias = (void *)a->b};
    return dt_cpu_submit(stream, "convolution", run, &call, sizeof call);
}

VISION_KERNEL_FUNCTION(vision_cpu_convolution_input_gradient, vision_convolution_input_gradient)
{
    struct call call = {.k = k,
                        .kind = {.pass = VISION_INPUT_GRADIENT, .over = a->over},
                        .source = a->dx,
                        .target = (void *)a->dy,
                        .parameters = (void *)a->w};
    return dt_cpu_submit(stream, "convolution input gradient", run, &call, sizeof call);
}

VISION_KERNEL_FUNCTION(vision_cpu_convolution_weight_gradient, vision_convolution_weight_gradient)
{
    struct call call = {.k = k,
                        .kind = {.pass = VISION_WEIGHT_GRADIENT, .over = a->over, .has_bias = a->db, .accumulate = a->accumulate},
                        .source = (void *)a->x,
                        .target = (void *)a->dy,
                        .parameters = a->dw,
                        .bias = a->db};
    return dt_cpu_submit(stream, "convolution weight gradient", run, &call, sizeof call);
}
