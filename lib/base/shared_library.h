/* Shared libraries that are loaded while the program runs, because the machines it starts on may not have them. */
#ifndef LIB_BASE_SHARED_LIBRARY_H
#define LIB_BASE_SHARED_LIBRARY_H

#include <stddef.h>

/* Open `name` ("libnccl.so.2"). If the environment variable `variable` is set, what it names is opened, and nothing else. Otherwise it is
 * looked for where the loader looks (LD_LIBRARY_PATH, the system's cache), then beside this program and in the lib folder beside its
 * folder, then in lib64 and lib of the folders that CUDA_HOME and CUDA_PATH name and of `home` (may be NULL).
 * Returns dlopen's handle, which stays open as long as the process. NULL where there is none: `reason` then gets one line with the loader's
 * own words. */
void *dt_shared_library_open(const char *name, const char *variable, const char *home, char *reason, size_t reason_bytes);

struct dt_shared_function {
    const char *name;
    void *to; /* where its address goes: a pointer to a function */
};

/* Find `count` functions of the library; those that it does not have become NULL. The first of their names, or NULL where it has all. */
const char *dt_shared_library_find(void *library, const struct dt_shared_function *functions, size_t count);

#endif
