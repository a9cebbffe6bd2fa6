/* The processors of this machine that processes may run on, and how busy these are. */
#ifndef LIB_BASE_PROCESSORS_H
#define LIB_BASE_PROCESSORS_H

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

/* Seconds since the machine's start that the processors of a set were not idle, all of them together: they worked for somebody, or the hypervisor gave
 * them to another machine. In steps of a clock tick, 0.01 s. NAN where the file does not say it. path: "/proc/stat", but in tests. */
double dt_processors_busy_s(const char *path, const struct dt_processors *set);

#endif
