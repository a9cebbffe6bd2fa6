#include "lib/launch/launch_parts.h"

#include "lib/base/grow.h"

#include <errno.h>
#include <stdio.h>
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

enum { RECEIVE_BYTES = 64 << 10, LINE_BYTES = 4 << 10, DOCUMENT_BYTES = 256 << 20 };

/* Allowed values of each type. */
enum value { NO_VALUE, A_RANK, A_FAILURE };
static const struct rule {
    const char *name;
    enum dt_wire_end to;
    enum value value;
    uint64_t most_bytes; /* maximum length of its text */
} rules[DT_WIRE_TYPES] = {
    [DT_WIRE_HELLO] = {"hello", DT_WIRE_SUPERVISOR, A_RANK, 0},
    [DT_WIRE_INPUT] = {"input", DT_WIRE_RANK, NO_VALUE, DOCUMENT_BYTES},
    [DT_WIRE_PROGRESS] = {"progress", DT_WIRE_SUPERVISOR, NO_VALUE, LINE_BYTES},
    [DT_WIRE_RESULT] = {"result", DT_WIRE_SUPERVISOR, NO_VALUE, DOCUMENT_BYTES},
    [DT_WIRE_FAILED] = {"failure", DT_WIRE_SUPERVISOR, A_FAILURE, LINE_BYTES},
    [DT_WIRE_STOP] = {"stop", DT_WIRE_RANK, NO_VALUE, 0},
    [DT_WIRE_DUMP] = {"dump", DT_WIRE_RANK, NO_VALUE, 0},
    [DT_WIRE_DUMPED] = {"dumped", DT_WIRE_SUPERVISOR, NO_VALUE, 0},
    [DT_WIRE_DONE] = {"done", DT_WIRE_SUPERVISOR, NO_VALUE, 0},
};

/* An abstract address is a NUL and the name; the length is passed separately. */
static dt_status make_address(const char *name, struct sockaddr_un *out, socklen_t *out_length)
{
    size_t length = strlen(name);
    if (length == 0 || length > sizeof out->sun_path - 1)
        return dt_fail(DT_ERR_INVALID, "\"%s\" is no name for a supervisor's socket", name);
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, name, length);
    *out_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return DT_OK;
}

/* Make the supervisor's socket, or a rank's connection to it. */
static dt_status open_socket(const char *name, bool listens, int *out_fd)
{
    struct sockaddr_un address;
    socklen_t length = 0;
    DT_TRY(make_address(name, &address, &length));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (listens ? SOCK_NONBLOCK : 0), 0);
    if (fd < 0)
        return dt_fail(DT_ERR_IO, "cannot make a socket %s: %s", listens ? "for the ranks" : "to the supervisor", strerror(errno));
    *out_fd = fd;
    if (listens ? bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 1024) == 0
                : connect(fd, (struct sockaddr *)&address, length) == 0)
        return DT_OK;
    dt_status status = listens ? dt_fail(DT_ERR_IO, "cannot listen for the ranks: %s", strerror(errno))
                               : dt_fail(DT_ERR_COMM, "the supervisor does not answer: %s", strerror(errno));
    close(fd);
    *out_fd = -1;
    return status;
}

dt_status dt_wire_listen(const char *name, int *out_fd)
{
    return open_socket(name, true, out_fd);
}

dt_status dt_wire_connect(const char *name, int *out_fd)
{
    return open_socket(name, false, out_fd);
}

dt_status dt_wire_send(int fd, enum dt_wire_type type, int32_t value, const char *text, size_t length, int pass_fd)
{
    struct header header = {(uint32_t)type, value, length};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)text, length}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (pass_fd >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pass_fd, sizeof pass_fd);
    }
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return dt_fail(DT_ERR_COMM, "cannot reach the process at the other end: %s", strerror(errno));
        message.msg_control = NULL;
        message.msg_controllen = 0;
        for (int i = 0; i < 2 && sent > 0; i++) {
            size_t taken = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + taken;
            parts[i].iov_len -= taken;
            sent -= (ssize_t)taken;
        }
    }
    return DT_OK;
}

static dt_status make_room(struct dt_wire_reader *reader)
{
    if (reader->start > 0) {
        memmove(reader->data, reader->data + reader->start, reader->used - reader->start);
        reader->used -= reader->start;
        reader->start = 0;
    }
    size_t wanted = reader->used + RECEIVE_BYTES;
    return dt_allocated(DT_ROOM_FOR(reader->data, reader->used, reader->capacity, RECEIVE_BYTES), "no memory for a message of %zu bytes",
                        wanted);
}

dt_status dt_wire_receive(struct dt_wire_reader *reader, int fd, bool *out_end)
{
    *out_end = false;
    DT_TRY(make_room(reader));
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {reader->data + reader->used, reader->capacity - reader->used};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return DT_OK;
    if (got <= 0) { /* a reset connection counts as closed */
        *out_end = true;
        return DT_OK;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        if (reader->passed_fd >= 0)
            close(reader->passed_fd);
        memcpy(&reader->passed_fd, CMSG_DATA(c), sizeof reader->passed_fd);
    }
    reader->used += (size_t)got;
    return DT_OK;
}

static bool is_value(enum value kind, int32_t value)
{
    switch (kind) {
    case NO_VALUE: return value == 0;
    case A_RANK: return value >= 0; /* the supervisor checks if that rank exists */
    case A_FAILURE: return value < DT_OK && value >= DT_ERR_WORLD;
    }
    return false;
}

static dt_status check(enum dt_wire_end end, const struct header *header)
{
    const struct rule *rule = &rules[header->type < DT_WIRE_TYPES ? header->type : 0];
    if (!rule->name || rule->to != end)
        return dt_fail(DT_ERR_COMM, "a message of a type that nobody sends there: %u", header->type);
    if (!is_value(rule->value, header->value))
        return dt_fail(DT_ERR_COMM, "a message of type %s with a value out of range: %d", rule->name, header->value);
    if (header->length > rule->most_bytes)
        return dt_fail(DT_ERR_COMM, "a message of type %s with a length out of range: %llu bytes", rule->name,
                       (unsigned long long)header->length);
    return DT_OK;
}

int dt_wire_next(struct dt_wire_reader *reader, struct dt_wire_message *out)
{
    struct header header;
    if (reader->used - reader->start < sizeof header)
        return 0;
    memcpy(&header, reader->data + reader->start, sizeof header);
    DT_TRY(check(reader->end, &header));
    if (reader->used - reader->start - sizeof header < header.length)
        return 0;
    DT_TRY(dt_allocated(dt_resize(&reader->text, header.length + 1), "no memory for a message of %llu bytes",
                        (unsigned long long)header.length));
    memcpy(reader->text, reader->data + reader->start + sizeof header, header.length);
    reader->text[header.length] = 0;
    reader->start += sizeof header + header.length;
    *out = (struct dt_wire_message){(enum dt_wire_type)header.type, header.value, header.length, reader->text};
    return 1;
}

void dt_wire_finish(struct dt_wire_reader *reader)
{
    free(reader->data);
    free(reader->text);
    if (reader->passed_fd >= 0)
        close(reader->passed_fd);
    *reader = (struct dt_wire_reader){.end = reader->end, .passed_fd = -1};
}
