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

const char *validate_unit_after(const char *text)
{
    return text + number_length(text);
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

/* Blanks that do not break lines, as spreadsheets have them between thousands, as blanks: of UTF-8
 * U+00A0 and U+202F. */
static void plain_blanks(const char *text, char *out, size_t out_bytes)
{
    static const char *const blanks[] = {"\u00a0", "\u202f"};
    size_t used = 0;
    while (*text && used + 1 < out_bytes) {
        size_t length = 0;
        for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++)
            if (strncmp(text, blanks[i], strlen(blanks[i])) == 0)
                length = strlen(blanks[i]);
        out[used++] = length ? ' ' : *text;
        text += length ? length : 1;
    }
    out[used] = '\0';
}

double validate_number(const char *given, const char *unit, bool comma_is_decimal)
{
    char plain[64], text[128];
    plain_blanks(given, text, sizeof text);
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
    const struct unit *of = unit_of(rest), *wanted = unit_of(unit);
    if (*end || !of || (of->of != NOTHING && !converts(of, wanted)))
        return NAN;
    return of->of == NOTHING ? value : value * of->scale / wanted->scale;
}
