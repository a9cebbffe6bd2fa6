#include "lib/record/record.h"

#include "lib/base/clock.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
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

/* What must fit before the first step: a good many records of a few KiB. */
enum { PROBE_BYTES = 64 << 10 };

struct dt_record_file {
    int fd;
    bool regular; /* locks, torn tails and taking back exist only for these */
    char *path;   /* for errors */
};

static dt_status lock(const struct dt_record_file *f, int operation)
{
    while (f->regular && flock(f->fd, operation) < 0) {
        if (errno == ENOLCK || errno == ENOTSUP || errno == EBADF) /* a file system without locks: one writer is the user's to see to */
            return DT_OK;
        if (errno != EINTR)
            return dt_fail(DT_ERR_IO, "cannot lock %s: %s", f->path, strerror(errno));
    }
    return DT_OK;
}

/* Would a few records fit? Blocks are asked for beyond the end and given back at once, so nothing that is there changes. */
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
        /* The reservation's end; a file that only grows (chattr +a) keeps it, to no harm. */
        if (ftruncate(f->fd, facts.st_size) < 0 && errno != EPERM)
            return dt_fail(DT_ERR_IO, "cannot write records to %s: %s", f->path, strerror(errno));
    } else if (fstatvfs(f->fd, &system) == 0 && system.f_blocks > 0 && (double)system.f_bavail * (double)system.f_frsize < PROBE_BYTES) {
        return dt_fail(DT_ERR_IO, "cannot write records to %s: its file system is full", f->path);
    }
    return DT_OK;
}

/* Devices and pipes: an empty write finds what can be found without leaving a trace (/dev/full refuses even that). */
static dt_status probe_stream(const struct dt_record_file *f)
{
    if (write(f->fd, "", 0) < 0)
        return dt_fail(DT_ERR_IO, "cannot write records to %s: %s", f->path, strerror(errno));
    return DT_OK;
}

/* A named pipe takes what nobody will read: its reader must be there, or come soon, as one does that a script starts beside this process.
 * -1: it is not, and errno says so. */
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

/* Why it could not be opened. */
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
    struct dt_record_file *f = calloc(1, sizeof *f);
    char *name = strdup(standard ? "standard output" : path);
    dt_status status = DT_ERR_IO;
    struct stat facts;
    if (!f || !name) {
        free(f);
        free(name);
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while opening %s", path);
    }
    f->path = name;
    f->fd = open_path(path);
    if (f->fd < 0 || fstat(f->fd, &facts) < 0) {
        dt_fail(DT_ERR_IO, "cannot write records to %s: %s", f->path, open_problem(errno));
        goto fail;
    }
    f->regular = S_ISREG(facts.st_mode);
    status = lock(f, LOCK_EX);
    if (status < 0)
        goto fail;
    status = f->regular ? probe_regular(f) : probe_stream(f);
    if (status < 0)
        goto fail;
    status = lock(f, LOCK_UN);
    if (status < 0)
        goto fail;
    *out = f;
    return DT_OK;
fail:
    dt_record_close(f);
    return status;
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

/* A pipe may take a line in parts; a file takes it whole unless the disk is full. */
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
    /* text begins with a newline for the case of a torn last line. */
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

/* The first failure is the one that is returned. A failure to unlock after it does no harm: close unlocks in any case. */
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
    char *text = malloc(bytes + 3);
    DT_TRY(dt_allocated(text, "out of memory while writing a record"));
    text[0] = '\n';
    memcpy(text + 1, line, bytes);
    text[bytes + 1] = '\n';
    text[bytes + 2] = 0;
    dt_status status = append(file, text, bytes + 2);
    free(text);
    return status;
}

/* A line that is not one object is skipped: a torn tail, or something else. */
static dt_status add_line(cJSON *records, const char *line, size_t bytes, const char *path, int *skipped)
{
    cJSON *record;
    if (strspn(line, " \t\r\n") == bytes)
        return DT_OK;
    dt_status status = dt_json_parse(line, bytes, path, &record);
    if (status == DT_ERR_HOST_MEMORY)
        return status;
    if (status == DT_OK && cJSON_IsObject(record)) {
        cJSON_AddItemToArray(records, record);
        return DT_OK;
    }
    cJSON_Delete(record);
    ++*skipped;
    return DT_OK;
}

struct line {
    char *text; /* NUL after `bytes`; owned */
    size_t bytes, room;
};

/* The next line, without its end. False: there is none. A device gives as many bytes as one asks for, so that a line has a longest length. */
static dt_status read_line(FILE *file, const char *path, struct line *line, bool *found)
{
    int c = getc_unlocked(file);
    *found = c != EOF;
    line->bytes = 0;
    for (; c != EOF && c != '\n'; c = getc_unlocked(file)) {
        if (line->bytes == DT_RECORD_MAX_BYTES)
            return dt_fail(DT_ERR_IO, "cannot read records from %s: a line of more than %d MiB, and no record has that", path,
                           DT_RECORD_MAX_BYTES >> 20);
        if (line->bytes + 1 >= line->room) {
            size_t room = 2 * line->room + 4096;
            char *text = realloc(line->text, room);
            DT_TRY(dt_allocated(text, "out of memory while reading %s", path));
            line->text = text;
            line->room = room;
        }
        line->text[line->bytes++] = (char)c;
    }
    if (line->bytes > 0)
        line->text[line->bytes] = 0;
    return DT_OK;
}

static dt_status read_lines(FILE *file, const char *path, cJSON *records, int *skipped)
{
    struct line line = {0};
    bool found = true;
    dt_status status = DT_OK;
    errno = 0;
    while (found && status == DT_OK) {
        status = read_line(file, path, &line, &found);
        if (status == DT_OK && line.bytes > 0)
            status = add_line(records, line.text, line.bytes, path, skipped);
    }
    free(line.text);
    if (status == DT_OK && ferror(file))
        return dt_fail(DT_ERR_IO, "cannot read records from %s: %s", path, strerror(errno));
    return status;
}

dt_status dt_records_read(const char *path, struct cJSON **out, int *skipped)
{
    *skipped = 0;
    errno = 0;
    FILE *file = fopen(path, "re");
    if (!file && errno != ENOENT)
        return dt_fail(DT_ERR_IO, "cannot read records from %s: %s", path, strerror(errno));
    cJSON *records = cJSON_CreateArray();
    dt_status status = dt_allocated(records, "out of memory while reading %s", path);
    if (records && file)
        status = read_lines(file, path, records, skipped);
    if (file)
        fclose(file);
    if (status < 0)
        cJSON_Delete(records);
    else
        *out = records;
    return status;
}

bool dt_records_have_ok(const struct cJSON *records, const char *config_hash)
{
    for (const cJSON *r = records->child; r; r = r->next) {
        const char *hash = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r, "config_hash"));
        const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r, "status"));
        if (hash && status && strcmp(hash, config_hash) == 0 && strcmp(status, "ok") == 0)
            return true;
    }
    return false;
}
