/* Texts in a struct: in an array of its own, or interned (lib/base/grow.h) with the address in
 * the struct. */
#include "lib/base/grow.h"
#include "lib/config/internal.h"

#include <string.h>

const char *dt_field_choice(const struct dt_field *field, int index)
{
    if (field->choice)
        return field->choice(index);
    int i = 0;
    while (field->names && i < index && field->names[i])
        i++;
    return field->names && index >= 0 ? field->names[i] : NULL;
}

static bool is_kept(const struct dt_field *field)
{
    return field->kind == DT_FIELD_TEXT || field->kind == DT_FIELD_SETTINGS;
}

const char *dt_field_text(const struct dt_field *field, const void *source)
{
    const char *at = (const char *)source + field->offset, *kept;
    if (!is_kept(field))
        return field->kind == DT_FIELD_STRING ? at : NULL;
    memcpy(&kept, at, sizeof kept);
    return kept ? kept : ""; /* the struct has no defaults yet */
}

static size_t most_bytes(const struct dt_field *field)
{
    return field->kind == DT_FIELD_STRING ? field->size - 1 : DT_FIELD_TEXT_MOST;
}

dt_status dt_config_store_text(const struct dt_field *field, const char *text, const char *label, void *target)
{
    if (strlen(text) > most_bytes(field)) /* a table's size is smaller than its range */
        return dt_fail(DT_ERR_INVALID, "%s: longer than %zu bytes", label, most_bytes(field));
    if (field->kind == DT_FIELD_STRING) {
        if (target)
            memcpy((char *)target + field->offset, text, strlen(text) + 1);
        return DT_OK;
    }
    const char *kept = "";
    DT_TRY(dt_intern_into(&kept, target ? text : ""));
    if (target)
        memcpy((char *)target + field->offset, &kept, sizeof kept);
    return DT_OK;
}
