/* Communicators, one body for every backend. self and sim run in this process; for mpi, or nccl where DTBENCH_TEST_DEVICE is cuda, this
 * program starts itself as ranks, with the supervisor: `test_comm rank MODE SOCKET`. */
#include "lib/base/clock.h"
#include "test/lib/comm/comm_body.h"
#include "test/lib/device/device_kind.h"

#include "lib/launch/launch.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what goes wrong, on a rank ---- */

/* NCCL makes connections where an operation first needs them, and the call returns only when the peers have made theirs: what goes wrong
 * goes wrong in the call then, and else while the stream is waited for. A mode that ends so runs all operations once before it begins. */
#define CONNECTED " connected"

static bool is(const char *mode, const char *name)
{
    const char *rest = mode + strlen(name);
    return strncmp(mode, name, strlen(name)) == 0 && (*rest == 0 || strcmp(rest, CONNECTED) == 0);
}

static bool is_cuda(void)
{
    return is(test_device_kind(), "cuda");
}

/* Where an operation has to end by itself: long beside what a busy machine makes ranks wait for each other, short for who waits for the test. */
static const double limit_s = 1;

/* The folder in which each rank leaves a file when it has said its last word. */
#define LAST_WORDS "DTBENCH_TEST_LAST_WORDS"

static void last_word_path(int rank, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/%d", getenv(LAST_WORDS), rank);
}

static void say_last_word(int rank)
{
    char path[256];
    last_word_path(rank, path, sizeof path);
    FILE *file = fopen(path, "w");
    if (!file)
        abort();
    fprintf(file, "%d\n", test_failures);
    fclose(file);
}

/* Of a rank that has said its last word, which it may have been the only one to hear. */
static int failures_of(int rank)
{
    char path[256], text[16] = "";
    last_word_path(rank, path, sizeof path);
    FILE *file = fopen(path, "r");
    if (file && !fgets(text, sizeof text, file))
        text[0] = 0;
    if (file)
        fclose(file);
    unlink(path);
    return atoi(text);
}

/* A rank that takes no part must not leave before the others have seen that: they would see that instead. */
static void await_last_words(int rank, int size)
{
    char path[256];
    double end = dt_clock_s() + 60;
    for (int i = 0; i < size; i++)
        for (last_word_path(i, path, sizeof path); i != rank && access(path, F_OK) != 0 && dt_clock_s() < end;)
            dt_sleep_ms(5);
}

struct dump {
    struct dt_comm *comm;
    char *text;
};

/* On a thread of its own, as where the supervisor asks for it. */
static void *dump_on_thread(void *argument)
{
    struct dump *d = argument;
    size_t length = 0;
    FILE *memory = open_memstream(&d->text, &length);
    if (!memory)
        abort();
    dt_comm_dump(d->comm, memory);
    fclose(memory);
    return NULL;
}

static void check_dump(struct comm_body *b, const char *state)
{
    struct dump d = {.comm = b->comm};
    pthread_t thread;
    if (pthread_create(&thread, NULL, dump_on_thread, &d) != 0)
        abort();
    pthread_join(thread, NULL);
    CHECK(strstr(d.text, "all_reduce") && strstr(d.text, state), "%s", d.text);
    free(d.text);
}

/* The operations of these tests, on all ranks. */
static void connect_ranks(struct comm_body *b)
{
    struct dt_buffer buffer;
    int last = b->size - 1;
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 1 << 20, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 1 << 20));
    CHECK_OK(dt_all_reduce(b->comm, buffer.data, 1 << 18, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_all_reduce(b->comm, buffer.data, 1024, DT_FP32, DT_SUM, b->first));
    for (int i = 0; i < last && b->rank == last; i++)
        CHECK_OK(dt_send(b->comm, buffer.data, 16, DT_FP32, i, b->first));
    if (b->rank < last)
        CHECK_OK(dt_recv(b->comm, buffer.data, 16, DT_FP32, last, b->first));
    CHECK_OK(dt_stream_synchronize(b->first));
    dt_free(b->first, &buffer);
}

/* What an operation has led to of which a rank takes no part: `called` is what its call returned. */
static dt_status outcome_of(struct comm_body *b, dt_status called, bool connected, struct dt_stream *stream)
{
    if (!b->nccl || connected)
        CHECK(called == DT_OK, "%s", dt_error_message());
    else if (b->slow)
        CHECK(called < 0, "the emulated NCCL connects without its peer");
    return called < 0 ? called : dt_stream_synchronize(stream);
}

