/* Frames: the messages on a link after its ends have proved their identity, and the rules that each
 * frame must keep. Included in this folder, and by the tests of these rules. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message is a struct dt_frame, followed by its `bytes`. All machines have the same byte order:
 * none is converted. */
enum dt_frame_type {
    DT_FRAME_WELCOME = 1, /* rank 0: you are accepted; other ranks are still missing */
    DT_FRAME_REFUSED,     /* rank 0: the meeting has failed for you; count: the status, negated; a text */
    DT_FRAME_MET,         /* rank 0: all ranks are here */
    DT_FRAME_GATHER,      /* to rank 0: rank `index` of `count` gives a piece for gathering `sequence` of `group` */
    DT_FRAME_GATHERED,    /* from rank 0: all pieces */
    DT_FRAME_DIFFERENT,   /* from rank 0 instead: the pieces do not match */
    DT_FRAME_WITHDRAW,    /* to rank 0: this rank stops waiting, which ranks are missing? */
    DT_FRAME_MISSING,     /* from rank 0, to all that gave a piece: a byte for each rank of the group, 1 if it is missing */
    DT_FRAME_GOODBYE,     /* to rank 0: this rank leaves normally */
    DT_FRAME_LEFT,        /* from rank 0: rank `index` has left */
    DT_FRAME_LOST,        /* from rank 0: rank `index` is gone without a goodbye; count: the enum dt_frame_fault for which it was closed */
    /* to rank 0, and from it to all: rank `index` asks for the progress in `group`; sequence
     * distinguishes its questions */
    DT_FRAME_ASK,
    DT_FRAME_STATE,  /* to rank 0, and from it to rank `index`: rank `count` answers with a struct dt_rendezvous_progress */
    DT_FRAME_FAILED, /* to rank 0, and from it to all: rank `index` gives up; count: the status, negated; a text */
    DT_FRAME_REDUCE, /* to rank 0: as DT_FRAME_GATHER, but the pieces are doubles, and DT_FRAME_GATHERED has their sums and the highest */
    /* to rank 0: as DT_FRAME_GATHER, but only the group's first rank gets the pieces;
     * DT_FRAME_GATHERED of the others is empty */
    DT_FRAME_GIVE,
    DT_FRAME_TYPES
};

struct dt_frame {
    uint32_t type, index, count, unused;
    uint64_t group, sequence, bytes;
};

enum {
    DT_FRAME_STATE_BYTES = 16,         /* a struct dt_rendezvous_progress */
    DT_FRAME_TEXT_BYTES = 1023,        /* the longest text */
    DT_FRAME_PIECE_BYTES = 256 << 20,  /* one rank's part of a gathering: a trace is the longest */
    DT_FRAME_REDUCED_BYTES = 64 << 10, /* one rank's numbers to reduce */
    DT_FRAME_GATHERED_BYTES_LOG2 = 32, /* all parts together */
};

/* What can be wrong with a frame. 0: nothing. */
enum dt_frame_fault {
    DT_FRAME_FINE,
    DT_FRAME_BAD_TYPE, /* unknown, or not sent in this direction or at this time */
    DT_FRAME_BAD_INDEX,
    DT_FRAME_BAD_COUNT,
    DT_FRAME_BAD_UNUSED, /* a part that this type does not use is not 0 */
    DT_FRAME_BAD_LENGTH,
    DT_FRAME_TOO_MANY, /* valid, but exceeds the number that a rank may have open */
    DT_FRAME_UNREAD,   /* not a frame's fault: the other end has stopped reading */
    DT_FRAME_FAULTS
};
/* "it sent a frame with an index out of range" */
const char *dt_frame_fault_text(enum dt_frame_fault fault);

/* The reader of a link, which determines the valid frames. */
struct dt_frame_reader {
    bool hub; /* rank 0 reads what rank `rank` sends; else rank `rank` reads what rank 0 sends */
    bool met; /* all ranks have met */
    uint32_t rank, size;
};

/* Read a frame's fixed part from data [have]. False: it has not arrived yet. *fault: the rule that
 * it breaks; then *out must not be used. Otherwise all numbers of *out are within their bounds, so
 * they may be used as indices and lengths. Allocates nothing. */
bool dt_frame_decode(const struct dt_frame_reader *reader, const char *data, size_t have, struct dt_frame *out, enum dt_frame_fault *fault);
