/* NCCL's functions, found at run time: the program also starts on machines without NCCL. The
 * emulated GPU of the tests fills the same table (test/cuda_emulator/libraries/nccl_library.cpp).
 * Only for this folder, the only one that includes nccl.h. */
#pragma once

#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/base/status.h"

/* The oldest version with non-blocking communicators and with splits. */
#define DT_NCCL_OLDEST NCCL_VERSION(2, 18, 1)
#if NCCL_VERSION_CODE < DT_NCCL_OLDEST
#error "the nccl communicator needs the header of NCCL 2.18 or newer"
#endif

struct dt_nccl {
    ncclResult_t (*get_version)(int *version);
    ncclResult_t (*get_unique_id)(ncclUniqueId *id);
    const char *(*error_string)(ncclResult_t result);
    const char *(*last_error)(ncclComm_t comm);
    ncclResult_t (*comm_init)(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config);
    ncclResult_t (*comm_split)(ncclComm_t parent, int color, int key, ncclComm_t *comm, ncclConfig_t *config);
    ncclResult_t (*comm_finalize)(ncclComm_t comm);
    ncclResult_t (*comm_destroy)(ncclComm_t comm);
    ncclResult_t (*comm_abort)(ncclComm_t comm);
    ncclResult_t (*comm_async_error)(ncclComm_t comm, ncclResult_t *error);
    ncclResult_t (*all_reduce)(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
    ncclResult_t (*reduce_scatter)(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                   cudaStream_t stream);
    ncclResult_t (*all_gather)(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*broadcast)(const void *send, void *receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream);
    ncclResult_t (*reduce)(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                           cudaStream_t stream);
    ncclResult_t (*send)(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*receive)(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);

    /* Registered buffers, since NCCL 2.19; with older versions mem_alloc is NULL, and none of these
     * can be used. */
    ncclResult_t (*mem_alloc)(void **memory, size_t bytes);
    ncclResult_t (*mem_free)(void *memory);
    ncclResult_t (*comm_register)(ncclComm_t comm, void *memory, size_t bytes, void **handle);
    ncclResult_t (*comm_deregister)(ncclComm_t comm, void *handle);
};

/* Fill the table. Loads libnccl.so.2 the first time; it stays loaded, since it has threads.
 * DTBENCH_LIBNCCL names another file. Errors: DT_ERR_UNAVAILABLE, with what is missing and how to
 * install it. */
dt_status dt_nccl_load(struct dt_nccl *out);

#ifdef __cplusplus
}
#endif
