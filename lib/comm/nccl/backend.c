/* The communicator over NCCL: the library, creation, subsets, end. */
#include "lib/base/clock.h"
#include "lib/comm/nccl/comm.h"
#include "lib/comm/nccl/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct dt_comm_backend nccl_backend;

/* How long other ranks may take to end normally. */
static const double end_s = 10;

/* ---- the library ---- */

static void version_name(int version, char *out, size_t out_bytes)
{
    int major = version / 10000, minor = version / 100 % 100; /* the encoding since 2.9 */
    snprintf(out, out_bytes, "NCCL %d.%d.%d", major, minor, version % 100);
}

static dt_status load(struct dt_nccl *nccl, int *version, char *name, size_t name_bytes)
{
    DT_TRY(dt_nccl_load(nccl));
    *version = 0;
    if (nccl->get_version(version) != ncclSuccess || *version < DT_NCCL_OLDEST)
        return dt_fail(DT_ERR_UNAVAILABLE, "libnccl.so.2 has version %d: NCCL 2.18 (21801) or newer is needed", *version);
    version_name(*version, name, name_bytes);
    return DT_OK;
}

bool dt_comm_nccl_available(char *text, size_t text_bytes)
{
    struct dt_nccl nccl;
    char name[32];
    int version;
    bool there = load(&nccl, &version, name, sizeof name) == DT_OK;
    snprintf(text, text_bytes, "%s%s", there ? name : dt_error_message(),
             there ? "; the GPUs of one machine or of several, without MPI" : "");
    return there;
}

dt_status dt_comm_nccl_check_world(const struct dt_world *world)
{
    char address[DT_ADDRESS_BYTES];
    int port;
    return world->size > 1 ? dt_world_meeting_point(world, address, &port) : DT_OK;
}

static const char *nccl_library(const struct dt_comm *comm)
{
    return dt_nccl_of(comm)->family->library;
}

static const char *nccl_secret(const struct dt_comm *comm)
{
    return dt_secret_source_name(dt_nccl_of(comm)->family->secret);
}

static void nccl_network(const struct dt_comm *comm, struct dt_comm_network *out)
{
    dt_nccl_log_read(out);
    out->registered_bytes = dt_nccl_registered_bytes(dt_nccl_of(comm));
}

/* ---- ending ---- */

/* Without a failure the ranks finalize together; otherwise the communicator is aborted. */
static void end_handle(struct nccl_comm *comm)
{
    struct nccl_family *f = comm->family;
    dt_nccl_deregister(comm);
    if (!comm->handle)
        return;
    int64_t deadline_ns = dt_deadline_ns(end_s);
    ncclResult_t result = f->nccl.comm_finalize(comm->handle);
    while (result == ncclInProgress) {
        if (f->aborted || dt_deadline_passed(deadline_ns))
            break;
        dt_sleep_ns(200000);
        if (f->nccl.comm_async_error(comm->handle, &result) != ncclSuccess)
            result = ncclInternalError;
    }
    if (result != ncclSuccess) {
        dt_nccl_abort_one(comm);
        return;
    }
    f->nccl.comm_destroy(comm->handle);
    comm->handle = NULL;
}

static void free_comm(struct nccl_comm *comm)
{
    for (int i = 0; i < DT_COMM_RING; i++) {
        if (comm->begun[i])
            cudaEventDestroy(comm->begun[i]);
        if (comm->ended[i])
            cudaEventDestroy(comm->ended[i]);
    }
    free(comm);
}

static void end_family(struct nccl_family *f)
{
    dt_nccl_abort_wait(f);
    dt_nccl_end_registering(f);
    dt_cuda_unwatch(f->device, &f->watch);
    if (f->rendezvous)
        dt_rendezvous_on_ask(f->rendezvous, NULL, NULL);
    dt_rendezvous_destroy(f->rendezvous, !f->aborted);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}

static void nccl_destroy(struct dt_comm *base)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    struct nccl_family *f = comm->family;
    end_handle(comm);
    pthread_mutex_lock(&f->mutex);
    struct nccl_comm **link = &f->members;
    while (*link != comm)
        link = &(*link)->next;
    *link = comm->next;
    bool last = !f->members;
    pthread_mutex_unlock(&f->mutex);
    free_comm(comm);
    if (last)
        end_family(f);
}

