/* The device memory that each piece of work on the emulated GPU accesses: for tests that count
 * launches and passes over memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One kernel, product, copy or fill. Bytes are those of the distinct pages that it has read, and
 * that it has written: what it reads twice counts once, and so does a page of which it touches a
 * part. A page that is written before it is read counts as written alone. */
struct emulator_touch {
    const char *name;
    size_t read_bytes, written_bytes;
};

/* From here on work is watched, of one stream; what is queued before must have ended. false: this
 * processor does not tell a read that faults from a write, and nothing is watched. */
bool emulator_watch_begin(void);
/* No longer: all work has ended. out gets the first `room` pieces in their sequence. Returns how
 * many there were. */
size_t emulator_watch_end(struct emulator_touch *out, size_t room);

#ifdef __cplusplus
}
#endif
