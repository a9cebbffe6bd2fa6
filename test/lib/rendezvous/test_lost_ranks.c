/* What goes wrong after the ranks have met: pieces that are late or different, and ranks that leave,
 * die or do not read. A rank that has to die is a process. */
#include "test/lib/rendezvous/ranks.h"

#include <signal.h>
#include <sys/wait.h>

/* Counts parts of ranks that have come so far; each case begins with 0. */
static atomic_int arrived;

static void gather_without_last(struct rank *rank)
{
    char byte = 0, all[MOST];
    if (rank->place.rank == rank->place.size - 1)
        AWAIT(atomic_load(&arrived) == rank->place.size - 1); /* it must not be gone before the others have given up */
    else
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "metrics", &byte, 1, all, 1));
    atomic_fetch_add(&arrived, 1);
    rank->well = false;
}

static void gather_different(struct rank *rank)
{
    char bytes[8] = {0}, all[MOST * 8];
    keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "metrics", bytes, rank->place.rank == 1 ? 4 : 8, all, 5));
}

static _Atomic(struct dt_rendezvous *) hub; /* rank 0's */

/* How many pieces of the open gathering have reached rank 0; -1: there is no rank 0 yet. */
static int pieces_at_hub(void)
{
    struct dt_rendezvous *r = atomic_load(&hub);
    if (!r)
        return -1;
    pthread_mutex_lock(&r->mutex);
    int count = 0;
    for (int i = 0; r->gatherings && i < r->gatherings->count; i++)
        count += r->gatherings->ranks[i] >= 0;
    pthread_mutex_unlock(&r->mutex);
    return count;
}

/* Rank 2 takes part in a gathering that rank 1 has begun for two. */
static void gather_of_two(struct rank *rank)
{
    char byte = 0, all[MOST];
    int me = rank->place.rank;
    struct dt_rendezvous_group group = {.id = 7, .ranks = rank->world, .size = me < 2 ? 2 : 3, .rank = me};
    if (me == 0)
        atomic_store(&hub, rank->r);
    if (me != 1)
        AWAIT(pieces_at_hub() == 1);
    atomic_fetch_add(&arrived, me == 2);
    if (me == 0) {
        AWAIT(atomic_load(&arrived) == 1);
        dt_sleep_ms(200); /* rank 2's piece comes now, and is not kept; if it comes later, it waits alone, and ends in the same way */
    }
    keep(rank, dt_rendezvous_all_gather(rank->r, &group, "metrics", &byte, 1, all, 20));
    rank->well = me < 2;
}

static void one_too_many(void)
{
    struct rank ranks[MOST];
    atomic_store(&arrived, 0);
    set_up(ranks, 3, free_port(), gather_of_two);
    run_ranks(ranks, 3, -1);
    for (int i = 0; i < 2; i++)
        expect(&ranks[i], DT_OK, "");
    expect(&ranks[2], DT_ERR_COMM, "metrics: rank 1 is gone: it has left");
}

static void late_and_different(void)
{
    struct rank ranks[MOST];
    atomic_store(&arrived, 0);
    set_up(ranks, 4, free_port(), gather_without_last);
    run_ranks(ranks, 4, -1);
    for (int i = 0; i < 3; i++)
        expect(&ranks[i], DT_ERR_TIMEOUT, "metrics: waited 1 s for rank 3");
    set_up(ranks, 3, free_port(), gather_different);
    run_ranks(ranks, 3, -1);
    for (int i = 0; i < 3; i++)
        expect(&ranks[i], DT_ERR_COMM, "different");
}

static void gather_until_somebody_is_gone(struct rank *rank)
{
    char byte = 0, all[MOST];
    for (; rank->status == DT_OK; atomic_fetch_add(&arrived, 1))
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "loop", &byte, 1, all, 20));
    rank->wrong = dt_rendezvous_gone(rank->r, &rank->all, false);
    rank->well = false;
}

/* Rank `who` is a process, and is killed. */
static void death_of(int who)
{
    struct rank ranks[MOST];
    atomic_store(&arrived, 0);
    set_up(ranks, 4, free_port(), gather_until_somebody_is_gone);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_rank(&ranks[who]);
        _exit(0);
    }
    pthread_t threads[MOST];
    for (int i = 0; i < 4; i++)
        if (i != who && pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0)
            abort();
    AWAIT(atomic_load(&arrived) >= 100);
    kill(child, SIGKILL);
    double killed = dt_clock_s();
    for (int i = 0; i < 4; i++)
        if (i != who)
            pthread_join(threads[i], NULL);
    CHECK(dt_clock_s() - killed < 10, "%g s", dt_clock_s() - killed); /* a gathering would wait for 20 s */
    waitpid(child, NULL, 0);
    for (int i = 0; i < 4; i++) {
        char want[40];
        snprintf(want, sizeof want, "rank %d is gone", who);
        if (i != who) {
            expect(&ranks[i], DT_ERR_COMM, want);
            CHECK(ranks[i].wrong == who, "%d", ranks[i].wrong);
        }
    }
}

