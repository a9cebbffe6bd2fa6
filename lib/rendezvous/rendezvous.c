/* A rank's own side: the thread that serves its connections, and its waits. */
#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/rendezvous/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* How long rank 0 waits for the other ranks to leave, and a timed-out rank for the answer which
 * ranks are missing. */
static const double leave_s = 5, answer_s = 1;

/* ---- what arrives ---- */

static void send_to_hub(struct dt_rendezvous *r, const struct dt_frame *frame, const void *payload)
{
    if (r->rank == 0) {
        dt_rendezvous_hub_handle(r, 0, frame, payload);
        return;
    }
    pthread_mutex_lock(&r->sending);
    dt_link_send(&r->links[0], frame, payload); /* the thread detects a failed link as closed */
    pthread_mutex_unlock(&r->sending);
}

void dt_rendezvous_handle(struct dt_rendezvous *r, const struct dt_frame *frame, const char *payload)
{
    struct dt_frame state;
    struct dt_rendezvous_progress progress;
    switch ((enum dt_frame_type)frame->type) {
    case DT_FRAME_LEFT: dt_rendezvous_set_state(r, (int)frame->index, DT_LINK_LEFT, DT_FRAME_FINE); break;
    case DT_FRAME_LOST: dt_rendezvous_set_state(r, (int)frame->index, DT_LINK_LOST, (enum dt_frame_fault)frame->count); break;
    case DT_FRAME_ASK:
        if (dt_rendezvous_own_state(r, frame, &state, &progress))
            send_to_hub(r, &state, &progress);
        break;
    case DT_FRAME_FAILED: dt_rendezvous_keep_failure(r, frame, payload); break;
    case DT_FRAME_WELCOME:
    case DT_FRAME_REFUSED:
    case DT_FRAME_MET:
    case DT_FRAME_GATHER:
    case DT_FRAME_GATHERED:
    case DT_FRAME_DIFFERENT:
    case DT_FRAME_WITHDRAW:
    case DT_FRAME_MISSING:
    case DT_FRAME_GOODBYE:
    case DT_FRAME_STATE:
    case DT_FRAME_REDUCE:
    case DT_FRAME_GIVE:
    case DT_FRAME_TYPES: dt_rendezvous_deliver(r, frame, payload); break;
    }
}

/* Read the frames of one connection, and its end. */
static void read_link(struct dt_rendezvous *r, int index)
{
    struct dt_link *link = &r->links[index];
    struct dt_frame frame;
    const char *payload;
    bool open = dt_link_receive(link), left = false;
    while (!left && dt_link_next(link, &frame, &payload)) {
        left = frame.type == DT_FRAME_GOODBYE;
        if (r->rank != 0)
            dt_rendezvous_handle(r, &frame, payload);
        else if (!left)
            dt_rendezvous_hub_handle(r, index, &frame, payload);
    }
    enum dt_frame_fault fault = link->fault;
    if (open && !left && !fault)
        return;
    if (r->rank == 0) {
        dt_rendezvous_hub_lose(r, index, left ? DT_LINK_LEFT : DT_LINK_LOST, fault);
        return;
    }
    pthread_mutex_lock(&r->sending);
    dt_link_close(link);
    pthread_mutex_unlock(&r->sending);
    dt_rendezvous_set_state(r, 0, atomic_load(&r->leaving) ? DT_LINK_LEFT : DT_LINK_LOST, fault);
}

/* At rank 0: send data that other ranks have not read yet, as they read on; a rank that reads no
 * more is lost. */
static void move_outgoing(struct dt_rendezvous *r, int index)
{
    pthread_mutex_lock(&r->sending);
    struct dt_link *link = &r->links[index];
    bool open = link->fd < 0 || dt_link_move(link);
    enum dt_frame_fault fault = link->fault;
    pthread_mutex_unlock(&r->sending);
    if (!open)
        dt_rendezvous_hub_lose(r, index, DT_LINK_LOST, fault);
}

/* Set the events to poll on each connection; returns true if data is still to be sent. */
static bool prepare_polls(struct dt_rendezvous *r, struct pollfd *polls, int count)
{
    bool keeps = false;
    pthread_mutex_lock(&r->sending);
    for (int i = 0; i < count; i++) {
        keeps |= r->links[i].outgoing != NULL;
        polls[i] = (struct pollfd){.fd = r->links[i].fd, .events = POLLIN | (r->links[i].outgoing ? POLLOUT : 0)};
    }
    pthread_mutex_unlock(&r->sending);
    return keeps;
}

