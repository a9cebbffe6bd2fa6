#include "lib/base/intern.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right)
{
    return strcmp(left, right);
}

dt_status dt_intern_into(const char **to, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *all; /* tree of tsearch; a node begins with the address of a text */
    *to = "";
    if (!*text)
        return DT_OK;
    pthread_mutex_lock(&lock);
    char **found = tfind(text, &all, compare);
    if (!found) {
        char *copy = strdup(text);
        found = copy ? tsearch(copy, &all, compare) : NULL;
        if (!found)
            free(copy);
    }
    if (found)
        *to = *found;
    pthread_mutex_unlock(&lock);
    return dt_allocated(found, "no memory for a text");
}
