/* Communicators, one body for every backend. self and sim run in this process; for mpi, or nccl
 * where DTBENCH_TEST_DEVICE is cuda, this program starts itself as ranks, with the supervisor:
 * `test_comm rank MODE SOCKET`. */
#include "lib/base/clock.h"
#include "test/lib/comm/comm_faults.h"

static void run_mode(struct comm_body *b, struct dt_launch_rank *rank, const char *mode)
{
    bool connected = strstr(mode, CONNECTED) != NULL;
    if (connected)
        connect_ranks(b);
    if (is(mode, "body"))
        comm_body_run(b);
    else if (is(mode, "late"))
        one_never_comes(b, connected);
    else if (is(mode, "dump"))
        dumped_by_another_thread(b);
    else if (is(mode, "registered"))
        registered_buffers(b);
    else if (is(mode, "disagree"))
        disagreement(b);
    else if (is(mode, "late graph"))
        one_never_comes_to_a_graph(b);
    else if (is(mode, "late hosts"))
        one_never_comes_to_the_hosts(b);
    else if (is(mode, "late both"))
        one_never_comes_to_two(b);
    else if (is(mode, "late group"))
        one_never_comes_to_a_group(b);
    else if (is(mode, "die"))
        one_dies(b, connected);
    else if (is(mode, "give up"))
        one_gives_up(b, connected);
    while (is(mode, "loop") && !test_failures) { /* until somebody kills a rank */
        comm_body_soak(b);
        char text[32];
        snprintf(text, sizeof text, "%d", (int)getpid());
        dt_launch_rank_progress(rank, text);
    }
    if (is(mode, "loop"))
        dt_sleep_ms(3000); /* and then the supervisor ends the others */
}

/* Two ranks that were given one GPU, or two slices of one, and one that never starts: refused
 * before NCCL hears of it. */
static void meetings_that_fail(const struct dt_world *world, bool absent, bool slices)
{
    struct dt_device_options own = {.local_rank = world->local_rank, .local_size = world->local_size};
    struct dt_device *device;
    struct dt_comm *comm = NULL;
    struct dt_comm_options options = {.init_timeout_s = absent ? 4 * limit_s : 60}; /* the other two begin within it */
    CHECK_OK(dt_device_create("cuda", slices ? &own : NULL, &device));              /* NULL: the first one, on all ranks */
    if (absent && world->rank == 1) {
        await_last_words(world->rank, world->size);
    } else {
        dt_status status = dt_comm_create(device, world, &options, &comm);
        const char *want = absent   ? "rank 1 of 3 did not reach"
                           : slices ? "ranks 0 and 1 are on two MIG slices"
                                    : "ranks 0 and 1 both use GPU-";
        CHECK(status == (absent ? DT_ERR_TIMEOUT : DT_ERR_WORLD) && strstr(dt_error_message(), want), "%s", dt_error_message());
        printf("# %s\n", dt_error_message());
    }
    dt_device_destroy(device);
}

/* True: the checks are done, well or not. */
static bool run_rank(const struct dt_world *world, struct dt_launch_rank *rank, const char *mode, dt_status *out_status)
{
    struct comm_body b;
    bool late = strncmp(mode, "late", 4) == 0, connects = strstr(mode, CONNECTED) != NULL;
    struct dt_comm_options options = {.step_timeout_s = !late      ? 120
                                                        : connects ? 4 * limit_s
                                                                   : limit_s, /* on a busy machine ranks connect late */
                                      .init_timeout_s = 60,
                                      .register_buffers = strncmp(mode, "registered", 10) == 0};
    if (is(mode, "absent") || is(mode, "same") || is(mode, "slices")) {
        dt_launch_rank_progress(rank, "ready");
        meetings_that_fail(world, is(mode, "absent"), is(mode, "slices"));
        return true;
    }
    *out_status = comm_body_init(&b, test_device_kind(), world, is(mode, "loop") ? NULL : &options);
    if (*out_status < 0)
        return false;
    dt_launch_rank_progress(rank, "ready");
    run_mode(&b, rank, mode);
    comm_body_finish(&b);
    if (is(mode, "body") && !test_failures) { /* a second world in the same process */
        CHECK_OK(comm_body_init(&b, test_device_kind(), world, &options));
        comm_body_soak(&b);
        comm_body_finish(&b);
    }
    return true;
}

