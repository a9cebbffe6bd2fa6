#include "schedules/run/ranks.h"

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/record/record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- machines ---- */

struct host_name host_name(void)
{
    struct host_name name = {0};
    gethostname(name.text, sizeof name.text - 1);
    return name;
}

int ranks_per_node(const struct host_name *ranks, int size, bool *several)
{
    int first = 0;
    while (first < size && strcmp(ranks[first].text, ranks[0].text) == 0)
        first++;
    *several = first < size;
    bool even = size % first == 0;
    for (int i = 1; even && i < size; i++) /* a node's first rank has another name than the rank before it, all others the same */
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
    struct host_name mine = host_name(), *all;
    *out = 0;
    *several = false;
    DT_TRY(dt_host_collect(world, &mine, sizeof mine, &all));
    *out = ranks_per_node(all, dt_comm_size(world), several);
    free(all);
    return DT_OK;
}

/* ---- processors ---- */

/* Subtract the earlier values from the current ones. */
static void take_differences(struct rank_processors *p)
{
    p->use.seconds = dt_clock_s() - p->use.seconds;
    p->use.own_s = dt_processor_clock_s() - p->use.own_s;
    p->use.busy_s = dt_processors_busy_s("/proc/stat", &p->usable) - p->use.busy_s;
}

dt_status rank_processors_begin(struct rank_processors *p, struct dt_comm *world, int threads)
{
    struct place {
        struct host_name host;
        struct dt_processors usable;
    } mine = {.host = host_name()}, *all;
    *p = (struct rank_processors){.use = {.host = -1, .threads = threads}};
    dt_processors_of(0, &mine.usable);
    DT_TRY(dt_host_collect(world, &mine, sizeof mine, &all));
    for (int i = 0; i < dt_comm_size(world); i++) {
        if (strcmp(all[i].host.text, mine.host.text) != 0)
            continue;
        dt_processors_add(&p->usable, &all[i].usable);
        p->use.host = p->use.host < 0 ? i : p->use.host;
    }
    free(all);
    p->use.processors = dt_machine_processors_among(&p->usable);
    p->use.watched = dt_processors_count(&p->usable);
    take_differences(p);
    return DT_OK;
}

dt_status rank_processors_end(struct rank_processors *p, struct dt_comm *world, char *text, size_t bytes)
{
    struct processor_use *all;
    take_differences(p);
    DT_TRY(dt_host_collect(world, &p->use, sizeof p->use, &all));
    doubts_of_processors(all, dt_comm_size(world), text, bytes);
    free(all);
    return DT_OK;
}

/* ---- GPUs ---- */

struct rank_condition {
    char gpu[48]; /* its uuid, which is unique in the world */
    struct dt_condition_pair condition;
};

static int ranks_on(const struct rank_condition *all, int size, const char *gpu)
{
    int count = 0;
    for (int i = 0; i < size; i++)
        count += strcmp(all[i].gpu, gpu) == 0;
    return count;
}

/* The text has room for the first few ranks; often other ranks have the same doubts. */
static void describe_doubts(const struct rank_condition *all, int size, char *out, size_t out_bytes)
{
    enum { SHOWN = 3 };
    char one[160];
    int count = 0;
    for (int i = 0; i < size; i++) {
        dt_condition_doubts(&all[i].condition.before, &all[i].condition.after, ranks_on(all, size, all[i].gpu), one, sizeof one);
        if (*one && count++ < SHOWN)
            dt_append(out, out_bytes, "; ", "rank %d's GPU: %s", i, one);
    }
    if (count > SHOWN)
        dt_append(out, out_bytes, "; ", "and %d more ranks", count - SHOWN);
}

dt_status rank_conditions_gather(struct dt_comm *world, const struct dt_device *device, const struct dt_device_condition *before,
                                 char **out, char *doubts, size_t doubts_bytes)
{
    int size = dt_comm_size(world);
    bool any = false;
    struct dt_device_info info;
    struct rank_condition mine = {.condition.before = *before};
    DT_FREED struct rank_condition *all = NULL;
    *out = NULL;
    dt_device_info(device, &info);
    memcpy(mine.gpu, info.uuid, sizeof mine.gpu);
    dt_device_condition(device, &mine.condition.after);
    DT_TRY(dt_host_collect(world, &mine, sizeof mine, &all));
    for (int i = 0; i < size; i++)
        any |= all[i].condition.after.known;
    if (!any)
        return DT_OK;
    describe_doubts(all, size, doubts, doubts_bytes);
    return dt_conditions_write(&all[0].condition, sizeof all[0], size, out);
}

/* ---- network ---- */

dt_status rank_network_gather(struct dt_comm *world, struct dt_comm_network *out)
{
    struct dt_comm_network mine, *all;
    *out = (struct dt_comm_network){.direct_channels = 0};
    dt_comm_network(world, &mine);
    DT_TRY(dt_host_collect(world, &mine, sizeof mine, &all));
    for (int i = 0; i < dt_comm_size(world); i++)
        dt_comm_network_merge(out, &all[i]);
    free(all);
    return DT_OK;
}

/* ---- clocks ---- */

dt_status rank_clock_read(struct dt_comm *world, struct rank_clock *out)
{
    size_t size = (size_t)dt_comm_size(world);
    DT_FREED int64_t *all = calloc(size, sizeof *all); /* no result is wanted */
    *out = (struct rank_clock){.host = host_name()};
    DT_TRY(dt_allocated(all, "no host memory for the clocks of %zu ranks", size));
    for (int i = 0; i < RANK_CLOCK_ROUNDS; i++) {
        out->before_ns[i] = dt_clock_ns();
        DT_TRY(dt_host_all_gather(world, &out->before_ns[i], sizeof *all, all));
        out->after_ns[i] = dt_clock_ns();
    }
    return DT_OK;
}

int64_t rank_clock_ahead_ns(const struct rank_clock *first, const struct rank_clock *other, int64_t *error_ns)
{
    int64_t least = INT64_MIN, most = INT64_MAX;
    for (int i = 0; i < RANK_CLOCK_ROUNDS; i++) {
        int64_t at_least = other->before_ns[i] - first->after_ns[i], at_most = other->after_ns[i] - first->before_ns[i];
        least = at_least > least ? at_least : least;
        most = at_most < most ? at_most : most;
    }
    bool one_clock = strcmp(first->host.text, other->host.text) == 0 && least <= 0 && most >= 0; /* two hosts may have the same name */
    *error_ns = one_clock ? 0 : (most - least + 1) / 2;
    return one_clock ? 0 : least + (most - least) / 2;
}
