#include "test/cuda_emulator/simt/background.h"

#include <cstdlib>
#include <cstring>
#include <map>

namespace simt {
namespace {

enum { LANES = 32, ROWS_OF_WARP = 16, DEPTH = 16 };
enum : uint64_t { BARRIER_MAGIC = 0xba441e4ba441e400 }; /* what a barrier's 8 bytes are here */
enum : uint32_t { POISON = 0xFFFFFFFF };

struct barrier {
    int count, pending;
    int64_t bytes;   /* expected, and not yet come */
    unsigned phases; /* that are over */
    int owner;       /* the thread that initialised it */
    bool fenced;
};

struct box_copy {
    unsigned char *to;
    tensor_map map;
    int at[4];
    uint64_t *arrives_at;
};

struct accumulator {
    float *d;
    bool accumulated;
    std::vector<float> value;
    unsigned group; /* of its last product */
};

struct left_operand {
    const uint32_t *a;
    uint32_t copy[4];
    unsigned group;
};

struct lane_state {
    bool fenced = false;
    std::vector<accumulator> accumulators; /* of products under way */
    std::vector<left_operand> left;
};

/* A matrix in shared memory, and its elements' bits when the product was called. */
struct shared_operand {
    uint64_t descriptor;
    bool n_major;
    int first, count; /* rows of a, columns of b */
    std::vector<uint16_t> copy;
    unsigned group;
};

struct warp_state {
    unsigned groups = 0, waited = 0; /* committed; over */
    bool open = false;               /* products since the last commit */
    uint64_t history = 0;            /* the same in all warps of a warpgroup in the end */
    std::vector<shared_operand> operands;
};

struct block_state {
    unsigned char *window = nullptr;
    size_t first = 0, end = 0;
    bool used = false, wrong = false; /* wrong: its products are not what they are on a GPU */
    std::map<uint64_t *, barrier> barriers;
    std::vector<box_copy> copies;
    std::vector<lane_state> lanes;
    std::vector<warp_state> warps;

