/* The communicator over MPI: the library, creation, queueing. */
#include "lib/comm/mpi/comm.h"

#include "lib/base/machine.h"
#include "lib/comm/mpi/fence.h"
#include "lib/device/cpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#else
enum { M_MMAP_THRESHOLD, M_TRIM_THRESHOLD };
static int mallopt(int which, int bytes) /* other C libraries have no such thresholds */
{
    return which + bytes;
}
#endif

static const struct dt_comm_backend mpi_backend;

/* A failure that leaves operations unfinished is noted as an attribute of MPI_COMM_SELF with this
 * name: MPI_Finalize would wait for them. */
static const char broken_name[] = "dtbench: broken";

/* ---- the library ---- */

/* Containers often forbid a process to read another's memory. Open MPI notices too late, with a
 * message for each failed copy. */
static bool may_read_other_memory(void)
{
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

/* MPI allocates a buffer by malloc for each all-reduce. The C library would map such large blocks
 * again each time, and touching the new pages takes longer than the sum itself: with two ranks
 * (shortest of 7 times) 1 MiB took 0.57 ms instead of 0.24, 32 MiB 107 instead of 25. The time also
 * depended on what the process had freed before. */
static void keep_freed_memory(void)
{
    enum { LARGEST_BYTES = 1 << 30 };
    mallopt(M_MMAP_THRESHOLD, LARGEST_BYTES);
    mallopt(M_TRIM_THRESHOLD, LARGEST_BYTES);
}

/* "Open MPI v4.1.4, package: ..." is "Open MPI 4.1.4", and "MPICH Version:      4.2.1" is "MPICH
 * 4.2.1". */
static void read_library_version(char *out, size_t out_bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI", number[32];
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    char *version = strstr(text, " v");
    if (version)
        memmove(version + 1, version + 2, strlen(version + 2) + 1);
    else if (sscanf(text, "MPICH Version: %31s", number) == 1)
        snprintf(text, sizeof text, "MPICH %s", number);
    snprintf(out, out_bytes, "%.*s", (int)out_bytes - 1, text);
}

/* Open MPI's names for its components for ranks of one machine. */
struct local_parts {
    const char *transports;
    const char *copies, *no_copies; /* copies between processes' memories: the setting, and its value that turns them off */
    const char *piece_bytes;        /* the setting */
};
static const struct local_parts parts_4 = {"self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism", "none",
                                           "OMPI_MCA_btl_vader_max_send_size"};
static const struct local_parts parts_5 = {"self,sm", "OMPI_MCA_smsc", "^cma,knem,xpmem", "OMPI_MCA_btl_sm_max_send_size"};

/* Decided at run time: programs for version 4 run with the library of version 5. */
static const struct local_parts *local_parts(void)
{
    char library[64];
    int major = 0;
    read_library_version(library, sizeof library);
    return sscanf(library, "Open MPI %d", &major) == 1 && major < 5 ? &parts_4 : &parts_5;
}

/* Open MPI reads its settings from the environment. These suit ranks that share a machine with
 * their compute threads; settings of the user take precedence. Other MPI libraries ignore them. */
static void set_defaults(const struct dt_world *world)
{
    const struct local_parts *parts = local_parts();
    /* If a rank yields its processor each time it polls, concurrent kernels keep the processor for
     * some milliseconds, and an exchange during backward needs a hundred of these. But if there are
     * more ranks than processors, they must yield to let each other start and end. */
    setenv("OMPI_MCA_mpi_yield_when_idle", world->local_size > dt_machine_processors() ? "1" : "0", 0);
    setenv("OMPI_MCA_mca_base_component_show_load_errors", "0", 0); /* drivers of networks that the machine does not have */
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
    setenv("OMPI_MCA_opal_signal", "", 0); /* dtbench reports a crash, in one line */
    if (!may_read_other_memory()) {        /* then copies go through shared memory, in pieces that tolerate pauses */
        setenv(parts->copies, parts->no_copies, 0);
        setenv(parts->piece_bytes, "131072", 0);
        setenv("OMPI_MCA_pml_ob1_send_pipeline_depth", "16", 0);
    }
    if (world->local_size == world->size) { /* no network is needed */
        setenv("OMPI_MCA_pml", "ob1", 0);
        setenv("OMPI_MCA_btl", parts->transports, 0);
    } else { /* a lost node is reported as an error of its messages: otherwise version 5 ends the process, and there is no record */
        setenv("OMPI_MCA_mpi_ft_enable", "1", 0);
        /* Over TCP a long message is written to the receiver's memory after the receiver requests
         * it (ob1's pipeline protocol). Two ranks that send to each other share one connection,
         * where the request waits for all earlier data: only one direction is active at a time.
         * Fragments that are sent without a request allow both directions at once. */
        setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);
    }
}

