#include "lib/config/json.h"

#include "lib/base/grow.h"
#include "lib/base/text.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIT_BYTES = 140 }; /* a line of DT_JSON_FIT has fewer, so that a comma still fits */

/* A text that grows; after a failed allocation nothing more is written. */
struct text {
    char *data;
    size_t used, size;
    bool failed;
};

static void put_bytes(struct text *t, const char *bytes, size_t count)
{
    t->failed = t->failed || !DT_ROOM_FOR(t->data, t->used, t->size, count + 1);
    if (t->failed)
        return;
    memcpy(t->data + t->used, bytes, count);
    t->used += count;
    t->data[t->used] = 0;
}

static void put_text(struct text *t, const char *string)
{
    put_bytes(t, string, strlen(string));
}

static void put_line_break(struct text *t, int style, int depth)
{
    if (!(style & DT_JSON_INDENT))
        return;
    put_text(t, "\n");
    for (int i = 0; i < depth; i++)
        put_text(t, "  ");
}

static void put_string(struct text *t, const char *string)
{
    const char *end = string + strlen(string);
    put_text(t, "\"");
    for (const char *c = string; c < end;) {
        char escape[8];
        size_t bytes = dt_utf8_bytes(c, end);
        switch (*c) {
        case '"': put_text(t, "\\\""); break;
        case '\\': put_text(t, "\\\\"); break;
        case '\n': put_text(t, "\\n"); break;
        case '\r': put_text(t, "\\r"); break;
        case '\t': put_text(t, "\\t"); break;
        default:
            if (bytes == 0) {
                put_text(t, "\xEF\xBF\xBD");
            } else if (bytes == 1 && *c < 0x20) {
                snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*c);
                put_text(t, escape);
            } else {
                put_bytes(t, c, bytes);
            }
        }
        c += bytes ? bytes : 1;
    }
    put_text(t, "\"");
}

static int by_key(const void *left, const void *right)
{
    const cJSON *const *a = left, *const *b = right;
    return strcmp((*a)->string, (*b)->string);
}

/* Bytes of the current line. */
static size_t line_bytes(const struct text *t)
{
    size_t begin = t->used;
    while (begin > 0 && t->data[begin - 1] != '\n')
        begin--;
    return t->used - begin;
}

static bool is_tree(const cJSON *value)
{
    return cJSON_IsObject(value) || cJSON_IsArray(value);
}

static void put_value(struct text *t, const cJSON *value, int style, int depth);

/* DT_JSON_FIT: a value longer than a line is broken at its members; a list of plain values is
 * broken when a line is full. */
static void put_broken(struct text *t, const cJSON *parent, int depth)
{
    bool object = cJSON_IsObject(parent);
    put_text(t, object ? "{" : "[");
    for (const cJSON *child = parent->child; child; child = child->next) {
        size_t before = t->used;
        if (child != parent->child && !object && !is_tree(child)) {
            put_text(t, ", ");
            put_value(t, child, DT_JSON_FIT, depth + 1);
            if (t->failed || line_bytes(t) < FIT_BYTES)
                continue;
            t->used = before;
        }
        put_text(t, child == parent->child ? "" : ",");
        put_line_break(t, DT_JSON_INDENT, depth + 1);
        if (object) {
            put_string(t, child->string);
            put_text(t, ": ");
        }
        put_value(t, child, DT_JSON_FIT, depth + 1);
    }
    put_line_break(t, DT_JSON_INDENT, depth);
    put_text(t, object ? "}" : "]");
}

/* DT_JSON_FIT: on one line if it fits. */
static void put_fitting(struct text *t, const cJSON *value, int depth)
{
    size_t before = t->used;
    put_value(t, value, DT_JSON_SPACED, depth);
    if (t->failed || line_bytes(t) < FIT_BYTES || !is_tree(value) || !value->child)
        return;
    t->used = before;
    put_broken(t, value, depth);
}

