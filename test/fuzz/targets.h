/* What reads bytes of others, one entry each: called with any bytes, it must neither crash nor ask for memory beyond reason. replay.c
 * calls it with the stored corpus. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name; /* of its folder in test/fuzz/corpus, too */
    void (*run)(const uint8_t *data, size_t bytes);
};

/* By number from 0; NULL past the last. */
const struct fuzz_target *fuzz_target_at(int index);
/* NULL: there is none of this name. */
const struct fuzz_target *fuzz_target_find(const char *name);