/* Without the launcher's variables MPI would start every rank as a separate world, or end the
 * process with a long message. Open MPI has dropped the older PMI-1 and PMI-2, and is seldom built
 * with them; a user whose build has them sets OMPI_MCA_pmix. */
dt_status dt_comm_mpi_check_world(const struct dt_world *world)
{
    char library[64];
    bool srun = strcmp(world->launcher, "srun") == 0, told = getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK");
    if (told)
        return DT_OK;
    read_library_version(library, sizeof library);
    bool pmix_only = strncmp(library, "Open MPI", 8) == 0 && !getenv("OMPI_MCA_pmix");
    if (getenv("PMI_RANK") && !(srun && pmix_only))
        return DT_OK;
    if (srun)
        return dt_fail(DT_ERR_WORLD,
                       "srun started %d tasks, but gave %s no information about the others (each is rank 0 of 1): pass `srun --mpi=pmix` "
                       "(`srun --mpi=list` "
                       "shows what it has)",
                       world->size, library);
    return dt_fail(DT_ERR_WORLD,
                   "%s started %d ranks, but the cpu device's ranks talk MPI: %sstart them with `mpirun -n %d` or `srun --mpi=pmix`",
                   world->launcher, world->size,
                   world->local_size == world->size ? "start dtbench by itself, which starts them on this machine, or " : "", world->size);
}

static dt_status check_world(const struct dt_world *world)
{
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == world->rank && size == world->size)
        return DT_OK;
    bool srun = strcmp(world->launcher, "srun") == 0;
    return dt_fail(DT_ERR_WORLD, "%s says rank %d of %d, MPI says rank %d of %d: %s", world->launcher, world->rank, world->size, rank, size,
                   srun ? "pass `srun --mpi=pmix`" : "start the ranks with the mpirun that belongs to the MPI library of this build");
}

static bool is_broken(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
    return strcmp(name, broken_name) == 0;
}

/* Start MPI once per process; a later world uses it. */
static dt_status start_library(const struct dt_world *world, double timeout_s)
{
    int started = 0, finished = 0, provided = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    if (finished)
        return dt_fail(DT_ERR_COMM, "MPI cannot start twice in a process");
    if (!started) {
        DT_TRY(dt_comm_mpi_check_world(world));
        set_defaults(world);
        keep_freed_memory();
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
            return dt_fail(DT_ERR_COMM, "MPI does not start");
        DT_TRY(dt_mpi_fence(world, timeout_s));
    }
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE)
        return dt_fail(DT_ERR_UNAVAILABLE, "this MPI library cannot be called from several threads (MPI_THREAD_MULTIPLE)");
    if (is_broken())
        return dt_fail(DT_ERR_COMM, "an earlier failure left MPI unusable in this process");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    return check_world(world);
}

void dt_comm_library_finish(void)
{
    int started = 0, finished = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    if (started && !finished && !is_broken())
        MPI_Finalize();
}

bool dt_comm_mpi_available(char *text, size_t text_bytes)
{
    char version[64];
    read_library_version(version, sizeof version); /* works before MPI is started */
    snprintf(text, text_bytes, "%s; the ranks of one machine or of several", version);
    return true;
}

/* ---- creating and destroying ---- */

static struct mpi_comm *mpi_of(const struct dt_comm *comm)
{
    return (struct mpi_comm *)comm;
}

static const char *mpi_library(const struct dt_comm *comm)
{
    return mpi_of(comm)->library;
}

