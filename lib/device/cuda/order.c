#include "lib/device/cuda/order.h"

void dt_cuda_places_merge(struct cuda_places *into, const struct cuda_places *from)
{
    for (int i = 0; i < CUDA_STREAMS; i++) {
        if (into->at[i] < from->at[i])
            into->at[i] = from->at[i];
    }
}

void dt_cuda_order_open(struct cuda_order *order, int stream)
{
    struct cuda_places all = {{0}};
    for (int i = 0; i < CUDA_STREAMS; i++)
        dt_cuda_places_merge(&all, &order->behind[i]);
    order->behind[stream] = all;
    order->open[stream] = true;
    order->exchanges[stream] = false;
}

void dt_cuda_order_close(struct cuda_order *order, int stream)
{
    dt_cuda_order_after(order, stream);
    order->open[stream] = order->exchanges[stream] = false;
}

uint64_t dt_cuda_order_mark(struct cuda_order *order, int stream)
{
    return ++order->behind[stream].at[stream];
}

enum cuda_order_cost dt_cuda_order_cost(const struct cuda_order *order, int stream, const struct cuda_places *places)
{
    enum cuda_order_cost cost = CUDA_ORDERED;
    for (int i = 0; i < CUDA_STREAMS; i++) {
        if (places->at[i] <= order->behind[stream].at[i])
            continue;
        if (order->exchanges[i])
            return CUDA_REFUSED;
        cost = CUDA_WAITS;
    }
    return cost;
}

void dt_cuda_order_forget_passed(const struct cuda_order *order, struct cuda_places *places)
{
    for (int i = 0; i < CUDA_STREAMS; i++) {
        bool passed = true;
        for (int j = 0; j < CUDA_STREAMS && passed && places->at[i] > 0; j++)
            passed = !order->open[j] || order->behind[j].at[i] >= places->at[i];
        if (passed)
            places->at[i] = 0;
    }
}

void dt_cuda_order_after(struct cuda_order *order, int stream)
{
    for (int i = 0; i < CUDA_STREAMS; i++)
        dt_cuda_places_merge(&order->behind[i], &order->behind[stream]);
}

void dt_cuda_order_after_all(struct cuda_order *order)
{
    struct cuda_places all = {{0}};
    for (int i = 0; i < CUDA_STREAMS; i++)
        dt_cuda_places_merge(&all, &order->behind[i]);
    for (int i = 0; i < CUDA_STREAMS; i++)
        order->behind[i] = all;
}
