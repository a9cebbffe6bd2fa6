#include "lib/slurm/library.h"

#include "lib/slurm/release.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Slurm's own installation has libslurm.so; distributions put that name into their development
 * packages, and number the library itself. A version newer than this program knows can still expand
 * node lists. */
static void *load(void)
{
    enum { OLDEST = 36, NEWEST = 60 };
    const char *path = getenv("DTBENCH_LIBSLURM");
    char name[32];
    if (path && *path)
        return dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
    void *library = dlopen("libslurm.so", RTLD_LAZY | RTLD_GLOBAL); /* global, because its plugins look for its symbols */
    for (int number = NEWEST; !library && number >= OLDEST; number--) {
        snprintf(name, sizeof name, "libslurm.so.%d", number);
        library = dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
    }
    return library;
}

/* Needs no configuration, so it is called first. */
static void answer_node_names(void *library)
{
    void *(*create)(const char *) = (void *(*)(const char *))dlsym(library, "slurm_hostlist_create");
    char *(*shift)(void *) = (char *(*)(void *))dlsym(library, "slurm_hostlist_shift");
    const char *list = getenv("SLURM_JOB_NODELIST");
    void *names = create && shift && list ? create(list) : NULL;
    const char *separator = "node_names ";
    for (const char *name = names ? shift(names) : NULL; name; name = shift(names)) { /* allocated by malloc; freed by the process's end */
        printf("%s%s", separator, name);
        separator = " ";
    }
    if (*separator && !separator[1])
        printf("\n");
    fflush(stdout);
}

/* Before 26.05 these functions take a job's number. */
static void answer_end_time(void *library, uint32_t job_id)
{
    int (*get_end_time)(uint32_t, time_t *) = (int (*)(uint32_t, time_t *))dlsym(library, "slurm_get_end_time");
    long (*get_rem_time)(uint32_t) = (long (*)(uint32_t))dlsym(library, "slurm_get_rem_time");
    time_t end = 0;
    if (get_end_time && get_end_time(job_id, &end) == 0 && end > 0) {
        printf("end_time %lld\n", (long long)end);
    } else {
        long left = get_rem_time ? get_rem_time(job_id) : -1;
        if (left >= 0)
            printf("end_time %lld\n", (long long)time(NULL) + left);
    }
    fflush(stdout);
}

dt_status dt_slurm_library_answer(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    void *library = load();
    long (*api_version)(void) = library ? (long (*)(void))dlsym(library, "slurm_api_version") : NULL;
    if (!api_version)
        return dt_fail(DT_ERR_UNAVAILABLE, "libslurm cannot be loaded: %s", library ? "it has no slurm_api_version" : dlerror());
    long api = api_version() >> 16 & 0xff;
    const struct dt_slurm_release *release = dt_slurm_release_of_api(api);
    if (release)
        printf("library Slurm %02d.%02d\n", release->year, release->month);
    else
        printf("library libslurm.so.%ld\n", api);
    answer_node_names(library);
    if (!job || !*job || !release)
        return DT_OK;
    uint32_t job_id = (uint32_t)strtoul(job, NULL, 10);
    void (*init)(const char *) = (void (*)(const char *))dlsym(library, "slurm_init");
    if (init)
        init(NULL); /* ends this process if there is no configuration */
    answer_end_time(library, job_id);
    dt_slurm_job_answer(library, release, job_id);
    return DT_OK;
}
