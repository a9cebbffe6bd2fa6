#include "lib/data/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static dt_status map(int descriptor, const char *path, struct dt_mapped_file *out)
{
    struct stat facts;
    if (fstat(descriptor, &facts) < 0)
        return dt_fail(DT_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode) || facts.st_size == 0)
        return dt_fail(DT_ERR_IO, "%s: %s", path, S_ISREG(facts.st_mode) ? "the file is empty" : "not a file");
    void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED)
        return dt_fail(DT_ERR_IO, "%s: %s", path, strerror(errno));
    *out = (struct dt_mapped_file){bytes, (size_t)facts.st_size, descriptor};
    return DT_OK;
}

dt_status dt_mapped_file_open(const char *path, struct dt_mapped_file *out)
{
    *out = (struct dt_mapped_file){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return dt_fail(DT_ERR_IO, "%s: %s", path, strerror(errno));
    dt_status status = map(descriptor, path, out);
    if (status < 0)
        close(descriptor);
    return status;
}

dt_status dt_mapped_file_read(const struct dt_mapped_file *file, const char *path, size_t at, size_t bytes, void *to)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(file->descriptor, (char *)to + done, bytes - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_fail(DT_ERR_IO, "%s: %s", path, strerror(errno));
        if (got == 0)
            return dt_fail(DT_ERR_IO, "%s: the file has become shorter while it was read: it had %zu bytes, and now ends before byte %zu",
                           path, file->size_bytes, at + bytes);
        done += (size_t)got;
    }
    return DT_OK;
}

void dt_mapped_file_close(struct dt_mapped_file *file)
{
    if (file->bytes) {
        munmap((void *)file->bytes, file->size_bytes);
        close(file->descriptor);
    }
    *file = (struct dt_mapped_file){0};
}
