#include "lib/launch/child.h"

#include "lib/launch/environment.h"
#include "lib/launch/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[4096];
    for (const char *start = path ? path : "/usr/local/bin:/usr/bin:/bin"; *start;) {
        size_t length = strcspn(start, ":");
        if (snprintf(file, sizeof file, "%.*s/%s", (int)length, start, program) < (int)sizeof file && access(file, X_OK) == 0)
            return true;
        start += length + (start[length] == ':');
    }
    return false;
}

/* The argument vector in one allocation: mpirun's part, the program's, the socket. */
static dt_status make_arguments(const struct dt_launch *launch, const char *socket_name, char *program, size_t program_bytes,
                                char *size_text, char ***out)
{
    int count = 0, n = 0;
    while (launch->argv[count])
        count++;
    /* mpirun would execute itself: the link is resolved in the process that follows it. */
    if (strcmp(launch->argv[0], "/proc/self/exe") == 0) {
        ssize_t length = readlink("/proc/self/exe", program, program_bytes - 1);
        if (length <= 0)
            return dt_fail(DT_ERR_IO, "cannot find this program's own file: %s", strerror(errno));
        program[length] = 0;
    } else {
        snprintf(program, program_bytes, "%s", launch->argv[0]);
    }
    const char **arguments = calloc((size_t)count + 8, sizeof *arguments);
    if (!arguments)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the ranks' arguments");
    if (dt_launch_uses_mpirun(launch)) {
        sprintf(size_text, "%d", launch->world_size);
        arguments[n++] = "mpirun";
        arguments[n++] = "-n";
        arguments[n++] = size_text;
    }
    arguments[n++] = program;
    for (int i = 1; i < count; i++)
        arguments[n++] = launch->argv[i];
    arguments[n++] = socket_name;
    *out = (char **)arguments;
    return DT_OK;
}

/* Between fork and exec: only what a forked thread may call. Never returns. */
static void become(char **arguments, char **environment, pid_t supervisor, int noise, int report, int death_signal)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    prctl(PR_SET_PDEATHSIG, death_signal);
    if (getppid() != supervisor) /* died before the line above */
        _exit(EXIT_FAILURE);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(noise, STDOUT_FILENO);
    dup2(noise, STDERR_FILENO);
    environ = environment;
    execvp(arguments[0], arguments);
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

static dt_status start(const struct dt_launch *launch, char **arguments, char **environment, struct dt_child *out)
{
    int noise[2], report[2], error = 0;
    if (pipe2(noise, O_CLOEXEC) != 0)
        return dt_fail(DT_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(report, O_CLOEXEC) != 0) {
        dt_fail(DT_ERR_IO, "cannot make a pipe: %s", strerror(errno));
        close(noise[0]);
        close(noise[1]);
        return DT_ERR_IO;
    }
    pid_t supervisor = getpid(), pid = fork();
    if (pid == 0) /* mpirun must end its ranks in order; a rank has nobody to end */
        become(arguments, environment, supervisor, noise[1], report[1], dt_launch_uses_mpirun(launch) ? SIGTERM : SIGKILL);
    int fork_error = errno;
    close(noise[1]);
    close(report[1]);
    /* The pipe ends when exec succeeds (close-on-exec); else it contains the reason. */
    ssize_t got = 0;
    if (pid > 0) {
        do
            got = read(report[0], &error, sizeof error);
        while (got < 0 && errno == EINTR);
    }
    close(report[0]);
    if (pid < 0) {
        close(noise[0]);
        return dt_fail(DT_ERR_IO, "cannot start a process: %s", strerror(fork_error));
    }
    if (got == sizeof error) {
        waitpid(pid, NULL, 0);
        close(noise[0]);
        return dt_fail(DT_ERR_UNAVAILABLE, "cannot execute %s: %s", arguments[0], strerror(error));
    }
    fcntl(noise[0], F_SETFL, O_NONBLOCK);
    out->pid = pid;
    out->noise_fd = noise[0];
    out->gone = false;
    return DT_OK;
}

bool dt_launch_uses_mpirun(const struct dt_launch *launch)
{
    return launch->mpirun && launch->world_size > 1;
}

dt_status dt_child_start(const struct dt_launch *launch, int rank, int port, const char *secret, const char *socket_name,
                         struct dt_child *out)
{
    char program[4096], size_text[16], **arguments = NULL;
    struct dt_launch_environment environment = {.variables = NULL};
    if (dt_launch_uses_mpirun(launch) && !on_path("mpirun"))
        return dt_fail(DT_ERR_UNAVAILABLE, "%d ranks need mpirun, which is not on the PATH: install Debian's openmpi-bin",
                       launch->world_size);
    dt_status status = make_arguments(launch, socket_name, program, sizeof program, size_text, &arguments);
    if (status < 0)
        goto done;
    status = dt_launch_environment_make(rank, launch->world_size, port, secret, launch->passive,
                                        dt_launch_uses_mpirun(launch) ? dt_mpirun_settings() : NULL, &environment);
    if (status < 0)
        goto done;
    status = start(launch, arguments, environment.variables, out);
done:
    free(arguments);
    dt_launch_environment_finish(&environment);
    return status;
}

void dt_child_check(struct dt_child *child)
{
    if (child->pid > 0 && !child->gone)
        child->gone = waitpid(child->pid, &child->wait_status, WNOHANG) == child->pid;
}

void dt_child_read_noise(struct dt_child *child, bool echo)
{
    char piece[1024];
    ssize_t got = read(child->noise_fd, piece, sizeof piece);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close(child->noise_fd);
        child->noise_fd = -1;
        return;
    }
    if (echo)
        fwrite(piece, 1, (size_t)got, stderr);
    size_t room = sizeof child->noise - 1;
    if (child->noise_bytes + (size_t)got > room) {
        size_t drop = child->noise_bytes + (size_t)got - room;
        memmove(child->noise, child->noise + drop, child->noise_bytes - drop);
        child->noise_bytes -= drop;
    }
    memcpy(child->noise + child->noise_bytes, piece, (size_t)got);
    child->noise_bytes += (size_t)got;
    child->noise[child->noise_bytes] = 0;
}

void dt_child_signal(const struct dt_child *child, int signal_number, bool group)
{
    if (child->pid > 0 && !child->gone)
        kill(group ? -child->pid : child->pid, signal_number);
}

void dt_child_finish(struct dt_child *child)
{
    if (child->noise_fd >= 0)
        close(child->noise_fd);
    child->noise_fd = -1;
}
