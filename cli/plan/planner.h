/* `dtbench plan`: makes a search of the command line, and explains its result. */
#pragma once

#include "cli/text/text.h"
#include "lib/base/statistics.h"
#include "lib/record/record.h"
#include "predict/search/search.h"
#include "predict/simulated_system.h"
#include "schedules/config/experiment.h"

#include <stdio.h>

/* ---- `dtbench plan`: from the command line to a search ---- */

/* The options of the command line; NULL: not given. */
struct planner_arguments {
    const char *file; /* the config to start from */
    const char *model, *cluster, *profile, *nodes, *gpus, *global_batch, *max_batch, *optimizer, *sequence;
    const char *objective, *floor, *price, *tokens, *deadline, *top, *threads;
    const char *device, *slow, *rates;
    struct option_list sets, fix, allow, forbid;
};

struct planner {
    struct experiment base; /* candidates differ from it only on the axes of the space */
    struct simulated_machine machine;
    struct space_request request;
    struct space *space;
    struct search_options options;
    struct search_result result;
    double *equal_units_per_s; /* [planner_shown] rates of the shown candidates without slow hardware; NULL: nothing is slow */
    int ranks_per_node, nodes;
    double price_per_hour; /* price of a GPU hour; NAN: not given */
    double tokens;         /* tokens to train on; NAN: not given */
    double deadline_s;     /* time limit for them; NAN: not given */
    const char *fix[OPTION_LIST_MAX * 2];
};

/* Word `index` of those that --objective accepts; NULL past the last. */
const char *planner_objective_name(int index);

/* Read config, cluster and profile, and make the space. Owner of *out: the caller, planner_destroy.
 * Errors: DT_ERR_INVALID, DT_ERR_IO, DT_ERR_UNAVAILABLE with one line; DT_ERR_HOST_MEMORY. The
 * arguments must outlive *out. */
dt_status planner_create(const struct planner_arguments *arguments, struct planner **out);
void planner_destroy(struct planner *planner); /* takes NULL */
DT_DESTROYS(planner_destroy, struct planner)

/* Search with the options' callbacks stop, progress and done. Errors: as search_run. */
dt_status planner_search(struct planner *planner);

/* The best candidate of a search. */
struct planner_best {
    bool found, interrupted; /* interrupted: the best of the candidates that were reached */
    struct experiment experiment;
    struct search_outcome outcome;
};
/* Search another space, base or machine. `options` are the planner's own, with the caller's
 * changes. Errors: as search_run. */
dt_status planner_search_best(const struct space *space, const struct experiment *base, const struct simulated_machine *machine,
                              const struct search_options *options, struct planner_best *out);

/* The experiment of the candidate at `place`, complete except for its hash; place < result.ranked. */
struct experiment planner_candidate(const struct planner *planner, int place);
/* The same with its hash. Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_experiment(const struct planner *planner, int place, struct experiment *out);
static inline const struct search_outcome *planner_outcome(const struct planner *planner, int place)
{
    return &planner->result.outcomes[planner->result.ranking[place]];
}
double planner_score(const struct planner *planner, int place); /* search_score */
/* Energy of the GPUs for a token, each at full power all the time: an upper estimate. NAN where the
 * cluster has no gpu.power_w. */
double planner_joules_per_token(const struct planner *planner, int place);
/* Seconds that the candidate needs to train on `tokens` tokens, with loading and saves. */
double planner_training_s(const struct planner *planner, int place, double tokens);
/* How many candidates are shown: the best of each of a few kinds, or with --top N the N best; fewer
 * where there are fewer. */
int planner_shown(const struct planner *planner);
/* The fraction of its rate that the shown candidate at `place` loses to slow hardware (slow.by);
 * NAN where nothing is slow. */
double planner_slow_cost(const struct planner *planner, int place);
/* "GPU", or "rank" where processors compute. */
const char *planner_unit(const struct planner *planner);

/* ---- a candidate in the field's words: "HSDP 8x4, checkpoint", "PDP 4 stages x 8, 1F1B, 16
 * micro-batches" ---- */

enum { STRATEGY_BYTES = 192 };

/* Batch and number of ranks are left out: tables have columns for them. */
void strategy_describe(const struct experiment *experiment, char text[STRATEGY_BYTES]);

/* ---- how far a prediction can be trusted: with which measurements the profile was compared, and
 * its errors ---- */

struct confidence {
    bool measured; /* runs of this mode were measured with this profile's software */
    double
        error; /* of the step time: the median of these runs; without any, the profile's bound for nine of ten predictions of other modes */
    double eight;       /* bound for eight of ten of these runs; NAN: unknown */
    double unseen;      /* the same bound for software that the profile was not fitted to; NAN: unknown */
    const char *source; /* the source of these numbers; NULL: the profile was never compared with measurements */
};

