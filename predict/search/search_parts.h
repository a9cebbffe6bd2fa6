/* A search while it runs: from the bounds of all candidates to the result (search_run.c), and which candidate is next and what is done about
 * it (search_turns.c). */
#ifndef PREDICT_SEARCH_SEARCH_PARTS_H
#define PREDICT_SEARCH_SEARCH_PARTS_H

#include "lib/sim/heap.h"
#include "predict/search/search.h"

#include <pthread.h>

/* LEVELS: of effort, each of which has four times as much as the one before. Candidates up to LEVEL_OF_FIRST take about a second at most. */
enum { FAMILIES = 4 * PARADIGM_ROOM, LEVELS = 12, LEVEL_OF_FIRST = 2 };

/* How closely a candidate is looked at: each tells more than the one before, and takes longer. */
enum look {
    LOOK_PLAYED, /* a pipeline's order is played (pipeline_play.c) */
    LOOK_SHORT,  /* a simulation of few micro-batches (short_form.c) */
    LOOK_WHOLE,  /* of all */
};

/* The first round among experiments that are alike: one of them is simulated. */
struct family {
    bool opened, busy; /* busy: a thread is at it */
    int tries;
    double most_bytes; /* bounds of what may be tried: what needed more did not fit */
};

struct prospect {
    double bound_score, score; /* score: NAN before the simulation */
    uint8_t family;            /* of find_family */
    uint8_t level;             /* what a simulation takes: those that take little come first */
    uint8_t look;              /* enum look: which is next */
};

struct search {
    const struct space *space;
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct search_options *options;
    struct search_result *result;
    struct prospect *all;  /* [count] */
    int *order;            /* [count] by level, and in each by bound; up to LEVEL_OF_FIRST all are one */
    int level_end[LEVELS]; /* of the order; from LEVEL_OF_FIRST on */
    struct short_forms *shorts;
    struct simulated_system *system; /* of the base */
    struct recordings *recordings;   /* the caller's, or own_recordings */
    struct recordings *own_recordings;

    pthread_mutex_t lock; /* of all below, and of the result */
    int bounded;          /* the number of candidates that a thread has taken to find their bounds */
    struct family first_round[FAMILIES];
    int level, next;              /* next: of the order */
    struct dt_sim_heap sharpened; /* candidates by better bounds than those of the order, that wait for their simulation */
    double worst_kept;            /* score of the last of the `top` best; INFINITY: fewer are known */
    int *kept;                    /* [top] the best, in order */
    int kept_count;
    int later[PARADIGM_ROOM], tries[PARADIGM_ROOM]; /* of the second round: where it is in the order */
    bool has_result[PARADIGM_ROOM];
    int simulated;
    double best_units_per_s;
    bool stopped;
    dt_status failure;
    char error[1024];
};

/* A candidate to do something about. */
struct task {
    int index; /* -1: nothing is left to do */
    enum look look;
    bool opens; /* of the first round */
};

#define NO_TASK ((struct task){-1, LOOK_WHOLE, false})

/* Whether two simulated candidates differ in the size of buckets alone and nothing shows it: there is one group of layers in each bucket. */
bool search_are_twins(const struct search *search, int left, int right);

/* For short_forms_create and simulations; context: the search. */
bool search_is_stopped(void *context);

/* What to do next; the lock is held. */
struct task search_next(struct search *search);

/* Do it. The lock is held, but for what takes long. */
void search_do(struct search *search, struct task task);

/* Simulate a few that take little, until one has a result, for a search that was stopped before any had. */
void search_save(struct search *search);

#endif
