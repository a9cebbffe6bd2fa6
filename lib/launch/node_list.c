#include "lib/launch/node_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names {
    const char *list; /* as it was given, for errors */
    char *lines;
    size_t used, capacity;
    int count, most; /* most: stop well before there are more, asked for or not */
};

static dt_status refuse(const struct names *names, const char *what)
{
    return dt_fail(DT_ERR_INVALID, "the node list \"%s\" %s", names->list, what);
}

static dt_status add_name(struct names *names, const char *name)
{
    size_t bytes = strlen(name);
    if (bytes == 0)
        return DT_OK; /* "a,,b" has two names */
    if (names->count == DT_NODE_LIST_MAX)
        return refuse(names, "has more names than any cluster");
    if (names->used + bytes + 2 > names->capacity) {
        size_t capacity = 2 * names->capacity + bytes + 64;
        char *lines = realloc(names->lines, capacity);
        DT_TRY(dt_allocated(lines, "no memory for the names of %d nodes", names->count));
        names->lines = lines;
        names->capacity = capacity;
    }
    names->used += (size_t)sprintf(names->lines + names->used, "%s%s", names->count ? "\n" : "", name);
    names->count++;
    return DT_OK;
}

static dt_status add_text(struct names *names, char *name, size_t *length, const char *text, size_t bytes)
{
    if (*length + bytes >= DT_NODE_NAME_BYTES)
        return refuse(names, "has a name that is too long");
    memcpy(name + *length, text, bytes);
    *length += bytes;
    name[*length] = 0;
    return DT_OK;
}

/* A number of at most nine digits; how many there are in *digits. */
static bool read_digits(const char **c, int *digits, long *out)
{
    *out = 0;
    for (*digits = 0; **c >= '0' && **c <= '9'; ++*c) {
        if (++*digits > 9)
            return false;
        *out = *out * 10 + (**c - '0');
    }
    return *digits > 0;
}

/* One name, or one pattern of names: name [length] is what stands before `rest`, which ends at `end`. */
static dt_status expand_name(struct names *names, char *name, size_t length, const char *rest, const char *end)
{
    const char *open = memchr(rest, '[', (size_t)(end - rest));
    DT_TRY(add_text(names, name, &length, rest, (size_t)((open ? open : end) - rest)));
    if (!open)
        return add_name(names, name);
    const char *close = memchr(open, ']', (size_t)(end - open)), *c = open;
    do {
        int digits, last_digits;
        long first, last;
        c++;
        if (!read_digits(&c, &digits, &first))
            return refuse(names, "has something other than numbers in a bracket");
        last = first;
        if (*c == '-' && (c++, !read_digits(&c, &last_digits, &last)))
            return refuse(names, "has something other than numbers in a bracket");
        if (last < first)
            return refuse(names, "has a range that runs backwards");
        for (long number = first; number <= last && names->count < names->most; number++) {
            char text[16];
            size_t before = length;
            DT_TRY(add_text(names, name, &before, text, (size_t)snprintf(text, sizeof text, "%0*ld", digits, number)));
            DT_TRY(expand_name(names, name, before, close + 1, end));
            name[length] = 0;
        }
    } while (*c == ',');
    return c == close ? DT_OK : refuse(names, "has something other than numbers in a bracket");
}

/* Commas within brackets belong to the name. NULL: a bracket stays open, or closes none. */
static const char *end_of_name(const char *c)
{
    bool inside = false;
    for (; *c && (inside || *c != ','); c++) {
        if ((*c == '[' && inside) || (*c == ']' && !inside))
            return NULL;
        if (*c == '[' || *c == ']')
            inside = *c == '[';
    }
    return inside ? NULL : c;
}

static dt_status expand(struct names *names)
{
    for (const char *c = names->list; *c && names->count < names->most;) {
        char name[DT_NODE_NAME_BYTES] = "";
        const char *end = end_of_name(c);
        if (!end)
            return refuse(names, "has brackets that do not match");
        DT_TRY(expand_name(names, name, 0, c, end));
        c = end + (*end == ',');
    }
    return DT_OK;
}

dt_status dt_node_list_expand(const char *list, char **out_lines, int *out_count)
{
    struct names names = {.list = list, .most = DT_NODE_LIST_MAX + 1};
    dt_status status = expand(&names);
    if (status < 0) {
        free(names.lines);
        return status;
    }
    if (!names.lines)
        names.lines = strdup("");
    DT_TRY(dt_allocated(names.lines, "no memory for the names of nodes"));
    *out_lines = names.lines;
    *out_count = names.count;
    return DT_OK;
}

dt_status dt_node_list_first(const char *list, char out[DT_NODE_NAME_BYTES])
{
    struct names names = {.list = list, .most = 1};
    dt_status status = expand(&names);
    if (status < 0)
        goto done;
    if (names.count == 0) {
        status = refuse(&names, "names no node");
        goto done;
    }
    snprintf(out, DT_NODE_NAME_BYTES, "%.*s", (int)strcspn(names.lines, "\n"), names.lines);
done:
    free(names.lines);
    return status;
}
