#include "cli/run/run.h"

#include "lib/base/machine.h"
#include "lib/launch/launch.h"
#include "schedules/run/device_choice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool same_node(const struct placement_rank *a, const struct placement_rank *b)
{
    return strcmp(a->node, b->node) == 0;
}

static int ranks_on_node_of(const struct placement_rank *ranks, int size, int rank)
{
    int count = 0;
    for (int i = 0; i < size; i++)
        count += same_node(&ranks[i], &ranks[rank]);
    return count;
}

/* Every node must be full, except the last. */
static dt_status check_nodes(const struct experiment *e, int number, int count, const struct placement_rank *ranks)
{
    int size = e->world_size, wanted = e->gpus_per_node, rest = size % wanted, not_full = 0;
    for (int rank = 0; rank < size; rank++) {
        bool first = true;
        for (int i = 0; i < rank && first; i++)
            first = !same_node(&ranks[i], &ranks[rank]);
        int here = first ? ranks_on_node_of(ranks, size, rank) : wanted;
        if (here == wanted || (here == rest && not_full++ == 0))
            continue;
        return dt_fail(DT_ERR_INVALID,
                       "experiment %d of %d: gpus_per_node: %d are asked for, and node %s has %d of the %d ranks: pass "
                       "--ntasks-per-node=%d to srun (mpirun: --map-by ppr:%d:node)",
                       number, count, wanted, ranks[rank].node, here, size, wanted, wanted);
    }
    return DT_OK;
}

/* Check Slurm's allocation first, then the GPUs that the ranks see: this shows which option is
 * wrong. */
static dt_status check_slurm_gpus(const struct experiment *e, int number, int count, const struct placement_rank *rank, int here)
{
    if (rank->slurm_gpus == 0)
        return DT_OK;
    if (e->gpus_per_node > rank->slurm_gpus)
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: gpus_per_node: %d are asked for, and Slurm gave the job %d on node %s (SLURM_GPUS_ON_NODE): pass "
            "--gpus-per-node=%d",
            number, count, e->gpus_per_node, rank->slurm_gpus, rank->node, e->gpus_per_node);
    if (here > rank->slurm_gpus && !e->share_gpus)
        return dt_fail(DT_ERR_INVALID,
                       "experiment %d of %d: node %s has %d ranks, and Slurm gave the job %d GPU%s there (SLURM_GPUS_ON_NODE): pass "
                       "--gpus-per-node=%d, or --ntasks-per-node=%d",
                       number, count, rank->node, here, rank->slurm_gpus, rank->slurm_gpus > 1 ? "s" : "", here, rank->slurm_gpus);
    return DT_OK;
}

/* Each rank must have its own GPU. */
static dt_status check_gpus(const struct experiment *e, int number, int count, const struct placement_rank *ranks)
{
    /* GPUs may have been counted for other experiments of the sweep. */
    bool on_cpu = e->strategy.device && !e->strategy.device->gpus;
    for (int rank = 0; rank < e->world_size && !on_cpu; rank++) {
        const struct placement_rank *r = &ranks[rank];
        int here = ranks_on_node_of(ranks, e->world_size, rank);
        if (!*r->gpu)
            continue;
        DT_TRY(check_slurm_gpus(e, number, count, r, here));
        if (e->share_gpus)
            continue;
        if (r->gpus > 1 && here > r->gpus)
            return dt_fail(DT_ERR_INVALID,
                           "experiment %d of %d: node %s has %d ranks and %d GPUs: start %d ranks there (srun --ntasks-per-node=%d, mpirun "
                           "--map-by ppr:%d:node), or let them share, for correctness alone, with \"share_gpus\": true",
                           number, count, r->node, here, r->gpus, r->gpus, r->gpus, r->gpus);
        for (int i = 0; i < rank; i++) {
            if (strcmp(ranks[i].gpu, r->gpu) == 0 && same_node(&ranks[i], r))
                return dt_fail(DT_ERR_INVALID,
                               "experiment %d of %d: ranks %d and %d are both on %s of node %s: give each its own (srun --gpus-per-node=%d "
                               "--gpu-bind=none), or let them share, for correctness alone, with \"share_gpus\": true",
                               number, count, i, rank, r->gpu, r->node, here);
        }
    }
    return DT_OK;
}

/* The mesh that the experiment would have here: without a size of their own, hsdp's shard groups
 * are the nodes, if these are equal. */
static struct mesh_shape mesh_here(const struct experiment *e, const struct placement_rank *ranks)
{
    struct experiment placed = *e;
    experiment_place(&placed, ranks_on_node_of(ranks, e->world_size, 0));
    return placed.strategy.mesh;
}

