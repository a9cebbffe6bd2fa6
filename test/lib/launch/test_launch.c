/* The supervisor, with this program itself as the rank: `test_launch rank MODE SOCKET`. Ranks need
 * no MPI for this. `test_launch mpirun` has mpirun start them, and without that word the supervisor
 * does. */
#include "lib/base/clock.h"
#include "lib/launch/launch.h"
#include "lib/launch/launch_parts.h"
#include "test/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the rank ---- */

struct rank_facts {
    struct dt_launch_rank *link;
    int number;
    bool reports_late; /* its communicator times out only now */
};

static void dump(void *context)
{
    const struct rank_facts *facts = context;
    fprintf(stderr, "dump of rank %d\n", facts->number);
    if (facts->reports_late)
        dt_launch_rank_failed(facts->link, DT_ERR_TIMEOUT, "waited 1 s for rank 1");
}

static bool is(const char *mode, const char *name)
{
    return strcmp(mode, name) == 0;
}

/* Report this rank's place, and whether it can listen at the common port. */
static void tell_place(struct dt_launch_rank *rank, const struct dt_world *world)
{
    char address[DT_ADDRESS_BYTES], text[128] = "";
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int port = 0, yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_OK(dt_world_meeting_point(world, address, &port));
    here.sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    bool listens = world->rank == 0 && bind(fd, (struct sockaddr *)&here, sizeof here) == 0 && listen(fd, 1) == 0;
    snprintf(text, sizeof text, "%d of %d, %d of %d, %.20s %d%s", world->rank, world->size, world->local_rank, world->local_size, address,
             port, listens ? " listening" : "");
    dt_launch_rank_progress(rank, text);
    if (world->rank == 0)
        dt_launch_rank_result(rank, "");
    close(fd);
}

/* The last rank writes its pid to the file that the input names. Another one says that a peer is
 * gone, and only then kills it. */
static void miss_a_peer(struct dt_launch_rank *rank, bool last)
{
    int pid = getpid(), fd = open(dt_launch_rank_input(rank), O_RDWR);
    if (last && pwrite(fd, &pid, sizeof pid, 0) < 0)
        _exit(1);
    while (last)
        pause();
    while (pread(fd, &pid, sizeof pid, 0) < (ssize_t)sizeof pid)
        dt_sleep_ms(10);
    dt_launch_rank_failed(rank, DT_ERR_COMM, "a peer is gone");
    kill(pid, SIGKILL);
}

/* Work until stopped, or until it is time to fail as `mode` says. */
static void rank_loop(struct dt_launch_rank *rank, const struct dt_world *world, const char *mode)
{
    bool last = world->rank == world->size - 1; /* the one that misbehaves */
    for (int step = 0;; step++) {
        if (step == 5 && last && is(mode, "abort")) {
            signal(SIGABRT, SIG_DFL);
            abort();
        }
        if (step == 5 && last && is(mode, "exit"))
            _exit(7);
        while (step == 5 && last && is(mode, "hang"))
            pause();
        if (step == 5 && last && is(mode, "stopped"))
            raise(SIGSTOP);
        while (step == 5 && (is(mode, "stopped") || is(mode, "late")))
            pause();
        if (step == 5 && is(mode, "missed")) /* the others know before the supervisor does */
            return miss_a_peer(rank, last);
        if (step == 5 && is(mode, "oom"))
            return (void)dt_launch_rank_failed(rank, DT_ERR_OOM, "12 GiB are too many");
        if (dt_launch_rank_stop_requested(rank)) {
            if (world->rank == 0)
                dt_launch_rank_result(rank, "partial");
            return (void)dt_launch_rank_failed(rank, DT_ERR_INTERRUPTED, "stopped as asked");
        }
        char text[64];
        snprintf(text, sizeof text, "%d", (int)getpid());
        dt_launch_rank_progress(rank, text);
        dt_sleep_ms(10);
    }
}

static int rank_main(const char *mode, const char *socket_name)
{
    struct dt_world world;
    struct dt_launch_rank *rank;
    if (is(mode, "mute"))
        return 3;
    if (dt_world_from_environment(&world) < 0 || dt_launch_rank_connect(socket_name, world.rank + (is(mode, "moved") ? 1 : 0), &rank) < 0) {
        fprintf(stderr, "%s\n", dt_error_message());
        return 1;
    }
    struct rank_facts facts = {rank, world.rank, is(mode, "late") && world.rank == 0};
    dt_launch_rank_on_dump(rank, dump, &facts);
    while (is(mode, "never ready"))
        pause();
    if (is(mode, "silent"))
        dt_sleep_ms(500);
    if (is(mode, "normal") || is(mode, "silent")) {
        fprintf(stderr, "a line of rank %d\n", world.rank);
        printf("printed by rank %d\n", world.rank);
        fflush(stdout);
        for (int step = 0; step < 3; step++)
            dt_launch_rank_progress(rank, "step");
        if (world.rank == 0)
            dt_launch_rank_result(rank, dt_launch_rank_input(rank));
    } else if (is(mode, "place")) {
        tell_place(rank, &world);
    } else {
        rank_loop(rank, &world, mode);
    }
    dt_launch_rank_finish(rank);
    return 0;
}

