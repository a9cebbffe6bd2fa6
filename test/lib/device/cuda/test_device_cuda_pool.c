/* Reuse of the cuda device's memory: the algorithm alone, with addresses that are never
 * accessed. */
#include "lib/device/cuda/pool.h"
#include "test/check.h"

#include <stdlib.h>

enum { MIB = 1 << 20 };

static struct cuda_order order;
static struct cuda_pool pool;
static uintptr_t next_address;
static uint64_t most_bytes;
static int grown, shrunk;

static dt_status grow(void *context, size_t bytes, void **out)
{
    if (pool.reserved_bytes + bytes > most_bytes)
        return dt_fail(DT_ERR_OOM, "no more");
    *out = (void *)next_address;
    next_address += (bytes + 4 * MIB) / MIB * MIB; /* segments are not adjacent */
    grown++;
    return DT_OK;
}

static void shrink(void *context, void *data)
{
    shrunk++;
}

static void begin(void)
{
    memset(&order, 0, sizeof order);
    for (int i = 0; i < 6; i++)
        dt_cuda_order_open(&order, i);
    pool = (struct cuda_pool){.name = "device", .grow = grow, .shrink = shrink};
    next_address = (uintptr_t)1 << 40;
    most_bytes = (uint64_t)1 << 40;
    grown = shrunk = 0;
}

static struct cuda_block *take(int stream, size_t bytes, struct cuda_places *waits)
{
    struct cuda_block *block;
    struct cuda_places mine;
    CHECK_OK(dt_cuda_pool_take(&pool, &order, stream, bytes, &block, waits ? waits : &mine));
    CHECK(block->bytes >= bytes && (uintptr_t)block->data % 256 == 0);
    return block;
}

static void give(int stream, struct cuda_block *block)
{
    struct cuda_places after = {{0}};
    after.at[stream] = dt_cuda_order_mark(&order, stream);
    dt_cuda_pool_give(&pool, &order, block, &after);
}

static bool none(const struct cuda_places *places)
{
    static const struct cuda_places zero;
    return memcmp(places, &zero, sizeof zero) == 0;
}

static void a_stream_takes_its_own_memory_as_it_is(void)
{
    struct cuda_places waits;
    begin();
    struct cuda_block *a = take(0, 4 * MIB, NULL), *b = take(0, 4 * MIB, NULL);
    char *first = a->data;
    CHECK(b->data == first + 4 * MIB && grown == 1, "cut from one segment");
    give(0, a);
    a = take(0, 3 * MIB, &waits);
    CHECK(a->data == first && none(&waits));
    give(0, a);
    give(0, b);
    a = take(0, 32 * MIB, &waits);
    CHECK(a->data == first && none(&waits) && grown == 1, "neighbours join");
    give(0, a);
    a = take(0, 1000, NULL);
    CHECK(a->bytes == 1024 && grown == 2, "small ones have segments of their own");
    give(0, a);
    dt_cuda_pool_finish(&pool);
    CHECK(shrunk == 2 && pool.reserved_bytes == 0);
}

static void another_stream_waits_for_what_it_is_not_behind(void)
{
    struct cuda_places waits;
    begin();
    struct cuda_block *a = take(0, 20 * MIB, NULL);
    char *first = a->data;
    give(0, a);
    a = take(1, 20 * MIB, &waits);
    CHECK(a->data == first && waits.at[0] == 1 && grown == 1);
    waits.at[0] = 0;
    CHECK(none(&waits), "for nothing else");
    give(1, a);
    give(2, take(2, 20 * MIB, &waits));
    CHECK(grown == 1 && waits.at[1] == 1 && waits.at[0] == 0, "what the other has waited for already");

    order.exchanges[3] = true;
    a = take(2, 20 * MIB, NULL);
    CHECK(a->data == first);
    give(3, a);
    a = take(4, 20 * MIB, &waits);
    CHECK(a->data != first && none(&waits) && grown == 2, "nobody waits for a stream that exchanges messages");
    give(4, a);
    struct cuda_block *b = take(3, 20 * MIB, &waits);
    CHECK(b->data == first && none(&waits), "but for itself it is as it was");
    give(3, b);
    dt_cuda_order_after(&order, 3); /* the host has waited for it */
    a = take(5, 20 * MIB, &waits);
    CHECK(a->data == first && none(&waits), "rather than to wait for stream 4");
    give(5, a);
    dt_cuda_order_after_all(&order);
    CHECK(dt_cuda_order_cost(&order, 0, &order.behind[5]) == CUDA_ORDERED);
    dt_cuda_pool_finish(&pool);
}

