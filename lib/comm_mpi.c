#include "lib/comm_mpi.h"

#include "lib/device_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static const struct dt_comm_backend mpi_backend;

static struct mpi_comm *mpi_of(struct dt_comm *comm)
{
    return (struct mpi_comm *)comm;
}

/* ---- starting MPI ---- */

/* Whether one process may read another's memory here; containers often forbid it, and Open MPI then complains at every message. */
static bool may_read_processes(void)
{
    int from = 1, to = 0;
    struct iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof to;
}

/* Once per process. What the user has set himself stays. */
static dt_status start_mpi(void)
{
    int initialized = 0, finalized = 0, provided = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized)
        return dt_fail(DT_ERR_COMM, "MPI was ended in this process and cannot be started again");
    if (!initialized) {
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* ranks may share cores with each other and with kernels */
        setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
        if (!may_read_processes())
            setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
            return dt_fail(DT_ERR_COMM, "MPI could not be started");
    } else {
        MPI_Query_thread(&provided);
    }
    if (provided < MPI_THREAD_MULTIPLE)
        return dt_fail(DT_ERR_COMM, "this MPI was built without MPI_THREAD_MULTIPLE, which overlapping communication needs");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return DT_OK;
}

void dt_comm_library_finish(void)
{
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized && !finalized)
        MPI_Finalize();
}

/* ---- creation ---- */

static void mpi_destroy(struct dt_comm *base)
{
    struct mpi_comm *comm = mpi_of(base);
    bool aborted = comm->aborted && atomic_load(comm->aborted);
    /* after giving up, peers may be gone and requests still open: nothing collective may follow */
    if (!aborted && comm->stream_comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm->stream_comm);
    if (!aborted && comm->host_comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm->host_comm);
    while (comm->groups) {
        struct mpi_group *next = comm->groups->next;
        free(comm->groups->operations);
        free(comm->groups);
        comm->groups = next;
    }
    if (!aborted) { /* an open request may still write to the segments */
        free(comm->segments[0]);
        free(comm->segments[1]);
    }
    if (comm->owns_aborted)
        free(comm->aborted);
    free(comm);
}

/* Takes `stream_comm` over, also on failure. `parent` NULL: the world. */
static dt_status wrap(MPI_Comm stream_comm, struct dt_device *device, struct mpi_comm *parent, const char *name,
                      const struct dt_comm_options *options, struct dt_comm **out)
{
    int rank = 0, size = 0;
    dt_status status = DT_ERR_HOST_MEMORY;
    struct mpi_comm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        MPI_Comm_free(&stream_comm);
        return dt_fail(status, "%s: no host memory for a communicator", name);
    }
    MPI_Comm_rank(stream_comm, &rank);
    MPI_Comm_size(stream_comm, &size);
    dt_comm_init(&comm->base, &mpi_backend, device, rank, size, name, options);
    comm->stream_comm = stream_comm;
    comm->host_comm = MPI_COMM_NULL;
    comm->sum = dt_reduce_isa(0)->sum;
    comm->owns_aborted = !parent;
    comm->aborted = parent ? parent->aborted : calloc(1, sizeof *comm->aborted);
    comm->segments[0] = malloc(MPI_SEGMENT_BYTES);
    comm->segments[1] = malloc(MPI_SEGMENT_BYTES);
    if (!comm->aborted || !comm->segments[0] || !comm->segments[1]) {
        status = dt_fail(status, "%s: no host memory for a communicator", name);
        goto fail;
    }
    /* "Open MPI v4.1.4, package: ...": up to the first comma */
    int length = 0;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(version, &length);
    snprintf(comm->library, sizeof comm->library, "%.*s", (int)strcspn(version, ",\n"), version);
    MPI_Comm_set_errhandler(stream_comm, MPI_ERRORS_RETURN);
    if ((status = dt_mpi_check(comm, MPI_Comm_dup(stream_comm, &comm->host_comm), "MPI_Comm_dup")) < 0)
        goto fail;
    *out = &comm->base;
    return DT_OK;

fail:
    mpi_destroy(&comm->base);
    return status;
}

dt_status dt_comm_mpi_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                             struct dt_comm **out)
{
    int rank = 0, size = 0;
    MPI_Comm copy;
    DT_TRY(start_mpi());
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != world->size || rank != world->rank)
        return dt_fail(DT_ERR_WORLD,
                       "%s started rank %d of %d, but MPI sees rank %d of %d: the launcher and this MPI do not know each other; start with "
                       "`srun --mpi=pmix` or with the mpirun of Open MPI",
                       world->launcher, world->rank, world->size, rank, size);
    if (MPI_Comm_dup(MPI_COMM_WORLD, &copy) != MPI_SUCCESS)
        return dt_fail(DT_ERR_COMM, "world: MPI_Comm_dup failed");
    return wrap(copy, device, NULL, "world", options, out);
}

