#include "lib/record/record.h"

#include "lib/base/clock.h"
#include "lib/base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Space that must be available before the first step: enough for many records of a few KiB. */
enum { PROBE_BYTES = 64 << 10 };

struct dt_record_file {
    int fd;
    bool regular; /* only regular files have locks, and torn last lines that can be removed */
    char *path;   /* for error texts */
};

static dt_status lock(const struct dt_record_file *f, int operation)
{
    while (f->regular && flock(f->fd, operation) < 0) {
        /* a file system without locks: the user must ensure that there is one writer */
        if (errno == ENOLCK || errno == ENOTSUP || errno == EBADF)
            return DT_OK;
        if (errno != EINTR)
            return dt_fail(DT_ERR_IO, "cannot lock %s: %s", f->path, strerror(errno));
    }
    return DT_OK;
}

/* Is there room for a few records? Blocks are reserved past the end and returned at once; existing
 * content does not change. */
static dt_status probe_regular(const struct dt_record_file *f)
{
    struct stat facts;
    struct statvfs system;
    struct rlimit limit;
    if (fstat(f->fd, &facts) < 0)
        return dt_fail(DT_ERR_IO, "cannot write records to %s: %s", f->path, strerror(errno));
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (rlim_t)facts.st_size + PROBE_BYTES > limit.rlim_cur)
        return dt_fail(DT_ERR_IO, "cannot write records to %s: the limit on the size of files (ulimit -f) leaves no room", f->path);
    int failed;
    do {
        failed = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, facts.st_size, PROBE_BYTES) < 0 ? errno : 0;
    } while (failed == EINTR);
    if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG || failed == EIO || failed == EROFS)
        return dt_fail(DT_ERR_IO, "cannot write records to %s: %s (%d KiB are wanted)", f->path, strerror(failed), PROBE_BYTES >> 10);
    if (failed == 0) {
        /* Remove the reservation; a file that can only grow (chattr +a) keeps it, without harm. */
        if (ftruncate(f->fd, facts.st_size) < 0 && errno != EPERM)
            return dt_fail(DT_ERR_IO, "cannot write records to %s: %s", f->path, strerror(errno));
    } else if (fstatvfs(f->fd, &system) == 0 && system.f_blocks > 0 && (double)system.f_bavail * (double)system.f_frsize < PROBE_BYTES) {
        return dt_fail(DT_ERR_IO, "cannot write records to %s: its file system is full", f->path);
    }
    return DT_OK;
}

/* Devices and pipes: an empty write detects some errors and changes nothing (/dev/full refuses even
 * that). */
static dt_status probe_stream(const struct dt_record_file *f)
{
    if (write(f->fd, "", 0) < 0)
        return dt_fail(DT_ERR_IO, "cannot write records to %s: %s", f->path, strerror(errno));
    return DT_OK;
}

/* Writes to a named pipe without a reader would be lost: wait a short time for a reader, because a
 * script may start it at the same time. -1: there is none; errno is set. */
static int open_pipe(const char *path)
{
    static const double reader_s = 2;
    int64_t end_ns = dt_deadline_ns(reader_s);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    while (fd < 0 && errno == ENXIO && !dt_deadline_passed(end_ns)) {
        dt_sleep_ms(20);
        fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    }
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static int open_path(const char *path)
{
    struct stat facts;
    if (strcmp(path, "-") == 0)
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode))
        return open_pipe(path);
    return open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
}

/* The reason why it could not be opened. */
static const char *open_problem(int error)
{
    switch (error) {
    case ENOENT: return "its folder does not exist";
    case ENXIO: return "it is a pipe, and nobody reads from it";
    default: return strerror(error);
    }
}

dt_status dt_record_open(const char *path, struct dt_record_file **out)
{
    bool standard = strcmp(path, "-") == 0;
    DT_DESTROYED(dt_record_close) struct dt_record_file *f = calloc(1, sizeof *f);
    struct stat facts;
    DT_TRY(dt_allocated(f, "out of memory while opening %s", path));
    f->path = strdup(standard ? "standard output" : path);
    f->fd = open_path(path);
    DT_TRY(dt_allocated(f->path, "out of memory while opening %s", path));
    if (f->fd < 0 || fstat(f->fd, &facts) < 0)
        return dt_fail(DT_ERR_IO, "cannot write records to %s: %s", f->path, open_problem(errno));
    f->regular = S_ISREG(facts.st_mode);
    DT_TRY(lock(f, LOCK_EX));
    DT_TRY(f->regular ? probe_regular(f) : probe_stream(f));
    DT_TRY(lock(f, LOCK_UN));
    *out = DT_PASSED_ON(f);
    return DT_OK;
}

void dt_record_close(struct dt_record_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd); /* drops the lock too */
    free(file->path);
    free(file);
}

/* A pipe may accept a line in parts; a file takes it whole unless the disk is full. */
static dt_status write_all(const struct dt_record_file *f, const char *text, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t now = write(f->fd, text + done, bytes - done);
        if (now < 0 && errno != EINTR)
            return dt_fail(DT_ERR_IO, "cannot write a record to %s: %s", f->path, strerror(errno));
        done += now > 0 ? (size_t)now : 0;
    }
    return DT_OK;
}