/* Joined from memory of two streams: both are waited for. */
static void joined_memory_comes_after_both(void)
{
    struct cuda_places waits;
    begin();
    struct cuda_block *a = take(0, 16 * MIB, NULL), *b = take(0, 16 * MIB, NULL);
    CHECK(grown == 1 && b->data == a->data + 16 * MIB);
    give(1, b);
    give(2, a);
    a = take(2, 16 * MIB, &waits);
    CHECK(none(&waits), "what lies beside it is nothing to wait for");
    give(2, a);
    a = take(0, 32 * MIB, &waits);
    CHECK(grown == 1 && waits.at[1] == 1 && waits.at[2] == 2);
    give(0, a);
    dt_cuda_pool_finish(&pool);
}

/* Blocks never overlap, and add up: 20,000 random takes and gives on four streams. */
static void live_blocks_never_overlap(void)
{
    enum { SLOTS = 200 };
    static struct cuda_block *slots[SLOTS];
    uint64_t live = 0;
    begin();
    srand(3);
    for (int i = 0; i < 20000; i++) {
        int at = rand() % SLOTS;
        if (slots[at]) {
            live -= slots[at]->bytes;
            give(rand() % 4, slots[at]);
            slots[at] = NULL;
        } else {
            size_t bytes = rand() % 3 ? (size_t)(1 + rand() % 60000) : (size_t)(1 + rand() % (40 * MIB));
            struct cuda_block *block = slots[at] = take(rand() % 4, bytes, NULL);
            live += block->bytes;
            CHECK(block->bytes < bytes + 64 * 1024 + 256);
            for (int j = 0; j < SLOTS; j++)
                CHECK(j == at || !slots[j] || slots[j]->data + slots[j]->bytes <= block->data ||
                      block->data + block->bytes <= slots[j]->data);
        }
        CHECK(pool.live_bytes[0] + pool.live_bytes[1] == live && pool.reserved_bytes >= live);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i])
            give(0, slots[i]);
        slots[i] = NULL;
    }
    dt_cuda_order_after_all(&order);
    dt_cuda_pool_join(&pool, &order);
    for (struct cuda_segment *segment = pool.segments; segment; segment = segment->next)
        CHECK(!segment->first->next && segment->first->bytes == segment->bytes, "all is joined again");
    CHECK(dt_cuda_pool_release(&pool) > 0 && pool.reserved_bytes == 0 && !pool.segments);
    dt_cuda_pool_finish(&pool);
}

/* A training step in miniature. Returns a hash of its addresses. */
static uint64_t run_step(void)
{
    enum { LAYERS = 24, SIZES = 4 };
    static const size_t units[SIZES] = {1, 3, 4, 4};
    struct cuda_block *kept[LAYERS][SIZES], *other;
    uint64_t addresses = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        other = take(1, 6 * MIB + 300, NULL); /* what an exchange on another stream needs, freed by the first */
        for (int i = 0; i < SIZES; i++) {
            kept[layer][i] = take(0, units[i] * 1100000, NULL);
            addresses = addresses * 31 + (uintptr_t)kept[layer][i]->data;
        }
        addresses = addresses * 31 + (uintptr_t)other->data;
        give(0, other);
    }
    struct cuda_block *logits = take(0, 90 * MIB, NULL);
    give(0, logits);
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        other = take(0, 5500000, NULL);
        addresses = addresses * 31 + (uintptr_t)other->data;
        give(1, other);
        for (int i = 0; i < SIZES; i++)
            give(0, kept[layer][i]);
    }
    dt_cuda_order_after_all(&order);
    dt_cuda_pool_join(&pool, &order);
    return addresses;
}

static void a_steady_step_gets_the_same_addresses(void)
{
    uint64_t last = 0;
    begin();
    struct cuda_block *parameters = take(0, 77 * MIB, NULL), *small = take(0, 4096, NULL);
    for (int step = 0; step < 6; step++) {
        int before = grown;
        uint64_t now = run_step();
        if (step >= 2)
            CHECK(now == last && grown == before, "step %d", step);
        last = now;
        if (dt_cuda_pool_unsettled(&pool))
            dt_cuda_pool_settle(&pool);
        uint64_t peak = pool.live_peak_bytes[0] + pool.live_peak_bytes[1];
        CHECK(pool.reserved_bytes < peak + peak / 8 + 64 * MIB, "step %d: %llu reserved, peak %llu", step,
              (unsigned long long)pool.reserved_bytes, (unsigned long long)peak);
    }
    give(0, parameters);
    give(0, small);
    dt_cuda_pool_finish(&pool);
}

