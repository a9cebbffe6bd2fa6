#include "cli/records/name_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

dt_status name_file(const char *temporary, const char *path, bool force)
{
    int failed = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, force ? 0 : RENAME_NOREPLACE);
    if (failed && !force && (errno == EINVAL || errno == ENOSYS)) /* a file system without it; the file did not exist at the beginning */
        failed = rename(temporary, path);
    return failed ? dt_fail(DT_ERR_IO, "cannot write %s: %s", path, strerror(errno)) : DT_OK;
}
