/* Shared libraries that are loaded at run time, because some machines do not have them. */
#pragma once

#include <stddef.h>

/* Open `name` ("libnccl.so.2"). If the environment variable `variable` is set, only the file that
 * it names is tried. Otherwise the library is looked for where the loader looks (LD_LIBRARY_PATH,
 * the system's cache), then in this program's folder and in the lib folder next to that, then in
 * lib64 and lib of the folders that CUDA_HOME and CUDA_PATH name and of `home` (may be NULL).
 * Returns dlopen's handle, which stays open as long as the process. NULL if none can be opened:
 * `reason` then gets one line with the loader's message. */
void *dt_shared_library_open(const char *name, const char *variable, const char *home, char *reason, size_t reason_bytes);

struct dt_shared_function {
    const char *name;
    void *to; /* receives its address: a pointer to a function */
};

/* Find `count` functions of the library; missing ones become NULL. Returns the name of the first
 * missing one, or NULL. */
const char *dt_shared_library_find(void *library, const struct dt_shared_function *functions, size_t count);
