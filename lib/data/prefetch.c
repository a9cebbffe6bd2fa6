#include "lib/data/prefetch.h"

#include "lib/base/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dt_prefetch {
    dt_prefetch_fill fill;
    void *context, *ahead;
    size_t bytes;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t turn;      /* the turn in the buffer, filled or to be filled */
    bool wanted, ended; /* wanted: it must be filled; ended: the thread must end */
    dt_status status;   /* of the fill */
    char error[1024];   /* its text, which belongs to the thread that failed */
};

static void fill_ahead(struct dt_prefetch *p)
{
    uint64_t turn = p->turn;
    pthread_mutex_unlock(&p->mutex);
    dt_status status = p->fill(p->context, turn, p->ahead);
    pthread_mutex_lock(&p->mutex);
    p->status = status;
    if (status < 0)
        snprintf(p->error, sizeof p->error, "%s", dt_error_message());
    p->wanted = false;
    pthread_cond_broadcast(&p->changed);
}

static void *run(void *argument)
{
    struct dt_prefetch *p = argument;
    pthread_mutex_lock(&p->mutex);
    while (!p->ended) {
        if (p->wanted)
            fill_ahead(p);
        else
            pthread_cond_wait(&p->changed, &p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

dt_status dt_prefetch_create(dt_prefetch_fill fill, void *context, void *ahead, size_t bytes, uint64_t first, struct dt_prefetch **out)
{
    struct dt_prefetch *p = *out = calloc(1, sizeof *p);
    DT_TRY(dt_allocated(p, "no host memory for a thread that reads ahead"));
    *p = (struct dt_prefetch){.fill = fill, .context = context, .ahead = ahead, .bytes = bytes, .turn = first, .wanted = true};
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (dt_thread_start(&p->thread, run, p) == 0)
        return DT_OK;
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    free(p);
    *out = NULL;
    return dt_fail(DT_ERR_HOST_MEMORY, "no thread can be started to read ahead");
}

void dt_prefetch_destroy(struct dt_prefetch *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->ended = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

/* With the mutex held. */
static void want(struct dt_prefetch *p, uint64_t turn)
{
    p->turn = turn;
    p->wanted = true;
    pthread_cond_broadcast(&p->changed);
}

static void wait_until_filled(struct dt_prefetch *p)
{
    while (p->wanted)
        pthread_cond_wait(&p->changed, &p->mutex);
}

dt_status dt_prefetch_take(struct dt_prefetch *p, uint64_t turn, void *to)
{
    pthread_mutex_lock(&p->mutex);
    wait_until_filled(p);
    if (p->turn != turn) {
        want(p, turn);
        wait_until_filled(p);
    }
    dt_status status = p->status < 0 ? dt_fail(p->status, "%s", p->error) : DT_OK;
    if (status == DT_OK)
        memcpy(to, p->ahead, p->bytes);
    if (status == DT_OK)
        want(p, turn + 1);
    pthread_mutex_unlock(&p->mutex);
    return status;
}
