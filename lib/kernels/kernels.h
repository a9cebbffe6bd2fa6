/* The kernels that every family of models needs: they initialise parameters, add gradients and
 * update parameters. They know the current step.
 *
 * Backends by kind of device: cpu (cpu/), cuda (cuda/), and sim, which computes nothing. All calls
 * queue on `stream` and return. Arrays are in device memory, and of the dtype given to
 * dt_kernels_init, unless stated otherwise. Arithmetic is fp32 inside, rounded to the dtype once at
 * the end. Arguments are copied. Each call is a span of a traced step (lib/device/span.h). Errors:
 * those of queueing; dt_stream_synchronize returns failures of the work itself. */
#pragma once

#include "lib/base/dtype.h"
#include "lib/base/status.h"
#include "lib/device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An update of `count` parameters by SGD or Adam. Gradients are first multiplied by gradient_scale,
 * and by the factor from the step's norm. Elements with a gradient that is not finite do not
 * change, and are counted (dt_kernels_overflows). If the norm skips the step, no parameter
 * changes. */
struct dt_update {
    void *params;      /* [count] */
    const void *grads; /* [count] */
    bool wide_grads;   /* gradients are fp32 */
    size_t count;
    double tensors; /* number of tensors of these parameters, approximately: the cost on sim of a framework's update tensor by tensor */
    float learning_rate, gradient_scale;
    bool adam;
    /* [count] fp32. Moments of Adam; the first one is also SGD's, with momentum, and otherwise
     * NULL. master: the values of which params are rounded copies; NULL: params themselves are
     * updated. Undefined in step 1 (begin_step): moments then begin at 0, and master as params. */
    float *first_moment, *second_moment, *master;
    float beta1, beta2, epsilon; /* adam */
    float momentum;              /* sgd: this fraction of the gradient sum of earlier steps is added to the gradient */
    /* This fraction of a parameter is added to its gradient (L2 regularization); or, if decoupled,
     * times the learning rate, subtracted from the parameter.
     * Source  Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithms 1
     *         and 2. */
    float weight_decay;
    bool decoupled; /* adam */
    bool on_host;   /* all arrays are in host memory (dt_alloc_host), and the host's processor updates them, in the stream's order */
};

/* Constants of the norm of gradients, the same in all steps. */
struct dt_norm_rule {
    float gradient_scale; /* gradients of the loss are the summed gradients, times this, divided by the loss scale */
    float clip;           /* the longest norm allowed; 0: unlimited */
    /* Factors of the loss scale: after `window` steps with finite gradients, and after a step with
     * one that is not. window 0: the scale does not change. */
    float growth, backoff;
    uint32_t window;
};

/* What a step's updates need from the norm (norm.h). Zero before the first step, except `factor`
 * and loss_scale, which are 1. */
struct dt_norm_state {
    float norm;       /* norm of this step's gradients, without the loss scale */
    float factor;     /* updates multiply gradients by this */
    float loss_scale; /* factor of the next loss, and so of its gradients */
    float used_scale; /* the loss scale of this step's gradients */
    uint32_t good;    /* steps since loss_scale changed */
    uint32_t skipped; /* number of skipped steps so far */
    bool skips;       /* this step is skipped: no parameter is updated */
};

enum dt_init { DT_INIT_NORMAL, DT_INIT_UNIFORM, DT_INIT_ZERO, DT_INIT_ONE };

/* to [count] = initial values: zeros, ones, normal deviates with standard deviation `scale`, or
 * uniform numbers in [-scale, scale) (lib/base/random.h). Random ones are elements of the tensor
 * `tensor_id`, from first_element on, in runs of run_elems, which start stride_elems apart (columns
 * of a matrix). run_done: elements of the first run that are skipped. run_elems 0: one run. */
struct dt_initial {
    void *to;
    size_t count;
    uint64_t seed, first_element;
    size_t run_elems, run_done, stride_elems;
    uint32_t tensor_id;
    enum dt_init init;
    float scale;
};

/* Kernels that replace others only if they are right on this very device. When kernels are created,
 * each of these runs once, as do the kernels that it replaces, and their results are compared.
 * Nothing is timed, so that results do not depend on timing. */
struct dt_trials {
    const char *const *names; /* of the kernels, by bit; NULL: there are none */
    unsigned in_use;          /* bits; before the first call the caller removes those that other ranks do not use */
    char doubt[240];          /* the first kernel that is not used because its trial went wrong, and why; "": none */
};

struct dt_kernel_backend;
struct dt_simd;
struct dt_cuda_step;
struct dt_own_kernels;

