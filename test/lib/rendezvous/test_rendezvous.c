/* Ranks that meet over TCP, and what they then exchange. */
#include "test/lib/rendezvous/ranks.h"

#include <linux/tcp.h>

static const struct dt_secret theirs = {.bytes = "another job's"};

/* Does a process of this machine listen at the port? Asked of the kernel: a connection would be a
 * stranger's. */
static bool is_listened_at(int port)
{
    enum { LISTENS = 10 }; /* TCP_LISTEN of <netinet/tcp.h>, which cannot be included beside <linux/tcp.h> */
    char line[256];
    unsigned local, state;
    bool found = false;
    FILE *file = fopen("/proc/net/tcp", "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, " %*d: %*x:%x %*x:%*x %x", &local, &state) == 2 && local == (unsigned)port && state == LISTENS;
    if (file)
        fclose(file);
    return found;
}

/* ---- gatherings ---- */

static void gather_often(struct rank *rank)
{
    enum { BYTES = 3000 };
    static const int odd_even[2][MOST] = {{0, 2, 4, 6}, {7, 5, 3, 1}};
    struct dt_rendezvous_group half = {.id = 5 + (uint64_t)rank->place.rank % 2, .ranks = odd_even[rank->place.rank % 2], .size = MOST / 2};
    unsigned char mine[BYTES], all[MOST * BYTES];
    while (half.ranks[half.rank] != rank->place.rank)
        half.rank++;
    for (int turn = 0; turn < 20; turn++) {
        bool whole = turn % 2 == 0;
        struct dt_rendezvous_group *group = whole ? &rank->all : &half;
        size_t bytes = turn == 6 ? BYTES : (size_t)turn % 5; /* 0 too */
        memset(mine, rank->place.rank * 16 + turn, sizeof mine);
        dt_status status = dt_rendezvous_all_gather(rank->r, group, "gather", mine, bytes, all, 20);
        if (status < 0) {
            keep(rank, status);
            return;
        }
        for (size_t i = 0; i < (size_t)group->size * bytes; i++)
            rank->wrong += all[i] != (unsigned char)(group->ranks[i / bytes] * 16 + turn);
    }
}

/* If all ranks are on one machine, no other machine can connect. */
static void local_ports(void)
{
    const struct dt_rendezvous_place place = {.address = "0.0.0.0", .port = free_port(), .local = true, .size = 2};
    struct dt_port port;
    CHECK_OK(dt_port_open(&place, "here", &port));
    CHECK(port.count > 0);
    for (int i = 0; i < port.count; i++) {
        struct sockaddr_storage a;
        socklen_t bytes = sizeof a;
        CHECK(getsockname(port.fd[i], (struct sockaddr *)&a, &bytes) == 0);
        const struct sockaddr_in *v4 = (const void *)&a;
        const struct sockaddr_in6 *v6 = (const void *)&a;
        CHECK(a.ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) == INADDR_LOOPBACK : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr), "socket %d",
              i);
    }
    dt_port_close(&port);
}

/* The others may know rank 0 by an address that its machine does not have, such as a gateway's: it
 * listens on all its addresses. */
static void an_address_of_elsewhere(void)
{
    const struct dt_rendezvous_place place = {.address = "192.0.2.1", .port = free_port(), .size = 2}; /* RFC 5737: nobody's */
    struct dt_port port;
    struct sockaddr_in a;
    CHECK_OK(dt_port_open(&place, "elsewhere", &port));
    int fd = socket_on(place.port, &a);
    CHECK(port.count == 1 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "%d sockets", port.count);
    close(fd);
    dt_port_close(&port);
}

static void gatherings(void)
{
    static const char *const addresses[] = {"127.0.0.1", "localhost", "::1"};
    struct rank ranks[MOST];
    int port = free_port();
    for (int round = 0; round < 5; round++) { /* on the same port, one after the other */
        set_up(ranks, MOST, port, gather_often);
        for (int i = 0; i < MOST; i++) {
            ranks[i].place.local = round > 2;
            ranks[i].place.address = addresses[round % 3];
        }
        run_ranks(ranks, MOST, -1);
        if (round == 2 && ranks[1].status == DT_ERR_TIMEOUT)
            printf("# no IPv6 here: %s\n", ranks[1].text);
        for (int i = 0; i < MOST && !(round == 2 && ranks[1].status < 0); i++)
            CHECK(ranks[i].status == DT_OK && ranks[i].wrong == 0, "round %d, rank %d: %d wrong, %s", round, i, ranks[i].wrong,
                  ranks[i].text);
    }
}

