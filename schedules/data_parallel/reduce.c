#include "schedules/data_parallel/reduce.h"

/* Run `reduce` on grads [count], or on a copy in the reduction's dtype, whose elements [first,
 * first + kept) are then converted into `to`. */
struct reduction {
    const struct dp_setup *setup;
    size_t share; /* elements of a shard */
    int root;
};

typedef dt_status (*reduce_with)(const struct reduction *r, void *grads, size_t count);

static dt_status run_converted(const struct reduction *r, reduce_with reduce, const void *grads, size_t count, size_t first, void *to,
                               size_t kept, char *copy)
{
    const struct dp_setup *s = r->setup;
    struct dt_kernels *kernels = s->stage->kernels;
    enum dt_dtype own = s->gradient_dtype, sent = s->reduce_dtype;
    DT_TRY(dt_kernels_convert(kernels, s->network, copy, sent, grads, own, count));
    DT_TRY(reduce(r, copy, count));
    copy += first * dt_dtype_bytes(sent);
    return kept > 0 ? dt_kernels_convert(kernels, s->network, to, own, copy, sent, kept) : DT_OK;
}

static dt_status run(const struct reduction *r, reduce_with reduce, void *grads, size_t count, size_t first, void *to, size_t kept)
{
    const struct dp_setup *s = r->setup;
    struct dt_buffer copy;
    DT_TRY(dt_alloc(s->network, DT_COMMUNICATION, count * dt_dtype_bytes(s->reduce_dtype), &copy));
    dt_status status = run_converted(r, reduce, grads, count, first, to, kept, copy.data);
    dt_free(s->network, &copy);
    return status;
}

static dt_status everywhere(const struct reduction *r, void *grads, size_t count)
{
    return dt_all_reduce(r->setup->replicas, grads, count, r->setup->reduce_dtype, DT_AVG, r->setup->network);
}

dt_status reduce_everywhere(const struct dp_setup *setup, void *grads, size_t count)
{
    const struct reduction r = {.setup = setup};
    return setup->converts ? run(&r, everywhere, grads, count, 0, grads, count) : everywhere(&r, grads, count);
}

static dt_status sums_at(const struct reduction *r, void *grads, size_t count)
{
    return dt_reduce(r->setup->replicas, grads, count, r->setup->reduce_dtype, DT_SUM, r->root, r->setup->network);
}

dt_status reduce_sums_at(const struct dp_setup *setup, void *grads, size_t count, int root)
{
    const struct reduction r = {.setup = setup, .root = root};
    size_t kept = dt_comm_rank(setup->replicas) == root ? count : 0;
    return setup->converts ? run(&r, sums_at, grads, count, 0, grads, kept) : sums_at(&r, grads, count);
}

static dt_status average_over_copies(const struct dp_setup *s, void *share, size_t count)
{
    bool copies = s->replicas && dt_comm_size(s->replicas) > 1;
    return copies ? dt_all_reduce(s->replicas, share, count, s->reduce_dtype, DT_AVG, s->network) : DT_OK;
}

static dt_status shares(const struct reduction *r, void *grads, size_t count)
{
    const struct dp_setup *s = r->setup;
    void *own = (char *)grads + (size_t)dt_comm_rank(s->shards) * r->share * dt_dtype_bytes(s->reduce_dtype);
    DT_TRY(dt_reduce_scatter(s->shards, grads, own, r->share, s->reduce_dtype, DT_AVG, s->network));
    return average_over_copies(s, own, r->share);
}

dt_status reduce_shares(const struct dp_setup *setup, void *whole, void *to, size_t share)
{
    const struct reduction r = {.setup = setup, .share = share};
    size_t first = (size_t)dt_comm_rank(setup->shards) * share;
    if (setup->converts)
        return run(&r, shares, whole, share * (size_t)dt_comm_size(setup->shards), first, to, share);
    DT_TRY(dt_reduce_scatter(setup->shards, whole, to, share, setup->reduce_dtype, DT_AVG, setup->network));
    return average_over_copies(setup, to, share);
}
