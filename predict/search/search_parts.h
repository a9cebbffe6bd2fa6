/* A running search: from the bounds of all candidates to the result (search_run.c); which candidate
 * is next, and what is done with it (search_turns.c). */
#pragma once

#include "lib/base/heap.h"
#include "predict/search/search.h"

#include <pthread.h>

/* LEVELS: levels of effort, each with four times the effort of the previous one. Simulations up to
 * LEVEL_OF_FIRST take about ten seconds at most. */
enum { FAMILIES = 4 * PARADIGM_ROOM, LEVELS = 12, LEVEL_OF_FIRST = 4 };

/* How exactly a candidate is examined: each kind is more exact than the one before, and takes
 * longer. */
enum look {
    LOOK_PLAYED, /* a pipeline's order is played (pipeline_play.c) */
    LOOK_SHORT,  /* few micro-batches are recorded (short_form.c) */
    LOOK_WHOLE,  /* the whole experiment is simulated */
};

/* State of the first round for experiments that are alike: one of them is simulated. */
struct family {
    bool opened, busy; /* busy: a thread is simulating one */
    int tries;
    double most_bytes; /* limit of bounds that may be tried: candidates that needed more did not fit */
};

struct prospect {
    double bound_score, score; /* score: NAN before the simulation */
    uint8_t family;            /* from find_family */
    uint8_t level;             /* effort of a simulation: small ones come first */
    uint8_t look;              /* enum look: the next examination */
};

struct search {
    const struct space *space;
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct search_options *options;
    struct search_result *result;
    struct prospect *all;  /* [count] */
    int *order;            /* [count] by level, and in each level by bound; all levels up to LEVEL_OF_FIRST count as one */
    int level_end[LEVELS]; /* ends of levels in `order`; from LEVEL_OF_FIRST on */
    struct short_forms *shorts;
    struct simulated_system *system; /* the base's system */

    pthread_mutex_t lock; /* guards everything below, and the result */
    int bounded;          /* number of candidates that threads have taken to find their bounds */
    struct family first_round[FAMILIES];
    int level, next;          /* next: position in `order` */
    struct dt_heap sharpened; /* candidates with better bounds than those of `order`, which wait for their simulation */
    double worst_kept;        /* score of the last of the `top` best; INFINITY: fewer are known */
    int *kept;                /* [top] the best, in order */
    int kept_count;
    int later[PARADIGM_ROOM], tries[PARADIGM_ROOM]; /* second round: position in `order` */
    bool has_result[PARADIGM_ROOM];
    int simulated;
    double best_units_per_s;
    bool stopped;
    dt_status failure;
    char error[1024];
};

/* The next thing to do with a candidate. */
struct task {
    int index; /* -1: nothing is left */
    enum look look;
    bool opens; /* it belongs to the first round */
};

#define NO_TASK ((struct task){-1, LOOK_WHOLE, false})

/* Whether two simulated candidates differ only in the size of buckets, with equal results: each
 * bucket has one group of layers. */
bool search_are_twins(const struct search *search, int left, int right);

/* For simulations; context: the search. */
bool search_is_stopped(void *context);

/* What to do next; the lock is held. */
struct task search_next(struct search *search);

/* Keep a failure and its message, or that the search was interrupted; the lock is held. */
void search_note_failure(struct search *search, dt_status status);

/* Do it. The lock is held, except during long work. */
void search_do(struct search *search, struct task task);

/* Simulate a few cheap candidates until one has a result, for a search that was stopped before it
 * had any. */
void search_save(struct search *search);