static void mpi_destroy(struct dt_comm *base)
{
    struct mpi_comm *comm = mpi_of(base);
    /* Freeing may wait for operations that will never end; the process is about to end anyway. */
    if (atomic_load(&comm->family->given_up))
        MPI_Comm_set_name(MPI_COMM_SELF, broken_name);
    else
        MPI_Comm_free(&comm->handle);
    if (atomic_fetch_sub(&comm->family->members, 1) == 1) {
        pthread_mutex_destroy(&comm->family->mutex);
        free(comm->family);
    }
    for (struct mpi_batch *b = comm->batches, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(comm->group);
    free(comm->sent);
    free(comm->received);
    free(atomic_load(&comm->scratch));
    pthread_mutex_destroy(&comm->mutex);
    free(comm);
}

/* The fastest loops that give the same bits on every processor: AVX-512's own conversion to bf16
 * flushes subnormals to zero. */
static const struct dt_simd *loops_for(enum dt_dtype dtype)
{
    enum dt_cpu_isa isa = dt_cpu_isa() < DT_ISA_AVX512 ? dt_cpu_isa() : DT_ISA_AVX512;
    while (!dt_simd_for(isa, dtype))
        isa--;
    return dt_simd_for(isa, dtype);
}

/* Wrap `handle`, which the communicator then owns. Joins `family`, or founds a new one if that is
 * NULL. */
static dt_status wrap(MPI_Comm handle, struct mpi_family *family, struct dt_device *device, const char *name,
                      const struct dt_comm_options *options, struct dt_comm **out)
{
    int rank = 0, size = 0, found = 0, *tag_limit = NULL;
    MPI_Comm_rank(handle, &rank);
    MPI_Comm_size(handle, &size);
    struct mpi_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        goto no_memory;
    comm->sent = calloc((size_t)size, sizeof *comm->sent);
    comm->received = calloc((size_t)size, sizeof *comm->received);
    comm->family = family ? family : calloc(1, sizeof *family);
    if (!comm->sent || !comm->received || !comm->family)
        goto no_memory;
    atomic_fetch_add(&comm->family->members, 1);
    comm->handle = handle;
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        comm->loops[dtype] = loops_for((enum dt_dtype)dtype);
    comm->scratch_bytes = (size_t)size * DT_MPI_SCRATCH_PER_PEER_BYTES;
    if (comm->scratch_bytes < DT_MPI_SCRATCH_BYTES)
        comm->scratch_bytes = DT_MPI_SCRATCH_BYTES;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_limit, &found);
    comm->tag_count = (found ? *tag_limit : 32767) / 4;
    read_library_version(comm->library, sizeof comm->library);
    pthread_mutex_init(&comm->mutex, NULL);
    if (!family) {
        pthread_mutex_init(&comm->family->mutex, NULL);
        comm->family->world = comm;
    }
    MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN);
    dt_comm_init(&comm->base, &mpi_backend, device, rank, size, name, options);
    *out = &comm->base;
    return DT_OK;
no_memory:
    if (comm) {
        free(comm->sent);
        free(comm->received);
        if (!family)
            free(comm->family);
    }
    free(comm);
    MPI_Comm_free(&handle);
    return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for communicator %s", name);
}

/* Wait with a time limit until all ranks are here, before a call that blocks in MPI. */
static dt_status meet(struct mpi_comm *comm, const char *what)
{
    struct mpi_waiting waiting = {.comm = comm, .what = what, .timeout_s = comm->base.options.init_timeout_s};
    struct mpi_requests requests = {0};
    MPI_Request barrier;
    DT_TRY(dt_mpi_check(&waiting, MPI_Ibarrier(comm->handle, &barrier)));
    dt_status status = dt_mpi_requests_add(&requests, barrier, -1);
    DT_THEN(status, dt_mpi_wait(&waiting, &requests));
    dt_mpi_requests_finish(&requests, dt_mpi_withdrawal(status));
    return status;
}

dt_status dt_comm_mpi_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                             struct dt_comm **out)
{
    DT_TRY(start_library(world, options->init_timeout_s));
    /* A separate communicator for this world, so that it does not interfere with later worlds of
     * this process, or with other users of MPI. MPI waits for all ranks to make it, without a
     * limit. */
    MPI_Comm handle;
    struct mpi_family nobody = {.members = 0};
    struct mpi_comm all = {.family = &nobody, .handle = MPI_COMM_WORLD};
    dt_comm_init(&all.base, &mpi_backend, device, world->rank, world->size, "world", options);
    DT_TRY(meet(&all, "the first exchange"));
    if (MPI_Comm_dup(MPI_COMM_WORLD, &handle) != MPI_SUCCESS)
        return dt_fail(DT_ERR_COMM, "MPI makes no communicator for the world");
    return wrap(handle, NULL, device, "world", options, out);
}

/* MPI splits by color: a subset's color is its first rank, which no other subset has. */
static dt_status mpi_subset(struct dt_comm *parent, const struct dt_comm_members *members, const char *name, struct dt_comm **out)
{
    struct mpi_comm *comm = mpi_of(parent);
    struct mpi_waiting waiting = {.comm = comm, .what = "subset"};
    int color = members->count ? members->ranks[0] : MPI_UNDEFINED;
    MPI_Comm handle;
    DT_TRY(meet(comm, "subset"));
    DT_TRY(dt_mpi_check(&waiting, MPI_Comm_split(comm->handle, color, members->place, &handle)));
    if (handle == MPI_COMM_NULL)
        return DT_OK;
    if (members->count > 1)
        return wrap(handle, comm->family, parent->device, name, &parent->options, out);
    MPI_Comm_free(&handle);
    return dt_comm_self_create(parent->device, name, &parent->options, out);
}

/* ---- operations ---- */

struct collective_arguments {
    struct mpi_comm *comm;
    struct dt_comm_operation operation;
    unsigned number;
};

