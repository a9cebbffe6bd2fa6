/* The functions that read untrusted bytes, an entry for each: with any bytes it must neither crash
 * nor allocate excessive memory. replay.c calls it with the stored corpus. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name; /* also the name of its folder in test/fuzz/corpus */
    void (*run)(const uint8_t *data, size_t bytes);
};

/* Target `index`, from 0; NULL past the last. */
const struct fuzz_target *fuzz_target_at(int index);
/* NULL: there is none of this name. */
const struct fuzz_target *fuzz_target_find(const char *name);
