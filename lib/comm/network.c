/* What several ranks know of their connections, as one. */
#include "lib/comm/comm.h"

#include <string.h>

void dt_comm_network_add_word(char *list, size_t list_bytes, const char *word, size_t length)
{
    size_t used = strlen(list);
    for (const char *at = list; *at;) {
        size_t bytes = strcspn(at, ",");
        if (bytes == length && strncmp(at, word, length) == 0)
            return;
        at += bytes;
        at += strspn(at, ", ");
    }
    if (length > 0 && used + 2 + length < list_bytes)
        snprintf(list + used, list_bytes - used, "%s%.*s", used ? ", " : "", (int)length, word);
}

static void add_words(char *list, size_t list_bytes, const char *words)
{
    for (const char *at = words; *at;) {
        size_t bytes = strcspn(at, ",");
        dt_comm_network_add_word(list, list_bytes, at, bytes);
        at += bytes;
        at += strspn(at, ", ");
    }
}

void dt_comm_network_merge(struct dt_comm_network *all, const struct dt_comm_network *one)
{
    add_words(all->transports, sizeof all->transports, one->transports);
    add_words(all->network, sizeof all->network, one->network);
    add_words(all->cards, sizeof all->cards, one->cards);
    all->direct_channels += one->direct_channels;
    all->staged_channels += one->staged_channels;
    all->registered_bytes = all->registered_bytes > one->registered_bytes ? all->registered_bytes : one->registered_bytes;
}
