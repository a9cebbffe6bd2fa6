#include "cli/records/records.h"
#include "cli/records/results_store.h"
#include "lib/base/grow.h"
#include "lib/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Clear the values that an invalid line has put into the next row. */
static void forget_row(struct results *r)
{
    for (int i = 0; i < r->node_count; i++) {
        struct node *node = &r->nodes[i];
        if (node->rows > r->count)
            node->rows = r->count;
        node->told_row = NONE;
    }
}

enum line_is { IS_RECORD, IS_NEWER, IS_TORN };

/* Find a key of the record itself. Its column is remembered in *column. */
static int find_own(const struct results *r, const char *key, int *column)
{
    for (int child = r->nodes[ROOT].child; *column == NONE && child != NONE; child = r->nodes[child].next)
        if (strcmp(r->nodes[child].key, key) == 0)
            *column = child;
    return *column;
}

static bool has_text(const struct results *r, const char *key, int *column)
{
    return find_own(r, key, column) != NONE && results_kind(r, r->count, *column) == RESULT_TEXT;
}

/* Keep a line, with which the next one is compared. */
static dt_status keep_text(struct results *r, const char *line, size_t bytes)
{
    DT_TRY(dt_allocated(DT_ROOM_FOR(r->line, 0, r->line_room, bytes), "no memory for a record"));
    memcpy(r->line, line, bytes);
    r->line_bytes = bytes;
    return DT_OK;
}

/* Make a line's values the next row, if it is a record. Errors: DT_ERR_HOST_MEMORY. */
static dt_status scan_line(struct results *r, const char *line, size_t bytes, struct row place, enum line_is *is)
{
    bool has_config;
    dt_status status = results_scan(r, line, bytes, &has_config);
    *is = IS_TORN;
    if (status == DT_OK && has_config && has_text(r, "config_hash", &r->hash) && has_text(r, "status", &r->status)) {
        bool told = find_own(r, "schema_version", &r->version) != NONE;
        *is = told && results_number(r, r->count, r->version) > DT_RECORD_SCHEMA_VERSION ? IS_NEWER : IS_RECORD;
    }
    if (status == DT_OK && *is == IS_RECORD && !DT_ROOM(r->rows, r->count, r->capacity))
        status = dt_fail(DT_ERR_HOST_MEMORY, "no memory for %d records", r->count);
    if (status == DT_OK && *is == IS_RECORD)
        status = keep_text(r, line, bytes);
    if (status == DT_OK && *is == IS_RECORD)
        r->rows[r->count++] = place;
    else
        forget_row(r);
    return status == DT_ERR_INVALID ? DT_OK : status;
}

static dt_status add_source(struct results *r, const char *name, int fd)
{
    DT_TRY(dt_allocated(DT_ONE_MORE(r->sources, r->source_count), "no memory for the records of %s", name));
    r->sources[r->source_count] = (struct source){strdup(name), fd};
    DT_TRY(dt_allocated(r->sources[r->source_count].name, "no memory for the records of %s", name));
    r->source_count++;
    return DT_OK;
}

/* Keep a line of standard input in a temporary file, from which results_record reads it. */
static dt_status keep_line(struct results *r, const char *line, size_t bytes, struct row *place)
{
    if (r->kept_source == NONE) {
        char name[PATH_MAX];
        const char *folder = getenv("TMPDIR");
        snprintf(name, sizeof name, "%s/dtbench.XXXXXX", folder && *folder ? folder : "/tmp");
        int fd = mkostemp(name, O_CLOEXEC);
        if (fd < 0)
            return dt_fail(DT_ERR_IO, "cannot write the temporary file %s: %s", name, strerror(errno));
        unlink(name);
        int source = r->source_count;
        DT_TRY(add_source(r, "standard input", fd));
        r->kept_source = source;
    }
    *place = (struct row){r->kept_bytes, (uint32_t)bytes, r->kept_source};
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(r->sources[r->kept_source].fd, line + done, bytes - done);
        if (count < 0 && errno != EINTR)
            return dt_fail(DT_ERR_IO, "cannot write a temporary file: %s; TMPDIR chooses another folder", strerror(errno));
        done += count > 0 ? (size_t)count : 0;
    }
    r->kept_bytes += bytes;
    return DT_OK;
}

dt_status results_add(struct results *r, const char *line, int *row)
{
    enum line_is is;
    DT_TRY(scan_line(r, line, strlen(line), (struct row){.source = NONE}, &is));
    *row = is == IS_RECORD ? r->count - 1 : NONE;
    return DT_OK;
}

struct reader {
    struct results *results;
    const char *command;
    bool standard; /* standard input, which cannot be read again */
    int torn, newer;
};

static dt_status read_line(void *context, char *line, size_t bytes, uint64_t offset)
{
    struct reader *reader = context;
    struct results *r = reader->results;
    struct row place = {offset, (uint32_t)bytes, r->source_count - 1};
    enum line_is is;
    if (strspn(line, " \t\r") == bytes)
        return DT_OK;
    if (reader->standard)
        DT_TRY(keep_line(r, line, bytes, &place));
    DT_TRY(scan_line(r, line, bytes, place, &is));
    reader->torn += is == IS_TORN;
    reader->newer += is == IS_NEWER;
    return DT_OK;
}

static dt_status read_source(void *context, const char *path, const char *name)
{
    struct reader *reader = context;
    reader->standard = name != path;
    reader->torn = reader->newer = 0;
    if (!reader->standard)
        DT_TRY(add_source(reader->results, path, -1));
    DT_TRY(dt_record_lines_visit(path, read_line, reader));
    records_warn_of_left_out(reader->command, name, reader->torn, reader->newer, DT_RECORD_SCHEMA_VERSION + 1);
    return DT_OK;
}

dt_status results_read(struct results *r, const char *command, const char *const *arguments, int argument_count)
{
    struct reader reader = {.results = r, .command = command};
    return record_files_visit(arguments, argument_count, read_source, &reader);
}
