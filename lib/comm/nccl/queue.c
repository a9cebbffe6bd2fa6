/* Queueing operations of the nccl communicator on a stream. */
#include "lib/comm/nccl/comm.h"

/* ncclBfloat16, which headers such as 2.20's define only for C++; the number is part of NCCL's
 * interface. */
enum { BFLOAT16 = 9 };

static ncclDataType_t type_of(enum dt_dtype dtype)
{
    static const ncclDataType_t types[DT_DTYPE_COUNT] = {
        [DT_FP32] = ncclFloat32, [DT_FP16] = ncclFloat16, [DT_BF16] = (ncclDataType_t)BFLOAT16};
    return types[dtype];
}

static bool goes_on(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

/* In one group: send a part to and receive one from each other rank, and copy this rank's own; or
 * send everything to the next rank. */
static ncclResult_t exchange(const struct nccl_comm *comm, const struct dt_comm_operation *o)
{
    const struct dt_nccl *nccl = &comm->family->nccl;
    int size = comm->base.size, rank = comm->base.rank, last = o->kind == DT_COMM_SHIFT ? 1 : size - 1;
    size_t part_bytes = o->kind == DT_COMM_SHIFT ? 0 : o->count_elems * dt_dtype_bytes(o->dtype);
    const char *from = o->send;
    char *to = o->receive;
    cudaStream_t stream = dt_cuda_stream(o->stream);
    ncclResult_t result = nccl->group_start();
    for (int distance = 1; distance <= last && goes_on(result); distance++) {
        int next = (rank + distance) % size, before = (rank + size - distance) % size;
        result = nccl->send(from + (size_t)next * part_bytes, o->count_elems, type_of(o->dtype), next, comm->handle, stream);
        if (goes_on(result))
            result = nccl->receive(to + (size_t)before * part_bytes, o->count_elems, type_of(o->dtype), before, comm->handle, stream);
    }
    ncclResult_t ended = nccl->group_end();
    size_t own = (size_t)rank * part_bytes;
    if (part_bytes > 0 && cudaMemcpyAsync(to + own, from + own, part_bytes, cudaMemcpyDeviceToDevice, stream) != cudaSuccess)
        return ncclUnhandledCudaError;
    return goes_on(result) ? ended : result;
}

static ncclResult_t call(const struct nccl_comm *comm, const struct dt_comm_operation *o)
{
    const struct dt_nccl *nccl = &comm->family->nccl;
    ncclDataType_t type = type_of(o->dtype);
    ncclRedOp_t op = o->reduction == DT_AVG ? ncclAvg : ncclSum;
    cudaStream_t stream = dt_cuda_stream(o->stream);
    ncclComm_t handle = comm->handle;
    switch (o->kind) {
    case DT_COMM_ALL_REDUCE: return nccl->all_reduce(o->send, o->receive, o->count_elems, type, op, handle, stream);
    case DT_COMM_REDUCE_SCATTER: return nccl->reduce_scatter(o->send, o->receive, o->count_elems, type, op, handle, stream);
    case DT_COMM_ALL_GATHER: return nccl->all_gather(o->send, o->receive, o->count_elems, type, handle, stream);
    case DT_COMM_BROADCAST: return nccl->broadcast(o->send, o->receive, o->count_elems, type, o->peer, handle, stream);
    case DT_COMM_REDUCE: return nccl->reduce(o->send, o->receive, o->count_elems, type, op, o->peer, handle, stream);
    case DT_COMM_SEND: return nccl->send(o->send, o->count_elems, type, o->peer, handle, stream);
    case DT_COMM_ALL_TO_ALL:
    case DT_COMM_SHIFT: return exchange(comm, o);
    case DT_COMM_RECV:
    case DT_COMM_KINDS: break;
    }
    return nccl->receive(o->receive, o->count_elems, type, o->peer, handle, stream);
}

static dt_status mark(cudaEvent_t event, struct dt_stream *stream)
{
    return dt_cuda_status(cudaEventRecord(event, dt_cuda_stream(stream)), "an event of a communicator");
}

/* Before an operation: note it in the ring, and record its beginning on the stream. Within a graph,
 * only note that it is in a graph. */
static dt_status begin(struct nccl_comm *comm, const struct dt_comm_operation *o)
{
    size_t slot = o->sequence % DT_COMM_RING;
    bool collective = o->kind != DT_COMM_SEND && o->kind != DT_COMM_RECV;
    comm->collective[slot] = collective ? atomic_fetch_add(&comm->collectives, 1) + 1 : 0;
    comm->peer[slot] = o->peer;
    comm->group_of[slot] = comm->group_first ? comm->group_first : o->sequence;
    if (!dt_cuda_capturing(comm->base.device))
        return mark(comm->begun[slot], o->stream);
    dt_comm_mark(&comm->base, o->sequence, DT_COMM_IN_GRAPH);
    comm->family->in_graph = true;
    return DT_OK;
}

static dt_status end(struct nccl_comm *comm, uint64_t sequence, struct dt_stream *stream)
{
    if (!dt_cuda_capturing(comm->base.device))
        DT_TRY(mark(comm->ended[sequence % DT_COMM_RING], stream));
    atomic_store(&comm->queued, sequence);
    return DT_OK;
}

static dt_status queue_in_group(struct nccl_comm *comm, const struct dt_comm_operation *o)
{
    if (!comm->group_first)
        DT_TRY(comm->family->nccl.group_start() == ncclSuccess ? DT_OK
                                                               : dt_nccl_give_up(comm->family, DT_ERR_COMM, "NCCL begins no group"));
    comm->group_first = comm->group_first ? comm->group_first : o->sequence;
    DT_TRY(begin(comm, o));
    ncclResult_t result = call(comm, o); /* NCCL runs everything at the group's end */
    return result == ncclInProgress ? DT_OK : dt_nccl_settle(comm, result, dt_comm_kind_name(o->kind), o->sequence, 0);
}

dt_status dt_nccl_queue(struct dt_comm *base, const struct dt_comm_operation *o)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    if (o->kind == DT_COMM_SEND || o->kind == DT_COMM_RECV)
        dt_cuda_stream_exchanges(o->stream);
    if (comm->family->aborted) { /* the failure is returned when the stream is waited for */
        dt_comm_mark(base, o->sequence, DT_COMM_FAILED);
        return DT_OK;
    }
    if (base->in_group)
        return queue_in_group(comm, o);
    DT_TRY(begin(comm, o));
    DT_TRY(dt_nccl_settle(comm, call(comm, o), dt_comm_kind_name(o->kind), o->sequence, base->options.step_timeout_s));
    return end(comm, o->sequence, o->stream);
}

dt_status dt_nccl_group_end(struct dt_comm *base)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    uint64_t first = comm->group_first, last = atomic_load(&base->sequence);
    comm->group_first = 0;
    if (!first) /* it is empty, or was ended by a failure */
        return DT_OK;
    ncclResult_t result = comm->family->nccl.group_end(); /* also after an abort: this state belongs to the thread */
    if (comm->family->aborted)
        return DT_OK;
    DT_TRY(dt_nccl_settle(comm, result, "a group of sends and receives", first, base->options.step_timeout_s));
    for (uint64_t sequence = last - first < DT_COMM_RING ? first : last - DT_COMM_RING + 1; sequence <= last; sequence++)
        DT_TRY(end(comm, sequence, base->group_stream));
    return DT_OK;
}
