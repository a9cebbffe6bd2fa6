#include "predict/simulation_ranks.h"

#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "predict/framework.h"

#include <stdlib.h>
#include <string.h>

/* ---- one rank ---- */

dt_status simulated_role_create(const struct experiment *e, const struct simulated_system *system, const struct dt_sim_device *device,
                                int rank, uint64_t most_bytes, struct simulated_role *out)
{
    struct dt_world place = {.rank = rank, .size = e->world_size, .local_size = 1, .launcher = "none"};
    struct dt_comm_options no_timeouts = {0};
    struct dt_device_options options = {.sim = device, .memory_limit_bytes = most_bytes};
    *out = (struct simulated_role){0};
    if (system->costs.profile.memory.workspaces)
        options.stands_for = dt_device_kind_find("cuda");
    DT_TRY(dt_device_create("sim", &options, &out->device));
    DT_TRY(dt_comm_create(out->device, &place, &no_timeouts, &out->world));
    DT_TRY(framework_create(e, &system->costs.profile, &out->framework));
    return trainer_create(e, out->device, out->world, framework_options(out->framework), &out->trainer);
}

void simulated_role_finish(struct simulated_role *role)
{
    for (int step = 0; step < RECORDED_STEPS; step++)
        dt_sim_program_destroy(role->steps[step]);
    trainer_destroy(role->trainer);
    framework_destroy(role->framework);
    dt_comm_destroy(role->world);
    dt_device_destroy(role->device);
    *role = (struct simulated_role){0};
}

/* Record a step, and the host's work before it. */
static dt_status queue_step(struct simulated_role *role, const struct simulated_system *system, int step)
{
    DT_TRY(dt_sim_host(role->device, system->costs.profile.host.step_s));
    return trainer_step(role->trainer, step);
}

/* If the host runs ahead, or updates are late, the second program has two steps: minus the program
 * of one step, it shows how long a step in the middle of many takes. */
static dt_status queue_program(struct simulated_role *role, const struct simulated_system *system, int step)
{
    bool ahead = system->costs.profile.host.runs_ahead;
    DT_TRY(queue_step(role, system, step));
    if (step > 0 && trainer_updates_late(role->trainer) && !ahead)
        DT_TRY(trainer_synchronize_step(role->trainer));
    if (step > 0 && (trainer_updates_late(role->trainer) || ahead))
        DT_TRY(queue_step(role, system, step + 1));
    return trainer_synchronize(role->trainer);
}

static dt_status record_step(struct simulated_role *role, const struct simulated_system *system, int step, bool each)
{
    DT_TRY(dt_sim_record_start(role->device, !each));
    dt_status status = queue_program(role, system, step);
    dt_status finished = dt_sim_record_finish(role->device, &role->steps[step]);
    return status < 0 ? status : finished;
}

/* ---- communicators ---- */

static uint64_t hash_of(const struct dt_sim_slot *slot, int occurrence)
{
    return dt_hash_fnv1a(slot->ranks, (size_t)slot->size * sizeof *slot->ranks) + (uint64_t)occurrence * 0x9E3779B97F4A7C15u;
}

static bool same_ranks(const struct simulated_group *group, const struct dt_sim_slot *slot)
{
    return group->count == slot->size && memcmp(group->ranks, slot->ranks, (size_t)slot->size * sizeof *slot->ranks) == 0;
}

static dt_status grow_groups(struct simulated_ranks *r)
{
    int room = r->group_room ? 2 * r->group_room : 256;
    bool grown = dt_resize(&r->groups, (size_t)room * sizeof *r->groups) && dt_resize(&r->buckets, 2 * (size_t)room * sizeof *r->buckets);
    DT_TRY(dt_allocated(grown, "no host memory for %d communicators", room));
    r->group_room = room;
    r->bucket_count = 2 * room; /* a power of two, and the table is at most half full */
    for (int i = 0; i < r->bucket_count; i++)
        r->buckets[i] = -1;
    for (int g = 0; g < r->group_count; g++) {
        size_t at = r->groups[g].hash & (size_t)(r->bucket_count - 1);
        while (r->buckets[at] >= 0)
            at = (at + 1) & (size_t)(r->bucket_count - 1);
        r->buckets[at] = g;
    }
    return DT_OK;
}

/* The number of a communicator: the `occurrence`th one that was made of these ranks. All its ranks
 * make communicators in the same order. */
