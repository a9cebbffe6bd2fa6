/* The rules of messages between supervisor and ranks: messages that are refused before memory is
 * allocated for them. */
#include "lib/launch/launch_parts.h"
#include "test/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct header {
    uint32_t type;
    int32_t value;
    uint64_t length;
};

/* The answer of the reader at `end` to a header and its bytes of text, at most 64. */
static int read_one(enum dt_wire_end end, struct header header, struct dt_wire_message *out)
{
    struct dt_wire_reader reader = {.end = end, .passed_fd = -1};
    static const char text[64] = "text";
    int fd[2], have = -1;
    bool closed;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0)
        abort();
    size_t bytes = header.length < sizeof text ? header.length : sizeof text;
    CHECK(write(fd[0], &header, sizeof header) == sizeof header && write(fd[0], text, bytes) == (ssize_t)bytes);
    CHECK_OK(dt_wire_receive(&reader, fd[1], &closed));
    if (reader.used == sizeof header && bytes > 0)
        CHECK_OK(dt_wire_receive(&reader, fd[1], &closed));
    have = dt_wire_next(&reader, out);
    CHECK(reader.capacity <= 1 << 17, "%zu bytes of memory", reader.capacity);
    out->text = NULL;
    dt_wire_finish(&reader);
    close(fd[0]);
    close(fd[1]);
    return have;
}

static void each_rule(void)
{
    const uint64_t mib = 1 << 20;
    const struct {
        enum dt_wire_end end;
        struct header header;
        int want;
    } rows[] = {
        {DT_WIRE_SUPERVISOR, {DT_WIRE_HELLO, 3, 0}, 1},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_HELLO, -1, 0}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_HELLO, 3, 1}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_PROGRESS, 0, 5}, 1},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_PROGRESS, 1, 5}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_PROGRESS, 0, 4096}, 0},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_PROGRESS, 0, 4097}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_RESULT, 0, 256 * mib}, 0},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_RESULT, 0, 256 * mib + 1}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_RESULT, 0, UINT64_MAX}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_FAILED, DT_ERR_WORLD, 5}, 1},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_FAILED, DT_ERR_WORLD - 1, 5}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_FAILED, DT_OK, 5}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_DONE, 0, 0}, 1},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_INPUT, 0, 5}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {DT_WIRE_TYPES, 0, 0}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {0, 0, 0}, DT_ERR_COMM},
        {DT_WIRE_SUPERVISOR, {UINT32_MAX, 0, 0}, DT_ERR_COMM},
        {DT_WIRE_RANK, {DT_WIRE_INPUT, 0, 5}, 1},
        {DT_WIRE_RANK, {DT_WIRE_STOP, 0, 0}, 1},
        {DT_WIRE_RANK, {DT_WIRE_STOP, 0, 5}, DT_ERR_COMM},
        {DT_WIRE_RANK, {DT_WIRE_DONE, 0, 0}, DT_ERR_COMM},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dt_wire_message message = {0};
        int have = read_one(rows[i].end, rows[i].header, &message);
        CHECK(have == rows[i].want, "row %zu: %d, not %d: %s", i, have, rows[i].want, dt_error_message());
        CHECK(have != 1 || (message.value == rows[i].header.value && message.length == rows[i].header.length), "row %zu", i);
    }
}

/* No name, the longest one, and one more than fits into an address. */
static void names(void)
{
    enum { ROOM = 107 };
    char name[ROOM + 2];
    int fd, other;
    CHECK(dt_wire_connect("", &fd) == DT_ERR_INVALID && dt_wire_listen("", &fd) == DT_ERR_INVALID, "no name");
    snprintf(name, sizeof name, "%-*d", ROOM, (int)getpid());
    CHECK_OK(dt_wire_listen(name, &fd));
    struct sockaddr_un address;
    socklen_t bytes = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 && address.sun_path[0] == 0 && address.sun_path[1] == name[0],
          "a file");
    CHECK_OK(dt_wire_connect(name, &other));
    close(other);
    close(fd);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK(dt_wire_listen(name, &fd) == DT_ERR_INVALID && dt_wire_connect(name, &fd) == DT_ERR_INVALID, "one more");
}

/* The end of a connection is recognised whatever an earlier call has left in errno. */
static void an_end(void)
{
    struct dt_wire_reader reader = {.end = DT_WIRE_RANK, .passed_fd = -1};
    int fd[2];
    bool closed = false;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    close(fd[0]);
    errno = EAGAIN;
    CHECK(dt_wire_receive(&reader, fd[1], &closed) == DT_OK && closed, "an end after EAGAIN");
    dt_wire_finish(&reader);
    close(fd[1]);
}

static const struct test_case cases[] = {
    {"each rule", each_rule},
    {"an end", an_end},
    {"names", names},
};

TEST_MAIN(cases)
