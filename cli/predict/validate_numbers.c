#include "cli/predict/validate.h"

#include "lib/base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool validate_is_missing(const char *text)
{
    return !*text || dt_is_one_of(text, "- -- \u2013 \u2014 n/a na nan null");
}

static const struct unit {
    const char *name;
    enum { NOTHING, SECONDS, BYTES, RATE, RATE_OF_GPU, SAMPLES } of;
    double scale;
} units[] = {{"", NOTHING, 1},
             {"s", SECONDS, 1},
             {"sec", SECONDS, 1},
             {"secs", SECONDS, 1},
             {"seconds", SECONDS, 1},
             {"ms", SECONDS, 1e-3},
             {"us", SECONDS, 1e-6},
             {"µs", SECONDS, 1e-6},
             {"min", SECONDS, 60},
             {"minutes", SECONDS, 60},
             {"MB", BYTES, 1e6},
             {"MiB", BYTES, 0x1p20},
             {"GB", BYTES, 1e9},
             {"GiB", BYTES, 0x1p30},
             {"tok/s", RATE, 1},
             {"tokens/s", RATE, 1},
             {"tokens/sec", RATE, 1},
             {"tok/s/gpu", RATE_OF_GPU, 1},
             {"tokens/s/gpu", RATE_OF_GPU, 1},
             {"tokens/sec/gpu", RATE_OF_GPU, 1},
             {"samp/s", SAMPLES, 1},
             {"samples/s", SAMPLES, 1},
             {"samples/sec", SAMPLES, 1},
             {"sequences/s", SAMPLES, 1},
             {"img/s", SAMPLES, 1},
             {"images/s", SAMPLES, 1},
             {"images/sec", SAMPLES, 1}};

static const struct unit *unit_of(const char *name)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

/* Can `mark` separate thousands? One to three digits, the first not 0, then three after each
 * mark. */
static bool groups(const char *digits, size_t length, char mark)
{
    size_t since = 0;
    bool first = true, fits = *digits != '0';
    for (size_t i = 0; i <= length; i++) {
        if (i < length && digits[i] != mark) {
            since++;
            continue;
        }
        fits &= first ? since >= 1 && since <= 3 : since == 3;
        first = false;
        since = 0;
    }
    return fits;
}

/* The decimal mark in these digits; 0: none. */
static char decimal_of(const char *digits, size_t length, bool comma_is_decimal)
{
    const char *comma = memrchr(digits, ',', length), *point = memrchr(digits, '.', length);
    if (comma && point)
        return comma > point ? ',' : '.';
    if (point)
        return memchr(digits, '.', length) == point ? '.' : 0;
    return comma && memchr(digits, ',', length) == comma && (comma_is_decimal || !groups(digits, length, ',')) ? ',' : 0;
}

bool validate_is_unit(const char *text)
{
    const struct unit *unit = unit_of(text);
    return unit && unit->of != NOTHING;
}

/* A column that is one GPU's says so by its name: its fields may have "tokens/s". */
static bool converts(const struct unit *unit, const struct unit *wanted)
{
    return unit->of == wanted->of || (unit->of == RATE && wanted->of == RATE_OF_GPU);
}

bool validate_is_unit_of(const char *text, const char *unit)
{
    return validate_is_unit(text) && unit_of(text)->of == unit_of(unit)->of;
}

bool validate_unit_in(const char *name, char *unit, size_t unit_bytes, char *rest, size_t rest_bytes)
{
    static const char separators[] = " _()[]";
    bool found = false;
    for (const char *word = name + strspn(name, separators); *word;) {
        char text[32];
        int length = (int)strcspn(word, separators);
        snprintf(text, sizeof text, "%.*s", length, word);
        if (!validate_is_unit(text)) /* "s/it", "GB/GPU" */
            text[strcspn(text, "/")] = '\0';
        if (validate_is_unit(text)) { /* the last one: "Min step time (ms)" */
            snprintf(unit, unit_bytes, "%s", text);
            const char *open = strpbrk(name, "(["), *end = word + strlen(text);
            if (open && open < word) /* "(seconds per step)", "(mean, s)": all that is between the brackets */
                end += strcspn(end, ")]");
            snprintf(rest, rest_bytes, "%.*s %s", (int)((open && open < word ? open : word) - name), name, end);
            found = true;
        }
        word += length;
        word += strspn(word, separators);
    }
    return found;
}

static size_t number_length(const char *text)
{
    return strspn(text, "0123456789.,' _");
}

