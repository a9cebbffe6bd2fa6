#include "lib/base/machine.h"

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

/* The first number in a file, and the second into *next where asked for; UINT64_MAX for "max", "-1" and where there is none. */
static uint64_t read_number(const char *directory, const char *file_name, uint64_t *next)
{
    char path[1100], text[64] = "";
    snprintf(path, sizeof path, "%s/%s", directory, file_name);
    FILE *file = fopen(path, "r");
    if (!file)
        return UINT64_MAX;
    char *line = fgets(text, sizeof text, file), *end = text;
    fclose(file);
    uint64_t value = line ? strtoull(text, &end, 10) : 0;
    if (end == text)
        return UINT64_MAX;
    if (next)
        *next = strtoull(end, NULL, 10);
    return value;
}

static uint64_t memory_limit_v1(const char *directory)
{
    return read_number(directory, "memory.limit_in_bytes", NULL);
}

static uint64_t memory_limit_v2(const char *directory)
{
    return read_number(directory, "memory.max", NULL);
}

/* Microseconds of processor time in each period, as a number of processors. No quota is -1, a huge number here. */
static uint64_t quota(uint64_t quota_us, uint64_t period_us)
{
    return quota_us > INT64_MAX || period_us == 0 || period_us > INT64_MAX ? UINT64_MAX : (quota_us + period_us - 1) / period_us;
}

static uint64_t processor_limit_v1(const char *directory)
{
    return quota(read_number(directory, "cpu.cfs_quota_us", NULL), read_number(directory, "cpu.cfs_period_us", NULL));
}

static uint64_t processor_limit_v2(const char *directory)
{
    uint64_t period_us = 0, quota_us = read_number(directory, "cpu.max", &period_us);
    return quota(quota_us, period_us);
}

/* The least limit of a group and its ancestors. A container may see its own group as the root of the tree under /sys/fs/cgroup although
 * /proc names a longer path; levels that are not there are passed over. */
static uint64_t least_limit(const char *root, const char *subtree, const char *group, uint64_t (*limit_of)(const char *directory))
{
    char directory[1024];
    uint64_t least = UINT64_MAX;
    size_t root_length = (size_t)snprintf(directory, sizeof directory, "%s%s", root, subtree);
    snprintf(directory + root_length, sizeof directory - root_length, "%s", group);
    for (;;) {
        uint64_t limit = limit_of(directory);
        if (limit < least)
            least = limit;
        char *slash = strrchr(directory + root_length, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static void lower(uint64_t *value, uint64_t limit)
{
    if (limit < *value)
        *value = limit;
}

/* Lines are id:controllers:path; the second version has no controllers. */
void dt_machine_group_limits(const char *membership_path, const char *root, struct dt_group_limits *out)
{
    char line[512];
    FILE *file = fopen(membership_path, "r");
    *out = (struct dt_group_limits){UINT64_MAX, UINT64_MAX};
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL, *rest;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (*++controllers == 0) {
            lower(&out->memory_bytes, least_limit(root, "", group, memory_limit_v2));
            lower(&out->processors, least_limit(root, "", group, processor_limit_v2));
        }
        for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
            if (strcmp(name, "memory") == 0)
                lower(&out->memory_bytes, least_limit(root, "/memory", group, memory_limit_v1));
            else if (strcmp(name, "cpu") == 0)
                lower(&out->processors, least_limit(root, "/cpu", group, processor_limit_v1));
        }
    }
    if (file)
        fclose(file);
}

static struct dt_group_limits own_limits(void)
{
    struct dt_group_limits limits;
    dt_machine_group_limits("/proc/self/cgroup", "/sys/fs/cgroup", &limits);
    return limits;
}

int dt_machine_processors(void)
{
    struct dt_processors own;
    dt_processors_of(0, &own);
    return dt_machine_processors_among(&own);
}

int dt_machine_processors_among(const struct dt_processors *set)
{
    uint64_t count = (uint64_t)dt_processors_count(set);
    lower(&count, own_limits().processors);
    return count > 0 ? (int)count : 1;
}

uint64_t dt_machine_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    lower(&bytes, own_limits().memory_bytes);
    return bytes;
}
