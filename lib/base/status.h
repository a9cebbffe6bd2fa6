/* Status codes, and the text of a failure.
 *
 * Every function that can fail returns dt_status: DT_OK or a negative code. Each thread keeps the
 * text of its last failure, as with errno, so that cli can print it without a buffer in every
 * signature. Queued work fails later, on another thread: the stream keeps status and text, and
 * dt_stream_synchronize gives both to the waiting thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum dt_status {
    DT_OK = 0,
    DT_ERR_INVALID = -1,     /* an argument, option or config value is wrong */
    DT_ERR_OOM = -2,         /* the device's memory (or its limit) is used up: a result, not a fault */
    DT_ERR_HOST_MEMORY = -3, /* malloc failed */
    DT_ERR_IO = -4,          /* a file could not be read or written */
    DT_ERR_COMM = -5,        /* a communicator failed or a peer is gone */
    DT_ERR_TIMEOUT = -6,     /* a step or the start-up exceeded its time limit */
    DT_ERR_DEVICE = -7,      /* the device or one of its libraries failed */
    DT_ERR_UNAVAILABLE = -8, /* not compiled in, or the machine lacks it */
    DT_ERR_INTERRUPTED = -9, /* SIGINT, SIGTERM or SIGHUP */
    DT_ERR_VERIFY = -10,     /* losses differ from one device's */
    DT_ERR_WORLD = -11,      /* the launcher's ranks and the config disagree */
} dt_status;

/* Return early with a failure; only in functions that own nothing yet, or only variables that are
 * freed, ended or destroyed as below. */
#define DT_TRY(call)                                                                                                                       \
    do {                                                                                                                                   \
        dt_status dt_try_status_ = (call);                                                                                                 \
        if (dt_try_status_ < 0)                                                                                                            \
            return dt_try_status_;                                                                                                         \
    } while (0)

/* One of several steps that are all skipped after a failure, except the clean-up at the end. Also
 * for libraries whose status is 0 after success: CUDA, cuBLASLt, oneDNN. */
#define DT_THEN(status, call)                                                                                                              \
    do {                                                                                                                                   \
        if ((status) == 0)                                                                                                                 \
            (status) = (call);                                                                                                             \
    } while (0)

/* Before the declaration of a variable that must have a value from the beginning: what it owns is
 * given back wherever its block ends, after the value of a `return` is computed.
 * Variables end in the reverse order of their declarations: what one points to is declared first.
 *   DT_FREED                a pointer from malloc, or NULL
 *   DT_ENDED(finish)        a struct: finish(&variable), which takes a zeroed one
 *   DT_DESTROYED(destroy)   a pointer: destroy(variable), which takes NULL. The header that declares
 *                           `destroy` has DT_DESTROYS(destroy, type) after it */
#define DT_FREED __attribute__((cleanup(dt_free_variable)))
#define DT_ENDED(finish) __attribute__((cleanup(finish)))
#define DT_DESTROYED(destroy) __attribute__((cleanup(destroy##_variable)))
#define DT_DESTROYS(destroy, type)                                                                                                         \
    static inline void destroy##_variable(type **variable)                                                                                 \
    {                                                                                                                                      \
        destroy(*variable);                                                                                                                \
    }

static inline void dt_free_variable(void *variable)
{
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    free(memory);
}

/* The value of a pointer that such a variable owns, which is passed on: the variable becomes NULL. */
#define DT_PASSED_ON(variable)                                                                                                             \
    ({                                                                                                                                     \
        __typeof__(variable) passed_on_ = (variable);                                                                                      \
        (variable) = NULL;                                                                                                                 \
        passed_on_;                                                                                                                        \
    })

enum { DT_ERROR_BYTES = 4096 };

/* Keep `format` as this thread's failure text (at most 1023 bytes, one line, printable:
 * lib/base/text.h) and return `status`. */
dt_status dt_fail(dt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* DT_OK if an allocation has succeeded (memory: the pointer is not NULL); else DT_ERR_HOST_MEMORY,
 * and `format` is kept as by dt_fail. */
dt_status dt_allocated(bool memory, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text of this thread's last failure; "" if there was none. Valid until the thread's next
 * dt_fail. */
const char *dt_error_message(void);

/* Failures that are reported together, a line each: all errors in a config. Starts zeroed. */
struct dt_failures {
    dt_status status; /* the first failure's */
    int left_out;     /* failures for which there was no room */
    char text[DT_ERROR_BYTES - 64];
};

/* Add the thread's last failure, if `status` is one. */
void dt_failures_add(struct dt_failures *failures, dt_status status);
/* DT_OK, or the first failure's status; dt_error_message() then has all texts, separated by line
 * feeds. */
dt_status dt_failures_end(const struct dt_failures *failures);
