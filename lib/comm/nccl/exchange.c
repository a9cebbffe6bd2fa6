/* Exchanges between the ranks' hosts over their own connections, without NCCL. */
#include "lib/comm/nccl/comm.h"

#include <stdio.h>
#include <stdlib.h>

/* Handle the result of an exchange between the ranks' hosts. */
static dt_status exchanged(struct nccl_comm *comm, dt_status status)
{
    if (status < 0) {
        char text[sizeof comm->family->failure_text]; /* give_up writes to failure_text, so this is a copy */
        snprintf(text, sizeof text, "%s", dt_error_message());
        return dt_nccl_give_up(comm->family, status, text);
    }
    return DT_OK;
}

dt_status dt_nccl_gather(struct nccl_comm *comm, const char *what, const void *mine, size_t bytes, void *all, double timeout_s)
{
    char text[96];
    if (comm->family->aborted)
        return dt_nccl_is_over(comm->family);
    snprintf(text, sizeof text, "%s of communicator %s", what, comm->base.name);
    return exchanged(comm, dt_rendezvous_all_gather(comm->family->rendezvous, &comm->group, text, mine, bytes, all, timeout_s));
}

dt_status dt_nccl_host_all_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all)
{
    return bytes ? dt_nccl_gather(dt_nccl_of(base), "host_all_gather", mine, bytes, all, base->options.step_timeout_s) : DT_OK;
}

dt_status dt_nccl_host_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    if (comm->family->aborted)
        return dt_nccl_is_over(comm->family);
    return exchanged(
        comm, dt_rendezvous_gather(comm->family->rendezvous, &comm->group, "host_gather", mine, bytes, all, base->options.step_timeout_s));
}

dt_status dt_nccl_host_reduce(struct dt_comm *base, const double *mine, int count, double *sums_and_highest)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    if (comm->family->aborted)
        return dt_nccl_is_over(comm->family);
    return exchanged(comm, dt_rendezvous_reduce(comm->family->rendezvous, &comm->group, "host_reduce of the ranks' numbers", mine,
                                                (size_t)count, sums_and_highest, base->options.step_timeout_s));
}

/* A group of the rendezvous only, without NCCL. Its number differs from those of subsets, whose
 * counters begin at 1. */
dt_status dt_nccl_host_gather_among(struct dt_comm *base, const int *ranks, int count, const void *mine, size_t bytes, void *all)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    DT_FREED int *members = malloc((size_t)count * sizeof *members);
    DT_TRY(dt_allocated(members, "no host memory for %d ranks", count));
    struct dt_rendezvous_group among = {.ranks = members, .size = count, .gatherings = comm->gathered_among++};
    for (int i = 0; i < count; i++) {
        members[i] = dt_comm_world_rank(base, ranks[i]);
        among.rank = ranks[i] == base->rank ? i : among.rank;
    }
    among.id = ((uint64_t)members[0] + 1) << 32 | (comm->group.id & UINT32_MAX) << 16 | UINT16_MAX;
    return comm->family->aborted ? dt_nccl_is_over(comm->family)
                                 : exchanged(comm, dt_rendezvous_all_gather(comm->family->rendezvous, &among, "host_gather_among", mine,
                                                                            bytes, all, base->options.step_timeout_s));
}
