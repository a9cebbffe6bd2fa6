/* What the operating system says of this machine, and how much of it this process may use. */
#ifndef LIB_BASE_MACHINE_H
#define LIB_BASE_MACHINE_H

#include "lib/base/processors.h"

#include <stddef.h>
#include <stdint.h>

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

#endif
