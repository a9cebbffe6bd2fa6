/* Looking up paths in a table. */
#include "lib/config/parts.h"

#include <stdio.h>
#include <string.h>

void dt_config_join(const char *prefix, const char *key, char path[DT_CONFIG_PATH_BYTES])
{
    int bytes = snprintf(path, DT_CONFIG_PATH_BYTES, "%s%s%s", prefix, *prefix ? "." : "", key);
    if (bytes >= DT_CONFIG_PATH_BYTES)
        path[0] = '?';
}

int dt_config_find(const struct dt_table *table, const char *path)
{
    for (int i = 0; i < table->count; i++) /* of a large sweep asked a million times: most rows differ in their first letter */
        if (table->fields[i].path[0] == path[0] && strcmp(table->fields[i].path, path) == 0)
            return i;
    return -1;
}

bool dt_config_replaces(const struct dt_field *field, const char *path)
{
    for (const char *const *replaced = field->replaces; replaced && *replaced; replaced++) {
        size_t bytes = strlen(*replaced);
        if (strncmp(path, *replaced, bytes) == 0 && (path[bytes] == 0 || path[bytes] == '.'))
            return true;
    }
    return false;
}

bool dt_config_is_object(const struct dt_table *table, const char *path)
{
    size_t bytes = strlen(path);
    for (int i = 0; i < table->count; i++)
        if (bytes == 0 || (strncmp(table->fields[i].path, path, bytes) == 0 && table->fields[i].path[bytes] == '.'))
            return true;
    return false;
}

bool dt_config_next_key(const struct dt_table *table, const char *prefix, int *row, char path[DT_CONFIG_PATH_BYTES])
{
    size_t skip = *prefix ? strlen(prefix) + 1 : 0;
    for (; *row < table->count; ++*row) {
        const char *full = table->fields[*row].path;
        if (skip > 0 && (strncmp(full, prefix, skip - 1) != 0 || full[skip - 1] != '.'))
            continue;
        size_t bytes = skip + strcspn(full + skip, ".");
        snprintf(path, DT_CONFIG_PATH_BYTES, "%.*s", (int)bytes, full);
        while (*row < table->count && strncmp(table->fields[*row].path, path, bytes) == 0 && strchr(".", table->fields[*row].path[bytes]))
            ++*row;
        return true;
    }
    return false;
}

int dt_config_settings_above(const struct dt_table *table, const char *path, const char **out_name)
{
    for (int i = 0; i < table->count; i++) {
        size_t bytes = strlen(table->fields[i].path);
        if (table->fields[i].kind == DT_FIELD_SETTINGS && strncmp(path, table->fields[i].path, bytes) == 0 && path[bytes] == '.') {
            *out_name = path + bytes + 1;
            return i;
        }
    }
    return -1;
}

bool dt_config_is_known(const struct dt_table *table, const char *path)
{
    const char *name;
    return dt_config_find(table, path) >= 0 || dt_config_is_object(table, path) || dt_config_settings_above(table, path, &name) >= 0;
}
