#include "cli/text/predictions.h"

#include <stdio.h>
#include <string.h>

/* "clusters/gcp_a2.json" as gcp_a2, another file by its path; once in the list. */
static void add_name(char *list, size_t list_bytes, const char *folder, const char *path)
{
    size_t folder_bytes = strlen(folder), bytes = strlen(path), used = strlen(list);
    const char *name = path;
    if (strncmp(path, folder, folder_bytes) == 0 && bytes > folder_bytes + 5) {
        name += folder_bytes;
        bytes -= folder_bytes + 5;
    }
    for (const char *at = list; *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ",");
        if (length == bytes && strncmp(at, name, bytes) == 0)
            return;
        at += length;
    }
    snprintf(list + used, list_bytes - used, "%s%.*s", used ? ", " : "", (int)bytes, name);
}

void predictions_add(struct predictions *all, const struct experiment *e)
{
    if (!experiment_is_simulated(e)) {
        all->measured++;
        return;
    }
    all->predicted++;
    add_name(all->clusters, sizeof all->clusters, "clusters/", e->cluster);
    add_name(all->profiles, sizeof all->profiles, "profiles/", e->profile);
}

const char *predictions_describe(const struct predictions *all, char text[PREDICTIONS_BYTES])
{
    *text = '\0';
    if (all->predicted > 0)
        snprintf(text, PREDICTIONS_BYTES, "%spredicted, not measured: cluster%s %s, profile%s %s",
                 all->measured > 0 ? "the rows of device sim are " : "", strchr(all->clusters, ',') ? "s" : "", all->clusters,
                 strchr(all->profiles, ',') ? "s" : "", all->profiles);
    return text;
}
