/* This machine: what the operating system says of it, how much of it this process may use, and how threads that are more than its processors
 * wait for each other. */
#ifndef LIB_BASE_MACHINE_H
#define LIB_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DT_PROCESSORS_MOST = 8192 };

struct dt_processors {
    uint64_t words[DT_PROCESSORS_MOST / 64]; /* a bit each */
};

/* The affinity of a process; 0: this one. Empty where it is unknown. */
void dt_processors_of(pid_t process, struct dt_processors *out);
void dt_processors_add(struct dt_processors *set, const struct dt_processors *more);
int dt_processors_count(const struct dt_processors *set);

/* Seconds since the machine's start that the processors of a set were not idle, all of them together: they worked for somebody, or the
 * hypervisor gave them to another machine. In steps of a clock tick, 0.01 s. NAN where the file does not say it. path: "/proc/stat", but
 * in tests. */
double dt_processors_busy_s(const char *path, const struct dt_processors *set);

/* The processor's own name ("Intel(R) Xeon(R) ..."); "unknown processor" where /proc/cpuinfo has none. */
void dt_machine_processor_name(char *out, size_t out_bytes);

/* Processors that this process may run on: its affinity, or a container's quota of processor time, rounded up, where that is less. At
 * least 1. */
int dt_machine_processors(void);
/* The same of those in a set. */
int dt_machine_processors_among(const struct dt_processors *set);

/* Physical memory, or what a container allows where that is less. */
uint64_t dt_machine_memory_bytes(void);

/* Limits by control groups, version 1 or 2, the least of a group and its ancestors; UINT64_MAX where there is none. */
struct dt_group_limits {
    uint64_t memory_bytes, processors;
};

/* The two paths are /proc/self/cgroup and /sys/fs/cgroup, but in tests. */
void dt_machine_group_limits(const char *membership_path, const char *root, struct dt_group_limits *out);

/* Threads of each of `ranks` that share the processors: as many as are wanted, or, where that is 0, the rank's share, at least 1. */
int dt_threads_of_rank(int wanted, int ranks, int processors);

/* Are all their threads together more than the processors? */
bool dt_crowded(int wanted, int ranks, int processors);

/* OpenMP's threads ask again and again whether the others are there. Where there are more threads than processors, they take the
 * processors from those that they wait for. With this variable they sleep. OpenMP reads it once, as a program starts. */
#define DT_WAITING_NAME "OMP_WAIT_POLICY"
#define DT_WAITING_PASSIVE "passive"
/* Has the user set how threads wait, by this variable or another? */
bool dt_waiting_is_set(void);

#endif