/* Each group that communicates all the time must be on one node. */
static dt_status check_groups(const struct experiment *e, int number, int count, const struct placement_rank *ranks, enum mesh_axis axis)
{
    const char *key = experiment_node_key(e, axis);
    struct mesh_shape mesh = mesh_here(e, ranks);
    int span = mesh_span(&mesh, axis);
    for (int rank = 0; key && rank < e->world_size; rank++) {
        int at = mesh_coordinate(&mesh, axis, rank), previous = mesh_moved(&mesh, axis, rank, at > 0 ? at - 1 : 0);
        if (same_node(&ranks[rank], &ranks[previous]))
            continue;
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: %s: %d ranks that belong together would straddle nodes: ranks %d and %d are on %s and %s; put a "
            "multiple of %d on each node (srun --ntasks-per-node), or allow it with \"straddle_nodes\": true",
            number, count, key, mesh.size[axis], previous, rank, ranks[previous].node, ranks[rank].node, span);
    }
    return DT_OK;
}

dt_status placement_check(const struct experiment *e, int number, int count, const struct placement_rank *ranks)
{
    if (e->gpus_per_node > 0)
        DT_TRY(check_nodes(e, number, count, ranks));
    DT_TRY(check_gpus(e, number, count, ranks));
    for (int axis = 0; axis < MESH_AXES && !e->straddle_nodes; axis++)
        DT_TRY(check_groups(e, number, count, ranks, (enum mesh_axis)axis));
    return DT_OK;
}

int placement_hidden_gpus(const struct placement_rank *ranks, int size)
{
    for (int rank = 0; rank < size; rank++)
        if (*ranks[rank].gpu && ranks[rank].gpus == 1 && ranks_on_node_of(ranks, size, rank) > 1)
            return rank;
    return -1;
}

dt_status placement_check_alone(const struct experiment *e, int number, int count, int gpus)
{
    if (experiment_is_simulated(e))
        return DT_OK;
    if (e->gpus_per_node > 0 && e->world_size > e->gpus_per_node)
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: gpus_per_node: %d are asked for, and all %d ranks would be on this machine: start them on %d nodes "
            "with srun or mpirun",
            number, count, e->gpus_per_node, e->world_size, (e->world_size + e->gpus_per_node - 1) / e->gpus_per_node);
    if (gpus >= 0 && e->world_size > gpus && !e->share_gpus)
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: world_size: %d ranks, and this machine has %d GPU%s for them: start them on more nodes with srun "
            "or mpirun, take device \"cpu\", or let them share, for correctness alone, with \"share_gpus\": true",
            number, count, e->world_size, gpus, gpus == 1 ? "" : "s");
    return DT_OK;
}

/* ---- all ranks of a launcher ---- */

/* What each rank sends, followed by a byte for each experiment: is it skipped? */
struct rank_entry {
    struct placement_rank place;
    int code;
    int limited;
};

static const struct rank_entry *entry_of(const char *all, size_t bytes, int rank)
{
    return (const struct rank_entry *)(const void *)(all + bytes * (size_t)rank);
}

static dt_status check_placement(struct sweep *s, const char *all, size_t bytes)
{
    DT_FREED struct placement_rank *ranks = calloc((size_t)s->world.size, sizeof *ranks);
    DT_TRY(dt_allocated(ranks, "no host memory for %d ranks", s->world.size));
    for (int rank = 0; rank < s->world.size; rank++)
        ranks[rank] = entry_of(all, bytes, rank)->place;
    for (int i = 0; i < s->distinct; i++)
        if (!s->outcomes[i].elsewhere && !experiment_is_simulated(sweep_experiment(s, i))) /* otherwise these ranks do not run it */
            DT_TRY(placement_check(sweep_experiment(s, i), i + 1, s->distinct, ranks));
    int hidden = placement_hidden_gpus(ranks, s->world.size);
    if (hidden >= 0 && s->world.rank == 0)
        progress_note(
            &s->progress,
            "rank %d sees one GPU, and node %s has several ranks: GPUs that a launcher hides from each other (--gpus-per-task) may talk "
            "through host memory instead of NVLink; start with srun --gpus-per-node=N --gpu-bind=none",
            hidden, ranks[hidden].node);
    return DT_OK;
}

/* Does any of the experiments run on GPUs? */
static bool needs_gpus(const struct sweep *s)
{
    const struct dt_device_kind *kind;
    for (int i = 0; i < s->distinct; i++) {
        const struct experiment *e = sweep_experiment(s, i);
        if (!experiment_is_simulated(e) && device_choose(e, &kind) == DT_OK && kind->gpus)
            return true;
    }
    return false;
}

/* Find this rank's place, and the GPU that it would take: among the visible ones that with its
 * local rank as number. */
