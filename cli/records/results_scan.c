#include "cli/records/results_store.h"
#include "lib/base/text.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

/* The scanner's position in a line, which ends with a NUL. A line that is not a record ends the
 * scan with DT_ERR_INVALID, without a text: such lines are counted and left out. */
struct scan {
    struct results *results;
    const char *line, *at, *end;
    int depth;
    bool has_config;
    /* Up to `same` this line is equal to the last row's line, which begins `shift` bytes from it in
     * memory. */
    const char *same;
    ptrdiff_t shift;
};

static inline void skip_blanks(struct scan *s)
{
    static const bool blank[256] = {[' '] = true, ['\t'] = true, ['\r'] = true};
    while (blank[(unsigned char)*s->at])
        s->at++;
}

/* Take a string, from its opening quote to after its closing quote. */
static bool take_string(struct scan *s, const char **begin, size_t *bytes, bool *escaped)
{
    static const bool stops[256] = {[0 ... 31] = true, ['"'] = true, ['\\'] = true};
    const char *c = s->at + 1;
    *escaped = false;
    for (;; c++) {
        while (!stops[(unsigned char)*c])
            c++;
        if (*c == '"')
            break;
        *escaped |= *c == '\\';
        if (*c != '\\' || (unsigned char)*++c < ' ')
            return false;
    }
    *begin = s->at + 1;
    *bytes = (size_t)(c - *begin);
    s->at = c + 1;
    return true;
}

/* Skip from an opening bracket to after its closing one. Brackets are counted, not matched by
 * kind. */
static bool skip_brackets(struct scan *s)
{
    static const bool stops[256] = {[0] = true, ['"'] = true, ['{'] = true, ['}'] = true, ['['] = true, [']'] = true};
    const char *begin;
    size_t bytes;
    bool escaped;
    for (int depth = 0;;) {
        while (!stops[(unsigned char)*s->at])
            s->at++;
        if (*s->at == '"') {
            if (!take_string(s, &begin, &bytes, &escaped))
                return false;
            continue;
        }
        if (!*s->at)
            return false;
        depth += *s->at == '{' || *s->at == '[' ? 1 : -1;
        s->at++;
        if (depth == 0)
            return true;
    }
}

/* The bytes of a number or a word. */
static size_t token_bytes(const struct scan *s)
{
    static const bool stops[256] = {[0] = true, [' '] = true, ['\t'] = true, ['\r'] = true, [','] = true, ['}'] = true, [']'] = true};
    const char *c = s->at;
    while (!stops[(unsigned char)*c])
        c++;
    return (size_t)(c - s->at);
}

static bool skip_value(struct scan *s)
{
    const char *begin;
    size_t bytes;
    bool escaped;
    if (*s->at == '"')
        return take_string(s, &begin, &bytes, &escaped);
    if (*s->at == '{' || *s->at == '[')
        return skip_brackets(s);
    bytes = token_bytes(s);
    s->at += bytes;
    return bytes > 0;
}

static dt_status take_value(struct scan *s, int column);

/* Put a text with escapes, decoded as JSON. */
static dt_status put_escaped(struct results *r, int column, const char *quoted, size_t bytes)
{
    DT_DESTROYED(dt_json_destroy) cJSON *value = NULL;
    uint32_t text;
    DT_TRY(dt_json_parse(quoted, bytes, "", &value));
    const char *characters = cJSON_IsString(value) ? value->valuestring : "";
    dt_status status = results_intern(r, characters, strlen(characters), RESULT_TEXT, &text);
    return status == DT_OK ? results_put(&r->nodes[column], r->count, text) : status;
}

static dt_status put_text(struct results *r, int column, const char *characters, size_t bytes, enum result_kind kind)
{
    struct node *node = &r->nodes[column];
    uint32_t text = r->count > 0 ? (uint32_t)results_raw(r, r->count - 1, column) : 0;
    if (!text || !results_is_text(r, text, characters, bytes, kind))
        DT_TRY(results_intern(r, characters, bytes, kind, &text));
    return results_put(node, r->count, text);
}

/* Read what strtod reads, but faster. The digits and the power of ten are exact in 64 bits, so that
 * only their quotient is rounded to 64 bits. Rounding that to a double gives the correct result,
 * unless it is halfway between two doubles; strtod reads those. Source: W. D. Clinger, How to read
 * floating point numbers accurately. */
