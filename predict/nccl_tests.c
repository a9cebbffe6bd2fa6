/* Convert the output of nccl-tests to the table that validate reads. The layout is that of version
 * 2.13 and later (src/common.cu of NVIDIA/nccl-tests): lines that begin with '#' describe the run,
 * and each other line is a size with its times, out of place and in place. */
#include "predict/nccl_tests.h"

#include "lib/sim/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64, HOSTS = 4096, ROW_BYTES = 192 };

/* Facts from the lines with '#'. */
struct run {
    char collective[NAME_BYTES]; /* "": not said */
    int gpus, nodes;
    char (*hosts)[NAME_BYTES]; /* [nodes] */
};

/* The collective that a text names: "all_reduce_perf", or a file's name. */
static void find_collective(const char *text, size_t bytes, char out[NAME_BYTES])
{
    for (int kind = 0; kind < DT_SIM_COLLECTIVES && !*out; kind++) {
        const char *name = dt_sim_collective_name(kind), *found = strstr(text, name);
        if (found && (size_t)(found - text) + strlen(name) <= bytes)
            snprintf(out, NAME_BYTES, "%s", name);
    }
}

/* "#  Rank  0 Group  0 Pid  12345 on  HOST device  0 ..." */
static void take_rank(const char *line, struct run *run)
{
    char host[NAME_BYTES];
    const char *on = strstr(line, " on ");
    int rank, known = 0;
    if (sscanf(line, "# Rank %d", &rank) != 1 || !on || sscanf(on, " on %63s", host) != 1)
        return;
    run->gpus++;
    while (known < run->nodes && strcmp(run->hosts[known], host) != 0)
        known++;
    if (known == run->nodes && run->nodes < HOSTS)
        snprintf(run->hosts[run->nodes++], NAME_BYTES, "%s", host);
}

static void take_comment(const char *line, size_t bytes, struct run *run)
{
    static const char starting[] = "# Collective test starting:";
    take_rank(line, run);
    if (strncmp(line, starting, strlen(starting)) == 0)
        find_collective(line, bytes, run->collective);
}

/* "8388608 2097152 float sum -1 132.1 63.50 111.13 0 ...": size, count, type, operation, root,
 * time, algorithm's and bus bandwidth. */
static bool take_row(const char *line, double *size, double *bus)
{
    double count, time, algorithm;
    char type[16], operation[16];
    int root;
    return sscanf(line, "%lf %lf %15s %15s %d %lf %lf %lf", size, &count, type, operation, &root, &time, &algorithm, bus) == 8 && *size > 0;
}

static const char begins_run[] = "# nThread ";

bool nccl_tests_printed(const char *text)
{
    return strstr(text, begins_run) && strstr(text, "busbw");
}

/* Line numbers stay the same, so that messages name the right line. */
dt_status nccl_tests_as_table(const char *path, const char *text, char **out)
{
    if (strstr(strstr(text, begins_run) + 1, begins_run))
        return dt_fail(DT_ERR_INVALID, "%s: the output of several runs of nccl-tests: put each into a file of its own", path);
    struct run run = {.hosts = calloc(HOSTS, sizeof *run.hosts)};
    size_t lines = 1, used = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    char *table = malloc(lines * ROW_BYTES);
    *out = table;
    dt_status status = dt_allocated(run.hosts && table, "%s: no host memory", path);
    for (const char *line = text; status == DT_OK && *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (*line == '#')
            take_comment(line, strcspn(line, "\n"), &run);
    find_collective(name, strlen(name), run.collective);
    free(run.hosts);
    if (status == DT_OK && !*run.collective)
        status =
            dt_fail(DT_ERR_INVALID,
                    "%s: the output of nccl-tests does not say which collective was run: name the file after it, as all_reduce.txt", path);
    if (status == DT_OK && run.gpus == 0)
        status = dt_fail(DT_ERR_INVALID, "%s: the lines of nccl-tests with the ranks and their hosts are missing", path);
    DT_TRY(status);
    used += (size_t)sprintf(table, "collective,size,gpus,nodes,busbw_GB_s");
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        double size, bus;
        if (*line != '#' && take_row(line, &size, &bus) && bus > 0)
            used += (size_t)sprintf(table + used, "%s,%.0f,%d,%d,%g", run.collective, size, run.gpus, run.nodes, bus);
        used += (size_t)sprintf(table + used, "\n");
    }
    return DT_OK;
}