/* ---- the supervisor ---- */

enum { MOST_RANKS = 4 };

static bool with_mpirun;

/* Data of the callbacks. */
struct watch {
    pid_t pids[MOST_RANKS];
    int reports[MOST_RANKS];
    int kill_rank, kill_after; /* SIGKILL that rank after so many of its reports */
    int kill_launcher_after;   /* SIGKILL the parent of the ranks after so many of rank 0's reports */
    int stop_after;            /* of rank 0's reports */
    int stops;
    double killed_s;
    int pid_fd; /* pids are written there, too */
};

static pid_t parent_of(pid_t pid)
{
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
        abort();
    fclose(file);
    return parent;
}

static void on_progress(void *context, int rank, const char *text)
{
    struct watch *w = context;
    int pid = atoi(text);
    w->pids[rank] = pid;
    w->reports[rank]++;
    if (w->pid_fd > 0 && write(w->pid_fd, &pid, sizeof pid) < 0)
        w->pid_fd = 0;
    if (w->kill_after > 0 && rank == w->kill_rank && w->reports[rank] == w->kill_after) {
        kill(pid, SIGKILL);
        w->killed_s = dt_clock_s();
    }
    if (w->kill_launcher_after > 0 && rank == 0 && w->reports[0] == w->kill_launcher_after)
        kill(parent_of(pid), SIGKILL);
}

static int on_stop(void *context)
{
    struct watch *w = context;
    return w->stop_after > 0 && w->reports[0] >= w->stop_after ? w->stops : 0;
}

static dt_status launch(const char *mode, int ranks, const char *input, struct watch *w, char **out)
{
    const char *const argv[] = {"/proc/self/exe", "rank", mode, NULL};
    struct dt_launch l = {.argv = argv,
                          .world_size = ranks,
                          .mpirun = with_mpirun,
                          .input = input,
                          .init_timeout_s = 60,
                          .step_timeout_s = 60,
                          .grace_s = 0.2,
                          .progress = on_progress,
                          .stop_requests = on_stop,
                          .context = w};
    if (is(mode, "never ready"))
        l.init_timeout_s = 0.5;
    if (is(mode, "hang") || is(mode, "stopped"))
        l.step_timeout_s = 2; /* enough for the steps before it, on a busy machine too */
    if (is(mode, "late"))
        l.step_timeout_s = 0.5;
    if (is(mode, "silent"))
        l.step_timeout_s = 0; /* for ever */
    double start = dt_clock_s();
    dt_status status = dt_launch_run(&l, out);
    printf("# %s, %d ranks: %.2f s: %s\n", mode, ranks, dt_clock_s() - start, status == DT_OK ? "ok" : dt_error_message());
    return status;
}

/* Is the process alive? A zombie does not count. */
static bool alive(pid_t pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state != 'Z';
}

/* Check that no rank is left. After mpirun was killed its ranks have no parent; they are killed,
 * and end a moment later. */
static void check_nobody_left(const struct watch *w)
{
    double end = dt_clock_s() + 10;
    for (int r = 0; r < MOST_RANKS; r++)
        while (w->pids[r] != 0 && alive(w->pids[r]) && dt_clock_s() < end)
            dt_sleep_ms(10);
    for (int r = 0; r < MOST_RANKS; r++)
        CHECK(w->pids[r] == 0 || !alive(w->pids[r]), "rank %d, pid %d, is still there", r, (int)w->pids[r]);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a child is left");
}

static void normal_end(void)
{
    size_t length = 1 << 20; /* more than a socket holds */
    char *input = malloc(length + 1);
    if (!input)
        return;
    memset(input, 'x', length);
    input[length] = 0;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks *= 2) {
        struct watch w = {0};
        char *out;
        CHECK_OK(launch("normal", ranks, input, &w, &out));
        CHECK(out && strcmp(out, input) == 0);
        for (int r = 0; r < ranks; r++)
            CHECK(w.reports[r] == 3, "rank %d reported %d times", r, w.reports[r]);
        memset(w.pids, 0, sizeof w.pids); /* these reports held no pids */
        check_nobody_left(&w);
        free(out);
    }
    free(input);
}

