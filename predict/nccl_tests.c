/* Convert the output of nccl-tests to the table that validate reads. The layout is that of version
 * 2.0 and later (src/common.cu of NVIDIA/nccl-tests; a column "root" is new in 2.13): lines that
 * begin with '#' describe the run and name the columns, and each other line is a size with its
 * times, out of place and in place. */
#include "predict/nccl_tests.h"

#include "lib/sim/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64, HOSTS = 4096, ROW_BYTES = 192, BUS_COLUMN = 7 };

/* Facts from the lines with '#'. */
struct run {
    char collective[NAME_BYTES]; /* "": not said */
    int gpus, nodes;
    int bus_column;            /* of the bus bandwidth, from 0 */
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

/* The line without what a launcher puts before it: "[1,0]<stdout>:" of mpirun, "0: " of srun. */
static const char *without_tag(const char *line)
{
    size_t rank = strspn(line, "0123456789"), tag = *line == '[' ? strcspn(line, ":#\n") : rank;
    return tag > 0 && line[tag] == ':' ? line + tag + 1 + strspn(line + tag + 1, " ") : line;
}

static void take_comment(const char *line, size_t bytes, struct run *run)
{
    static const char starting[] = "# Collective test starting:";
    take_rank(line, run);
    if (strncmp(line, starting, strlen(starting)) == 0)
        find_collective(line, bytes, run->collective);
    const char *bus = strstr(line, "busbw");
    if (bus && bus < line + bytes && !run->bus_column) /* of the columns' line, the first one: out of place */
        for (const char *word = line + 1; (word += strspn(word, " ")) < bus; word += strcspn(word, " "))
            run->bus_column++;
}

/* "8388608 2097152 float sum -1 132.1 63.50 111.13 0 ...": the size, and the bus bandwidth in its
 * column. */
static bool take_row(const char *line, int bus_column, double *size, double *bus)
{
    char *end;
    *size = strtod(line, &end);
    bool is_row = end > line && *end == ' ' && *size > 0;
    for (line = end; bus_column > 1; bus_column--) {
        line += strspn(line, " ");
        line += strcspn(line, " \n");
    }
    *bus = strtod(line, &end);
    return is_row && end > line && strchr(" \r\n", *end);
}

static const char begins_run[] = "# nThread ";

bool nccl_tests_printed(const char *text)
{
    return (strstr(text, begins_run) || strstr(text, "out-of-place")) && strstr(text, "busbw");
}

/* Line numbers stay the same, so that messages name the right line. */
dt_status nccl_tests_as_table(const char *path, const char *text, char **out)
{
    const char *first = strstr(text, begins_run);
    if (first && strstr(first + 1, begins_run))
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
        if (*without_tag(line) == '#')
            take_comment(without_tag(line), strcspn(without_tag(line), "\n"), &run);
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
        if (take_row(without_tag(line), run.bus_column ? run.bus_column : BUS_COLUMN, &size, &bus) && bus > 0)
            used += (size_t)sprintf(table + used, "%s,%.0f,%d,%d,%g", run.collective, size, run.gpus, run.nodes, bus);
        used += (size_t)sprintf(table + used, "\n");
    }
    return DT_OK;
}
