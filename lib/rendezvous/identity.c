/* The identity that a rank sends, and names of places and ranks in messages. */
#include "lib/record/record.h"
#include "lib/rendezvous/internal.h"

#include <stdio.h>
#include <string.h>

void dt_rendezvous_build_name(char out[DT_BUILD_BYTES])
{
    memset(out, 0, DT_BUILD_BYTES);
    snprintf(out, DT_BUILD_BYTES, "%.20s %.20s", dt_version(), dt_git_commit());
}

void dt_rendezvous_place_name(const struct dt_rendezvous_place *place, char *text, size_t text_bytes)
{
    const char *host = place->local ? "this machine's" : place->address;
    if (place->local)
        snprintf(text, text_bytes, "%s port %d", host, place->port);
    else
        snprintf(text, text_bytes, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, place->port);
}

void dt_rendezvous_name_ranks(const bool *chosen, int count, char *text, size_t text_bytes)
{
    enum { NAMED = 16 };
    int total = 0, named = 0;
    for (int i = 0; i < count; i++)
        total += chosen[i];
    for (int i = 0; i < count && named < NAMED; i++) {
        size_t used = strlen(text);
        if (chosen[i] && used < text_bytes) {
            const char *before = named == total - 1 ? " and " : ", ";
            if (named == 0)
                before = total > 1 ? "ranks " : "rank ";
            snprintf(text + used, text_bytes - used, "%s%d", before, i);
            named++;
        }
    }
    size_t used = strlen(text);
    if (total > named && used < text_bytes)
        snprintf(text + used, text_bytes - used, " and %d more", total - named);
}
