/* Communicators: collectives among the ranks of a job, queued on a stream.
 *
 * Backends: self (one rank; lib/comm/self.c), mpi (cpu memory) and nccl (cuda memory; the ranks
 * find each other over TCP, lib/rendezvous), a folder each, sim (lib/comm/sim.c: any size, moves
 * nothing). All ranks of a communicator call the same operations in the same order. Counts are
 * elements. Pointers are device memory; a call returns once the operation is queued on `stream`,
 * and the memory is in use until the stream has run it. dt_stream_synchronize returns failures as
 * DT_ERR_COMM or DT_ERR_TIMEOUT with a text that names the communicator, operation, sequence number
 * and ranks.
 *
 * Sums. mpi: elements are added in fp32, rounded to the dtype when they are stored; DT_AVG divides
 * the finished sum by the size. nccl: NCCL adds in the dtype itself, rounding after each addition,
 * in an order that depends on its algorithm (in a wider type if a switch adds); for DT_AVG every
 * rank's elements are first multiplied by 1 / size, rounded to the dtype, which is exact if the
 * size is a power of two. In all backends the result is the same on every rank, bit for bit. */
#pragma once

#include "lib/base/dtype.h"
#include "lib/device/device.h"
#include "lib/launch/launch.h"

#include <stdio.h>

struct dt_comm;

enum dt_reduction { DT_SUM, DT_AVG };

enum dt_comm_kind {
    DT_COMM_ALL_REDUCE,
    DT_COMM_REDUCE_SCATTER,
    DT_COMM_ALL_GATHER,
    DT_COMM_ALL_TO_ALL,
    DT_COMM_SHIFT,
    DT_COMM_BROADCAST,
    DT_COMM_REDUCE,
    DT_COMM_SEND,
    DT_COMM_RECV,
    DT_COMM_KINDS
};
const char *dt_comm_kind_name(enum dt_comm_kind kind); /* "all_reduce" */

struct dt_comm_options {
    double step_timeout_s; /* an operation that waits longer for its peers fails with DT_ERR_TIMEOUT; 0: no limit */
    double init_timeout_s; /* the same for creation and subsets; 0: no limit */
    /* nccl: ranks may share a GPU, as dt_device_options.share allows. Each then reports a different
     * host to NCCL (NCCL_HOSTID), so that they communicate over sockets: only for correctness, not
     * for speed. Otherwise creation refuses two ranks with the same uuid, before NCCL fails or
     * hangs: DT_ERR_WORLD, naming the ranks and the GPU. */
    bool share_devices;
    /* nccl: from creation on the device's buffers are memory from NCCL, and registered
     * (lib/comm/nccl/register.c). The same on all ranks. */
    bool register_buffers;
};

/* The world's communicator for `device`. Collective over all ranks. world->size 1 never starts MPI;
 * size > 1 picks mpi for cpu, nccl for cuda, and sim for sim (nothing is exchanged; any size and
 * rank works in one process).
 * Errors: DT_ERR_WORLD if the library's size differs from the launcher's variables (the text says
 * what to pass), DT_ERR_UNAVAILABLE, DT_ERR_TIMEOUT, DT_ERR_COMM. Owner: the caller. */
dt_status dt_comm_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                         struct dt_comm **out);
/* The communicator of the ranks `ranks` [count] of `parent`, in this order. Collective over
 * `parent`: each rank calls with the list that contains it, or with count 0 for no list (*out is
 * then NULL). Lists of different ranks are equal or disjoint. `name` (copied, at most 31 bytes)
 * appears in dumps. Destroy before the parent. */
dt_status dt_comm_subset(struct dt_comm *parent, const int *ranks, int count, const char *name, struct dt_comm **out);
/* A second communicator of the ranks of `comm`, whose operations do not wait for those of `comm`;
 * their bytes count as comm's. Otherwise as dt_comm_subset. */