/* ---- creating ---- */

static dt_status create_events(struct nccl_comm *comm)
{
    static const char what[] = "an event of a communicator";
    for (int i = 0; i < DT_COMM_RING; i++) {
        DT_TRY(dt_cuda_status(cudaEventCreateWithFlags(&comm->begun[i], cudaEventDisableTiming), what));
        DT_TRY(dt_cuda_status(cudaEventCreateWithFlags(&comm->ended[i], cudaEventDisableTiming), what));
    }
    return DT_OK;
}

/* Add a member without a handle to the family. From here on nccl_destroy ends it. */
static dt_status add_member(struct nccl_family *f, const struct dt_comm_members *members, uint64_t group, const char *name,
                            struct nccl_comm **out)
{
    struct nccl_comm *comm = calloc(1, sizeof *comm);
    DT_TRY(dt_allocated(comm, "no host memory for communicator %s", name));
    comm->family = f;
    comm->group = (struct dt_rendezvous_group){.id = group, .ranks = members->world_ranks, .size = members->count, .rank = members->place};
    dt_comm_init(&comm->base, &nccl_backend, f->device, members->place, members->count, name, &f->options);
    dt_status status = create_events(comm);
    if (status < 0) {
        free_comm(comm);
        return status;
    }
    pthread_mutex_lock(&f->mutex);
    comm->next = f->members;
    f->members = comm;
    pthread_mutex_unlock(&f->mutex);
    *out = comm;
    return DT_OK;
}

/* What the ranks exchange before NCCL is used. */
struct greeting {
    char uuid[48];
    char board[96]; /* host and PCI address, which MIG slices of one GPU share */
    int version;
};

/* Two ranks on one GPU make NCCL fail or hang, and so may two different versions of NCCL. */
static dt_status check_greetings(const struct nccl_family *f, const struct greeting *all, int size)
{
    char name[2][32];
    for (int i = 1; i < size; i++) {
        version_name(all[0].version, name[0], sizeof name[0]);
        version_name(all[i].version, name[1], sizeof name[1]);
        if (all[i].version != all[0].version)
            return dt_fail(DT_ERR_WORLD, "rank 0 has %s, and rank %d has %s: all ranks need the same", name[0], i, name[1]);
        for (int j = 0; j < i && !f->options.share_devices; j++) {
            if (all[i].uuid[0] && strcmp(all[i].uuid, all[j].uuid) == 0)
                return dt_fail(DT_ERR_WORLD,
                               "ranks %d and %d both use %s: give each rank its own GPU, or share GPUs, which checks correctness and "
                               "does not measure speed",
                               j, i, all[i].uuid);
            if (all[i].board[0] && strcmp(all[i].board, all[j].board) == 0)
                return dt_fail(
                    DT_ERR_WORLD,
                    "ranks %d and %d are on two MIG slices of one GPU (%s), which NCCL does not connect: start one rank per GPU, or "
                    "share GPUs, which checks correctness and does not measure speed",
                    j, i, all[i].board);
        }
    }
    return DT_OK;
}

/* "node1 0000:1B:00.0" */
static void find_board(const struct dt_device *device, char *out, size_t out_bytes)
{
    char host[64] = "", address[24] = "";
    gethostname(host, sizeof host - 1);
    if (cudaDeviceGetPCIBusId(address, sizeof address, dt_cuda_ordinal(device)) != cudaSuccess)
        cudaGetLastError();
    else
        snprintf(out, out_bytes, "%s %s", host, address);
}

