#include "lib/device/range.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

void dt_range_push(const char *name, int number)
{
    char text[64];
    if (number < 0) {
        nvtxRangePushA(name);
        return;
    }
    snprintf(text, sizeof text, "%s %d", name, number);
    nvtxRangePushA(text);
}

void dt_range_pop(void)
{
    nvtxRangePop();
}
