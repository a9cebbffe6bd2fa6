#include "lib/launch/launch.h"

#include "lib/base/machine.h"
#include "lib/launch/launch_parts.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct dt_launch_rank {
    int fd;
    char *input;
    struct dt_wire_reader reader; /* used by the listening thread once it runs */
    pthread_t listener;
    atomic_bool stop, finished;
    pthread_mutex_t sending; /* progress may come from a stream's thread while the host thread reports a failure */
    pthread_mutex_t dumping;
    void (*dump)(void *context);
    void *dump_context;
};

static dt_status receive_input(struct dt_launch_rank *rank)
{
    struct dt_wire_message message;
    for (;;) {
        int have = dt_wire_next(&rank->reader, &message);
        if (have < 0)
            return (dt_status)have;
        if (have > 0)
            break;
        bool end;
        DT_TRY(dt_wire_receive(&rank->reader, rank->fd, &end));
        if (end)
            return dt_fail(DT_ERR_COMM, "the supervisor went away before it sent the input");
    }
    if (message.type != DT_WIRE_INPUT)
        return dt_fail(DT_ERR_COMM, "the supervisor sent no input");
    rank->input = malloc(message.length + 1);
    DT_TRY(dt_allocated(rank->input, "no memory for the input"));
    memcpy(rank->input, message.text, message.length + 1);
    return DT_OK;
}

static dt_status take_stderr(struct dt_launch_rank *rank)
{
    int fd = rank->reader.passed_fd;
    if (fd < 0)
        return DT_OK;
    if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return dt_fail(DT_ERR_IO, "cannot use the supervisor's stderr: %s", strerror(errno));
    close(fd);
    rank->reader.passed_fd = -1;
    return DT_OK;
}

static dt_status send_text(struct dt_launch_rank *rank, enum dt_wire_type type, int value, const char *text)
{
    pthread_mutex_lock(&rank->sending);
    dt_status status = dt_wire_send(rank->fd, type, value, text, strlen(text), -1);
    pthread_mutex_unlock(&rank->sending);
    return status;
}

static void run_dump(struct dt_launch_rank *rank)
{
    pthread_mutex_lock(&rank->dumping);
    if (rank->dump)
        rank->dump(rank->dump_context);
    pthread_mutex_unlock(&rank->dumping);
    send_text(rank, DT_WIRE_DUMPED, 0, ""); /* the supervisor waits for this before it ends the process */
}

static void *listen_to_supervisor(void *context)
{
    struct dt_launch_rank *rank = context;
    for (;;) {
        struct dt_wire_message message;
        int have = dt_wire_next(&rank->reader, &message);
        for (; have > 0; have = dt_wire_next(&rank->reader, &message)) {
            if (message.type == DT_WIRE_STOP)
                atomic_store(&rank->stop, true);
            else if (message.type == DT_WIRE_DUMP)
                run_dump(rank);
        }
        bool end = false;
        if (have < 0 || dt_wire_receive(&rank->reader, rank->fd, &end) < 0 || end) {
            if (!atomic_load(&rank->finished))
                _exit(EXIT_FAILURE);
            return NULL;
        }
    }
}

static dt_status introduce(struct dt_launch_rank *rank, const char *socket_name, int number)
{
    DT_TRY(dt_wire_connect(socket_name, &rank->fd));
    DT_TRY(dt_wire_send(rank->fd, DT_WIRE_HELLO, number, NULL, 0, -1));
    DT_TRY(receive_input(rank));
    return take_stderr(rank);
}

dt_status dt_launch_rank_connect(const char *socket_name, int number, struct dt_launch_rank **out)
{
    struct dt_launch_rank *rank = calloc(1, sizeof *rank);
    DT_TRY(dt_allocated(rank, "no memory for the connection to the supervisor"));
    rank->fd = rank->reader.passed_fd = -1;
    pthread_mutex_init(&rank->sending, NULL);
    pthread_mutex_init(&rank->dumping, NULL);
    dt_status status = introduce(rank, socket_name, number);
    int error = status == DT_OK ? dt_thread_start(&rank->listener, listen_to_supervisor, rank) : 0;
    if (error)
        status = dt_fail(DT_ERR_IO, "cannot start the thread that listens to the supervisor: %s", strerror(error));
    if (status == DT_OK) {
        *out = rank;
        return DT_OK;
    }
    if (rank->fd >= 0)
        close(rank->fd);
    dt_wire_finish(&rank->reader);
    free(rank->input);
    free(rank);
    return status;
}

const char *dt_launch_rank_input(const struct dt_launch_rank *rank)
{
    return rank->input;
}

dt_status dt_launch_rank_progress(struct dt_launch_rank *rank, const char *text)
{
    return send_text(rank, DT_WIRE_PROGRESS, 0, text);
}

dt_status dt_launch_rank_result(struct dt_launch_rank *rank, const char *text)
{
    return send_text(rank, DT_WIRE_RESULT, 0, text);
}

dt_status dt_launch_rank_failed(struct dt_launch_rank *rank, dt_status failure, const char *text)
{
    return send_text(rank, DT_WIRE_FAILED, failure, text);
}

bool dt_launch_rank_stop_requested(const struct dt_launch_rank *rank)
{
    return atomic_load(&rank->stop);
}

void dt_launch_rank_on_dump(struct dt_launch_rank *rank, void (*dump)(void *context), void *context)
{
    pthread_mutex_lock(&rank->dumping);
    rank->dump = dump;
    rank->dump_context = context;
    pthread_mutex_unlock(&rank->dumping);
}

void dt_launch_rank_finish(struct dt_launch_rank *rank)
{
    if (!rank)
        return;
    atomic_store(&rank->finished, true);
    send_text(rank, DT_WIRE_DONE, 0, ""); /* no check: the supervisor may be gone */
    shutdown(rank->fd, SHUT_RDWR);        /* wakes the listener */
    pthread_join(rank->listener, NULL);
    close(rank->fd);
    dt_wire_finish(&rank->reader);
    pthread_mutex_destroy(&rank->sending);
    pthread_mutex_destroy(&rank->dumping);
    free(rank->input);
    free(rank);
}
