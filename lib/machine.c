#include "lib/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void dt_machine_processor_name(char *out, size_t out_bytes)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, out_bytes, "unknown processor");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        char *name = colon + 1 + strspn(colon + 1, " \t");
        name[strcspn(name, "\n")] = 0;
        snprintf(out, out_bytes, "%s", name);
        break;
    }
    if (file)
        fclose(file);
}

int dt_machine_processors(void)
{
    enum { PROCESSORS_MAX = 8192 };
    int count = 0;
    cpu_set_t *set = CPU_ALLOC(PROCESSORS_MAX);
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(PROCESSORS_MAX), set) == 0)
        count = CPU_COUNT_S(CPU_ALLOC_SIZE(PROCESSORS_MAX), set);
    CPU_FREE(set);
    return count > 0 ? count : 1;
}

/* The number in a one-line file; UINT64_MAX for "max", and where there is none. */
static uint64_t read_limit(const char *path)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return UINT64_MAX;
    char *end = text, *line = fgets(text, sizeof text, file);
    uint64_t value = line ? strtoull(text, &end, 10) : 0;
    fclose(file);
    return end == text ? UINT64_MAX : value;
}

/* The least limit of a group and its ancestors. A container may see its own group as the root of the tree under /sys/fs/cgroup although
 * /proc names a longer path; levels that are not there are passed over. */
static uint64_t group_limit(const char *root, char *group, const char *file_name)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[1024];
        snprintf(path, sizeof path, "%s%s/%s", root, group, file_name);
        uint64_t limit = read_limit(path);
        if (limit < least)
            least = limit;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Lines are id:controllers:path; the second version has no controllers. */
static uint64_t control_group_limit(void)
{
    char line[768];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        uint64_t limit = UINT64_MAX;
        if (controllers[1] == 0)
            limit = group_limit("/sys/fs/cgroup", group, "memory.max");
        else if (strcmp(controllers + 1, "memory") == 0)
            limit = group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        if (limit < least)
            least = limit;
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t dt_machine_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t physical = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    uint64_t allowed = control_group_limit();
    return allowed < physical ? allowed : physical;
}
