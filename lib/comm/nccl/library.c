#include "lib/comm/nccl/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *open_library(void)
{
    const char *path = getenv("DTBENCH_LIBNCCL");
    return dlopen(path && *path ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
}

struct function {
    void *place; /* the table's entry */
    const char *name;
};

/* The first name that the library does not have; NULL: it has all. */
static const char *find_all(void *library, const struct function *functions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return functions[i].name;
        memcpy(functions[i].place, &function, sizeof function);
    }
    return NULL;
}

dt_status dt_nccl_load(struct dt_nccl *out)
{
    const struct function functions[] = {
        {&out->get_version, "ncclGetVersion"},
        {&out->get_unique_id, "ncclGetUniqueId"},
        {&out->error_string, "ncclGetErrorString"},
        {&out->last_error, "ncclGetLastError"},
        {&out->comm_init, "ncclCommInitRankConfig"},
        {&out->comm_split, "ncclCommSplit"},
        {&out->comm_finalize, "ncclCommFinalize"},
        {&out->comm_destroy, "ncclCommDestroy"},
        {&out->comm_abort, "ncclCommAbort"},
        {&out->comm_async_error, "ncclCommGetAsyncError"},
        {&out->all_reduce, "ncclAllReduce"},
        {&out->reduce_scatter, "ncclReduceScatter"},
        {&out->all_gather, "ncclAllGather"},
        {&out->broadcast, "ncclBroadcast"},
        {&out->reduce, "ncclReduce"},
        {&out->send, "ncclSend"},
        {&out->receive, "ncclRecv"},
        {&out->group_start, "ncclGroupStart"},
        {&out->group_end, "ncclGroupEnd"},
    };
    const struct function registration[] = {
        {&out->mem_alloc, "ncclMemAlloc"},
        {&out->mem_free, "ncclMemFree"},
        {&out->comm_register, "ncclCommRegister"},
        {&out->comm_deregister, "ncclCommDeregister"},
    };
    void *library = open_library();
    if (!library)
        return dt_fail(DT_ERR_UNAVAILABLE,
                       "NCCL cannot be loaded (%s): install libnccl2, load the cluster's NCCL module, or put its folder in LD_LIBRARY_PATH",
                       dlerror());
    const char *missing = find_all(library, functions, sizeof functions / sizeof *functions);
    if (missing)
        return dt_fail(DT_ERR_UNAVAILABLE, "libnccl.so.2 has no %s: NCCL 2.18 or newer is needed", missing);
    if (find_all(library, registration, sizeof registration / sizeof *registration))
        out->mem_alloc = NULL;
    return DT_OK;
}
