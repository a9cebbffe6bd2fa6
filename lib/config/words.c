#include "lib/config/words.h"

#include "lib/config/internal.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { REMARK_BYTES = 4096, QUOTE_BYTES = 96, NAME_BYTES = 128 };

/* ---- trees by paths ---- */

struct cJSON *dt_json_parent(struct cJSON *tree, const char *path, bool make, const char **last)
{
    for (const char *dot; tree && (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        struct cJSON *child = cJSON_GetObjectItemCaseSensitive(tree, name);
        tree = child || !make ? child : cJSON_AddObjectToObject(tree, name);
    }
    *last = path;
    return cJSON_IsObject(tree) ? tree : NULL;
}

struct cJSON *dt_json_at(const struct cJSON *tree, const char *path)
{
    const char *last;
    const struct cJSON *parent = dt_json_parent((struct cJSON *)tree, path, false, &last);
    struct cJSON *value = cJSON_GetObjectItemCaseSensitive(parent, last);
    return cJSON_IsNull(value) ? NULL : value;
}

static bool is_null(const struct cJSON *tree, const char *path)
{
    const char *last;
    const struct cJSON *parent = dt_json_parent((struct cJSON *)tree, path, false, &last);
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(parent, last));
}

struct cJSON *dt_json_take(struct cJSON *tree, const char *path)
{
    const char *last;
    struct cJSON *parent = dt_json_parent(tree, path, false, &last), *value = cJSON_DetachItemFromObjectCaseSensitive(parent, last);
    if (!cJSON_IsNull(value))
        return value;
    dt_json_destroy(value);
    return NULL;
}

void dt_json_drop(struct cJSON *tree, const char *paths)
{
    char path[NAME_BYTES];
    for (size_t bytes; (bytes = strcspn(paths, " ")) > 0; paths += bytes + strspn(paths + bytes, " ")) {
        snprintf(path, sizeof path, "%.*s", (int)bytes, paths);
        dt_json_destroy(dt_json_take(tree, path));
    }
}

void dt_json_put(struct cJSON *tree, const char *path, struct cJSON *value)
{
    const char *last;
    struct cJSON *parent = dt_json_parent(tree, path, true, &last);
    cJSON_DeleteItemFromObjectCaseSensitive(parent, last);
    if (!value || !parent || !cJSON_AddItemToObject(parent, last, value))
        dt_json_destroy(value);
}

double dt_json_number(const struct cJSON *tree, const char *path, double otherwise)
{
    const struct cJSON *value = dt_json_at(tree, path);
    return cJSON_IsNumber(value) ? value->valuedouble : otherwise;
}

const char *dt_json_text_at(const struct cJSON *tree, const char *path)
{
    const char *text = cJSON_GetStringValue(dt_json_at(tree, path));
    return text ? text : "";
}

void dt_json_put_number(struct cJSON *tree, const char *path, double value)
{
    dt_json_put(tree, path, cJSON_CreateNumber(value));
}

struct cJSON *dt_json_value(const char *text)
{
    struct cJSON *value;
    return dt_json_parse(text, strlen(text), "", &value) == DT_OK ? value : cJSON_CreateString(text);
}

bool dt_json_is(const struct cJSON *value, const char *text)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *other = dt_json_value(text);
    return cJSON_Compare(value, other, true);
}

/* ---- translations ---- */

dt_status dt_translation_init(struct dt_translation *t, const char *origin, struct cJSON *theirs, struct cJSON *ours)
{
    bool complete = true;
    *t = (struct dt_translation){.origin = origin, .theirs = theirs ? theirs : cJSON_CreateObject()};
    t->ours = ours ? ours : cJSON_CreateObject();
    for (int i = 0; i < DT_REMARKS; i++)
        complete &= (t->remarks[i] = dt_json_array()) != NULL;
    if (complete && t->theirs && t->ours)
        return DT_OK;
    dt_translation_finish(t);
    return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the words of %s", origin);
}

void dt_translation_finish(struct dt_translation *t)
{
    dt_json_destroy(t->theirs);
    dt_json_destroy(t->ours);
    for (int i = 0; i < DT_REMARKS; i++)
        dt_json_destroy(t->remarks[i]);
    *t = (struct dt_translation){.origin = NULL};
}

