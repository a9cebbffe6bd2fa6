#include "lib/base/threads.h"

#include <signal.h>

enum { MOST_THREADS = 64 };

int dt_thread_start(pthread_t *thread, void *(*work)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, work, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void dt_threads_run(int count, void *(*work)(void *context), void *context)
{
    pthread_t threads[MOST_THREADS];
    int started = 0;
    while (started + 1 < count && started < MOST_THREADS && dt_thread_start(&threads[started], work, context) == 0)
        started++;
    work(context);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
