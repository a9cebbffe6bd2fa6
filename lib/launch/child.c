#include "lib/launch/launch_parts.h"

#include "lib/base/machine.h"
#include "lib/launch/launch.h"

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

/* ---- the environment of the processes ---- */

/* The launcher is kept on this machine, whatever allocation it detects, and talks to its ranks only
 * over the loopback. Ranks share all cores and are not bound, because each has several threads;
 * they end at once. All of this is set by environment variables, because each launcher reads its
 * own variables and ignores the others', but none starts with another's options. */
static const char *const mpirun_settings[] = {
    /* A rank that ends waits two seconds until the launcher has noticed (PMIx_Finalize), and then
     * exits. A busy launcher notices later, and would call a complete run a failure. The supervisor
     * itself detects missing ranks. */
    "OMPI_MCA_orte_allowed_exit_without_sync=1",
    "PRTE_MCA_prte_allowed_exit_without_sync=1",
    /* Open MPI 4 */
    "OMPI_MCA_plm=isolated",
    "OMPI_MCA_ras=^slurm,gridengine,tm,lsf,alps,loadleveler",
    "OMPI_MCA_oob_tcp_if_include=lo",
    "OMPI_MCA_odls_base_sigkill_timeout=0",
    "OMPI_MCA_rmaps_base_oversubscribe=1",
    "OMPI_MCA_hwloc_base_binding_policy=none",
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    /* Open MPI 5, whose launcher is PRRTE */
    "PRTE_MCA_plm=ssh",
    "PRTE_MCA_ras=^slurm,gridengine,pbs,lsf",
    "PMIX_MCA_ptl_tcp_if_include=lo",
    "PRTE_MCA_odls_base_sigkill_timeout=0",
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy=none",
    "PRTE_ALLOW_RUN_AS_ROOT=1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    /* MPICH, whose launcher is Hydra */
    "HYDRA_LAUNCHER=fork",
    "HYDRA_IFACE=lo",
    /* All launchers ask hwloc for the machine's hardware. Its graphics plugin is not needed: each
     * rank would ask ten X servers by name, which takes a minute if no hosts file has "localhost"
     * and the name server does not answer */
    "HWLOC_COMPONENTS=-gl",
    NULL,
};

enum { PLACE_VARIABLES = 7 };

struct environment {
    char folder[2][4200]; /* mpirun's session folder, in the variables of Open MPI 4 and 5 */
    char place[PLACE_VARIABLES][96];
    char **variables; /* NULL-terminated: this process's own variables, the settings, and `place` */
};

/* Variables of an outer launcher, which are wrong for ranks started here. */
static const char *const foreign_prefixes[] = {
    "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_",    "PMIX_",        "PMI_",         "RANK=",
    "WORLD_SIZE=",      "LOCAL_RANK=",  "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=", DT_SECRET_VARIABLE "=",
};

static bool is_foreign(const char *variable)
{
    for (size_t p = 0; p < sizeof foreign_prefixes / sizeof foreign_prefixes[0]; p++) {
        if (strncmp(variable, foreign_prefixes[p], strlen(foreign_prefixes[p])) == 0)
            return true;
    }
    return false;
}

static bool is_replaced(const char *variable, const char *const *settings)
{
    size_t name_bytes = strcspn(variable, "=") + 1;
    for (size_t i = 0; settings[i]; i++) {
        if (strncmp(variable, settings[i], name_bytes) == 0)
            return true;
    }
    return false;
}

/* This process's environment without the variables in which an outer launcher gave it a place.
 * port > 0  with the place of rank `rank` of `size` on this machine, in torchrun's variables
 *           (lib/launch/world.c), and the ranks' `secret`; else mpirun sets the place, or the
 *           process is alone.
 * passive   also the variable that makes the ranks' threads sleep while they wait, unless the user
 *           has set it.
 * settings  "NAME=value", NULL-terminated, replace this process's variables of these names; or
 *           NULL. Referred to, not copied.
 * folder    for mpirun's files; or NULL.
 * Owner: the caller, free(out->variables). *out must not move meanwhile. Errors:
 * DT_ERR_HOST_MEMORY. */