static int rank_main(const char *mode, const char *socket_name)
{
    struct dt_world world;
    struct dt_launch_rank *rank;
    dt_status status;
    if (dt_world_from_environment(&world) < 0 || dt_launch_rank_connect(socket_name, world.rank, &rank) < 0) {
        fprintf(stderr, "%s\n", dt_error_message());
        return 1;
    }
    if (!run_rank(&world, rank, mode, &status))
        dt_launch_rank_failed(rank, status, dt_error_message());
    else if (test_failures)
        dt_launch_rank_failed(rank, DT_ERR_VERIFY, "checks failed, see above");
    else if (world.rank == 0)
        dt_launch_rank_result(rank, "fine");
    fflush(stdout);
    if (is(mode, "body"))
        dt_comm_library_finish();
    dt_launch_rank_finish(rank);
    say_last_word(world.rank);
    if (!is(mode, "body") && !is_cuda()) /* mpirun ends everybody once one leaves without MPI_Finalize */
        await_last_words(world.rank, world.size);
    /* _exit, because a leak checker would report memory of MPI's unloaded modules, which no
     * suppression can name. */
    fflush(stdout);
    _exit(0);
}

/* ---- the test program ---- */

struct watch {
    int reports, kill_after;
    double killed_s;
    char want[64];
};

static void on_progress(void *context, int rank, const char *text)
{
    struct watch *w = context;
    if (rank != 1 || atoi(text) <= 0 || ++w->reports != w->kill_after)
        return;
    snprintf(w->want, sizeof w->want, "rank 1 (pid %s) was killed", text);
    kill(atoi(text), SIGKILL);
    w->killed_s = dt_clock_s();
}

/* False: skipped, because this machine or build has no MPI. */
static bool launch(const char *mode, int ranks, struct watch *w, dt_status *out_status)
{
    const char *const argv[] = {"/proc/self/exe", "rank", mode, NULL};
    struct dt_launch l = {.argv = argv,
                          .world_size = ranks,
                          .mpirun = !is_cuda(),
                          .input = "",
                          .init_timeout_s = 120,
                          .step_timeout_s = 120,
                          .grace_s = 1,
                          .progress = w ? on_progress : NULL,
                          .context = w};
    char *outcome;
    char last_words[] = "/tmp/dt_test_comm_XXXXXX";
    double start = dt_clock_s();
    if (!mkdtemp(last_words) || setenv(LAST_WORDS, last_words, 1) != 0)
        abort();
    fflush(stdout);
    *out_status = dt_launch_run(&l, &outcome);
    for (int i = 0; i < ranks; i++)
        CHECK(failures_of(i) == 0, "%s: rank %d: see above", mode, i);
    rmdir(last_words);
    printf("# %s, %d ranks: %.2f s: %s\n", mode, ranks, dt_clock_s() - start, *out_status == DT_OK ? "ok" : dt_error_message());
    free(outcome);
    if (*out_status == DT_ERR_UNAVAILABLE)
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
    return *out_status != DT_ERR_UNAVAILABLE;
}

static void expect_ok(const char *mode, int ranks)
{
    dt_status status;
    if (launch(mode, ranks, NULL, &status))
        CHECK(status == DT_OK, "%s", dt_error_message());
}