/* Frames that are longer than one receive, two after each other. */
static void long_frames(void)
{
    enum { BYTES = 60001 };
    static char payload[BYTES];
    struct dt_link sender = {.fd = -1}, receiver = {.reader = {.hub = true, .met = true, .rank = 1, .size = 2}};
    const struct dt_frame frame = {.type = DT_FRAME_GATHER, .index = 1, .count = 2, .bytes = BYTES};
    int fd[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    sender.fd = fd[0];
    receiver.fd = fd[1];
    for (int i = 0; i < BYTES; i++)
        payload[i] = (char)(i % 251);
    CHECK(dt_link_send(&sender, &frame, payload) && dt_link_send(&sender, &frame, payload));
    CHECK(dt_link_receive(&receiver), "the connection is there");
    for (int i = 0; i < 2; i++) {
        struct dt_frame got;
        const char *data = NULL;
        CHECK(dt_link_next(&receiver, &got, &data) && got.bytes == BYTES && memcmp(data, payload, BYTES) == 0, "frame %d", i);
    }
    dt_link_close(&sender);
    dt_link_close(&receiver);
}

/* ---- what goes through rank 0 ---- */

enum { NUMBERS = 40, REDUCTIONS = 10 };

/* Bytes that rank 0 has sent to the others, and that have arrived; and what it has from them. As
 * the system counts them. */
static uint64_t bytes_through_rank_0(const struct dt_rendezvous *r)
{
    uint64_t bytes = 0;
    for (int rank = 1; rank < r->size; rank++) {
        struct tcp_info info = {0};
        socklen_t length = sizeof info;
        if (getsockopt(r->links[rank].fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
            bytes += info.tcpi_bytes_acked + info.tcpi_bytes_received;
    }
    return bytes;
}

/* One gathering follows all reductions; before the second all ranks wait until rank 0 has counted
 * its bytes with all connections open. */
static void reduce_often(struct rank *rank)
{
    double mine[NUMBERS], all[2 * NUMBERS];
    char byte = 0, bytes[MOST];
    int size = rank->place.size;
    uint64_t before = rank->place.rank == 0 ? bytes_through_rank_0(rank->r) : 0;
    for (int turn = 0; turn < REDUCTIONS && rank->status == DT_OK; turn++) {
        for (int i = 0; i < NUMBERS; i++)
            mine[i] = rank->place.rank * NUMBERS + i + turn;
        keep(rank, dt_rendezvous_reduce(rank->r, &rank->all, "reduce", mine, NUMBERS, all, 20));
        for (int i = 0; i < NUMBERS; i++) {
            double sum = size * (size - 1) / 2 * NUMBERS + size * (i + turn), highest = (size - 1) * NUMBERS + i + turn;
            rank->wrong += all[i] != sum || all[NUMBERS + i] != highest;
        }
    }
    if (rank->status == DT_OK)
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "end", &byte, 1, bytes, 20));
    rank->through = rank->place.rank == 0 ? bytes_through_rank_0(rank->r) - before : 0;
    if (rank->status == DT_OK)
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "counted", &byte, 1, bytes, 20));
}

/* A rank sends its numbers once and receives sums and maxima: three times the numbers for each
 * other rank, for any number of ranks. */
static void reductions(void)
{
    struct rank ranks[MOST];
    const uint64_t frames = 3 * 64; /* what is around the numbers: at most this for each rank and reduction */
    for (int size = 2; size <= MOST; size *= 2) {
        set_up(ranks, size, free_port(), reduce_often);
        run_ranks(ranks, size, -1);
        for (int i = 0; i < size; i++)
            CHECK(ranks[i].status == DT_OK && ranks[i].wrong == 0, "rank %d: %d wrong, %s", i, ranks[i].wrong, ranks[i].text);
        uint64_t each = ranks[0].through / (uint64_t)((size - 1) * REDUCTIONS), numbers = NUMBERS * sizeof(double);
        printf("# %d ranks: %llu bytes for each other rank and reduction of %llu\n", size, (unsigned long long)each,
               (unsigned long long)numbers);
        CHECK(each >= 2 * numbers && each <= 3 * numbers + frames, "%d ranks: %llu bytes", size, (unsigned long long)each);
    }
}

