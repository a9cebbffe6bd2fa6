/* Threads that leave signals to the main thread: they start with all signals blocked, and so do the
 * threads that they start. */
#ifndef LIB_BASE_THREADS_H
#define LIB_BASE_THREADS_H

#include <pthread.h>

/* 0, or an error number, as pthread_create. */
int dt_thread_start(pthread_t *thread, void *(*work)(void *context), void *context);

/* Run work(context) on `count` threads, or on as many as can be started; this thread is one of them. Returns when all are done. */
void dt_threads_run(int count, void *(*work)(void *context), void *context);

#endif
