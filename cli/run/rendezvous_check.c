#include "cli/run/rendezvous_check.h"

#include "cli/run/placement.h"
#include "cli/run/run_inside.h"
#include "lib/launch/secret.h"
#include "schedules/run/device_choice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    struct placement_rank *ranks = calloc((size_t)s->world.size, sizeof *ranks);
    struct experiment e;
    dt_status status = DT_OK;
    if (!ranks)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", s->world.size);
    for (int rank = 0; rank < s->world.size; rank++)
        ranks[rank] = entry_of(all, bytes, rank)->place;
    for (int i = 0; status == DT_OK && i < s->distinct; i++)
        if (!s->outcomes[i].elsewhere && !experiment_is_simulated(sweep_experiment(s, i, &e))) /* else not these ranks */
            status = placement_check(&e, i + 1, s->distinct, ranks);
    int hidden = placement_hidden_gpus(ranks, s->world.size);
    if (status == DT_OK && hidden >= 0 && s->world.rank == 0)
        progress_note(
            &s->progress,
            "rank %d sees one GPU, and node %s has several ranks: GPUs that a launcher hides from each other (--gpus-per-task) may talk "
            "through host memory instead of NVLink; start with srun --gpus-per-node=N --gpu-bind=none",
            hidden, ranks[hidden].node);
    free(ranks);
    return status;
}

/* Does any of the experiments run on GPUs? */
static bool needs_gpus(const struct sweep *s)
{
    struct experiment own;
    const struct dt_device_kind *kind;
    for (int i = 0; i < s->distinct; i++) {
        const struct experiment *e = sweep_experiment(s, i, &own);
        if (!experiment_is_simulated(e) && device_choose(e, &kind) == DT_OK && kind->gpus)
            return true;
    }
    return false;
}

/* Where this rank is, and which GPU it would take: of those that it sees the one with its local rank as number. */
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
    char *mine = calloc(1, bytes), *all = calloc((size_t)s->world.size, bytes);
    if (!mine || !all) {
        free(mine);
        free(all);
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", s->world.size);
    }
    struct rank_entry *entry = (struct rank_entry *)(void *)mine;
    char *skipped = mine + sizeof *entry;
    find_place(s, &entry->place);
    entry->code = (int)*code;
    entry->limited = s->limited;
    for (int i = 0; i < s->count; i++)
        skipped[i] = s->outcomes[i].skipped;
    struct experiment first;
    sweep_experiment(s, 0, &first);
    dt_status status = run_inside_gather(&first, &s->world, first.timeout.init_s, mine, bytes, all);
    if (status == DT_OK) {
        *code = (enum exit_code)entry_of(all, bytes, 0)->code;
        s->limited = entry_of(all, bytes, 0)->limited;
        for (int i = 0; i < s->count; i++)
            s->outcomes[i].skipped = all[sizeof *entry + (size_t)i];
        status = *code == EXIT_CODE_OK ? check_placement(s, all, bytes) : DT_OK;
    }
    free(mine);
    free(all);
    return status;
}

/* Does any of the experiments have ranks that meet over TCP? */
static bool meets_over_tcp(const struct sweep *s)
{
    return s->inside && s->world.size > 1 && needs_gpus(s);
}

void rendezvous_note_secret(struct sweep *s)
{
    struct dt_secret secret;
    if (!meets_over_tcp(s) || dt_secret_of_job(&s->world, &secret) < 0 || secret.source != DT_SECRET_FROM_NOTHING)
        return; /* what is wrong with a variable is said when the ranks meet */
    progress_note(&s->progress, "no secret keeps others out where the ranks meet (%s): set " DT_SECRET_VARIABLE " to one text on all nodes",
                  secret.missing);
}
