/* Runs CUDA kernels on a CPU, thread for thread, so that a machine without a GPU finds their
 * mistakes. Nothing of it is about speed.
 *
 * A grid runs block after block on the host thread that calls simt::run (the emulated stream's).
 * Each thread of a block has a fiber and runs until it waits for others (__syncthreads, __syncwarp,
 * shuffles, votes) or returns; who runs next is drawn at random, with one warp far ahead and one
 * behind, and so is the order of the blocks. A missing barrier shows as a wrong result with most
 * seeds; a barrier that cannot be passed is reported, not waited for. Shared memory is full of NaN
 * (0xFF) when a block starts. */
#pragma once

#include "vector_types.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace simt {

/* ---- for whoever launches ---- */

struct grid {
    const char *name; /* the kernel's, for error texts */
    dim3 blocks, threads;
    size_t shared_bytes;          /* dynamic */
    const void *kernel = nullptr; /* whose earlier grids say what shared memory it uses; nullptr: one that has never run */
};

/* What a GPU of compute capability 8.0 would refuse; "" when nothing. */
std::string refusal(const grid &grid);

/* Calls `kernel` once per CUDA thread, and returns when all have returned. "" or what went wrong:
 * kernel, block, thread and seed; the rest of the grid is then not run. The seed is the
 * environment's DTBENCH_SIMT_SEED (1 when unset). */
std::string run(const grid &grid, const std::function<void()> &kernel);

/* ---- for device code, by way of device_side.h ---- */

/* All of a block's threads that have not returned. */
void sync_threads();

enum class warp_call {
    sync,
    shuffle,
    vote,
    product,
    matrices,
    warpgroup_product,
    warpgroup_fence,
    warpgroup_commit,
    warpgroup_wait,
    registers
};

struct warp_result {
    uint64_t bits;    /* of the lane asked for; poison (0xFF..) when that lane takes no part */
    unsigned votes;   /* lanes that gave odd bits */
    unsigned present; /* lanes that took part: those of the mask that have not returned */
};

/* Gives `bits` to the warp, waits for all lanes of `mask` that have not returned, and takes those
 * of lane `source`. The caller must be in the mask, and all of the mask must make the same call
 * with the same mask. */
warp_result warp_exchange(warp_call call, unsigned mask, uint64_t bits, int source);

/* For all 32 lanes: when the last of them calls, together(of_lane) is called once, where of_lane[l]
 * is what lane l gave; then all go on. */
void warp_meets(warp_call call, void *own, void (*together)(void *const of_lane[32]));

int lane();
int running_thread(); /* its number in the block */

/* The calling thread waits until another one, or something in the background, wakes all who sleep
 * on `what`. */
void sleep_on(const void *what);
void wake(const void *what);

/* The kernel has a mistake: this thread ends here, and simt::run with this text. */
[[noreturn]] void complain(const std::string &what);
void *dynamic_shared();

/* Copies of the calling thread that go on in the background (gpt/cuda/mma.cuh): here they are done
 * when they are waited for, so that a wait left out shows. */
struct pending_copy {
    void *to;
    const void *from; /* NULL: zeros */
    unsigned bytes;
};
void copy_add(const pending_copy &copy);
void copy_commit();              /* those added since the last commit become a group */
void copy_wait(int groups_left); /* does all groups but the newest `groups_left` */

/* ---- shared_poison.cpp ---- */

/* The static shared variables of all kernels (thread-local ones inside functions) are full of 0xFF,
 * on each host thread, where no block runs. A kernel uses few of them: `used`, kept for each
 * kernel, has those that an earlier block of it wrote, and they are filled again after each block.
 * `search`: look at all others too, fill those that were written, and note them in `used`: after
 * each block of a kernel's first grid, and then after some grids, since a branch may be taken
 * late. */
void poison_static_shared(std::vector<int> &used, bool search);

} // namespace simt

extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;
extern __thread bool simt_has_waited; /* a kernel that was launched on this thread, for those before it */