/* The public part of a family's kernels on one device, for one model; the family's own part follows
 * it in memory. */
struct dt_kernels {
    const struct dt_kernel_backend *backend; /* NULL: dt_kernels_init was not called, or failed */
    const struct dt_own_kernels *own;        /* the family's functions (lib/model/model.h); NULL: none, or not yet */
    struct dt_device *device;
    enum dt_dtype dtype;
    uint32_t first_sample; /* number of the step's first sample, to which families add their first_sample */
    float rate;            /* factor of the learning rates of the next step, which begin_step copies; 1 at first */
    int multiprocessors;   /* only cuda */
    struct dt_trials trials;

    /* Data for work on the host's processor: for all kernels on cpu; on cuda for updates of
     * parameters in host memory. */
    struct {
        const struct dt_simd *loops;
        int threads;
        bool updates;   /* the host has made updates */
        int step;       /* of the running work, from 1 */
        float rate;     /* of the running work */
        double squares; /* of the running work: sum over the gradients so far */
        struct dt_norm_state norm;
        uint64_t overflows; /* of the running work; incremented atomically, because updates may run on two streams */
        /* dt_cpu_submit, or the function that queues work for the host on another device. */
        dt_status (*submit)(struct dt_stream *stream, const char *label, dt_status (*task)(void *arguments), const void *arguments,
                            size_t arguments_bytes);
    } host;
    struct dt_cuda_step *cuda_step; /* only cuda: the step's numbers in device memory (cuda/kernels.h) */
    bool updated;                   /* only sim: the framework's one update of all parameters was launched in this step */
};

/* Kernels for `device`, which must outlive them; in the state of step 1. Owner of their memory: k,
 * until dt_kernels_finish, which may also be called after a failure. Errors: DT_ERR_UNAVAILABLE,
 * DT_ERR_OOM. */
dt_status dt_kernels_init(struct dt_kernels *k, struct dt_device *device, enum dt_dtype dtype);
void dt_kernels_finish(struct dt_kernels *k); /* streams must be synchronized; takes a zeroed one */

/* Call before the other work of a step, with the number of its first sample, and its number from 1,
 * which Adam uses and which does not count skipped steps. From now on k->rate is in use, and
 * overflows are 0. Queues on `stream`, for which the step's other streams must wait. No host kernel
 * of an earlier step may be queued. */
dt_status dt_kernels_begin_step(struct dt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int step);
/* *to, in host memory, becomes the number of elements that this step's updates have skipped, when
 * `stream` gets here. */
dt_status dt_kernels_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to);

/* ---- the norm of a step's gradients: lib/kernels/norm.h; without these calls gradients are used
 * unchanged ---- */

/* Add the squares of gradients x [count], of the kernels' dtype or fp32, to the step's sum on this
 * rank, in double precision and always in the same order; on_host as in struct dt_update. All calls
 * of a step must be on one stream. */
dt_status dt_kernels_add_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, enum dt_dtype dtype, const void *x,
                                 size_t count);
/* *to, in device memory or with on_host in host memory, becomes that sum, rounded. */
dt_status dt_kernels_sum_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to);
/* Compute the norm's state for this step's updates from `squares`, the sum over all ranks, in
 * device memory or with on_host in host memory. It applies to updates on the device, or with
 * on_host to those on the host; on cpu these are the same, and one call is enough. The streams of
 * updates must wait for it. */
dt_status dt_kernels_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                                 const float *squares);
/* *to, in host memory, becomes the state of the last settled norm, when `stream` gets here. The
 * second function sets the state, between steps. */
dt_status dt_kernels_norm(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to);
dt_status dt_kernels_set_norm(struct dt_kernels *k, struct dt_stream *stream, const struct dt_norm_state *from);

dt_status dt_kernels_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *update);
/* to[i] += from[i], both [count]; on_host as in struct dt_update. */
dt_status dt_kernels_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count);
/* The same with `to` in fp32, and `from` in the kernels' dtype or in fp32. */
dt_status dt_kernels_add_wide(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to, enum dt_dtype dtype,
                              const void *from, size_t count);
/* to[i] = from[i], both [count], of these types, one of which is fp32; rounded to nearest, ties to
 * even. */
dt_status dt_kernels_convert(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                             enum dt_dtype from_dtype, size_t count);
/* to[i] = value, [count] */
dt_status dt_kernels_fill(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value);
dt_status dt_kernels_initialise(struct dt_kernels *k, struct dt_stream *stream, const struct dt_initial *initial);
