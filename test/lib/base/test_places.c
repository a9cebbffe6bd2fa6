#include "lib/base/grow.h"
#include "test/check.h"

enum { COUNT = 6 };

static void equal_keys_stand_together(void)
{
    struct dt_place places[COUNT] = {{7, 0}, {UINT64_MAX, 1}, {0, 2}, {7, 3}, {1ull << 63, 4}, {7, 5}};
    const int order[COUNT] = {2, 0, 3, 5, 4, 1};
    dt_places_sort(places, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(places[i].at == order[i], "%d is at %d", places[i].at, i);
    CHECK(dt_places_find(places, COUNT, 7) == 1 && dt_places_end(places, COUNT, 1) == 4);
    CHECK(dt_places_find(places, COUNT, 0) == 0 && dt_places_end(places, COUNT, 0) == 1);
    CHECK(dt_places_find(places, COUNT, UINT64_MAX) == 5 && dt_places_end(places, COUNT, 5) == COUNT);
    CHECK(dt_places_find(places, COUNT, 8) == COUNT && dt_places_find(places, 0, 8) == 0);
    CHECK(dt_places_end(places, COUNT, COUNT) == COUNT, "of none");
}

static const struct test_case cases[] = {
    {"equal keys stand together", equal_keys_stand_together},
};
TEST_MAIN(cases)