static void on_this_process(const char *kind, int rank, int size)
{
    struct dt_world world = {.rank = rank, .size = size, .local_rank = rank, .local_size = size, .launcher = "none"};
    struct comm_body b;
    dt_status status = comm_body_init(&b, kind, &world, NULL);
    if (status == DT_ERR_UNAVAILABLE)
        SKIP("%s", dt_error_message());
    CHECK_OK(status);
    if (status < 0)
        return;
    if (strcmp(kind, "sim") == 0)
        comm_body_run_sim(&b);
    else
        comm_body_run(&b);
    comm_body_finish(&b);
}

static void self(void)
{
    on_this_process(test_device_kind(), 0, 1);
}

static void sim(void)
{
    on_this_process("sim", 0, 1);
    on_this_process("sim", 6, 16);
    on_this_process("sim", 4095, 4096);
}

static void ranks_1(void)
{
    expect_ok("body", 1);
}

static void ranks_2(void)
{
    expect_ok("body", 2);
}

static void ranks_3(void)
{
    expect_ok("body", 3);
}

static void ranks_4(void)
{
    expect_ok("body", 4);
}

static bool is_emulated(void)
{
    struct dt_device_info info;
    return dt_device_look("cuda", 0, &info) && strstr(info.name, "emulated");
}

static void timeouts(void)
{
    expect_ok("late", 2);
    expect_ok("late", 3);
    expect_ok("late" CONNECTED, 3);
}

static void disagreeing_ranks(void)
{
    if (is_cuda() && !is_emulated())
        SKIP("NCCL does not compare what its ranks call");
    expect_ok("disagree", 2);
}

/* Only for nccl: mpi's launcher handles these cases, and mpi has no graphs. */
static void launched_graph(void)
{
    if (!is_cuda())
        SKIP("device \"%s\" has no graphs", test_device_kind());
    expect_ok("late graph", 2);
}

static void registration(void)
{
    dt_status status;
    if (!is_cuda())
        SKIP("nccl alone registers buffers");
    setenv("DTBENCH_EMULATED_GPU_BYTES", "134217728", 1);
    expect_ok("registered", 3);
    unsetenv("DTBENCH_EMULATED_GPU_BYTES");
    if (!is_emulated())
        return;
    setenv("DTBENCH_EMULATED_NCCL_2_18", "1", 1);
    launch("registered", 2, NULL, &status);
    CHECK(status == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "register_buffers: NCCL ") &&
              strstr(dt_error_message(), "2.19 or newer is needed"),
          "%s", dt_error_message());
    test_skip_reason[0] = 0; /* the skip was requested */
    unsetenv("DTBENCH_EMULATED_NCCL_2_18");
}

static void dumps(void)
{
    if (!is_cuda())
        SKIP("device \"%s\" has no contexts", test_device_kind());
    expect_ok("dump", 2);
}

static void more_to_wait_for(void)
{
    if (!is_cuda())
        SKIP("over MPI the supervisor ends what hangs");
    expect_ok("late both", 3);
    expect_ok("late hosts", 3);
    expect_ok("late group", 3);
}

static void meetings(void)
{
    if (!is_cuda())
        SKIP("ranks of device \"%s\" meet by MPI", test_device_kind());
    expect_ok("absent", 3);
    expect_ok("same", 2);
    struct dt_device_info second;
    setenv("DTBENCH_EMULATED_MIG", "1", 1);
    if (is_emulated() && dt_device_look("cuda", 1, &second))
        expect_ok("slices", 2);
    unsetenv("DTBENCH_EMULATED_MIG");
}

/* The supervisor must report the process that has ended. */
static void expect_an_end(const char *mode)
{
    dt_status status;
    if (launch(mode, 3, NULL, &status))
        CHECK(status == DT_ERR_COMM && strstr(dt_error_message(), "rank 2"), "%s", dt_error_message());
}

static void rank_dies(void)
{
    if (!is_cuda())
        SKIP("mpirun ends all ranks when one dies");
    expect_an_end("die");
    expect_an_end("die" CONNECTED);
}

static void rank_gives_up(void)
{
    expect_an_end("give up");
    expect_an_end("give up" CONNECTED);
}

