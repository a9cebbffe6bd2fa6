/* Ranks that meet over TCP: a thread each. */
#pragma once

#include "lib/base/clock.h"
#include "lib/rendezvous/internal.h"
#include "test/check.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 8 };

static const struct dt_secret ours = {.bytes = "this job's secret"};

static inline int socket_on(int port, struct sockaddr_in *out)
{
    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return socket(AF_INET, SOCK_STREAM, 0);
}

static inline int free_port(void)
{
    struct sockaddr_in a;
    socklen_t bytes = sizeof a;
    int fd = socket_on(0, &a);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || getsockname(fd, (struct sockaddr *)&a, &bytes) != 0)
        return 0;
    close(fd);
    return ntohs(a.sin_port);
}

/* One rank's part of a case. */
struct rank {
    struct dt_rendezvous_place place;
    void (*part)(struct rank *rank); /* called after the rendezvous */
    struct dt_rendezvous *r;
    int world[MOST];
    struct dt_rendezvous_group all;
    bool well;
    dt_status status;
    char text[1024];
    double took_s;
    int wrong;        /* errors that `part` found */
    uint64_t through; /* bytes that went through rank 0 */
};

static inline void keep(struct rank *rank, dt_status status)
{
    rank->status = status;
    snprintf(rank->text, sizeof rank->text, "%s", status < 0 ? dt_error_message() : "");
}

static inline void *run_rank(void *context)
{
    struct rank *rank = context;
    double start = dt_clock_s();
    keep(rank, dt_rendezvous_create(&rank->place, &rank->r));
    for (int i = 0; i < MOST; i++)
        rank->world[i] = i;
    rank->all = (struct dt_rendezvous_group){.ranks = rank->world, .size = rank->place.size, .rank = rank->place.rank};
    if (rank->status == DT_OK && rank->part)
        rank->part(rank);
    rank->took_s = dt_clock_s() - start;
    dt_rendezvous_destroy(rank->r, rank->well);
    return NULL;
}

/* Wait until a condition of other threads or processes holds; a minute is for ever. */
#define AWAIT(condition) for (double until_s = dt_clock_s() + 60; !(condition) && dt_clock_s() < until_s; dt_sleep_ms(2))

static inline void set_up(struct rank *ranks, int size, int port, void (*part)(struct rank *rank))
{
    for (int i = 0; i < size; i++)
        ranks[i] = (struct rank){
            .place = {.address = "127.0.0.1", .port = port, .local = true, .rank = i, .size = size, .secret = &ours, .timeout_s = 20},
            .part = part,
            .well = true};
}

/* All but rank `absent` (-1: all). */
static inline void run_ranks(struct rank *ranks, int size, int absent)
{
    pthread_t threads[MOST];
    for (int i = 0; i < size; i++)
        if (i != absent && pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0)
            abort();
    for (int i = 0; i < size; i++)
        if (i != absent)
            pthread_join(threads[i], NULL);
}

static inline void expect(const struct rank *rank, dt_status status, const char *text)
{
    CHECK(rank->status == status && strstr(rank->text, text), "rank %d: %s: %s", rank->place.rank, status_name(rank->status), rank->text);
}
