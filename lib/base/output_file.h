/* A file that is replaced atomically, since other processes may be reading it. The bytes are
 * written to a new file in the same folder, with the old one's permissions, which is synced to disk
 * and renamed at the end (rename(2)). A link with
 * either name, perhaps of another user in a public folder, is not followed but replaced. Devices,
 * pipes, and names below /dev and /proc, such as /dev/stdout, are written to directly. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct dt_output_file {
    FILE *stream;
    char *path, *fresh; /* fresh: name of the new file; NULL: `stream` writes to the file itself */
    /* set by the caller: no file is replaced, even if it was created since the caller looked, if the
     * file system can guarantee that */
    bool only_new;
};

/* Whether the path is written to directly. */
bool dt_output_is_stream(const char *path);

/* Refuse to write to another file of the same command. `option` names the output in the text, such
 * as "--output". Errors: DT_ERR_INVALID where both paths lead to one regular file. */
dt_status dt_output_spares(const char *option, const char *path, const char *other);

/* Errors: DT_ERR_IO, with a text that begins "cannot write PATH"; DT_ERR_HOST_MEMORY. */
dt_status dt_output_open(const char *path, struct dt_output_file *out);

/* keep: the new file gets the name. Without keep, or if not all could be written, the old file
 * stays. */
dt_status dt_output_close(struct dt_output_file *file, bool keep);

/* Write a text and a line feed. */
dt_status dt_output_write(const char *path, const char *text);