/* "12.3k tokens/s": a thousand, or a million. */
static bool is_multiple(const char *text)
{
    return *text && strchr("kKM", *text) && strchr(" t", text[1]);
}

const char *validate_unit_after(const char *text)
{
    const char *unit = text + number_length(text);
    return unit + (unit > text && is_multiple(unit) ? 1 + strspn(unit + 1, " ") : 0);
}

bool validate_has_decimal_comma(const char *text)
{
    size_t length = number_length(text);
    return length > 0 && isdigit((unsigned char)*text) && decimal_of(text, length, false) == ',';
}

bool validate_is_ambiguous(const char *text)
{
    size_t length = number_length(text);
    const char *comma = memchr(text, ',', length);
    return comma && !memchr(comma + 1, ',', length - (size_t)(comma - text) - 1) && decimal_of(text, length, false) == 0;
}

void validate_plain(char *text)
{
    static const char *const known[][2] = {{"\u00a0", " "}, {"\u202f", " "}, {"\u2009", " "}, {"\u2019", "'"},
                                           {"\u00d7", "x"}, {"\u2020", ""},  {"\u2021", ""}};
    static const char about[] = "\u2248", within[] = "\u00b1";
    char *to = text, *begin = text;
    text += *text == '~' ? 1 : strncmp(text, about, strlen(about)) == 0 ? strlen(about) : 0;
    while (*text && strncmp(text, within, strlen(within)) != 0) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strncmp(text, known[i][0], strlen(known[i][0])) != 0)
            i++;
        bool is_known = i < sizeof known / sizeof *known, is_mark = *text == '*' && strchr(" ", text[1]);
        if (is_known ? *known[i][1] : !is_mark)
            *to++ = is_known ? *known[i][1] : *text;
        text += is_known ? strlen(known[i][0]) : 1;
    }
    while (to > begin && to[-1] == ' ')
        to--;
    *to = '\0';
}

void validate_drop_points(char *text)
{
    size_t length = number_length(text);
    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (!memchr(text, '.', length) || !groups(text, length, '.'))
        return;
    char *to = text;
    for (; *text; text++)
        if (*text != '.' || length == 0)
            *to++ = *text;
    *to = '\0';
}

double validate_number(const char *text, const char *unit, bool comma_is_decimal)
{
    char plain[64], first[32];
    size_t used = 0, length = number_length(text);
    while (length > 0 && text[length - 1] == ' ')
        length--;
    char decimal = decimal_of(text, length, comma_is_decimal);
    const char *parts = decimal ? memrchr(text, decimal, length) : NULL;
    size_t whole = parts ? (size_t)(parts - text) : length;
    char mark = 0;
    for (size_t i = 0; i < whole && used + 2 < sizeof plain; i++)
        if (strchr("0123456789", text[i]))
            plain[used++] = text[i];
        else if (mark && mark != text[i])
            return NAN;
        else
            mark = text[i];
    if (used == 0 || (mark && !groups(text, whole, mark)))
        return NAN;
    used += (size_t)snprintf(plain + used, sizeof plain - used, "%s%.*s", parts ? "." : "", parts ? (int)(length - whole - 1) : 0,
                             parts ? parts + 1 : "");
    const char *rest = text + length;
    char *end;
    if (strchr("eE", *rest) && *rest && used < sizeof plain) { /* 1.2e3 */
        size_t exponent = 1 + strspn(rest + 1, "+-0123456789");
        snprintf(plain + used, sizeof plain - used, "%.*s", (int)exponent, rest);
        rest += exponent;
    }
    double value = strtod(plain, &end);
    rest += strspn(rest, " ");
    const struct unit *wanted = unit_of(unit);
    bool rate = wanted->of == RATE || wanted->of == RATE_OF_GPU;
    if (rate && is_multiple(rest)) {
        value *= *rest == 'M' ? 1e6 : 1e3;
        rest += 1 + strspn(rest + 1, " ");
    }
    snprintf(first, sizeof first, "%.*s", (int)strcspn(rest, "/"), rest);
    const struct unit *of = unit_of(rest);
    if (!of && wanted->of == SECONDS && dt_is_one_of(rest + strcspn(rest, "/"), "/it /iter /iteration /step"))
        of = unit_of(first);
    if (*end || !of || (of->of != NOTHING && !converts(of, wanted)))
        return NAN;
    return of->of == NOTHING ? value : value * of->scale / wanted->scale;
}