static dt_status make_environment(int rank, int size, int port, const char *secret, bool passive, const char *const *settings,
                                  const char *folder, struct environment *out)
{
    static const char *const nothing[] = {NULL};
    size_t count = 0, added = 0, kept = 0;
    if (!settings)
        settings = nothing;
    while (environ[count])
        count++;
    while (settings[added])
        added++;
    out->variables = calloc(count + added + 2 + 1 + PLACE_VARIABLES + 1, sizeof *out->variables);
    DT_TRY(dt_allocated(out->variables, "no memory for the ranks' environment"));
    for (size_t i = 0; i < count; i++) {
        if (!is_foreign(environ[i]) && !is_replaced(environ[i], settings))
            out->variables[kept++] = environ[i];
    }
    for (size_t i = 0; i < added; i++)
        out->variables[kept++] = (char *)settings[i]; /* execve does not change it */
    if (folder) {
        snprintf(out->folder[0], sizeof out->folder[0], "OMPI_MCA_orte_tmpdir_base=%s", folder);
        snprintf(out->folder[1], sizeof out->folder[1], "PRTE_MCA_prte_tmpdir_base=%s", folder);
        out->variables[kept++] = out->folder[0];
        out->variables[kept++] = out->folder[1];
    }
    if (passive && !dt_waiting_is_set())
        out->variables[kept++] = (char *)(DT_WAITING_NAME "=" DT_WAITING_PASSIVE);
    if (port == 0)
        return DT_OK;
    snprintf(out->place[0], sizeof out->place[0], "RANK=%d", rank);
    snprintf(out->place[1], sizeof out->place[1], "WORLD_SIZE=%d", size);
    snprintf(out->place[2], sizeof out->place[2], "LOCAL_RANK=%d", rank);
    snprintf(out->place[3], sizeof out->place[3], "LOCAL_WORLD_SIZE=%d", size);
    snprintf(out->place[4], sizeof out->place[4], "MASTER_ADDR=127.0.0.1");
    snprintf(out->place[5], sizeof out->place[5], "MASTER_PORT=%d", port);
    snprintf(out->place[6], sizeof out->place[6], DT_SECRET_VARIABLE "=%s", secret);
    for (int i = 0; i < PLACE_VARIABLES; i++)
        out->variables[kept++] = out->place[i];
    return DT_OK;
}

/* ---- starting and ending ---- */

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

/* The argument vector in one allocation: mpirun's part, the program's part, the socket. */
static dt_status make_arguments(const struct dt_launch *launch, const char *socket_name, char *program, size_t program_bytes,
                                char *size_text, char ***out)
{
    int count = 0, n = 0;
    while (launch->argv[count])
        count++;
    /* mpirun would execute itself: resolve the link in this process. */
    if (strcmp(launch->argv[0], "/proc/self/exe") == 0) {
        ssize_t length = readlink("/proc/self/exe", program, program_bytes - 1);
        if (length <= 0)
            return dt_fail(DT_ERR_IO, "cannot find this program's own file: %s", strerror(errno));
        program[length] = 0;
    } else {
        snprintf(program, program_bytes, "%s", launch->argv[0]);
    }
    const char **arguments = calloc((size_t)count + 8, sizeof *arguments);
    DT_TRY(dt_allocated(arguments, "no memory for the ranks' arguments"));
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

/* Runs between fork and exec: only calls that are allowed after fork in a process with threads.
 * Never returns. */
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
    if (getppid() != supervisor) /* the supervisor died before the line above */
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
    if (pid == 0) /* mpirun must end its ranks in order; a rank has no ranks to end */
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
    char program[4096], folder[4096], size_text[16];
    DT_FREED char **arguments = NULL;
    struct environment environment;
    if (dt_launch_uses_mpirun(launch) && !on_path("mpirun"))
        return dt_fail(DT_ERR_UNAVAILABLE, "%d ranks need mpirun, which is not on the PATH: install Debian's openmpi-bin",
                       launch->world_size);
    DT_TRY(make_arguments(launch, socket_name, program, sizeof program, size_text, &arguments));
    bool mpirun = dt_launch_uses_mpirun(launch);
    DT_TRY(make_environment(rank, launch->world_size, port, secret, launch->passive, mpirun ? mpirun_settings : NULL,
                            mpirun && dt_launch_make_session(folder, sizeof folder) == DT_OK ? folder : NULL, &environment));
    DT_FREED char **variables = environment.variables;
    return start(launch, arguments, variables, out);
}

void dt_child_check(struct dt_child *child)
{
    if (child->pid > 0 && !child->gone)
        child->gone = waitpid(child->pid, &child->wait_status, WNOHANG) == child->pid;
}

void dt_child_read_noise(struct dt_child *child)
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

/* ---- mpirun's messages ---- */

/* "[[4711,1],2]" (Open MPI 4), "[prterun-a-4711@1,2]" (5) */
static bool read_process_name(const char *name, int *out_rank)
{
    const char *last = NULL;
    for (const char *c = name; *c && *c != '\n'; c++)
        if (*c == ',')
            last = c;
    return last && sscanf(last, ",%d]", out_rank) == 1;
}

bool dt_mpirun_names_rank(const char *noise, int *out_rank, int *out_signal, int *out_exit_code)
{
    *out_signal = *out_exit_code = 0;
    /* a blank in a pattern is also a line break, which may be anywhere */
    const char *found = strstr(noise, "noticed that process rank ");
    if (found && sscanf(found, "noticed that process rank %d", out_rank) == 1) {
        const char *exited = strstr(found, "exited");
        if (exited)
            sscanf(exited, "exited on signal %d", out_signal);
        return true;
    }
    found = strstr(noise, "Process name:");
    if (found && read_process_name(found, out_rank)) {
        const char *code = strstr(found, "Exit code:");
        if (code)
            sscanf(code, "Exit code: %d", out_exit_code);
        return true;
    }
    return false;
}
