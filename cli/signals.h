/* SIGINT and SIGTERM: counted, for whoever asks. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

/* From here on the two signals are counted and end nothing by themselves. */
void signals_install(void);
int signals_count(void);
/* The first that came: SIGINT or SIGTERM; 0: none. */
int signals_first(void);

#endif
