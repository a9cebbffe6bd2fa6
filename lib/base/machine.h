/* This machine: its processors and memory, how much of them this process may use, and how threads
 * wait for each other if there are more of them than processors. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DT_PROCESSORS_MOST = 8192 };

struct dt_processors {
    uint64_t words[DT_PROCESSORS_MOST / 64]; /* one bit for each processor */
};

/* The affinity of a process; 0: this process. Empty if unknown. */
void dt_processors_of(pid_t process, struct dt_processors *out);
void dt_processors_add(struct dt_processors *set, const struct dt_processors *more);
int dt_processors_count(const struct dt_processors *set);

/* Seconds since the machine's start that the processors of a set were not idle, summed over
 * processors: they worked, or the hypervisor gave them to another machine. In clock ticks of 0.01
 * s. NAN if the file does not say. path: "/proc/stat", except in tests. */
double dt_processors_busy_s(const char *path, const struct dt_processors *set);

/* The processor's name ("Intel(R) Xeon(R) ..."); "unknown processor" if /proc/cpuinfo has none. */
void dt_machine_processor_name(char *out, size_t out_bytes);

/* Processors that this process may run on: its affinity, or a container's quota of processor time,
 * rounded up, if that is less. At least 1. */
int dt_machine_processors(void);
/* The same for the processors of a set. */
int dt_machine_processors_among(const struct dt_processors *set);

/* Physical memory, or a container's limit if that is less. */
uint64_t dt_machine_memory_bytes(void);

/* Limits by control groups, version 1 or 2: the lowest of a group and its ancestors; UINT64_MAX: no
 * limit. */
struct dt_group_limits {
    uint64_t memory_bytes, processors;
};

/* The two paths are /proc/self/cgroup and /sys/fs/cgroup, except in tests. */
void dt_machine_group_limits(const char *membership_path, const char *root, struct dt_group_limits *out);

/* Threads of each of `ranks` that share the processors: `wanted`, or if that is 0 the rank's share
 * of processors, at least 1. */
int dt_threads_of_rank(int wanted, int ranks, int processors);

/* Whether all ranks together have more threads than there are processors. */
bool dt_crowded(int wanted, int ranks, int processors);

/* OpenMP's threads wait actively by default. If there are more threads than processors, waiting
 * threads take processors from those that they wait for. This variable makes them sleep. OpenMP
 * reads it once, when a program starts. */
#define DT_WAITING_NAME "OMP_WAIT_POLICY"
#define DT_WAITING_PASSIVE "passive"
/* Whether the user has set how threads wait, by this or another variable. */
bool dt_waiting_is_set(void);

/* ---- threads without signals ----
 *
 * They start with all signals blocked, as do threads that they start: the main thread handles
 * signals. */

/* 0, or an error number, as pthread_create. */
int dt_thread_start(pthread_t *thread, void *(*work)(void *context), void *context);

/* Run work(context) on `count` threads, or as many as can be started, including this one. Returns
 * when all are done. */
void dt_threads_run(int count, void *(*work)(void *context), void *context);
