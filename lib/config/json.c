#include "lib/config/json.h"

#include "lib/base/grow.h"
#include "lib/base/text.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The position of a value in the document: the chain from it to the root. key is NULL in lists. */
struct place {
    const struct place *parent;
    const char *key;
    int index;
    int depth;
};

struct parser {
    const char *source, *begin, *end, *at;
    char *decoded; /* [end - begin + 1] the last string or number, NUL-terminated; never longer than its text */
    size_t decoded_bytes;
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
    return dt_fail(DT_ERR_INVALID, "%s:%zu:%zu: %s%s%s", p->source, line, (size_t)(at - line_begin) + 1, path, path[0] ? ": " : "", what);
}

static dt_status no_memory(const struct parser *p)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory while reading", p->source);
}

/* The next byte, EOF at the end. */
static int peek(const struct parser *p)
{
    return p->at < p->end ? (unsigned char)*p->at : EOF;
}

static bool take(struct parser *p, int byte)
{
    bool here = peek(p) == byte;
    p->at += here;
    return here;
}

static void skip_space(struct parser *p)
{
    while (take(p, ' ') || take(p, '\t') || take(p, '\n') || take(p, '\r')) {
    }
}

/* The byte as "'x'", or a description of it. */
static const char *name_of(const struct parser *p, char text[32])
{
    int c = peek(p);
    if (c == EOF)
        return "the end of the file";
    snprintf(text, 32, c > 0x20 && c < 0x7F ? "'%c'" : "byte 0x%02X", (unsigned)c);
    return text;
}

static void put(struct parser *p, unsigned byte)
{
    p->decoded[p->decoded_bytes++] = (char)byte;
}

static void put_code_point(struct parser *p, unsigned code)
{
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3; /* number of bytes after the first */
    put(p, first[more] | code >> 6 * more);
    while (more-- > 0)
        put(p, 0x80 | (code >> 6 * more & 0x3F));
}

static bool read_hex4(struct parser *p, unsigned *out)
{
    char digits[5] = "";
    if (p->end - p->at < 4)
        return false;
    memcpy(digits, p->at, 4);
    p->at += 4;
    *out = (unsigned)strtoul(digits, NULL, 16);
    return strspn(digits, "0123456789abcdefABCDEF") == 4;
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
    if (code >= 0xD800 && code <= 0xDFFF) {
        bool paired = code <= 0xDBFF && take(p, '\\') && take(p, 'u');
        if (!paired || !read_hex4(p, &low) || low < 0xDC00 || low > 0xDFFF)
            return fail(p, place, begin, "\\u%04X is half a surrogate pair", code);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    put_code_point(p, code);
    return DT_OK;
}

/* Parse from the opening quote on; the result is in p->decoded. */
static dt_status parse_string(struct parser *p, const struct place *place)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *begin = p->at++;
    p->decoded_bytes = 0;
    while (!take(p, '"')) {
        int c = peek(p);
        if (c == EOF)
            return fail(p, place, begin, "a string is not closed");
        if (c < 0x20)
            return fail(p, place, p->at, "control character 0x%02X in a string; write it as \\u%04X", (unsigned)c, (unsigned)c);
        if (take(p, '\\')) {
            const char *escape = peek(p) > 0 ? strchr(escapes, peek(p)) : NULL;
            if (take(p, 'u')) {
                DT_TRY(parse_unicode_escape(p, place));
            } else if (escape) {
                p->at++;
                put(p, (unsigned char)meanings[escape - escapes]);
            } else {
                return fail(p, place, p->at - 1, "a backslash must be followed by one of \" \\ / b f n r t u");
            }
            continue;
        }
        size_t bytes = dt_utf8_bytes(p->at, p->end);
        if (bytes == 0)
            return fail(p, place, p->at, "byte 0x%02X is not valid UTF-8", (unsigned)c);
        memcpy(p->decoded + p->decoded_bytes, p->at, bytes);
        p->decoded_bytes += bytes;
        p->at += bytes;
    }
    p->decoded[p->decoded_bytes] = 0;
    return DT_OK;
}

