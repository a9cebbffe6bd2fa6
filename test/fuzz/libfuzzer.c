/* The entry that libFuzzer calls, with bytes that may reach new code. DTBENCH_FUZZ names the
 * target. */
#include "test/fuzz/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct fuzz_target *target; /* a global, since libFuzzer passes no context */
    const char *name = getenv("DTBENCH_FUZZ");
    if (!target)
        target = name ? fuzz_target_find(name) : NULL;
    if (!target) {
        fprintf(stderr, "DTBENCH_FUZZ names no target: scripts/fuzz sets it\n");
        _exit(2);
    }
    target->run(data, bytes);
    return 0;
}
