/* The rules of frames: frames that are refused before memory is allocated. */
#include "lib/base/random.h"
#include "lib/rendezvous/frame.h"
#include "lib/rendezvous/rendezvous.h"
#include "test/check.h"

enum { SIZE = 8, FROM = 3 };

static const struct dt_frame_reader at_hub = {.hub = true, .met = true, .rank = FROM, .size = SIZE};
static const struct dt_frame_reader at_rank = {.met = true, .rank = FROM, .size = SIZE};
static const struct dt_frame_reader meeting = {.rank = FROM, .size = SIZE};

static enum dt_frame_fault fault_of(const struct dt_frame_reader *reader, struct dt_frame frame)
{
    struct dt_frame out;
    enum dt_frame_fault fault;
    CHECK(dt_frame_decode(reader, (const char *)&frame, sizeof frame, &out, &fault));
    return fault;
}

static void each_rule(void)
{
    const uint64_t piece = DT_FRAME_PIECE_BYTES, state = sizeof(struct dt_rendezvous_progress);
    const struct {
        const struct dt_frame_reader *reader;
        struct dt_frame frame;
        enum dt_frame_fault want;
    } rows[] = {
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 7, .count = 8, .bytes = piece}, DT_FRAME_FINE},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 8, .count = 8}, DT_FRAME_BAD_INDEX},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 0xffffffff, .count = 8}, DT_FRAME_BAD_INDEX},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 0, .count = 0}, DT_FRAME_BAD_COUNT},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 0, .count = 9}, DT_FRAME_BAD_COUNT},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 0, .count = 0x3fffffff, .bytes = 8}, DT_FRAME_BAD_COUNT},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 0, .count = 2, .bytes = piece + 1}, DT_FRAME_BAD_LENGTH},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 0, .count = 2, .bytes = UINT64_C(1) << 33}, DT_FRAME_BAD_LENGTH},
        {&at_hub, {.type = DT_FRAME_GATHER, .index = 0, .count = 2, .unused = 1}, DT_FRAME_BAD_UNUSED},
        {&at_hub, {.type = DT_FRAME_STATE, .index = 7, .count = FROM, .bytes = state}, DT_FRAME_FINE},
        {&at_hub, {.type = DT_FRAME_STATE, .index = 0xffffffff, .count = FROM, .bytes = state}, DT_FRAME_BAD_INDEX},
        {&at_hub, {.type = DT_FRAME_STATE, .index = 7, .count = FROM + 1, .bytes = state}, DT_FRAME_BAD_COUNT},
        {&at_hub, {.type = DT_FRAME_STATE, .index = 7, .count = FROM, .bytes = state - 1}, DT_FRAME_BAD_LENGTH},
        {&at_hub, {.type = DT_FRAME_ASK, .index = FROM + 1}, DT_FRAME_BAD_INDEX},
        {&at_hub, {.type = DT_FRAME_FAILED, .index = FROM, .count = 5, .bytes = 1023}, DT_FRAME_FINE},
        {&at_hub, {.type = DT_FRAME_FAILED, .index = FROM, .count = 5, .bytes = 1024}, DT_FRAME_BAD_LENGTH},
        {&at_hub, {.type = DT_FRAME_FAILED, .index = FROM, .count = 1}, DT_FRAME_FINE},
        {&at_hub, {.type = DT_FRAME_FAILED, .index = FROM, .count = 0}, DT_FRAME_BAD_COUNT},
        {&at_hub, {.type = DT_FRAME_FAILED, .index = FROM, .count = 12}, DT_FRAME_BAD_COUNT},
        {&at_hub, {.type = DT_FRAME_FAILED, .index = FROM, .count = 5, .group = 1}, DT_FRAME_BAD_UNUSED},
        {&at_hub, {.type = DT_FRAME_GOODBYE, .bytes = 1}, DT_FRAME_BAD_LENGTH},
        {&at_hub, {.type = DT_FRAME_GATHERED}, DT_FRAME_BAD_TYPE},
        {&at_hub, {.type = 0}, DT_FRAME_BAD_TYPE},
        {&at_hub, {.type = DT_FRAME_TYPES}, DT_FRAME_BAD_TYPE},
        {&at_hub, {.type = 0xffffffff}, DT_FRAME_BAD_TYPE},
        {&at_rank, {.type = DT_FRAME_GATHERED, .bytes = UINT64_C(1) << 32}, DT_FRAME_FINE},
        {&at_rank, {.type = DT_FRAME_GATHERED, .bytes = UINT64_C(1) << 33}, DT_FRAME_BAD_LENGTH},
        {&at_rank, {.type = DT_FRAME_MISSING, .bytes = SIZE}, DT_FRAME_FINE},
        {&at_rank, {.type = DT_FRAME_MISSING, .bytes = SIZE + 1}, DT_FRAME_BAD_LENGTH},
        {&at_rank, {.type = DT_FRAME_LOST, .index = SIZE - 1, .count = DT_FRAME_FAULTS - 1}, DT_FRAME_FINE},
        {&at_rank, {.type = DT_FRAME_LOST, .index = SIZE - 1, .count = DT_FRAME_FAULTS}, DT_FRAME_BAD_COUNT},
        {&at_rank, {.type = DT_FRAME_LOST, .index = SIZE}, DT_FRAME_BAD_INDEX},
        {&at_rank, {.type = DT_FRAME_STATE, .index = FROM, .count = SIZE - 1, .bytes = state}, DT_FRAME_FINE},
        {&at_rank, {.type = DT_FRAME_STATE, .index = FROM + 1, .count = SIZE - 1, .bytes = state}, DT_FRAME_BAD_INDEX},
        {&at_rank, {.type = DT_FRAME_GATHER, .count = 1}, DT_FRAME_BAD_TYPE},
        {&at_rank, {.type = DT_FRAME_WELCOME}, DT_FRAME_BAD_TYPE},
        {&meeting, {.type = DT_FRAME_WELCOME}, DT_FRAME_FINE},
        {&meeting, {.type = DT_FRAME_REFUSED, .count = 11, .bytes = 1023}, DT_FRAME_FINE},
        {&meeting, {.type = DT_FRAME_REFUSED, .count = 11, .bytes = 1024}, DT_FRAME_BAD_LENGTH},
        {&meeting, {.type = DT_FRAME_GATHERED}, DT_FRAME_BAD_TYPE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(fault_of(rows[i].reader, rows[i].frame) == rows[i].want, "row %zu: %d, not %d", i, fault_of(rows[i].reader, rows[i].frame),
              rows[i].want);
}

