/* A memory-mapped file: read when it is touched, and not counted by the ledgers of devices. The
 * system kills a process that reads a map past the file's end: files that other programs may
 * truncate in use are read with dt_mapped_file_read. */
#pragma once

#include "lib/base/status.h"

#include <stddef.h>

struct dt_mapped_file {
    const void *bytes; /* [size_bytes]; NULL: none */
    size_t size_bytes;
    int descriptor; /* valid if bytes is not NULL */
};

/* Errors: DT_ERR_IO, also for an empty file. */
dt_status dt_mapped_file_open(const char *path, struct dt_mapped_file *out);
/* Copy [at, at + bytes) without using the map: one copy, without a page fault per page. `path` is
 * for messages. Errors: DT_ERR_IO, also if the file has become shorter. */
dt_status dt_mapped_file_read(const struct dt_mapped_file *file, const char *path, size_t at, size_t bytes, void *to);
void dt_mapped_file_close(struct dt_mapped_file *file); /* takes a zeroed one */
