#include "cli/report/report.h"

#include <stdlib.h>
#include <zlib.h>

static void put_base64(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        unsigned three = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0u);
        *out++ = digits[three >> 18];
        *out++ = digits[three >> 12 & 63];
        *out++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[three & 63] : '=';
    }
    *out = 0;
}

dt_status report_pack(const char *text, size_t bytes, char **out, bool *packed)
{
    uLongf count = compressBound(bytes);
    DT_FREED unsigned char *small = malloc(count);
    *out = NULL;
    *packed = true;
    DT_TRY(dt_allocated(small, "no memory for a report's data"));
    if (compress2(small, &count, (const unsigned char *)text, bytes, Z_BEST_COMPRESSION) != Z_OK)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory to pack a report's data");
    *out = malloc((count + 2) / 3 * 4 + 1);
    DT_TRY(dt_allocated(*out, "no memory for a report's data"));
    put_base64(small, count, *out);
    return DT_OK;
}