/* The last rank never comes; the others say so. */
static void one_never_comes(struct comm_body *b, bool connected)
{
    int last = b->size - 1;
    if (b->rank == last) {
        await_last_words(b->rank, b->size);
        return;
    }
    struct dt_buffer buffer;
    char want[32];
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 1 << 20, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 1 << 20));
    double start = dt_clock_s();
    dt_status called = dt_all_reduce(b->comm, buffer.data, 1 << 18, DT_FP32, DT_SUM, b->first);
    check_dump(b, "");
    CHECK(outcome_of(b, called, connected, b->first) == DT_ERR_TIMEOUT);
    CHECK(dt_clock_s() - start < 20 * limit_s, "%g s", dt_clock_s() - start);
    snprintf(want, sizeof want, "for rank %d", last);
    CHECK(strstr(dt_error_message(), want) && strstr(dt_error_message(), "world"), "%s", dt_error_message());
    printf("# %s\n", dt_error_message());
    check_dump(b, "failed");
    /* What comes later does not wait any more. Of several times, since other processes take the processor in some of them. */
    double fastest_s = 1e9;
    for (int i = 0; i < 5; i++) {
        start = dt_clock_s();
        CHECK_OK(dt_all_reduce(b->comm, buffer.data, 1 << 18, DT_FP32, DT_SUM, b->second));
        CHECK(dt_stream_synchronize(b->second) == DT_ERR_COMM, "%s", dt_error_message());
        fastest_s = fmin(fastest_s, dt_clock_s() - start);
    }
    CHECK(fastest_s < limit_s / 4, "%g s", fastest_s);
    dt_free(b->first, &buffer);
}

/* Ranks that call different things are told so, and do not take one for the other. */
static void disagreement(struct comm_body *b)
{
    struct dt_buffer buffer;
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 65536, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 65536));
    dt_status status = dt_all_reduce(b->comm, buffer.data, b->rank ? 512 : 1024, DT_FP32, DT_SUM, b->first);
    if (status == DT_OK) /* nccl may know it before */
        status = dt_stream_synchronize(b->first);
    printf("# rank %d: %s\n", b->rank, status < 0 ? dt_error_message() : "ok");
    if (b->rank == 1) /* gets more than it made room for; rank 0 may have all it wants */
        CHECK(status == DT_ERR_COMM && strstr(dt_error_message(), "different"), "%s", dt_error_message());
    dt_free(b->first, &buffer);
}

/* As one_never_comes, where the host has only launched a graph: nobody knows where it stands. */
static void one_never_comes_to_a_graph(struct comm_body *b)
{
    int last = b->size - 1;
    struct dt_buffer buffer;
    struct dt_graph *graph = NULL;
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 1 << 20, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 1 << 20));
    CHECK_OK(dt_stream_synchronize(b->first));
    CHECK_OK(dt_graph_begin(b->first));
    CHECK_OK(dt_all_reduce(b->comm, buffer.data, 1 << 18, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_graph_end(b->first, &graph));
    CHECK_OK(dt_stream_synchronize(b->first));
    if (b->rank == last) {
        await_last_words(b->rank, b->size);
    } else {
        double start = dt_clock_s();
        CHECK_OK(dt_graph_launch(graph, b->first));
        CHECK(dt_stream_synchronize(b->first) == DT_ERR_TIMEOUT, "%s", dt_error_message());
        CHECK(dt_clock_s() - start < 20 * limit_s, "%g s", dt_clock_s() - start);
        CHECK(strstr(dt_error_message(), "graph") && strstr(dt_error_message(), "world"), "%s", dt_error_message());
        printf("# %s\n", dt_error_message());
    }
    dt_graph_destroy(graph);
    dt_free(b->first, &buffer);
}

/* The last rank does not come to an exchange of the hosts: the others say whom they waited for. */
static void one_never_comes_to_the_hosts(struct comm_body *b)
{
    double mine = 1, all[2];
    if (b->rank == b->size - 1) {
        await_last_words(b->rank, b->size);
        return;
    }
    CHECK(dt_host_reduce(b->comm, &mine, 1, all) == DT_ERR_TIMEOUT);
    CHECK(strstr(dt_error_message(), "waited 1 s for rank 2"), "\"%s\"", dt_error_message());
}

