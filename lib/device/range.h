/* Named ranges of the host's time, for profilers that listen (Nsight Systems): what the host is queueing. Without one they cost next to
 * nothing; in builds without NVTX they do nothing. Ranges nest, by thread.
 * Source  NVIDIA Tools Extension (NVTX) 3, nvToolsExt.h. */
#ifndef LIB_DEVICE_RANGE_H
#define LIB_DEVICE_RANGE_H

/* Begin "NAME NUMBER", or NAME alone where number is below 0. */
void dt_range_push(const char *name, int number);
void dt_range_pop(void);

#endif
