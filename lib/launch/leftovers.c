#include "lib/launch/leftovers.h"

#include "lib/base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SEGMENTS = 256 };

/* Younger ones stay. */
static const double least_age_s = 60;

struct segments {
    char names[MOST_SEGMENTS][256];
    bool mapped[MOST_SEGMENTS];
    int count;
};

/* Open MPI 4 and 5. */
static bool is_segment(const char *name)
{
    return strncmp(name, "vader_segment.", 14) == 0 || strncmp(name, "sm_segment.", 11) == 0;
}

static bool is_old_and_own(int folder_fd, const char *name)
{
    struct stat facts;
    return fstatat(folder_fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
           dt_wall_clock_s() - (double)facts.st_mtim.tv_sec > least_age_s;
}

static void find_segments(DIR *folder, struct segments *out)
{
    for (const struct dirent *entry = readdir(folder); entry && out->count < MOST_SEGMENTS; entry = readdir(folder))
        if (is_segment(entry->d_name) && is_old_and_own(dirfd(folder), entry->d_name))
            snprintf(out->names[out->count++], sizeof out->names[0], "%s", entry->d_name);
}

/* Mark what this process has mapped. One whose maps are closed to its own user is no rank of MPI's. */
static void look_at_process(const char *pid, struct segments *segments)
{
    char path[300], *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/%s/maps", pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return;
    while (getline(&line, &size, maps) > 0)
        for (int i = 0; i < segments->count; i++)
            segments->mapped[i] |= strstr(line, segments->names[i]) != NULL;
    free(line);
    fclose(maps);
}

/* False: it cannot be known which processes there are. */
static bool look_at_processes(struct segments *segments)
{
    DIR *processes = opendir("/proc");
    if (!processes)
        return false;
    for (const struct dirent *entry = readdir(processes); entry; entry = readdir(processes))
        if (isdigit((unsigned char)entry->d_name[0]))
            look_at_process(entry->d_name, segments);
    closedir(processes);
    return true;
}

int dt_launch_remove_leftovers(const char *path)
{
    int removed = 0;
    DIR *folder = opendir(path);
    struct segments *segments = folder ? calloc(1, sizeof *segments) : NULL;
    if (segments)
        find_segments(folder, segments);
    bool known = segments && segments->count > 0 && look_at_processes(segments);
    for (int i = 0; known && i < segments->count; i++)
        if (!segments->mapped[i])
            removed += unlinkat(dirfd(folder), segments->names[i], 0) == 0;
    free(segments);
    if (folder)
        closedir(folder);
    return removed;
}