enum { PIECE_BYTES = 4096 };

static void give_often(struct rank *rank)
{
    unsigned char mine[PIECE_BYTES], all[MOST * PIECE_BYTES];
    char byte = 0, bytes[MOST];
    bool first = rank->place.rank == 0;
    uint64_t before = first ? bytes_through_rank_0(rank->r) : 0;
    for (int turn = 0; turn < REDUCTIONS && rank->status == DT_OK; turn++) {
        memset(mine, 16 * rank->place.rank + turn, sizeof mine);
        keep(rank, dt_rendezvous_gather(rank->r, &rank->all, "give", mine, sizeof mine, first ? all : NULL, 20));
        for (int i = 0; first && i < rank->place.size * PIECE_BYTES; i++)
            rank->wrong += all[i] != 16 * (i / PIECE_BYTES) + turn;
    }
    if (rank->status == DT_OK)
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "end", &byte, 1, bytes, 20));
    rank->through = first ? bytes_through_rank_0(rank->r) - before : 0;
    if (rank->status == DT_OK)
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "counted", &byte, 1, bytes, 20));
}

/* A piece goes to rank 0, and nothing of the others' comes back. */
static void pieces_for_rank_0(void)
{
    struct rank ranks[MOST];
    set_up(ranks, MOST, free_port(), give_often);
    run_ranks(ranks, MOST, -1);
    for (int i = 0; i < MOST; i++)
        CHECK(ranks[i].status == DT_OK && ranks[i].wrong == 0, "rank %d: %d wrong, %s", i, ranks[i].wrong, ranks[i].text);
    uint64_t each = ranks[0].through / (uint64_t)((MOST - 1) * REDUCTIONS);
    CHECK(each >= PIECE_BYTES / 2 /* some may have come before rank 0 looked */ && each <= PIECE_BYTES + 3 * 64, "%llu bytes",
          (unsigned long long)each);
}

/* A rank that ends well waits for the others' goodbye, and for none if there are no others. */
static void leaving(void)
{
    struct rank ranks[MOST];
    for (int size = 1; size <= 3; size++) {
        set_up(ranks, size, free_port(), NULL);
        double start = dt_clock_s();
        run_ranks(ranks, size, -1);
        CHECK(dt_clock_s() - start < 4.5, "%d ranks took %g s", size, dt_clock_s() - start); /* a goodbye is waited for for 5 s */
        for (int i = 0; i < size; i++)
            CHECK(ranks[i].status == DT_OK, "%s", ranks[i].text);
    }
}

/* ---- who does not come, or should not ---- */

static void a_rank_never_comes(void)
{
    struct rank ranks[MOST];
    set_up(ranks, 4, free_port(), NULL);
    for (int i = 0; i < 4; i++)
        ranks[i].place.timeout_s = 1.5; /* the others come within it, on a busy machine too */
    run_ranks(ranks, 4, 2);
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        expect(&ranks[i], DT_ERR_TIMEOUT, "rank 2 of 4 did not reach this machine's port");
        CHECK(ranks[i].took_s < 10, "%g s", ranks[i].took_s);
    }
    printf("# %s\n", ranks[1].text);
    set_up(ranks, 3, free_port(), NULL);
    for (int i = 0; i < 3; i++)
        ranks[i].place.timeout_s = 0.3;
    run_ranks(ranks, 3, 0);
    expect(&ranks[2], DT_ERR_TIMEOUT, "rank 0 of 3 was not at this machine's port");
    printf("# %s\n", ranks[2].text);
}

/* A rank that comes after rank 0 has refused another one finds nobody, until its time is over. */
static void set_up_briefly(struct rank *ranks, int size)
{
    set_up(ranks, size, free_port(), NULL);
    for (int i = 0; i < size; i++)
        ranks[i].place.timeout_s = 5;
}

