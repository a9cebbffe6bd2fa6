#include "schedules/experiment.h"

#include <stddef.h>

const char *paradigm_name(enum paradigm_kind kind)
{
    static const char *const names[] = {[PARADIGM_NONE] = "none", [PARADIGM_DDP] = "ddp", [PARADIGM_PDP] = "pdp", [PARADIGM_FSDP] = "fsdp"};
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}