static dt_status greet(struct nccl_comm *world, int version)
{
    struct dt_device_info info;
    struct greeting mine = {.version = version};
    DT_FREED struct greeting *all = calloc((size_t)world->base.size, sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", world->base.size));
    dt_device_info(world->base.device, &info);
    snprintf(mine.uuid, sizeof mine.uuid, "%s", info.uuid);
    find_board(world->base.device, mine.board, sizeof mine.board);
    DT_TRY(dt_nccl_gather(world, "the first exchange", &mine, sizeof mine, all, world->base.options.init_timeout_s));
    return check_greetings(world->family, all, world->base.size);
}

/* NCCL assumes that two ranks of one host have different GPUs, so each rank reports a different
 * host. NCCL reads this once, at its first call. */
static dt_status pretend_hosts(const struct nccl_family *f)
{
    char host[64] = "", name[96];
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s-%d", host, f->world_rank);
    return dt_allocated(setenv("NCCL_HOSTID", name, 1) == 0, "no memory for NCCL_HOSTID");
}

struct invitation {
    ncclUniqueId id;
    int result;
};

/* Join NCCL's communicator with rank 0's id. */
static dt_status join(struct nccl_comm *world)
{
    const struct dt_nccl *nccl = &world->family->nccl;
    double timeout_s = world->base.options.init_timeout_s;
    struct invitation mine = {.result = ncclSuccess}, *all = calloc((size_t)world->base.size, sizeof *all);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", world->base.size));
    if (world->base.rank == 0)
        mine.result = nccl->get_unique_id(&mine.id);
    dt_status status = dt_nccl_gather(world, "NCCL's invitation", &mine, sizeof mine, all, timeout_s);
    struct invitation from_rank_0 = all[0];
    free(all);
    DT_TRY(status);
    if (from_rank_0.result != ncclSuccess)
        return dt_fail(DT_ERR_COMM, "NCCL does not start on rank 0: %s (NCCL_DEBUG=WARN shows more)",
                       nccl->error_string((ncclResult_t)from_rank_0.result));
    ncclResult_t result = nccl->comm_init(&world->handle, world->base.size, from_rank_0.id, world->base.rank, &config);
    return dt_nccl_settle(world, result, "creation", 0, timeout_s);
}

static dt_status meet(struct nccl_family *f, const struct dt_world *world)
{
    char address[DT_ADDRESS_BYTES];
    struct dt_secret secret;
    struct dt_rendezvous_place place = {.address = address,
                                        .local = world->local_size == world->size,
                                        .rank = world->rank,
                                        .size = world->size,
                                        .secret = &secret,
                                        .timeout_s = f->options.init_timeout_s};
    DT_TRY(dt_world_meeting_point(world, address, &place.port));
    DT_TRY(dt_secret_of_job(world, &secret));
    f->secret = secret.source;
    return dt_rendezvous_create(&place, &f->rendezvous);
}

/* The part of creation up to the ranks' connections. */
static dt_status begin_family(struct nccl_family *f, const struct dt_world *world, const struct dt_comm_members *members, int *version,
                              struct nccl_comm **out)
{
    DT_TRY(load(&f->nccl, version, f->library, sizeof f->library));
    DT_TRY(meet(f, world));
    return add_member(f, members, 0, "world", out);
}

/* The part of creation up to NCCL's communicator. */
static dt_status begin_world(struct nccl_comm *world, int version)
{
    DT_TRY(greet(world, version));
    if (world->family->options.share_devices)
        DT_TRY(pretend_hosts(world->family));
    if (world->family->options.register_buffers)
        DT_TRY(dt_nccl_begin_registering(world->family));
    bool logging = dt_nccl_log_begin();
    dt_status status = join(world);
    dt_nccl_log_started(logging);
    DT_TRY(status);
    return dt_nccl_register(world);
}

dt_status dt_comm_nccl_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_members *members,
                              const struct dt_comm_options *options, struct dt_comm **out)
{
    struct nccl_comm *comm = NULL;
    struct nccl_family *f = calloc(1, sizeof *f);
    int version = 0;
    DT_TRY(dt_allocated(f, "no host memory for a communicator"));
    f->device = device;
    f->world_rank = world->rank;
    if (options)
        f->options = *options;
    pthread_mutex_init(&f->mutex, NULL);
    f->watch = (struct dt_cuda_watch){.poll = dt_nccl_poll, .context = f};
    dt_cuda_watch(device, &f->watch);
    dt_status status = begin_family(f, world, members, &version, &comm);
    if (status < 0) {
        end_family(f);
        return status;
    }
    dt_rendezvous_on_ask(f->rendezvous, dt_nccl_answer, f);
    status = begin_world(comm, version);
    if (status < 0) {
        nccl_destroy(&comm->base);
        return status;
    }
    *out = &comm->base;
    return DT_OK;
}

/* ---- subsets ---- */

/* What each rank tells the others about the subset that it is in. */
struct membership {
    int count;      /* its number of ranks; 0: this rank is in none */
    uint64_t group; /* the subset's number, if this rank is its first one */
};

