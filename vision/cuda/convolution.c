/* Convolutions by cuDNN, with channels last. Each pass of each shape has one plan for the whole
 * run: the fastest algorithm, by cuDNN's heuristic, of those that give the same bits every time.
 * Nothing is timed, so that two runs on the same kind of GPU with the same library give the same
 * results.
 *
 * The floor of each is 2 N P Q K C R S operations on the tensor cores; operands and result are read
 * and written once. */
#include "vision/cuda/kernels.h"

#include "lib/base/grow.h"
#include "vision/cuda/cudnn.h"
#include "vision/workspace.h"

#include <stdlib.h>
#include <string.h>

enum pass { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT };

/* How cuDNN computes one pass over one shape. */
struct plan {
    enum pass pass;
    struct vision_sliding over;
    struct cudnnTensorStruct *x, *y;
    struct cudnnFilterStruct *w;
    struct cudnnConvolutionStruct *convolution;
    int algorithm;
    size_t workspace_bytes; /* of the algorithm */
};

struct vision_cuda_convolutions {
    struct vision_cudnn dnn;
    struct cudnnContext *handle;
    enum dt_dtype dtype;
    struct plan *plans;
    int count;
};

static dt_status failed(const struct vision_cudnn *dnn, const char *what, int status, const struct vision_sliding *o)
{
    return dt_fail(DT_ERR_DEVICE, "cuDNN: %s a convolution of %d x %d x %d to %d channels: %s", what, o->in.channels, o->in.height,
                   o->in.width, o->out.channels, dnn->error_string(status));
}

static void destroy_plan(const struct vision_cudnn *dnn, struct plan *p)
{
    if (p->convolution)
        dnn->destroy_convolution(p->convolution);
    if (p->w)
        dnn->destroy_filter(p->w);
    if (p->y)
        dnn->destroy_tensor(p->y);
    if (p->x)
        dnn->destroy_tensor(p->x);
}

dt_status vision_cuda_convolutions_create(enum dt_dtype dtype, struct vision_cuda_convolutions **out)
{
    DT_DESTROYED(vision_cuda_convolutions_destroy) struct vision_cuda_convolutions *c = calloc(1, sizeof *c);
    *out = NULL;
    DT_TRY(dt_allocated(c, "cuda kernels: no host memory"));
    c->dtype = dtype;
    DT_TRY(vision_cudnn_load(&c->dnn));
    int created = c->dnn.create(&c->handle);
    if (created != CUDNN_SUCCESS)
        return dt_fail(DT_ERR_DEVICE, "cuDNN cannot start: %s", c->dnn.error_string(created));
    *out = DT_PASSED_ON(c);
    return DT_OK;
}

void vision_cuda_convolutions_destroy(struct vision_cuda_convolutions *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->count; i++)
        destroy_plan(&c->dnn, &c->plans[i]);
    if (c->handle)
        c->dnn.destroy(c->handle);
    free(c->plans);
    free(c);
}

/* ---- plans ---- */

static int type_of(enum dt_dtype dtype)
{
    return dtype == DT_FP32 ? CUDNN_FLOAT : dtype == DT_FP16 ? CUDNN_HALF : CUDNN_BFLOAT16;
}

/* Sums are fp32 in every dtype. */
static int describe(const struct vision_cuda_convolutions *c, struct plan *p)
{
    const struct vision_cudnn *dnn = &c->dnn;
    const struct vision_sliding *o = &p->over;
    const struct vision_window *w = &o->window;
    int type = type_of(c->dtype), n = (int)o->samples;
    int status = dnn->create_tensor(&p->x);
    if (status == CUDNN_SUCCESS)
        status = dnn->create_tensor(&p->y);
    if (status == CUDNN_SUCCESS)
        status = dnn->create_filter(&p->w);
    if (status == CUDNN_SUCCESS)
        status = dnn->create_convolution(&p->convolution);
    if (status == CUDNN_SUCCESS)
        status = dnn->set_tensor(p->x, CUDNN_NHWC, type, n, o->in.channels, o->in.height, o->in.width);
    if (status == CUDNN_SUCCESS)
        status = dnn->set_tensor(p->y, CUDNN_NHWC, type, n, o->out.channels, o->out.height, o->out.width);
    if (status == CUDNN_SUCCESS)
        status = dnn->set_filter(p->w, type, CUDNN_NHWC, o->out.channels, o->in.channels, w->kernel, w->kernel);
    if (status == CUDNN_SUCCESS)
        status = dnn->set_convolution(p->convolution, w->padding, w->padding, w->stride, w->stride, w->dilation, w->dilation,
                                      CUDNN_CORRELATION, CUDNN_FLOAT);
    if (status == CUDNN_SUCCESS)
        status = dnn->set_math(p->convolution, c->dtype == DT_FP32 ? CUDNN_FMA : CUDNN_TENSOR_CORES);
    return status;
}