static void deaths(void)
{
    death_of(2);
    death_of(0);
}

static void leave_early(struct rank *rank)
{
    char byte = 0, all[MOST];
    struct dt_rendezvous_group pair = {.id = 9, .ranks = (const int[]){0, 1}, .size = 2, .rank = rank->place.rank};
    if (rank->place.rank == 2)
        return;
    AWAIT(dt_rendezvous_gone(rank->r, &rank->all, true) >= 0);
    rank->wrong = 100 * (dt_rendezvous_gone(rank->r, &rank->all, false) + 1) + dt_rendezvous_gone(rank->r, &rank->all, true) - 2;
    keep(rank, dt_rendezvous_all_gather(rank->r, &pair, "pair", &byte, 1, all, 5));
    if (rank->status == DT_OK)
        keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "all", &byte, 1, all, 5));
}

static void wait_a_little(struct rank *rank)
{
    dt_sleep_ms(300);
}

static void leaves(void)
{
    struct rank ranks[MOST];
    set_up(ranks, 3, free_port(), leave_early);
    run_ranks(ranks, 3, -1);
    expect(&ranks[0], DT_ERR_COMM, "all: rank 2 is gone: it has left");
    expect(&ranks[1], DT_ERR_COMM, "all: rank 2 is gone: it has left");
    CHECK(!ranks[0].wrong && !ranks[1].wrong, "%d %d; %d: %s", ranks[0].wrong, ranks[1].wrong, ranks[2].status, ranks[2].text);

    set_up(ranks, 3, free_port(), wait_a_little); /* in no order, all well */
    run_ranks(ranks, 3, -1);
    CHECK(ranks[0].took_s < 4.5, "%g s", ranks[0].took_s); /* a goodbye is waited for for 5 s */
}

/* The last rank gives its piece of a gathering that no buffer of the system takes, and reads no
 * answer: the others go on at once. */
static void gather_beside_a_deaf_one(struct rank *rank)
{
    enum { BYTES = 2 << 20 }; /* four of them are more than what is kept for a reader that does not read */
    struct dt_rendezvous_group three = {.id = 9, .ranks = (const int[]){0, 1, 2}, .size = 3, .rank = rank->place.rank};
    char byte = 0, few[3], *mine = calloc(1, BYTES), *all = malloc((size_t)4 * BYTES);
    const struct dt_frame frame = {.type = DT_FRAME_GATHER, .index = 3, .count = 4, .sequence = rank->all.gatherings, .bytes = BYTES};
    rank->well = false;
    if (rank->place.rank == 3) {
        dt_link_send(&rank->r->links[0], &frame, mine);
        raise(SIGSTOP);
    }
    dt_sleep_ms(300);
    keep(rank, dt_rendezvous_all_gather(rank->r, &rank->all, "large", mine, BYTES, all, 20));
    double start = dt_clock_s();
    for (int i = 0; i < 3 && rank->status == DT_OK; i++)
        keep(rank, dt_rendezvous_all_gather(rank->r, &three, "small", &byte, 1, few, 20));
    rank->wrong = dt_clock_s() - start > 8;
    free(mine);
    free(all);
}

static void a_rank_that_does_not_read(void)
{
    struct rank ranks[MOST];
    set_up(ranks, 4, free_port(), gather_beside_a_deaf_one);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_rank(&ranks[3]);
        _exit(0);
    }
    run_ranks(ranks, 4, 3);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 3; i++)
        CHECK(ranks[i].status == DT_OK && !ranks[i].wrong, "rank %d: %s%s", i, ranks[i].text, ranks[i].wrong ? "it waited" : "");
}

static const struct test_case cases[] = {
    {"late and different pieces", late_and_different},
    {"one too many", one_too_many},
    {"a rank that is killed is named", deaths},
    {"leaving in order", leaves},
    {"a rank that does not read keeps nobody waiting", a_rank_that_does_not_read},
};

TEST_MAIN(cases)
