/* Copies and fills: checked, and marked as spans of a trace. */
#include "lib/device/backend.h"
#include "lib/device/span.h"

typedef dt_status copy_function(struct dt_stream *stream, void *to, const void *from, size_t bytes);

static dt_status check_pointers(const char *what, const void *to, const void *from)
{
    return to && from ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: %s is NULL", what, to ? "the source" : "the destination");
}

static dt_status copy(struct dt_stream *stream, const char *what, const char *span, copy_function *run, void *to, const void *from,
                      size_t bytes)
{
    if (bytes == 0)
        return DT_OK;
    DT_TRY(check_pointers(what, to, from));
    DT_TRY(dt_span_begin(stream, span, DT_SPAN_COPY, bytes, NULL));
    DT_TRY(run(stream, to, from, bytes));
    return dt_span_end(stream);
}

dt_status dt_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return copy(stream, "copy", "copy", stream->device->backend->copy, to, from, bytes);
}

dt_status dt_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return copy(stream, "copy from host", "copy_from_host", stream->device->backend->copy_from_host, to, from, bytes);
}

dt_status dt_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return copy(stream, "copy to host", "copy_to_host", stream->device->backend->copy_to_host, to, from, bytes);
}

static dt_status copy_around(struct dt_stream *stream, char *to, const char *from, size_t bytes, size_t first, size_t end)
{
    const struct dt_device_backend *backend = stream->device->backend;
    if (backend->count_to_host)
        return backend->count_to_host(stream, bytes - (end - first));
    if (first > 0)
        DT_TRY(backend->copy_to_host(stream, to, from, first));
    return end < bytes ? backend->copy_to_host(stream, to + end, from + end, bytes - end) : DT_OK;
}

dt_status dt_copy_to_host_around(struct dt_stream *stream, void *to, const void *from, size_t bytes, size_t first, size_t end)
{
    if (first >= end)
        return dt_copy_to_host(stream, to, from, bytes);
    if (end - first == bytes)
        return DT_OK;
    DT_TRY(check_pointers("copy to host", to, from));
    DT_TRY(dt_span_begin(stream, "copy_to_host", DT_SPAN_COPY, bytes - (end - first), NULL));
    DT_TRY(copy_around(stream, to, from, bytes, first, end));
    return dt_span_end(stream);
}

dt_status dt_zero(struct dt_stream *stream, void *to, size_t bytes)
{
    if (bytes == 0)
        return DT_OK;
    DT_TRY(check_pointers("zero", to, to));
    DT_TRY(dt_span_begin(stream, "zero", DT_SPAN_COPY, bytes, NULL));
    DT_TRY(stream->device->backend->zero(stream, to, bytes));
    return dt_span_end(stream);
}
