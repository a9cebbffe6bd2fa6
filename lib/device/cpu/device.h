/* Functions of the cpu device that only cpu backends (cpu kernels, the MPI communicator) may
 * use. */
#pragma once

#include "lib/device/device.h"

/* Work for a stream's thread. `arguments` points to the stream's own copy. */
typedef dt_status (*dt_cpu_task)(void *arguments);

/* Queue `task` on `stream` with a copy of `arguments` (at most DT_CPU_ARGUMENT_BYTES; shallow).
 * `label` is a string literal. Queues; blocks only while the queue (4096 entries) is full. The
 * stream's thread has its OpenMP team set to dt_cpu_threads. */
enum { DT_CPU_ARGUMENT_BYTES = 256 };
dt_status dt_cpu_submit(struct dt_stream *stream, const char *label, dt_cpu_task task, const void *arguments, size_t arguments_bytes);

/* Declare, before the first message is queued, that `stream` exchanges messages with single peers
 * (send, receive). Its tasks may then wait for a peer that waits for another stream of this rank;
 * so reuse of memory must not add waits between streams: memory freed on `stream` is given to other
 * streams only after the free has been passed. */
void dt_cpu_stream_exchanges(struct dt_stream *stream);

/* Threads that one kernel on this device may use. */
int dt_cpu_threads(const struct dt_device *device);
