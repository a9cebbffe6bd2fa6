#include "lib/launch/launch.h"
#include "test/check.h"

#include <stdlib.h>

static const char *const known[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMI_LOCAL_RANK",
    "PMI_LOCAL_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_JOB_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
};

/* One environment ("NAME=value NAME=value ...") and what must be read from it; launcher NULL:
 * refused, with `text` in the message. */
struct example {
    const char *environment;
    const char *launcher;
    int rank, size, local_rank, local_size;
    const char *text;
};

static void set_environment(const char *list)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        unsetenv(known[i]);
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = 0;
        setenv(word, equals + 1, 1);
    }
}

static void try_examples(const struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct example *e = &examples[i];
        struct dt_world world;
        set_environment(e->environment);
        dt_status status = dt_world_from_environment(&world);
        if (!e->launcher) {
            CHECK(status == DT_ERR_WORLD, "%s: accepted", e->environment);
            CHECK(strstr(dt_error_message(), e->text), "%s: says \"%s\"", e->environment, dt_error_message());
            continue;
        }
        CHECK(status == DT_OK, "%s: %s", e->environment, dt_error_message());
        CHECK(strcmp(world.launcher, e->launcher) == 0, "%s: launcher %s", e->environment, world.launcher);
        CHECK(world.rank == e->rank && world.size == e->size, "%s: %d of %d", e->environment, world.rank, world.size);
        CHECK(world.local_rank == e->local_rank && world.local_size == e->local_size, "%s: local %d of %d", e->environment,
              world.local_rank, world.local_size);
    }
    set_environment("");
}