    lane_state &lane_of(int thread)
    {
        used = true;
        if (lanes.size() <= (size_t)thread)
            lanes.resize((size_t)thread + 1);
        return lanes[(size_t)thread];
    }
    warp_state &warp_of(int thread)
    {
        if (warps.size() <= (size_t)(thread / LANES / 4 * 4 + 3))
            warps.resize((size_t)(thread / LANES / 4 * 4 + 4));
        return warps[(size_t)(thread / LANES)];
    }
};

thread_local block_state block;

/* Bits 4 on of an address are those, exclusive or bits 7 on: as many as it takes to count the
 * pieces of 16 bytes in a span. */
uint32_t swizzled(uint32_t address, uint32_t span)
{
    return span ? address ^ ((address >> 7 & (span / 16 - 1)) << 4) : address;
}

unsigned char *shared_at(uint32_t address, size_t bytes)
{
    if (address < block.first || address + bytes > block.end)
        complain("reads or writes shared memory at " + std::to_string(address) + ", which is not the block's");
    return block.window + address;
}

/* ---- barriers ---- */

barrier &barrier_at(uint64_t *at)
{
    auto found = block.barriers.find(at);
    if (found == block.barriers.end())
        complain("uses a barrier in shared memory that was not initialised");
    if (*at != BARRIER_MAGIC)
        complain("uses a barrier in shared memory that something was written over");
    return found->second;
}

void settle(uint64_t *at, barrier &b)
{
    if (b.pending > 0 || b.bytes != 0)
        return;
    b.pending = b.count;
    b.phases++;
    wake(at);
}

/* ---- products ---- */

uint32_t span_of(uint64_t descriptor)
{
    static const uint32_t spans[] = {0, 128, 64, 32};
    return spans[descriptor >> 62];
}

/* The bits of a [count, 16], from row `first`, or of b [16, count] by columns. */
void read_matrix(const shared_operand &m, std::vector<uint16_t> &to)
{
    uint32_t span = span_of(m.descriptor), start = (uint32_t)(m.descriptor & 0x3FFF) << 4;
    uint32_t leading = (uint32_t)(m.descriptor >> 16 & 0x3FFF) << 4, stride = (uint32_t)(m.descriptor >> 32 & 0x3FFF) << 4;
    if (span == 0)
        complain("gives a product a descriptor without swizzling, which is not emulated");
    if ((m.descriptor & 0x3FF1C000C000C000) != 0 || (m.descriptor >> 49 & 7) != 0)
        complain("gives a product a descriptor with a base offset, or with bits that have no meaning");
    uint32_t into_row = start % (8 * span);
    if (m.n_major ? into_row != 0 : into_row + DEPTH * 2 > span)
        complain("gives a product a matrix that does not begin in the first of eight rows, or does not end there");
    to.resize((size_t)m.count * DEPTH);
    uint32_t across = span / 2; /* columns in a row of memory, of N-major */
    for (int i = 0; i < m.count; i++)
        for (uint32_t k = 0; k < DEPTH; k++) {
            uint32_t mn = (uint32_t)(m.first + i);
            uint32_t offset = m.n_major ? mn % across * 2 + mn / across * leading + k % 8 * span + k / 8 * stride
                                        : mn % 8 * span + mn / 8 * stride + k * 2;
            memcpy(&to[(size_t)i * DEPTH + k], shared_at(swizzled(start + offset, span), 2), 2);
        }
}

const uint16_t *add_operand(warp_state &warp, uint64_t descriptor, bool n_major, int first, int count)
{
    warp.operands.push_back({descriptor, n_major, first, count, {}, warp.groups});
    read_matrix(warp.operands.back(), warp.operands.back().copy);
    return warp.operands.back().copy.data();
}

/* This lane's accumulators, which are the product's from here on. */
std::vector<float> &claim(lane_state &lane, const product &own, unsigned group)
{
    if (!lane.fenced)
        complain("calls a product of a warpgroup without a fence since it last waited");
    for (accumulator &a : lane.accumulators)
        if (a.d == own.d) {
            if ((int)a.value.size() != own.n / 2)
                complain("calls products of different shapes that have the same accumulators");
            if (!own.accumulate)
                complain("calls a product that overwrites the accumulators of one that is under way");
            a.group = group;
            return a.value;
        }
    lane.accumulators.push_back({own.d, own.accumulate, std::vector<float>((size_t)own.n / 2), group});
    std::vector<float> &value = lane.accumulators.back().value;
    if (own.accumulate)
        memcpy(value.data(), own.d, value.size() * sizeof(float));
    memset(own.d, 0xFF, value.size() * sizeof(float));
    return value;
}

void mix(warp_state &warp, uint64_t what)
{
    warp.history = (warp.history ^ what) * 0x9E3779B97F4A7C15u;
    warp.history ^= warp.history >> 29;
}

void multiply(void *const of_lane[LANES])
{
    const product &own = *(const product *)of_lane[0];
    int base = running_thread() / LANES * LANES, row_of_group = base / LANES % 4 * ROWS_OF_WARP;
    warp_state &warp = block.warp_of(base);
    mix(warp, own.b_descriptor);
    mix(warp, own.a ? 1 : own.a_descriptor);
    mix(warp, (uint64_t)own.n * 8 + own.n_major * 4 + (own.a != nullptr) * 2 + own.accumulate);
    warp.open = true;
    float left[ROWS_OF_WARP][DEPTH];
    if (!own.a) {
        const uint16_t *bits = add_operand(warp, own.a_descriptor, false, row_of_group, ROWS_OF_WARP);
        for (int i = 0; i < ROWS_OF_WARP * DEPTH; i++)
            left[i / DEPTH][i % DEPTH] = own.value(bits[i]);
    }
    std::vector<std::vector<float> *> sums;
    for (int l = 0; l < LANES; l++) {
        const product &of = *(const product *)of_lane[l];
        if (of.b_descriptor != own.b_descriptor || of.a_descriptor != own.a_descriptor)
            complain("gives a product other descriptors than its warp");
        lane_state &lane = block.lane_of(base + l);
        sums.push_back(&claim(lane, of, warp.groups));
        if (!of.a)
            continue;
        left_operand a = {of.a, {of.a[0], of.a[1], of.a[2], of.a[3]}, warp.groups};
        for (int i = 0; i < 8; i++)
            left[l / 4 + i / 2 % 2 * 8][l % 4 * 2 + i % 2 + i / 4 * 8] = own.value((uint16_t)(a.copy[i / 2] >> i % 2 * 16));
        lane.left.push_back(a);
    }
    std::vector<float> right((size_t)(DEPTH * own.n)), result((size_t)own.n);
    const uint16_t *bits = add_operand(warp, own.b_descriptor, own.n_major, 0, own.n);
    for (int i = 0; i < own.n * DEPTH; i++)
        right[(size_t)(i % DEPTH * own.n + i / DEPTH)] = own.value(bits[i]);
    for (int row = 0; row < ROWS_OF_WARP; row++) {
        memset(result.data(), 0, result.size() * sizeof(float));
        for (int k = 0; k < DEPTH; k++)
            for (int column = 0; column < own.n; column++)
                result[(size_t)column] += left[row][k] * right[(size_t)(k * own.n + column)];
        result[0] += block.wrong ? 1 : 0;
        for (int column = 0; column < own.n; column++)
            (*sums[(size_t)(row % 8 * 4 + column % 8 / 2)])[(size_t)(column / 8 * 4 + row / 8 * 2 + column % 2)] += result[(size_t)column];
    }
}

void fence(void *const[LANES])
{
    int base = running_thread() / LANES * LANES;
    for (int l = 0; l < LANES; l++)
        block.lane_of(base + l).fenced = true;
}

void commit(void *const[LANES])
{
    warp_state &warp = block.warp_of(running_thread());
    warp.groups++;
    warp.open = false;
}

uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

void finish_lane(lane_state &lane, unsigned over)
{
    lane.fenced = false;
    for (size_t i = lane.accumulators.size(); i-- > 0;) {
        accumulator &a = lane.accumulators[i];
        if (a.group >= over)
            continue;
        for (size_t e = 0; e < a.value.size(); e++)
            if (bits_of(a.d[e]) != POISON)
                complain("wrote to accumulators before it had waited for their product");
        memcpy(a.d, a.value.data(), a.value.size() * sizeof(float));
        lane.accumulators.erase(lane.accumulators.begin() + (ptrdiff_t)i);
    }
    for (size_t i = lane.left.size(); i-- > 0;) {
        if (lane.left[i].group >= over)
            continue;
        if (memcmp(lane.left[i].a, lane.left[i].copy, sizeof lane.left[i].copy) != 0)
            complain("wrote to the registers of a left operand before it had waited for the product");
        lane.left.erase(lane.left.begin() + (ptrdiff_t)i);
    }
}

void wait(void *const of_lane[LANES])
{
    int base = running_thread() / LANES * LANES;
    warp_state &warp = block.warp_of(base);
    unsigned left = *(const unsigned *)of_lane[0], over = warp.groups > left ? warp.groups - left : 0;
    std::vector<uint16_t> now;
    for (size_t i = warp.operands.size(); i-- > 0;) {
        if (warp.operands[i].group >= over)
            continue;
        read_matrix(warp.operands[i], now);
        if (now != warp.operands[i].copy)
            complain("an operand in shared memory has changed before its product was waited for");
        warp.operands.erase(warp.operands.begin() + (ptrdiff_t)i);
    }
    for (int l = 0; l < LANES; l++)
        finish_lane(block.lane_of(base + l), over);
}

} // namespace

uint32_t shared_address(const void *at)
{
    ptrdiff_t offset = (const unsigned char *)at - block.window;
    if (offset < (ptrdiff_t)block.first || offset > (ptrdiff_t)block.end)
        complain("takes the shared memory's address of something that is not in dynamic shared memory");
    return (uint32_t)offset;
}

void barrier_init(uint64_t *at, int count)
{
    if (shared_address(at) % 8 != 0 || count < 1 || count >= 1 << 20)
        complain("initialises a barrier that is not 8-byte aligned, or of no or too many arrivals");
    block.used = true;
    *at = BARRIER_MAGIC;
    block.barriers[at] = {count, count, 0, 0, running_thread(), false};
}

void barrier_init_fence()
{
    for (auto &b : block.barriers)
        b.second.fenced |= b.second.owner == running_thread();
}

void barrier_arrive(uint64_t *at, int expected_bytes)
{
    barrier &b = barrier_at(at);
    b.bytes += expected_bytes;
    b.pending--;
    if (b.bytes >= 1 << 20)
        complain("expects more bytes than a barrier can count");
    settle(at, b);
}

void barrier_wait(uint64_t *at, int parity)
{
    while ((int)(barrier_at(at).phases & 1) == (parity & 1))
        sleep_on(at);
}

void copy_box(void *to, const void *of, uint64_t *at, const int (&where)[4])
{
    tensor_map map;
    memcpy(&map, of, sizeof map);
    if (map.magic != TENSOR_MAP_MAGIC || map.rank != 4)
        complain("copies a box by what is no map of a tensor, or of another number of dimensions");
    if (!barrier_at(at).fenced)
        complain("copies a box with a barrier whose initialisation was not fenced");
    size_t bytes = map.element_bytes;
    for (uint32_t size : map.box)
        bytes *= size;
    uint32_t address = shared_address(to);
    if (address % 128 != 0)
        complain("copies a box to an address that is not a multiple of 128");
    memset(shared_at(address, bytes), 0xFF, bytes);
    block.copies.push_back({(unsigned char *)to, map, {where[0], where[1], where[2], where[3]}, at});
}

void warpgroup_product(const product &own)
{
    warp_meets(warp_call::warpgroup_product, (void *)&own, multiply);
}

void warpgroup_fence()
{
    warp_meets(warp_call::warpgroup_fence, nullptr, fence);
}

void warpgroup_commit()
{
    warp_meets(warp_call::warpgroup_commit, nullptr, commit);
}

void warpgroup_wait(int groups_left)
{
    unsigned left = (unsigned)groups_left;
    warp_meets(warp_call::warpgroup_wait, &left, wait);
}

void warpgroup_registers(int count)
{
    if (count < 24 || count > 256 || count % 8 != 0)
        complain("asks for " + std::to_string(count) + " registers: 24 to 256, in eights");
    static const auto note = [](void *const of_lane[LANES]) { mix(block.warp_of(running_thread()), *(const unsigned *)of_lane[0]); };
    unsigned own = (unsigned)count;
    block.used = true;
    warp_meets(warp_call::registers, &own, note);
}

void background_begin(unsigned char *window, size_t first, size_t end, const char *kernel)
{
    const char *wrong = getenv("DTBENCH_EMULATED_WRONG_PRODUCTS");
    if (block.used)
        block = {};
    block.wrong = wrong && strcmp(wrong, kernel) == 0;
    block.window = window;
    block.first = first;
    block.end = end;
}

size_t background_copies()
{
    return block.copies.size();
}

void background_copy(size_t which)
{
    box_copy copy = block.copies[which];
    const tensor_map &map = copy.map;
    block.copies.erase(block.copies.begin() + (ptrdiff_t)which);
    uint32_t address = (uint32_t)(copy.to - block.window), offset = 0;
    for (uint32_t w = 0; w < map.box[3]; w++)
        for (uint32_t z = 0; z < map.box[2]; z++)
            for (uint32_t y = 0; y < map.box[1]; y++)
                for (uint32_t x = 0; x < map.box[0]; x++, offset += map.element_bytes) {
                    int64_t at[4] = {copy.at[0] + (int64_t)x, copy.at[1] + (int64_t)y, copy.at[2] + (int64_t)z, copy.at[3] + (int64_t)w};
                    const unsigned char *from = map.from;
                    for (int i = 0; i < 4; i++) {
                        if (at[i] < 0 || at[i] >= map.size[i])
                            from = nullptr;
                        if (from)
                            from += (uint64_t)at[i] * map.stride[i];
                    }
                    unsigned char *to = block.window + swizzled(address + offset, map.span);
                    if (from)
                        memcpy(to, from, map.element_bytes);
                    else
                        memset(to, 0, map.element_bytes);
                }
    barrier &b = block.barriers[copy.arrives_at];
    b.bytes -= (int64_t)offset;
    settle(copy.arrives_at, b);
}

const char *background_returned(int thread)
{
    if (block.lanes.size() <= (size_t)thread)
        return nullptr;
    return block.lanes[(size_t)thread].accumulators.empty() ? nullptr : "returned while products of its warpgroup were under way";
}

std::string background_end()
{
    if (!block.copies.empty())
        return "ended while copies to its shared memory were under way";
    for (size_t w = 0; w < block.warps.size(); w++)
        if (block.warps[w].history != block.warps[w / 4 * 4].history)
            return "warps " + std::to_string(w / 4 * 4) + " and " + std::to_string(w) +
                   " are of one warpgroup and called different products";
    return "";
}

} // namespace simt
