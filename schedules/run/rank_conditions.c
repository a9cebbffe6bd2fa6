#include "schedules/run/rank_conditions.h"

#include "lib/base/text.h"
#include "lib/record/record.h"

#include <stdlib.h>
#include <string.h>

struct rank_condition {
    char gpu[48]; /* its uuid, which is nobody else's in the world */
    struct dt_condition_pair condition;
};

static int ranks_on(const struct rank_condition *all, int size, const char *gpu)
{
    int count = 0;
    for (int i = 0; i < size; i++)
        count += strcmp(all[i].gpu, gpu) == 0;
    return count;
}

/* A line has room for the first ranks; what they suffer from the others often do, too. */
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
    struct rank_condition mine = {.condition.before = *before}, *all = calloc((size_t)size, sizeof *all);
    *out = NULL;
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the conditions of %d GPUs", size);
    dt_device_info(device, &info);
    memcpy(mine.gpu, info.uuid, sizeof mine.gpu);
    dt_device_condition(device, &mine.condition.after);
    dt_status status = dt_host_all_gather(world, &mine, sizeof mine, all);
    for (int i = 0; status == DT_OK && i < size; i++)
        any |= all[i].condition.after.known;
    if (any) {
        describe_doubts(all, size, doubts, doubts_bytes);
        status = dt_conditions_write(&all[0].condition, sizeof all[0], size, out);
    }
    free(all);
    return status;
}
