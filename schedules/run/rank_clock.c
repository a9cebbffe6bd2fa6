#include "schedules/run/rank_clock.h"

#include "lib/base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

dt_status rank_clock_read(struct dt_comm *world, struct rank_clock *out)
{
    size_t size = (size_t)dt_comm_size(world);
    int64_t *all = calloc(size, sizeof *all); /* nobody reads it */
    dt_status status = all ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the clocks of %zu ranks", size);
    *out = (struct rank_clock){0};
    gethostname(out->host, sizeof out->host - 1);
    for (int i = 0; i < RANK_CLOCK_ROUNDS && status == DT_OK; i++) {
        out->before_ns[i] = dt_clock_ns();
        status = dt_host_all_gather(world, &out->before_ns[i], sizeof *all, all);
        out->after_ns[i] = dt_clock_ns();
    }
    free(all);
    return status;
}

int64_t rank_clock_ahead_ns(const struct rank_clock *first, const struct rank_clock *other, int64_t *error_ns)
{
    int64_t least = INT64_MIN, most = INT64_MAX;
    for (int i = 0; i < RANK_CLOCK_ROUNDS; i++) {
        int64_t at_least = other->before_ns[i] - first->after_ns[i], at_most = other->after_ns[i] - first->before_ns[i];
        least = at_least > least ? at_least : least;
        most = at_most < most ? at_most : most;
    }
    bool one_clock = strcmp(first->host, other->host) == 0 && least <= 0 && most >= 0; /* two hosts may have one name */
    *error_ns = one_clock ? 0 : (most - least + 1) / 2;
    return one_clock ? 0 : least + (most - least) / 2;
}
