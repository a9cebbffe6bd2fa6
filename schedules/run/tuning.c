#include "schedules/run/tuning.h"

#include "lib/config/data_file.h"
#include "lib/config/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status read_file(struct tuning *t, const struct experiment *e)
{
    char path[PATH_MAX];
    DT_FREED char *text = NULL;
    size_t length;
    DT_TRY(dt_find_data_file(e->tuning, e->directory, path, sizeof path));
    DT_TRY(dt_read_file(path, &text, &length));
    const char *slash = strrchr(path, '/');
    snprintf(t->facts.file, sizeof t->facts.file, "%.255s", slash ? slash + 1 : path);
    t->facts.hash = dt_hash_fnv1a(text, length);
    return t->family->tuner->read(t->known, path, text);
}

static dt_status read_and_use(struct tuning *t, const struct experiment *e, struct dt_kernels *kernels)
{
    DT_TRY(t->family->tuner->create(&t->known));
    DT_TRY(read_file(t, e));
    return t->family->tuner->use(t->known, kernels);
}

/* What a rank tells the others of its file. */
struct opinion {
    uint64_t hash;
    int status;
    char error[400];
};

static dt_status agree(const struct opinion *mine, const struct opinion *all, int size)
{
    if (mine->status < 0)
        return dt_fail(DT_ERR_INVALID, "tuning: %s", mine->error);
    for (int i = 0; i < size; i++) {
        if (all[i].status < 0)
            return dt_fail(DT_ERR_INVALID, "rank %d: tuning: %s", i, all[i].error);
        if (all[i].hash != all[0].hash)
            return dt_fail(DT_ERR_INVALID, "tuning: ranks 0 and %d have read different files of this name: give all the same one", i);
    }
    return DT_OK;
}

dt_status tuning_init(struct tuning *t, const struct experiment *e, struct dt_device *device, struct dt_comm *world,
                      struct dt_kernels *kernels)
{
    *t = (struct tuning){.family = e->model.family};
    if (!*e->tuning || !dt_device_kind_of(device)->gpus || !t->family->tuner)
        return DT_OK;
    struct opinion mine = {0};
    DT_FREED struct opinion *all = NULL;
    mine.status = read_and_use(t, e, kernels);
    mine.hash = t->facts.hash;
    if (mine.status < 0)
        snprintf(mine.error, sizeof mine.error, "%s", dt_error_message());
    DT_TRY(dt_host_collect(world, &mine, sizeof mine, &all));
    return agree(&mine, all, dt_comm_size(world));
}

void tuning_finish(struct tuning *t)
{
    if (t->known)
        t->family->tuner->destroy(t->known);
    *t = (struct tuning){0};
}

dt_status tuning_count(struct tuning *t, struct dt_comm *world, const struct dt_kernels *kernels)
{
    struct dt_tuned used;
    double sums_and_highest[6];
    if (!t->known)
        return DT_OK;
    t->family->tuner->used(kernels, &used);
    const double mine[] = {used.products, used.decided, used.products - used.decided};
    DT_TRY(dt_host_reduce(world, mine, 3, sums_and_highest));
    t->facts.products = (int)sums_and_highest[3];
    t->facts.decided = (int)sums_and_highest[4];
    t->facts.undecided = (int)sums_and_highest[5];
    return DT_OK;
}
