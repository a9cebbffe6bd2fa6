/* Libraries that are loaded while the program runs: where they are searched, and the error if there
 * is none. */
#include "lib/base/shared_library.h"
#include "test/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char variable[] = "DTBENCH_TEST_LIBRARY", system_library[] = "libm.so.6";

static void missing(void)
{
    char reason[512] = "";
    CHECK(!dt_shared_library_open("libdtbench_no_such.so.7", variable, NULL, reason, sizeof reason));
    CHECK(strstr(reason, "libdtbench_no_such.so.7"), "%s", reason);
}

static void by_name(void)
{
    char reason[512] = "";
    void *library = dt_shared_library_open(system_library, variable, NULL, reason, sizeof reason);
    CHECK(library, "%s", reason);
    double (*cosine)(double) = NULL;
    void (*none)(void) = missing;
    const struct dt_shared_function functions[] = {{"dt_no_such_function", &none}, {"cos", &cosine}, {"dt_no_other", &none}};
    const char *first = library ? dt_shared_library_find(library, functions, 3) : NULL;
    CHECK(first && strcmp(first, "dt_no_such_function") == 0 && !none);
    CHECK(cosine && cosine(0) == 1);
    CHECK(library && !dt_shared_library_find(library, functions + 1, 1));
}

/* The variable decides: only the file that it names is loaded. */
static void by_variable(void)
{
    char reason[512] = "";
    setenv(variable, "/nowhere/libother.so", 1);
    CHECK(!dt_shared_library_open(system_library, variable, NULL, reason, sizeof reason));
    CHECK(strstr(reason, "/nowhere/libother.so"), "%s", reason);
    setenv(variable, system_library, 1);
    CHECK(dt_shared_library_open("libdtbench_no_such.so.7", variable, NULL, reason, sizeof reason), "%s", reason);
    unsetenv(variable);
}

/* A file that the loader would not find: in lib64 of CUDA_HOME, and in the folder of the build; one
 * that is no library says so. */
static void by_folder(void)
{
    char reason[512] = "", home[] = "/tmp/dtbench_library_XXXXXX", folder[64], path[128];
    static const char hidden[] = "libdtbench_hidden.so.1";
    CHECK(mkdtemp(home));
    snprintf(folder, sizeof folder, "%s/lib64", home);
    snprintf(path, sizeof path, "%s/%s", folder, hidden);
    CHECK(mkdir(folder, 0700) == 0);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("no library\n", file) >= 0 && fclose(file) == 0);
    CHECK(!dt_shared_library_open(hidden, variable, home, reason, sizeof reason));
    CHECK(strstr(reason, path), "%s", reason);

    /* any library will do */
    static const char *const somewhere[] = {"/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib/aarch64-linux-gnu"};
    char target[128] = "";
    for (size_t i = 0; i < sizeof somewhere / sizeof somewhere[0] && access(target, F_OK) != 0; i++)
        snprintf(target, sizeof target, "%s/%s", somewhere[i], system_library);
    CHECK(unlink(path) == 0);
    if (access(target, F_OK) == 0 && symlink(target, path) == 0) {
        CHECK(dt_shared_library_open(hidden, variable, home, reason, sizeof reason), "%s", reason);
        CHECK(!dt_shared_library_open(hidden, variable, NULL, reason, sizeof reason));
        setenv("CUDA_HOME", home, 1);
        CHECK(dt_shared_library_open(hidden, variable, NULL, reason, sizeof reason), "%s", reason);
        unlink(path);
    }
    rmdir(folder);
    rmdir(home);
}

static const struct test_case cases[] = {
    {"a library that is not there", missing},
    {"by its name", by_name},
    {"what a variable names", by_variable},
    {"in CUDA's folder", by_folder},
};
TEST_MAIN(cases)
