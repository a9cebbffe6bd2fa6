/* SIGINT, SIGTERM, and SIGUSR1 (what Slurm's --signal=USR1@120 sends before the time limit): counted, for whoever asks. */
#ifndef CLI_RUN_SIGNALS_H
#define CLI_RUN_SIGNALS_H

/* From here on these signals are counted and end nothing by themselves. */
void signals_install(void);
int signals_count(void);
/* The first that came: its number; 0: none. */
int signals_first(void);

#endif
