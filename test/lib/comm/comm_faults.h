/* What goes wrong among the ranks of test_comm.c, on a rank: one that never comes, dies or gives
 * up, calls that differ; and what ranks then say. */
#pragma once

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

/* NCCL makes connections where an operation first needs them, and the call returns only when the
 * peers have made theirs: what goes wrong goes wrong in the call then, and else while the stream is
 * waited for. A mode that ends so runs all operations once before it begins. */
#define CONNECTED " connected"

static inline bool is(const char *mode, const char *name)
{
    const char *rest = mode + strlen(name);
    return strncmp(mode, name, strlen(name)) == 0 && (*rest == 0 || strcmp(rest, CONNECTED) == 0);
}

static inline bool is_cuda(void)
{
    return is(test_device_kind(), "cuda");
}

/* Where an operation has to end by itself: long beside what a busy machine makes ranks wait for
 * each other, short for who waits for the test. */
static const double limit_s = 1;

/* The folder in which each rank leaves a file when it has said its last word. */
#define LAST_WORDS "DTBENCH_TEST_LAST_WORDS"

static inline void last_word_path(int rank, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/%d", getenv(LAST_WORDS), rank);
}

static inline void say_last_word(int rank)
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
static inline int failures_of(int rank)
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

/* A rank that takes no part must not leave before the others have seen that: they would see that
 * instead. */
static inline void await_last_words(int rank, int size)
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
static inline void *dump_on_thread(void *argument)
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

static inline void check_dump(struct comm_body *b, const char *state)
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
static inline void connect_ranks(struct comm_body *b)
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

/* What an operation has led to of which a rank takes no part: `called` is what its call
 * returned. */
static inline dt_status outcome_of(struct comm_body *b, dt_status called, bool connected, struct dt_stream *stream)
{
    if (!b->nccl || connected)
        CHECK(called == DT_OK, "%s", dt_error_message());
    else if (b->slow)
        CHECK(called < 0, "the emulated NCCL connects without its peer");
    return called < 0 ? called : dt_stream_synchronize(stream);
}

/* The last rank never comes; the others say so. */
static inline void one_never_comes(struct comm_body *b, bool connected)
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
    /* What comes later does not wait any more. Of several times, since other processes take the
     * processor in some of them. */
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
static inline void disagreement(struct comm_body *b)
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
static inline void one_never_comes_to_a_graph(struct comm_body *b)
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
static inline void one_never_comes_to_the_hosts(struct comm_body *b)
{
    double mine = 1, all[2];
    if (b->rank == b->size - 1) {
        await_last_words(b->rank, b->size);
        return;
    }
    CHECK(dt_host_reduce(b->comm, &mine, 1, all) == DT_ERR_TIMEOUT);
    CHECK(strstr(dt_error_message(), "waited 1 s for rank 2"), "\"%s\"", dt_error_message());
}

/* The last rank comes to none of two communicators, whose operations hang beside each other: all of
 * them are given up at once. */
static inline void one_never_comes_to_two(struct comm_body *b)
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
static inline void one_never_comes_to_a_group(struct comm_body *b)
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
static inline void vanish(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 && address.ss_family != AF_UNIX)
            shutdown(fd, SHUT_RDWR);
    }
}

/* One rank is gone without a word; the others name it. It ends when they have: the supervisor would
 * end them at once. */
static inline void one_dies(struct comm_body *b, bool connected)
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
    CHECK(dt_clock_s() - start < 60, "%g s", dt_clock_s() - start); /* a step may take 120 s */
    snprintf(want, sizeof want, "rank %d", last);
    CHECK(strstr(dt_error_message(), want), "%s", dt_error_message());
    printf("# %s\n", dt_error_message());
    dt_free(b->first, &buffer);
}

/* One rank runs out of memory alone, and says so before it ends: for the others it is that, and no
 * failure. */
static inline void one_gives_up(struct comm_body *b, bool connected)
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

static inline uint64_t registered_mib(const struct comm_body *b)
{
    struct dt_comm_network network;
    dt_comm_network(b->comm, &network);
    return network.registered_bytes >> 20;
}

/* Buffers that are registered: memory that comes and goes, communicators that do, a group, a graph.
 * The emulated NCCL looks that what is registered covers every buffer, on every rank, and ends
 * before the memory and the communicators do. */
static inline void registered_buffers(struct comm_body *b)
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

/* On each rank another thread looks how far operations are, as the supervisor's does: it opens no
 * second GPU. */
static inline void dumped_by_another_thread(struct comm_body *b)
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
