#include "lib/base/grow.h"
#include "lib/launch/launch.h"
#include "lib/launch/launch_parts.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names {
    const char *list; /* the whole list, for error texts */
    char *lines;
    size_t used, capacity;
    int count, most; /* most: expand no more names than this */
};

static dt_status refuse(const struct names *names, const char *what)
{
    return dt_fail(DT_ERR_INVALID, "the node list \"%s\" %s", names->list, what);
}

static dt_status add_name(struct names *names, const char *name)
{
    size_t bytes = strlen(name);
    if (bytes == 0)
        return DT_OK; /* an empty name between commas, "a,,b", is skipped */
    if (names->count == DT_NODE_LIST_MAX)
        return refuse(names, "has more names than any cluster");
    DT_TRY(dt_allocated(DT_ROOM_FOR(names->lines, names->used, names->capacity, bytes + 2), "no memory for the names of %d nodes",
                        names->count));
    names->used += (size_t)sprintf(names->lines + names->used, "%s%s", names->count ? "\n" : "", name);
    names->count++;
    return DT_OK;
}

static dt_status add_text(struct names *names, char *name, size_t *length, const char *text, size_t bytes)
{
    if (*length + bytes >= DT_NODE_NAME_BYTES)
        return refuse(names, "has a name that is too long");
    memcpy(name + *length, text, bytes);
    *length += bytes;
    name[*length] = 0;
    return DT_OK;
}

/* Read a number of at most nine digits; *digits is the number of digits. */
static bool read_digits(const char **c, int *digits, long *out)
{
    *out = 0;
    for (*digits = 0; **c >= '0' && **c <= '9'; ++*c) {
        if (++*digits > 9)
            return false;
        *out = *out * 10 + (**c - '0');
    }
    return *digits > 0;
}

/* Expand one name or pattern of names: name [length] is the text before `rest`, which ends at
 * `end`. */
static dt_status expand_name(struct names *names, char *name, size_t length, const char *rest, const char *end)
{
    const char *open = memchr(rest, '[', (size_t)(end - rest));
    DT_TRY(add_text(names, name, &length, rest, (size_t)((open ? open : end) - rest)));
    if (!open)
        return add_name(names, name);
    const char *close = memchr(open, ']', (size_t)(end - open)), *c = open;
    do {
        int digits, last_digits;
        long first, last;
        c++;
        if (!read_digits(&c, &digits, &first))
            return refuse(names, "has something other than numbers in a bracket");
        last = first;
        if (*c == '-' && (c++, !read_digits(&c, &last_digits, &last)))
            return refuse(names, "has something other than numbers in a bracket");
        if (last < first)
            return refuse(names, "has a range that runs backwards");
        for (long number = first; number <= last && names->count < names->most; number++) {
            char text[16];
            size_t before = length;
            DT_TRY(add_text(names, name, &before, text, (size_t)snprintf(text, sizeof text, "%0*ld", digits, number)));
            DT_TRY(expand_name(names, name, before, close + 1, end));
            name[length] = 0;
        }
    } while (*c == ',');
    return c == close ? DT_OK : refuse(names, "has something other than numbers in a bracket");
}

/* Commas within brackets belong to the name. NULL: unbalanced brackets. */
static const char *end_of_name(const char *c)
{
    bool inside = false;
    for (; *c && (inside || *c != ','); c++) {
        if ((*c == '[' && inside) || (*c == ']' && !inside))
            return NULL;
        if (*c == '[' || *c == ']')
            inside = *c == '[';
    }
    return inside ? NULL : c;
}

static dt_status expand(struct names *names)
{
    for (const char *c = names->list; *c && names->count < names->most;) {
        char name[DT_NODE_NAME_BYTES] = "";
        const char *end = end_of_name(c);
        if (!end)
            return refuse(names, "has brackets that do not match");
        DT_TRY(expand_name(names, name, 0, c, end));
        c = end + (*end == ',');
    }
    return DT_OK;
}

