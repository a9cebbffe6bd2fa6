#include "lib/launch/launch_parts.h"
#include "test/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/dtbench-leftovers-XXXXXX";

/* The name's end is this process's own: a segment is known by its name, and the same test may run
 * twice at a time. */
static void path_of(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s.%d", folder, name, (int)getpid());
}

/* An open file of that age. */
static int make(const char *name, int age_s)
{
    char path[128];
    struct timespec now, times[2];
    path_of(name, path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    clock_gettime(CLOCK_REALTIME, &now);
    times[0] = times[1] = (struct timespec){.tv_sec = now.tv_sec - age_s};
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && futimens(fd, times) == 0);
    return fd;
}

static bool exists(const char *name)
{
    char path[128];
    path_of(name, path);
    return access(path, F_OK) == 0;
}

static void only_what_nobody_uses(void)
{
    char path[128];
    close(make("vader_segment.node.0.1.0", 600));
    close(make("sm_segment.node.0.1.1", 600));
    close(make("vader_segment.node.0.2.0", 5));
    close(make("another.file", 600));
    int fd = make("vader_segment.node.0.3.0", 600);
    void *used = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(used != MAP_FAILED);
    CHECK(dt_launch_remove_leftovers(folder) == 2, "not two");
    CHECK(!exists("vader_segment.node.0.1.0") && !exists("sm_segment.node.0.1.1"), "they are still there");
    CHECK(exists("vader_segment.node.0.2.0") && exists("another.file") && exists("vader_segment.node.0.3.0"), "too many");
    munmap(used, 4096);
    CHECK(dt_launch_remove_leftovers(folder) == 1 && !exists("vader_segment.node.0.3.0"), "nobody has it mapped any more");
    if (geteuid() == 0) {
        close(make("vader_segment.node.1.4.0", 600));
        path_of("vader_segment.node.1.4.0", path);
        CHECK(chown(path, 1, 1) == 0 && dt_launch_remove_leftovers(folder) == 0 && exists("vader_segment.node.1.4.0"), "another user's");
    }
    CHECK(dt_launch_remove_leftovers("/nonexistent") == 0);
}

/* A session's folder with a file in it. */
static void make_session(const char *outer, const char *inner, int age_s)
{
    char path[400];
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    times[0] = times[1] = (struct timespec){.tv_sec = now.tv_sec - age_s};
    snprintf(path, sizeof path, "%s/%s", folder, outer);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", folder, outer, inner);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/%s/%s/contact.txt", folder, outer, inner);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0);
    close(fd);
    snprintf(path, sizeof path, "%s/%s/%s", folder, outer, inner);
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static bool has_session(const char *outer, const char *inner)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s/%s", folder, outer, inner);
    return access(path, F_OK) == 0;
}

static void sessions_whose_mpirun_is_gone(void)
{
    char host[200] = "", outer[256], five[300];
    enum { GONE = 0x7ffffff0 }; /* above every process's number */
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = 0;
    snprintf(outer, sizeof outer, "ompi.%s.%d", host, (int)geteuid());
    snprintf(five, sizeof five, "prterun.%s.%d.%d", host, GONE, (int)geteuid());
    make_session(outer, "pid.2147483632", 600);
    make_session(outer, "pid.2147483633", 5);
    make_session(outer, "pid.1", 600);
    make_session("ompi.another_machine.0", "pid.2147483632", 600);
    make_session(five, "0", 5);
    CHECK(dt_launch_remove_sessions(folder, 0) == 1 && !has_session(outer, "pid.2147483632"), "the old one alone");
    CHECK(dt_launch_remove_sessions(folder, 2147483633) == 1 && !has_session(outer, "pid.2147483633"), "the one that has just ended");
    CHECK(dt_launch_remove_sessions(folder, GONE) == 1 && !has_session(five, "0"), "Open MPI 5's");
    CHECK(has_session(outer, "pid.1") && has_session("ompi.another_machine.0", "pid.2147483632"), "too many");
    CHECK(dt_launch_remove_sessions("/nonexistent", 1) == 0);
}

static const struct test_case cases[] = {
    {"sessions whose mpirun is gone are removed", sessions_whose_mpirun_is_gone},
    {"only what nobody uses is removed", only_what_nobody_uses},
};

int main(void)
{
    char remove[64];
    if (!mkdtemp(folder))
        return 1;
    int code = test_main(cases, sizeof cases / sizeof cases[0]);
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    return system(remove) == 0 ? code : 1;
}