static void launchers(void)
{
    static const struct example examples[] = {
        {"", "none", 0, 1, 0, 1, NULL},
        {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", "torchrun", 5, 8, 1, 4, NULL},
        {"RANK=0 WORLD_SIZE=1", "torchrun", 0, 1, 0, 1, NULL},
        {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=3", "mpirun", 3,
         4, 1, 2, NULL},
        {"PMI_RANK=2 PMI_SIZE=3 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=3", "mpirun", 2, 3, 2, 3, NULL},
        {"PMI_RANK=2 PMI_SIZE=4 PMI_LOCAL_RANK=0 PMI_LOCAL_SIZE=2", "mpirun", 2, 4, 0, 2, NULL},
        {"PMI_RANK=0 PMI_SIZE=1", "mpirun", 0, 1, 0, 1, NULL},
        {"SLURM_STEP_ID=0 SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=2 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4,3", "srun", 6, 7, 2, 3,
         NULL},
        {"SLURM_STEPID=12 SLURM_PROCID=9 SLURM_NTASKS=11 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=4(x2),3", "srun", 9, 11,
         1, 3, NULL},
        {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1", "srun", 0, 1, 0, 1, NULL},
        /* a step of 2 tasks in a job of 8 */
        {"SLURM_STEP_ID=3 SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2 "
         "SLURM_TASKS_PER_NODE=8",
         "srun", 1, 2, 1, 2, NULL},
        /* empty is unset */
        {"RANK= WORLD_SIZE= SLURM_STEP_ID=", "none", 0, 1, 0, 1, NULL},
    };
    try_examples(examples, sizeof examples / sizeof examples[0]);
}

static void launchers_inside_others(void)
{
    static const struct example examples[] = {
        /* the script of an sbatch job of 4 tasks is one process */
        {"SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=4", "none", 0, 1, 0, 1, NULL},
        {"SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=4", "none", 0, 1, 0, 1, NULL},
        {"SLURM_JOB_ID=7 SLURM_STEP_ID=batch SLURM_PROCID=0 SLURM_NTASKS=4", "none", 0, 1, 0, 1, NULL},
        /* mpirun in it leaves SLURM_PROCID=0 to every rank; where it starts its daemons with srun
         * even a step */
        {"SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=3 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=4",
         "mpirun", 3, 4, 3, 4, NULL},
        {"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=3 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=4",
         "mpirun", 7, 8, 3, 4, NULL},
        {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1 PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "mpirun", 1, 2, 1, 2,
         NULL},
        /* srun --mpi=pmix and --mpi=pmi2 */
        {"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2 PMIX_RANK=1", "srun", 1, 2, 1, 2, NULL},
        {"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2 PMI_RANK=1 PMI_SIZE=2", "srun", 1, 2, 1,
         2, NULL},
        /* torchrun started once per node by srun */
        {"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", "torchrun", 5, 8, 1, 4, NULL},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=2",
         "torchrun", 1, 2, 1, 2, NULL},
    };
    try_examples(examples, sizeof examples / sizeof examples[0]);
}

static void contradictions(void)
{
    static const struct example examples[] = {
        {"RANK=1", NULL, 0, 0, 0, 0, "WORLD_SIZE is not set"},
        {"WORLD_SIZE=2", NULL, 0, 0, 0, 0, "RANK is not set"},
        {"RANK=1 WORLD_SIZE=2", NULL, 0, 0, 0, 0, "LOCAL_RANK is not set"},
        {"RANK=2 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", NULL, 0, 0, 0, 0, "RANK=2 and WORLD_SIZE=2"},
        {"RANK=0 WORLD_SIZE=0", NULL, 0, 0, 0, 0, "WORLD_SIZE=0"},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1", NULL, 0, 0, 0, 0, "LOCAL_RANK=1 and LOCAL_WORLD_SIZE=1"},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", NULL, 0, 0, 0, 0, "rank 1 of 2 cannot be rank 1 of 4"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=2",
         NULL, 0, 0, 0, 0, "contradict OMPI_COMM_WORLD_RANK=1"},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", NULL, 0, 0, 0, 0, "OMPI_COMM_WORLD_LOCAL_RANK is not set"},
        {"PMIX_RANK=1", NULL, 0, 0, 0, 0, "PMIX_RANK=1"},
        {"PMI_RANK=1", NULL, 0, 0, 0, 0, "PMI_SIZE is not set"},
        {"SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_NTASKS=2", NULL, 0, 0, 0, 0, "SLURM_PROCID=2 and SLURM_NTASKS=2"},
        {"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1", NULL, 0, 0, 0, 0, "SLURM_STEP_TASKS_PER_NODE is not set"},
        {"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2(x2)", NULL, 0, 0, 0, 0, "contradict"},
        {"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=1(x2)", NULL, 0, 0, 0, 0,
         "SLURM_LOCALID=1"},
    };
    try_examples(examples, sizeof examples / sizeof examples[0]);
}

static void garbage(void)
{
    static const char *const values[] = {"x", "-1", "+1", "1x", "0x1", "1.0", "99999999999", "2147483648", "18446744073709551617"};
    static const char *const forms[] = {
        "RANK=%s WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1",
        "RANK=0 WORLD_SIZE=%s LOCAL_RANK=0 LOCAL_WORLD_SIZE=1",
        "RANK=0 WORLD_SIZE=2 LOCAL_RANK=%s LOCAL_WORLD_SIZE=1",
        "OMPI_COMM_WORLD_RANK=%s OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "SLURM_STEP_ID=0 SLURM_PROCID=%s SLURM_NTASKS=2",
        "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=%s",
    };
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            char environment[256];
            snprintf(environment, sizeof environment, forms[f], values[v]);
            struct example refused = {environment, NULL, 0, 0, 0, 0, values[v]};
            try_examples(&refused, 1);
        }
    }
    static const char *const lists[] = {"2(", "2(x", "2(x0)", "2(x1", "2(y1)", "(x2)", ",2", "2,", "1;1", "2(x2147483647)"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char environment[256];
        snprintf(environment, sizeof environment, forms[5], lists[i]);
        struct example refused = {environment, NULL, 0, 0, 0, 0, "SLURM_STEP_TASKS_PER_NODE"};
        try_examples(&refused, 1);
    }
}

