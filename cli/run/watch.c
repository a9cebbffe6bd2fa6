#include "cli/run/watch.h"

#include "lib/base/clock.h"

#include <signal.h>

/* The mutex stays locked while `overdue` runs. */
static void *keep_watch(void *context)
{
    struct watch *watch = context;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->ended) {
        struct timespec deadline = dt_clock_timespec(watch->deadline_ns);
        if (dt_deadline_passed(watch->deadline_ns))
            watch->overdue(watch->context);
        else if (watch->deadline_ns)
            pthread_cond_timedwait(&watch->changed, &watch->mutex, &deadline);
        else
            pthread_cond_wait(&watch->changed, &watch->mutex);
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

void watch_begin(struct watch *watch, void (*overdue)(void *context), void *context)
{
    sigset_t all, before;
    pthread_condattr_t monotonic;
    *watch = (struct watch){.overdue = overdue, .context = context};
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all); /* signals are the main thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch->running = pthread_create(&watch->thread, NULL, keep_watch, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void watch_limit(struct watch *watch, double seconds)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->deadline_ns = dt_deadline_ns(seconds);
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

void watch_end(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->ended = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    if (watch->running)
        pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
}
