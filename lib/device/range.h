/* Named ranges of the host's time, for profilers (Nsight Systems): they show what the host is
 * queueing. Without a profiler they cost next to nothing; in builds without NVTX they do nothing.
 * Ranges nest, by thread.
 * Source  NVIDIA Tools Extension (NVTX) 3, nvToolsExt.h. */
#pragma once

/* Begin a range "NAME NUMBER", or "NAME" if number is below 0. */
void dt_range_push(const char *name, int number);
void dt_range_pop(void);
