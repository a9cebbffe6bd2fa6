#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rest of a shape, and of its arguments. */
struct shape {
    const char *at;
    va_list arguments;
    bool failed;
};

static void add_members(struct shape *s, cJSON *object);

static cJSON *make_value(struct shape *s)
{
    cJSON *value = NULL;
    if (*s->at == '{') {
        s->at++;
        value = cJSON_CreateObject();
        add_members(s, value);
        s->at++;
        return value;
    }
    switch (*++s->at) { /* after "%" */
    case 's': value = cJSON_CreateString(va_arg(s->arguments, const char *)); break;
    case 'd': value = cJSON_CreateNumber(va_arg(s->arguments, int)); break;
    case 'g': value = cJSON_CreateNumber(va_arg(s->arguments, double)); break;
    case 'h':
        s->at += 2;
        value = cJSON_CreateBool(va_arg(s->arguments, int));
        break;
    case 'p': value = va_arg(s->arguments, cJSON *); break;
    }
    s->at++;
    return value;
}

/* Add members up to the shape's end, or the "}" of this object. After a failure the trees among the
 * arguments are destroyed, too. */
static void add_members(struct shape *s, cJSON *object)
{
    char key[128];
    while (*s->at && *s->at != '}') {
        size_t bytes = strcspn(s->at, ":");
        snprintf(key, sizeof key, "%.*s", (int)bytes, s->at);
        if (strcmp(key, "%s") == 0)
            snprintf(key, sizeof key, "%s", va_arg(s->arguments, const char *));
        s->at += bytes + 1 + strspn(s->at + bytes + 1, " ");
        cJSON *value = make_value(s);
        if (!cJSON_AddItemToObject(object, key, value)) {
            cJSON_Delete(value);
            s->failed = true;
        }
        s->at += strspn(s->at, ", ");
    }
}

/* Owns the object, which may be NULL. */
static cJSON *add_shape(cJSON *object, struct shape *s)
{
    add_members(s, object);
    if (!s->failed)
        return object;
    cJSON_Delete(object);
    return NULL;
}

cJSON *dt_json_object(const char *members, ...)
{
    struct shape s = {.at = members};
    va_start(s.arguments, members);
    cJSON *object = add_shape(cJSON_CreateObject(), &s);
    va_end(s.arguments);
    return object;
}

void dt_json_add(cJSON **object, const char *members, ...)
{
    struct shape s = {.at = members};
    va_start(s.arguments, members);
    *object = add_shape(*object, &s);
    va_end(s.arguments);
}

void dt_json_append(cJSON **array, cJSON *item)
{
    if (cJSON_AddItemToArray(*array, item))
        return;
    cJSON_Delete(item);
    cJSON_Delete(*array);
    *array = NULL;
}

cJSON *dt_json_array(void)
{
    return cJSON_CreateArray();
}

cJSON *dt_json_text(const char *text)
{
    return text ? cJSON_CreateString(text) : cJSON_CreateNull();
}

cJSON *dt_json_known(const char *text)
{
    return dt_json_text(text && *text ? text : NULL);
}

cJSON *dt_json_truth(bool value)
{
    return cJSON_CreateBool(value);
}

cJSON *dt_json_numbers(const double *values, int count)
{
    return count > 0 ? cJSON_CreateDoubleArray(values, count) : cJSON_CreateArray();
}

dt_status dt_json_read_numbers(const cJSON *array, double **out, int *count)
{
    const cJSON *item;
    *count = 0;
    *out = malloc(((size_t)cJSON_GetArraySize(array) + 1) * sizeof **out);
    DT_TRY(dt_allocated(*out, "no host memory for a list of numbers"));
    cJSON_ArrayForEach(item, array)
    {
        (*out)[(*count)++] = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    return DT_OK;
}

cJSON *dt_json_words(const char *text, const char *separator)
{
    cJSON *list = cJSON_CreateArray();
    while (text && *text) {
        char *word = strndup(text, strcspn(text, separator));
        dt_json_append(&list, word ? cJSON_CreateString(word) : NULL);
        free(word);
        text += strcspn(text, separator);
        text += strspn(text, separator);
    }
    return list;
}

dt_status dt_json_write(cJSON *tree, FILE *to)
{
    DT_FREED char *text = NULL;
    DT_DESTROYED(dt_json_destroy) cJSON *own = tree;
    DT_TRY(dt_allocated(own, "no host memory for JSON"));
    DT_TRY(dt_json_print(own, DT_JSON_INDENT, &text));
    fprintf(to, "%s\n", text);
    return DT_OK;
}