dt_status dt_node_list_expand(const char *list, char **out_lines, int *out_count)
{
    struct names names = {.list = list, .most = DT_NODE_LIST_MAX + 1};
    dt_status status = expand(&names);
    DT_FREED char *lines = names.lines;
    DT_TRY(status);
    *out_lines = lines ? DT_PASSED_ON(lines) : strdup("");
    *out_count = names.count;
    return dt_allocated(*out_lines, "no memory for the names of nodes");
}

dt_status dt_node_list_first(const char *list, char out[DT_NODE_NAME_BYTES])
{
    struct names names = {.list = list, .most = 1};
    dt_status status = expand(&names);
    DT_FREED char *lines = names.lines;
    DT_TRY(status);
    if (names.count == 0)
        return refuse(&names, "names no node");
    snprintf(out, DT_NODE_NAME_BYTES, "%.*s", (int)strcspn(lines, "\n"), lines);
    return DT_OK;
}

/* ---- worlds ---- */

/* Variables in which a launcher gives a rank's place. Two names if versions differ; the first one
 * that is set counts. */
struct place_variables {
    const char *rank[2], *size[2], *local_rank[2], *local_size[2];
};

static const struct place_variables torchrun_variables = {{"RANK"}, {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}};
static const struct place_variables openmpi_variables = {
    {"OMPI_COMM_WORLD_RANK"}, {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_RANK"}, {"OMPI_COMM_WORLD_LOCAL_SIZE"}};
static const struct place_variables pmi_variables = {
    {"PMI_RANK"}, {"PMI_SIZE"}, {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"}, {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}};

/* NULL if unset or empty: shells use an empty variable to unset it for a single command. */
static const char *value_of(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

static const char *first_set(const char *const names[2])
{
    return value_of(names[0]) || !value_of(names[1]) ? names[0] : names[1];
}

/* Accepts digits only: strtol would accept " 3", "+3" and "3x". */
static dt_status read_number(const char *name, int *out)
{
    const char *value = value_of(name);
    if (!value)
        return dt_fail(DT_ERR_WORLD, "%s is not set, but other variables of its launcher are: pass all of them, or none", name);
    long number = 0;
    for (const char *c = value; *c; c++) {
        if (*c >= '0' && *c <= '9')
            number = number * 10 + (*c - '0');
        if (*c < '0' || *c > '9' || number > INT_MAX)
            return dt_fail(DT_ERR_WORLD, "%s is \"%s\", not a number: the launcher's variables cannot be trusted", name, value);
    }
    *out = (int)number;
    return DT_OK;
}

static dt_status check_place(const char *rank_name, int rank, const char *size_name, int size)
{
    if (size < 1 || rank >= size)
        return dt_fail(DT_ERR_WORLD, "%s=%d and %s=%d contradict each other: a rank is below the size", rank_name, rank, size_name, size);
    return DT_OK;
}

static dt_status check_local(const struct dt_world *world, const char *local_rank_name, const char *local_size_name)
{
    DT_TRY(check_place(local_rank_name, world->local_rank, local_size_name, world->local_size));
    if (world->local_size > world->size || world->local_rank > world->rank)
        return dt_fail(DT_ERR_WORLD, "rank %d of %d cannot be rank %d of %d on its machine: %s and %s are another job's", world->rank,
                       world->size, world->local_rank, world->local_size, local_rank_name, local_size_name);
    return DT_OK;
}

static dt_status read_place(const struct place_variables *names, struct dt_world *out)
{
    const char *rank = first_set(names->rank), *size = first_set(names->size);
    const char *local_rank = first_set(names->local_rank), *local_size = first_set(names->local_size);
    DT_TRY(read_number(rank, &out->rank));
    DT_TRY(read_number(size, &out->size));
    DT_TRY(check_place(rank, out->rank, size, out->size));
    out->local_rank = 0;
    out->local_size = 1;
    if (out->size == 1 && !value_of(local_rank) && !value_of(local_size)) /* a single rank needs no local rank */
        return DT_OK;
    DT_TRY(read_number(local_rank, &out->local_rank));
    DT_TRY(read_number(local_size, &out->local_size));
    return check_local(out, local_rank, local_size);
}

/* Read one entry of Slurm's run-length list of tasks per node ("4(x2),3" means 4, 4, 3): the node's
 * own count, and the sum over all nodes. */
static dt_status read_tasks_per_node(const char *name, int node, int *out_here, int *out_sum)
{
    const char *list = value_of(name), *c = list;
    int first = 0;
    long sum = 0;
    *out_here = 0;
    for (;;) {
        int tasks, repeat = 1, length = 0, more = 0;
        if (*c < '0' || *c > '9' || sscanf(c, "%9d%n", &tasks, &length) != 1)
            break;
        c += length;
        if (*c == '(') {
            if (sscanf(c, "(x%9d)%n", &repeat, &more) != 1 || more == 0 || repeat < 1)
                break;
            c += more;
        }
        if (node >= first && node - first < repeat)
            *out_here = tasks;
        first += repeat;
        sum += (long)tasks * repeat;
        if (sum > INT_MAX)
            break;
        if (*c == 0) {
            *out_sum = (int)sum;
            return DT_OK;
        }
        if (*c++ != ',')
            break;
    }
    return dt_fail(DT_ERR_WORLD, "%s is \"%s\", not a list of tasks per node", name, list);
}

/* Is this process a task that srun started?
 *
 * SLURM_PROCID and SLURM_NTASKS alone are not enough: the script of an sbatch job has them too
 * (PROCID 0, NTASKS as requested for the job), although it is one process, and so have all
 * processes that it starts without srun. Only srun's tasks have the number of a step. Slurm numbers
 * real steps from 0; it keeps 0xfffffff0 and above for the batch script, salloc's shell and the
 * like, and if a version passes these on, as number or as word, they do not count either. */
static bool in_srun_step(void)
{
    const char *step = value_of("SLURM_STEP_ID");
    if (!step)
        step = value_of("SLURM_STEPID");
    if (!step || *step < '0' || *step > '9')
        return false;
    return value_of("SLURM_PROCID") && strtoull(step, NULL, 10) < 0xfffffff0u;
}

static dt_status read_srun(struct dt_world *out)
{
    /* In a step SLURM_NTASKS is the step's size, unless the job's older variable is still set;
     * STEP_NUM_TASKS is always the step's. */
    const char *size = value_of("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    DT_TRY(read_number("SLURM_PROCID", &out->rank));
    DT_TRY(read_number(size, &out->size));
    DT_TRY(check_place("SLURM_PROCID", out->rank, size, out->size));
    out->local_rank = 0;
    out->local_size = 1;
    if (out->size == 1)
        return DT_OK;
    DT_TRY(read_number("SLURM_LOCALID", &out->local_rank));
    const char *layout = value_of("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
    if (!value_of(layout))
        return dt_fail(DT_ERR_WORLD, "SLURM_STEP_TASKS_PER_NODE is not set, but SLURM_PROCID is: start the ranks with srun");
    int node = 0, sum = 0;
    if (value_of("SLURM_NODEID"))
        DT_TRY(read_number("SLURM_NODEID", &node));
    DT_TRY(read_tasks_per_node(layout, node, &out->local_size, &sum));
    if (sum != out->size)
        return dt_fail(DT_ERR_WORLD, "%s=%s and %s=%d contradict each other", layout, getenv(layout), size, out->size);
    return check_local(out, "SLURM_LOCALID", layout);
}

static void set_launcher(struct dt_world *world, const char *name)
{
    snprintf(world->launcher, sizeof world->launcher, "%s", name);
}

/* Variables set by hand (RANK, WORLD_SIZE) in addition to mpirun's must agree with them, or some
 * ranks of a communicator never arrive. */
static dt_status check_against_mpirun(const struct dt_world *torchrun)
{
    struct dt_world mpirun;
    if (!value_of("OMPI_COMM_WORLD_RANK"))
        return DT_OK;
    DT_TRY(read_place(&openmpi_variables, &mpirun));
    if (mpirun.rank != torchrun->rank || mpirun.size != torchrun->size)
        return dt_fail(
            DT_ERR_WORLD,
            "RANK=%d and WORLD_SIZE=%d contradict OMPI_COMM_WORLD_RANK=%d and OMPI_COMM_WORLD_SIZE=%d: unset the former, or start "
            "the ranks without mpirun",
            torchrun->rank, torchrun->size, mpirun.rank, mpirun.size);
    return DT_OK;
}

dt_status dt_world_from_environment(struct dt_world *out)
{
    memset(out, 0, sizeof *out);
    out->size = out->local_size = 1;
    set_launcher(out, "none");

    if (value_of("RANK") || value_of("WORLD_SIZE")) {
        set_launcher(out, "torchrun");
        DT_TRY(read_place(&torchrun_variables, out));
        return check_against_mpirun(out);
    }
    if (value_of("OMPI_COMM_WORLD_RANK") || value_of("OMPI_COMM_WORLD_SIZE")) {
        set_launcher(out, "mpirun");
        return read_place(&openmpi_variables, out);
    }
    /* srun --mpi=pmi2 and --mpi=pmix set PMI's and PMIx's variables in addition to Slurm's own,
     * which contain more: in a step Slurm's take precedence. But the ranks of an MPICH mpirun
     * inside a step belong to mpirun; only hydra numbers them on their machine. */
    bool hydra = value_of("PMI_RANK") && (value_of("MPI_LOCALRANKID") || !in_srun_step());
    if (hydra) {
        set_launcher(out, "mpirun");
        return read_place(&pmi_variables, out);
    }
    if (in_srun_step()) {
        set_launcher(out, "srun");
        return read_srun(out);
    }
    if (value_of("PMIX_RANK"))
        return dt_fail(DT_ERR_WORLD, "PMIX_RANK=%s is set, but no variable has the number of ranks: start them with mpirun or srun",
                       getenv("PMIX_RANK"));
    return DT_OK;
}

/* The range avoids ports that the kernel assigns (from 32768) and ports of known services. Two jobs
 * that share rank 0's node get different ports, unless the last four digits of their sums agree. */
static int port_of_step(void)
{
    enum { FIRST_PORT = 20000, PORTS = 10000, STEPS_APART = 101 };
    const char *job = value_of("SLURM_JOB_ID"), *step = value_of("SLURM_STEP_ID");
    unsigned long long number = (job ? strtoull(job, NULL, 10) : 0) * STEPS_APART + (step ? strtoull(step, NULL, 10) : 0);
    return FIRST_PORT + (int)(number % PORTS);
}

dt_status dt_world_meeting_point(const struct dt_world *world, char address[DT_ADDRESS_BYTES], int *port)
{
    static const char *const lists[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"};
    const char *master = value_of("MASTER_ADDR"), *list = NULL;
    *port = port_of_step();
    if (value_of("MASTER_PORT")) {
        DT_TRY(read_number("MASTER_PORT", port));
        if (*port < 1 || *port > 65535)
            return dt_fail(DT_ERR_WORLD, "MASTER_PORT is %d: ports are 1 to 65535", *port);
        const char *taken = value_of("TORCHELASTIC_USE_AGENT_STORE");
        if (strcmp(world->launcher, "torchrun") == 0 && taken && strcmp(taken, "True") == 0)
            *port = *port < 65535 ? *port + 1 : *port - 1;
    }
    if (master && strlen(master) >= DT_ADDRESS_BYTES)
        return dt_fail(DT_ERR_WORLD, "MASTER_ADDR is no host: it has %zu characters", strlen(master));
    for (size_t i = 0; !list && i < sizeof lists / sizeof lists[0]; i++)
        list = value_of(lists[i]);
    if (!master && strcmp(world->launcher, "srun") == 0 && list) {
        if (dt_node_list_first(list, address) < 0)
            return dt_fail(DT_ERR_WORLD, "%s; set MASTER_ADDR to rank 0's node", dt_error_message());
        return DT_OK;
    }
    if (!master && (strcmp(world->launcher, "torchrun") == 0 || world->local_size < world->size))
        return dt_fail(DT_ERR_WORLD, "%s sets no variable with the host of rank 0: set MASTER_ADDR to it", world->launcher);
    snprintf(address, DT_ADDRESS_BYTES, "%s", master ? master : "127.0.0.1");
    return DT_OK;
}
