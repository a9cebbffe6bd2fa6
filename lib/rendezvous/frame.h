/* Frames: what travels on a link once its ends have found each other, and the rules that every frame keeps. Included in this folder, and by
 * the tests of these rules. */
#ifndef LIB_RENDEZVOUS_FRAME_H
#define LIB_RENDEZVOUS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What travels: a struct dt_frame, then its `bytes`. Both machines are of one kind: no byte order is turned. */
enum dt_frame_type {
    DT_FRAME_WELCOME = 1, /* rank 0: you are who you say; the others are still to come */
    DT_FRAME_REFUSED,     /* rank 0: the meeting has failed for you; count: the status, negated; a text */
    DT_FRAME_MET,         /* rank 0: all are here */
    DT_FRAME_GATHER,      /* to rank 0: index of count gives a piece for gathering `sequence` of `group` */
    DT_FRAME_GATHERED,    /* from rank 0: all pieces */
    DT_FRAME_DIFFERENT,   /* from rank 0 instead: the pieces are not alike */
    DT_FRAME_WITHDRAW,    /* to rank 0: I wait no longer, who is missing? */
    DT_FRAME_MISSING,     /* from rank 0, to all who gave a piece: a byte for each of the group, 1 for whom is missing */
    DT_FRAME_GOODBYE,     /* to rank 0: I leave in order */
    DT_FRAME_LEFT,        /* from rank 0: rank `index` did so */
    DT_FRAME_LOST,        /* from rank 0: rank `index` is gone without a goodbye; count: the enum dt_frame_fault that it was closed for */
    DT_FRAME_ASK,    /* to rank 0, and from it to all: rank `index` asks how far you are in `group`; sequence distinguishes its questions */
    DT_FRAME_STATE,  /* to rank 0, and from it to rank `index`: rank `count` answers with a struct dt_rendezvous_progress */
    DT_FRAME_FAILED, /* to rank 0, and from it to all: rank `index` gives up; count: the status, negated; a text */
    DT_FRAME_REDUCE, /* to rank 0: as DT_FRAME_GATHER, but the pieces are doubles, and DT_FRAME_GATHERED has their sums and the highest */
    DT_FRAME_GIVE, /* to rank 0: as DT_FRAME_GATHER, but the group's first rank alone gets the pieces; DT_FRAME_GATHERED of the others is empty */
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
    DT_FRAME_BAD_TYPE, /* unknown, or none that is sent in this direction or at this time */
    DT_FRAME_BAD_INDEX,
    DT_FRAME_BAD_COUNT,
    DT_FRAME_BAD_UNUSED, /* a part that this type does not use is not 0 */
    DT_FRAME_BAD_LENGTH,
    DT_FRAME_TOO_MANY, /* fine, but one more than a rank may have open */
    DT_FRAME_UNREAD,   /* not of a frame: the other end reads nothing any more */
    DT_FRAME_FAULTS
};
/* "it sent a frame with an index out of range" */
const char *dt_frame_fault_text(enum dt_frame_fault fault);

/* Who reads a link, which decides what may come. */
struct dt_frame_reader {
    bool hub; /* rank 0 reads what rank `rank` sends; else rank `rank` reads what rank 0 sends */
    bool met; /* all ranks have met */
    uint32_t rank, size;
};

/* Take a frame's fixed part out of data [have]. False: it is not there yet. *fault: which rule it breaks; *out is then of no use, and
 * otherwise all its numbers are within their bounds, so that they may be used as indices and lengths. Allocates nothing. */
bool dt_frame_decode(const struct dt_frame_reader *reader, const char *data, size_t have, struct dt_frame *out, enum dt_frame_fault *fault);

#endif
