/* The best candidates of a space, found without simulating all of them.
 *
 * First the best bound of each paradigm is simulated, with and without a pipeline and tensor groups. Then candidates are taken in the order of
 * their bounds (bounds.h), and come back with better ones: a pipeline's order is played with the times of its passes (pipeline_fill.h), and
 * of many micro-batches few are simulated (short_form.h). What cannot fit is left out; the others are simulated, each on one thread, until the bound of the next one is worse than the `top` best results: no later one can be among them.
 * So the result is that of simulating everything. Of each paradigm that has no result by then a few more are tried, so that what it would give, or why it does not fit, can be
 * told. */
#ifndef SCHEDULES_SEARCH_SEARCH_H
#define SCHEDULES_SEARCH_SEARCH_H

#include "schedules/run/measure.h"
#include "schedules/search/bounds.h"
#include "schedules/search/score.h"
#include "schedules/search/space.h"

enum search_state {
    SEARCH_NOT_NEEDED, /* its bound is worse than the results */
    SEARCH_TOO_LARGE,  /* by its bound */
    SEARCH_OUT_OF_MEMORY,
    SEARCH_SIMULATED,
    SEARCH_TOO_SLOW, /* below the floor, simulated or by its bound */
    SEARCH_STATES
};

enum { SEARCH_SHORT_BYTES = 160 };

struct search_outcome {
    struct bound bound;
    uint8_t state, paradigm;
    uint64_t kind;               /* the same in candidates of one paradigm and one shape of the mesh */
    double step_s, tokens_per_s; /* NAN: not simulated */
    double peak_bytes, host_peak_bytes;
    struct dt_step_metrics step; /* the simulated step's phases */
};

struct search_progress {
    int count, done; /* candidates: all, and those that are decided */
    int simulated;
    double best_tokens_per_s; /* NAN: none yet */
};

struct search_options {
    enum search_objective objective;
    int top;
    bool diverse;                  /* the best of each of `top` kinds are wanted, and not the `top` best, which may be of one kind */
    double floor_tokens_per_s;     /* what is slower is left out; 0 or NAN: nothing is */
    struct recordings *recordings; /* kept from search to search of one base model and machine's kernels (recordings.h); NULL: not kept */
    int threads;                   /* 0: as many as processors may be used */
    bool all_simulated;            /* no bound leaves anything out: for tests */
    bool only_best;                /* nothing is tried for the sake of paradigms that are not among the best */
    double better_than;            /* a score (search_score): what is not lower is of no interest; 0: everything is */
    /* Whether a candidate belongs to what is searched. NULL: all do */
    bool (*wanted)(const void *what, const struct experiment *experiment);
    const void *what;
    void *context;
    bool (*stop)(void *context);                                             /* NULL: never */
    void (*progress)(void *context, const struct search_progress *progress); /* after each candidate; one thread at a time. NULL */
    /* What became of a candidate that was simulated or ran out of memory by its exact bytes; one thread at a time. NULL */
    void (*done)(void *context, const struct experiment *experiment, dt_status status, const char *error,
                 const struct measure_result *result);
};

struct search_result {
    struct search_outcome *outcomes; /* [count] as in the space */
    int count;
    int *ranking; /* [ranked] simulated candidates, the best first; one of those that differ in buckets alone and in no prediction */
    int ranked;
    int kinds; /* diverse: so many at the beginning are the best of their kinds, and all others follow in their order; else = ranked */
    int states[SEARCH_STATES]; /* how many candidates have each */
    bool interrupted;
    bool best_proved;      /* nothing that was not simulated can be better than the first, though the search may have been stopped */
    double capacity_bytes; /* of a GPU, for tensors */
    double least_bytes[PARADIGM_ROOM]; /* of a paradigm of which nothing fits: what its smallest candidate needs; 0: otherwise */
    char short_of[PARADIGM_ROOM][SEARCH_SHORT_BYTES]; /* what that one lacks where it is not its GPU's memory; "": nothing */
    double seconds;
};

/* Owner of *out: the caller, search_result_finish, also after a failure. Interrupted by `stop` it returns DT_OK with what was found.
 * Errors: DT_ERR_HOST_MEMORY, and the simulator's own failures, of the first candidate that has one. */
dt_status search_run(const struct space *space, const struct experiment *base, const struct simulated_machine *machine,
                     const struct search_options *options, struct search_result *out);
void search_result_finish(struct search_result *result); /* takes a zeroed one */

#endif
