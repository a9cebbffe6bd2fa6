#include "lib/base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static dt_status fail(const char *path, int error)
{
    return dt_fail(DT_ERR_IO, "cannot write %s: %s", path, error == ENOENT ? "its folder does not exist" : strerror(error));
}

bool dt_output_is_stream(const char *path)
{
    struct stat facts;
    bool named = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    return stat(path, &facts) == 0 && (named || !S_ISREG(facts.st_mode));
}

dt_status dt_output_spares(const char *option, const char *path, const char *other)
{
    struct stat output, input;
    bool there = stat(path, &output) == 0 && stat(other, &input) == 0;
    bool same = there ? S_ISREG(output.st_mode) && output.st_dev == input.st_dev && output.st_ino == input.st_ino
                      : strcmp(path, "-") != 0 && strcmp(path, other) == 0;
    return same ? dt_fail(DT_ERR_INVALID, "%s %s: the command reads or writes that file already; name another one", option, path) : DT_OK;
}

/* FILE.PID~ */
static char *fresh_name(const char *path)
{
    size_t bytes = strlen(path) + 32;
    char *name = malloc(bytes);
    if (name)
        snprintf(name, bytes, "%s.%ld~", path, (long)getpid());
    return name;
}

/* Open the new file: a descriptor, or -1 with errno. A file without write permission is not
 * replaced either. */
static int open_fresh(const char *path, const char *fresh)
{
    struct stat facts;
    if (access(path, W_OK) < 0 && errno != ENOENT)
        return -1;
    unlink(fresh); /* left by a process that ended before, or a link */
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 && lstat(path, &facts) == 0 && S_ISREG(facts.st_mode))
        (void)fchmod(fd, facts.st_mode & 07777);
    return fd;
}

/* Give the new file its name. */
static int name_fresh(const struct dt_output_file *file)
{
    int failed = renameat2(AT_FDCWD, file->fresh, AT_FDCWD, file->path, file->only_new ? RENAME_NOREPLACE : 0);
    /* a file system without this operation; the file did not exist at the beginning */
    return failed && file->only_new && (errno == EINVAL || errno == ENOSYS) ? rename(file->fresh, file->path) : failed;
}

dt_status dt_output_open(const char *path, struct dt_output_file *out)
{
    bool stream = dt_output_is_stream(path);
    dt_status status = DT_ERR_HOST_MEMORY;
    *out = (struct dt_output_file){.path = strdup(path), .fresh = stream ? NULL : fresh_name(path)};
    if (!out->path || (!stream && !out->fresh)) {
        dt_fail(status, "no memory for a file's name");
        goto fail;
    }
    int fd = stream ? open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY) : open_fresh(path, out->fresh);
    out->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out->stream)
        return DT_OK;
    status = fail(path, errno);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && out->fresh)
        unlink(out->fresh);
fail:
    free(out->path);
    free(out->fresh);
    *out = (struct dt_output_file){0};
    return status;
}

dt_status dt_output_close(struct dt_output_file *file, bool keep)
{
    dt_status status = DT_OK;
    errno = 0;
    bool failed = fflush(file->stream) != 0 || ferror(file->stream) || (keep && file->fresh && fsync(fileno(file->stream)) < 0);
    failed = fclose(file->stream) != 0 || failed;
    if (failed || (keep && file->fresh && name_fresh(file) < 0))
        status = errno ? fail(file->path, errno) : dt_fail(DT_ERR_IO, "cannot write %s: write error", file->path);
    if (file->fresh && (status < 0 || !keep))
        unlink(file->fresh);
    free(file->path);
    free(file->fresh);
    *file = (struct dt_output_file){0};
    return status;
}

dt_status dt_output_write(const char *path, const char *text)
{
    struct dt_output_file file;
    DT_TRY(dt_output_open(path, &file));
    fprintf(file.stream, "%s\n", text);
    return dt_output_close(&file, true);
}
