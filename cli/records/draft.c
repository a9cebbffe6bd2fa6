#include "cli/records/records.h"

#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *glob_pattern(const char *name, const char *ending)
{
    char *pattern = malloc(2 * strlen(name) + strlen(ending) + 1), *end = pattern;
    if (!pattern)
        return NULL;
    for (; *name; name++) {
        if (strchr("*?[\\", *name))
            *end++ = '\\';
        *end++ = *name;
    }
    strcpy(end, ending);
    return pattern;
}

#define ENDING ".draft"

/* Limits on how often a draft is written, so that it does not slow down the measured run. */
static const double least_interval_s = 1, times_its_cost = 1000;

/* Format the record that the experiment would have if its process ended now. */
static dt_status format(const struct draft *draft, char **line)
{
    struct report last = *draft->report; /* owns nothing */
    const struct measure_result *result = &draft->report->result;
    int warmup = result->losses_done - result->steps_done, least = draft->experiment->steps.warmup;
    int steps = (warmup > least ? warmup : least) + draft->experiment->steps.timed;
    char error[128];
    snprintf(error, sizeof error, "ended without a result after step %d of %d: dtbench was killed, or its node was lost",
             last.result.losses_done, steps);
    report_end(&last, DT_ERR_COMM, error);
    return report_record(&last, draft->experiment, line);
}

/* Replace the draft by a new file, which is locked already. */
static bool replace(struct draft *draft, const char *line)
{
    size_t bytes = strlen(line);
    DT_FREED char *temporary = malloc(strlen(draft->path) + sizeof "~");
    if (!temporary)
        return false;
    strcat(strcpy(temporary, draft->path), "~");
    unlink(temporary); /* from a process that ended before, or another user's link: never write to it */
    int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool done = fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno == ENOTSUP || errno == ENOLCK) &&
                write(fd, line, bytes) == (ssize_t)bytes && rename(temporary, draft->path) == 0;
    if (done) {
        close(draft->fd);
        draft->fd = fd;
    } else if (fd >= 0) {
        unlink(temporary);
        close(fd);
    }
    return done;
}

/* If a draft cannot be written, the older one remains and the run continues. */
static void write_draft(struct draft *draft)
{
    double begun_s = dt_clock_s();
    DT_FREED char *line = NULL;
    if (format(draft, &line) < 0)
        return;
    (void)replace(draft, line);
    /* one write may take long by chance on a busy machine: take the shorter of two successive ones
     * as the cost */
    double took_s = dt_clock_s() - begun_s, cost_s = draft->took_s > 0 && draft->took_s < took_s ? draft->took_s : took_s;
    double interval_s = times_its_cost * cost_s;
    draft->took_s = took_s;
    draft->due_s = dt_clock_s() + (interval_s > least_interval_s ? interval_s : least_interval_s);
}

void draft_begin(struct draft *draft, const char *records, const struct experiment *experiment, const struct report *report)
{
    struct stat facts;
    *draft = (struct draft){.fd = -1};
    if (!records || stat(records, &facts) < 0 || !S_ISREG(facts.st_mode))
        return;
    draft->path = malloc(strlen(records) + sizeof ".XXXXXX" ENDING);
    if (!draft->path)
        return;
    strcat(strcpy(draft->path, records), ".XXXXXX" ENDING);
    draft->fd = mkostemps(draft->path, (int)strlen(ENDING), O_CLOEXEC);
    if (draft->fd < 0) {
        free(draft->path);
        draft->path = NULL;
        return;
    }
    (void)flock(draft->fd, LOCK_EX | LOCK_NB);
    draft->experiment = experiment;
    draft->report = report;
    write_draft(draft);
    draft->due_s = 0; /* write the first step at once */
}

void draft_step(struct draft *draft)
{
    if (draft && draft->experiment && dt_clock_s() >= draft->due_s)
        write_draft(draft);
}

void draft_end(struct draft *draft)
{
    if (!draft->experiment)
        return;
    unlink(draft->path);
    close(draft->fd);
    free(draft->path);
    *draft = (struct draft){.fd = -1};
}

/* Is the open file a draft of this user? Other users may put links and files next to records in a
 * public folder. */
static bool is_own_file(const struct stat *facts)
{
    return S_ISREG(facts->st_mode) && facts->st_nlink == 1 && facts->st_uid == geteuid();
}

/* Open and lock a draft whose process has ended; -1 if the process runs, the file is no draft, or
 * the file system has no locks. */
static int lock_of_dead(const char *path)
{
    struct stat opened, named;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    /* A live process may have replaced it between opening and locking. */
    if (fd >= 0 && fstat(fd, &opened) == 0 && is_own_file(&opened) && flock(fd, LOCK_EX | LOCK_NB) == 0 && lstat(path, &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Find all RECORDS.??????.draft. */
static dt_status find(const char *records, glob_t *found)
{
    DT_FREED char *pattern = glob_pattern(records, ".??????" ENDING);
    DT_TRY(dt_allocated(pattern, "no memory for a file's name"));
    int failed = glob(pattern, 0, NULL, found);
    return failed == GLOB_NOSPACE ? dt_fail(DT_ERR_HOST_MEMORY, "no memory for the names of files") : DT_OK;
}

dt_status drafts_visit(const char *records, record_file_use *use, void *context)
{
    DT_ENDED(globfree) glob_t found = {0};
    DT_TRY(find(records, &found));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int fd = lock_of_dead(found.gl_pathv[i]);
        if (fd < 0)
            continue;
        close(fd);
        DT_TRY(use(context, found.gl_pathv[i], found.gl_pathv[i]));
    }
    return DT_OK;
}

/* Also remove the temporary file that would have replaced it, which remains if the process ended in
 * between. */
static void remove_draft(const char *path)
{
    DT_FREED char *temporary = malloc(strlen(path) + sizeof "~");
    if (temporary)
        unlink(strcat(strcpy(temporary, path), "~"));
    unlink(path);
}

/* Append a draft to the records. It is one line, or empty if the process ended before it wrote one.
 * Closes `fd`, and thereby releases the lock. */
static dt_status adopt(const char *path, int fd, struct dt_record_file *file, int *count)
{
    DT_FREED char *line = NULL;
    size_t size = 0;
    dt_status status = DT_OK;
    FILE *draft = fdopen(fd, "r");
    if (!draft) {
        close(fd);
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a draft");
    }
    ssize_t bytes = getline(&line, &size, draft);
    if (bytes > 0) {
        line[strcspn(line, "\n")] = 0;
        status = dt_record_append(file, line);
        *count += status == DT_OK;
    }
    if (status == DT_OK)
        remove_draft(path);
    fclose(draft);
    return status;
}

dt_status drafts_adopt(const char *records, struct dt_record_file *file, int *count)
{
    DT_ENDED(globfree) glob_t found = {0};
    dt_status status = find(records, &found);
    *count = 0;
    for (size_t i = 0; status == DT_OK && i < found.gl_pathc; i++) {
        int fd = lock_of_dead(found.gl_pathv[i]);
        if (fd < 0)
            continue;
        status = adopt(found.gl_pathv[i], fd, file, count);
    }
    return status;
}