dt_status dt_comm_twin(struct dt_comm *comm, const char *name, struct dt_comm **out);
void dt_comm_destroy(struct dt_comm *comm); /* takes NULL; collective if the backend needs it. Streams must be synchronized. */
/* From here on the subsets of `comm`, and their subsets, outlive dt_comm_destroy, and
 * dt_comm_subset returns them again: the first request of a name gets the first kept one of that
 * name, and so on. `set` names all of them, the same on all ranks; another name than before
 * destroys the kept subsets. The caller's set name must determine which ranks each subset has. No
 * kept subset may be in use. Collective. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_comm_keep(struct dt_comm *comm, const char *set);

/* For `dtbench list`: the backends "self", "mpi", "nccl", "sim" by index, NULL past the last; and
 * whether this build has one: `text` gets its library, or what is missing. Starts nothing. */
const char *dt_comm_backend_name(int index);
bool dt_comm_available(const char *backend, char *text, size_t text_bytes);
/* Check without communication that the ranks of this world can find each other: the launcher's
 * variables for MPI must be set, or else each rank would be a separate world. Errors: DT_ERR_WORLD,
 * with the launcher's option that is missing. */
dt_status dt_comm_check_world(const char *backend, const struct dt_world *world);
/* The backend that dt_comm_create picks for a device of this kind. */
const char *dt_comm_backend_for(const struct dt_device_kind *device, int world_size);

int dt_comm_rank(const struct dt_comm *comm);
int dt_comm_size(const struct dt_comm *comm);
int dt_comm_world_rank(const struct dt_comm *comm, int rank); /* of `rank` in the outermost communicator */
/* "Open MPI 4.1.4" and the like, for provenance; "none" for self and sim. */
const char *dt_comm_library(const struct dt_comm *comm);
/* The source of the secret by which the ranks authenticated each other: "variable", "file" or
 * "none" (lib/launch/secret.c); NULL if there was none, with MPI or in one process. */
const char *dt_comm_secret(const struct dt_comm *comm);

/* How the library connects this rank with others, as far as it reports it; words are separated by
 * ", ", and "" is unknown. */
struct dt_comm_network {
    char transports[160]; /* "P2P/CUMEM, NET/IB" */
    char network[48];     /* between nodes, if it is used: "IB", "Socket" */
    char cards[256];      /* cards that it may use: "mlx5_0:1/IB, mlx5_1:1/IB", "eth0" */
    /* Number of network connections between the card and the GPU's own memory (GPUDirect RDMA), and
     * through host memory. */
    int direct_channels, staged_channels;
    uint64_t registered_bytes; /* bytes of this rank's memory registered with the world's communicator; over several ranks the highest */
};
/* Call it after a communicator's first operations. Only nccl reports something; else everything is
 * unknown. */
void dt_comm_network(const struct dt_comm *comm, struct dt_comm_network *out);
/* Merge the facts of another rank. */
void dt_comm_network_merge(struct dt_comm_network *all, const struct dt_comm_network *one);

/* buffer [count]: in place, the sum or average over all ranks. */
dt_status dt_all_reduce(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, enum dt_reduction op,
                        struct dt_stream *stream);
/* send [size * count], receive [count]: rank r gets the reduced r-th part. receive may be send +
 * rank * count; the rest of send is then undefined. Otherwise send may be used as scratch
 * memory. */
dt_status dt_reduce_scatter(struct dt_comm *comm, void *send, void *receive, size_t receive_count_elems, enum dt_dtype dtype,
                            enum dt_reduction op, struct dt_stream *stream);
/* send [count], receive [size * count]: the parts in rank order. send may be receive + rank *
 * count. */
dt_status dt_all_gather(struct dt_comm *comm, const void *send, void *receive, size_t send_count_elems, enum dt_dtype dtype,
                        struct dt_stream *stream);
/* send [size * count], receive [size * count]: part p of send becomes part r of rank p's receive,
 * where r is this rank. */
dt_status dt_all_to_all(struct dt_comm *comm, const void *send, void *receive, size_t part_elems, enum dt_dtype dtype,
                        struct dt_stream *stream);
/* send [count] goes to the next rank, receive [count] comes from the previous one: one step around
 * the ring. */