static dt_status append_locked(const struct dt_record_file *f, const char *text, size_t bytes)
{
    struct stat facts = {0};
    char last = '\n';
    if (f->regular) {
        if (fstat(f->fd, &facts) < 0)
            return dt_fail(DT_ERR_IO, "cannot write a record to %s: %s", f->path, strerror(errno));
        if (facts.st_size > 0 && pread(f->fd, &last, 1, facts.st_size - 1) < 0)
            last = '\n'; /* standard output opened for writing only */
    }
    /* text begins with a newline, to end a torn last line if there is one. */
    bool torn = last != '\n';
    dt_status status = write_all(f, text + !torn, bytes - !torn);
    if (status < 0) {
        if (f->regular && ftruncate(f->fd, facts.st_size) < 0)
            return dt_fail(status, "%s; a part of it stays in the file", dt_error_message());
        return status;
    }
    while (fsync(f->fd) < 0) {
        if (errno == EINVAL || errno == ENOTSUP || errno == EROFS) /* a pipe, a terminal */
            break;
        if (errno != EINTR)
            return dt_fail(DT_ERR_IO, "cannot write a record to %s: %s", f->path, strerror(errno));
    }
    return DT_OK;
}

/* The first failure is returned. A failure to unlock after it is harmless: close unlocks in any
 * case. */
static dt_status append(struct dt_record_file *file, const char *text, size_t bytes)
{
    DT_TRY(lock(file, LOCK_EX));
    dt_status status = append_locked(file, text, bytes);
    if (status < 0) {
        flock(file->fd, LOCK_UN);
        return status;
    }
    return lock(file, LOCK_UN);
}

dt_status dt_record_append(struct dt_record_file *file, const char *line)
{
    size_t bytes = strlen(line);
    if (strchr(line, '\n'))
        return dt_fail(DT_ERR_INVALID, "a record of more than one line for %s", file->path);
    DT_FREED char *text = malloc(bytes + 3);
    DT_TRY(dt_allocated(text, "out of memory while writing a record"));
    text[0] = '\n';
    memcpy(text + 1, line, bytes);
    text[bytes + 1] = '\n';
    text[bytes + 2] = 0;
    return append(file, text, bytes + 2);
}

enum { BLOCK_BYTES = 1 << 17 };

/* Bytes that were read: text [used]; the first `begin` bytes have been used. */
struct lines {
    char *text; /* owned */
    size_t begin, used, room;
};

/* Read another block after the existing bytes. A device can give any number of bytes, so lines have
 * a maximal length. */
static dt_status read_block(int fd, const char *path, struct lines *l, bool *end)
{
    if (l->begin > 0)
        memmove(l->text, l->text + l->begin, l->used - l->begin);
    l->used -= l->begin;
    l->begin = 0;
    if (l->used > DT_RECORD_MAX_BYTES)
        return dt_fail(DT_ERR_IO, "cannot read records from %s: a line of more than %d MiB, and no record has that", path,
                       DT_RECORD_MAX_BYTES >> 20);
    DT_TRY(dt_allocated(DT_ROOM_FOR(l->text, l->used, l->room, BLOCK_BYTES + 1), "out of memory while reading %s", path));
    ssize_t count;
    do {
        count = read(fd, l->text + l->used, BLOCK_BYTES);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return dt_fail(DT_ERR_IO, "cannot read records from %s: %s", path, strerror(errno));
    *end = count == 0;
    l->used += (size_t)count;
    return DT_OK;
}

static dt_status visit_lines(int fd, const char *path, struct lines *l, dt_line_use *use, void *context)
{
    uint64_t offset = 0; /* of the line in the file */
    size_t searched = 0; /* bytes of the line known to contain no newline */
    for (bool end = false; !end;) {
        DT_TRY(read_block(fd, path, l, &end));
        while (l->begin < l->used) {
            char *line = l->text + l->begin, *stop = memchr(line + searched, '\n', l->used - l->begin - searched);
            size_t bytes = stop ? (size_t)(stop - line) : l->used - l->begin;
            searched = stop ? 0 : bytes;
            if (!stop && !end)
                break;
            line[bytes] = 0;
            if (bytes > DT_RECORD_MAX_BYTES)
                return dt_fail(DT_ERR_IO, "cannot read records from %s: a line of more than %d MiB, and no record has that", path,
                               DT_RECORD_MAX_BYTES >> 20);
            if (bytes > 0)
                DT_TRY(use(context, line, bytes, offset));
            l->begin += bytes + (stop != NULL);
            offset += bytes + (stop != NULL);
        }
    }
    return DT_OK;
}

dt_status dt_record_lines_visit(const char *path, dt_line_use *use, void *context)
{
    struct lines lines = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? DT_OK : dt_fail(DT_ERR_IO, "cannot read records from %s: %s", path, strerror(errno));
    dt_status status = visit_lines(fd, path, &lines, use, context);
    free(lines.text);
    close(fd);
    return status;
}