static dt_status find_group(struct simulated_ranks *r, const struct dt_sim_slot *slot, int occurrence, int *out)
{
    uint64_t hash = hash_of(slot, occurrence);
    if (r->group_count == r->group_room)
        DT_TRY(grow_groups(r));
    size_t at = hash & (size_t)(r->bucket_count - 1);
    for (; r->buckets[at] >= 0; at = (at + 1) & (size_t)(r->bucket_count - 1)) {
        const struct simulated_group *group = &r->groups[r->buckets[at]];
        if (group->hash == hash && group->occurrence == occurrence && same_ranks(group, slot)) {
            *out = r->buckets[at];
            return DT_OK;
        }
    }
    struct simulated_group *group = &r->groups[r->group_count];
    *group = (struct simulated_group){
        .ranks = malloc((size_t)slot->size * sizeof *group->ranks), .count = slot->size, .occurrence = occurrence, .hash = hash};
    DT_TRY(dt_allocated(group->ranks, "no host memory for a communicator of %d ranks", slot->size));
    memcpy(group->ranks, slot->ranks, (size_t)slot->size * sizeof *group->ranks);
    memcpy(group->name, slot->name, sizeof group->name);
    *out = r->buckets[at] = r->group_count++;
    return DT_OK;
}

static int by_number(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

static bool is_ascending(const struct simulated_group *group)
{
    for (int i = 1; i < group->count; i++)
        if (group->ranks[i] < group->ranks[i - 1])
            return false;
    return true;
}

/* The communicator of rank `to` that corresponds to `group` of rank `from`. Members are in the
 * order of the world in both, except in the pair that closes a ring of stages: its members have the
 * same coordinates on the shifted axes, and keep their order. */
static dt_status find_shifted_group(struct simulated_ranks *r, int group, int from, int to, int *out)
{
    const struct simulated_group *of_from = &r->groups[group];
    DT_FREED int *ranks = malloc((size_t)of_from->count * sizeof *ranks);
    struct dt_sim_slot slot = {.size = of_from->count, .ranks = ranks};
    DT_TRY(dt_allocated(ranks, "no host memory for a communicator of %d ranks", slot.size));
    memcpy(slot.name, of_from->name, sizeof slot.name);
    for (int i = 0; i < slot.size; i++)
        slot.ranks[i] = symmetric_part_shifted(r->part, of_from->ranks[i], from, to);
    if (is_ascending(of_from))
        qsort(slot.ranks, (size_t)slot.size, sizeof *slot.ranks, by_number);
    return find_group(r, &slot, of_from->occurrence, out);
}

static dt_status find_groups(struct simulated_ranks *r, const struct dt_device *device, struct simulated_rank *rank)
{
    int count = dt_sim_slot_count(device);
    rank->groups = malloc(((size_t)count + 1) * sizeof *rank->groups);
    DT_TRY(dt_allocated(rank->groups, "no host memory for %d communicators", count));
    for (int s = 0; s < count; s++) {
        const struct dt_sim_slot *slot = dt_sim_slot(device, s);
        int occurrence = 0;
        for (int earlier = 0; earlier < s; earlier++)
            occurrence += same_ranks(&r->groups[rank->groups[earlier]], slot);
        DT_TRY(find_group(r, slot, occurrence, &rank->groups[s]));
    }
    return DT_OK;
}

/* ---- roles ---- */

/* The role that does the same as `one` in its first step; -1: none. */
static int find_role(const struct simulated_ranks *r, const struct simulated_role *one)
{
    for (int i = 0; i < r->role_count; i++)
        if (r->roles[i].allocation_hash == one->allocation_hash && dt_sim_program_equal(r->roles[i].steps[0], one->steps[0]))
            return i;
    return -1;
}

/* Takes over what `one` owns, and leaves it empty. */
static dt_status add_role(struct simulated_ranks *r, struct simulated_role *one)
{
    DT_TRY(dt_allocated(DT_ONE_MORE(r->roles, r->role_count), "no host memory for %d different ranks", r->role_count + 1));
    r->roles[r->role_count++] = *one;
    *one = (struct simulated_role){0};
    return DT_OK;
}

/* Whether the rank computes on a slow GPU. */
static bool is_slow(const struct experiment *e, const struct simulated_system *s, const struct symmetric_part *part, int rank)
{
    int per_node = s->placement.ranks_per_node;
    bool of_node = e->slow.part == SLOW_NODE && rank / per_node == part->slow_rank / per_node;
    return e->slow.by > 0 && (of_node || (e->slow.part == SLOW_GPU && rank == part->slow_rank));
}

/* The role of the first rank in the tensor group of the rank at `place`, if both have equal parts
 * of each layer and equally fast GPUs: then they do the same, and only one is recorded. -1: it is
 * the first rank, or parts differ. */
static int find_tensor_role(const struct experiment *e, const struct simulated_system *system, const struct simulated_ranks *r,
                            const struct simulated_role *one, int place)
{
    int first = r->part->stand_in[mesh_moved(&r->part->mesh, MESH_TENSOR, r->part->ranks[place], 0)];
    if (first >= place || is_slow(e, system, r->part, r->part->ranks[first]) != is_slow(e, system, r->part, r->part->ranks[place]))
        return -1;
    const struct dt_stage *here = trainer_stage(one->trainer), *there = trainer_stage(r->roles[r->ranks[first].role].trainer);
    for (int g = 0; g < here->group_count; g++)
        if (here->groups[g].param_elems != there->groups[g].param_elems)
            return -1;
    return r->ranks[first].role;
}

/* Record the rank at `place`, or find the role that does the same. The caller finishes `one` in any
 * case. */
static dt_status record_role(const struct experiment *e, const struct simulated_system *system, const struct dt_sim_device *device,
                             bool each, struct simulated_ranks *r, int place, struct simulated_role *one)
{
    struct simulated_rank *rank = &r->ranks[place];
    DT_TRY(simulated_role_create(e, system, device, r->part->ranks[place], 0, one));
    DT_TRY(find_groups(r, one->device, rank));
    rank->role = find_tensor_role(e, system, r, one, place);
    if (rank->role >= 0)
        return DT_OK;
    DT_TRY(record_step(one, system, 0, each));
    one->allocation_hash = dt_sim_allocation_hash(one->device);
    rank->role = find_role(r, one);
    if (rank->role >= 0)
        return DT_OK;
    DT_TRY(record_step(one, system, 1, each)); /* it begins with what the first step has left */
    dt_memory_usage(one->device, &one->memory);
    one->alike = dt_sim_program_equal(one->steps[0], one->steps[1]);
    rank->role = r->role_count;
    return add_role(r, one);
}

static dt_status record_rank(const struct experiment *e, const struct simulated_system *system, const struct dt_sim_device *device,
                             bool each, struct simulated_ranks *r, int place)
{
    struct dt_sim_device own = *device; /* a slow GPU has a clock of its own */
    DT_ENDED(simulated_role_finish) struct simulated_role one = {0};
    if (is_slow(e, system, r->part, r->part->ranks[place]))
        own.slowdown = 1 / (1 - e->slow.by);
    return record_role(e, system, &own, each, r, place, &one);
}

/* The rank at `place` does what the recorded one does, in its own communicators. */
static dt_status copy_rank(struct simulated_ranks *r, int place, int recorded)
{
    struct simulated_rank *rank = &r->ranks[place];
    const struct simulated_rank *from = &r->ranks[recorded];
    int slots = r->roles[from->role].steps[0]->slot_count;
    rank->role = from->role;
    rank->groups = malloc(((size_t)slots + 1) * sizeof *rank->groups);
    DT_TRY(dt_allocated(rank->groups, "no host memory for %d communicators", slots));
    for (int s = 0; s < slots; s++)
        DT_TRY(find_shifted_group(r, from->groups[s], r->part->ranks[recorded], r->part->ranks[place], &rank->groups[s]));
    return DT_OK;
}

dt_status simulated_ranks_record(const struct experiment *e, const struct simulated_system *system, const struct dt_sim_device *device,
                                 const struct symmetric_part *part, bool each, bool (*stop)(void *context), void *context,
                                 struct simulated_ranks *out)
{
    *out = (struct simulated_ranks){.part = part, .count = part->count};
    out->ranks = calloc((size_t)part->count, sizeof *out->ranks);
    DT_TRY(dt_allocated(out->ranks, "no host memory for %d ranks", part->count));
    for (int place = 0; place < part->count; place++) {
        int recorded = symmetric_part_recorded(part, place);
        if (stop && stop(context))
            return dt_fail(DT_ERR_INTERRUPTED, "stopped after rank %d of %d", place, part->count);
        if (recorded == place)
            DT_TRY(record_rank(e, system, device, each, out, place));
        else
            DT_TRY(copy_rank(out, place, recorded));
    }
    return DT_OK;
}

void simulated_ranks_finish(struct simulated_ranks *r)
{
    for (int i = 0; i < r->role_count; i++)
        simulated_role_finish(&r->roles[i]);
    for (int i = 0; i < r->group_count; i++)
        free(r->groups[i].ranks);
    for (int i = 0; r->ranks && i < r->count; i++)
        free(r->ranks[i].groups);
    free(r->roles);
    free(r->groups);
    free(r->buckets);
    free(r->ranks);
    *r = (struct simulated_ranks){0};
}
