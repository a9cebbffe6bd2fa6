#include "cli/run/signals.h"

#include <signal.h>
#include <string.h>

/* A signal handler is handed nothing, so what it writes has to stand here. */
static volatile sig_atomic_t signal_count, first_signal;

static void on_signal(int number)
{
    if (signal_count == 0)
        first_signal = number;
    signal_count++;
}

void signals_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* without SA_RESTART: whoever waits shall look */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = SIG_IGN; /* a reader that went away (`| head`) is a failed write, said as such */
    sigaction(SIGPIPE, &action, NULL);
}

int signals_count(void)
{
    return signal_count;
}

int signals_first(void)
{
    return first_signal;
}
