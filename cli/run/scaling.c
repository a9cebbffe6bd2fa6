#include "cli/run/scaling.h"

#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The experiment without what scaling varies. Owner of *out: the caller. */
static dt_status describe(const struct experiment *e, enum paradigm_kind paradigm, char **out)
{
    struct experiment *same = malloc(sizeof *same);
    if (!same)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory to compare experiments");
    *same = *e;
    snprintf(same->name, sizeof same->name, "same");
    same->world_size = 1;
    same->gpus_per_node = 0;
    same->paradigm = paradigm;
    dt_status status = experiment_to_json(same, DT_JSON_SORTED, out);
    free(same);
    return status;
}

static bool is_like(const struct experiment *e, const struct experiment *other)
{
    char *left = NULL, *right = NULL;
    bool alone = other->paradigm == PARADIGM_NONE && other->world_size == 1;
    bool both = (other->paradigm == e->paradigm || alone) && describe(e, e->paradigm, &left) == DT_OK &&
                describe(other, e->paradigm, &right) == DT_OK;
    bool like = both && strcmp(left, right) == 0;
    free(left);
    free(right);
    return like;
}

int scaling_fewest_ranks(const struct experiment_list *experiments, int index)
{
    struct experiment e, other;
    int fewest = experiment_list_get(experiments, index, &e)->world_size, found = index;
    bool several = false;
    for (int i = 0; i < experiment_list_count(experiments); i++) {
        experiment_list_get(experiments, i, &other);
        if (other.world_size == e.world_size || !is_like(&e, &other))
            continue;
        several = true;
        found = other.world_size < fewest ? i : found;
        fewest = other.world_size < fewest ? other.world_size : fewest;
    }
    return several ? found : -1;
}
