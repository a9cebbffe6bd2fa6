#include "cli/words/words.h"

#include "cli/text/text.h"

#include <cjson/cJSON.h>

void remarks_print_kind(const struct dt_translation *t, enum dt_remark kind, const char *label, FILE *to)
{
    for (const struct cJSON *text = t->remarks[kind] ? t->remarks[kind]->child : NULL; text; text = text->next)
        line_print(to, "%-8s  %s", label, text->valuestring);
}

void remarks_print(const struct dt_translation *t, FILE *to)
{
    static const char *const labels[DT_REMARKS] = {[DT_REMARK_READ] = "read",
                                                   [DT_REMARK_ASSUMED] = "assumed",
                                                   [DT_REMARK_ALIKE] = "alike",
                                                   [DT_REMARK_LEFT] = "left out",
                                                   [DT_REMARK_CANNOT] = "unknown"};
    for (int kind = 0; kind < DT_REMARKS; kind++)
        remarks_print_kind(t, (enum dt_remark)kind, labels[kind], to);
}
