/* The emulated NCCL's operations. Sums are NCCL's: in the dtype itself, rounded after each
 * addition, with each rank's elements multiplied by 1 / size first for ncclAvg. They are done at
 * one place in the order of ranks, so all get the same bits. */
#include "test/cuda_emulator/libraries/nccl_parts.h"
#include "test/cuda_emulator/runtime/stream.h"

extern "C" {
#include "lib/base/dtype.h"
}

#include <cstring>

namespace emulated_nccl {

namespace {

size_t width_of(ncclDataType_t type)
{
    return type == ncclFloat32 ? 4 : 2;
}

float read(const void *from, size_t i, ncclDataType_t type)
{
    if (type == ncclFloat32)
        return ((const float *)from)[i];
    unsigned short bits = ((const unsigned short *)from)[i];
    return type == ncclFloat16 ? dt_fp16_to_fp32(bits) : dt_bf16_to_fp32(bits);
}

void write(void *to, size_t i, ncclDataType_t type, float value)
{
    if (type == ncclFloat32)
        ((float *)to)[i] = value;
    else
        ((unsigned short *)to)[i] = type == ncclFloat16 ? dt_fp32_to_fp16(value) : dt_fp32_to_bf16(value);
}

/* A rank's contribution to a sum. */
std::vector<char> contribution(const state &s, const operation &o, size_t first, size_t count)
{
    std::vector<char> out(count * width_of(o.type));
    const char *from = (const char *)o.send + first * width_of(o.type);
    if (o.op != ncclAvg) {
        memcpy(out.data(), from, out.size());
        return out;
    }
    float scratch, scale = 1.0f / (float)s.size;
    write(&scratch, 0, o.type, scale);
    scale = read(&scratch, 0, o.type);
    for (size_t i = 0; i < count; i++)
        write(out.data(), i, o.type, read(from, i, o.type) * scale);
    return out;
}

void add(std::vector<char> &sum, const std::vector<char> &more, ncclDataType_t type)
{
    for (size_t i = 0; i < sum.size() / width_of(type); i++)
        write(sum.data(), i, type, read(sum.data(), i, type) + read(more.data(), i, type));
}

class collective {
  public:
    collective(state &c, const operation &op) : s(c), o(op), width(width_of(op.type))
    {
        h = {(uint32_t)o.kind, (uint32_t)o.type, (uint32_t)o.op, o.root, o.count, ++s.collectives, o.registered};
    }

    /* Everybody's elements [first_of(owner), + count) summed at each owner; `mine` gets this
     * rank's. Only to `root` where it is one. */
    bool sum_at_owners(int root, size_t count, std::vector<char> *mine)
    {
        std::vector<transfer> moves;
        std::vector<std::vector<char>> out((size_t)s.size), in((size_t)s.size);
        for (int rank = 0; rank < s.size; rank++) {
            bool owner = root < 0 || rank == root, own = root < 0 || s.rank == root;
            size_t first = root < 0 ? (size_t)rank * count : 0;
            if (owner)
                out[(size_t)rank] = contribution(s, o, first, count);
            if (own)
                in[(size_t)rank].resize(count * width);
            if (rank != s.rank && owner)
                moves.push_back(message(rank, true, out[(size_t)rank].data(), count * width));
            if (rank != s.rank && own)
                moves.push_back(message(rank, false, in[(size_t)rank].data(), count * width));
        }
        if (!run(s, moves))
            return false;
        if (root >= 0 && s.rank != root)
            return true;
        in[(size_t)s.rank] = out[(size_t)s.rank];
        *mine = in[0];
        for (int rank = 1; rank < s.size; rank++)
            add(*mine, in[(size_t)rank], o.type);
        return true;
    }

    bool send_from(int root, const void *from, void *to, size_t bytes)
    {
        std::vector<transfer> moves;
        for (int rank = 0; rank < s.size; rank++)
            if (rank != s.rank && s.rank == root)
                moves.push_back(message(rank, true, (void *)from, bytes));
        if (s.rank != root)
            moves.push_back(message(root, false, to, bytes));
        else if (to != from)
            memmove(to, from, bytes);
        return run(s, moves);
    }

