/* What a rank says of itself, and how places and ranks are named in messages. */
#include "lib/record/provenance.h"
#include "lib/rendezvous/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (const char *c = text ? text : ""; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return (hash ^ 0xff) * UINT64_C(1099511628211);
}

uint64_t dt_rendezvous_job(const struct dt_world *world)
{
    char user[32];
    uint64_t hash = UINT64_C(14695981039346656037);
    snprintf(user, sizeof user, "%ld", (long)getuid());
    hash = hash_text(hash, user);
    hash = hash_text(hash, world->launcher);
    if (strcmp(world->launcher, "srun") == 0)
        return hash_text(hash_text(hash, getenv("SLURM_JOB_ID")), getenv("SLURM_STEP_ID"));
    if (strcmp(world->launcher, "mpirun") == 0)
        return hash_text(hash, getenv("PMIX_NAMESPACE"));
    return hash_text(hash, getenv("TORCHELASTIC_RUN_ID"));
}

void dt_rendezvous_fill_hello(const struct dt_rendezvous_place *place, struct dt_hello *out)
{
    *out = (struct dt_hello){.magic = DT_HELLO_MAGIC, .rank = place->rank, .size = place->size, .job = place->job};
    snprintf(out->build, sizeof out->build, "%.20s %.20s", dt_version(), dt_git_commit());
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
