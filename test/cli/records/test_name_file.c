#include "cli/records/name_file.h"
#include "test/check.h"

#include <stdio.h>
#include <stdlib.h>
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

/* A file that came between the look and the renaming. */
static void nothing_is_replaced_unasked(void)
{
    write_text(temporary, "new");
    write_text(path, "theirs");
    CHECK(name_file(temporary, path, false) == DT_ERR_IO && strstr(dt_error_message(), path), "%s", dt_error_message());
    CHECK(contains(path, 't') && contains(temporary, 'n'), "their file was replaced");
    CHECK_OK(name_file(temporary, path, true));
    CHECK(contains(path, 'n') && access(temporary, F_OK) != 0, "replaced when asked");
    unlink(path);
    write_text(temporary, "new");
    CHECK_OK(name_file(temporary, path, false));
    CHECK(contains(path, 'n'), "a new name");
}

static const struct test_case cases[] = {
    {"nothing is replaced unasked", nothing_is_replaced_unasked},
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