static void ranks_that_disagree(void)
{
    struct rank ranks[MOST];
    set_up_briefly(ranks, 2);
    ranks[1].place.size = 3;
    run_ranks(ranks, 2, -1);
    expect(&ranks[0], DT_ERR_WORLD, "rank 1 expects 3 ranks, and rank 0 expects 2");
    expect(&ranks[1], DT_ERR_WORLD, "rank 1 expects 3 ranks, and rank 0 expects 2");
    set_up_briefly(ranks, 3);
    ranks[2].place.rank = 1;
    run_ranks(ranks, 3, -1);
    expect(&ranks[0], DT_ERR_WORLD, "two of 3 processes have rank 1");
    const int outside[] = {-1, 3};
    for (int i = 0; i < 2; i++) {
        set_up_briefly(ranks, 3);
        ranks[2].place.rank = outside[i];
        run_ranks(ranks, 3, -1);
        expect(&ranks[0], DT_ERR_WORLD,
               outside[i] < 0 ? "has rank -1 of 3, out of range: ranks are 0 to 2" : "has rank 3 of 3, out of range");
    }
}

/* Connections before the ranks': one sends nonsense, one sends nothing, one closes at once. */
static void *disturb(void *context)
{
    const char *words =
        "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: a stranger that says more than a rank does before it is let in\r\n";
    struct sockaddr_in a;
    int fd[3];
    for (int i = 0; i < 3; i++) {
        fd[i] = socket_on(*(int *)context, &a);
        while (connect(fd[i], (struct sockaddr *)&a, sizeof a) != 0)
            dt_sleep_ms(5);
    }
    if (write(fd[0], words, strlen(words)) < 0)
        perror("stranger");
    close(fd[2]);
    dt_sleep_ms(400);
    close(fd[0]);
    close(fd[1]);
    return NULL;
}

struct talker {
    int fd, connections;
};

/* Another kind of server, until its socket is shut down. It sends more bytes than rank 0 would. */
static void *talk_like_http(void *context)
{
    struct talker *talker = context;
    const char *words = "HTTP/1.1 400 Bad Request\r\nServer: another\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (;;) {
        int there = accept(talker->fd, NULL, NULL);
        if (there < 0)
            return NULL;
        talker->connections++;
        if (write(there, words, strlen(words)) < 0)
            perror("stranger");
        close(there);
    }
}

static void strangers(void)
{
    struct rank ranks[MOST];
    pthread_t stranger, first;
    int port = free_port();
    set_up(ranks, 3, port, gather_often);
    for (int i = 0; i < 3; i++)
        ranks[i].part = NULL;
    if (pthread_create(&first, NULL, run_rank, &ranks[0]) != 0 || pthread_create(&stranger, NULL, disturb, &port) != 0)
        abort();
    AWAIT(is_listened_at(port));
    dt_sleep_ms(150); /* the strangers first; in the other order it works as well */
    run_ranks(ranks + 1, 2, -1);
    pthread_join(first, NULL);
    pthread_join(stranger, NULL);
    for (int i = 0; i < 3; i++)
        expect(&ranks[i], DT_OK, "");

    /* The other way round: a rank meets a program that talks something else. */
    struct sockaddr_in a;
    port = free_port();
    int yes = 1, fd = socket_on(port, &a);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 4) == 0);
    set_up(ranks, 2, port, NULL);
    if (pthread_create(&first, NULL, run_rank, &ranks[1]) != 0)
        abort();
    struct talker talker = {.fd = fd};
    if (pthread_create(&stranger, NULL, talk_like_http, &talker) != 0)
        abort();
    pthread_join(first, NULL);
    shutdown(fd, SHUT_RDWR);
    pthread_join(stranger, NULL);
    close(fd);
    expect(&ranks[1], DT_ERR_WORLD, "is not dtbench's rank 0, and answers \"HTTP/1.1 400 Bad Request\": set MASTER_PORT");
    CHECK(talker.connections > 1 && ranks[1].took_s > 2 && ranks[1].took_s < 15, "%d connections, %g s", talker.connections,
          ranks[1].took_s); /* rank 0 waits as long for its port */
}

