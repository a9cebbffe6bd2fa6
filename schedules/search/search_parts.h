/* A search while it runs (search.h): which candidate is next (search_next.c), and what is done about it (search_look.c). */
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

    pthread_mutex_t lock;         /* of all below, and of the result */
    int opening;                  /* of the order: where the first round is */
    bool opened[FAMILIES];        /* one of the family is simulated, or about to be */
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

/* For short_forms_create and simulations; context: the search. */
bool search_is_stopped(void *context);

/* What to do next; the lock is held. */
struct task search_next(struct search *search);

/* Do it: e is room for its experiment. The lock is held, but for what takes long. */
void search_do(struct search *search, struct task task, struct experiment *e);

#endif
