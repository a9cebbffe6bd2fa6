/* A search while it runs (search.h): bounds of all candidates (search_bounds.c), which is next (search_next.c), and what is done about it
 * (search_look.c). */
#ifndef SCHEDULES_SEARCH_SEARCH_PARTS_H
#define SCHEDULES_SEARCH_SEARCH_PARTS_H

#include "lib/sim/heap.h"
#include "schedules/search/search.h"
#include "schedules/search/short_form.h"

#include <pthread.h>

enum { FAMILIES = 4 * PARADIGM_COUNT };

/* How closely a candidate is looked at: each tells more than the one before, and takes longer. */
enum look {
    LOOK_PLAYED, /* a pipeline's order is played (pipeline_fill.h) */
    LOOK_SHORT,  /* a simulation of few micro-batches (short_form.h) */
    LOOK_WHOLE,  /* of all */
};

struct search {
    const struct space *space;
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct search_options *options;
    struct search_result *result;
    double *bound_scores, *scores; /* [count]; scores: NAN before the simulation */
    int *order;                    /* [count] by bound */
    uint8_t *families;             /* [count] of find_family */
    uint8_t *looks;                /* [count] enum look: which is next */
    struct short_forms *shorts;
    struct simulated_system *system; /* of the base */
    struct recordings *recordings;   /* the caller's, or own_recordings */
    struct recordings *own_recordings;
    int openings[FAMILIES]; /* [opening_count] the candidates of the first round */
    int opening_count;

    pthread_mutex_t lock;         /* of all below, and of the result */
    int bounded;                  /* so many have been given to a thread for their bounds */
    int opening;                  /* where the first round is */
    int next;                     /* of the order */
    struct dt_sim_heap sharpened; /* candidates by better bounds than those of the order, that wait for their simulation */
    double worst_kept;            /* score of the last of the `top` best; INFINITY: fewer are known */
    double *kept;                 /* [top] their scores, ascending */
    int kept_count;
    int later[PARADIGM_COUNT], tries[PARADIGM_COUNT]; /* of the second round: where it is in the order */
    bool has_result[PARADIGM_COUNT];
    int simulated;
    double best_tokens_per_s;
    bool stopped;
    dt_status failure;
    char error[1024];
};

/* A candidate to do something about. */
struct task {
    int index; /* -1: nothing is left to do */
    enum look look;
};

#define NO_TASK ((struct task){-1, LOOK_WHOLE})

/* Whether a candidate may still be looked at: it fits as far as is known, and nobody has taken it. */
bool search_is_open(const struct search *search, int index);

/* Bounds of all candidates, on all threads; those of a search that is stopped are some of all kinds. Errors: as bounds_find. */
dt_status search_find_bounds(struct search *search);

/* What a simulation of it takes, in passes of a micro-batch through a block: of each rank that is there (schedules/predict/symmetry.h). */
double search_effort(const struct search *search, const struct experiment *experiment);

/* Choose the candidates of the first round; the order is known. */
void search_choose_openings(struct search *search);

/* For short_forms_create and simulations; context: the search. */
bool search_is_stopped(void *context);

/* What to do next; the lock is held. */
struct task search_next(struct search *search);

/* Do it: e is room for its experiment. The lock is held, but for what takes long. */
void search_do(struct search *search, struct task task, struct experiment *e);

/* Simulate a few that take little, until one has a result, for a search that was stopped before any had. */
void search_save(struct search *search, struct experiment *e);

#endif