void dt_remark(struct dt_translation *t, enum dt_remark kind, const char *format, ...)
{
    char text[REMARK_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dt_json_append(&t->remarks[kind], dt_json_text(text));
}

const char *dt_first_remark(const struct dt_translation *t, enum dt_remark kind)
{
    return t->remarks[kind] && t->remarks[kind]->child ? t->remarks[kind]->child->valuestring : NULL;
}

void dt_assume_no_more(struct dt_translation *t, const char *setting)
{
    size_t length = strcspn(setting, "=");
    struct cJSON *next, *remark = t->remarks[DT_REMARK_ASSUMED] ? t->remarks[DT_REMARK_ASSUMED]->child : NULL;
    for (; remark; remark = next) {
        next = remark->next;
        if (strncmp(remark->valuestring, setting, length) == 0 && remark->valuestring[length] == ':')
            cJSON_Delete(cJSON_DetachItemViaPointer(t->remarks[DT_REMARK_ASSUMED], remark));
    }
}

/* The pair whose left, or right, value equals this one; NULL: none. */
static const struct dt_word_value *find_value(const struct dt_word *word, const struct cJSON *value, bool ours)
{
    for (const struct dt_word_value *pair = word->values; pair->theirs; pair++)
        if (ours ? pair->ours && dt_json_is(value, pair->ours) : dt_json_is(value, pair->theirs))
            return pair;
    return NULL;
}

/* Remark that the other program has no word for this value. */
static void remark_unknown(const struct dt_word *word, const char *key, const struct cJSON *value, struct dt_translation *t)
{
    char quote[QUOTE_BYTES];
    dt_json_quote(value, quote, sizeof quote);
    dt_remark(t, word->alike ? DT_REMARK_ALIKE : DT_REMARK_CANNOT, "%s: %s%s%s", key, quote, word->why ? "; " : "",
              word->why ? word->why : "");
}

static void read_word(const struct dt_word *word, struct cJSON *value, bool said, struct dt_translation *t)
{
    char quote[QUOTE_BYTES], ours[QUOTE_BYTES];
    const struct dt_word_value *pair = word->values ? find_value(word, value, false) : NULL;
    bool known = !word->values || pair;
    if (!known) {
        remark_unknown(word, word->theirs, value, t);
        pair = word->alike ? word->values : NULL;
    }
    dt_json_quote(value, quote, sizeof quote);
    if (word->values) {
        dt_json_destroy(value);
        value = pair && pair->ours ? dt_json_value(pair->ours) : NULL;
    }
    if (!word->ours || !value) {
        if (said && known)
            dt_remark(t, DT_REMARK_READ, "%s: %s", word->theirs, quote);
        dt_json_destroy(value);
        return;
    }
    bool between = strncmp(word->ours, DT_WORDS_BETWEEN, strlen(DT_WORDS_BETWEEN)) == 0;
    dt_json_quote(value, ours, sizeof ours);
    if (known)
        dt_remark(t, said ? DT_REMARK_READ : DT_REMARK_ASSUMED, "%s: %s%s%s%s%s%s%s", word->theirs, quote, said ? "" : ", the default of ",
                  said ? "" : t->origin, between ? "" : ": ", between ? "" : word->ours, between ? "" : " ", between ? "" : ours);
    dt_json_put(t->ours, word->ours, value);
}

void dt_words_read(const struct dt_word *words, struct dt_translation *t)
{
    for (const struct dt_word *word = words; word->theirs; word++) {
        bool none = word->null_is_none && is_null(t->theirs, word->theirs);
        struct cJSON *value = dt_json_take(t->theirs, word->theirs);
        bool said = value != NULL;
        bool is_alias = !said && word->ours && dt_json_at(t->ours, word->ours);
        if (!said && word->initial && !is_alias && !none)
            value = dt_json_value(word->initial);
        if (value)
            read_word(word, value, said, t);
    }
}

void dt_words_write(const struct dt_word *words, struct dt_translation *t)
{
    for (const struct dt_word *word = words; word->theirs; word++) {
        struct cJSON *value = word->ours ? dt_json_take(t->ours, word->ours) : NULL;
        if (!value)
            continue;
        const struct dt_word_value *pair = word->values ? find_value(word, value, true) : NULL;
        if (word->values && !pair)
            remark_unknown(word, word->ours, value, t);
        if (word->values) {
            dt_json_destroy(value);
            value = pair ? dt_json_value(pair->theirs) : NULL;
        }
        dt_json_put(t->theirs, word->theirs, value);
    }
}
