#include "lib/base/machine.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
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

/* The first number in a file, and unless `next` is NULL the second in *next; UINT64_MAX for "max",
 * "-1", and if there is none. */
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

/* The quota of processor time per period, as a number of processors. No quota is -1, which is a
 * huge number here. */
static uint64_t quota(uint64_t quota_us, uint64_t period_us)
{
    return quota_us > INT64_MAX || period_us == 0 || period_us > INT64_MAX ? UINT64_MAX : (quota_us + period_us - 1) / period_us;
}

static void lower(uint64_t *value, uint64_t limit)
{
    if (limit < *value)
        *value = limit;
}

/* Lower the limits to those of a group and its ancestors. The two versions have different file
 * names; a missing file is no limit. A container may see its own group as the root of the tree
 * under /sys/fs/cgroup although /proc names a longer path; missing levels are skipped. */
static void apply_limits(const char *root, const char *subtree, const char *group, struct dt_group_limits *out)
{
    char directory[1024];
    size_t root_length = (size_t)snprintf(directory, sizeof directory, "%s%s", root, subtree);
    snprintf(directory + root_length, sizeof directory - root_length, "%s", group);
    for (;;) {
        uint64_t period_us = 0, quota_us = read_number(directory, "cpu.max", &period_us);
        lower(&out->memory_bytes, read_number(directory, "memory.max", NULL));
        lower(&out->memory_bytes, read_number(directory, "memory.limit_in_bytes", NULL));
        lower(&out->processors, quota(quota_us, period_us));
        lower(&out->processors, quota(read_number(directory, "cpu.cfs_quota_us", NULL), read_number(directory, "cpu.cfs_period_us", NULL)));
        char *slash = strrchr(directory + root_length, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* Lines are id:controllers:path; in version 2 controllers are empty. */
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
        if (*++controllers == 0)
            apply_limits(root, "", group, out);
        for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
            if (strcmp(name, "memory") == 0)
                apply_limits(root, "/memory", group, out);
            else if (strcmp(name, "cpu") == 0)
                apply_limits(root, "/cpu", group, out);
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

void dt_processors_of(pid_t process, struct dt_processors *out)
{
    if (sched_getaffinity(process, sizeof out->words, (cpu_set_t *)out->words) != 0)
        *out = (struct dt_processors){0};
}

void dt_processors_add(struct dt_processors *set, const struct dt_processors *more)
{
    for (size_t i = 0; i < sizeof set->words / sizeof set->words[0]; i++)
        set->words[i] |= more->words[i];
}

int dt_processors_count(const struct dt_processors *set)
{
    int count = 0;
    for (size_t i = 0; i < sizeof set->words / sizeof set->words[0]; i++)
        count += __builtin_popcountll(set->words[i]);
    return count;
}

static bool has(const struct dt_processors *set, long processor)
{
    return processor >= 0 && processor < DT_PROCESSORS_MOST && (set->words[processor / 64] >> processor % 64 & 1);
}

/* Ticks in the columns user, nice, system, irq, softirq and steal: all columns of "cpu0 ..." before
 * those of guests, whose time is already in user and nice, without idle and iowait.
 * Source  proc_stat(5) */
static double busy_ticks(const char *columns)
{
    enum { IDLE = 3, IOWAIT = 4, COLUMNS = 8 };
    double sum = 0;
    char *end;
    for (int i = 0; i < COLUMNS; i++, columns = end) {
        double ticks = strtod(columns, &end);
        sum += i == IDLE || i == IOWAIT ? 0 : ticks;
    }
    return sum;
}

double dt_processors_busy_s(const char *path, const struct dt_processors *set)
{
    char line[512], *columns;
    double ticks = 0;
    int found = 0;
    FILE *file = fopen(path, "re");
    /* The first line is the sum over all processors, and lines of other kinds follow. */
    for (int i = 0; file && fgets(line, sizeof line, file) && strncmp(line, "cpu", 3) == 0; i++) {
        long processor = strtol(line + 3, &columns, 10);
        if (i == 0 || !has(set, processor))
            continue;
        ticks += busy_ticks(columns);
        found++;
    }
    if (file)
        fclose(file);
    return found > 0 ? ticks / (double)sysconf(_SC_CLK_TCK) : NAN;
}

int dt_threads_of_rank(int wanted, int ranks, int processors)
{
    int share = processors / ranks;
    return wanted > 0 ? wanted : share > 0 ? share : 1;
}

bool dt_crowded(int wanted, int ranks, int processors)
{
    return (long)ranks * dt_threads_of_rank(wanted, ranks, processors) > processors;
}

bool dt_waiting_is_set(void)
{
    static const char *const names[] = {DT_WAITING_NAME, "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

/* ---- threads ---- */

enum { MOST_THREADS = 64 };

int dt_thread_start(pthread_t *thread, void *(*work)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, work, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void dt_threads_run(int count, void *(*work)(void *context), void *context)
{
    pthread_t threads[MOST_THREADS];
    int started = 0;
    while (started + 1 < count && started < MOST_THREADS && dt_thread_start(&threads[started], work, context) == 0)
        started++;
    work(context);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
