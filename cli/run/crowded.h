/* More threads than processors: what is done about it before the first step, and what is said. */
#ifndef CLI_RUN_CROWDED_H
#define CLI_RUN_CROWDED_H

#include "cli/run/sweep.h"

/* Ranks that a launcher has started begin anew where an experiment has more threads than processors, with threads that sleep while they wait
 * (lib/base/machine.h); ranks that dtbench starts are started so. Returns where there is no need, or it cannot be: the user has set how threads
 * wait, or the config came over standard input. argv: of the command. */
void crowded_begin_anew(const struct sweep *sweep, const char *config, char **argv);

/* A line on standard error about the first experiment that it concerns. */
void crowded_note(const struct sweep *sweep);

#endif
