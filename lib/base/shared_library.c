#include "lib/base/shared_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Open `folder`/`below`/`name`. If the library exists but does not load, `reason` says why; if it
 * does not exist, `reason` is unchanged. */
static void *open_in(const char *folder, const char *below, const char *name, char *reason, size_t reason_bytes)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s/%s", folder, below, name);
    if (length < 0 || length >= (int)sizeof path || access(path, F_OK) != 0)
        return NULL;
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        snprintf(reason, reason_bytes, "%s", dlerror());
    return library;
}

/* The folder of this program's file. */
static bool program_folder(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0)
        return false;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return slash;
}

void *dt_shared_library_open(const char *name, const char *variable, const char *home, char *reason, size_t reason_bytes)
{
    const char *given = getenv(variable);
    char beside[PATH_MAX];
    void *library = dlopen(given && *given ? given : name, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        snprintf(reason, reason_bytes, "%s", dlerror());
    if (library || (given && *given))
        return library;
    if (program_folder(beside)) {
        library = open_in(beside, ".", name, reason, reason_bytes);
        if (!library)
            library = open_in(beside, "../lib", name, reason, reason_bytes);
    }
    const char *const homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), home};
    for (size_t i = 0; !library && i < sizeof homes / sizeof homes[0]; i++) {
        if (!homes[i] || !*homes[i])
            continue;
        library = open_in(homes[i], "lib64", name, reason, reason_bytes);
        if (!library)
            library = open_in(homes[i], "lib", name, reason, reason_bytes);
    }
    return library;
}

const char *dt_shared_library_find(void *library, const struct dt_shared_function *functions, size_t count)
{
    const char *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found && !missing)
            missing = functions[i].name;
        memcpy(functions[i].to, &found, sizeof found);
    }
    return missing;
}
