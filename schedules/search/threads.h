/* The same work on several threads. */
#ifndef SCHEDULES_SEARCH_THREADS_H
#define SCHEDULES_SEARCH_THREADS_H

/* Run work(context) on `wanted` threads, or on as many as processors may be used where that is 0, or on as many as can be started; this
 * thread is one of them. Returns when all are done. */
void threads_run(int wanted, void *(*work)(void *context), void *context);

#endif