/* False: there are no digits. */
static bool take_digits(struct parser *p)
{
    const char *begin = p->at;
    while (isdigit(peek(p)))
        p->at++;
    return p->at > begin;
}

static dt_status parse_number(struct parser *p, const struct place *place, cJSON **out)
{
    const char *begin = p->at;
    char name[32];
    take(p, '-');
    if (take(p, '0')) {
        if (isdigit(peek(p)))
            return fail(p, place, begin, "a number must not begin with a zero");
    } else if (!take_digits(p)) {
        return fail(p, place, p->at, "a digit must follow the minus sign");
    }
    if (take(p, '.') && !take_digits(p))
        return fail(p, place, p->at, "a digit must follow the decimal point");
    if (take(p, 'e') || take(p, 'E')) {
        if (!take(p, '+'))
            take(p, '-');
        if (!take_digits(p))
            return fail(p, place, p->at, "a digit must follow the exponent's sign");
    }
    if (p->at < p->end && !strchr(" \t\r\n,]}", *p->at))
        return fail(p, place, p->at, "unexpected %s after a number", name_of(p, name));
    memcpy(p->decoded, begin, (size_t)(p->at - begin));
    p->decoded[p->at - begin] = 0;
    double value = strtod(p->decoded, NULL);
    if (isinf(value))
        return fail(p, place, begin, "%.40s is too large for a number", p->decoded);
    *out = cJSON_CreateNumber(value);
    return *out ? DT_OK : no_memory(p);
}

/* Parse one "key": value, and add it to `object`. */
static dt_status parse_member(struct parser *p, const struct place *place, cJSON *object)
{
    char name[32];
    const char *begin = p->at;
    if (peek(p) != '"')
        return fail(p, place, p->at, "a key in double quotes must stand here, not %s", name_of(p, name));
    DT_TRY(parse_string(p, place));
    struct place inner = {.parent = place, .key = p->decoded, .depth = place->depth + 1};
    int keys = 0;
    for (const cJSON *other = object->child; other; other = other->next, keys++)
        if (strcmp(other->string, p->decoded) == 0)
            return fail(p, &inner, begin, "this key is given twice");
    if (keys >= DT_JSON_MAX_KEYS)
        return fail(p, place, begin, "more than %d keys in one object", DT_JSON_MAX_KEYS);
    skip_space(p);
    if (!take(p, ':'))
        return fail(p, &inner, p->at, "':' must follow the key, not %s", name_of(p, name));

    DT_FREED char *key = strdup(p->decoded); /* the value is decoded to the same place */
    if (!key)
        return no_memory(p);
    inner.key = key;
    cJSON *value;
    dt_status status = parse_value(p, &inner, &value);
    if (status == DT_OK && !cJSON_AddItemToObject(object, key, value)) {
        cJSON_Delete(value);
        status = no_memory(p);
    }
    return status;
}

/* Parse a list or an object, from its opening bracket to the closing one. */
static dt_status parse_members(struct parser *p, const struct place *place, cJSON *parent)
{
    bool object = *p->at == '{';
    const char *begin = p->at++, *open = object ? "an object is not closed" : "a list is not closed";
    char close = object ? '}' : ']', name[32];
    struct place inner = {.parent = place, .depth = place->depth + 1};
    skip_space(p);
    if (take(p, close))
        return DT_OK;
    for (;; inner.index++) {
        skip_space(p);
        if (object && p->at == p->end)
            return fail(p, place, begin, "%s", open);
        if (object) {
            DT_TRY(parse_member(p, place, parent));
        } else {
            cJSON *item;
            DT_TRY(parse_value(p, &inner, &item));
            cJSON_AddItemToArray(parent, item); /* cannot fail: both exist */
        }
        skip_space(p);
        if (take(p, close))
            return DT_OK;
        if (p->at == p->end)
            return fail(p, place, begin, "%s", open);
        if (!take(p, ','))
            return fail(p, object ? place : &inner, p->at, "',' or '%c' must follow here, not %s", close, name_of(p, name));
    }
}