static bool read_number(const char *token, const char *end, double *out)
{
    static const long double powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                         1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    enum { POWERS = sizeof powers / sizeof *powers, DIGITS_MAX = 19 };
    const char *c = token + (*token == '-'), *point = NULL;
    uint64_t digits = 0, halfway;
    for (; c < end && c - token <= DIGITS_MAX && ((*c >= '0' && *c <= '9') || (*c == '.' && !point)); c++)
        if (*c == '.')
            point = c;
        else
            digits = 10 * digits + (uint64_t)(*c - '0');
    long double value = digits;
    ptrdiff_t fraction = point ? end - point - 1 : 0;
    bool sooner = LDBL_MANT_DIG == 64 && c == end && end[-1] >= '0' && fraction < POWERS;
    value = sooner ? value / powers[fraction] : 0;
    memcpy(&halfway, &value, sizeof halfway); /* the significand's 64 bits, of which a double has the first 53 */
    if (sooner && (halfway & 0x7ff) != 0x400) {
        *out = (double)(*token == '-' ? -value : value);
        return true;
    }
    char *its_end;
    *out = strtod(token, &its_end);
    return its_end == end && isfinite(*out);
}

static dt_status put_number(struct node *node, int row, const char *token, size_t bytes)
{
    double number;
    return read_number(token, token + bytes, &number) ? results_put(node, row, number) : DT_ERR_INVALID;
}

/* The number of equal bytes at the beginning of two texts, at most `most`. */
static size_t common_bytes(const char *left, const char *right, size_t most)
{
    size_t count = 0;
    for (uint64_t a, b; count + sizeof a <= most; count += sizeof a) {
        memcpy(&a, left + count, sizeof a);
        memcpy(&b, right + count, sizeof b);
        if (a != b)
            break;
    }
    while (count < most && left[count] == right[count])
        count++;
    return count;
}

/* Are the next `bytes` bytes the same as those of the last row's line from byte `then`? */
static bool is_told(struct scan *s, size_t then, size_t bytes)
{
    const struct results *r = s->results;
    ptrdiff_t shift = r->line + then - s->at;
    if (shift != s->shift || s->at >= s->same) {
        size_t left = (size_t)(s->end - s->at), left_then = r->line_bytes - then;
        s->shift = shift;
        s->same = s->at + common_bytes(s->at, r->line + then, left < left_then ? left : left_then);
    }
    return s->at + bytes <= s->same && (s->at[bytes] == ',' || s->at[bytes] == '}');
}

/* Give a key, and all keys below it, the values of the last row again. */
static dt_status repeat(struct results *r, int column)
{
    struct node *node = &r->nodes[column];
    if (node->kept && node->rows == r->count && !node->differs)
        node->rows++;
    else if (node->kept && node->rows == r->count)
        DT_TRY(results_put(node, r->count, node->values[r->count - 1]));
    for (int child = node->leads ? node->child : NONE; child != NONE; child = r->nodes[child].next)
        if (r->nodes[child].kept || r->nodes[child].leads)
            DT_TRY(repeat(r, child));
    return DT_OK;
}

/* Take a "key": value. If its text is the same as in the last row, so are the values, and it is not
 * read again. */
static dt_status take_member(struct scan *s, int column)
{
    struct results *r = s->results;
    int child = r->nodes[column].expected;
    const char *begin = s->at, *key;
    size_t bytes = child == NONE ? 0 : r->nodes[child].key_bytes;
    bool escaped, told = child != NONE && r->count > 0 && r->nodes[child].told_row == r->count - 1 &&
                         is_told(s, r->nodes[child].told_at, r->nodes[child].told_bytes);
    if (told) {
        s->at += r->nodes[child].told_bytes;
        s->has_config |= child == r->config;
        DT_TRY(repeat(r, child));
    } else if (child != NONE && (size_t)(s->end - s->at) > bytes + 3 && s->at[0] == '"' && s->at[bytes + 1] == '"' &&
               s->at[bytes + 2] == ':' && memcmp(s->at + 1, r->nodes[child].key, bytes) == 0) {
        s->at += bytes + 3;
    } else {
        if (*s->at != '"' || !take_string(s, &key, &bytes, &escaped))
            return DT_ERR_INVALID;
        skip_blanks(s);
        if (*s->at++ != ':')
            return DT_ERR_INVALID;
        DT_TRY(results_key(r, column, key, bytes, &child));
    }
    r->nodes[column].expected = r->nodes[child].next;
    if (!told) {
        skip_blanks(s);
        DT_TRY(take_value(s, child));
    }
    struct node *node = &r->nodes[child];
    node->told_row = r->count;
    node->told_at = (uint32_t)(begin - s->line);
    node->told_bytes = (uint32_t)(s->at - begin);
    return DT_OK;
}

