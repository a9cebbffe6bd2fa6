#include "lib/kernels/cpu/amx.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

bool dt_cpu_amx_usable(void)
{
    unsigned a, b, c, d = 0;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    bool tiles = d >> 24 & 1, bf16 = d >> 22 & 1;
    /* of arch_prctl: a process asks once for the state of the tile registers, Linux 5.16 */
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return tiles && bf16 && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