static void two_jobs_on_one_port(void)
{
    struct rank first_job[MOST], second_job[MOST];
    pthread_t first;
    int port = free_port();
    set_up(first_job, 2, port, NULL);
    set_up(second_job, 2, port, NULL);
    for (int i = 0; i < 2; i++)
        second_job[i].place.secret = &theirs;
    if (pthread_create(&first, NULL, run_rank, &first_job[0]) != 0)
        abort();
    AWAIT(is_listened_at(port));
    run_ranks(second_job, 2, -1);
    run_ranks(first_job, 2, 0);
    pthread_join(first, NULL);
    expect(&second_job[0], DT_ERR_WORLD, "port is in use");
    expect(&second_job[1], DT_ERR_WORLD, "another job's ranks connect at");
    expect(&first_job[0], DT_OK, "");
    expect(&first_job[1], DT_OK, "");
    printf("# %s\n# %s\n", second_job[0].text, second_job[1].text);

    set_up(second_job, 2, port, NULL);
    second_job[1].place.secret = &theirs;
    second_job[0].place.timeout_s = second_job[1].place.timeout_s = 1.5;
    run_ranks(second_job, 2, -1);
    expect(&second_job[0], DT_ERR_TIMEOUT, "did not prove to know this job's secret");
}

static bool tell_progress(void *context, uint64_t group, struct dt_rendezvous_progress *out)
{
    const struct rank *rank = context;
    *out = (struct dt_rendezvous_progress){.called = 100 + (uint64_t)rank->place.rank, .finished = group};
    return rank->place.rank != 2; /* who has left the group knows nothing */
}

static void ask(struct rank *rank)
{
    struct dt_rendezvous_progress progress[MOST];
    bool answered[MOST];
    char byte = 0, all[MOST];
    dt_rendezvous_on_ask(rank->r, tell_progress, rank);
    keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "begin", &byte, 1, all, 5));
    if (rank->place.rank != 3)
        dt_rendezvous_ask(rank->r, &rank->all, 1, progress, answered);
    for (int i = 0; i < rank->place.size && rank->place.rank != 3; i++)
        rank->wrong += answered[i] != (i != 2) || (answered[i] && progress[i].called != 100 + (uint64_t)i);
    if (rank->status == DT_OK)
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "end", &byte, 1, all, 5));
}

static void questions(void)
{
    struct rank ranks[MOST];
    set_up(ranks, 4, free_port(), ask);
    run_ranks(ranks, 4, -1);
    for (int i = 0; i < 4; i++)
        CHECK(ranks[i].status == DT_OK && ranks[i].wrong == 0, "rank %d: %d wrong, %s", i, ranks[i].wrong, ranks[i].text);
}

static void names(void)
{
    bool chosen[20] = {[3] = true};
    char text[200] = "";
    dt_rendezvous_name_ranks(chosen, 20, text, sizeof text);
    CHECK(strcmp(text, "rank 3") == 0, "%s", text);
    chosen[5] = chosen[6] = true;
    text[0] = 0;
    dt_rendezvous_name_ranks(chosen, 20, text, sizeof text);
    CHECK(strcmp(text, "ranks 3, 5 and 6") == 0, "%s", text);
    memset(chosen, true, sizeof chosen);
    text[0] = 0;
    dt_rendezvous_name_ranks(chosen, 20, text, sizeof text);
    CHECK(strstr(text, "14, 15 and 4 more"), "%s", text);
}

static const struct test_case cases[] = {
    {"a port of this machine alone", local_ports},
    {"an address of elsewhere", an_address_of_elsewhere},
    {"gatherings, of all and of halves", gatherings},
    {"reductions cost rank 0 as much for each rank, however many there are", reductions},
    {"what rank 0 alone gets goes to nobody else", pieces_for_rank_0},
    {"leaving", leaving},
    {"a rank that never comes is named", a_rank_never_comes},
    {"ranks that disagree", ranks_that_disagree},
    {"strangers", strangers},
    {"two jobs on one port", two_jobs_on_one_port},
    {"long frames", long_frames},
    {"questions", questions},
    {"names of ranks", names},
};

TEST_MAIN(cases)
