#include "schedules/run/ranks_per_node.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ranks_per_node(const struct host_name *ranks, int size, bool *several)
{
    int first = 0;
    while (first < size && strcmp(ranks[first].text, ranks[0].text) == 0)
        first++;
    *several = first < size;
    bool even = size % first == 0;
    for (int i = 1; even && i < size; i++) /* the first rank of a node has another name than the one before, all others the same */
        even = (strcmp(ranks[i].text, ranks[i - 1].text) != 0) == (i % first == 0);
    return even ? first : 0;
}

char *distinct_hosts(const struct host_name *ranks, int size)
{
    char *lines = calloc((size_t)size, sizeof ranks->text + 1), *end = lines;
    for (int i = 0; lines && i < size; i++) {
        bool known = false;
        for (int j = 0; j < i && !known; j++)
            known = strcmp(ranks[i].text, ranks[j].text) == 0;
        if (!known)
            end = stpcpy(stpcpy(end, end == lines ? "" : "\n"), ranks[i].text);
    }
    return lines;
}

dt_status ranks_per_node_find(struct dt_comm *world, int *out, bool *several)
{
    int size = dt_comm_size(world);
    struct host_name mine = {0}, *all = calloc((size_t)size, sizeof *all);
    *out = 0;
    *several = false;
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the names of %d ranks", size);
    gethostname(mine.text, sizeof mine.text - 1);
    dt_status status = dt_host_all_gather(world, &mine, sizeof mine, all);
    if (status == DT_OK)
        *out = ranks_per_node(all, size, several);
    free(all);
    return status;
}
