#include "cli/meeting.h"

#include "cli/placement.h"
#include "cli/run_simulated.h"
#include "cli/run_inside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a rank brings, followed by a byte for each experiment: is it skipped? */
struct greeting {
    char node[NODE_NAME_BYTES];
    int code;
    int limited;
};

static const struct greeting *greeting_of(const char *all, size_t bytes, int rank)
{
    return (const struct greeting *)(const void *)(all + bytes * (size_t)rank);
}

static dt_status check_placement(const struct sweep *s, const char *all, size_t bytes)
{
    struct placement_rank *ranks = calloc((size_t)s->world.size, sizeof *ranks);
    dt_status status = DT_OK;
    if (!ranks)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", s->world.size);
    for (int rank = 0; rank < s->world.size; rank++)
        memcpy(ranks[rank].node, greeting_of(all, bytes, rank)->node, sizeof ranks[rank].node);
    for (int i = 0; status == DT_OK && i < s->count; i++)
        if (!s->outcomes[i].elsewhere && !is_simulated(&s->experiments[i])) /* its ranks are not these */
            status = placement_check(&s->experiments[i], i + 1, s->count, ranks);
    free(ranks);
    return status;
}

dt_status sweep_meet(struct sweep *s, enum exit_code *code)
{
    size_t bytes = (sizeof(struct greeting) + (size_t)s->count + 7) / 8 * 8;
    char *mine = calloc(1, bytes), *all = calloc((size_t)s->world.size, bytes);
    if (!mine || !all) {
        free(mine);
        free(all);
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", s->world.size);
    }
    struct greeting *greeting = (struct greeting *)(void *)mine;
    char *skipped = mine + sizeof *greeting;
    gethostname(greeting->node, sizeof greeting->node - 1);
    greeting->code = (int)*code;
    greeting->limited = s->limited;
    for (int i = 0; i < s->count; i++)
        skipped[i] = s->outcomes[i].skipped;
    dt_status status = run_inside_gather(&s->experiments[0], &s->world, false, mine, bytes, all);
    if (status == DT_OK) {
        *code = (enum exit_code)greeting_of(all, bytes, 0)->code;
        s->limited = greeting_of(all, bytes, 0)->limited;
        for (int i = 0; i < s->count; i++)
            s->outcomes[i].skipped = all[sizeof *greeting + (size_t)i];
        status = *code == EXIT_CODE_OK ? check_placement(s, all, bytes) : DT_OK;
    }
    free(mine);
    free(all);
    return status;
}
