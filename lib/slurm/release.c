#include "lib/slurm/release.h"

#include <stddef.h>

static const struct dt_slurm_release releases[] = {
    {20, 11, 36}, {21, 8, 37}, {22, 5, 38}, {23, 2, 39}, {23, 11, 40}, {24, 5, 41}, {24, 11, 42}, {25, 5, 43}, {25, 11, 44},
};
enum { RELEASES = sizeof releases / sizeof releases[0] };

const struct dt_slurm_release *dt_slurm_release_of_api(long api)
{
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].api == api)
            return &releases[i];
    return NULL;
}

const struct dt_slurm_release *dt_slurm_release_of_date(int year, int month)
{
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].year == year && releases[i].month == month)
            return &releases[i];
    return NULL;
}
