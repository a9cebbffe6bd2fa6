#include "lib/config/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

dt_status dt_read_file(const char *path, char **out_text, size_t *out_length)
{
    bool standard = strcmp(path, "-") == 0;
    char *text = NULL;
    size_t used = 0, size = 0;
    dt_status status;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return dt_fail(DT_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    for (;;) {
        if (used + 1 >= size) {
            size = size ? 2 * size : 16384;
            char *grown = realloc(text, size);
            if (!grown) {
                status = dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory while reading", path);
                goto fail;
            }
            text = grown;
        }
        ssize_t got = read(fd, text + used, size - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = dt_fail(DT_ERR_IO, "cannot read %s: %s", path, strerror(errno));
            goto fail;
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > DT_JSON_MAX_FILE_BYTES) {
            status = dt_fail(DT_ERR_INVALID, "%s: larger than %d MiB, which no config needs", path, DT_JSON_MAX_FILE_BYTES >> 20);
            goto fail;
        }
    }
    if (!standard)
        close(fd);
    text[used] = 0;
    *out_text = text;
    *out_length = used;
    return DT_OK;
fail:
    if (!standard)
        close(fd);
    free(text);
    return status;
}
