#include "lib/config/data_file.h"

#include "lib/base/text.h"

#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 5 };

/* The directory of the running program; "." if the system does not report it. */
static void program_directory(char out[PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = 0;
    snprintf(out, PATH_MAX, "%s", bytes > 0 ? dirname(path) : ".");
}

dt_status dt_find_data_file(const char *name, const char *directory, char *out, size_t out_bytes)
{
    char beside[PATH_MAX], places[PLACES][PATH_MAX + 64], tried[1024] = "";
    const char *configs = getenv("DTBENCH_CONFIGS");
    int count = 0;
    if (*name == '/') {
        snprintf(out, out_bytes, "%s", name);
        return access(name, R_OK) == 0 ? DT_OK : dt_fail(DT_ERR_IO, "%s: cannot be read", name);
    }
    program_directory(beside);
    if (directory && *directory)
        snprintf(places[count++], sizeof places[0], "%s", directory);
    snprintf(places[count++], sizeof places[0], ".");
    if (configs && *configs) {
        snprintf(places[count++], sizeof places[0], "%s", configs);
    } else {
        snprintf(places[count++], sizeof places[0], "%s/../../configs", beside);
        snprintf(places[count++], sizeof places[0], "%s/../share/dtbench/configs", beside);
    }
    for (int i = 0; i < count; i++) {
        int bytes = snprintf(out, out_bytes, "%s/%s", places[i], name);
        if (bytes > 0 && (size_t)bytes < out_bytes && access(out, R_OK) == 0)
            return DT_OK;
        dt_append(tried, sizeof tried, ", ", "%.250s", places[i]);
    }
    return dt_fail(DT_ERR_IO, "%s: not found in %s", name, tried);
}

dt_status dt_find_script(const char *name, char *out, size_t out_bytes)
{
    static const char *const places[] = {"../share/dtbench/scripts", "../../scripts"};
    char beside[PATH_MAX];
    program_directory(beside);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int bytes = snprintf(out, out_bytes, "%s/%s/%s", beside, places[i], name);
        if (bytes > 0 && (size_t)bytes < out_bytes && access(out, R_OK) == 0)
            return DT_OK;
    }
    return dt_fail(DT_ERR_IO, "the script %s is neither in %s nor in %s of %s: install dtbench with it", name, places[0], places[1],
                   beside);
}

void dt_data_file_name(const char *folder, const char *name, char *out, size_t out_bytes)
{
    size_t length = strlen(name);
    bool file = strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0);
    if (file)
        snprintf(out, out_bytes, "%s", name);
    else
        snprintf(out, out_bytes, "%s/%s.json", folder, name);
}

static int is_json(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".json") == 0;
}

void dt_data_file_names(const char *folder, char *out, size_t out_bytes)
{
    char path[PATH_MAX];
    struct dirent **entries;
    *out = '\0';
    int count = dt_find_data_file(folder, NULL, path, sizeof path) == DT_OK ? scandir(path, &entries, is_json, alphasort) : -1;
    for (int i = 0; i < count; i++) {
        int length = (int)strlen(entries[i]->d_name) - (int)strlen(".json");
        if (strlen(out) + (size_t)length + sizeof ", " <= out_bytes)
            dt_append(out, out_bytes, ", ", "%.*s", length, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}
