/* A file in memory as it is on disk: read as it is touched, held by the system and not by the ledgers of devices. The system ends a process that
 * touches a map past the end of its file: what others may cut off while it is used is read with dt_mapped_file_read. */
#ifndef LIB_DATA_MAPPED_FILE_H
#define LIB_DATA_MAPPED_FILE_H

#include "lib/base/status.h"

#include <stddef.h>

struct dt_mapped_file {
    const void *bytes; /* [size_bytes]; NULL: none */
    size_t size_bytes;
    int descriptor; /* where bytes is not NULL */
};

/* Errors: DT_ERR_IO, also of an empty file. */
dt_status dt_mapped_file_open(const char *path, struct dt_mapped_file *out);
/* Copy [at, at + bytes), without the map: one copy, and no fault for each page. `path` is for messages. Errors: DT_ERR_IO, also where the file has become
 * shorter than that. */
dt_status dt_mapped_file_read(const struct dt_mapped_file *file, const char *path, size_t at, size_t bytes, void *to);
void dt_mapped_file_close(struct dt_mapped_file *file); /* takes a zeroed one */

#endif
