/* Takes the place of gpt/cuda/wgmma.cuh: the same functions, carried out by simt/background.cpp. */
#pragma once

#include "cuda.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "device_side.h"
#include "test/cuda_emulator/simt/background.h"

namespace gpt_cuda {

using simt::barrier_init;
using simt::barrier_init_fence;
using simt::barrier_wait;
using simt::shared_address;

inline void barrier_arrive(uint64_t *barrier)
{
    simt::barrier_arrive(barrier, 0);
}

inline void barrier_expect(uint64_t *barrier, int bytes)
{
    simt::barrier_arrive(barrier, bytes);
}

inline void copy_box(void *to, const CUtensorMap *map, uint64_t *barrier, int x, int y, int z, int w)
{
    simt::copy_box(to, map, barrier, {x, y, z, w});
}

template <int COUNT> inline void registers_give()
{
    simt::warpgroup_registers(COUNT);
}

template <int COUNT> inline void registers_take()
{
    simt::warpgroup_registers(COUNT);
}

template <typename... R> inline void wgmma_fence(R &...)
{
    simt::warpgroup_fence();
}

inline void wgmma_commit()
{
    simt::warpgroup_commit();
}

template <int PENDING, typename... R> inline void wgmma_wait(R &...)
{
    simt::warpgroup_wait(PENDING);
}

template <typename E> float emulated_value(uint16_t bits)
{
    E element;
    element.bits = bits;
    return (float)element;
}

template <typename E, int N> inline void wgmma_shared(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)
{
    simt::warpgroup_product({&d[0][0], N, accumulate, nullptr, a, b, false, emulated_value<E>});
}

template <typename E, int N> inline void wgmma_shared_n_major(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)
{
    simt::warpgroup_product({&d[0][0], N, accumulate, nullptr, a, b, true, emulated_value<E>});
}

template <typename E, int N> inline void wgmma_registers(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b)
{
    simt::warpgroup_product({&d[0][0], N, true, a, 0, b, true, emulated_value<E>});
}

} // namespace gpt_cuda
