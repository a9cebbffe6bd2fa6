#include "lib/launch/launch_parts.h"

#include "lib/base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SEGMENTS = 256 };

/* Younger files are kept. */
static const double least_age_s = 60;

#define OWN_PREFIX "dtbench-mpirun."

struct segments {
    char names[MOST_SEGMENTS][256];
    bool mapped[MOST_SEGMENTS];
    int count;
};

/* Names of Open MPI 4 and 5. */
static bool is_segment(const char *name)
{
    return strncmp(name, "vader_segment.", 14) == 0 || strncmp(name, "sm_segment.", 11) == 0;
}

/* The age of this user's file or folder; -1: there is none, or it is not this user's. */
static double age_of_own(int folder_fd, const char *name, mode_t kind)
{
    struct stat facts;
    bool own = fstatat(folder_fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && (facts.st_mode & S_IFMT) == kind && facts.st_uid == geteuid();
    return own ? dt_wall_clock_s() - (double)facts.st_mtim.tv_sec : -1;
}

static void find_segments(DIR *folder, struct segments *out)
{
    for (const struct dirent *entry = readdir(folder); entry && out->count < MOST_SEGMENTS; entry = readdir(folder))
        if (is_segment(entry->d_name) && age_of_own(dirfd(folder), entry->d_name, S_IFREG) > least_age_s)
            snprintf(out->names[out->count++], sizeof out->names[0], "%s", entry->d_name);
}

/* Mark the segments that this process has mapped. If even its own user cannot read its maps, it is
 * not an MPI rank. */
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

/* False: the list of processes cannot be read. */
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
    DT_FREED struct segments *segments = folder ? calloc(1, sizeof *segments) : NULL;
    if (segments)
        find_segments(folder, segments);
    bool known = segments && segments->count > 0 && look_at_processes(segments);
    for (int i = 0; known && i < segments->count; i++)
        if (!segments->mapped[i])
            removed += unlinkat(dirfd(folder), segments->names[i], 0) == 0;
    if (folder)
        closedir(folder);
    return removed;
}

/* ---- sessions ---- */

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)facts;
    (void)kind;
    (void)walk;
    return remove(path);
}

/* Compare the name's first word, and this machine's name: other machines may share the folder. */
static bool is_of_this_machine(const char *name, const char *first)
{
    char host[256] = "";
    size_t word = strlen(first);
    gethostname(host, sizeof host - 1);
    size_t bytes = strcspn(host, ".");
    return strncmp(name, first, word) == 0 && bytes > 0 && strncmp(name + word, host, bytes) == 0 && name[word + bytes] == '.';
}

/* Remove the session `name` in the open folder at `path`, if its mpirun is `ended`, or does not
 * exist any more and the session is old. */
static int remove_session(DIR *folder, const char *path, const char *name, pid_t mpirun, pid_t ended)
{
    enum { OPEN_FILES = 8 };
    char session[4096];
    double age_s = age_of_own(dirfd(folder), name, S_IFDIR);
    bool is_gone = mpirun == ended || (age_s > least_age_s && kill(mpirun, 0) < 0 && errno == ESRCH);
    if (age_s < 0 || mpirun < 1 || !is_gone || snprintf(session, sizeof session, "%s/%s", path, name) >= (int)sizeof session)
        return 0;
    return nftw(session, remove_entry, OPEN_FILES, FTW_DEPTH | FTW_PHYS) == 0;
}

/* Open MPI 4 has one folder for all sessions of a user, ompi.HOST.UID, which contains pid.PID. */
static int remove_sessions_of_user(const char *path, const char *name, pid_t ended)
{
    char inner[4096];
    int removed = 0;
    if (snprintf(inner, sizeof inner, "%s/%s", path, name) >= (int)sizeof inner)
        return 0;
    DIR *folder = opendir(inner);
    if (!folder)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        if (strncmp(entry->d_name, "pid.", 4) == 0)
            removed += remove_session(folder, inner, entry->d_name, (pid_t)atoi(entry->d_name + 4), ended);
    closedir(folder);
    if (removed > 0)
        rmdir(inner); /* fails while it contains another session */
    return removed;
}

/* Open MPI 5: prterun.HOST.PID.UID, as dt_launch_make_session names them. */
static pid_t mpirun_of(const char *name)
{
    const char *uid = strrchr(name, '.'), *pid = uid;
    while (pid > name && pid[-1] != '.')
        pid--;
    return (pid_t)atoi(pid);
}

/* Folder in which Open MPI creates session folders. */
static const char *sessions_folder(void)
{
    static const char *const variables[] = {"TMPDIR", "TEMP", "TMP"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return getenv(variables[i]);
    return "/tmp";
}

dt_status dt_launch_make_session(char *path, size_t path_bytes)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    int length = snprintf(path, path_bytes, "%s/" OWN_PREFIX "%.*s.%d.%d", sessions_folder(), (int)strcspn(host, "."), host, (int)getpid(),
                          (int)geteuid());
    if (length >= (int)path_bytes || (mkdir(path, 0700) < 0 && errno != EEXIST))
        return dt_fail(DT_ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
    return DT_OK;
}

int dt_launch_remove_sessions(const char *path, pid_t ended)
{
    int removed = 0;
    path = path ? path : sessions_folder();
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (is_of_this_machine(entry->d_name, "ompi.") && age_of_own(dirfd(folder), entry->d_name, S_IFDIR) >= 0)
            removed += remove_sessions_of_user(path, entry->d_name, ended);
        else if (is_of_this_machine(entry->d_name, "prterun.") || is_of_this_machine(entry->d_name, OWN_PREFIX))
            removed += remove_session(folder, path, entry->d_name, mpirun_of(entry->d_name), ended);
    }
    closedir(folder);
    return removed;
}
