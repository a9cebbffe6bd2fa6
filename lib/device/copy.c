/* Copies and fills: checked, and marked as spans of a trace. */
#include "lib/device/backend.h"
#include "lib/device/span.h"

static dt_status check_pointers(const char *what, const void *to, const void *from)
{
    return to && from ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: %s is NULL", what, to ? "the source" : "the destination");
}

dt_status dt_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return DT_OK;
    DT_TRY(check_pointers("copy", to, from));
    DT_TRY(dt_span_begin(stream, "copy", DT_SPAN_COPY, bytes, NULL));
    DT_TRY(stream->device->backend->copy(stream, to, from, bytes));
    return dt_span_end(stream);
}

dt_status dt_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return DT_OK;
    DT_TRY(check_pointers("copy from host", to, from));
    DT_TRY(dt_span_begin(stream, "copy_from_host", DT_SPAN_COPY, bytes, NULL));
    DT_TRY(stream->device->backend->copy_from_host(stream, to, from, bytes));
    return dt_span_end(stream);
}

dt_status dt_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return DT_OK;
    DT_TRY(check_pointers("copy to host", to, from));
    DT_TRY(dt_span_begin(stream, "copy_to_host", DT_SPAN_COPY, bytes, NULL));
    DT_TRY(stream->device->backend->copy_to_host(stream, to, from, bytes));
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
