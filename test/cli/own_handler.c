/* A library for LD_PRELOAD whose constructor handles SIGHUP, as that of UCX does, which Open MPI 5 loads. */
#include <signal.h>

static void handle(int number)
{
    (void)number;
}

__attribute__((constructor)) static void take(void)
{
    signal(SIGHUP, handle);
}