/* Ranks without MPI find the rendezvous' address themselves: it must be the same on all. */
static void meeting_points(void)
{
#define TWO_BY_TWO "SLURM_STEP_ID=%d SLURM_JOB_ID=77 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=2(x2) "
    static const struct {
        const char *environment, *address, *text; /* address NULL: refused, with text */
        int port;                                 /* 0: any */
    } examples[] = {
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a.example MASTER_PORT=29500", "a.example", NULL, 29500},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True", "a", NULL,
         29501},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_PORT=29500", NULL, "MASTER_ADDR", 0},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=http", NULL, "MASTER_PORT", 0},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000", NULL, "MASTER_PORT", 0},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2", "127.0.0.1", NULL, 0},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1", NULL, "MASTER_ADDR", 0},
        {"", "127.0.0.1", NULL, 0},
    };
    struct dt_world world;
    char address[DT_ADDRESS_BYTES];
    int port, other;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        set_environment(examples[i].environment);
        CHECK_OK(dt_world_from_environment(&world));
        dt_status status = dt_world_meeting_point(&world, address, &port);
        if (!examples[i].address) {
            CHECK(status == DT_ERR_WORLD && strstr(dt_error_message(), examples[i].text), "%s: %s", examples[i].environment,
                  dt_error_message());
            continue;
        }
        CHECK(status == DT_OK && strcmp(address, examples[i].address) == 0, "%s: %s", examples[i].environment, address);
        CHECK(examples[i].port == 0 || port == examples[i].port, "%s: port %d", examples[i].environment, port);
    }

    /* The four ranks of a step, and the next step of the same job. */
    int ports[2] = {0, 0};
    for (int step = 0; step < 2; step++) {
        for (int rank = 0; rank < 4; rank++) {
            char environment[512];
            snprintf(environment, sizeof environment,
                     TWO_BY_TWO
                     "SLURM_PROCID=%d SLURM_LOCALID=%d SLURM_NODEID=%d SLURM_STEP_NODELIST=gpu[07-08] SLURM_JOB_NODELIST=gpu[01-08]",
                     step, rank, rank % 2, rank / 2);
            set_environment(environment);
            CHECK_OK(dt_world_from_environment(&world));
            CHECK(world.rank == rank && world.size == 4 && world.local_rank == rank % 2 && world.local_size == 2);
            CHECK_OK(dt_world_meeting_point(&world, address, &port));
            CHECK(strcmp(address, "gpu07") == 0, "%s", address);
            CHECK(port >= 20000 && port < 30000 && (ports[step] == 0 || port == ports[step]), "port %d", port);
            ports[step] = port;
        }
    }
    CHECK(ports[0] != ports[1], "two steps, one port");
    /* Jobs are 101 ports apart, steps one: this job's ports do not reach the next job's for a
     * hundred steps. */
    set_environment("SLURM_JOB_ID=12345 SLURM_STEP_ID=6 SLURM_PROCID=0 SLURM_NTASKS=1");
    CHECK_OK(dt_world_from_environment(&world));
    CHECK_OK(dt_world_meeting_point(&world, address, &port));
    CHECK(port == 20000 + (12345 * 101 + 6) % 10000, "port %d", port);
    setenv("MASTER_PORT", "23456", 1);
    setenv("MASTER_ADDR", "10.0.0.1", 1);
    CHECK_OK(dt_world_meeting_point(&world, address, &other));
    CHECK(other == 23456 && strcmp(address, "10.0.0.1") == 0, "%s:%d", address, other);
    unsetenv("MASTER_ADDR");
    setenv("SLURM_STEP_NODELIST", "gpu[7", 1);
    CHECK(dt_world_meeting_point(&world, address, &other) == DT_ERR_WORLD && strstr(dt_error_message(), "gpu[7"), "%s", dt_error_message());
    set_environment("");
}

static const struct test_case cases[] = {
    {"each launcher's variables", launchers},       {"launchers inside launchers", launchers_inside_others},
    {"contradictions are refused", contradictions}, {"garbage is refused and quoted", garbage},
    {"where ranks meet", meeting_points},
};
TEST_MAIN(cases)
