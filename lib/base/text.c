#include "lib/base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Characters from..to are replaced. */
static const struct {
    uint32_t from, to;
} unprintable[] = {
    {0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
};

/* Unicode 15, table 3-7 (RFC 3629): no overlong forms, no surrogates, at most U+10FFFF. */
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

/* The length of the character that begins here; 0: these bytes are not a character. */
static size_t decode(const char *text, uint32_t *out)
{
    size_t length = dt_utf8_bytes(text, text + strnlen(text, 4));
    uint32_t value = length == 1 ? (unsigned char)*text : (unsigned char)*text & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        value = value << 6 | ((unsigned char)text[i] & 0x3F);
    *out = value;
    return length;
}

static bool is_printable(uint32_t character)
{
    bool found = false;
    for (size_t i = 0; i < sizeof unprintable / sizeof unprintable[0]; i++)
        found |= character >= unprintable[i].from && character <= unprintable[i].to;
    return !found;
}

void dt_printable(char *text)
{
    const char *from = text;
    char *to = text;
    while (*from) {
        if (*from >= ' ' && *from <= '~') { /* most characters are ASCII */
            *to++ = *from++;
            continue;
        }
        uint32_t character = 0;
        size_t length = decode(from, &character);
        if (length > 0 && is_printable(character)) {
            memmove(to, from, length);
            to += length;
        } else {
            *to++ = '?';
        }
        from += length > 0 ? length : 1;
    }
    *to = 0;
}

bool dt_is_printable(const char *text)
{
    uint32_t character = 0;
    size_t length = 0;
    for (; *text; text += length) {
        length = decode(text, &character);
        if (length == 0 || !is_printable(character))
            return false;
    }
    return true;
}

void dt_append(char *text, size_t bytes, const char *separator, const char *format, ...)
{
    va_list arguments;
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", used ? separator : "");
    used += strlen(text + used);
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
}

void dt_append_once(char *text, size_t bytes, const char *word, size_t length)
{
    for (const char *at = text; *at; at += strspn(at, ", ")) {
        size_t its = strcspn(at, ",");
        if (its == length && strncmp(at, word, length) == 0)
            return;
        at += its;
    }
    if (length > 0 && strlen(text) + 2 + length < bytes)
        dt_append(text, bytes, ", ", "%.*s", (int)length, word);
}

bool dt_read_range(const char **at, long *first, long *last)
{
    char *end = (char *)*at;
    *first = *last = isdigit((unsigned char)*end) ? strtol(end, &end, 10) : -1;
    if (*first >= 0 && *end == '-')
        *last = isdigit((unsigned char)end[1]) ? strtol(end + 1, &end, 10) : -1;
    *at = *end == ',' ? end + 1 : NULL;
    return *first >= 0 && *first <= *last && (*at || !*end);
}

enum { MAX_WORD = 63, FAR = 1000 };

static void fold(const char *word, size_t length, char out[MAX_WORD])
{
    for (size_t i = 0; i < length; i++)
        out[i] = word[i] == '-' ? '_' : (char)tolower((unsigned char)word[i]);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int dt_edit_distance(const char *left, const char *right)
{
    size_t n = strlen(left), m = strlen(right);
    if (n > MAX_WORD || m > MAX_WORD)
        return FAR;
    char a[MAX_WORD], b[MAX_WORD];
    int rows[3][MAX_WORD + 1]; /* rows i - 2, i - 1 and i of the table, in turn */
    fold(left, n, a);
    fold(right, m, b);
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

static const char *next_letter(const char *at)
{
    while (*at && !isalnum((unsigned char)*at))
        at++;
    return at;
}

bool dt_same_name(const char *left, const char *right)
{
    left = next_letter(left);
    right = next_letter(right);
    while (*left && tolower((unsigned char)*left) == tolower((unsigned char)*right)) {
        left = next_letter(left + 1);
        right = next_letter(right + 1);
    }
    return !*left && !*right;
}

bool dt_looks_like(const char *word, const char *known)
{
    int length = (int)strlen(word), its = (int)strlen(known), third = (length + 1) / 3, allowed = third > 1 ? third : 1;
    if (abs(length - its) > allowed) /* the edit distance is at least this difference: most words end here */
        return false;
    int distance = dt_edit_distance(word, known);
    return distance <= allowed && distance < its;
}

bool dt_is_one_of(const char *text, const char *words)
{
    size_t length = strlen(text);
    for (size_t bytes; (bytes = (size_t)(strchrnul(words, ' ') - words)) > 0; words += bytes + (words[bytes] == ' '))
        if (bytes == length && strncasecmp(words, text, bytes) == 0)
            return true;
    return false;
}
