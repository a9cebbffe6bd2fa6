#include "schedules/config/experiment_list.h"

#include "lib/base/grow.h"

#include <stdlib.h>
#include <string.h>

dt_status experiment_list_create(struct experiment_list **out)
{
    *out = calloc(1, sizeof **out);
    return dt_allocated(*out, "no memory for experiments");
}

void experiment_list_destroy(struct experiment_list *list)
{
    free(list ? list->all : NULL);
    free(list);
}

dt_status experiment_list_add(struct experiment_list *list, const struct experiment *e)
{
    DT_TRY(dt_allocated(DT_ROOM(list->all, list->count, list->room), "no memory for %d experiments", list->count + 1));
    memcpy(&list->all[list->count++], e, sizeof *e);
    return DT_OK;
}

void experiment_list_drop(struct experiment_list *list, const bool *dropped)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (!dropped[i])
            memmove(&list->all[kept++], &list->all[i], sizeof *list->all);
    list->count = kept;
}
