#include "lib/base/crowding.h"

#include <stdlib.h>

int dt_threads_of_rank(int wanted, int ranks, int processors)
{
    int share = processors / ranks;
    return wanted > 0 ? wanted : share > 0 ? share : 1;
}

bool dt_crowded(int wanted, int ranks, int processors)
{
    return (long)ranks * dt_threads_of_rank(wanted, ranks, processors) > processors;
}

bool dt_waiting_is_set(void)
{
    static const char *const names[] = {DT_WAITING_NAME, "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            return true;
    return false;
}
