#include "schedules/search/threads.h"

#include "lib/base/machine.h"

#include <pthread.h>

enum { MOST_THREADS = 64 };

void threads_run(int wanted, void *(*work)(void *context), void *context)
{
    pthread_t threads[MOST_THREADS];
    int started = 0, all = wanted > 0 ? wanted : dt_machine_processors();
    for (; started + 1 < all && started < MOST_THREADS; started++)
        if (pthread_create(&threads[started], NULL, work, context) != 0)
            break;
    work(context);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
