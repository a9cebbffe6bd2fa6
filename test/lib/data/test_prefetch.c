#include "lib/data/mapped_file.h"
#include "lib/data/prefetch.h"
#include "test/check.h"

#include <stdlib.h>
#include <unistd.h>

enum { NUMBERS = 1000, BAD_TURN = 40 };

static dt_status fill(void *context, uint64_t turn, void *to)
{
    if (turn == BAD_TURN)
        return dt_fail(DT_ERR_IO, "turn %d cannot be read", BAD_TURN);
    for (int i = 0; i < NUMBERS; i++)
        ((uint64_t *)to)[i] = turn * NUMBERS + (uint64_t)i + *(const uint64_t *)context;
    return DT_OK;
}

static void check_turn(struct dt_prefetch *prefetch, uint64_t turn)
{
    static uint64_t got[NUMBERS];
    CHECK_OK(dt_prefetch_take(prefetch, turn, got));
    for (int i = 0; i < NUMBERS; i++)
        CHECK(got[i] == turn * NUMBERS + (uint64_t)i + 5, "turn %zu, number %d", (size_t)turn, i);
}

static void turns(void)
{
    static uint64_t ahead[NUMBERS], got[NUMBERS], context = 5;
    struct dt_prefetch *prefetch;
    CHECK_OK(dt_prefetch_create(fill, &context, ahead, sizeof ahead, 3, &prefetch));
    for (uint64_t turn = 3; turn < 30; turn++)
        check_turn(prefetch, turn);
    check_turn(prefetch, 7);
    check_turn(prefetch, 35);
    check_turn(prefetch, BAD_TURN - 1);
    CHECK(dt_prefetch_take(prefetch, BAD_TURN, got) == DT_ERR_IO && strstr(dt_error_message(), "turn 40"), "%s", dt_error_message());
    check_turn(prefetch, BAD_TURN + 1);
    dt_prefetch_destroy(prefetch);
    dt_prefetch_destroy(NULL);
}

static void files(void)
{
    char path[] = "/tmp/test_prefetch_XXXXXX";
    struct dt_mapped_file file;
    int descriptor = mkstemp(path);
    char got[2];
    CHECK(dt_mapped_file_open(path, &file) == DT_ERR_IO && strstr(dt_error_message(), "empty"), "%s", dt_error_message());
    CHECK(write(descriptor, "abc", 3) == 3, "cannot write");
    CHECK_OK(dt_mapped_file_open(path, &file));
    CHECK(file.size_bytes == 3 && memcmp(file.bytes, "abc", 3) == 0, "%zu bytes", file.size_bytes);
    CHECK_OK(dt_mapped_file_read(&file, path, 1, 2, got));
    CHECK(memcmp(got, "bc", 2) == 0, "%.2s", got);
    CHECK(truncate(path, 1) == 0 && dt_mapped_file_read(&file, path, 1, 2, got) == DT_ERR_IO &&
              strstr(dt_error_message(), "the file has become shorter while it was read: it had 3 bytes, and now ends before byte 3"),
          "%s", dt_error_message());
    dt_mapped_file_close(&file);
    dt_mapped_file_close(&file);
    CHECK(dt_mapped_file_open("/tmp", &file) == DT_ERR_IO && strstr(dt_error_message(), "not a file"), "%s", dt_error_message());
    close(descriptor);
    unlink(path);
    CHECK(dt_mapped_file_open(path, &file) == DT_ERR_IO && strstr(dt_error_message(), "No such file"), "%s", dt_error_message());
}

static const struct test_case cases[] = {
    {"turns are filled ahead, in any order, and tell why they are not", turns},
    {"files in memory", files},
};
TEST_MAIN(cases)
