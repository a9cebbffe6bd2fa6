/* The asynchronous work of an emulated block: Hopper's copies of boxes into shared memory with
 * their barriers, and the products of warpgroups (gpt/cuda/wgmma.cuh). It follows the PTX ISA, and
 * knows nothing of the kernels that use it.
 *
 * A box's place in shared memory is full of 0xFF from the call on, and has the data when no thread
 * can run any more, or a little earlier. A product is computed from what its operands are when it
 * is called; accumulators are NaN until it was waited for, and then it is an error if they, the
 * left operand's registers or what it read of shared memory have changed in the meantime. */
#pragma once

#include "test/cuda_emulator/simt/simt.h"

namespace simt {

/* ---- for device code, by way of gpt/cuda/wgmma.cuh ---- */

uint32_t shared_address(const void *at);

void barrier_init(uint64_t *barrier, int count);
void barrier_init_fence();
void barrier_arrive(uint64_t *barrier, int expected_bytes);
void barrier_wait(uint64_t *barrier, int parity);

/* The contents of a CUtensorMap here, with up to 4 dimensions. */
struct tensor_map {
    uint32_t magic, element_bytes, span, rank; /* span: bytes that are swizzled among themselves; 0: not at all */
    const unsigned char *from;
    uint64_t stride[4]; /* bytes */
    uint32_t size[4];
    uint32_t box[4];
};
enum : uint32_t { TENSOR_MAP_MAGIC = 0x7e4507a9 };
void copy_box(void *to, const void *map, uint64_t *barrier, const int (&at)[4]);

/* d [64, n] = a [64, 16] * b [16, n] (+ d): one lane's part of it. */
struct product {
    float *d;
    int n;
    bool accumulate;
    const uint32_t *a; /* registers; NULL: a_descriptor, K-major */
    uint64_t a_descriptor, b_descriptor;
    bool n_major;             /* b; else K-major */
    float (*value)(uint16_t); /* of an element's bits */
};
void warpgroup_product(const product &own);
void warpgroup_fence();
void warpgroup_commit();
void warpgroup_wait(int groups_left);
void warpgroup_registers(int count);

/* ---- for the executor ---- */

/* A block of this kernel begins, whose dynamic shared memory has addresses from first to end - 1. */
void background_begin(unsigned char *window, size_t first, size_t end, const char *kernel);
size_t background_copies();                  /* that are under way */
void background_copy(size_t which);          /* one of them is done */
const char *background_returned(int thread); /* NULL or what it had under way */
std::string background_end();                /* "" or what is wrong with the block */

} // namespace simt
