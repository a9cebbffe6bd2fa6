#include "vision/workspace.h"

enum { TABLE_BYTES = 1 << 20, LINE_BYTES = 256, TOGETHER = 8 };

static size_t rounded(size_t count, size_t unit)
{
    return (count + unit - 1) / unit * unit;
}

static size_t channels_of(struct vision_shape s)
{
    return rounded((size_t)s.channels, TOGETHER);
}

static size_t positions_of(const struct vision_sliding *over, struct vision_shape s)
{
    return over->samples * (size_t)s.height * (size_t)s.width;
}

static size_t window_elems(const struct vision_sliding *over)
{
    return (size_t)over->window.kernel * (size_t)over->window.kernel;
}

size_t vision_weight_bytes(const struct vision_sliding *over, enum dt_dtype dtype)
{
    return (size_t)over->in.channels * (size_t)over->out.channels * window_elems(over) * dt_dtype_bytes(dtype);
}

size_t vision_weight_room(const struct vision_sliding *over, enum dt_dtype dtype)
{
    return rounded(vision_weight_bytes(over, dtype), LINE_BYTES);
}

size_t vision_library_room(const struct vision_sliding *over, enum dt_dtype dtype)
{
    size_t weights = channels_of(over->in) * channels_of(over->out) * window_elems(over);
    size_t images = positions_of(over, over->in) * channels_of(over->in) + positions_of(over, over->out) * channels_of(over->out);
    return rounded((images + weights) * dt_dtype_bytes(dtype) + weights * sizeof(float) + TABLE_BYTES, LINE_BYTES);
}

size_t vision_workspace_bytes(const struct vision_sliding *over, enum dt_dtype dtype)
{
    return vision_weight_room(over, dtype) + vision_library_room(over, dtype);
}