/* One rank needs no mpirun. */
static void who_starts_ranks(void)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        struct dt_launch with = {.world_size = ranks, .mpirun = true}, without = {.world_size = ranks};
        CHECK(dt_launch_uses_mpirun(&with) == (ranks > 1) && !dt_launch_uses_mpirun(&without), "%d ranks", ranks);
    }
}

/* Without a limit a step may take as long as it takes. */
static void no_limit(void)
{
    struct watch w = {0};
    char *out;
    CHECK_OK(launch("silent", 1, "x", &w, &out));
    CHECK(out && strcmp(out, "x") == 0);
    free(out);
}

/* The last rank says that it is one more. */
static void rank_that_is_none(void)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct watch w = {0};
        char *out;
        char want[64];
        snprintf(want, sizeof want, "announced itself as rank %d of %d, which is none", ranks, ranks);
        CHECK(launch("moved", ranks, "", &w, &out) == DT_ERR_WORLD && strstr(dt_error_message(), want), "%s", dt_error_message());
        free(out);
    }
}

static void crash(void)
{
    for (int ranks = 1; ranks <= MOST_RANKS; ranks *= 2) {
        struct watch w = {0};
        char *out;
        char want[64];
        CHECK(launch("abort", ranks, "", &w, &out) == DT_ERR_COMM);
        snprintf(want, sizeof want, "rank %d (pid %d) was killed or crashed: signal 6", ranks - 1, (int)w.pids[ranks - 1]);
        CHECK(strstr(dt_error_message(), want), "%s", dt_error_message());
        CHECK(!out);
        check_nobody_left(&w);
        free(out);
    }
    struct watch w = {0};
    char *out;
    CHECK(launch("exit", 2, "", &w, &out) == DT_ERR_COMM);
    CHECK(strstr(dt_error_message(), "ended with code 7"), "%s", dt_error_message());
    check_nobody_left(&w);
    free(out);
}

static void killed_at_any_moment(void)
{
    srand(13);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks *= 2) {
        struct watch w = {.kill_rank = rand() % ranks, .kill_after = 1 + rand() % 30};
        char *out;
        char want[64];
        CHECK(launch("loop", ranks, "", &w, &out) == DT_ERR_COMM);
        CHECK(dt_clock_s() - w.killed_s < 40, "%g s after the kill", dt_clock_s() - w.killed_s); /* a step may take 60 s */
        snprintf(want, sizeof want, "rank %d (pid %d) was killed", w.kill_rank, (int)w.pids[w.kill_rank]);
        CHECK(strstr(dt_error_message(), want), "after report %d: %s", w.kill_after, dt_error_message());
        if (!with_mpirun || ranks == 1) /* mpirun does not always say */
            CHECK(strstr(dt_error_message(), "signal 9"), "%s", dt_error_message());
        check_nobody_left(&w);
        free(out);
    }
}

static void a_death_that_peers_report(void)
{
    struct watch w = {0};
    char *out;
    if (with_mpirun)
        SKIP("mpirun kills the others, and which came first is not known");
    char path[] = "/tmp/test_launch.XXXXXX";
    close(mkstemp(path));
    CHECK(launch("missed", 3, path, &w, &out) == DT_ERR_COMM);
    unlink(path);
    CHECK(strstr(dt_error_message(), "rank 2 (pid ") && strstr(dt_error_message(), "signal 9"), "%s", dt_error_message());
    check_nobody_left(&w);
    free(out);
}

/* stderr goes to a file for the length of a launch; returns what it holds. Owner: the caller. */
static char *launch_and_read_stderr(const char *mode, int ranks, struct watch *w, dt_status *status, char **out)
{
    char path[] = "/tmp/test_launch.XXXXXX";
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    unlink(path);
    dup2(file, STDERR_FILENO);
    *status = launch(mode, ranks, "", w, out);
    dup2(before, STDERR_FILENO);
    close(before);
    char *text = calloc(1, 65536);
    if (text && pread(file, text, 65535, 0) < 0)
        text[0] = 0;
    close(file);
    return text;
}