static void *look_after_links(void *context)
{
    struct dt_rendezvous *r = context;
    int count = r->rank == 0 ? r->size : 1;
    DT_FREED struct pollfd *polls = calloc((size_t)count + 1, sizeof *polls);
    for (int i = 0; i < count; i++) /* frames that arrived together with the meeting's last frame */
        if (r->links[i].fd >= 0)
            read_link(r, i);
    while (polls) {
        uint64_t wakes;
        bool keeps = prepare_polls(r, polls, count);
        polls[count] = (struct pollfd){.fd = r->wake_fd, .events = POLLIN};
        if (poll(polls, (nfds_t)count + 1, keeps ? 1000 : -1) < 0 && errno != EINTR)
            break;
        if (polls[count].revents && (read(r->wake_fd, &wakes, sizeof wakes) != sizeof wakes || atomic_load(&r->ending)))
            break;
        for (int i = 0; i < count; i++) {
            if (polls[i].fd >= 0 && polls[i].revents & ~POLLOUT)
                read_link(r, i);
            if (polls[i].events & POLLOUT)
                move_outgoing(r, i);
        }
    }
    return NULL;
}

/* ---- waiting ---- */

/* Wait until something changes, or 0.1 s, so that a flag set by a signal handler is noticed;
 * `mutex` is held. */
static void wait_a_moment(struct dt_rendezvous *r)
{
    struct timespec until = dt_clock_timespec(dt_deadline_ns(0.1));
    pthread_cond_timedwait(&r->changed, &r->mutex, &until);
}

/* Remove and return the first letter of these types for group and sequence; `mutex` is held. */
static struct letter *take(struct dt_rendezvous *r, uint64_t group, uint64_t sequence, unsigned types)
{
    for (struct letter **link = &r->letters; *link; link = &(*link)->next) {
        struct letter *letter = *link;
        if (letter->frame.group == group && letter->frame.sequence == sequence && (1u << letter->frame.type & types)) {
            *link = letter->next;
            return letter;
        }
    }
    return NULL;
}

static int gone(const struct dt_rendezvous *r, const struct dt_rendezvous_group *group, bool left)
{
    int first = -1;
    for (int i = 0; i < group->size; i++) {
        int rank = group->ranks[i];
        bool counts = r->states[rank] == DT_LINK_LOST || (left && r->states[rank] == DT_LINK_LEFT);
        if (counts && (first < 0 || r->turns[rank] < r->turns[group->ranks[first]]))
            first = i;
    }
    return first;
}

int dt_rendezvous_gone(struct dt_rendezvous *r, const struct dt_rendezvous_group *group, bool left)
{
    pthread_mutex_lock(&r->mutex);
    int index = gone(r, group, left);
    pthread_mutex_unlock(&r->mutex);
    return index;
}

const char *dt_rendezvous_how_gone(struct dt_rendezvous *r, const struct dt_rendezvous_group *group, int index)
{
    pthread_mutex_lock(&r->mutex);
    const char *how = dt_frame_fault_text(r->faults[group->ranks[index]]);
    pthread_mutex_unlock(&r->mutex);
    return how;
}

/* The error of a wait that timed out, with rank 0's answer which ranks are missing (NULL: no
 * answer). */
static dt_status timed_out(const struct dt_rendezvous_group *group, const char *what, const struct letter *letter, double timeout_s)
{
    char names[512] = "";
    DT_FREED bool *missing = letter && letter->frame.bytes == (uint64_t)group->size ? calloc((size_t)group->size, sizeof *missing) : NULL;
    for (int i = 0; missing && i < group->size; i++)
        missing[i] = letter->payload[i] != 0;
    if (missing)
        dt_rendezvous_name_ranks(missing, group->size, names, sizeof names);
    return dt_fail(DT_ERR_TIMEOUT, "%s: waited %g s for %s", what, timeout_s,
                   *names ? names : "the others; rank 0 of the world did not answer for whom");
}

