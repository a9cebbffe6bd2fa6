/* Ranks and coordinates: the arithmetic for random meshes, and the communicators of every rank of a
 * world, on sim. */
#include "lib/base/random.h"
#include "lib/device/sim.h"
#include "schedules/config/experiment.h"
#include "schedules/mesh/mesh.h"
#include "test/check.h"

#include <stdlib.h>

enum { MESHES = 200, LARGEST = 5 * 5 * 5 * 5 * 5 };

/* Mesh `number`: each axis of 1 to 5 ranks, in any order. */
static struct mesh_shape random_shape(uint32_t number)
{
    struct mesh_shape shape;
    shape.with_context = number % 2 ? MESH_SHARD : MESH_REPLICA;
    for (int axis = 0; axis < MESH_AXES; axis++) {
        struct dt_philox random = dt_philox4x32(1, number, (uint32_t)axis, 0, 0);
        int place = (int)(random.word[0] % (uint32_t)(axis + 1));
        shape.size[axis] = 1 + (int)(random.word[1] % 5);
        shape.order[axis] = shape.order[place]; /* Fisher and Yates, inside out */
        shape.order[place] = (enum mesh_axis)axis;
    }
    return shape;
}

/* The rank with these coordinates. */
static int rank_at(const struct mesh_shape *shape, const int coordinates[MESH_AXES])
{
    int rank = 0, step = 1;
    for (int i = 0; i < MESH_AXES; i++) {
        rank += coordinates[shape->order[i]] * step;
        step *= shape->size[shape->order[i]];
    }
    return rank;
}

static void round_trips(void)
{
    bool orders[MESH_AXES][MESH_AXES] = {0};
    for (uint32_t m = 0; m < MESHES; m++) {
        struct mesh_shape shape = random_shape(m);
        int wrong = 0;
        for (int i = 0; i < MESH_AXES; i++)
            orders[i][shape.order[i]] = true;
        for (int rank = 0; rank < mesh_count(&shape, ~0u); rank++) {
            int at[MESH_AXES];
            for (int axis = 0; axis < MESH_AXES; axis++) {
                at[axis] = mesh_coordinate(&shape, (enum mesh_axis)axis, rank);
                wrong += at[axis] < 0 || at[axis] >= shape.size[axis];
                wrong += mesh_index(&shape, 1u << axis, rank) != at[axis];
            }
            wrong += rank_at(&shape, at) != rank;
            for (int axis = 0; axis < MESH_AXES; axis++)
                for (int to = 0; to < shape.size[axis]; to++) {
                    int moved[MESH_AXES];
                    memcpy(moved, at, sizeof moved);
                    moved[axis] = to;
                    wrong += mesh_moved(&shape, (enum mesh_axis)axis, rank, to) != rank_at(&shape, moved);
                }
        }
        CHECK(wrong == 0, "mesh %u: %d", m, wrong);
    }
    for (int i = 0; i < MESH_AXES; i++)
        for (int axis = 0; axis < MESH_AXES; axis++)
            CHECK(orders[i][axis], "no mesh had axis %d at place %d", axis, i);
}

/* Of every set of axes: a rank's group and its place in the group say together which rank it is,
 * and every place is taken. */
static void groups_partition_the_world(void)
{
    for (uint32_t m = 0; m < MESHES; m++) {
        struct mesh_shape shape = random_shape(m);
        int world = mesh_count(&shape, ~0u);
        for (unsigned axes = 0; axes < 1u << MESH_AXES; axes++) {
            bool taken[LARGEST] = {0};
            int count = mesh_count(&shape, axes), groups = mesh_count(&shape, ~axes), wrong = 0;
            for (int rank = 0; rank < world; rank++) {
                int group = mesh_index(&shape, ~axes, rank), index = mesh_index(&shape, axes, rank);
                bool inside = group >= 0 && group < groups && index >= 0 && index < count;
                wrong += !inside || taken[group * count + index];
                if (inside)
                    taken[group * count + index] = true;
            }
            CHECK(count * groups == world && wrong == 0, "mesh %u, axes %u: %d of %d groups, %d wrong", m, axes, count, groups, wrong);
        }
    }
}

/* On the first axis of the order ranks are neighbours, on the next they are as far apart as the
 * first is long. */
static void the_order_says_who_is_near(void)
{
    for (uint32_t m = 0; m < MESHES; m++) {
        struct mesh_shape shape = random_shape(m);
        int distance = 1;
        for (int i = 0; i < MESH_AXES; i++) {
            enum mesh_axis axis = shape.order[i];
            if (shape.size[axis] > 1)
                CHECK(mesh_moved(&shape, axis, 0, 1) == distance, "mesh %u, axis %d", m, axis);
            distance *= shape.size[axis];
        }
    }
}

static struct experiment of(enum paradigm_kind kind, int world_size)
{
    return (struct experiment){.device = "",
                               .paradigm = kind,
                               .world_size = world_size,
                               .tensor.size = 1,
                               .context.size = 1,
                               .pipeline = {.stages = 1, .order = "", .split = "", .activation = ""},
                               .parameter_server.servers = 1};
}

