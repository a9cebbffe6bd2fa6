/* A limit on what a thread does inside libraries that know none: another thread sees to it.
 *
 * Open MPI may stay in a call for ever once a peer's machine is gone: its loop over events goes on as long as a dead connection has one. No
 * timeout between calls ends that. Ranks that dtbench started itself have a supervisor for it (lib/launch/launch.h), those of a launcher
 * have this. */
#ifndef CLI_RUN_WATCH_H
#define CLI_RUN_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct watch {
    pthread_t thread;
    bool running; /* the thread */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ended;
    int64_t deadline_ns;            /* 0: none */
    void (*overdue)(void *context); /* does not return */
    void *context;
};

/* From now on `overdue` is called, in another thread, when a limit has passed; it ends the process. The watched thread stops at its next call
 * of a function below then: only one of them goes on. Without memory for a thread nobody watches. */
void watch_begin(struct watch *watch, void (*overdue)(void *context), void *context);
/* Something has been done; the next thing may take this long. 0: no limit. Takes NULL. */
void watch_limit(struct watch *watch, double seconds);
void watch_end(struct watch *watch);

#endif