static void find_place(const struct sweep *s, struct placement_rank *out)
{
    struct dt_device_info gpu;
    gethostname(out->node, sizeof out->node - 1);
    out->gpus = needs_gpus(s) ? dt_device_count("cuda") : 0;
    if (out->gpus == 0)
        return;
    out->slurm_gpus = dt_slurm_gpus_on_node();
    if (dt_device_look("cuda", s->world.local_rank % out->gpus, &gpu))
        memcpy(out->gpu, gpu.uuid, sizeof out->gpu);
}

dt_status rendezvous_check(struct sweep *s, enum exit_code *code)
{
    size_t bytes = (sizeof(struct rank_entry) + (size_t)s->count + 7) / 8 * 8;
    DT_FREED char *mine = calloc(1, bytes);
    DT_FREED char *all = calloc((size_t)s->world.size, bytes);
    DT_TRY(dt_allocated(mine && all, "no host memory for %d ranks", s->world.size));
    struct rank_entry *entry = (struct rank_entry *)(void *)mine;
    char *skipped = mine + sizeof *entry;
    find_place(s, &entry->place);
    entry->code = (int)*code;
    entry->limited = s->limited;
    for (int i = 0; i < s->count; i++)
        skipped[i] = s->outcomes[i].skipped;
    const struct experiment *first = sweep_experiment(s, 0);
    DT_TRY(run_inside_gather(first, &s->world, first->timeout.init_s, mine, bytes, all));
    *code = (enum exit_code)entry_of(all, bytes, 0)->code;
    s->limited = entry_of(all, bytes, 0)->limited;
    for (int i = 0; i < s->count; i++)
        s->outcomes[i].skipped = all[sizeof *entry + (size_t)i];
    return *code == EXIT_CODE_OK ? check_placement(s, all, bytes) : DT_OK;
}

void rendezvous_note_secret(struct sweep *s)
{
    struct dt_secret secret;
    bool over_tcp = s->inside && s->world.size > 1 && needs_gpus(s);
    if (!over_tcp || dt_secret_of_job(&s->world, &secret) < 0 || secret.source != DT_SECRET_FROM_NOTHING)
        return; /* an error in a variable is reported when the ranks meet */
    progress_note(&s->progress, "no secret keeps others out where the ranks meet (%s): set " DT_SECRET_VARIABLE " to one text on all nodes",
                  secret.missing);
}

/* ---- more threads than processors ---- */

/* Processors of this machine's ranks. A launcher may bind each rank to some processors: together
 * they then have the launcher's. */
static int processors_for_ranks(const struct sweep *s)
{
    struct dt_processors all, launcher;
    dt_processors_of(0, &all);
    if (s->inside) {
        dt_processors_of(getppid(), &launcher);
        dt_processors_add(&all, &launcher);
    }
    return dt_machine_processors_among(&all);
}

/* The first such experiment; -1: none. */
static int find_crowded(const struct sweep *s, int processors, int *ranks)
{
    const struct dt_device_kind *kind;
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = sweep_experiment(s, i);
        *ranks = s->inside ? s->world.local_size : e->world_size;
        if (!s->outcomes[i].elsewhere && !s->outcomes[i].skipped && dt_crowded(e->threads, *ranks, processors) &&
            device_choose(e, &kind) == DT_OK && !kind->gpus && !kind->simulated)
            return i;
    }
    return -1;
}

void crowded_begin_anew(const struct sweep *s, const char *config, char **argv)
{
    int count = 0, ranks;
    if (!s->inside || strcmp(config, "-") == 0 || dt_waiting_is_set() || find_crowded(s, processors_for_ranks(s), &ranks) < 0)
        return;
    while (argv[count])
        count++;
    const char **again = calloc((size_t)count + 2, sizeof *again);
    if (!again)
        return;
    again[0] = "dtbench";
    again[1] = "run";
    memcpy(again + 2, argv + 1, (size_t)count * sizeof *again); /* and the NULL */
    setenv(DT_WAITING_NAME, DT_WAITING_PASSIVE, 1);
    execv("/proc/self/exe", (char **)again);
    free(again); /* busy waiting is slow, but not an error */
}

void crowded_note(const struct sweep *s)
{
    int processors = processors_for_ranks(s), ranks, first = find_crowded(s, processors, &ranks);
    if (first < 0)
        return;
    int threads = dt_threads_of_rank(sweep_experiment(s, first)->threads, ranks, processors);
    line_print(
        stderr,
        "dtbench: note: experiment %d of %d has %d rank%s of %d thread%s on %d processor%s: the threads take turns, and its times are "
        "those of a crowded machine",
        first + 1, s->count, ranks, ranks > 1 ? "s" : "", threads, threads > 1 ? "s" : "", processors, processors > 1 ? "s" : "");
}
