/* Received data: letters that this process's waits take, the states of the ranks, and the first
 * failure of another rank. */
#include "lib/rendezvous/internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct dt_rendezvous_progress) == DT_FRAME_STATE_BYTES, "a frame has exactly this many");

static struct letter *letter_of(const struct dt_frame *frame, const void *payload)
{
    struct letter *letter = malloc(sizeof *letter + frame->bytes);
    if (!letter)
        return NULL;
    *letter = (struct letter){.frame = *frame};
    if (frame->bytes)
        memcpy(letter->payload, payload, frame->bytes);
    return letter;
}

void dt_rendezvous_deliver(struct dt_rendezvous *r, const struct dt_frame *frame, const void *payload)
{
    struct letter *letter = letter_of(frame, payload);
    if (!letter)
        return; /* the wait times out */
    pthread_mutex_lock(&r->mutex);
    /* an answer that nothing waits for (any more) */
    bool stale = frame->type == DT_FRAME_STATE && (!r->question_open || frame->group != r->open_group || frame->sequence != r->questions);
    if (!stale) {
        letter->next = r->letters;
        r->letters = letter;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    if (stale)
        free(letter);
}

void dt_rendezvous_set_state(struct dt_rendezvous *r, int rank, enum dt_link_state state, enum dt_frame_fault fault)
{
    pthread_mutex_lock(&r->mutex);
    if (r->states[rank] == DT_LINK_HERE) {
        r->states[rank] = state;
        r->faults[rank] = fault;
        r->turns[rank] = ++r->last_turn;
    }
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

void dt_rendezvous_keep_failure(struct dt_rendezvous *r, const struct dt_frame *frame, const char *payload)
{
    if (frame->index == (uint32_t)r->rank)
        return;
    pthread_mutex_lock(&r->mutex);
    if (!r->failure)
        r->failure = letter_of(frame, payload);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

bool dt_rendezvous_own_state(struct dt_rendezvous *r, const struct dt_frame *ask, struct dt_frame *out,
                             struct dt_rendezvous_progress *progress)
{
    *out = (struct dt_frame){.type = DT_FRAME_STATE,
                             .index = ask->index,
                             .count = (uint32_t)r->rank,
                             .group = ask->group,
                             .sequence = ask->sequence,
                             .bytes = sizeof *progress};
    pthread_mutex_lock(&r->mutex);
    bool known = r->answer && r->answer(r->answer_context, ask->group, progress);
    pthread_mutex_unlock(&r->mutex);
    return known;
}
