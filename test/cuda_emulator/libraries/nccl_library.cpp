/* The emulated NCCL in place of lib/comm/nccl/library.c. */
#include "lib/comm/nccl/library.h"

#include "test/cuda_emulator/libraries/named.h"

#include <cstdlib>

dt_status dt_nccl_load(struct dt_nccl *out)
{
    DT_TRY(library_that_is_named("NCCL", "DTBENCH_LIBNCCL"));
    *out = {ncclGetVersion, ncclGetUniqueId,   ncclGetErrorString, ncclGetLastError, ncclCommInitRankConfig,
            ncclCommSplit,  ncclCommFinalize,  ncclCommDestroy,    ncclCommAbort,    ncclCommGetAsyncError,
            ncclAllReduce,  ncclReduceScatter, ncclAllGather,      ncclBroadcast,    ncclReduce,
            ncclSend,       ncclRecv,          ncclGroupStart,     ncclGroupEnd,     ncclMemAlloc,
            ncclMemFree,    ncclCommRegister,  ncclCommDeregister};
    if (getenv("DTBENCH_EMULATED_NCCL_2_18")) /* as the product's loader leaves it */
        out->mem_alloc = nullptr;
    return DT_OK;
}
