#include "lib/comm/nccl/library.h"

#include "lib/base/shared_library.h"

#include <dlfcn.h>
#include <stdlib.h>

static void *open_library(void)
{
    const char *path = getenv("DTBENCH_LIBNCCL");
    return dlopen(path && *path ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
}

dt_status dt_nccl_load(struct dt_nccl *out)
{
    const struct dt_shared_function functions[] = {
        {"ncclGetVersion", &out->get_version},
        {"ncclGetUniqueId", &out->get_unique_id},
        {"ncclGetErrorString", &out->error_string},
        {"ncclGetLastError", &out->last_error},
        {"ncclCommInitRankConfig", &out->comm_init},
        {"ncclCommSplit", &out->comm_split},
        {"ncclCommFinalize", &out->comm_finalize},
        {"ncclCommDestroy", &out->comm_destroy},
        {"ncclCommAbort", &out->comm_abort},
        {"ncclCommGetAsyncError", &out->comm_async_error},
        {"ncclAllReduce", &out->all_reduce},
        {"ncclReduceScatter", &out->reduce_scatter},
        {"ncclAllGather", &out->all_gather},
        {"ncclBroadcast", &out->broadcast},
        {"ncclReduce", &out->reduce},
        {"ncclSend", &out->send},
        {"ncclRecv", &out->receive},
        {"ncclGroupStart", &out->group_start},
        {"ncclGroupEnd", &out->group_end},
    };
    const struct dt_shared_function registration[] = {
        {"ncclMemAlloc", &out->mem_alloc},
        {"ncclMemFree", &out->mem_free},
        {"ncclCommRegister", &out->comm_register},
        {"ncclCommDeregister", &out->comm_deregister},
    };
    void *library = open_library();
    if (!library)
        return dt_fail(DT_ERR_UNAVAILABLE,
                       "NCCL cannot be loaded (%s): install libnccl2, load the cluster's NCCL module, or put its folder in LD_LIBRARY_PATH",
                       dlerror());
    const char *missing = dt_shared_library_find(library, functions, sizeof functions / sizeof *functions);
    if (missing)
        return dt_fail(DT_ERR_UNAVAILABLE, "libnccl.so.2 has no %s: NCCL 2.18 or newer is needed", missing);
    if (dt_shared_library_find(library, registration, sizeof registration / sizeof *registration))
        out->mem_alloc = NULL;
    return DT_OK;
}
