#include "schedules/config/experiment_list.h"

#include <stdlib.h>
#include <string.h>

typedef uint32_t word;

/* A word that is not as in the first experiment. */
struct change {
    uint32_t at;
    word value;
};

/* The changes of one experiment. */
struct span {
    size_t begin;
    uint32_t count;
};

struct experiment_list {
    struct experiment first;
    struct change *changes;
    size_t change_count, change_room;
    struct span *spans;
    int count, room;
    struct left_out left_out;
};

enum { WORDS = sizeof(struct experiment) / sizeof(word), BLOCK_WORDS = 32 };
_Static_assert(sizeof(struct experiment) % sizeof(word) == 0, "an experiment is made of words");

dt_status experiment_list_create(struct experiment_list **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no memory for experiments");
}

void experiment_list_destroy(struct experiment_list *list)
{
    if (!list)
        return;
    free(list->changes);
    free(list->spans);
    free(list);
}

/* Room for another experiment with every word changed. */
static dt_status make_room(struct experiment_list *list)
{
    if (list->count == list->room) {
        int room = 2 * list->room + 1;
        struct span *spans = realloc(list->spans, (size_t)room * sizeof *spans);
        if (!spans)
            return dt_fail(DT_ERR_HOST_MEMORY, "no memory for %d experiments", room);
        list->spans = spans;
        list->room = room;
    }
    if (list->change_room - list->change_count < WORDS) {
        size_t room = 2 * list->change_room + WORDS;
        struct change *changes = realloc(list->changes, room * sizeof *changes);
        if (!changes)
            return dt_fail(DT_ERR_HOST_MEMORY, "no memory for %d experiments", list->count + 1);
        list->changes = changes;
        list->change_room = room;
    }
    return DT_OK;
}

/* Most blocks are the same: they are compared as a whole. */
static void add_changes(struct experiment_list *list, const struct experiment *e)
{
    const char *first = (const char *)&list->first, *other = (const char *)e;
    for (uint32_t block = 0; block < WORDS; block += BLOCK_WORDS) {
        uint32_t words = WORDS - block < BLOCK_WORDS ? WORDS - block : BLOCK_WORDS;
        if (memcmp(first + block * sizeof(word), other + block * sizeof(word), words * sizeof(word)) == 0)
            continue;
        for (uint32_t at = block; at < block + words; at++) {
            word old, new;
            memcpy(&old, first + at * sizeof old, sizeof old);
            memcpy(&new, other + at * sizeof new, sizeof new);
            if (new != old)
                list->changes[list->change_count++] = (struct change){at, new};
        }
    }
}

dt_status experiment_list_add(struct experiment_list *list, const struct experiment *e)
{
    DT_TRY(make_room(list));
    if (list->count == 0)
        memcpy(&list->first, e, sizeof list->first);
    size_t begin = list->change_count;
    add_changes(list, e);
    list->spans[list->count++] = (struct span){begin, (uint32_t)(list->change_count - begin)};
    return DT_OK;
}

int experiment_list_count(const struct experiment_list *list)
{
    return list->count;
}

const struct experiment *experiment_list_get(const struct experiment_list *list, int index, struct experiment *out)
{
    const struct span *span = &list->spans[index];
    memcpy(out, &list->first, sizeof *out);
    for (const struct change *c = list->changes + span->begin; c < list->changes + span->begin + span->count; c++)
        memcpy((char *)out + c->at * sizeof c->value, &c->value, sizeof c->value);
    return out;
}

bool experiment_list_same(const struct experiment_list *list, int left, int right)
{
    const struct span *a = &list->spans[left], *b = &list->spans[right];
    return a->count == b->count && memcmp(list->changes + a->begin, list->changes + b->begin, a->count * sizeof *list->changes) == 0;
}

void experiment_list_drop(struct experiment_list *list, const bool *dropped)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (!dropped[i])
            list->spans[kept++] = list->spans[i];
    list->count = kept;
}

void experiment_list_leave_out(struct experiment_list *list, const struct left_out *left_out)
{
    list->left_out = *left_out;
}

const struct left_out *experiment_list_left_out(const struct experiment_list *list)
{
    return &list->left_out;
}