/* Pipelines of neighbouring ranks, one after the other. */
static void pipelines(void)
{
    for (int stages = 1; stages <= 8; stages++)
        for (int copies = 1; copies <= 5; copies++) {
            struct experiment e = of(PARADIGM_PDP, stages * copies);
            e.pipeline.stages = stages;
            experiment_settle(&e);
            struct mesh_shape mesh = e.strategy.mesh;
            CHECK(mesh.size[MESH_PIPELINE] == stages && mesh.size[MESH_REPLICA] == copies && mesh_count(&mesh, ~0u) == e.world_size);
            for (int rank = 0; rank < e.world_size; rank++) {
                CHECK(mesh_coordinate(&mesh, MESH_PIPELINE, rank) == rank % stages);
                CHECK(mesh_coordinate(&mesh, MESH_REPLICA, rank) == rank / stages &&
                      mesh_index(&mesh, MESH_ON_DATA, rank) == rank / stages);
                CHECK(mesh_moved(&mesh, MESH_REPLICA, rank, copies - 1) == (copies - 1) * stages + rank % stages);
            }
            for (int i = 0; i <= stages; i++)
                CHECK(experiment_rank_of_kind(&e, i) == (i < stages ? i : -1));
        }
}

/* Shard groups of neighbouring ranks, copies across them; without a size of their own, the
 * nodes. */
static void shard_groups(void)
{
    static const struct {
        int world, shard_size, ranks_per_node, expected;
    } examples[] = {{8, 2, 0, 2}, {8, 2, 4, 2}, {8, 0, 4, 4}, {8, 0, 3, 8}, {8, 0, 0, 8}, {6, 6, 0, 6}, {6, 1, 2, 1}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        int shards = examples[i].expected, copies = examples[i].world / shards;
        struct experiment e = of(PARADIGM_HSDP, examples[i].world);
        e.hsdp.shard_size = examples[i].shard_size;
        e.ranks_per_node = examples[i].ranks_per_node;
        experiment_settle(&e);
        struct mesh_shape mesh = e.strategy.mesh;
        CHECK(mesh.size[MESH_SHARD] == shards && mesh.size[MESH_REPLICA] == copies, "example %zu: %d by %d", i, mesh.size[MESH_SHARD],
              mesh.size[MESH_REPLICA]);
        for (int rank = 0; rank < e.world_size; rank++) {
            CHECK(mesh_moved(&mesh, MESH_SHARD, rank, 0) == rank - rank % shards);
            CHECK(mesh_moved(&mesh, MESH_REPLICA, rank, 0) == rank % shards);
            CHECK(mesh_index(&mesh, MESH_ON_DATA, rank) == rank); /* samples are assigned to ranks as with fsdp */
        }
    }
}

static void one_axis(void)
{
    static const struct {
        enum paradigm_kind kind;
        enum mesh_axis axis;
    } examples[] = {{PARADIGM_DDP, MESH_REPLICA},           {PARADIGM_FSDP, MESH_SHARD},
                    {PARADIGM_ZERO1, MESH_SHARD},           {PARADIGM_ZERO2, MESH_SHARD},
                    {PARADIGM_DATA_PARALLEL, MESH_REPLICA}, {PARADIGM_PARAMETER_SERVER, MESH_REPLICA}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct experiment e = of(examples[i].kind, 6);
        e.pipeline.stages = 2; /* not theirs */
        e.hsdp.shard_size = 3;
        experiment_settle(&e);
        struct mesh_shape mesh = e.strategy.mesh;
        CHECK(mesh.size[examples[i].axis] == 6 && mesh_count(&mesh, ~0u) == 6, "%s", paradigm_name(e.paradigm));
        CHECK(experiment_rank_of_kind(&e, 0) == 0 && experiment_rank_of_kind(&e, 1) == -1, "%s", paradigm_name(e.paradigm));
    }
    struct experiment alone = of(PARADIGM_NONE, 1);
    experiment_settle(&alone);
    struct mesh_shape mesh = alone.strategy.mesh;
    CHECK(mesh_count(&mesh, ~0u) == 1);
}

static void servers(void)
{
    struct experiment e = of(PARADIGM_PARAMETER_SERVER, 7);
    e.parameter_server.servers = 3;
    experiment_settle(&e);
    CHECK(strategy_server_replica(&e.strategy, 0) == 0 && strategy_server_replica(&e.strategy, 1) == 2 &&
          strategy_server_replica(&e.strategy, 2) == 4);
    CHECK(experiment_rank_of_kind(&e, 2) == 4 && experiment_rank_of_kind(&e, 3) == -1);
}

/* ---- communicators ---- */

struct rank {
    struct dt_device *device;
    struct dt_comm *world;
    struct mesh mesh;
    struct mesh_neighbours neighbours;
};

