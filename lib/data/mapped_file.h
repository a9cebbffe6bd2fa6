/* A file in memory as it is on disk: read as it is touched, held by the system and not by the ledgers of devices. */
#ifndef LIB_DATA_MAPPED_FILE_H
#define LIB_DATA_MAPPED_FILE_H

#include "lib/base/status.h"

#include <stddef.h>

struct dt_mapped_file {
    const void *bytes; /* [size_bytes]; NULL: none */
    size_t size_bytes;
    int descriptor; /* where bytes is not NULL */
};

/* Errors: DT_ERR_IO, also of an empty file. The file must keep its size: the system ends a process that reads past the end of one. */
dt_status dt_mapped_file_open(const char *path, struct dt_mapped_file *out);
/* Whether it still has: what reads for long asks now and then. Errors: DT_ERR_IO with both sizes. */
dt_status dt_mapped_file_check(const struct dt_mapped_file *file, const char *path);
void dt_mapped_file_close(struct dt_mapped_file *file); /* takes a zeroed one */

#endif