static int ask(const struct vision_cuda_convolutions *c, const struct plan *p, struct cudnn_named *named, int *count)
{
    const struct vision_cudnn *dnn = &c->dnn;
    switch (p->pass) {
    case FORWARD: return dnn->name_forward(c->handle, p->x, p->w, p->convolution, p->y, CUDNN_MOST_NAMED, count, named);
    case INPUT_GRADIENT: return dnn->name_input_gradient(c->handle, p->w, p->y, p->convolution, p->x, CUDNN_MOST_NAMED, count, named);
    case WEIGHT_GRADIENT: break;
    }
    return dnn->name_weight_gradient(c->handle, p->x, p->y, p->convolution, p->w, CUDNN_MOST_NAMED, count, named);
}

/* The first algorithm that is deterministic and fits into the memory on which `dtbench check`
 * counts. If all of them need more, the one that needs least: the run then uses more memory than
 * check says. */
static const struct cudnn_named *choose(const struct cudnn_named *named, int count, size_t room)
{
    const struct cudnn_named *least = NULL;
    for (const struct cudnn_named *n = named; n < named + count; n++) {
        if (n->status != CUDNN_SUCCESS || n->determinism != CUDNN_REPEATABLE)
            continue;
        if (n->memory <= room)
            return n;
        least = !least || n->memory < least->memory ? n : least;
    }
    return least;
}

static dt_status make_plan(const struct vision_cuda_convolutions *c, struct plan *p)
{
    struct cudnn_named named[CUDNN_MOST_NAMED];
    int count = 0, status = describe(c, p);
    if (status != CUDNN_SUCCESS)
        return failed(&c->dnn, "describing", status, &p->over);
    status = ask(c, p, named, &count);
    if (status != CUDNN_SUCCESS)
        return failed(&c->dnn, "no algorithm for", status, &p->over);
    const struct cudnn_named *chosen = choose(named, count, vision_library_room(&p->over, c->dtype));
    if (!chosen)
        return dt_fail(DT_ERR_DEVICE, "cuDNN: of %d algorithms for a convolution of %d x %d x %d to %d channels none is deterministic",
                       count, p->over.in.channels, p->over.in.height, p->over.in.width, p->over.out.channels);
    p->algorithm = chosen->algorithm;
    p->workspace_bytes = chosen->memory;
    if (c->dtype != DT_FP32) /* as the heuristic assumed for it */
        status = c->dnn.set_math(p->convolution, chosen->math);
    return status == CUDNN_SUCCESS ? DT_OK : failed(&c->dnn, "describing", status, &p->over);
}

/* A network has some tens of different convolutions, so a linear search takes no measurable
 * time. */
static dt_status find_plan(struct vision_cuda_convolutions *c, enum pass pass, const struct vision_sliding *over, const struct plan **out)
{
    for (int i = 0; i < c->count; i++) {
        *out = &c->plans[i];
        if ((*out)->pass == pass && memcmp(&(*out)->over, over, sizeof *over) == 0)
            return DT_OK;
    }
    DT_TRY(dt_allocated(DT_ONE_MORE(c->plans, c->count), "cuda kernels: no host memory"));
    struct plan *made = &c->plans[c->count];
    *made = (struct plan){.pass = pass, .over = *over};
    dt_status status = make_plan(c, made);
    if (status < 0)
        destroy_plan(&c->dnn, made);
    else
        c->count++;
    *out = made;
    return status;
}

/* ---- running ---- */

/* A call: x and y are images, or gradients of images; w the parameters, or their gradient.
 * accumulate: added to the old result. */
struct call {
    enum pass pass;
    const struct vision_sliding *over;
    const void *x, *y;
    void *w;
    bool accumulate;
};

