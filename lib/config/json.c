#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where in the document a value stands: the chain from it to the root. key is NULL in arrays. */
struct place {
    const struct place *parent;
    const char *key;
    int index;
    int depth;
};

struct parser {
    const char *source, *begin, *end, *at;
    char *scratch; /* the string or number being decoded */
    size_t used_bytes, scratch_bytes;
};

static dt_status parse_value(struct parser *p, const struct place *place, cJSON **out);

static size_t write_path(const struct place *place, char *text, size_t text_bytes)
{
    if (!place || !place->parent)
        return 0;
    size_t used = write_path(place->parent, text, text_bytes);
    if (used + 1 >= text_bytes)
        return used;
    int written = place->key ? snprintf(text + used, text_bytes - used, "%s%s", used ? "." : "", place->key)
                             : snprintf(text + used, text_bytes - used, "[%d]", place->index);
    return used + (size_t)written < text_bytes ? used + (size_t)written : text_bytes - 1;
}

__attribute__((format(printf, 4, 5))) static dt_status fail(const struct parser *p, const struct place *place, const char *at,
                                                            const char *format, ...)
{
    char what[256], path[256] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    size_t line = 1;
    const char *line_begin = p->begin;
    for (const char *c = p->begin; c < at; c++) {
        if (*c == '\n') {
            line++;
            line_begin = c + 1;
        }
    }
    write_path(place, path, sizeof path);
    for (char *c = path; *c; c++) /* the text stays one line whatever a key holds */
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
    return dt_fail(DT_ERR_INVALID, "%s:%zu:%zu: %s%s%s", p->source, line, (size_t)(at - line_begin) + 1, path, path[0] ? ": " : "", what);
}

static dt_status no_memory(const struct parser *p)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory while reading", p->source);
}

static void skip_space(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

/* "'x'", or what cannot be shown as such. */
static const char *name_of(const struct parser *p, char text[32])
{
    if (p->at >= p->end)
        return "the end of the file";
    unsigned char c = (unsigned char)*p->at;
    snprintf(text, 32, c > 0x20 && c < 0x7F ? "'%c'" : "byte 0x%02X", c);
    return text;
}

static dt_status put(struct parser *p, unsigned char byte)
{
    if (p->used_bytes + 1 >= p->scratch_bytes) {
        size_t wanted = p->scratch_bytes ? 2 * p->scratch_bytes : 256;
        char *grown = realloc(p->scratch, wanted);
        if (!grown)
            return no_memory(p);
        p->scratch = grown;
        p->scratch_bytes = wanted;
    }
    p->scratch[p->used_bytes++] = (char)byte;
    p->scratch[p->used_bytes] = 0;
    return DT_OK;
}

static dt_status put_code_point(struct parser *p, unsigned code)
{
    if (code < 0x80)
        return put(p, (unsigned char)code);
    if (code < 0x800) {
        DT_TRY(put(p, (unsigned char)(0xC0 | code >> 6)));
    } else {
        if (code < 0x10000) {
            DT_TRY(put(p, (unsigned char)(0xE0 | code >> 12)));
        } else {
            DT_TRY(put(p, (unsigned char)(0xF0 | code >> 18)));
            DT_TRY(put(p, (unsigned char)(0x80 | (code >> 12 & 0x3F))));
        }
        DT_TRY(put(p, (unsigned char)(0x80 | (code >> 6 & 0x3F))));
    }
    return put(p, (unsigned char)(0x80 | (code & 0x3F)));
}

/* Unicode 15, table 3-7: no overlong forms, no surrogates, at most U+10FFFF. */
size_t dt_utf8_bytes(const char *text, const char *end)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t left = (size_t)(end - text), count = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    if (count == 0 || count > left)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return count;
}

static bool read_hex4(struct parser *p, unsigned *out)
{
    if (p->end - p->at < 4)
        return false;
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char c = p->at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return false;
        value = value << 4 | (unsigned)digit;
    }
    p->at += 4;
    *out = value;
    return true;
}

