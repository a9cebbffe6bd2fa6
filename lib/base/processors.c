#include "lib/base/processors.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Ticks in the columns user, nice, system, irq, softirq and steal: all that "cpu0 ..." has before the guests, whose time is in user and nice
 * already, without idle and iowait.
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
    /* The first line is the sum over all processors, and behind theirs come others. */
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
