/* The interface of the runtime for the emulated GPU's other parts (kernels, cuBLASLt, NCCL):
 * queueing work on a stream, memory that it may access, and failures. The functions a host thread
 * calls may be called by any host thread; those for work only by work that runs. */
#pragma once

#include <cuda_runtime.h>

#include <functional>

/* Queue `work` on `stream`, or capture it: then every launch of the graph runs it again, so it must
 * carry all it needs by value. Runs on a thread of the stream, in the stream's order. `name` (a
 * string that stays) is for error texts. Errors are those of a kernel's launch: a stream of another
 * device than the current one, a broken capture, a device that has failed; also left for
 * cudaGetLastError. */
cudaError_t emulator_enqueue(cudaStream_t stream, const char *name, std::function<void()> work);

/* From work: the device has failed. Work after it is skipped, and every call returns `error` from
 * now on, as after a real fault. Prints one line on stderr: "emulated GPU: <work's name>:
 * <text>". */
void emulator_fault(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Wait for all that is queued on a device (as it sees its number); not from work. */
void emulator_drain(int device);

/* Note `error` for cudaGetLastError of this thread, and return it: for entries of emulated
 * libraries that a host thread calls. */
cudaError_t emulator_error(cudaError_t error);

/* The kind of [memory, memory + bytes): all of it in one live allocation of the device, of pinned
 * host memory, in memory that was freed or never allocated, or somewhere else (the host's own). */
enum emulator_memory { EMULATOR_HOST, EMULATOR_PINNED, EMULATOR_DEVICE, EMULATOR_DEAD };
enum emulator_memory emulator_memory_at(const void *memory, size_t bytes);
/* Live memory that kernels may touch: the device's or pinned. */
bool emulator_touchable(const void *memory, size_t bytes);

/* The dynamic shared memory that launches of `kernel` may ask for: 48 KiB, or what
 * cudaFuncSetAttribute allowed. */
size_t emulator_dynamic_shared_limit(const void *kernel);