/* After "\u". */
static dt_status parse_unicode_escape(struct parser *p, const struct place *place)
{
    const char *begin = p->at - 2;
    unsigned code, low;
    if (!read_hex4(p, &code))
        return fail(p, place, begin, "\\u takes four hexadecimal digits");
    if (code == 0)
        return fail(p, place, begin, "\\u0000 is not allowed");
    if (code >= 0xDC00 && code <= 0xDFFF)
        return fail(p, place, begin, "\\u%04X is half a surrogate pair", code);
    if (code >= 0xD800 && code <= 0xDBFF) {
        bool paired = p->end - p->at >= 2 && p->at[0] == '\\' && p->at[1] == 'u';
        p->at += paired ? 2 : 0;
        if (!paired || !read_hex4(p, &low) || low < 0xDC00 || low > 0xDFFF)
            return fail(p, place, begin, "\\u%04X is half a surrogate pair", code);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return put_code_point(p, code);
}

/* At the opening quote; the decoded text is in p->scratch. */
static dt_status parse_string(struct parser *p, const struct place *place)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *begin = p->at++;
    p->used_bytes = 0;
    for (;;) {
        if (p->at >= p->end)
            return fail(p, place, begin, "a string is not closed");
        unsigned char c = (unsigned char)*p->at;
        if (c == '"') {
            p->at++;
            break;
        }
        if (c < 0x20)
            return fail(p, place, p->at, "control character 0x%02X in a string; write it as \\u%04X", c, c);
        if (c == '\\') {
            const char *escape = ++p->at < p->end && *p->at ? strchr(escapes, *p->at) : NULL;
            if (p->at < p->end && *p->at == 'u') {
                p->at++;
                DT_TRY(parse_unicode_escape(p, place));
            } else if (escape) {
                p->at++;
                DT_TRY(put(p, (unsigned char)meanings[escape - escapes]));
            } else {
                return fail(p, place, p->at - 1, "a backslash must be followed by one of \" \\ / b f n r t u");
            }
            continue;
        }
        size_t bytes = dt_utf8_bytes(p->at, p->end);
        if (bytes == 0)
            return fail(p, place, p->at, "byte 0x%02X is not valid UTF-8", c);
        for (size_t i = 0; i < bytes; i++)
            DT_TRY(put(p, (unsigned char)*p->at++));
    }
    /* An empty string has put nothing. */
    DT_TRY(put(p, 0));
    p->used_bytes--;
    return DT_OK;
}

static bool digit_at(const struct parser *p)
{
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

static void skip_digits(struct parser *p)
{
    while (digit_at(p))
        p->at++;
}

static dt_status parse_number(struct parser *p, const struct place *place, cJSON **out)
{
    const char *begin = p->at;
    char name[32];
    if (*p->at == '-')
        p->at++;
    if (!digit_at(p))
        return fail(p, place, p->at, "a digit must follow the minus sign");
    if (*p->at == '0') {
        p->at++;
        if (digit_at(p))
            return fail(p, place, begin, "a number must not begin with a zero");
    } else {
        skip_digits(p);
    }
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        if (!digit_at(p))
            return fail(p, place, p->at, "a digit must follow the decimal point");
        skip_digits(p);
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-'))
            p->at++;
        if (!digit_at(p))
            return fail(p, place, p->at, "a digit must follow the exponent's sign");
        skip_digits(p);
    }
    if (p->at < p->end && !strchr(" \t\r\n,]}", *p->at))
        return fail(p, place, p->at, "unexpected %s after a number", name_of(p, name));
    p->used_bytes = 0;
    for (const char *c = begin; c < p->at; c++)
        DT_TRY(put(p, (unsigned char)*c));
    double value = strtod(p->scratch, NULL);
    if (isinf(value))
        return fail(p, place, begin, "%.40s is too large for a number", p->scratch);
    *out = cJSON_CreateNumber(value);
    return *out ? DT_OK : no_memory(p);
}

static dt_status parse_array(struct parser *p, const struct place *place, cJSON **out)
{
    char name[32];
    const char *begin = p->at++;
    cJSON *array = cJSON_CreateArray();
    if (!array)
        return no_memory(p);
    struct place inner = {.parent = place, .depth = place->depth + 1};
    dt_status status = DT_OK;
    skip_space(p);
    if (p->at < p->end && *p->at == ']') {
        p->at++;
        *out = array;
        return DT_OK;
    }
    for (;; inner.index++) {
        cJSON *item;
        status = parse_value(p, &inner, &item);
        if (status < 0)
            break;
        cJSON_AddItemToArray(array, item); /* cannot fail: both exist */
        skip_space(p);
        if (p->at < p->end && *p->at == ',') {
            p->at++;
            continue;
        }
        if (p->at < p->end && *p->at == ']') {
            p->at++;
            *out = array;
            return DT_OK;
        }
        status = p->at >= p->end ? fail(p, place, begin, "a list is not closed")
                                 : fail(p, &inner, p->at, "',' or ']' must follow here, not %s", name_of(p, name));
        break;
    }
    cJSON_Delete(array);
    return status;
}

/* One "key": value, added to `object`. */
static dt_status parse_member(struct parser *p, const struct place *place, cJSON *object)
{
    char name[32];
    if (p->at >= p->end || *p->at != '"')
        return fail(p, place, p->at, "a key in double quotes must stand here, not %s", name_of(p, name));
    const char *begin = p->at;
    DT_TRY(parse_string(p, place));
    struct place inner = {.parent = place, .key = p->scratch, .depth = place->depth + 1};
    int keys = 0;
    for (const cJSON *other = object->child; other; other = other->next, keys++)
        if (strcmp(other->string, p->scratch) == 0)
            return fail(p, &inner, begin, "this key is given twice");
    if (keys >= DT_JSON_MAX_KEYS)
        return fail(p, place, begin, "more than %d keys in one object", DT_JSON_MAX_KEYS);
    skip_space(p);
    if (p->at >= p->end || *p->at != ':')
        return fail(p, &inner, p->at, "':' must follow the key, not %s", name_of(p, name));
    p->at++;

    char *key = strdup(p->scratch); /* the value needs the scratch */
    if (!key)
        return no_memory(p);
    inner.key = key;
    cJSON *value;
    dt_status status = parse_value(p, &inner, &value);
    if (status == DT_OK && !cJSON_AddItemToObject(object, key, value)) {
        cJSON_Delete(value);
        status = no_memory(p);
    }
    free(key);
    return status;
}

