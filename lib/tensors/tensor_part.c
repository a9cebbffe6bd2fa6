#include "lib/tensors/tensor_part.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t dt_tensor_part_at(const struct dt_tensor_part *p, uint64_t k, uint64_t *length)
{
    *length = least(p->run - k % p->run, p->until - k);
    return p->first + k / p->run * p->stride + k % p->run;
}

bool dt_tensor_part_find(const struct dt_tensor_part *p, uint64_t element, uint64_t *k, uint64_t *length)
{
    if (element < p->first || (element - p->first) % p->stride >= p->run)
        return false;
    *k = (element - p->first) / p->stride * p->run + (element - p->first) % p->stride;
    if (*k < p->from || *k >= p->until)
        return false;
    *length = least(p->run - *k % p->run, p->until - *k);
    return true;
}

void dt_tensor_part_name(const char *name, const struct dt_tensor_part *p, char *out, size_t out_bytes)
{
    uint64_t length, first = dt_tensor_part_at(p, p->from, &length);
    if (p->run == p->stride || p->from / p->run == (p->until - 1) / p->run) /* one run, or a piece of one */
        snprintf(out, out_bytes, "%s[%" PRIu64 "-%" PRIu64 "]", name, first, first + p->until - p->from);
    else
        snprintf(out, out_bytes, "%s[%" PRIu64 "+%" PRIu64 "/%" PRIu64 ":%" PRIu64 "-%" PRIu64 "]", name, p->first, p->run, p->stride,
                 p->from, p->until);
}

/* Does no place overflow? An untrusted file may contain any numbers. */
static bool is_sound(const struct dt_tensor_part *p)
{
    const uint64_t most = (uint64_t)1 << 60;
    return p->run > 0 && p->run <= p->stride && p->from < p->until && p->first < most && p->stride < most && p->until < most &&
           p->until / p->run < most / p->stride;
}

bool dt_tensor_part_read(const char *text, char *name, size_t name_bytes, struct dt_tensor_part *out)
{
    const char *open = strrchr(text, '[');
    uint64_t first, end;
    int length = 0;
    if (!open || (size_t)(open - text) >= name_bytes)
        return false;
    snprintf(name, name_bytes, "%.*s", (int)(open - text), text);
    *out = (struct dt_tensor_part){0};
    if (sscanf(open, "[%" SCNu64 "-%" SCNu64 "]%n", &first, &end, &length) == 2 && length > 0)
        *out = (struct dt_tensor_part){first, end - first, end - first, 0, first < end ? end - first : 0};
    else
        sscanf(open, "[%" SCNu64 "+%" SCNu64 "/%" SCNu64 ":%" SCNu64 "-%" SCNu64 "]%n", &out->first, &out->run, &out->stride, &out->from,
               &out->until, &length);
    return length > 0 && open[length] == 0 && is_sound(out);
}
