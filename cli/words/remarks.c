#include "cli/words/words.h"

#include "cli/text/text.h"

#include <cjson/cJSON.h>

void remarks_print(const struct dt_translation *t, FILE *to)
{
    static const char *const labels[DT_REMARKS] = {[DT_REMARK_READ] = "read",
                                                   [DT_REMARK_ASSUMED] = "assumed",
                                                   [DT_REMARK_ALIKE] = "alike",
                                                   [DT_REMARK_LEFT] = "left out",
                                                   [DT_REMARK_CANNOT] = "unknown"};
    for (int i = 0; i < DT_REMARKS; i++)
        for (const struct cJSON *text = t->remarks[i] ? t->remarks[i]->child : NULL; text; text = text->next)
            line_print(to, "%-8s  %s", labels[i], text->valuestring);
}