/* NCCL's splitShare stays off: communicators that share their parent's resources share the
 * connections and the stream that orders their kernels (ncclSharedResources in NCCL's sources), so
 * that operations of two of them wait for each other. Operations of a mesh and of the links between
 * stages run concurrently, and in a different order on each rank.
 *
 * All of the parent's ranks call NCCL here, as members of a new communicator (comm) or not (NULL).
 * The color of a subset is its first rank, which no other subset has. */
static dt_status split_handle(struct nccl_comm *parent, int color, struct nccl_comm *comm)
{
    const struct dt_nccl *nccl = &parent->family->nccl;
    double timeout_s = parent->base.options.init_timeout_s;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t none = NULL;
    config.blocking = 0;
    ncclResult_t result = nccl->comm_split(parent->handle, comm ? color : NCCL_SPLIT_NOCOLOR, comm ? comm->base.rank : 0,
                                           comm ? &comm->handle : &none, &config);
    DT_TRY(dt_nccl_settle(parent, result, "subset", 0, timeout_s));
    if (!comm)
        return DT_OK;
    result = comm->handle ? ncclInProgress : ncclInternalError;
    DT_TRY(dt_nccl_settle(comm, result, "creation", 0, timeout_s));
    return dt_nccl_register(comm);
}

/* NCCL makes communicators for two or more ranks; a single rank needs none. */
static dt_status create_subset(struct nccl_comm *parent, const struct membership *all, const struct dt_comm_members *members,
                               const char *name, struct dt_comm **out)
{
    struct nccl_comm *comm = NULL;
    int count = members->count, first = count ? members->ranks[0] : 0;
    bool any = false;
    for (int i = 0; i < parent->base.size; i++)
        any |= all[i].count > 1;
    if (count > 1)
        DT_TRY(add_member(parent->family, members, all[first].group, name, &comm));
    dt_status status = any ? split_handle(parent, first, comm) : DT_OK;
    if (status < 0 && comm)
        nccl_destroy(&comm->base);
    DT_TRY(status);
    if (count == 1)
        return dt_comm_self_create(parent->base.device, name, &parent->family->options, out);
    *out = comm ? &comm->base : NULL;
    return DT_OK;
}

static dt_status nccl_subset(struct dt_comm *base, const struct dt_comm_members *members, const char *name, struct dt_comm **out)
{
    struct nccl_comm *parent = dt_nccl_of(base);
    struct nccl_family *f = parent->family;
    struct membership mine = {members->count, ((uint64_t)f->world_rank + 1) << 32 | ++f->groups};
    DT_FREED struct membership *all = calloc((size_t)base->size, sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", base->size));
    DT_TRY(dt_nccl_gather(parent, "subset", &mine, sizeof mine, all, base->options.init_timeout_s));
    return create_subset(parent, all, members, name, out);
}

/* ---- other entries ---- */

/* Not with registered buffers: if one rank's buffer is not registered, NCCL uses the slow path for
 * all. */
static dt_status nccl_control(struct dt_comm *base, size_t bytes, void **out)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    *out = NULL;
    if (comm->family->registrar)
        return DT_OK;
    if (comm->control_bytes < bytes) {
        dt_cuda_own_free(base->device, comm->control);
        comm->control_bytes = 0;
        DT_TRY(dt_cuda_own_alloc(base->device, bytes, &comm->control));
        comm->control_bytes = bytes;
    }
    *out = comm->control;
    return DT_OK;
}

static void nccl_give_up(struct dt_comm *base, dt_status status, const char *text)
{
    struct nccl_family *f = dt_nccl_of(base)->family;
    if (!f->aborted) /* the other ranks have been told of an earlier failure */
        dt_rendezvous_tell(f->rendezvous, status, text);
}

static const struct dt_comm_backend nccl_backend = {
    .name = "nccl",
    .library = nccl_library,
    .secret = nccl_secret,
    .network = nccl_network,
    .destroy = nccl_destroy,
    .queue = dt_nccl_queue,
    .group_end = dt_nccl_group_end,
    .subset = nccl_subset,
    .host_all_gather = dt_nccl_host_all_gather,
    .host_gather = dt_nccl_host_gather,
    .host_reduce = dt_nccl_host_reduce,
    .host_gather_among = dt_nccl_host_gather_among,
    .control = nccl_control,
    .give_up = nccl_give_up,
    .refresh = dt_nccl_refresh,
};
