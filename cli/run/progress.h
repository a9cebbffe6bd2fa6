/* What a run prints on stderr while it runs: a line for each finished experiment, and on a terminal below them one that is redrawn. */
#ifndef CLI_RUN_PROGRESS_H
#define CLI_RUN_PROGRESS_H

#include <stdbool.h>

struct progress {
    bool live, quiet, drawn;
    int experiments;        /* of the whole run */
    int index;              /* the current one, from 1 */
    char label[192];        /* "ddp, 2 ranks" */
    int steps;              /* warm-up included */
    double tokens_per_step; /* of all ranks */
    int steps_done;
    double drawn_s;          /* when the line was drawn last, dt_clock_s */
    double begun_s, first_s; /* when the current experiment began, and when its first step was done */
    int left;                /* experiments that are not done, the current one among them */
    int ended;               /* experiments that are done */
    double ended_s;          /* what they took */
};

void progress_init(struct progress *progress, int experiments, bool quiet);
/* An experiment begins: the first of `left`. */
void progress_begin_one(struct progress *progress, int left);
void progress_end_one(struct progress *progress);
/* What the line names now: an experiment, or what is done for it. */
void progress_begin(struct progress *progress, int index, const char *label, int steps, double tokens_per_step);
/* What happens before the first step: "starting 2 ranks". */
void progress_phase(struct progress *progress, const char *what);
void progress_step(struct progress *progress, double seconds, double loss);
/* Erase the line, for other output. */
void progress_clear(struct progress *progress);
/* Print one line, unless --quiet. */
void progress_note(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
