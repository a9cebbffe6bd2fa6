/* Communicators: collectives among the ranks of a job, queued on a stream.
 *
 * Backends: self (one rank; lib/comm/self.c), mpi (cpu memory) and nccl (cuda memory; the ranks find each other over TCP, lib/rendezvous),
 * a folder each, sim (lib/comm/sim.c: any size, moves nothing). All ranks of a communicator call the same operations in the same order.
 * Counts are elements. Pointers are device memory; a call returns once queued on `stream`, and the memory is in use until the stream has
 * passed. Failures surface in dt_stream_synchronize as DT_ERR_COMM or DT_ERR_TIMEOUT with a text that names the communicator, operation,
 * sequence number and ranks.
 *
 * Sums. mpi: elements are added in fp32, rounded to the dtype when they are stored; DT_AVG divides the finished sum by the size. nccl: what
 * NCCL does, which is to add in the dtype itself, rounding after each addition, in an order that depends on the algorithm it picks (wider
 * where a switch adds); for DT_AVG every rank's elements are first multiplied by 1 / size, rounded to the dtype, which is exact where the
 * size is a power of two. In all backends the result is the same on every rank, bit for bit. */
#ifndef LIB_COMM_COMM_H
#define LIB_COMM_COMM_H

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
    double step_timeout_s; /* an operation that waits longer for its peers fails with DT_ERR_TIMEOUT; 0: never */
    double init_timeout_s; /* the same for creation and subsets; 0: never */
    /* nccl: ranks may be on one GPU, as dt_device_options.share lets them. Each then reports to NCCL a host of its own
     * (NCCL_HOSTID), so that they talk over sockets: for correctness, worthless for speed. Else creation refuses two ranks with the same
     * uuid, before NCCL would fail or hang: DT_ERR_WORLD, naming the ranks and the GPU. */
    bool share_devices;
    /* nccl: the device's buffers are NCCL's memory from the creation on, and registered (lib/comm/nccl/register.c). The same on all ranks. */
    bool register_buffers;
};

/* The world's communicator for `device`. Collective over all ranks. world->size 1 never starts MPI; size > 1 picks mpi for cpu, nccl for
 * cuda, and sim for sim (where nothing is exchanged and every size and rank works in one process).
 * Errors: DT_ERR_WORLD when the library sees another size than the launcher's variables say (says what to pass), DT_ERR_UNAVAILABLE,
 * DT_ERR_TIMEOUT, DT_ERR_COMM. Owner: the caller. */
dt_status dt_comm_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                         struct dt_comm **out);
/* The communicator of the ranks `ranks` [count] of `parent`, in this order. Collective over `parent`: each rank calls with the list that it
 * is in, lists of different ranks being equal or disjoint, or with count 0 to stay out (*out is then NULL). `name` (copied, at most
 * 31 bytes) appears in dumps. Destroy before the parent. */
dt_status dt_comm_subset(struct dt_comm *parent, const int *ranks, int count, const char *name, struct dt_comm **out);
void dt_comm_destroy(struct dt_comm *comm); /* takes NULL; collective where the backend needs it. Streams must be synchronized. */
/* From here on the subsets of `comm`, and theirs, outlive dt_comm_destroy, and dt_comm_subset gives them again: as the first of a name what was
 * the first of that name after the last call, and so on. `set` names all of them, on all ranks alike: another one than before destroys what
 * was kept. Who names a set says for which ranks each of its names stands. Nothing of it is in use. Collective. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_comm_keep(struct dt_comm *comm, const char *set);

/* One row of `dtbench list`: the backends "self", "mpi", "nccl", "sim" by index, NULL past the last; whether this build has it;
 * `text` gets its library, or what is missing. Starts nothing. */
const char *dt_comm_backend_name(int index);
bool dt_comm_available(const char *backend, char *text, size_t text_bytes);
/* Would the ranks of this world find each other? What can be known without communication: are the launcher's variables for MPI set? Where
 * they are not, each would be a world of its own. Errors: DT_ERR_WORLD, with the launcher's option that is missing. */
dt_status dt_comm_check_world(const char *backend, const struct dt_world *world);
/* The backend that dt_comm_create picks for a device of this kind. */
const char *dt_comm_backend_for(const struct dt_device_kind *device, int world_size);

int dt_comm_rank(const struct dt_comm *comm);
int dt_comm_size(const struct dt_comm *comm);
int dt_comm_world_rank(const struct dt_comm *comm, int rank); /* the number of `rank` in the communicator that all subsets came of */
/* "Open MPI 4.1.4" and the like, for provenance; "none" for self and sim. */
const char *dt_comm_library(const struct dt_comm *comm);
/* Where the secret came from with which the ranks proved that they belong together: "variable", "file" or "none" (lib/launch/secret.c);
 * NULL where they met without one, over MPI or in one process. */
const char *dt_comm_secret(const struct dt_comm *comm);

/* How the library connects this rank with others, as far as it says so; words are separated by ", ", and "" is unknown. */
struct dt_comm_network {
    char transports[160]; /* "P2P/CUMEM, NET/IB" */
    char network[48];     /* between nodes, if it is used: "IB", "Socket" */
    char cards[256];      /* that it may use: "mlx5_0:1/IB, mlx5_1:1/IB", "eth0" */
    /* Connections over the network between the card and the GPU's own memory (GPUDirect RDMA), and over the host's memory. */
    int direct_channels, staged_channels;
    uint64_t registered_bytes; /* of this rank's memory, with the world's communicator; of several ranks the highest */
};
/* Everything unknown, but of nccl. After a communicator's first operations. */
void dt_comm_network(const struct dt_comm *comm, struct dt_comm_network *out);
/* A word [length] more, if the list does not have it and has room; and what one more rank knows. */
void dt_comm_network_add_word(char *list, size_t list_bytes, const char *word, size_t length);
void dt_comm_network_merge(struct dt_comm_network *all, const struct dt_comm_network *one);

