/* More threads than processors: how many there are, and how they have to wait for each other then. */
#ifndef LIB_BASE_CROWDING_H
#define LIB_BASE_CROWDING_H

#include <stdbool.h>

/* Threads of each of `ranks` that share so many processors: as many as are wanted, or, where that is 0, its share, at least 1. */
int dt_threads_of_rank(int wanted, int ranks, int processors);

/* Are they more than the processors, in all? */
bool dt_crowded(int wanted, int ranks, int processors);

/* OpenMP's threads ask again and again whether the others are there. Where there are more threads than processors, they take the processors from
 * those that they wait for. With this variable they sleep. OpenMP reads it once, as a program starts. */
#define DT_WAITING_NAME "OMP_WAIT_POLICY"
#define DT_WAITING_PASSIVE "passive"
/* Has the user set how threads wait, by this variable or another? */
bool dt_waiting_is_set(void);

#endif