static dt_status parse_object(struct parser *p, const struct place *place, cJSON **out)
{
    char name[32];
    const char *begin = p->at++;
    cJSON *object = cJSON_CreateObject();
    if (!object)
        return no_memory(p);
    dt_status status = DT_OK;
    skip_space(p);
    bool empty = p->at < p->end && *p->at == '}';
    while (!empty) {
        skip_space(p);
        status = p->at >= p->end ? fail(p, place, begin, "an object is not closed") : parse_member(p, place, object);
        if (status < 0)
            goto fail;
        skip_space(p);
        if (p->at >= p->end || (*p->at != ',' && *p->at != '}')) {
            status = p->at >= p->end ? fail(p, place, begin, "an object is not closed")
                                     : fail(p, place, p->at, "',' or '}' must follow here, not %s", name_of(p, name));
            goto fail;
        }
        if (*p->at == '}')
            break;
        p->at++;
    }
    p->at++;
    *out = object;
    return DT_OK;
fail:
    cJSON_Delete(object);
    return status;
}

static bool take_word(struct parser *p, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(p->end - p->at) < bytes || memcmp(p->at, word, bytes) != 0)
        return false;
    p->at += bytes;
    return true;
}

/* Anything that begins no value: say what the writer may have meant. */
static dt_status fail_value(const struct parser *p, const struct place *place)
{
    char name[32];
    const char *hint = "";
    if (p->at < p->end) {
        switch (*p->at) {
        case '/':
        case '#': hint = " (JSON has no comments)"; break;
        case '\'': hint = " (strings take double quotes)"; break;
        case '+': hint = " (numbers take no plus sign)"; break;
        case '.': hint = " (a number begins with a digit)"; break;
        case 'N':
        case 'I':
        case 'n':
        case 'i': hint = " (NaN and Infinity are not JSON; nothing is null)"; break;
        case 'T':
        case 'F':
        case 't':
        case 'f': hint = " (the words are true and false)"; break;
        case ']':
        case '}': hint = " (no comma before it)"; break;
        default: break;
        }
    }
    return fail(p, place, p->at, "a value must stand here, not %s%s", name_of(p, name), hint);
}

static dt_status parse_value(struct parser *p, const struct place *place, cJSON **out)
{
    *out = NULL;
    skip_space(p);
    if (p->at >= p->end)
        return fail_value(p, place);
    char c = *p->at;
    if ((c == '{' || c == '[') && place->depth >= DT_JSON_MAX_DEPTH)
        return fail(p, place, p->at, "nested deeper than %d levels", DT_JSON_MAX_DEPTH);
    if (c == '{')
        return parse_object(p, place, out);
    if (c == '[')
        return parse_array(p, place, out);
    if (c == '-' || (c >= '0' && c <= '9'))
        return parse_number(p, place, out);
    if (c == '"') {
        DT_TRY(parse_string(p, place));
        *out = cJSON_CreateString(p->scratch);
    } else if (take_word(p, "true")) {
        *out = cJSON_CreateTrue();
    } else if (take_word(p, "false")) {
        *out = cJSON_CreateFalse();
    } else if (take_word(p, "null")) {
        *out = cJSON_CreateNull();
    } else {
        return fail_value(p, place);
    }
    return *out ? DT_OK : no_memory(p);
}

dt_status dt_json_parse(const char *text, size_t length, const char *source, struct cJSON **out)
{
    struct parser p = {.source = source, .begin = text, .end = text + length, .at = text};
    struct place root = {.parent = NULL};
    char name[32];
    *out = NULL;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return fail(&p, &root, text, "the file begins with a byte order mark; save it as plain UTF-8");
    skip_space(&p);
    if (p.at >= p.end)
        return dt_fail(DT_ERR_INVALID, "%s: empty; expected a JSON value", source);
    cJSON *value;
    dt_status status = parse_value(&p, &root, &value);
    if (status == DT_OK) {
        skip_space(&p);
        if (p.at < p.end) {
            status = fail(&p, &root, p.at, "unexpected %s after the end of the value", name_of(&p, name));
            cJSON_Delete(value);
        } else {
            *out = value;
        }
    }
    free(p.scratch);
    return status;
}

void dt_json_destroy(struct cJSON *value)
{
    cJSON_Delete(value);
}