/* The last rank comes to none of two communicators, whose operations hang beside each other: all of them are given up at once. */
static void one_never_comes_to_two(struct comm_body *b)
{
    struct dt_comm *copy;
    struct dt_buffer buffer;
    int ranks[8];
    for (int i = 0; i < b->size; i++)
        ranks[i] = i;
    CHECK_OK(dt_comm_subset(b->comm, ranks, b->size, "copy", &copy));
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 8192, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 8192));
    CHECK_OK(dt_all_reduce(b->comm, buffer.data, 1024, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_all_reduce(copy, buffer.data, 1024, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_stream_synchronize(b->first));
    if (b->rank == b->size - 1) {
        await_last_words(b->rank, b->size);
    } else {
        double start = dt_clock_s();
        CHECK_OK(dt_all_reduce(b->comm, buffer.data, 1024, DT_FP32, DT_SUM, b->first));
        CHECK_OK(dt_all_reduce(copy, (char *)buffer.data + 4096, 1024, DT_FP32, DT_SUM, b->second));
        CHECK(dt_stream_synchronize(b->second) == DT_ERR_TIMEOUT, "%s", dt_error_message());
        CHECK(dt_clock_s() - start < 20 * limit_s, "%g s", dt_clock_s() - start);
    }
    dt_free(b->first, &buffer);
    dt_comm_destroy(copy);
}

/* Each rank to the next, in one call; the last rank is not there. The call's partners are named. */
static void one_never_comes_to_a_group(struct comm_body *b)
{
    int next = (b->rank + 1) % b->size, previous = (b->rank + b->size - 1) % b->size;
    struct dt_buffer buffer;
    char want[64];
    if (b->rank == b->size - 1) {
        await_last_words(b->rank, b->size);
        return;
    }
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 128, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 128));
    CHECK_OK(dt_group_start(b->comm));
    CHECK_OK(dt_send(b->comm, buffer.data, 16, DT_FP32, next, b->first));
    CHECK_OK(dt_recv(b->comm, (char *)buffer.data + 64, 16, DT_FP32, previous, b->first));
    CHECK(outcome_of(b, dt_group_end(b->comm), false, b->first) == DT_ERR_TIMEOUT, "%s", dt_error_message());
    snprintf(want, sizeof want, "for ranks %d and %d", next < previous ? next : previous, next < previous ? previous : next);
    CHECK(strstr(dt_error_message(), want) || strstr(dt_error_message(), " gave up: send: "), "%s", dt_error_message());
    dt_free(b->first, &buffer);
}

/* For the others this process is gone: its connections to their hosts close. */
static void vanish(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 && address.ss_family != AF_UNIX)
            shutdown(fd, SHUT_RDWR);
    }
}

/* One rank is gone without a word; the others name it. It ends when they have: the supervisor would end them at once. */
static void one_dies(struct comm_body *b, bool connected)
{
    struct dt_buffer buffer;
    char want[32];
    int last = b->size - 1;
    if (b->rank == last) {
        dt_sleep_ms(300);
        vanish();
        await_last_words(b->rank, b->size);
        _exit(0);
    }
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 65536, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 65536));
    double start = dt_clock_s();
    dt_status called = dt_all_reduce(b->comm, buffer.data, 1024, DT_FP32, DT_SUM, b->first);
    CHECK(outcome_of(b, called, connected, b->first) == DT_ERR_COMM);
    CHECK(dt_clock_s() - start < 5, "%g s", dt_clock_s() - start);
    snprintf(want, sizeof want, "rank %d", last);
    CHECK(strstr(dt_error_message(), want), "%s", dt_error_message());
    printf("# %s\n", dt_error_message());
    dt_free(b->first, &buffer);
}

/* One rank runs out of memory alone, and says so before it ends: for the others it is that, and no failure. */
static void one_gives_up(struct comm_body *b, bool connected)
{
    struct dt_buffer buffer;
    int last = b->size - 1;
    if (b->rank == last) {
        dt_sleep_ms(300);
        dt_comm_give_up(b->comm, DT_ERR_OOM, "12 GiB are too many");
        await_last_words(b->rank, b->size);
        _exit(0);
    }
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 65536, &buffer));
    CHECK_OK(dt_zero(b->first, buffer.data, 65536));
    dt_status called = dt_all_reduce(b->comm, buffer.data, 1024, DT_FP32, DT_SUM, b->first);
    CHECK(outcome_of(b, called, connected, b->first) == DT_ERR_OOM && strstr(dt_error_message(), "rank 2 gave up: 12 GiB are too many"),
          "%s", dt_error_message());
    dt_free(b->first, &buffer);
}