static void stderr_of_ranks(void)
{
    int ranks = 2;
    struct watch w = {0};
    char *out;
    dt_status status;
    char *text = launch_and_read_stderr("normal", ranks, &w, &status, &out);
    CHECK(status == DT_OK);
    for (int r = 0; r < ranks; r++) {
        char line[64];
        snprintf(line, sizeof line, "a line of rank %d\n", r);
        CHECK(strstr(text, line), "stderr: %s", text);
        snprintf(line, sizeof line, "printed by rank %d\n", r);
        CHECK(strstr(text, line), "stderr: %s", text);
    }
    free(text);
    free(out);
    memset(&w, 0, sizeof w);
    text = launch_and_read_stderr("abort", ranks, &w, &status, &out);
    CHECK(text[0] == 0, "a crash wrote to stderr: %s", text);
    free(text);
    free(out);
}

static void hang(void)
{
    int ranks = 2;
    struct watch w = {0};
    char *out;
    dt_status status;
    char want[64];
    char *text = launch_and_read_stderr("hang", ranks, &w, &status, &out);
    CHECK(status == DT_ERR_TIMEOUT, "%d", status);
    snprintf(want, sizeof want, "rank %d did not get past progress report 5", ranks - 1);
    CHECK(strstr(dt_error_message(), want), "%s", dt_error_message());
    for (int r = 0; r < ranks; r++) {
        snprintf(want, sizeof want, "dump of rank %d\n", r);
        CHECK(strstr(text, want), "stderr: %s", text);
    }
    free(text);
    check_nobody_left(&w);
    free(out);

    memset(&w, 0, sizeof w);
    CHECK(launch("never ready", ranks, "", &w, &out) == DT_ERR_TIMEOUT);
    /* On a busy machine a rank may not even have begun ("0 (never reported)"). */
    const char *waiting = strstr(dt_error_message(), ranks > 1 ? "waiting for ranks 0" : "waiting for rank 0");
    CHECK(waiting && (ranks == 1 || strstr(waiting, ", 1")), "%s", dt_error_message());
    check_nobody_left(&w);
    free(out);
}

/* No rank gets past the same report: the text says which process does not run, or what a rank
 * reports of its wait after the supervisor's limit. */
static void hang_of_all(void)
{
    struct watch w = {0};
    char *out;
    if (with_mpirun)
        SKIP("the messages are the same");
    CHECK(launch("stopped", 2, "", &w, &out) == DT_ERR_TIMEOUT);
    CHECK(strstr(dt_error_message(), "; rank 1 does not answer"), "%s", dt_error_message());
    check_nobody_left(&w);
    free(out);

    memset(&w, 0, sizeof w);
    CHECK(launch("late", 2, "", &w, &out) == DT_ERR_TIMEOUT);
    CHECK(strcmp(dt_error_message(), "rank 0: waited 1 s for rank 1") == 0, "%s", dt_error_message());
    check_nobody_left(&w);
    free(out);
}

/* After mpirun was killed its ranks end, and the error names none of them. */
static void launcher_killed(void)
{
    struct watch w = {.kill_launcher_after = 5};
    char *out;
    if (!with_mpirun)
        SKIP("the supervisor is the launcher");
    CHECK(launch("loop", 2, "", &w, &out) == DT_ERR_COMM);
    CHECK(strstr(dt_error_message(), "mpirun (pid") && strstr(dt_error_message(), "was killed by signal 9"), "%s", dt_error_message());
    check_nobody_left(&w);
    free(out);
}

static void out_of_memory(void)
{
    int ranks = 2;
    struct watch w = {0};
    char *out;
    CHECK(launch("oom", ranks, "", &w, &out) == DT_ERR_OOM);
    CHECK(strstr(dt_error_message(), "12 GiB are too many"), "%s", dt_error_message());
    check_nobody_left(&w);
    free(out);
}

static void stop(void)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct watch w = {.stop_after = 5, .stops = 1};
        char *out;
        CHECK(launch("loop", ranks, "", &w, &out) == DT_ERR_INTERRUPTED);
        CHECK(out && strcmp(out, "partial") == 0);
        CHECK(strstr(dt_error_message(), "stopped as asked"), "%s", dt_error_message());
        check_nobody_left(&w);
        free(out);
    }
    struct watch w = {.stop_after = 5, .stops = 2}; /* the impatient second Ctrl-C */
    char *out;
    CHECK(launch("loop", 1, "", &w, &out) == DT_ERR_INTERRUPTED);
    CHECK(!out);
    check_nobody_left(&w);
    free(out);
}