/* The error that ends a wait without an answer; DT_OK: none. `mutex` is held. */
static dt_status check_wait(const struct dt_rendezvous *r, const struct dt_rendezvous_group *group, const char *what)
{
    int index = gone(r, group, true);
    if (atomic_load(&r->interrupted))
        return dt_fail(DT_ERR_COMM, "%s: given up, as asked or because another operation failed", what);
    if (r->failure)
        return dt_fail((dt_status)(-(int)r->failure->frame.count), "%s: rank %u of the world gave up: %.*s", what, r->failure->frame.index,
                       (int)r->failure->frame.bytes, r->failure->payload);
    if (index >= 0)
        return dt_fail(DT_ERR_COMM, "%s: rank %d is gone: %s", what, index,
                       r->states[group->ranks[index]] == DT_LINK_LEFT ? "it has left"
                                                                      : dt_frame_fault_text(r->faults[group->ranks[index]]));
    if (r->states[0] != DT_LINK_HERE)
        return dt_fail(DT_ERR_COMM, "%s: the world's rank 0, through which all ranks talk, is gone: %s", what,
                       dt_frame_fault_text(r->faults[0]));
    return DT_OK;
}

/* Give rank 0 a piece, and wait for the combined result: all [all_bytes]. type: DT_FRAME_GATHER,
 * DT_FRAME_REDUCE or DT_FRAME_GIVE. */
