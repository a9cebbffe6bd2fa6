/* A file that is written anew, and is whole at any moment: others may be reading it. The bytes go to a new file in the same folder, which
 * gets its name at the end (rename(2)). A link that lies under either name, perhaps a stranger's in a folder that is open to all, is not
 * followed: it is replaced. Devices and pipes, and what is named below /dev and /proc, such as /dev/stdout, are written to as they are. */
#ifndef LIB_BASE_OUTPUT_FILE_H
#define LIB_BASE_OUTPUT_FILE_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct dt_output_file {
    FILE *stream;
    char *path, *fresh; /* fresh: the new file's name; NULL: `stream` is the file itself */
};

/* Is it written to as it is? */
bool dt_output_is_stream(const char *path);

/* Errors: DT_ERR_IO, with a text that begins "cannot write PATH"; DT_ERR_HOST_MEMORY. */
dt_status dt_output_open(const char *path, struct dt_output_file *out);

/* With `keep` it gets its name; without, or where not all could be written, what had the name before stays. */
dt_status dt_output_close(struct dt_output_file *file, bool keep);

/* A text, and the end of its last line. */
dt_status dt_output_write(const char *path, const char *text);

#endif