static int run_plan(const struct vision_cuda_convolutions *c, const struct plan *p, const struct call *call, void *w, void *workspace)
{
    const struct vision_cudnn *dnn = &c->dnn;
    const float one = 1, before = call->accumulate ? 1 : 0;
    switch (p->pass) {
    case FORWARD:
        return dnn->forward(c->handle, &one, p->x, call->x, p->w, w, p->convolution, p->algorithm, workspace, p->workspace_bytes, &before,
                            p->y, (void *)call->y);
    case INPUT_GRADIENT:
        return dnn->input_gradient(c->handle, &one, p->w, w, p->y, call->y, p->convolution, p->algorithm, workspace, p->workspace_bytes,
                                   &before, p->x, (void *)call->x);
    case WEIGHT_GRADIENT: break;
    }
    return dnn->weight_gradient(c->handle, &one, p->x, call->x, p->y, call->y, p->convolution, p->algorithm, workspace, p->workspace_bytes,
                                &before, p->w, w);
}

/* Kernels for tensor cores need addresses that are multiples of 16, but parameters begin where
 * those before them end: if not aligned, they are copied before they are read or after they are
 * written. */
static dt_status run_aligned(struct vision_cuda_convolutions *c, struct dt_stream *stream, const struct plan *p, const struct call *call,
                             char *workspace)
{
    enum { ALIGNMENT = 16 };
    size_t bytes = vision_weight_bytes(call->over, c->dtype);
    bool moved = (uintptr_t)call->w % ALIGNMENT != 0, written = p->pass == WEIGHT_GRADIENT;
    void *w = moved ? workspace : call->w;
    if (moved && (!written || call->accumulate))
        DT_TRY(dt_copy(stream, w, call->w, bytes));
    int status = c->dnn.set_stream(c->handle, dt_cuda_stream(stream));
    if (status == CUDNN_SUCCESS)
        status = run_plan(c, p, call, w, workspace + vision_weight_room(call->over, c->dtype));
    if (status != CUDNN_SUCCESS)
        return failed(&c->dnn, "running", status, call->over);
    return moved && written ? dt_copy(stream, call->w, w, bytes) : DT_OK;
}

static dt_status run(struct vision_kernels *k, struct dt_stream *stream, const struct call *call)
{
    struct vision_cuda_convolutions *c = k->backend->convolutions;
    const struct plan *p = NULL;
    struct dt_buffer workspace;
    DT_TRY(find_plan(c, call->pass, call->over, &p));
    size_t room = vision_library_room(call->over, c->dtype);
    size_t more = p->workspace_bytes > room ? p->workspace_bytes - room : 0;
    DT_TRY(dt_alloc(stream, DT_WORKSPACE, vision_workspace_bytes(call->over, c->dtype) + more, &workspace));
    dt_status status = run_aligned(c, stream, p, call, workspace.data);
    dt_free(stream, &workspace);
    return status;
}

/* ---- the entries ---- */

static size_t rows_of(const struct vision_sliding *o)
{
    return o->samples * (size_t)o->out.height * (size_t)o->out.width;
}

/* The bias is in y before the product, so that the sum is rounded once. */
VISION_KERNEL_FUNCTION(vision_cuda_convolution, vision_convolution)
{
    if (a->b)
        DT_TRY(dt_cuda_repeat_row(&k->base, stream, a->y, a->b, rows_of(&a->over), (size_t)a->over.out.channels));
    return run(k, stream, &(struct call){.pass = FORWARD, .over = &a->over, .x = a->x, .y = a->y, .w = (void *)a->w, .accumulate = a->b});
}

VISION_KERNEL_FUNCTION(vision_cuda_convolution_input_gradient, vision_convolution_input_gradient)
{
    return run(k, stream, &(struct call){.pass = INPUT_GRADIENT, .over = &a->over, .x = a->dx, .y = a->dy, .w = (void *)a->w});
}

VISION_KERNEL_FUNCTION(vision_cuda_convolution_weight_gradient, vision_convolution_weight_gradient)
{
    DT_TRY(run(k, stream,
               &(struct call){.pass = WEIGHT_GRADIENT, .over = &a->over, .x = a->x, .y = a->dy, .w = a->dw, .accumulate = a->accumulate}));
    if (!a->db)
        return DT_OK;
    return vision_cuda_bias_gradient(k, stream, a->db, a->dy, rows_of(&a->over), (size_t)a->over.out.channels, a->accumulate);
}