static dt_status collect(struct dt_rendezvous *r, struct dt_rendezvous_group *group, enum dt_frame_type type, const char *what,
                         const void *mine, size_t bytes, void *all, size_t all_bytes, double timeout_s)
{
    struct dt_frame frame = {.type = type,
                             .index = (uint32_t)group->rank,
                             .count = (uint32_t)group->size,
                             .group = group->id,
                             .sequence = group->gatherings++,
                             .bytes = bytes};
    const struct dt_frame withdraw = {.type = DT_FRAME_WITHDRAW, .group = group->id, .sequence = frame.sequence};
    const unsigned types = 1u << DT_FRAME_GATHERED | 1u << DT_FRAME_DIFFERENT | 1u << DT_FRAME_MISSING;
    int64_t end_ns = dt_deadline_ns(timeout_s);
    dt_status status = DT_OK;
    bool late = false;
    DT_FREED struct letter *letter = NULL;
    send_to_hub(r, &frame, mine);
    pthread_mutex_lock(&r->mutex);
    for (;;) {
        letter = take(r, group->id, frame.sequence, types);
        if (letter)
            break;
        status = check_wait(r, group, what);
        if (status < 0)
            break;
        wait_a_moment(r);
        if (!dt_deadline_passed(end_ns))
            continue;
        if (late)
            break;
        late = true;
        end_ns += (int64_t)(answer_s * 1e9);
        pthread_mutex_unlock(&r->mutex);
        send_to_hub(r, &withdraw, NULL);
        pthread_mutex_lock(&r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
    bool fits = letter && letter->frame.type == DT_FRAME_GATHERED && letter->frame.bytes == all_bytes;
    if (fits && all_bytes > 0)
        memcpy(all, letter->payload, all_bytes);
    else if (fits)
        status = DT_OK;
    else if (letter && letter->frame.type == DT_FRAME_GATHERED)
        status = dt_fail(DT_ERR_COMM, "%s: the world's rank 0 answered with %llu bytes instead of %zu", what,
                         (unsigned long long)letter->frame.bytes, all_bytes);
    else if (letter && letter->frame.type == DT_FRAME_DIFFERENT)
        status = dt_fail(DT_ERR_COMM, "%s: the ranks call different operations, or with different counts", what);
    else if (status == DT_OK)
        status = timed_out(group, what, letter, timeout_s);
    return status;
}

static dt_status check_bytes(const struct dt_rendezvous_group *group, const char *what, size_t bytes)
{
    if (bytes > DT_FRAME_PIECE_BYTES || (uint64_t)group->size * bytes > UINT64_C(1) << DT_FRAME_GATHERED_BYTES_LOG2)
        return dt_fail(DT_ERR_INVALID, "%s: %d ranks with %zu bytes each are more than a rendezvous passes on", what, group->size, bytes);
    return DT_OK;
}

dt_status dt_rendezvous_gather(struct dt_rendezvous *r, struct dt_rendezvous_group *group, const char *what, const void *mine, size_t bytes,
                               void *all, double timeout_s)
{
    DT_TRY(check_bytes(group, what, bytes));
    return collect(r, group, DT_FRAME_GIVE, what, mine, bytes, all, group->rank == 0 ? (size_t)group->size * bytes : 0, timeout_s);
}

dt_status dt_rendezvous_all_gather(struct dt_rendezvous *r, struct dt_rendezvous_group *group, const char *what, const void *mine,
                                   size_t bytes, void *all, double timeout_s)
{
    DT_TRY(check_bytes(group, what, bytes));
    return collect(r, group, DT_FRAME_GATHER, what, mine, bytes, all, (size_t)group->size * bytes, timeout_s);
}

dt_status dt_rendezvous_reduce(struct dt_rendezvous *r, struct dt_rendezvous_group *group, const char *what, const double *mine,
                               size_t count, double *sums_and_highest, double timeout_s)
{
    size_t bytes = count * sizeof *mine;
    if (count == 0 || bytes > DT_FRAME_REDUCED_BYTES)
        return dt_fail(DT_ERR_INVALID, "%s: %zu numbers cannot be reduced at once", what, count);
    return collect(r, group, DT_FRAME_REDUCE, what, mine, bytes, sums_and_highest, 2 * bytes, timeout_s);
}

void dt_rendezvous_on_ask(struct dt_rendezvous *r, dt_rendezvous_answer *answer, void *context)
{
    pthread_mutex_lock(&r->mutex);
    r->answer = answer;
    r->answer_context = context;
    pthread_mutex_unlock(&r->mutex);
}

void dt_rendezvous_ask(struct dt_rendezvous *r, const struct dt_rendezvous_group *group, double wait_s,
                       struct dt_rendezvous_progress *progress, bool *answered)
{
    struct dt_frame frame = {.type = DT_FRAME_ASK, .index = (uint32_t)r->rank, .group = group->id};
    int64_t end_ns = dt_deadline_ns(wait_s);
    int missing = group->size;
    memset(answered, 0, (size_t)group->size * sizeof *answered);
    pthread_mutex_lock(&r->mutex);
    frame.sequence = ++r->questions;
    r->open_group = group->id;
    r->question_open = true;
    pthread_mutex_unlock(&r->mutex);
    send_to_hub(r, &frame, NULL);
    pthread_mutex_lock(&r->mutex);
    while (missing > 0 && !dt_deadline_passed(end_ns)) {
        struct letter *letter = take(r, group->id, frame.sequence, 1u << DT_FRAME_STATE);
        if (!letter) {
            wait_a_moment(r);
            continue;
        }
        for (int i = 0; i < group->size; i++) {
            if (group->ranks[i] == (int)letter->frame.count && !answered[i]) {
                memcpy(&progress[i], letter->payload, sizeof *progress);
                answered[i] = true;
                missing--;
            }
        }
        free(letter);
    }
    r->question_open = false;
    pthread_mutex_unlock(&r->mutex);
}

void dt_rendezvous_tell(struct dt_rendezvous *r, dt_status status, const char *text)
{
    struct dt_frame frame = {
        .type = DT_FRAME_FAILED, .index = (uint32_t)r->rank, .count = (uint32_t)-(int)status, .bytes = strnlen(text, 800)};
    send_to_hub(r, &frame, text);
}

bool dt_rendezvous_heard(struct dt_rendezvous *r, int *rank, dt_status *status, char *text, size_t text_bytes)
{
    pthread_mutex_lock(&r->mutex);
    const struct letter *failure = r->failure;
    if (failure) {
        *rank = (int)failure->frame.index;
        *status = (dt_status)(-(int)failure->frame.count);
        snprintf(text, text_bytes, "%.*s", (int)failure->frame.bytes, failure->payload);
    }
    pthread_mutex_unlock(&r->mutex);
    return failure != NULL;
}

void dt_rendezvous_interrupt(struct dt_rendezvous *r)
{
    atomic_store(&r->interrupted, true); /* waits check this every 0.1 s: no lock, since a signal handler may call this function */
}

/* ---- making and ending ---- */

static void init(struct dt_rendezvous *r)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_mutex_init(&r->sending, NULL);
    pthread_mutex_init(&r->routing, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* The reader of link i: at rank 0 it connects to rank i, on other ranks to rank 0. */
static struct dt_frame_reader reader_of(const struct dt_rendezvous_place *place, int i)
{
    bool hub = place->rank == 0;
    return (struct dt_frame_reader){.hub = hub, .rank = (uint32_t)(hub ? i : place->rank), .size = (uint32_t)place->size};
}

static dt_status start_thread(struct dt_rendezvous *r)
{
    r->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (r->wake_fd < 0)
        return dt_fail(DT_ERR_IO, "no eventfd for the ranks' connections: %s", strerror(errno));
    int error = dt_thread_start(&r->thread, look_after_links, r);
    r->thread_runs = error == 0;
    return error == 0 ? DT_OK : dt_fail(DT_ERR_IO, "no thread for the ranks' connections: %s", strerror(error));
}

static void stop_thread(struct dt_rendezvous *r)
{
    const uint64_t one = 1;
    atomic_store(&r->ending, true);
    if (r->thread_runs && write(r->wake_fd, &one, sizeof one) == sizeof one)
        pthread_join(r->thread, NULL);
    r->thread_runs = false;
    if (r->wake_fd >= 0)
        close(r->wake_fd);
}

dt_status dt_rendezvous_create(const struct dt_rendezvous_place *place, struct dt_rendezvous **out)
{
    struct dt_rendezvous *r = calloc(1, sizeof *r);
    int links = place->rank == 0 ? place->size : 1;
    *out = NULL;
    DT_TRY(dt_allocated(r, "no host memory for the rendezvous of %d ranks", place->size));
    init(r);
    r->rank = place->rank;
    r->size = place->size;
    r->wake_fd = -1;
    r->states = calloc((size_t)place->size, sizeof *r->states);
    r->faults = calloc((size_t)place->size, sizeof *r->faults);
    r->turns = calloc((size_t)place->size, sizeof *r->turns);
    r->links = calloc((size_t)links, sizeof *r->links);
    for (int i = 0; r->links && i < links; i++)
        r->links[i] = (struct dt_link){.fd = -1, .reader = reader_of(place, i)};
    dt_status status =
        dt_allocated(r->states && r->faults && r->turns && r->links, "no host memory for the rendezvous of %d ranks", place->size);
    DT_THEN(status, place->rank == 0 ? dt_rendezvous_listen(r, place) : dt_rendezvous_connect(r, place));
    for (int i = 0; status == DT_OK && i < links; i++)
        r->links[i].reader.met = true;
    DT_THEN(status, start_thread(r));
    if (status < 0)
        dt_rendezvous_destroy(r, false);
    else
        *out = r;
    return status;
}

/* Rank 0 leaves last: after the others have said goodbye, or are gone. The others leave once rank 0
 * has received their goodbye and closed. */
static void take_leave(struct dt_rendezvous *r)
{
    struct dt_frame goodbye = {.type = DT_FRAME_GOODBYE};
    int64_t end_ns = dt_deadline_ns(leave_s);
    atomic_store(&r->leaving, true);
    if (r->rank != 0)
        send_to_hub(r, &goodbye, NULL);
    pthread_mutex_lock(&r->mutex);
    for (;;) {
        int here = 0;
        for (int rank = 0; rank < r->size; rank++)
            here += (r->rank == 0) == (rank > 0) && r->states[rank] == DT_LINK_HERE;
        if (here == 0 || dt_deadline_passed(end_ns))
            break;
        wait_a_moment(r);
    }
    pthread_mutex_unlock(&r->mutex);
}

/* Send rank 0's last messages, such as why it gave up, to the ranks that read. */
static void finish_sending(struct dt_rendezvous *r)
{
    int64_t end_ns = dt_deadline_ns(answer_s);
    for (bool keeps = true; keeps && !dt_deadline_passed(end_ns);) {
        keeps = false;
        pthread_mutex_lock(&r->sending);
        for (int i = 0; i < r->size; i++)
            keeps |= r->links[i].outgoing != NULL;
        pthread_mutex_unlock(&r->sending);
        if (keeps)
            dt_sleep_ms(5);
    }
}

void dt_rendezvous_destroy(struct dt_rendezvous *r, bool well)
{
    if (!r)
        return;
    if (well && r->thread_runs)
        take_leave(r);
    if (r->rank == 0 && r->thread_runs)
        finish_sending(r);
    stop_thread(r);
    for (int i = 0; r->links && i < (r->rank == 0 ? r->size : 1); i++)
        dt_link_close(&r->links[i]);
    if (r->rank == 0)
        dt_rendezvous_hub_finish(r);
    for (struct letter *letter = r->letters, *next; letter; letter = next) {
        next = letter->next;
        free(letter);
    }
    free(r->failure);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    pthread_mutex_destroy(&r->sending);
    pthread_mutex_destroy(&r->routing);
    free(r->states);
    free(r->faults);
    free(r->turns);
    free(r->links);
    free(r);
}