static dt_status collective_task(void *arguments)
{
    struct collective_arguments *a = arguments;
    dt_comm_mark(&a->comm->base, a->operation.sequence, DT_COMM_WAITING);
    DT_TRY(dt_mpi_run_collective(a->comm, &a->operation, dt_dtype_bytes(a->operation.dtype), a->number));
    dt_comm_mark(&a->comm->base, a->operation.sequence, DT_COMM_DONE);
    return DT_OK;
}

struct transfer_arguments {
    struct mpi_comm *comm;
    struct mpi_transfer transfer;
};

static dt_status transfer_task(void *arguments)
{
    struct transfer_arguments *a = arguments;
    return dt_mpi_run_transfers(a->comm, &a->transfer, 1);
}

struct batch_arguments {
    struct mpi_comm *comm;
    struct mpi_batch *batch;
};

static dt_status batch_task(void *arguments)
{
    struct batch_arguments *a = arguments;
    dt_status status = dt_mpi_run_transfers(a->comm, a->batch->transfers, a->batch->count);
    pthread_mutex_lock(&a->comm->mutex);
    struct mpi_batch **link = &a->comm->batches;
    while (*link != a->batch)
        link = &(*link)->next;
    *link = a->batch->next;
    pthread_mutex_unlock(&a->comm->mutex);
    free(a->batch);
    return status;
}

static dt_status add_to_group(struct mpi_comm *comm, const struct mpi_transfer *transfer)
{
    struct mpi_batch *group = comm->group;
    if (!group || group->count == group->capacity) {
        int capacity = group ? 2 * group->capacity : 8;
        group = realloc(group, sizeof *group + (size_t)capacity * sizeof group->transfers[0]);
        DT_TRY(dt_allocated(group, "no host memory for a group of %d transfers", capacity));
        group->count = comm->group ? group->count : 0;
        group->capacity = capacity;
        comm->group = group;
    }
    group->transfers[group->count++] = *transfer;
    return DT_OK;
}

static dt_status queue_transfer(struct mpi_comm *comm, const struct dt_comm_operation *o)
{
    bool send = o->kind == DT_COMM_SEND;
    dt_cpu_stream_exchanges(o->stream);
    unsigned number = send ? comm->sent[o->peer]++ : comm->received[o->peer]++;
    struct transfer_arguments a = {comm,
                                   {.buffer = send ? (char *)o->send : o->receive,
                                    .bytes = o->count_elems * dt_dtype_bytes(o->dtype),
                                    .peer = o->peer,
                                    .tag = dt_mpi_tag(comm, number, MPI_PHASE_TRANSFER),
                                    .send = send,
                                    .sequence = o->sequence}};
    if (comm->base.in_group)
        return add_to_group(comm, &a.transfer);
    return dt_cpu_submit(o->stream, dt_comm_kind_name(o->kind), transfer_task, &a, sizeof a);
}

static dt_status mpi_queue(struct dt_comm *base, const struct dt_comm_operation *operation)
{
    struct mpi_comm *comm = mpi_of(base);
    if (operation->kind == DT_COMM_SEND || operation->kind == DT_COMM_RECV)
        return queue_transfer(comm, operation);
    struct collective_arguments a = {comm, *operation, comm->collectives++};
    return dt_cpu_submit(operation->stream, dt_comm_kind_name(operation->kind), collective_task, &a, sizeof a);
}

static dt_status mpi_group_end(struct dt_comm *base)
{
    struct mpi_comm *comm = mpi_of(base);
    struct batch_arguments a = {comm, comm->group};
    comm->group = NULL;
    if (!a.batch)
        return DT_OK;
    pthread_mutex_lock(&comm->mutex);
    a.batch->next = comm->batches;
    comm->batches = a.batch;
    pthread_mutex_unlock(&comm->mutex);
    return dt_cpu_submit(base->group_stream, "group", batch_task, &a, sizeof a);
}

/* A blocking all_gather of bytes. */
static dt_status mpi_host_all_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all)
{
    struct mpi_comm *comm = mpi_of(base);
    struct dt_comm_operation gather = {.kind = DT_COMM_ALL_GATHER, .send = mine, .receive = all, .count_elems = bytes};
    return bytes ? dt_mpi_run_collective(comm, &gather, 1, comm->collectives++) : DT_OK;
}

static void mpi_give_up(struct dt_comm *base, dt_status status, const char *text)
{
    dt_mpi_tell(mpi_of(base)->family->world, status, text);
}

static const struct dt_comm_backend mpi_backend = {
    .name = "mpi",
    .library = mpi_library,
    .destroy = mpi_destroy,
    .queue = mpi_queue,
    .group_end = mpi_group_end,
    .subset = mpi_subset,
    .host_all_gather = mpi_host_all_gather,
    .give_up = mpi_give_up,
};