static dt_status rank_init(struct rank *r, const struct mesh_shape *shape, unsigned axes, int number)
{
    static const struct dt_sim_device free_of_cost = {0};
    struct dt_device_options options = {.sim = &free_of_cost};
    struct dt_world place = {.rank = number, .size = mesh_count(shape, ~0u), .local_size = 1, .launcher = "none"};
    *r = (struct rank){0};
    DT_TRY(dt_device_create("sim", &options, &r->device));
    DT_TRY(dt_comm_create(r->device, &place, &(struct dt_comm_options){0}, &r->world));
    DT_TRY(mesh_init(&r->mesh, shape, axes, r->world));
    return mesh_neighbours_init(&r->neighbours, &r->mesh, MESH_PIPELINE, false, "messages");
}

static void rank_finish(struct rank *r)
{
    mesh_neighbours_finish(&r->neighbours);
    mesh_finish(&r->mesh);
    dt_comm_destroy(r->world);
    dt_device_destroy(r->device);
}

/* The members of the rank's `occurrence`th communicator of this name; NULL: there is none. */
static const struct dt_sim_slot *slot_of(const struct rank *r, const char *name, int occurrence)
{
    for (int i = 0; i < dt_sim_slot_count(r->device); i++)
        if (strcmp(dt_sim_slot(r->device, i)->name, name) == 0 && occurrence-- == 0)
            return dt_sim_slot(r->device, i);
    return NULL;
}

static void communicators(void)
{
    static const char *const names[MESH_AXES] = {[MESH_CONTEXT] = "context ranks", [MESH_SHARD] = "shards", [MESH_REPLICA] = "replicas"};
    for (uint32_t m = 0; m < 20; m++) {
        struct mesh_shape shape = random_shape(m);
        for (int number = 0; number < mesh_count(&shape, ~0u); number++) {
            struct rank r;
            CHECK_OK(rank_init(&r, &shape, MESH_ON_DATA | MESH_ON_CONTEXT, number));
            for (int axis = 0; axis < MESH_AXES; axis++) {
                const struct dt_sim_slot *slot = names[axis] ? slot_of(&r, names[axis], 0) : NULL;
                CHECK(r.mesh.at[axis] == mesh_coordinate(&shape, (enum mesh_axis)axis, number));
                CHECK((r.mesh.comm[axis] != NULL) == (names[axis] != NULL) && (slot != NULL) == (names[axis] != NULL), "axis %d", axis);
                if (!slot || !r.mesh.comm[axis])
                    continue;
                unsigned group = mesh_group(&shape, (enum mesh_axis)axis);
                CHECK((group & MESH_ON_CONTEXT) == (axis == MESH_CONTEXT || axis == (int)shape.with_context ? MESH_ON_CONTEXT : 0));
                CHECK(slot->size == mesh_count(&shape, group) && dt_comm_size(r.mesh.comm[axis]) == slot->size);
                CHECK(dt_comm_rank(r.mesh.comm[axis]) == mesh_index(&shape, group, number));
                for (int i = 0; i < slot->size; i++)
                    CHECK(mesh_index(&shape, group, slot->ranks[i]) == i &&
                              mesh_index(&shape, ~group, slot->ranks[i]) == mesh_index(&shape, ~group, number),
                          "mesh %u, rank %d, axis %d", m, number, axis);
            }
            rank_finish(&r);
        }
    }
}

/* Both ends of a pair must make its communicator in the same round, or they would wait for
 * different ones. The pair's number decides the round. */
static void neighbours(void)
{
    for (uint32_t m = 0; m < 20; m++) {
        struct mesh_shape shape = random_shape(m);
        int stages = shape.size[MESH_PIPELINE];
        for (int number = 0; number < mesh_count(&shape, ~0u); number++) {
            struct rank r;
            CHECK_OK(rank_init(&r, &shape, 0, number));
            int at = r.mesh.at[MESH_PIPELINE], made = 0;
            const struct dt_comm *pairs[2] = {r.neighbours.previous, r.neighbours.next};
            CHECK((pairs[0] != NULL) == (at > 0) && (pairs[1] != NULL) == (at < stages - 1), "stage %d of %d", at, stages);
            for (int round = 0; round < 2; round++) {
                bool next = at % 2 == round;
                int lower = next ? at : at - 1;
                if (!pairs[next])
                    continue;
                const struct dt_sim_slot *slot = slot_of(&r, "messages", made++);
                CHECK(lower % 2 == round && dt_comm_size(pairs[next]) == 2 && dt_comm_rank(pairs[next]) == !next);
                CHECK(slot && slot->size == 2 && slot->ranks[0] == mesh_moved(&shape, MESH_PIPELINE, number, lower) &&
                          slot->ranks[1] == mesh_moved(&shape, MESH_PIPELINE, number, lower + 1),
                      "mesh %u, rank %d, round %d", m, number, round);
            }
            rank_finish(&r);
        }
    }
}

static const struct test_case cases[] = {
    {"ranks to coordinates and back", round_trips},
    {"groups partition the world", groups_partition_the_world},
    {"the order says who is near", the_order_says_who_is_near},
    {"pdp: pipelines of neighbours, copies across", pipelines},
    {"hsdp: shard groups of neighbours, copies across", shard_groups},
    {"the other paradigms have one axis", one_axis},
    {"parameter servers are spread", servers},
    {"a communicator for each axis", communicators},
    {"a communicator for each neighbour", neighbours},
};
TEST_MAIN(cases)