static bool take_word(struct parser *p, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(p->end - p->at) < bytes || memcmp(p->at, word, bytes) != 0)
        return false;
    p->at += bytes;
    return true;
}

/* The error for text that begins no value: say what the user may have meant. */
static dt_status fail_value(const struct parser *p, const struct place *place)
{
    static const struct {
        const char *bytes, *hint;
    } hints[] = {
        {"/#", " (JSON has no comments)"},
        {"'", " (strings take double quotes)"},
        {"+", " (numbers take no plus sign)"},
        {".", " (a number begins with a digit)"},
        {"NIni", " (NaN and Infinity are not JSON; nothing is null)"},
        {"TFtf", " (the words are true and false)"},
        {"]}", " (no comma before it)"},
    };
    char name[32];
    const char *hint = "";
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (peek(p) > 0 && strchr(hints[i].bytes, peek(p)))
            hint = hints[i].hint;
    return fail(p, place, p->at, "a value must stand here, not %s%s", name_of(p, name), hint);
}

static dt_status parse_value(struct parser *p, const struct place *place, cJSON **out)
{
    *out = NULL;
    skip_space(p);
    int c = peek(p);
    if (c == '{' || c == '[') {
        if (place->depth >= DT_JSON_MAX_DEPTH)
            return fail(p, place, p->at, "nested deeper than %d levels", DT_JSON_MAX_DEPTH);
        *out = c == '{' ? cJSON_CreateObject() : cJSON_CreateArray();
        dt_status status = *out ? parse_members(p, place, *out) : no_memory(p);
        if (status < 0) {
            cJSON_Delete(*out);
            *out = NULL;
        }
        return status;
    }
    if (c == '-' || isdigit(c))
        return parse_number(p, place, out);
    if (c == '"') {
        DT_TRY(parse_string(p, place));
        *out = cJSON_CreateString(p->decoded);
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
    if (p.at == p.end)
        return dt_fail(DT_ERR_INVALID, "%s: empty; expected a JSON value", source);
    p.decoded = malloc(length + 1);
    if (!p.decoded)
        return no_memory(&p);
    dt_status status = parse_value(&p, &root, out);
    free(p.decoded);
    skip_space(&p);
    if (status == DT_OK && p.at < p.end) {
        cJSON_Delete(*out);
        *out = NULL;
        return fail(&p, &root, p.at, "unexpected %s after the end of the value", name_of(&p, name));
    }
    return status;
}

void dt_json_destroy(struct cJSON *value)
{
    cJSON_Delete(value);
}

static dt_status read_all(int fd, const char *path, char **text, size_t *used)
{
    size_t size = 0;
    for (;;) {
        if (*used + 1 >= size) {
            size = size ? 2 * size : 16384;
            DT_TRY(dt_allocated(dt_resize(text, size), "%s: out of memory while reading", path));
        }
        ssize_t got = read(fd, *text + *used, size - *used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_fail(DT_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        *used += (size_t)got;
        (*text)[*used] = 0;
        if (got == 0)
            return DT_OK;
        if (*used > DT_JSON_MAX_FILE_BYTES)
            return dt_fail(DT_ERR_INVALID, "%s: larger than %d MiB, which no config needs", path, DT_JSON_MAX_FILE_BYTES >> 20);
    }
}

dt_status dt_read_file(const char *path, char **out_text, size_t *out_length)
{
    bool standard = strcmp(path, "-") == 0;
    DT_FREED char *text = NULL;
    size_t length = 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return dt_fail(DT_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    dt_status status = read_all(fd, path, &text, &length);
    if (!standard)
        close(fd);
    DT_TRY(status);
    *out_text = DT_PASSED_ON(text);
    *out_length = length;
    return DT_OK;
}

dt_status dt_json_read(const char *path, const char *label, struct cJSON **out)
{
    DT_FREED char *text = NULL;
    size_t length;
    *out = NULL;
    DT_TRY(dt_read_file(path, &text, &length));
    return dt_json_parse(text, length, label, out);
}