static void short_data(void)
{
    struct dt_frame out, frame = {.type = DT_FRAME_GOODBYE};
    enum dt_frame_fault fault;
    for (size_t have = 0; have < sizeof frame; have++)
        CHECK(!dt_frame_decode(&at_hub, (const char *)&frame, have, &out, &fault) && fault == DT_FRAME_FINE, "%zu", have);
}

/* The numbers of accepted frames are safe as indices and lengths. */
static void any_numbers(void)
{
    const struct dt_frame_reader *readers[] = {&at_hub, &at_rank, &meeting};
    int fine = 0;
    for (int i = 0; i < 300000; i++) {
        uint64_t n[7];
        for (int k = 0; k < 7; k++) {
            struct dt_philox random = dt_philox4x32(1, (uint32_t)i, (uint32_t)k, 0, 0);
            uint64_t value = (uint64_t)random.word[0] << 32 | random.word[1];
            const uint64_t kinds[] = {random.word[2] % 20, random.word[2] % 20, 0, value >> (random.word[2] % 60)};
            n[k] = kinds[random.word[3] % 4];
        }
        struct dt_frame f = {
            (uint32_t)n[0] % (DT_FRAME_TYPES + 1), (uint32_t)n[1], (uint32_t)n[2], n[3] < 16 ? 0 : (uint32_t)n[3], n[4], n[5], n[6]};
        const struct dt_frame_reader *reader = readers[i % 3];
        if (fault_of(reader, f) != DT_FRAME_FINE)
            continue;
        fine++;
        CHECK(f.count <= SIZE || f.type == DT_FRAME_FAILED || f.type == DT_FRAME_REFUSED, "count %u of type %u", f.count, f.type);
        CHECK(f.index < SIZE && f.bytes <= UINT64_C(1) << 32, "index %u, %llu bytes", f.index, (unsigned long long)f.bytes);
        CHECK(f.type != DT_FRAME_GATHER || (f.index < f.count && f.count * f.bytes <= UINT64_C(1) << 32), "index %u", f.index);
    }
    CHECK(fine > 500, "only %d of the frames were let through", fine);
}

static const struct test_case cases[] = {
    {"each rule", each_rule},
    {"less than a frame is no fault", short_data},
    {"numbers of all kinds", any_numbers},
};

TEST_MAIN(cases)
