/* What the operating system says of this machine. */
#ifndef DT_LIB_MACHINE_H
#define DT_LIB_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* The processor's own name ("Intel(R) Xeon(R) ..."); "unknown processor" where /proc/cpuinfo does not tell. */
void dt_machine_processor_name(char *out, size_t out_bytes);

/* Processors that this process may run on, at least 1. */
int dt_machine_processors(void);

/* Physical memory, or what the process's control groups (v1 or v2, any level) allow where that is less. */
uint64_t dt_machine_memory_bytes(void);

#endif