static dt_status mpi_split(struct dt_comm *parent, int color, int key, const char *name, struct dt_comm **out)
{
    struct mpi_comm *from = mpi_of(parent);
    MPI_Comm part = MPI_COMM_NULL;
    DT_TRY(dt_mpi_check(from, MPI_Comm_split(from->host_comm, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split"));
    return part == MPI_COMM_NULL ? DT_OK : wrap(part, parent->device, from, name, &parent->options, out);
}

static const char *mpi_library(const struct dt_comm *comm)
{
    return ((const struct mpi_comm *)comm)->library;
}

/* ---- operations ---- */

struct task_arguments {
    struct mpi_comm *comm;
    struct dt_comm_operation operation;
};

static dt_status run_task(void *arguments)
{
    struct task_arguments *a = arguments;
    return dt_mpi_run(a->comm, &a->operation);
}

static dt_status run_group_task(void *arguments)
{
    return dt_mpi_run_group(*(struct mpi_group **)arguments);
}

/* A group's operations are collected until group_end; all of them are on the stream of the first. */
static dt_status add_to_group(struct mpi_comm *comm, const struct dt_comm_operation *operation)
{
    struct mpi_group *group = comm->groups;
    if (operation->kind != DT_COMM_SEND && operation->kind != DT_COMM_RECV)
        return dt_fail(DT_ERR_INVALID, "%s: %s within a group of sends and receives", comm->base.name, dt_comm_kind_name(operation->kind));
    if (group->count > 0 && group->operations[0].stream != operation->stream)
        return dt_fail(DT_ERR_INVALID, "%s: a group on more than one stream", comm->base.name);
    if (group->count == group->capacity) {
        int capacity = group->capacity ? 2 * group->capacity : 8;
        struct dt_comm_operation *operations = realloc(group->operations, (size_t)capacity * sizeof *operations);
        if (!operations)
            return dt_fail(DT_ERR_HOST_MEMORY, "%s: no host memory for a group of %d messages", comm->base.name, capacity);
        group->operations = operations;
        group->capacity = capacity;
    }
    group->operations[group->count++] = *operation;
    return DT_OK;
}

static dt_status mpi_queue(struct dt_comm *base, const struct dt_comm_operation *operation)
{
    struct mpi_comm *comm = mpi_of(base);
    if (operation->kind == DT_COMM_SEND || operation->kind == DT_COMM_RECV)
        dt_cpu_stream_exchanges(operation->stream);
    if (comm->grouping)
        return add_to_group(comm, operation);
    struct task_arguments a = {comm, *operation};
    return dt_cpu_submit(operation->stream, dt_comm_kind_name(operation->kind), run_task, &a, sizeof a);
}

static dt_status mpi_group_start(struct dt_comm *base)
{
    struct mpi_comm *comm = mpi_of(base);
    if (comm->grouping)
        return dt_fail(DT_ERR_INVALID, "%s: a group within a group", base->name);
    struct mpi_group *group = calloc(1, sizeof *group);
    if (!group)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: no host memory for a group", base->name);
    group->comm = comm;
    group->next = comm->groups;
    comm->groups = group;
    comm->grouping = true;
    return DT_OK;
}

static dt_status mpi_group_end(struct dt_comm *base)
{
    struct mpi_comm *comm = mpi_of(base);
    struct mpi_group *group = comm->groups;
    if (!comm->grouping)
        return dt_fail(DT_ERR_INVALID, "%s: the end of a group that was not started", base->name);
    comm->grouping = false;
    return group->count ? dt_cpu_submit(group->operations[0].stream, "group", run_group_task, &group, sizeof group) : DT_OK;
}

static dt_status mpi_host_all_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all)
{
    struct mpi_comm *comm = mpi_of(base);
    MPI_Request request;
    DT_TRY(dt_mpi_check(comm, MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm->host_comm, &request),
                        "host_all_gather"));
    return dt_mpi_wait(comm, &request, 1, "host_all_gather", -1, base->options.step_timeout_s);
}

static void mpi_abort(struct dt_comm *base)
{
    atomic_store(mpi_of(base)->aborted, true);
}

static const struct dt_comm_backend mpi_backend = {
    .name = "mpi",
    .library = mpi_library,
    .destroy = mpi_destroy,
    .queue = mpi_queue,
    .group_start = mpi_group_start,
    .group_end = mpi_group_end,
    .split = mpi_split,
    .subset = dt_comm_subset_by_split,
    .host_all_gather = mpi_host_all_gather,
    .abort = mpi_abort,
};
