#include "lib/tensors/tensor_part.h"
#include "test/check.h"

/* Every element of the part is found at its place, and no other element. */
static void check_part(const struct dt_tensor_part *part, uint64_t elems)
{
    uint64_t found = 0, length, k;
    for (uint64_t i = part->from; i < part->until; i++) {
        uint64_t at = dt_tensor_part_at(part, i, &length);
        CHECK(at < elems && length >= 1 && i + length <= part->until, "element %zu", (size_t)i);
        CHECK(dt_tensor_part_at(part, i + length - 1, &k) == at + length - 1, "a run is not one");
        CHECK(dt_tensor_part_find(part, at, &k, &length) && k == i && length >= 1, "element %zu is at %zu", (size_t)i, (size_t)k);
    }
    for (uint64_t at = 0; at < elems; at++)
        found += dt_tensor_part_find(part, at, &k, &length);
    CHECK(found == part->until - part->from, "%zu elements of %zu", (size_t)found, (size_t)(part->until - part->from));
}

static void check_name(const struct dt_tensor_part *part, const char *expected)
{
    char text[128], name[64];
    struct dt_tensor_part read;
    uint64_t at, other;
    dt_tensor_part_name("a.b", part, text, sizeof text);
    CHECK(strcmp(text, expected) == 0, "%s, not %s", text, expected);
    CHECK(dt_tensor_part_read(text, name, sizeof name, &read) && strcmp(name, "a.b") == 0, "%s is not read", text);
    CHECK(read.until - read.from == part->until - part->from, "%s has another length", text);
    for (uint64_t i = 0; i < part->until - part->from; i++)
        CHECK(dt_tensor_part_at(part, part->from + i, &at) == dt_tensor_part_at(&read, read.from + i, &other), "%s: element %zu", text,
              (size_t)i);
}

static void parts(void)
{
    static const struct {
        struct dt_tensor_part part;
        const char *name;
    } all[] = {
        {{0, 60, 60, 0, 60}, "a.b[0-60]"},       {{0, 60, 60, 7, 31}, "a.b[7-31]"},       {{20, 10, 10, 0, 10}, "a.b[20-30]"},
        {{4, 3, 10, 0, 18}, "a.b[4+3/10:0-18]"}, {{4, 3, 10, 2, 11}, "a.b[4+3/10:2-11]"}, {{4, 3, 10, 4, 6}, "a.b[15-17]"},
        {{0, 5, 10, 29, 30}, "a.b[54-55]"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_part(&all[i].part, 60);
        check_name(&all[i].part, all[i].name);
    }
}

static void texts_that_are_none(void)
{
    static const char *const none[] = {"a",
                                       "a[",
                                       "a[1-]",
                                       "a[3-3]",
                                       "a[5-2]",
                                       "a[1-2]x",
                                       "a[1+0/4:0-1]",
                                       "a[1+5/4:0-1]",
                                       "a[1+2/4:3-3]",
                                       "[]",
                                       "a[18446744073709551610+8/9:0-8]",
                                       "a[1+2/1000000000000000000:0-9]"};
    struct dt_tensor_part part;
    char name[8];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(!dt_tensor_part_read(none[i], name, sizeof name, &part), "%s", none[i]);
    CHECK(!dt_tensor_part_read("longer_than_that[0-1]", name, sizeof name, &part), "a name that has no room");
}

static const struct test_case cases[] = {{"parts have their elements", parts}, {"other texts are no parts", texts_that_are_none}};
TEST_MAIN(cases)