static dt_status take_object(struct scan *s, int column)
{
    struct results *r = s->results;
    r->nodes[column].expected = r->nodes[column].child;
    if (r->config == NONE && r->nodes[column].parent == ROOT && strcmp(r->nodes[column].key, "config") == 0)
        r->config = column;
    s->has_config |= column == r->config;
    s->at++;
    skip_blanks(s);
    if (*s->at == '}') {
        s->at++;
        return DT_OK;
    }
    for (;; s->at++) {
        skip_blanks(s);
        DT_TRY(take_member(s, column));
        skip_blanks(s);
        if (*s->at == '}') {
            s->at++;
            return DT_OK;
        }
        if (*s->at != ',')
            return DT_ERR_INVALID;
    }
}

/* Take a list with a value for each step: its first and last value get columns. */
static dt_status take_ends(struct scan *s, int column)
{
    struct scan first = *s, last;
    int child;
    first.at++;
    skip_blanks(&first);
    if (*first.at == ']')
        return skip_value(s) ? DT_OK : DT_ERR_INVALID;
    for (*s = last = first; *s->at != ']';) {
        last = *s;
        if (!skip_value(s))
            return DT_ERR_INVALID;
        skip_blanks(s);
        s->at += *s->at == ',';
        skip_blanks(s);
    }
    s->at++;
    DT_TRY(results_key(s->results, column, "first", 5, &child));
    DT_TRY(take_value(&first, child));
    DT_TRY(results_key(s->results, column, "last", 4, &child));
    return take_value(&last, child);
}

/* Take a list. In the config it is one text; outside of it only lists of steps are kept. */
static dt_status take_list(struct scan *s, int column)
{
    const struct node *node = &s->results->nodes[column];
    const char *begin = s->at;
    if (dt_is_one_of(node->path, "losses learning_rates gradient_norms loss_scales"))
        return take_ends(s, column);
    if (!skip_value(s))
        return DT_ERR_INVALID;
    if (node->part != RESULT_OF_CONFIG)
        return DT_OK;
    return put_text(s->results, column, begin, (size_t)(s->at - begin), RESULT_TEXT);
}

static dt_status take_token(struct scan *s, int column)
{
    struct results *r = s->results;
    const char *token = s->at;
    size_t bytes = token_bytes(s);
    bool is_null = bytes == 4 && memcmp(token, "null", 4) == 0, truth = *token == 't' || *token == 'f';
    if (bytes == 0 || (!is_null && !truth && *token != '-' && (*token < '0' || *token > '9')))
        return DT_ERR_INVALID;
    s->at += bytes;
    if (!r->nodes[column].kept || is_null)
        return DT_OK;
    if (r->nodes[column].is_number)
        return truth ? DT_OK : put_number(&r->nodes[column], r->count, token, bytes);
    return put_text(r, column, token, bytes, truth ? RESULT_TRUTH : RESULT_NUMBER);
}

static dt_status take_text(struct scan *s, int column)
{
    const struct node *node = &s->results->nodes[column];
    const char *begin;
    size_t bytes;
    bool escaped;
    if (!take_string(s, &begin, &bytes, &escaped))
        return DT_ERR_INVALID;
    if (!node->kept || node->is_number)
        return DT_OK;
    return escaped ? put_escaped(s->results, column, begin - 1, bytes + 2) : put_text(s->results, column, begin, bytes, RESULT_TEXT);
}

static dt_status take_value(struct scan *s, int column)
{
    dt_status status;
    switch (*s->at) {
    case '{':
        if (++s->depth > DEPTH_MAX)
            return DT_ERR_INVALID;
        status = take_object(s, column);
        s->depth--;
        return status;
    case '[': return take_list(s, column);
    case '"': return take_text(s, column);
    default: return take_token(s, column);
    }
}

dt_status results_scan(struct results *r, const char *line, size_t bytes, bool *has_config)
{
    struct scan scan = {.results = r, .line = line, .at = line, .end = line + bytes};
    skip_blanks(&scan);
    DT_TRY(*scan.at == '{' ? take_value(&scan, ROOT) : DT_ERR_INVALID);
    skip_blanks(&scan);
    *has_config = scan.has_config;
    return *scan.at ? DT_ERR_INVALID : DT_OK;
}