/* buffer [count]: in place, everybody's sum or average. */
dt_status dt_all_reduce(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, enum dt_reduction op,
                        struct dt_stream *stream);
/* send [size * count], receive [count]: rank r gets the reduced r-th part. receive may be send + rank * count; send is then undefined but
 * for that part, and otherwise may be used as scratch too. */
dt_status dt_reduce_scatter(struct dt_comm *comm, void *send, void *receive, size_t receive_count_elems, enum dt_dtype dtype,
                            enum dt_reduction op, struct dt_stream *stream);
/* send [count], receive [size * count]: the parts in rank order. send may be receive + rank * count. */
dt_status dt_all_gather(struct dt_comm *comm, const void *send, void *receive, size_t send_count_elems, enum dt_dtype dtype,
                        struct dt_stream *stream);
/* send [size * count], receive [size * count]: part p of send becomes part r of rank p's receive, where r is this rank. */
dt_status dt_all_to_all(struct dt_comm *comm, const void *send, void *receive, size_t part_elems, enum dt_dtype dtype,
                        struct dt_stream *stream);
/* send [count] goes to the next rank, receive [count] comes from the one before: a step around the ring. */
dt_status dt_shift(struct dt_comm *comm, const void *send, void *receive, size_t count_elems, enum dt_dtype dtype,
                   struct dt_stream *stream);
dt_status dt_broadcast(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, int root, struct dt_stream *stream);
/* In place at root; elsewhere buffer is only read. */
dt_status dt_reduce(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, enum dt_reduction op, int root,
                    struct dt_stream *stream);
/* A send matches the peer's receives in the order of their streams' calls. Either may wait for the other. */
dt_status dt_send(struct dt_comm *comm, const void *buffer, size_t count_elems, enum dt_dtype dtype, int peer, struct dt_stream *stream);
dt_status dt_recv(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, int peer, struct dt_stream *stream);
/* Sends and receives between start and end, all on one stream, go together: none waits for another of the group. No collectives within. */
dt_status dt_group_start(struct dt_comm *comm);
dt_status dt_group_end(struct dt_comm *comm);

/* Bytes of all operations of this kind that have been given to the communicator: whole buffers, which are those of all ranks together for
 * reduce_scatter, all_gather and all_to_all. 0 of one rank: nothing leaves it. What a graph repeats counts once, when it is captured. */
uint64_t dt_comm_bytes(const struct dt_comm *comm, enum dt_comm_kind kind);

/* Host side, blocking, small (control data, metrics): all [size * bytes] gets everybody's `mine` in rank order. Not while this
 * communicator has work queued on a stream. Subject to the step timeout. sim: copies `mine` to every place. */
dt_status dt_host_all_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all);

/* The same into memory of its own. all: the address of a pointer, which gets it, NULL after a failure; owner: the caller, free. */
dt_status dt_host_collect(struct dt_comm *comm, const void *mine, size_t bytes, void *all);

/* The same for rank 0 alone; elsewhere `all` is not touched. */
dt_status dt_host_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all);

/* The same, for few numbers of many ranks: sums_and_highest [2 * count] gets the sums of mine [count] over the ranks, then the highest of
 * each; NaN where a rank's is. Nobody gets size * count numbers but rank 0. sim: the others are taken to have what this rank has. */
dt_status dt_host_reduce(struct dt_comm *comm, const double *mine, int count, double *sums_and_highest);
/* all [count * bytes] gets what `ranks` [count] give, in their order; every rank calls it, with a list that has itself and is the same on
 * all of these, and in every call on this communicator. */
dt_status dt_host_gather_among(struct dt_comm *comm, const int *ranks, int count, const void *mine, size_t bytes, void *all);

/* Return at about the same moment on all ranks, which have nothing queued: where there are GPUs, by a sum of one number on `stream`, since
 * hosts that hear of each other through rank 0 hear it one after another. The sum is none of dt_comm_bytes'. */
dt_status dt_comm_start_together(struct dt_comm *comm, struct dt_stream *stream);
/* As dt_host_reduce, for numbers of every step, in the same moment and by the same way: where there are GPUs they gather the numbers on
 * `stream`, and no rank waits for another one's turn at rank 0. dt_comm_bytes does not count it. */
dt_status dt_comm_reduce_numbers(struct dt_comm *comm, const double *mine, int count, struct dt_stream *stream, double *sums_and_highest);

/* This rank alone cannot go on, and ends: the others, which wait for it, hear the status and the text instead of seeing it vanish. Not where
 * it has heard so of another rank itself. Over MPI the call may hang when ranks are gone. */
void dt_comm_give_up(struct dt_comm *comm, dt_status status, const char *text);

/* Once, before a process ends: MPI must be finalized. No communicator may be left. After a failure it does nothing, since peers may be gone
 * and MPI would wait for them. MPI does not start again afterwards; without this call a process may make one world after another. */
void dt_comm_library_finish(void);

/* Write the ring of the last 64 operations (sequence, kind, bytes, state: queued, waiting, moving, done, failed, in a graph), newest last,
 * a line each: of this communicator, and of all its subsets that have been used. From any thread, while none of them is
 * destroyed. */
void dt_comm_dump(struct dt_comm *comm, FILE *to);

#endif