static void rank_killed(void)
{
    struct watch w = {.kill_after = 3};
    dt_status status;
    if (!launch("loop", 3, &w, &status))
        return;
    CHECK(status == DT_ERR_COMM);
    CHECK(strstr(dt_error_message(), w.want), "%s, not: %s", dt_error_message(), w.want);
    CHECK(dt_clock_s() - w.killed_s < 60, "%g s", dt_clock_s() - w.killed_s); /* a step may take 120 s */
}

/* In a child: MPI must not start in this process. Returns the status that creation gives, and its
 * text. */
static dt_status create_with(const char *const *environment, char *text, size_t text_bytes)
{
    int result[2];
    dt_status status = DT_ERR_IO;
    memset(text, 0, text_bytes);
    if (pipe(result) != 0)
        return status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct dt_world world;
        struct comm_body b;
        for (int i = 0; environment[i]; i += 2)
            setenv(environment[i], environment[i + 1], 1);
        if ((status = dt_world_from_environment(&world)) == DT_OK)
            status = comm_body_init(&b, "cpu", &world, NULL);
        bool sent = write(result[1], &status, sizeof status) > 0 && write(result[1], dt_error_message(), strlen(dt_error_message())) > 0;
        _exit(sent ? 0 : 1);
    }
    close(result[1]);
    bool got = read(result[0], &status, sizeof status) == sizeof status && read(result[0], text, text_bytes - 1) > 0;
    close(result[0]);
    waitpid(child, NULL, 0);
    return got ? status : DT_ERR_IO;
}

/* srun without PMIx, and torchrun: every rank would be a world of its own. */
static void singletons(void)
{
    static const char *const srun[] = {"SLURM_STEP_ID",
                                       "0",
                                       "SLURM_PROCID",
                                       "2",
                                       "SLURM_NTASKS",
                                       "4",
                                       "SLURM_LOCALID",
                                       "2",
                                       "SLURM_NODEID",
                                       "0",
                                       "SLURM_STEP_TASKS_PER_NODE",
                                       "4",
                                       NULL};
    static const char *const torchrun[] = {"RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2", NULL};
    char text[1024];
    if (is_cuda())
        SKIP("nccl needs no MPI");
    dt_status status = create_with(srun, text, sizeof text);
    if (status == DT_ERR_UNAVAILABLE)
        SKIP("%.200s", text);
    CHECK(status == DT_ERR_WORLD && strstr(text, "srun --mpi=pmix"), "%s: %s", status_name(status), text);
    status = create_with(torchrun, text, sizeof text);
    CHECK(status == DT_ERR_WORLD && strstr(text, "start dtbench by itself") && strstr(text, "mpirun -n 2"), "%s: %s", status_name(status),
          text);
}

static const struct test_case cases[] = {
    {"self", self},
    {"sim moves nothing", sim},
    {"a launched rank alone", ranks_1},
    {"2 ranks", ranks_2},
    {"3 ranks", ranks_3},
    {"4 ranks", ranks_4},
    {"a rank that never comes is named", timeouts},
    {"ranks that disagree", disagreeing_ranks},
    {"registered buffers", registration},
    {"another thread asks how far operations are, and opens no GPU", dumps},
    {"a rank that never comes to a graph", launched_graph},
    {"a rank that never comes to two communicators, an exchange of the hosts, or a group", more_to_wait_for},
    {"ranks that do not meet", meetings},
    {"a rank that dies", rank_dies},
    {"a rank that gives up is heard", rank_gives_up},
    {"a rank killed in the middle", rank_killed},
    {"singletons are refused", singletons},
};

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "rank") == 0)
        return rank_main(argv[2], argv[3]);
    char reason[256];
    if (is_cuda() && !dt_device_available("cuda", reason, sizeof reason)) {
        printf("1..0 # SKIP %s\n", reason);
        return 0;
    }
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}
