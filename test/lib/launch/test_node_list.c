#include "lib/launch/launch.h"
#include "test/check.h"

#include <stdlib.h>
#include <string.h>

static void lists(void)
{
    /* The right-hand sides are what `scontrol show hostnames` of Slurm 22.05 printed, blanks for
     * its newlines. */
    static const struct {
        const char *list, *names;
        int count;
    } examples[] = {
        {"n1", "n1", 1},
        {"n[1-3]", "n1 n2 n3", 3},
        {"n[08-11,3],m5", "n08 n09 n10 n11 n3 m5", 6},
        {"n[09-010]", "n09 n10", 2},
        {"n[0099-0101]", "n0099 n0100 n0101", 3},
        {"n[1,2,3]", "n1 n2 n3", 3},
        {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02", 4},
        {"a[1-2][3-4]", "a13 a14 a23 a24", 4},
        {"n[1-2],n[2-3]", "n1 n2 n2 n3", 4},
        {"a,,b", "a b", 2},
        {"x[1-2],", "x1 x2", 2},
        {"", "", 0},
        {"n1-3", "n1-3", 1},
        {"10.0.0.[1-2]", "10.0.0.1 10.0.0.2", 2},
        {"gpu-a[1-2]-ib", "gpu-a1-ib gpu-a2-ib", 2}, /* 22.05 refuses text after brackets, later versions do not */
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char *lines = NULL, first[DT_NODE_NAME_BYTES] = "";
        int count = -1;
        CHECK(dt_node_list_expand(examples[i].list, &lines, &count) == DT_OK, "%s: %s", examples[i].list, dt_error_message());
        for (char *c = lines; c && *c; c++)
            *c = *c == '\n' ? ' ' : *c;
        CHECK(lines && strcmp(lines, examples[i].names) == 0 && count == examples[i].count, "%s: %d: %s", examples[i].list, count, lines);
        if (examples[i].count > 0) {
            CHECK(dt_node_list_first(examples[i].list, first) == DT_OK, "%s: %s", examples[i].list, dt_error_message());
            CHECK(strncmp(first, examples[i].names, strlen(first)) == 0 && *first && strcspn(examples[i].names, " ") == strlen(first),
                  "%s begins with %s", examples[i].list, first);
        }
        free(lines);
    }
    char first[DT_NODE_NAME_BYTES];
    CHECK(dt_node_list_first("", first) == DT_ERR_INVALID, "an empty list has a first node");
}

static void wrong_lists(void)
{
    static const char *const wrong[] = {
        "n[1",   "n]",      "n[]",   "n[3-1]",        "n[003-1]", "n[a-b]", "n[1-2-3]", "n[[1]]",
        "n[1,]", "n[1,,2]", "n[1-2", "n[1234567890]", "n[-1]",    "n[ 1]",  "n[1]]",
    };
    char *lines, name[DT_NODE_NAME_BYTES], *longest = calloc(1, 2 * DT_NODE_NAME_BYTES);
    int count;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(dt_node_list_expand(wrong[i], &lines, &count) == DT_ERR_INVALID, "%s is accepted", wrong[i]);
        CHECK(strstr(dt_error_message(), wrong[i]), "%s: says \"%s\"", wrong[i], dt_error_message());
    }
    memset(longest, 'n', DT_NODE_NAME_BYTES);
    CHECK(dt_node_list_expand(longest, &lines, &count) == DT_ERR_INVALID, "a name without end");
    CHECK(dt_node_list_first(longest, name) == DT_ERR_INVALID, "a first name without end");
    longest[DT_NODE_NAME_BYTES - 1] = 0;
    CHECK(dt_node_list_first(longest, name) == DT_OK && strcmp(name, longest) == 0, "the longest name");
    free(longest);
    CHECK(dt_node_list_expand("n[0-999999999]", &lines, &count) == DT_ERR_INVALID, "a billion nodes");
    CHECK(dt_node_list_expand("a[1-999][1-999][1-999]", &lines, &count) == DT_ERR_INVALID, "a billion nodes");
    CHECK(dt_node_list_first("n[0-999999999]", name) == DT_OK && strcmp(name, "n0") == 0, "their first");
}

static void large_lists(void)
{
    char *lines;
    int count;
    CHECK(dt_node_list_expand("node[00001-16384]", &lines, &count) == DT_OK && count == 16384, "%s", dt_error_message());
    CHECK(strlen(lines) == 16384 * 10 - 1 && strcmp(lines + 16383 * 10, "node16384") == 0, "the last is %s", lines + 16383 * 10);
    free(lines);
}

static const struct test_case cases[] = {
    {"names in the list's order", lists},
    {"wrong lists are quoted", wrong_lists},
    {"large lists", large_lists},
};
TEST_MAIN(cases)
