#include "lib/base/output_file.h"
#include "test/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/dtbench-name-file-XXXXXX", temporary[64], path[64];

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static bool contains(const char *name, char first)
{
    FILE *file = fopen(name, "r");
    bool same = file && fgetc(file) == first;
    if (file)
        fclose(file);
    return same;
}

static bool theirs_comes; /* another process makes the file while it is being written */

static dt_status write_new(bool only_new)
{
    struct dt_output_file file;
    CHECK_OK(dt_output_open(path, &file));
    file.only_new = only_new;
    CHECK(fputs("new", file.stream) >= 0);
    if (theirs_comes)
        write_text(path, "theirs");
    return dt_output_close(&file, true);
}

/* The same file's permissions stay. */
static void permissions_stay(void)
{
    struct stat facts;
    write_text(path, "old");
    CHECK(chmod(path, 0640) == 0);
    CHECK_OK(dt_output_write(path, "new"));
    CHECK(stat(path, &facts) == 0 && (facts.st_mode & 07777) == 0640, "%o", (unsigned)facts.st_mode);
    unlink(path);
}

/* Another process makes the file between the check and the renaming. */
static void nothing_is_replaced_unasked(void)
{
    CHECK(write_new(true) == DT_OK && contains(path, 'n'), "a new name: %s", dt_error_message());
    unlink(path);
    theirs_comes = true;
    CHECK(write_new(true) == DT_ERR_IO && strstr(dt_error_message(), path), "%s", dt_error_message());
    CHECK(contains(path, 't'), "their file was replaced");
    CHECK(write_new(false) == DT_OK && contains(path, 'n'), "replaced when asked: %s", dt_error_message());
    theirs_comes = false;
}

/* Other users' links have the file's name and the temporary file's name: their targets do not
 * change. */
static void links_are_not_followed(void)
{
    char fresh[96];
    snprintf(fresh, sizeof fresh, "%s.%ld~", path, (long)getpid());
    unlink(path);
    write_text(temporary, "theirs");
    CHECK(symlink(temporary, path) == 0 && symlink(temporary, fresh) == 0);
    CHECK_OK(dt_output_write(path, "new"));
    CHECK(contains(temporary, 't'), "the link was followed");
    CHECK(contains(path, 'n') && access(fresh, F_OK) != 0, "it was not replaced");
}

/* After a failed or abandoned writing the older file remains. */
static void older_file_stays(void)
{
    struct dt_output_file file;
    unlink(path);
    write_text(path, "old");
    CHECK_OK(dt_output_open(path, &file));
    CHECK(fputs("new", file.stream) >= 0);
    CHECK(contains(path, 'o'), "before its end");
    CHECK_OK(dt_output_close(&file, false));
    CHECK(contains(path, 'o'), "given up");
    CHECK(dt_output_write("/dev/full", "new") == DT_ERR_IO && strstr(dt_error_message(), "/dev/full"), "%s", dt_error_message());
    CHECK(dt_output_write("/nowhere/file", "new") == DT_ERR_IO && strstr(dt_error_message(), "does not exist"), "%s", dt_error_message());
    CHECK_OK(dt_output_write("/dev/null", "new"));
    CHECK(dt_output_is_stream("/dev/null") && !dt_output_is_stream(path));
}

static const struct test_case cases[] = {
    {"permissions stay", permissions_stay},
    {"nothing is replaced unasked", nothing_is_replaced_unasked},
    {"links are not followed", links_are_not_followed},
    {"the older file stays until the new one is whole", older_file_stays},
};

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    snprintf(temporary, sizeof temporary, "%s/temporary", folder);
    snprintf(path, sizeof path, "%s/path", folder);
    int code = test_main(cases, sizeof cases / sizeof cases[0]);
    unlink(path);
    unlink(temporary);
    rmdir(folder);
    return code;
}
