/* The kernels that every family of models needs: they begin parameters, add gradients and update parameters, and know the step that runs.
 *
 * Backends by kind of device: cpu (cpu/), cuda (cuda/), and sim, which computes nothing. All calls queue on `stream` and return; arrays are
 * in device memory and of the dtype given to dt_kernels_init unless said otherwise. Arithmetic is fp32 inside, rounded to the dtype once at
 * the end. Arguments are copied. Each call is a span of a traced step (lib/device/span.h). Errors: what queueing can return; failures of the work itself come from dt_stream_synchronize. */
#ifndef LIB_KERNELS_KERNELS_H
#define LIB_KERNELS_KERNELS_H

#include "lib/base/dtype.h"
#include "lib/base/status.h"
#include "lib/device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An update of `count` parameters by SGD or Adam. Gradients are first multiplied by gradient_scale,
 * and by the factor that follows from the step's norm. Elements whose gradient is not finite stay
 * unchanged, and are counted (dt_kernels_overflows). Nothing is done in a step that the norm leaves
 * out. */
struct dt_update {
    void *params;      /* [count] */
    const void *grads; /* [count] */
    bool wide_grads;   /* they are fp32 */
    size_t count;
    double tensors; /* that these parameters are of, about: what an update costs on sim where a framework makes it tensor by tensor */
    float learning_rate, gradient_scale;
    bool adam;
    /* [count] fp32: of Adam the moments; of SGD the first one, with momentum, else NULL. master: what params are rounded from; NULL: params
     * themselves are updated. In step 1 (begin_step) all of them hold nothing yet: moments begin at 0, and master as params. */
    float *first_moment, *second_moment, *master;
    float beta1, beta2, epsilon; /* adam */
    float momentum;              /* sgd: this part of the last step's gradients, and of those before them, is added to the gradient */
    /* This part of a parameter is added to its gradient, as L2 regularization; or decoupled, times the learning rate, taken from the parameter
     * itself. Source  Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithms 1 and 2. */
    float weight_decay;
    bool decoupled; /* adam */
    bool on_host;   /* all arrays are in host memory (dt_alloc_host), and the host's processor does the work, in the stream's order */
};

/* The norm of a step's gradients: what is the same in all steps. */
struct dt_norm_rule {
    float gradient_scale; /* the sums of gradients, times this and divided by the loss scale, are the loss's gradients */
    float clip;           /* the longest norm; 0: any */
    /* Of the loss scale: what it is multiplied by after `window` steps in which all gradients were finite, and after one in which they were
     * not. window 0: it stays. */
    float growth, backoff;
    uint32_t window;
};

/* What the norm asks of a step's updates (norm.h). Zeroed before the first step, but for `factor` and loss_scale, which are 1. */
struct dt_norm_state {
    float norm;       /* of this step's gradients, without the loss scale */
    float factor;     /* updates multiply gradients by it */
    float loss_scale; /* of the next gradients: the loss's gradient is multiplied by it */
    float used_scale; /* of this step's */
    uint32_t good;    /* steps since loss_scale has changed */
    uint32_t skipped; /* steps whose updates were left out so far */
    bool skips;       /* those of this step are */
};

/* to [count] = normal deviates with this standard deviation (lib/base/random.h): elements of the tensor `tensor_id`, from first_element on in
 * runs of run_elems, of which one begins stride_elems after the one before: columns of a matrix. The first run may have begun already:
 * run_done of its elements are left out. run_elems 0: one run. */
struct dt_normal {
    void *to;
    size_t count;
    uint64_t seed, first_element;
    size_t run_elems, run_done, stride_elems;
    uint32_t tensor_id;
    float standard_deviation;
};

struct dt_kernel_backend;
struct dt_simd;
struct dt_cuda_step;
struct dt_own_kernels;

