/* `dtbench plan`: what it is asked, as a search, and all that is told of what the search finds. */
#ifndef CLI_PLAN_PLANNER_H
#define CLI_PLAN_PLANNER_H

#include "cli/text/text.h"
#include "lib/base/statistics.h"
#include "lib/record/record.h"
#include "predict/search/search.h"
#include "predict/simulated_system.h"
#include "schedules/config/experiment.h"

#include <stdio.h>

/* ---- `dtbench plan`: what it is asked, as a search ---- */

/* As the command line has it; NULL: not given. */
struct planner_arguments {
    const char *file; /* a config to begin with */
    const char *model, *cluster, *profile, *nodes, *gpus, *global_batch, *max_batch, *optimizer, *sequence;
    const char *objective, *floor, *price, *tokens, *deadline, *top, *threads;
    const char *device, *slow, *rates;
    struct option_list sets, fix, allow, forbid;
};

struct planner {
    struct experiment base; /* all candidates are like it, but for the axes of the space */
    struct simulated_machine machine;
    struct space_request request;
    struct space *space;
    struct search_options options;
    struct search_result result;
    double *equal_units_per_s; /* [planner_shown] of the best ones without what is slow; NULL: nothing is */
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

/* The best of a space, and nothing else of it. */
struct planner_best {
    bool found, interrupted; /* interrupted: of what was reached */
    struct experiment experiment;
    struct search_outcome outcome;
};
/* Search once more: as the planner does (`options` are its own, but for what the caller has changed) on this space of this base and machine.
 * Errors: as search_run. */
dt_status planner_search_best(const struct space *space, const struct experiment *base, const struct simulated_machine *machine,
                              const struct search_options *options, struct planner_best *out);

/* The best candidate number `place`, complete with its hash; place < result.ranked. Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_experiment(const struct planner *planner, int place, struct experiment *out);
static inline const struct search_outcome *planner_outcome(const struct planner *planner, int place)
{
    return &planner->result.outcomes[planner->result.ranking[place]];
}
/* What the GPUs take for a token, each at its full power all the time: an upper estimate. NAN where the cluster does not know it. */
double planner_joules_per_token(const struct planner *planner, int place);
/* Seconds in which the candidate trains on `tokens` tokens, with loading and saves. */
double planner_training_s(const struct planner *planner, int place, double tokens);
/* How many are shown: the best of each of a few kinds, or with --top N the N best; or all there are. */
int planner_shown(const struct planner *planner);
/* The part of its rate that the candidate at `place` (of the shown) loses to what is slow (slow.by); NAN where nothing is. */
double planner_slow_cost(const struct planner *planner, int place);
/* "GPU", or "rank" where processors compute. */
const char *planner_unit(const struct planner *planner);

/* ---- a candidate in words, as the field says it: "HSDP 8x4, checkpoint", "PDP 4 stages x 8, 1F1B, 16 micro-batches" ---- */

enum { STRATEGY_BYTES = 192 };

/* Batch and world are left out: tables have columns for them. */
void strategy_describe(const struct experiment *experiment, char text[STRATEGY_BYTES]);

/* ---- how far a prediction can be trusted: what the profile has been held against, and how far off it was ---- */

struct confidence {
    bool measured;      /* runs of this mode were measured with this profile's software */
    double error;       /* of the step time: the median of these; where there are none, the largest nine of ten stay below */
    double eight;       /* eight of ten of these stay below; NAN: not told */
    double unseen;      /* the same of software that the profile has not seen; NAN: not told */
    const char *source; /* where that stands; NULL: nothing of this profile was ever measured */
};

/* Of an experiment on a machine. */
struct confidence confidence_of(const struct experiment *experiment, const struct simulated_machine *machine);

/* The next thing about the experiment that lies outside of what was measured ("GPT1T: the largest measured model is GPT175B"); false past
 * the last. *at is 0 at first. */
bool confidence_next_doubt(const struct experiment *experiment, const struct simulated_machine *machine, int *at, char *text,
                           size_t text_bytes);

/* Is a difference of `margin` (0.03: 3 %) between two predictions one that can be told? */
static inline bool confidence_tells(const struct confidence *a, const struct confidence *b, double margin)
{
    return margin > (a->error > b->error ? a->error : b->error);
}

/* ---- why a plan looks as it does: said of what was predicted, in numbers ---- */

enum { WHY_LINES = 16, WHY_BYTES = 480 };

struct why {
    char lines[WHY_LINES][WHY_BYTES];
    int count;
};

/* Adds a line, while there is room. */
void why_say(struct why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Where the time of the candidate at `place` goes, what bounds it, and what its communication crosses. Errors: DT_ERR_HOST_MEMORY. */
dt_status why_chosen(const struct planner *planner, int place, struct why *out);

/* What rejected each paradigm that is not among the shown ones, and by how much. Errors: DT_ERR_HOST_MEMORY. */
dt_status why_not(const struct planner *planner, struct why *out);

/* What the slow part (slow.by) costs, and which of the shown ones loses least to it; nothing where none is slow. */
void why_slow(const struct planner *planner, struct why *out);

/* What is known of the predictions' errors: the first candidates', and what about this plan was never measured. Errors: DT_ERR_HOST_MEMORY. */
dt_status why_trusted(const struct planner *planner, struct why *out);

/* By how much less the candidate at `place` scores than the best (0.03: 3 %), and whether the predictions can tell. */
double why_margin(const struct planner *planner, int place);
bool why_margin_tells(const struct planner *planner, int place);

/* Tokens a second that none of the candidates which are too slow can exceed, of a paradigm or of all (-1). 0: none is too slow. */
double why_too_slow(const struct planner *planner, int paradigm);

/* How many more of the kind of the one at `place` the predictions cannot tell from it; none are folded where --top N asks for the N best. */
int why_alike(const struct planner *planner, int place);

/* ---- what would change a plan: a network four times as fast, twice the memory of each GPU, twice the nodes ---- */

/* Plans again under each of them by itself: a line for each that makes another strategy the best. The earlier winner is simulated there, and
 * only what is unlike it and could be better; then, where something is, what is like it. Interrupted as the plan's search. Errors: as
 * search_run. */
dt_status changes_find(const struct planner *planner, struct why *out);

/* Rules of thumb: what people are told to do without a plan, and what following them costs.
 *
 * A rule names a paradigm, and some more. Whatever else there is to choose is left to the plan's own search among the candidates that do as the
 * rule says, so that its loss is the least that one can have with it.
 *
 * Sources  the decision tree: "Distributed Training Strategies from Scratch" (DadOps), function recommend_strategy.
 *          the study's Best Practices: "PyTorch Data Parallel Best Practices on Google Cloud" (PyTorch, 2022), section Best Practices. */

enum { RULES = 2, RULE_FIXES = 4, RULE_BYTES = 160 };

struct rule_result {
    const char *name;
    char says[RULE_BYTES];         /* what it recommends here, and of which figures that follows */
    bool left_out;                 /* by --fix, --allow and --forbid */
    char strategy[STRATEGY_BYTES]; /* the best that does so; "": nothing of it fits, or it is left out */
    int batch;
    double units_per_s, regret; /* regret: what it lacks of the plan's best, 0.1: 10 %; NAN: there is no strategy */
    bool interrupted;           /* of the candidates that were reached */
};

struct rule_results {
    struct rule_result all[RULES];
    int count;
};

/* What each rule gives for the planner's model and cluster, once that has searched. On one GPU there is none. Errors: as search_run. */
dt_status rules_follow(const struct planner *planner, struct rule_results *out);

/* ---- a plan, printed ---- */

/* The reasons that are printed after a plan's table: what a slow part costs, why the first one, why not the others, what would change the choice, how far it can be
 * trusted, and what rules of thumb would cost. */
struct planner_reasons {
    struct why chosen, not, changes, trusted, slow;
    struct rule_results rules; /* none where they are not asked for */
};

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_print(const struct planner *planner, const struct planner_reasons *reasons, FILE *to);

/* The first candidates of a plan that can be told apart, really run on this machine: which one wins, and how far off each prediction was. */

enum { MEASURED_MOST = 16, MEASURED_ROUNDS_MOST = 20 };

struct measured {
    const char *device; /* of the runs */
    int count;
    struct measured_run {
        dt_status status;
        char error[256];
        int place;                            /* in the plan, from 0 */
        int done;                             /* runs that count */
        double steps_s[MEASURED_ROUNDS_MOST]; /* [done] the median of each run's timed steps */
        double step_s, units_per_s;           /* of the median run; NAN where it failed */
        double error_of_step;                 /* predicted / measured - 1; NAN where it failed */
        struct dt_ratio of_fastest;           /* its throughput over the fastest one's */
        bool wins;                            /* it is the fastest, or cannot be told from it: the interval reaches 1, or there is none */
    } runs[MEASURED_MOST];
    int won; /* the fastest one's index in runs; -1: all failed */
};

/* Run the first `count` in processes of their own; fewer where there are fewer. Of candidates whose predictions differ by less than 2 % the
 * first is run, since a measurement of a few steps would not tell them apart; the others only where nothing else is left.
 *
 * The first one is run once for nothing. Then rounds follow in which each is run once, one round there and the next one back, so that a
 * machine that becomes slower favours none; after the third round only those that may still be the fastest, until one is told from all
 * others (lib/base/statistics.h, a run's median counting as a step) or `rounds` are over. Ctrl-C ends it: what was not run has the status
 * DT_ERR_INTERRUPTED. A run that fails is a result, and that candidate's last. records: NULL, or the file that gets a record of each run
 * that counts. Errors: DT_ERR_IO of the records, DT_ERR_HOST_MEMORY. */
dt_status measured_run(const struct planner *planner, const char *device, int count, int rounds, bool quiet, struct dt_record_file *records,
                       struct measured *out);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status measured_print(const struct planner *planner, const struct measured *measured, FILE *to);

/* ---- a plan as JSON, and the best of it as a config ---- */

/* As planner_print_json prints it. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_to_json(const struct planner *planner, const struct planner_reasons *reasons, const struct measured *measured,
                          struct cJSON **out);

/* {"plans": [{"config": {...}, "tokens_per_s": ..., "peak_bytes": ..., "why": [...]}], ...}. Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_print_json(const struct planner *planner, const struct planner_reasons *reasons, const struct measured *measured,
                             FILE *to);

/* The shown candidates as a config whose sweep lists them, written to `path`. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status planner_write_config(const struct planner *planner, const char *path);

/* A map: the best way of training for each of some models and batches, as the study's Figures 20 and 21 have it for its cluster. */

struct cJSON;

enum { MAP_VALUES = 32, MAP_TEXT_BYTES = 4096 };

/* Its axes, and the names of profiles for a third. A model or batch of NULL is what the other options say. */
struct map {
    const char *models[MAP_VALUES], *batches[MAP_VALUES]; /* in `text` */
    int model_count, batch_count;
    char text[MAP_TEXT_BYTES], profiles[MAP_TEXT_BYTES];
};

/* What one box says, once its search is over. */
struct map_box {
    const char *model, *batch, *profile; /* profile NULL: one for all boxes */
    char strategy[STRATEGY_BYTES];       /* "": nothing fits, or nothing was reached */
    const char *unit;                    /* that its model counts: "token"; NULL: nothing was reached */
    double units_per_s, peak_bytes;
    bool interrupted; /* the best so far */
    struct rule_results rules;
};

/* Of texts like "model=GPTSmall,GPT13B" and "batch=64,256", or both in one text with a space between them. Errors: DT_ERR_INVALID with one
 * line. */
dt_status map_read(const struct option_list *texts, const struct planner_arguments *arguments, struct map *out);

void map_fill(const struct planner *planner, struct map_box *box);

/* A row for each box; where these differ in their profiles, also whether the best one is the same under all. Errors: DT_ERR_HOST_MEMORY. */
dt_status map_print(const struct map_box *boxes, int count, FILE *to);

/* Add {"model": ..., "global_batch": ..., "profile": ..., "plan": what the plan alone would print} to an array. */
dt_status map_add_json(struct cJSON **array, const struct map_box *box, const struct planner *planner,
                       const struct planner_reasons *reasons);

#endif
