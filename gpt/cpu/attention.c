/* Attention's two entries of the table. */
#include "gpt/cpu/attention/attention.h"

#include "gpt/cpu/kernels.h"
#include "lib/device/cpu/device.h"

struct attention_task {
    struct gpt_kernels *k;
    struct gpt_attention_forward a;
};

static dt_status run_attention(void *arguments)
{
    struct attention_task *t = arguments;
    pthread_mutex_lock(&t->k->mutex);
    dt_status status = gpt_cpu_attention_forward(t->k->attention, &t->a);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

GPT_KERNEL_FUNCTION(gpt_cpu_attention, gpt_attention_forward)
{
    struct attention_task t = {k, *a};
    t.a.dropout = gpt_cpu_dropout(k, &a->dropout);
    return dt_cpu_submit(stream, "attention", run_attention, &t, sizeof t);
}

struct attention_gradient_task {
    struct gpt_kernels *k;
    struct gpt_attention_backward a;
};

static dt_status run_attention_gradient(void *arguments)
{
    struct attention_gradient_task *t = arguments;
    pthread_mutex_lock(&t->k->mutex);
    dt_status status = gpt_cpu_attention_backward(t->k->attention, &t->a);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

GPT_KERNEL_FUNCTION(gpt_cpu_attention_gradient, gpt_attention_backward)
{
    struct attention_gradient_task t = {k, *a};
    t.a.dropout = gpt_cpu_dropout(k, &a->dropout);
    return dt_cpu_submit(stream, "attention gradient", run_attention_gradient, &t, sizeof t);
}