    bool gather()
    {
        std::vector<transfer> moves;
        size_t bytes = o.count * width;
        char *out = (char *)o.receive;
        if (out + (size_t)s.rank * bytes != o.send)
            memmove(out + (size_t)s.rank * bytes, o.send, bytes);
        for (int rank = 0; rank < s.size; rank++) {
            if (rank == s.rank)
                continue;
            moves.push_back(message(rank, true, out + (size_t)s.rank * bytes, bytes));
            moves.push_back(message(rank, false, out + (size_t)rank * bytes, bytes));
        }
        return run(s, moves);
    }

    bool go()
    {
        std::vector<char> mine;
        size_t bytes = o.count * width;
        switch (o.kind) {
        case kind::all_reduce: return sum_at_owners(0, o.count, &mine) && send_from(0, mine.data(), o.receive, bytes);
        case kind::reduce_scatter:
            if (!sum_at_owners(-1, o.count, &mine))
                return false;
            break;
        case kind::reduce:
            if (!sum_at_owners(o.root, o.count, &mine))
                return false;
            break;
        case kind::all_gather: return gather();
        default: return send_from(o.root, o.send, o.receive, bytes);
        }
        if (!mine.empty())
            memcpy(o.receive, mine.data(), bytes);
        return true;
    }

  private:
    transfer message(int peer, bool sending, void *data, size_t bytes) const
    {
        transfer t = {};
        t.peer = peer;
        t.sending = sending;
        t.data = data;
        t.bytes = bytes;
        t.header = h;
        return t;
    }

    state &s;
    const operation &o;
    size_t width;
    header h;
};

bool is_there(const void *memory, size_t bytes)
{
    if (emulator_touchable(memory, bytes))
        return true;
    emulator_fault(cudaErrorIllegalAddress, "%zu bytes at %p are not the device's", bytes, memory);
    return false;
}

bool memory_is_there(const state &s, const operation &o)
{
    for (const range &r : ranges_of(s, o))
        if (!is_there(r.memory, r.bytes))
            return false;
    return true;
}

} // namespace

std::vector<range> ranges_of(const state &s, const operation &o)
{
    std::vector<range> ranges;
    size_t bytes = o.count * width_of(o.type), all = bytes * (size_t)s.size;
    if (o.send && (o.kind != kind::broadcast || s.rank == o.root))
        ranges.push_back({o.send, o.kind == kind::reduce_scatter ? all : bytes});
    if (o.receive && (o.kind != kind::reduce || s.rank == o.root))
        ranges.push_back({o.receive, o.kind == kind::all_gather ? all : bytes});
    return ranges;
}

std::vector<peer_topic> connections_of(const state &s, const operation &o)
{
    const size_t tree_bytes = 65536;
    std::vector<peer_topic> all;
    if (o.kind == kind::transfer)
        return {{o.root, o.send ? topic::sends : topic::receives}};
    bool tree = o.kind == kind::all_reduce && o.count * width_of(o.type) <= tree_bytes;
    for (int rank = 0; rank < s.size; rank++)
        if (rank != s.rank)
            all.push_back({rank, tree ? topic::tree : topic::ring});
    return all;
}

const char *name_of(kind k)
{
    static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "transfer"};
    return names[(size_t)k];
}

std::string text_of(const header &h)
{
    return std::string(name_of((kind)h.kind)) + " number " + std::to_string(h.number) + " of " + std::to_string(h.count) +
           " elements, type " + std::to_string(h.type) + ", root " + std::to_string(h.root) + (h.registered ? ", registered" : "");
}

void run_collective(state &s, const operation &o)
{
    std::lock_guard<std::mutex> one(s.turn);
    if (!s.aborted && memory_is_there(s, o))
        collective(s, o).go();
}

void run_transfers(state &s, const std::vector<operation> &group)
{
    std::lock_guard<std::mutex> one(s.turn);
    std::vector<transfer> moves;
    for (const operation &o : group) {
        transfer t = {};
        if (s.aborted || !memory_is_there(s, o))
            return;
        t.peer = o.root;
        t.sending = o.send != nullptr;
        t.data = t.sending ? (void *)o.send : o.receive;
        t.bytes = o.count * width_of(o.type);
        t.header = {(uint32_t)kind::transfer, (uint32_t)o.type, 0, 0, o.count, 0, o.registered};
        moves.push_back(t);
    }
    run(s, moves);
}

} // namespace emulated_nccl
