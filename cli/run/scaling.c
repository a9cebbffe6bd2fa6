#include "cli/run/scaling.h"

#include "lib/base/places.h"
#include "lib/config/json.h"
#include "schedules/config/hash.h"

#include <stdlib.h>

/* What scaling looks at in an experiment. */
struct size {
    enum paradigm_kind paradigm;
    int world_size;
};

/* Experiments that are alike have the same key: the hash without what scaling varies. */
static dt_status find_key(struct experiment_hasher *hasher, struct experiment *e, enum paradigm_kind kind, uint64_t *key)
{
    e->world_size = 1;
    e->gpus_per_node = 0;
    e->paradigm = kind;
    experiment_settle(e);
    DT_TRY(experiment_hasher_set(hasher, e));
    *key = dt_hash_fnv1a(e->hash, strlen(e->hash));
    return DT_OK;
}

/* places [count]: those of the paradigm, and one rank alone. */
static dt_status find_places(const struct experiment_list *experiments, const struct size *sizes, enum paradigm_kind kind,
                             struct experiment_hasher *hasher, struct dt_place *places, int *count)
{
    struct experiment e;
    *count = 0;
    for (int i = 0; i < experiment_list_count(experiments); i++) {
        bool alone = sizes[i].paradigm == PARADIGM_NONE && sizes[i].world_size == 1;
        if (sizes[i].paradigm != kind && !alone)
            continue;
        experiment_list_get(experiments, i, &e);
        places[*count].at = i;
        DT_TRY(find_key(hasher, &e, kind, &places[(*count)++].key));
    }
    dt_places_sort(places, *count);
    return DT_OK;
}

static void find_in_group(const struct dt_place *begin, const struct dt_place *end, const struct size *sizes, enum paradigm_kind kind,
                          int *fewest)
{
    int least = begin->at;
    bool several = false;
    for (const struct dt_place *p = begin; p < end; p++) {
        several |= sizes[p->at].world_size != sizes[begin->at].world_size;
        least = sizes[p->at].world_size < sizes[least].world_size ? p->at : least;
    }
    for (const struct dt_place *p = begin; p < end; p++) {
        bool has_least = sizes[p->at].world_size == sizes[least].world_size;
        if (sizes[p->at].paradigm == kind)
            fewest[p->at] = !several ? -1 : has_least ? p->at : least;
    }
}

dt_status scaling_find(const struct experiment_list *experiments, int *fewest)
{
    int count = experiment_list_count(experiments), found;
    struct experiment_hasher *hasher = NULL;
    struct size *sizes = malloc((size_t)count * sizeof *sizes);
    struct dt_place *places = malloc((size_t)count * sizeof *places);
    dt_status status =
        sizes && places ? experiment_hasher_create(&hasher) : dt_fail(DT_ERR_HOST_MEMORY, "no memory to compare %d experiments", count);
    for (int i = 0; i < count && status == DT_OK; i++) {
        struct experiment e;
        experiment_list_get(experiments, i, &e);
        sizes[i] = (struct size){e.paradigm, e.world_size};
    }
    for (int kind = 0; kind < PARADIGM_COUNT && status == DT_OK; kind++) {
        status = find_places(experiments, sizes, (enum paradigm_kind)kind, hasher, places, &found);
        for (int begin = 0, end; status == DT_OK && begin < found; begin = end) {
            end = dt_places_end(places, found, begin);
            find_in_group(places + begin, places + end, sizes, (enum paradigm_kind)kind, fewest);
        }
    }
    experiment_hasher_destroy(hasher);
    free(places);
    free(sizes);
    return status;
}