/* The confidence in an experiment's prediction on a machine. */
struct confidence confidence_of(const struct experiment *experiment, const struct simulated_machine *machine);

/* The next property of the experiment that lies outside of the measurements ("GPT1T: the largest
 * measured model is GPT175B"); false past the last. *at is 0 at first. */
bool confidence_next_doubt(const struct experiment *experiment, const struct simulated_machine *machine, int *at, char *text,
                           size_t text_bytes);

/* The largest difference of two scores (0.03: 3 %) that may come from the predictions' errors: the
 * larger error of the two. Bytes are exact. */
double planner_noise(const struct planner *planner, const struct experiment *a, const struct experiment *b);

/* ---- why a plan is chosen, in numbers of the prediction ---- */

enum { WHY_LINES = 16, WHY_BYTES = 480 };

struct why {
    char lines[WHY_LINES][WHY_BYTES];
    int count;
};

/* Add a line if there is room. */
void why_say(struct why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Explain where the time of the candidate at `place` goes, what bounds it, and which links its
 * communication uses. */
void why_chosen(const struct planner *planner, int place, struct why *out);

/* Explain why each paradigm that is not shown was rejected, and by how much. */
void why_not(const struct planner *planner, struct why *out);

/* Explain what the slow part (slow.by) costs, and which of the shown candidates loses least to it.
 * Adds nothing where no part is slow. */
void why_slow(const struct planner *planner, struct why *out);

/* Explain the predictions' errors: those of the first candidates, and which properties of the plan
 * were never measured. */
void why_trusted(const struct planner *planner, struct why *out);

/* How much less the candidate at `place` scores than the better one at `better` (0.03: 3 %), and
 * whether that exceeds the predictions' errors. */
double why_margin(const struct planner *planner, int better, int place);
bool why_margin_tells(const struct planner *planner, int better, int place);

/* An upper bound on the tokens a second of all candidates that were too slow, of a paradigm or of
 * all (-1). 0: none was too slow. */
double why_too_slow(const struct planner *planner, int paradigm);

/* How many further simulated candidates of the same kind as the one at `place` differ from it by
 * less than the predictions' errors. 0 with --top N, which shows them. */
int why_alike(const struct planner *planner, int place);

/* ---- what would change a plan: a network four times as fast, twice the memory of each GPU, twice
 * the nodes ---- */

/* Search again under each change alone, and add a line for each that makes another strategy the
 * best. First the earlier winner is simulated under the change, then only candidates of other kinds
 * that could be better; if one is, also those of the winner's kind. Ctrl-C interrupts it like the
 * plan's search. Errors: as search_run. */
dt_status changes_find(const struct planner *planner, struct why *out);

/* Rules of thumb: common advice on how to train without a search, and how much slower it is.
 *
 * A rule gives a paradigm, and some more settings. The plan's own search chooses the rest among the
 * candidates that follow the rule, so its loss is the smallest that is possible under the rule.
 *
 * Sources  the decision tree: "Distributed Training Strategies from Scratch" (DadOps), function
 *          recommend_strategy. the study's Best Practices: "PyTorch Data Parallel Best Practices on
 *          Google Cloud" (PyTorch, 2022), section Best Practices. */

enum { RULES = 2, RULE_FIXES = 4, RULE_BYTES = 160 };

struct rule_result {
    const char *name;
    char says[RULE_BYTES];         /* its recommendation, and the figures from which it follows */
    bool left_out;                 /* excluded by --fix, --allow and --forbid */
    char strategy[STRATEGY_BYTES]; /* the best candidate that follows it; "": none fits, or the rule is left out */
    int batch;
    double units_per_s, regret; /* regret: how much less it scores than the plan's best, 0.1: 10 %; NAN: no strategy */
    bool interrupted;           /* the best of the candidates that were reached */
};

struct rule_results {
    struct rule_result all[RULES];
    int count;
};

/* Follow each rule for the planner's model and cluster, after the planner's search. On one GPU
 * there are no rules. Errors: as search_run. */
dt_status rules_follow(const struct planner *planner, struct rule_results *out);

/* ---- a plan, printed ---- */

/* The reasons that are printed after a plan's table: what a slow part costs, why the first plan,
 * why not the others, what would change the choice, how far it can be trusted, and what rules of
 * thumb cost. */
struct planner_reasons {
    struct why chosen, not, changes, trusted, slow;
    struct rule_results rules; /* empty unless asked for */
};

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_print(const struct planner *planner, const struct planner_reasons *reasons, FILE *to);

/* Runs a plan's first distinguishable candidates on this machine: which one is fastest, and how far
 * off each prediction was. */

enum { MEASURED_MOST = 16, MEASURED_ROUNDS_MOST = 20 };

struct measured {
    const char *device; /* the device of the runs */
    int count;
    struct measured_run {
        dt_status status;
        char error[256];
        int place;                            /* place in the plan, from 0 */
        int done;                             /* runs that count */
        double steps_s[MEASURED_ROUNDS_MOST]; /* [done] the median of each run's timed steps */
        double step_s, units_per_s;           /* of the median run; NAN if it failed */
        double error_of_step;                 /* predicted / measured - 1; NAN where it failed */
        struct dt_ratio of_fastest;           /* its throughput over the fastest one's */
        bool wins; /* it is the fastest, or not distinguishable from it: the interval includes 1, or there is none */
    } runs[MEASURED_MOST];
    int won; /* the fastest one's index in runs; -1: all failed */
};

/* Run the first `count` candidates, or all if there are fewer, in separate processes. Of candidates
 * whose predictions differ by less than 2 % only the first is run, because a few measured steps
 * would not distinguish them; the others are only run to reach `count`.
 *
 * The first candidate is run once without counting. Then each round runs every candidate once, in
 * order and in reverse order by turns, so that a machine that becomes slower favours none. After
 * the third round only candidates that may still be the fastest are run, until one is distinguished
 * from all others (lib/base/statistics.h, with a run's median as a step) or `rounds` are over.
 * Ctrl-C ends it: candidates that were not run have the status DT_ERR_INTERRUPTED. A failed run is
 * a result, and that candidate's last. records: NULL, or the file that gets a record of each run
 * that counts. Errors: DT_ERR_IO of the records, DT_ERR_HOST_MEMORY. */
dt_status measured_run(const struct planner *planner, const char *device, int count, int rounds, bool quiet, struct dt_record_file *records,
                       struct measured *out);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status measured_print(const struct planner *planner, const struct measured *measured, FILE *to);

/* ---- a plan as JSON, and the best of it as a config ---- */

/* Make the JSON that planner_print_json prints. Owner of *out: the caller. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status planner_to_json(const struct planner *planner, const struct planner_reasons *reasons, const struct measured *measured,
                          struct cJSON **out);

/* {"plans": [{"config": {...}, "tokens_per_s": ..., "peak_bytes": ..., "why": [...]}], ...}.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_print_json(const struct planner *planner, const struct planner_reasons *reasons, const struct measured *measured,
                             FILE *to);

/* Write a config to `path` whose sweep lists the shown candidates. Errors: DT_ERR_IO,
 * DT_ERR_HOST_MEMORY. */
dt_status planner_write_config(const struct planner *planner, const char *path);

/* A map: the best way of training for each pair of a model and a batch, like the study's Figures 20
 * and 21. */

struct cJSON;

enum { MAP_VALUES = 32, MAP_TEXT_BYTES = 4096 };

/* The map's axes, and profiles as a third one. A model or batch of NULL: the value of the other
 * options. */
struct map {
    const char *models[MAP_VALUES], *batches[MAP_VALUES]; /* in `text` */
    int model_count, batch_count;
    char text[MAP_TEXT_BYTES], profiles[MAP_TEXT_BYTES];
};

/* The result of one box's search. */
struct map_box {
    const char *model, *batch, *profile; /* profile NULL: all boxes have the same one */
    char strategy[STRATEGY_BYTES];       /* "": nothing fits, or no candidate was reached */
    const char *unit;                    /* the unit that its model counts: "token"; NULL: no candidate was reached */
    double units_per_s, peak_bytes;
    bool interrupted; /* the best so far */
    struct rule_results rules;
};

/* Read texts like "model=GPTSmall,GPT13B" and "batch=64,256", or both in one text with a space
 * between them. Errors: DT_ERR_INVALID with one line. */
dt_status map_read(const struct option_list *texts, const struct planner_arguments *arguments, struct map *out);

void map_fill(const struct planner *planner, struct map_box *box);

/* Print a row for each box, and with several profiles whether the best plan is the same with all.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status map_print(const struct map_box *boxes, int count, FILE *to);

/* Add {"model": ..., "global_batch": ..., "profile": ..., "plan": what the plan alone would print}
 * to an array. */
dt_status map_add_json(struct cJSON **array, const struct map_box *box, const struct planner *planner,
                       const struct planner_reasons *reasons);
