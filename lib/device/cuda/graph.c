/* Graphs: CUDA's stream capture, begun on one stream and spread to all. */
#include "lib/device/cuda/internal.h"

#include <cuda_runtime.h>
#include <stdlib.h>

static struct cuda_device *device_of(const struct dt_stream *stream)
{
    return (struct cuda_device *)stream->device;
}

/* Order all later work, on every stream, after all work queued so far. */
static dt_status order_all(struct cuda_stream *stream)
{
    DT_TRY(dt_cuda_join(stream));
    DT_TRY(dt_cuda_fork(stream));
    dt_cuda_order_after_all(&((struct cuda_device *)stream->base.device)->order);
    return DT_OK;
}

/* Stop capturing; *out NULL: the capture is invalid. */
static dt_status stop(struct dt_stream *origin, cudaGraph_t *out)
{
    *out = NULL;
    cudaError_t error = cudaStreamEndCapture(dt_cuda_stream(origin), out);
    device_of(origin)->capture = 0;
    return dt_cuda_status(error, "graph end");
}

static void discard(struct cuda_device *device, cudaGraph_t graph)
{
    if (graph)
        cudaGraphDestroy(graph);
    dt_cuda_tasks_free(&device->captured_tasks);
}

/* Relaxed mode: the pools may ask CUDA for more memory in a capture, which is not work on a
 * stream. */
dt_status dt_cuda_graph_begin(struct dt_stream *origin)
{
    struct cuda_device *device = device_of(origin);
    cudaGraph_t graph;
    DT_TRY(dt_cuda_status(cudaStreamBeginCapture(dt_cuda_stream(origin), cudaStreamCaptureModeRelaxed), "graph begin"));
    device->capture = ++device->captures;
    dt_status status = dt_cuda_fork((struct cuda_stream *)origin);
    if (status < 0) {
        stop(origin, &graph);
        discard(device, graph);
        return status;
    }
    dt_cuda_order_after_all(&device->order); /* every launch waits for queued work */
    return DT_OK;
}

/* Each kernel keeps the priority of the stream that it was captured on; without the flag all
 * kernels would have the launching stream's. */
static dt_status instantiate(struct cuda_device *device, cudaGraph_t captured, struct cuda_graph **out)
{
    struct cuda_graph *graph = calloc(1, sizeof *graph);
    *out = graph;
    DT_TRY(dt_allocated(graph, "graph: no host memory"));
    graph->base.device = &device->base;
    dt_status status = dt_cuda_status(cudaGraphInstantiate(&graph->exec, captured, cudaGraphInstantiateFlagUseNodePriority), "graph");
    DT_THEN(status, dt_cuda_status(cudaEventCreateWithFlags(&graph->done, cudaEventDisableTiming), "graph"));
    if (status == DT_OK)
        return DT_OK;
    if (graph->exec)
        cudaGraphExecDestroy(graph->exec);
    free(graph);
    return status;
}

/* A captured part that never runs has marks that are never passed: from here on all streams are
 * ordered after the work that is really queued. */
static dt_status give_up(struct dt_stream *origin, cudaGraph_t captured, dt_status status)
{
    discard(device_of(origin), captured);
    dt_status ordered = order_all((struct cuda_stream *)origin);
    return status < 0 ? status : ordered;
}

dt_status dt_cuda_graph_end(struct dt_stream *origin, struct dt_graph **out)
{
    struct cuda_device *device = device_of(origin);
    struct cuda_graph *graph;
    cudaGraph_t captured;
    dt_status joined = dt_cuda_join((struct cuda_stream *)origin), status = stop(origin, &captured);
    if (joined < 0 || status < 0 || !out)
        return give_up(origin, captured, out && status == DT_OK ? joined : status);
    status = instantiate(device, captured, &graph);
    if (status < 0)
        return give_up(origin, captured, status);
    cudaGraphDestroy(captured);
    graph->tasks = device->captured_tasks;
    device->captured_tasks = (struct cuda_tasks){0};
    graph->next = device->graphs;
    device->graphs = graph;
    *out = &graph->base;
    return DT_OK;
}

dt_status dt_cuda_graph_launch(struct dt_graph *base, struct dt_stream *base_stream)
{
    struct cuda_graph *graph = (struct cuda_graph *)base;
    struct cuda_stream *stream = (struct cuda_stream *)base_stream;
    if (!graph->exec)
        return dt_fail(DT_ERR_COMM, "graph launch: the graph was given up with the communicators whose operations it holds");
    DT_TRY(dt_cuda_join(stream));
    DT_TRY(dt_cuda_status(cudaGraphLaunch(graph->exec, stream->handle), "graph launch"));
    DT_TRY(dt_cuda_status(cudaEventRecord(graph->done, stream->handle), "graph launch"));
    DT_TRY(dt_cuda_fork(stream));
    dt_cuda_order_after_all(&device_of(base_stream)->order);
    return DT_OK;
}

void dt_cuda_graph_destroy(struct dt_graph *base)
{
    struct cuda_graph *graph = (struct cuda_graph *)base;
    struct cuda_device *device = (struct cuda_device *)base->device;
    dt_cuda_wait_for_event(device, graph->done, "graph"); /* a failure has been returned, or will be */
    if (graph->exec)
        cudaGraphExecDestroy(graph->exec);
    cudaEventDestroy(graph->done);
    dt_cuda_tasks_free(&graph->tasks);
    struct cuda_graph **place = &device->graphs;
    while (*place != graph)
        place = &(*place)->next;
    *place = graph->next;
    free(graph);
}

void dt_cuda_graphs_drop(struct dt_device *base)
{
    for (struct cuda_graph *graph = ((struct cuda_device *)base)->graphs; graph; graph = graph->next) {
        if (graph->exec)
            cudaGraphExecDestroy(graph->exec);
        graph->exec = NULL;
    }
}
