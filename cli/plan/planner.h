/* `dtbench plan`: what it is asked, as a search. */
#ifndef CLI_PLAN_PLANNER_H
#define CLI_PLAN_PLANNER_H

#include "cli/text/options.h"
#include "schedules/search/search.h"

/* As the command line has it; NULL: not given. */
struct planner_arguments {
    const char *file; /* a config to begin with */
    const char *model, *cluster, *profile, *nodes, *gpus, *global_batch, *max_batch, *optimizer, *sequence;
    const char *objective, *floor, *price, *tokens, *deadline, *top, *threads;
    const char *device;
    struct option_list sets, fix, allow, forbid;
};

struct planner {
    struct experiment base; /* all candidates are like it, but for the axes of the space */
    struct simulated_machine machine;
    struct space_request request;
    struct space *space;
    struct search_options options;
    struct search_result result;
    int ranks_per_node, nodes;
    double price_per_hour; /* of a GPU; NAN: not given */
    double tokens;         /* to train on; NAN: not given */
    double deadline_s;     /* for them; NAN: not given */
    const char *fix[OPTION_LIST_MAX * 2];
};

/* What `--objective` takes, by index; NULL past the last. */
const char *planner_objective_name(int index);

/* Reads config, cluster and profile, and makes the space. Owner of *out: the caller, planner_destroy. Errors: DT_ERR_INVALID, DT_ERR_IO,
 * DT_ERR_UNAVAILABLE with one line; DT_ERR_HOST_MEMORY. The arguments outlive it. */
dt_status planner_create(const struct planner_arguments *arguments, struct planner **out);
void planner_destroy(struct planner *planner); /* takes NULL */

/* Search, with options.stop, progress and done as they are set. Errors: as search_run. */
dt_status planner_search(struct planner *planner);

/* The best candidate number `place`, complete with its hash; place < result.ranked. Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_experiment(const struct planner *planner, int place, struct experiment *out);
static inline const struct search_outcome *planner_outcome(const struct planner *planner, int place)
{
    return &planner->result.outcomes[planner->result.ranking[place]];
}
/* What the GPUs take for a token, each at its full power all the time: an upper estimate. NAN where the cluster does not know it. */
double planner_joules_per_token(const struct planner *planner, int place);
/* How many are shown: the best of so many kinds, or with --top so many of the best; or all there are. */
int planner_shown(const struct planner *planner);
/* "GPU", or "rank" where processors compute. */
const char *planner_unit(const struct planner *planner);

#endif
