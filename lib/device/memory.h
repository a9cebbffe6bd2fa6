/* The ledger of one memory, a device's own or its share of the host's: current and peak bytes, by
 * category and in total.
 *
 * Allocations count in program order, the order in which a rank's host thread makes and frees them,
 * at the requested size rounded up to DT_ALLOCATION_BYTES. A rank's program order does not depend
 * on timing or on the device, so cpu, cuda and sim report the same bytes, and `dtbench check` knows
 * them beforehand. Memory that libraries allocate themselves (oneDNN's scratchpads, per-thread
 * tiles) is not in the ledger. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_ALLOCATION_BYTES = 256, DT_MEMORY_TEXT = 24 };

enum dt_category { DT_PARAMETERS, DT_GRADIENTS, DT_OPTIMIZER, DT_ACTIVATIONS, DT_COMMUNICATION, DT_WORKSPACE, DT_CATEGORY_COUNT };

const char *dt_category_name(enum dt_category category); /* "parameters", ... as in records */

struct dt_memory_bytes {
    uint64_t current_bytes[DT_CATEGORY_COUNT];
    uint64_t peak_bytes[DT_CATEGORY_COUNT]; /* the highest of each category */
    uint64_t current_total_bytes;
    uint64_t peak_total_bytes; /* the highest sum, not the sum of the highest */
};

/* Both memories of a device. */
struct dt_memory_usage {
    struct dt_memory_bytes device; /* the device's own memory */
    struct dt_memory_bytes host;   /* memory of dt_alloc_host */
};

struct dt_ledger {
    struct dt_memory_bytes usage;
    uint64_t limit_bytes; /* 0: no limit */
    bool on_host;         /* for error texts */
};

/* Bytes an allocation of `bytes` counts as. */
uint64_t dt_ledger_rounded(uint64_t bytes);

/* Count an allocation. If it would exceed the limit, nothing is counted, and DT_ERR_OOM has a text
 * with the category, sizes and the limit. */
dt_status dt_ledger_add(struct dt_ledger *ledger, enum dt_category category, uint64_t bytes);
void dt_ledger_remove(struct dt_ledger *ledger, enum dt_category category, uint64_t bytes);

/* "23.5 KiB", "1.25 GiB": for people, with four digits, in the largest unit of which there is at
 * least one. Returns text. */
const char *dt_memory_text(uint64_t bytes, char text[DT_MEMORY_TEXT]);

/* Peaks restart from what is allocated now. */
void dt_ledger_reset_peak(struct dt_ledger *ledger);
/* Raise peaks to at least those of `usage`. */
void dt_ledger_raise_peak(struct dt_ledger *ledger, const struct dt_memory_bytes *usage);
