#include "cli/records/sweep_identity.h"

#include "lib/base/places.h"
#include "lib/config/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mark in first[] the experiment that has each one's hash first. */
static void find_first(struct dt_place *places, int count, int *first)
{
    dt_places_sort(places, count);
    for (int i = 0, begin = 0; i < count; i++) {
        begin = places[i].key == places[begin].key ? begin : i;
        first[places[i].at] = places[begin].at;
    }
}

dt_status sweep_identity_init(struct sweep_identity *identity, const struct experiment_list *experiments)
{
    struct experiment e;
    enum { HASH_DIGITS = sizeof e.hash - 1 };
    int count = experiment_list_count(experiments);
    struct dt_place *places = malloc((size_t)count * sizeof *places);
    char *hashes = malloc((size_t)count * HASH_DIGITS + 1);
    *identity = (struct sweep_identity){.index = malloc((size_t)count * sizeof *identity->index)};
    if (!places || !hashes || !identity->index) {
        free(places);
        free(hashes);
        sweep_identity_finish(identity);
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a sweep of %d experiments", count);
    }
    for (int i = 0; i < count; i++) {
        experiment_list_get(experiments, i, &e);
        places[i] = (struct dt_place){dt_hash_fnv1a(e.hash, HASH_DIGITS), i};
        memcpy(hashes + (size_t)i * HASH_DIGITS, e.hash, HASH_DIGITS);
    }
    find_first(places, count, identity->index);
    /* The first of equals has been counted when the others are come to. */
    for (int i = 0; i < count; i++)
        identity->index[i] = identity->index[i] == i ? identity->count++ : identity->index[identity->index[i]];
    snprintf(identity->id, sizeof identity->id, "%016" PRIx64, dt_hash_fnv1a(hashes, (size_t)count * HASH_DIGITS));
    free(places);
    free(hashes);
    return DT_OK;
}

void sweep_identity_finish(struct sweep_identity *identity)
{
    free(identity->index);
    *identity = (struct sweep_identity){0};
}

void sweep_identity_report(const struct sweep_identity *identity, int experiment, struct report *report)
{
    memcpy(report->sweep.id, identity->id, sizeof report->sweep.id);
    report->sweep.index = identity->index[experiment];
    report->sweep.count = identity->count;
}
