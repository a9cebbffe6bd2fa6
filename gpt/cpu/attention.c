/* The two attention entries of the kernel table. */
#include "gpt/cpu/attention/attention.h"

#include "gpt/cpu/kernels.h"

struct attention_task {
    struct gpt_kernels *k;
    bool backward;
    union {
        struct gpt_attention_forward forward;
        struct gpt_attention_backward backward;
    } of;
};

static dt_status run_attention(void *arguments)
{
    struct attention_task *t = arguments;
    pthread_mutex_lock(&t->k->mutex);
    dt_status status = t->backward ? gpt_cpu_attention_backward(t->k->attention, &t->of.backward)
                                   : gpt_cpu_attention_forward(t->k->attention, &t->of.forward);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

GPT_KERNEL_FUNCTION(gpt_cpu_attention, gpt_attention_forward)
{
    struct attention_task t = {k, .of.forward = *a};
    t.of.forward.dropout = gpt_cpu_dropout(k, &a->dropout);
    return dt_cpu_submit(stream, "attention", run_attention, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_attention_gradient, gpt_attention_backward)
{
    struct attention_task t = {k, .backward = true, .of.backward = *a};
    t.of.backward.dropout = gpt_cpu_dropout(k, &a->dropout);
    return dt_cpu_submit(stream, "attention gradient", run_attention, &t, sizeof t);
}
