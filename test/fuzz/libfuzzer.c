/* libFuzzer's side: it calls this with bytes that reach code which no earlier ones have reached. Which target, says DTBENCH_FUZZ. */
#include "test/fuzz/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct fuzz_target *target; /* libFuzzer hands nothing on from call to call */
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
