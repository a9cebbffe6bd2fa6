#include "lib/rendezvous/frame.h"

#include "lib/base/status.h"

#include <string.h>

/* Allowed values of a frame's number. */
enum bound {
    ZERO,
    RANK,    /* a rank of the world */
    OWN,     /* the rank that sends to rank 0; or the rank that reads from rank 0 */
    MEMBERS, /* 1 to the world's size */
    PLACE,   /* below the frame's count */
    STATUS,  /* a failure, negated */
    FAULT,   /* an enum dt_frame_fault */
};

struct rule {
    bool known;
    bool meeting; /* sent only before all have met */
    enum bound index, count;
    bool of_group; /* has a group and a number; else both are 0 */
    uint64_t least_bytes, most_bytes;
};

static const struct rule to_hub[DT_FRAME_TYPES] = {
    [DT_FRAME_GATHER] = {true, false, PLACE, MEMBERS, true, 0, DT_FRAME_PIECE_BYTES},
    [DT_FRAME_REDUCE] = {true, false, PLACE, MEMBERS, true, sizeof(double), DT_FRAME_REDUCED_BYTES},
    [DT_FRAME_GIVE] = {true, false, PLACE, MEMBERS, true, 0, DT_FRAME_PIECE_BYTES},
    [DT_FRAME_WITHDRAW] = {true, false, ZERO, ZERO, true, 0, 0},
    [DT_FRAME_GOODBYE] = {true, false, ZERO, ZERO, false, 0, 0},
    [DT_FRAME_ASK] = {true, false, OWN, ZERO, true, 0, 0},
    [DT_FRAME_STATE] = {true, false, RANK, OWN, true, DT_FRAME_STATE_BYTES, DT_FRAME_STATE_BYTES},
    [DT_FRAME_FAILED] = {true, false, OWN, STATUS, false, 0, DT_FRAME_TEXT_BYTES},
};

static const struct rule from_hub[DT_FRAME_TYPES] = {
    [DT_FRAME_WELCOME] = {true, true, ZERO, ZERO, false, 0, 0},
    [DT_FRAME_REFUSED] = {true, true, ZERO, STATUS, false, 0, DT_FRAME_TEXT_BYTES},
    [DT_FRAME_MET] = {true, true, ZERO, ZERO, false, 0, 0},
    [DT_FRAME_GATHERED] = {true, false, ZERO, ZERO, true, 0, UINT64_C(1) << DT_FRAME_GATHERED_BYTES_LOG2},
    [DT_FRAME_DIFFERENT] = {true, false, ZERO, ZERO, true, 0, 0},
    [DT_FRAME_MISSING] = {true, false, ZERO, ZERO, true, 0, INT32_MAX}, /* at most the world's size: see below */
    [DT_FRAME_LEFT] = {true, false, RANK, ZERO, false, 0, 0},
    [DT_FRAME_LOST] = {true, false, RANK, FAULT, false, 0, 0},
    [DT_FRAME_ASK] = {true, false, RANK, ZERO, true, 0, 0},
    [DT_FRAME_STATE] = {true, false, OWN, RANK, true, DT_FRAME_STATE_BYTES, DT_FRAME_STATE_BYTES},
    [DT_FRAME_FAILED] = {true, false, RANK, STATUS, false, 0, DT_FRAME_TEXT_BYTES},
};

const char *dt_frame_fault_text(enum dt_frame_fault fault)
{
    static const char *const texts[DT_FRAME_FAULTS] = {
        [DT_FRAME_FINE] = "its connection closed, so it was killed or crashed",
        [DT_FRAME_BAD_TYPE] = "it sent a frame of a type that nobody sends here",
        [DT_FRAME_BAD_INDEX] = "it sent a frame with an index out of range",
        [DT_FRAME_BAD_COUNT] = "it sent a frame with a count out of range",
        [DT_FRAME_BAD_UNUSED] = "it sent a frame with numbers where there are none",
        [DT_FRAME_BAD_LENGTH] = "it sent a frame with a length out of range",
        [DT_FRAME_TOO_MANY] = "it began more gatherings than a rank waits for",
        [DT_FRAME_UNREAD] = "it read nothing for 10 s, so it hangs or was stopped",
    };
    return texts[fault];
}

static bool within(enum bound bound, uint32_t value, const struct dt_frame_reader *reader, const struct dt_frame *frame)
{
    switch (bound) {
    case ZERO: return value == 0;
    case RANK: return value < reader->size;
    case OWN: return value == reader->rank;
    case MEMBERS: return value >= 1 && value <= reader->size;
    case PLACE: return value < frame->count;
    case STATUS: return value >= 1 && value <= (uint32_t)-(int)DT_ERR_WORLD;
    case FAULT: return value < DT_FRAME_FAULTS;
    }
    return false;
}

static enum dt_frame_fault check(const struct dt_frame_reader *reader, const struct dt_frame *frame)
{
    const struct rule *rules = reader->hub ? to_hub : from_hub;
    if (frame->type >= DT_FRAME_TYPES || !rules[frame->type].known || rules[frame->type].meeting == reader->met)
        return DT_FRAME_BAD_TYPE;
    const struct rule *rule = &rules[frame->type];
    if (!within(rule->count, frame->count, reader, frame))
        return DT_FRAME_BAD_COUNT;
    if (!within(rule->index, frame->index, reader, frame))
        return DT_FRAME_BAD_INDEX;
    if (frame->unused || (!rule->of_group && (frame->group || frame->sequence)))
        return DT_FRAME_BAD_UNUSED;
    if (frame->bytes < rule->least_bytes || frame->bytes > rule->most_bytes)
        return DT_FRAME_BAD_LENGTH;
    if (frame->type == DT_FRAME_MISSING && frame->bytes > reader->size)
        return DT_FRAME_BAD_LENGTH;
    /* no overflow: both factors are below 2^32 */
    if (frame->type == DT_FRAME_GATHER && frame->count * frame->bytes > UINT64_C(1) << DT_FRAME_GATHERED_BYTES_LOG2)
        return DT_FRAME_BAD_LENGTH;
    if (frame->type == DT_FRAME_REDUCE && frame->bytes % sizeof(double))
        return DT_FRAME_BAD_LENGTH;
    return DT_FRAME_FINE;
}

bool dt_frame_decode(const struct dt_frame_reader *reader, const char *data, size_t have, struct dt_frame *out, enum dt_frame_fault *fault)
{
    *fault = DT_FRAME_FINE;
    if (have < sizeof *out)
        return false;
    memcpy(out, data, sizeof *out);
    *fault = check(reader, out);
    return true;
}