static uint64_t registered_mib(const struct comm_body *b)
{
    struct dt_comm_network network;
    dt_comm_network(b->comm, &network);
    return network.registered_bytes >> 20;
}

/* Buffers that are registered: memory that comes and goes, communicators that do, a group, a graph. The emulated NCCL looks that what is
 * registered covers every buffer, on every rank, and ends before the memory and the communicators do. */
static void registered_buffers(struct comm_body *b)
{
    struct dt_buffer parts[3], whole;
    CHECK(registered_mib(b) == 0, "%d MiB before there is any", (int)registered_mib(b));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) { /* not of the same size on each rank */
            CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, (size_t)(18 + 2 * i + 2 * b->rank) << 20, &parts[i]));
            CHECK_OK(dt_zero(b->first, parts[i].data, 4096));
            CHECK_OK(dt_all_reduce(b->comm, parts[i].data, 1024, DT_FP32, DT_SUM, b->first));
        }
        CHECK(registered_mib(b) >= 60, "%d MiB", (int)registered_mib(b));
        CHECK_OK(dt_stream_synchronize(b->first));
        body_concurrent(b); /* a communicator that finds memory */
        for (int i = 0; i < 3; i++)
            dt_free(b->first, &parts[i]);
        CHECK_OK(dt_stream_synchronize(b->first));
        CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, (size_t)80 << 20, &whole)); /* the pool gives back what is free */
        CHECK_OK(dt_zero(b->first, whole.data, 4096));
        CHECK_OK(dt_all_reduce(b->comm, (char *)whole.data + 64, 900, DT_BF16, DT_AVG, b->first));
        CHECK_OK(dt_stream_synchronize(b->first));
        dt_free(b->first, &whole);
        CHECK(registered_mib(b) >= 80 && (!b->slow || registered_mib(b) <= 128), "%d MiB", (int)registered_mib(b));
    }
    comm_body_soak(b);
    body_chain(b, 5003);
    body_graph(b);
}

/* On each rank another thread looks how far operations are, as the supervisor's does: it opens no second GPU. */
static void dumped_by_another_thread(struct comm_body *b)
{
    struct body_buffer x = body_alloc(b, 1024, DT_FP32);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(dt_zero(b->first, x.data, 4096));
        CHECK_OK(dt_all_reduce(b->comm, x.data, 1024, DT_FP32, DT_SUM, b->first));
        check_dump(b, "");
    }
    CHECK_OK(dt_stream_synchronize(b->first));
    check_dump(b, "done");
    body_free(b, &x);
}

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

/* Two ranks that were given one GPU, or two slices of one, and one that never starts: refused before NCCL hears of it. */
static void meetings_that_fail(const struct dt_world *world, bool absent, bool slices)
{
    struct dt_device_options own = {.local_rank = world->local_rank, .local_size = world->local_size};
    struct dt_device *device;
    struct dt_comm *comm = NULL;
    struct dt_comm_options options = {.init_timeout_s = absent ? limit_s : 60};
    CHECK_OK(dt_device_create("cuda", slices ? &own : NULL, &device)); /* NULL: the first one, on all ranks */
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
    /* Not through exit: a leak checker would list what MPI keeps in modules that it has unloaded, which no suppression can name. */
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
                          .init_timeout_s = 30,
                          .step_timeout_s = 120,
                          .grace_s = 1,
                          .progress = w ? on_progress : NULL,
                          .context = w};
    struct dt_launch_outcome outcome;
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
    dt_launch_outcome_finish(&outcome);
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

/* Of nccl alone: mpi's own launcher sees to these, and has no graphs. */
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
    test_skip_reason[0] = 0; /* that is what was asked for */
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

/* What the supervisor says: it is the process that has ended. */
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
    CHECK(dt_clock_s() - w.killed_s < 10);
}

/* In a child: MPI must not start in this process. Returns the status that creation gives, and its text. */
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
