/* Registered buffers: NCCL then moves data directly between the ranks' buffers, without
 * intermediate copies.
 *
 * All memory of the device's pool comes from NCCL (ncclMemAlloc), and each piece of it is
 * registered with every communicator. So every buffer of every operation is registered on every
 * rank, wherever it is in the pool: NCCL needs this on all ranks or on none. Registering is local
 * to a rank. NVLink's multicast also needs equal offsets of buffers in their pieces; NCCL compares
 * these at each operation, and does not use multicast if they differ.
 *
 * Source  NVIDIA, "NCCL User Guide", User Buffer Registration; NCCL 2.30.7's sources (register.cc,
 *         allocator.cc; nvls.cc compares offsets) */
#include "lib/comm/nccl/comm.h"

#include <stdlib.h>

/* Memory from NCCL that has not been returned. */
struct nccl_piece {
    void *data;
    size_t bytes;
    struct nccl_piece *next;
};

/* The device's source of memory; it may outlive the family. */
struct nccl_registrar {
    struct dt_nccl nccl;
    struct nccl_family *family; /* NULL: it has ended */
    struct nccl_piece *pieces;
};

/* A piece's registration with one communicator. */
struct nccl_registration {
    const void *data;
    void *handle; /* NULL: NCCL has accepted it but does not use it (NCCL_LOCAL_REGISTER=0) */
    struct nccl_registration *next;
};

/* ---- one communicator ---- */

static dt_status add(struct nccl_comm *comm, const struct nccl_piece *piece)
{
    DT_FREED struct nccl_registration *r = calloc(1, sizeof *r);
    DT_TRY(dt_allocated(r, "no host memory for a registration with communicator %s", comm->base.name));
    ncclResult_t result = comm->family->nccl.comm_register(comm->handle, piece->data, piece->bytes, &r->handle);
    DT_TRY(dt_nccl_settle(comm, result, "registration of buffers", 0, comm->base.options.init_timeout_s));
    r->data = piece->data;
    r->next = comm->registrations;
    comm->registrations = DT_PASSED_ON(r);
    return DT_OK;
}

/* After an abort NCCL itself has dropped the registrations. */
static void take_off(struct nccl_comm *comm, struct nccl_registration **place)
{
    struct nccl_registration *r = *place;
    *place = r->next;
    if (comm->handle && r->handle)
        comm->family->nccl.comm_deregister(comm->handle, r->handle);
    free(r);
}

static void take_off_piece(struct nccl_comm *comm, const void *data)
{
    struct nccl_registration **place = &comm->registrations;
    while (*place && (*place)->data != data)
        place = &(*place)->next;
    if (*place)
        take_off(comm, place);
}

dt_status dt_nccl_register(struct nccl_comm *comm)
{
    const struct nccl_registrar *registrar = comm->family->registrar;
    for (const struct nccl_piece *piece = registrar ? registrar->pieces : NULL; piece; piece = piece->next)
        DT_TRY(add(comm, piece));
    return DT_OK;
}

void dt_nccl_deregister(struct nccl_comm *comm)
{
    while (comm->registrations)
        take_off(comm, &comm->registrations);
}

uint64_t dt_nccl_registered_bytes(const struct nccl_comm *comm)
{
    uint64_t bytes = 0;
    for (const struct nccl_registration *r = comm->registrations; r; r = r->next)
        for (const struct nccl_piece *piece = comm->family->registrar->pieces; piece; piece = piece->next)
            bytes += piece->data == r->data && r->handle ? piece->bytes : 0;
    return bytes;
}

/* ---- the device's memory ---- */

static void forget(struct nccl_registrar *registrar, const void *data)
{
    struct nccl_piece **place = &registrar->pieces;
    for (struct nccl_comm *c = registrar->family ? registrar->family->members : NULL; c; c = c->next)
        take_off_piece(c, data);
    while (*place && (*place)->data != data)
        place = &(*place)->next;
    struct nccl_piece *piece = *place;
    if (!piece)
        return;
    *place = piece->next;
    free(piece);
}

static void give_back(void *context, void *data)
{
    struct nccl_registrar *registrar = context;
    forget(registrar, data);
    registrar->nccl.mem_free(data);
}

/* Every refusal is treated as out of memory: NCCL's error does not distinguish causes. */
static dt_status get(void *context, size_t bytes, void **out)
{
    struct nccl_registrar *registrar = context;
    DT_FREED struct nccl_piece *piece = calloc(1, sizeof *piece);
    DT_TRY(dt_allocated(piece, "ncclMemAlloc: no host memory"));
    ncclResult_t result = registrar->nccl.mem_alloc(out, bytes);
    if (result != ncclSuccess) {
        cudaGetLastError();
        return dt_fail(result == ncclUnhandledCudaError ? DT_ERR_OOM : DT_ERR_COMM, "ncclMemAlloc of %zu bytes: %s", bytes,
                       registrar->nccl.error_string(result));
    }
    *piece = (struct nccl_piece){.data = *out, .bytes = bytes, .next = registrar->pieces};
    registrar->pieces = DT_PASSED_ON(piece);
    for (struct nccl_comm *c = registrar->family ? registrar->family->members : NULL; c; c = c->next) {
        dt_status status = c->handle ? add(c, registrar->pieces) : DT_OK;
        if (status < 0) {
            give_back(registrar, *out);
            return status;
        }
    }
    return DT_OK;
}

static void end(void *context)
{
    free(context);
}

dt_status dt_nccl_begin_registering(struct nccl_family *f)
{
    if (!f->nccl.mem_alloc)
        return dt_fail(DT_ERR_UNAVAILABLE, "register_buffers: %s has no registered buffers, NCCL 2.19 or newer is needed", f->library);
    DT_FREED struct nccl_registrar *registrar = malloc(sizeof *registrar);
    DT_TRY(dt_allocated(registrar, "no host memory for registered buffers"));
    *registrar = (struct nccl_registrar){.nccl = f->nccl, .family = f};
    const struct dt_cuda_source source = {.get = get, .give_back = give_back, .end = end, .context = registrar};
    DT_TRY(dt_cuda_set_source(f->device, &source));
    f->registrar = DT_PASSED_ON(registrar);
    return DT_OK;
}

void dt_nccl_end_registering(struct nccl_family *f)
{
    if (f->registrar)
        f->registrar->family = NULL;
}