static void supervisor_killed(void)
{
    int ranks = 2, pids_pipe[2];
    CHECK(pipe(pids_pipe) == 0);
    fflush(stdout);
    pid_t supervisor = fork();
    if (supervisor == 0) {
        struct watch w = {.pid_fd = pids_pipe[1]};
        char *out;
        close(pids_pipe[0]);
        launch("loop", ranks, "", &w, &out);
        _exit(0);
    }
    close(pids_pipe[1]);
    pid_t seen[MOST_RANKS] = {0}, pid;
    int known = 0;
    while (known < ranks && read(pids_pipe[0], &pid, sizeof pid) == sizeof pid) {
        if (known == 0 || seen[0] != pid)
            seen[known++] = pid;
    }
    CHECK(known == ranks);
    kill(supervisor, SIGKILL);
    waitpid(supervisor, NULL, 0);
    bool left = true;
    for (double until = dt_clock_s() + 10; left && dt_clock_s() < until; dt_sleep_ms(10)) {
        left = false;
        for (int i = 0; i < known; i++)
            left |= alive(seen[i]);
    }
    CHECK(!left, "ranks outlive their supervisor");
    close(pids_pipe[0]);
}

static void cannot_start(void)
{
    struct watch w = {0};
    char *out;
    CHECK(launch("mute", 1, "", &w, &out) == DT_ERR_COMM);
    CHECK(strstr(dt_error_message(), "rank 0 ended with code 3 before it reported"), "%s", dt_error_message());
    free(out);
    CHECK(launch("mute", 2, "", &w, &out) == DT_ERR_COMM);
    CHECK(strstr(dt_error_message(), "ended with code 3 before"), "%s", dt_error_message());
    free(out);

    const char *const argv[] = {"/nonexistent/program", NULL};
    struct dt_launch l = {.argv = argv, .world_size = 1, .mpirun = with_mpirun, .input = ""};
    for (; l.world_size <= 2; l.world_size++) {
        CHECK(dt_launch_run(&l, &out) == (with_mpirun && l.world_size == 2 ? DT_ERR_COMM : DT_ERR_UNAVAILABLE));
        CHECK(strstr(dt_error_message(), "/nonexistent/program"), "%s", dt_error_message());
        check_nobody_left(&w);
        free(out);
    }
    if (!with_mpirun)
        return;
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/nonexistent", 1);
    CHECK(launch("normal", 2, "", &w, &out) == DT_ERR_UNAVAILABLE);
    CHECK(strstr(dt_error_message(), "openmpi-bin"), "%s", dt_error_message());
    free(out);
    setenv("PATH", path, 1);
    free(path);
}

static void on_place(void *context, int rank, const char *text)
{
    snprintf((char *)context + 64 * rank, 64, "%s", text);
}

/* Variables of an outer launcher are not passed on, and all ranks get the same port, at which rank
 * 0 can listen. */
static void places(void)
{
    const char *const argv[] = {"/proc/self/exe", "rank", "place", NULL};
    char told[MOST_RANKS][64] = {{0}};
    struct dt_launch l = {.argv = argv, .world_size = MOST_RANKS, .input = "", .progress = on_place, .context = told};
    char *out;
    if (with_mpirun)
        SKIP("mpirun has its own");
    setenv("WORLD_SIZE", "17", 1);
    setenv("OMPI_COMM_WORLD_RANK", "5", 1);
    CHECK_OK(dt_launch_run(&l, &out));
    unsetenv("WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_RANK");
    int port = 0;
    CHECK(sscanf(told[0], "0 of 4, 0 of 4, 127.0.0.1 %d listening", &port) == 1 && strstr(told[0], "listening"), "%s", told[0]);
    for (int r = 1; r < MOST_RANKS; r++) {
        char want[64];
        snprintf(want, sizeof want, "%d of 4, %d of 4, 127.0.0.1 %d", r, r, port);
        CHECK(strcmp(told[r], want) == 0, "%s, not %s", told[r], want);
    }
    free(out);
}

static const struct test_case cases[] = {
    {"input, progress and result", normal_end},
    {"a rank that is none", rank_that_is_none},
    {"who starts ranks", who_starts_ranks},
    {"no limit for steps", no_limit},
    {"a crash is named", crash},
    {"SIGKILL at any moment", killed_at_any_moment},
    {"a death that peers report", a_death_that_peers_report},
    {"the ranks' stderr, and not mpirun's", stderr_of_ranks},
    {"a hang is dumped and ended", hang},
    {"a hang of all ranks names the one that is stopped", hang_of_all},
    {"out of memory comes through", out_of_memory},
    {"a launcher that is killed is named", launcher_killed},
    {"stop requests", stop},
    {"nobody outlives the supervisor", supervisor_killed},
    {"what cannot start says why", cannot_start},
    {"places and a port to meet", places},
};

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "rank") == 0)
        return rank_main(argv[2], argv[3]);
    with_mpirun = argc == 2 && strcmp(argv[1], "mpirun") == 0;
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}