/* The public part of a family's kernels on one device, for one model; the family's own part follows it in memory. */
struct dt_kernels {
    const struct dt_kernel_backend *backend; /* NULL: dt_kernels_init was not called, or failed */
    const struct dt_own_kernels *own;        /* what a family adds (lib/model/model.h); NULL: nothing, or not yet */
    struct dt_device *device;
    enum dt_dtype dtype;
    uint32_t first_sample; /* of the step that calls are queued for: families add it to every first_sample of theirs */
    float rate;            /* what the learning rates of the step are multiplied by that the next begin_step begins; 1 at first */
    int multiprocessors;   /* cuda alone */

    /* What runs on the host's processor: all of it on cpu; updates of parameters that live there on cuda. */
    struct {
        const struct dt_simd *loops;
        int threads;
        bool updates;   /* it has made some */
        int step;       /* of the work that runs, from 1 */
        float rate;     /* of the same */
        double squares; /* of the same: sum over the gradients given so far */
        struct dt_norm_state norm;
        uint64_t overflows; /* of the same; counted up atomically, as updates may run on two streams */
        /* dt_cpu_submit, or what queues work for the host on another device. */
        dt_status (*submit)(struct dt_stream *stream, const char *label, dt_status (*task)(void *arguments), const void *arguments,
                            size_t arguments_bytes);
    } host;
    struct dt_cuda_step *cuda_step; /* cuda alone: the step's numbers in device memory (cuda/kernels.h) */
    bool updated;                   /* sim alone: in this step a framework's one update of all parameters has been launched */
};

/* Kernels for `device`, which outlives them; as in step 1. Owner of what they hold: k, until dt_kernels_finish. Errors: DT_ERR_UNAVAILABLE,
 * DT_ERR_OOM; finish may be called then, too. */
dt_status dt_kernels_init(struct dt_kernels *k, struct dt_device *device, enum dt_dtype dtype);
void dt_kernels_finish(struct dt_kernels *k); /* streams must be synchronized; takes a zeroed one */

/* Before the other work of a step: the number of its first sample, and its own from 1, which Adam counts in. k->rate holds from here on. No
 * overflow is counted yet.
 * Steps that were left out do not count there.
 * Queues on `stream`, which the step's other streams wait for; no host kernel of an earlier step may be left in a queue. */
dt_status dt_kernels_begin_step(struct dt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int step);
/* *to, in host memory, gets the number of elements that this step's updates have left out, once `stream` gets here. */
dt_status dt_kernels_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to);

/* ---- the norm of a step's gradients: lib/kernels/norm.h; without these calls gradients are used
 * unchanged ---- */

/* Add the squares of gradients x [count], of the kernels' dtype or fp32, to the step's sum on this rank, in double precision and always in
 * the same order; on_host as in struct dt_update. All calls of a step on one stream. */
dt_status dt_kernels_add_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, enum dt_dtype dtype, const void *x,
                                 size_t count);
/* *to, in device memory or with on_host in host memory, gets that sum, rounded. */
dt_status dt_kernels_sum_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to);
/* What follows for the updates of this step from the sum over all ranks, in device memory or with on_host in host memory: for those of the
 * device, or with on_host for those of the host, which are the same on cpu: there once a step is enough. The streams of updates wait for it. */
dt_status dt_kernels_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                                 const float *squares);
/* *to, in host memory, gets the state that the last settled norm has left, once `stream` gets here; and between steps, the other way round. */
dt_status dt_kernels_norm(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to);
dt_status dt_kernels_set_norm(struct dt_kernels *k, struct dt_stream *stream, const struct dt_norm_state *from);

dt_status dt_kernels_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *update);
/* to[i] += from[i], both [count]; on_host as in struct dt_update. */
dt_status dt_kernels_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count);
/* The same with `to` in fp32, and `from` in the kernels' dtype or in fp32. */
dt_status dt_kernels_add_wide(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to, enum dt_dtype dtype,
                              const void *from, size_t count);
/* to[i] = from[i], both [count], of these types, one of which is fp32; the nearest number of the other, even where two are as near. */
dt_status dt_kernels_convert(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                             enum dt_dtype from_dtype, size_t count);
/* to[i] = value, [count] */
dt_status dt_kernels_fill(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value);
dt_status dt_kernels_normal(struct dt_kernels *k, struct dt_stream *stream, const struct dt_normal *normal);

#endif