static void put_children(struct text *t, const cJSON *parent, int style, int depth)
{
    bool object = cJSON_IsObject(parent);
    int count = 0;
    for (const cJSON *child = parent->child; child; child = child->next)
        count++;
    DT_FREED const cJSON **children = malloc((size_t)(count ? count : 1) * sizeof *children);
    if (!children) {
        t->failed = true;
        return;
    }
    count = 0;
    for (const cJSON *child = parent->child; child; child = child->next)
        children[count++] = child;
    if (object && style & DT_JSON_SORTED)
        qsort(children, (size_t)count, sizeof *children, by_key);

    put_text(t, object ? "{" : "[");
    for (int i = 0; i < count; i++) {
        if (i > 0)
            put_text(t, style & DT_JSON_SPACED || (!object && style & DT_JSON_INDENT) ? ", " : ",");
        if (object) { /* lists stay on one line: they are short, or numbers */
            put_line_break(t, style, depth + 1);
            put_string(t, children[i]->string);
            put_text(t, style & (DT_JSON_INDENT | DT_JSON_SPACED) ? ": " : ":");
        }
        put_value(t, children[i], style, depth + 1);
    }
    if (object && count > 0)
        put_line_break(t, style, depth);
    put_text(t, object ? "}" : "]");
}

static void put_value(struct text *t, const cJSON *value, int style, int depth)
{
    char number[32];
    if (style == DT_JSON_FIT) {
        put_fitting(t, value, depth);
    } else if (is_tree(value)) {
        put_children(t, value, style, depth);
    } else if (cJSON_IsString(value)) {
        put_string(t, value->valuestring);
    } else if (cJSON_IsNumber(value) && isfinite(value->valuedouble)) {
        dt_format_double(value->valuedouble, number, sizeof number);
        put_text(t, number);
    } else {
        put_text(t, cJSON_IsTrue(value) ? "true" : cJSON_IsFalse(value) ? "false" : "null");
    }
}

dt_status dt_json_print(const struct cJSON *value, int style, char **out_text)
{
    struct text t = {0};
    put_value(&t, value, style, 0);
    if (t.failed)
        free(t.data);
    *out_text = t.failed ? NULL : t.data;
    return dt_allocated(!t.failed, "out of memory while writing JSON");
}

void dt_format_double(double value, char *text, size_t text_bytes)
{
    if (value == 0) { /* the sign of zero is not kept */
        snprintf(text, text_bytes, "0");
    } else if (fabs(value) < 0x1p53 && value == floor(value)) {
        snprintf(text, text_bytes, "%.0f", value);
    } else {
        /* If 15 digits are not enough, fewer digits are not either. */
        snprintf(text, text_bytes, "%.15g", value);
        for (int digits = strtod(text, NULL) == value ? 1 : 16; digits <= 17; digits++) {
            snprintf(text, text_bytes, "%.*g", digits, value);
            if (strtod(text, NULL) == value)
                return;
        }
    }
}

void dt_format_float(float value, char *text, size_t text_bytes)
{
    if (value == 0) {
        snprintf(text, text_bytes, "0");
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, text_bytes, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            return;
    }
}

void dt_json_quote(const struct cJSON *value, char *text, size_t text_bytes)
{
    DT_FREED char *whole = NULL;
    if (dt_json_print(value, DT_JSON_COMPACT, &whole) < 0) {
        snprintf(text, text_bytes, "?");
        return;
    }
    size_t length = strlen(whole);
    if (length < text_bytes) {
        memcpy(text, whole, length + 1);
    } else {
        size_t kept = text_bytes - 4;
        while (kept > 0 && ((unsigned char)whole[kept] & 0xC0) == 0x80) /* do not cut a character */
            kept--;
        memcpy(text, whole, kept);
        memcpy(text + kept, "...", 4);
    }
}

uint64_t dt_hash_fnv1a_more(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ b[i]) * 0x100000001B3u;
    return hash;
}

uint64_t dt_hash_fnv1a(const void *bytes, size_t count)
{
    return dt_hash_fnv1a_more(0xCBF29CE484222325u, bytes, count);
}