/* First many pieces one by one, then a step that needs them as one: the pool shrinks to what is
 * needed. */
static void what_is_held_settles_near_the_peak(void)
{
    struct cuda_block *pieces[16], *whole;
    begin();
    for (int i = 0; i < 16; i++)
        pieces[i] = take(0, 20 * MIB, NULL);
    for (int i = 0; i < 16; i++)
        give(0, pieces[i]);
    whole = take(0, 300 * MIB, NULL);
    give(0, whole);
    CHECK(pool.reserved_bytes == 620 * MIB && dt_cuda_pool_unsettled(&pool));
    dt_cuda_pool_settle(&pool);
    CHECK(pool.reserved_bytes == 320 * MIB && !dt_cuda_pool_unsettled(&pool));
    int before = grown;
    for (int i = 0; i < 16; i++)
        pieces[i] = take(0, 20 * MIB, NULL);
    for (int i = 0; i < 16; i++)
        give(0, pieces[i]);
    give(0, take(0, 300 * MIB, NULL));
    CHECK(grown == before);
    dt_cuda_pool_finish(&pool);
}

static void refusals_leave_the_pool_as_it_was(void)
{
    struct cuda_block *block;
    struct cuda_places waits;
    begin();
    most_bytes = 50 * MIB;
    struct cuda_block *a = take(0, 16 * MIB, NULL), *b = take(0, 17 * MIB, NULL);
    CHECK(pool.reserved_bytes == 50 * MIB);
    CHECK(dt_cuda_pool_take(&pool, &order, 0, 30 * MIB, &block, &waits) == DT_ERR_OOM && !block);
    CHECK(dt_cuda_pool_take(&pool, &order, 0, SIZE_MAX, &block, &waits) == DT_ERR_OOM && !block);
    CHECK(pool.live_bytes[0] >= 33 * MIB && pool.reserved_bytes == 50 * MIB);
    give(0, b);
    CHECK(dt_cuda_pool_release(&pool) == 18 * MIB);
    CHECK(take(0, 16 * MIB, NULL) && take(0, 10 * MIB, NULL), "one as large as need be where the usual size is refused");
    CHECK(dt_cuda_pool_contains(&pool, a->data + 16 * MIB - 1) && !dt_cuda_pool_contains(&pool, a->data - 1));
    CHECK(!dt_cuda_pool_contains(&pool, &pool));
    dt_cuda_pool_finish(&pool);
}

static void separate_blocks_have_their_own_segments(void)
{
    begin();
    pool.separate = true;
    struct cuda_block *a = take(0, 1000, NULL), *b = take(0, 3 * MIB + 8, NULL);
    CHECK(a->bytes == 1000 && b->bytes == 3 * MIB + 8 && grown == 2 && pool.reserved_bytes == 3 * MIB + 1008);
    CHECK(dt_cuda_pool_contains(&pool, a->data + 999) && !dt_cuda_pool_contains(&pool, a->data + 1000));
    CHECK(!dt_cuda_pool_unsettled(&pool));
    give(0, a);
    struct cuda_block *c = take(0, 1000, NULL);
    CHECK(grown == 3 && shrunk == 0 && dt_cuda_pool_unsettled(&pool), "what was freed is nobody's until it goes back");
    dt_cuda_pool_settle(&pool);
    CHECK(shrunk == 1 && grown == 3 && !dt_cuda_pool_unsettled(&pool));
    give(0, b);
    give(0, c);
    CHECK(dt_cuda_pool_release(&pool) == 3 * MIB + 1008 && !pool.segments);
    dt_cuda_pool_finish(&pool);
}

static const struct test_case cases[] = {
    {"a stream takes its own memory as it is", a_stream_takes_its_own_memory_as_it_is},
    {"another stream waits for what it is not behind", another_stream_waits_for_what_it_is_not_behind},
    {"joined memory comes after both of its parts", joined_memory_comes_after_both},
    {"live blocks never overlap, and all join again", live_blocks_never_overlap},
    {"a steady step gets the same addresses", a_steady_step_gets_the_same_addresses},
    {"what is held settles near the peak", what_is_held_settles_near_the_peak},
    {"refusals leave the pool as it was", refusals_leave_the_pool_as_it_was},
    {"separate blocks have their own segments", separate_blocks_have_their_own_segments},
};
TEST_MAIN(cases)