dt_status dt_shift(struct dt_comm *comm, const void *send, void *receive, size_t count_elems, enum dt_dtype dtype,
                   struct dt_stream *stream);
dt_status dt_broadcast(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, int root, struct dt_stream *stream);
/* In place on the root; on other ranks buffer is only read. */
dt_status dt_reduce(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, enum dt_reduction op, int root,
                    struct dt_stream *stream);
/* Sends match the peer's receives in the order of calls. Either may wait for the other. */
dt_status dt_send(struct dt_comm *comm, const void *buffer, size_t count_elems, enum dt_dtype dtype, int peer, struct dt_stream *stream);
dt_status dt_recv(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, int peer, struct dt_stream *stream);
/* Sends and receives between start and end, all on one stream, run concurrently: none waits for
 * another of the group. Collectives are not allowed. */
dt_status dt_group_start(struct dt_comm *comm);
dt_status dt_group_end(struct dt_comm *comm);

/* Bytes of all operations of this kind that were given to the communicator: whole buffers, which
 * for reduce_scatter, all_gather and all_to_all are those of all ranks together. 0 with one rank.
 * Operations that a graph repeats count once, when they are captured. */
uint64_t dt_comm_bytes(const struct dt_comm *comm, enum dt_comm_kind kind);

/* Between hosts, blocking, for small data (control data, metrics): all [size * bytes] gets every
 * rank's `mine` in rank order. Not while this communicator has work queued on a stream. The step
 * timeout applies. sim: copies `mine` to every place. */
dt_status dt_host_all_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all);

/* The same into new memory. all: the address of a pointer to it, NULL after a failure; owner: the
 * caller, free. */
dt_status dt_host_collect(struct dt_comm *comm, const void *mine, size_t bytes, void *all);

/* The same for rank 0 only; other ranks' `all` is not touched. */
dt_status dt_host_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all);

/* For a few numbers of many ranks: sums_and_highest [2 * count] gets the sums of mine [count] over
 * the ranks, then the highest of each; NaN if a rank's number is NaN. Only rank 0 receives size *
 * count numbers. sim: all ranks are taken to have this rank's numbers. */
dt_status dt_host_reduce(struct dt_comm *comm, const double *mine, int count, double *sums_and_highest);
/* all [count * bytes] gets the data of `ranks` [count], in this order. Every rank of the
 * communicator calls it with a list that contains it; the list is the same on its ranks, and in all
 * calls on this communicator. */
dt_status dt_host_gather_among(struct dt_comm *comm, const int *ranks, int count, const void *mine, size_t bytes, void *all);

/* Return at about the same moment on all ranks, which have nothing queued: with GPUs by an
 * all-reduce of one number on `stream`, since rank 0 would release the hosts one after another.
 * dt_comm_bytes does not count it. */
dt_status dt_comm_start_together(struct dt_comm *comm, struct dt_stream *stream);
/* As dt_host_reduce, for numbers of every step, without queued work: with GPUs the numbers are
 * gathered on `stream`, so that ranks need not wait for their turn at rank 0. dt_comm_bytes does
 * not count it. */
dt_status dt_comm_reduce_numbers(struct dt_comm *comm, const double *mine, int count, struct dt_stream *stream, double *sums_and_highest);

/* This rank cannot go on, and ends: the ranks that wait for it get the status and the text. Does
 * nothing if this rank has itself received such a notice. With MPI the call may hang if ranks are
 * gone. */
void dt_comm_give_up(struct dt_comm *comm, dt_status status, const char *text);

/* Call it once before a process ends, to finalize MPI. No communicator may exist. After a failure
 * it does nothing, since peers may be gone and MPI would wait for them. MPI cannot start again
 * afterwards; before this call a process may make one world after another. */
void dt_comm_library_finish(void);

/* Write the ring of the last 64 operations (sequence, kind, bytes, state: queued, waiting, moving,
 * done, failed, in a graph), newest last, a line each: of this communicator and all its subsets
 * that have been used. From any thread, while none of them is destroyed. */
void dt_comm_dump(struct dt_comm *comm, FILE *to);
