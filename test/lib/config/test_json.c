#include "lib/config/json.h"
#include "test/check.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* Text that the reader must refuse, with the complete error. */
static void refuses(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "t: empty; expected a JSON value"},
        {" \n\t", "t: empty; expected a JSON value"},
        {"{} x", "t:1:4: unexpected 'x' after the end of the value"},
        {"{\n \"a\": 1,\n \"a\": 2}", "t:3:2: a: this key is given twice"},
        {"{\"m\": {\"a\": 1, \"\\u0061\": 2}}", "t:1:16: m.a: this key is given twice"},
        {"{\"seed\": 007}", "t:1:10: seed: a number must not begin with a zero"},
        {"-01", "t:1:1: a number must not begin with a zero"},
        {"+1", "t:1:1: a value must stand here, not '+' (numbers take no plus sign)"},
        {".5", "t:1:1: a value must stand here, not '.' (a number begins with a digit)"},
        {"0x10", "t:1:2: unexpected 'x' after a number"},
        {"1.", "t:1:3: a digit must follow the decimal point"},
        {"1e", "t:1:3: a digit must follow the exponent's sign"},
        {"1e+", "t:1:4: a digit must follow the exponent's sign"},
        {"-", "t:1:2: a digit must follow the minus sign"},
        {"{\"a\": [1, 1e400]}", "t:1:11: a[1]: 1e400 is too large for a number"},
        {"-1e999", "t:1:1: -1e999 is too large for a number"},
        {"NaN", "t:1:1: a value must stand here, not 'N' (NaN and Infinity are not JSON; nothing is null)"},
        {"-Infinity", "t:1:2: a digit must follow the minus sign"},
        {"True", "t:1:1: a value must stand here, not 'T' (the words are true and false)"},
        {"nul", "t:1:1: a value must stand here, not 'n' (NaN and Infinity are not JSON; nothing is null)"},
        {"truex", "t:1:5: unexpected 'x' after the end of the value"},
        {"// c\n1", "t:1:1: a value must stand here, not '/' (JSON has no comments)"},
        {"{\"a\": 1 /* c */}", "t:1:9: ',' or '}' must follow here, not '/'"},
        {"'a'", "t:1:1: a value must stand here, not ''' (strings take double quotes)"},
        {"[1,]", "t:1:4: [1]: a value must stand here, not ']' (no comma before it)"},
        {"[1 2]", "t:1:4: [0]: ',' or ']' must follow here, not '2'"},
        {"{\"a\": 1,}", "t:1:9: a key in double quotes must stand here, not '}'"},
        {"{a: 1}", "t:1:2: a key in double quotes must stand here, not 'a'"},
        {"{\"a\" 1}", "t:1:6: a: ':' must follow the key, not '1'"},
        {"{\"a\":", "t:1:6: a: a value must stand here, not the end of the file"},
        {"{\"a\": 1", "t:1:1: an object is not closed"},
        {"{", "t:1:1: an object is not closed"},
        {"[1", "t:1:1: a list is not closed"},
        {"\"a", "t:1:1: a string is not closed"},
        {"\"a\\", "t:1:3: a backslash must be followed by one of \" \\ / b f n r t u"},
        {"\"a\nb\"", "t:1:3: control character 0x0A in a string; write it as \\u000A"},
        {"\"\\x\"", "t:1:2: a backslash must be followed by one of \" \\ / b f n r t u"},
        {"\"\\u12g4\"", "t:1:2: \\u takes four hexadecimal digits"},
        {"\"\\u0000\"", "t:1:2: \\u0000 is not allowed"},
        {"\"\\ud800\"", "t:1:2: \\uD800 is half a surrogate pair"},
        {"\"\\ud800\\u0041\"", "t:1:2: \\uD800 is half a surrogate pair"},
        {"\"\\udc00\"", "t:1:2: \\uDC00 is half a surrogate pair"},
        {"\"\\udfff\"", "t:1:2: \\uDFFF is half a surrogate pair"},
        {"\"\xff\"", "t:1:2: byte 0xFF is not valid UTF-8"},
        {"\"\xc0\xaf\"", "t:1:2: byte 0xC0 is not valid UTF-8"},
        {"\"\xe0\x80\x80\"", "t:1:2: byte 0xE0 is not valid UTF-8"},
        {"\"\xed\xa0\x80\"", "t:1:2: byte 0xED is not valid UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "t:1:2: byte 0xF4 is not valid UTF-8"},
        {"\"\xe2\x82", "t:1:2: byte 0xE2 is not valid UTF-8"},
        {"\xEF\xBB\xBF", "t:1:1: the file begins with a byte order mark; save it as plain UTF-8"},
        {"\xEF\xBB\xBF{}", "t:1:1: the file begins with a byte order mark; save it as plain UTF-8"},
        {"\xC2\xA0{}", "t:1:1: a value must stand here, not byte 0xC2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct cJSON *value = NULL;
        dt_status status = dt_json_parse(bad[i].text, strlen(bad[i].text), "t", &value);
        CHECK(status == DT_ERR_INVALID && !value, "%s", bad[i].text);
        CHECK(strcmp(dt_error_message(), bad[i].message) == 0, "'%s' gives\n#   %s\n# wanted\n#   %s", bad[i].text, dt_error_message(),
              bad[i].message);
    }
}

/* A NUL is a byte like any other: text after it must not go unseen. */
static void sees_past_nul(void)
{
    struct cJSON *value;
    CHECK(dt_json_parse("{}\0{}", 5, "t", &value) == DT_ERR_INVALID);
    CHECK(dt_json_parse("1\0", 2, "t", &value) == DT_ERR_INVALID);
    CHECK(dt_json_parse("\"a\0b\"", 5, "t", &value) == DT_ERR_INVALID);
    CHECK(dt_json_parse("\"a\\\0\"", 5, "t", &value) == DT_ERR_INVALID);
}

/* What is accepted, printed compact and sorted. */
static void accepts_and_prints(void)
{
    static const struct {
        const char *text, *canonical;
    } good[] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.0e5", "0"},
        {"10", "10"},
        {"1e3", "1000"},
        {"1E-2", "0.01"},
        {"0.1", "0.1"},
        {"1.50", "1.5"},
        {"9007199254740991", "9007199254740991"},
        {"1e22", "1e+22"},
        {"5e-324", "5e-324"},
        {"1e-400", "0"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"-2.5", "-2.5"},
        {" [ ] ", "[]"},
        {"{ }", "{}"},
        {"[1, [2, {\"a\": null}], true,false]", "[1,[2,{\"a\":null}],true,false]"},
        {"{\"b\": 1, \"a\": {\"d\": 2, \"c\": 3}, \"B\": 4}", "{\"B\":4,\"a\":{\"c\":3,\"d\":2},\"b\":1}"},
        {"\"\\u00e9\\n\\\\\\\"\\/\\b\\u001f\"", "\"\xc3\xa9\\n\\\\\\\"/\\u0008\\u001f\""},
        {"\"\\u0800\\u20ac\\uffff\"", "\"\xe0\xa0\x80\xe2\x82\xac\xef\xbf\xbf\""},
        {"\"\\uD83D\\uDE00\"", "\"\xf0\x9f\x98\x80\""},
        {"\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\"", "\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\""},
        {"\"\"", "\"\""},
        {"{\"\": \"\"}", "{\"\":\"\"}"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct cJSON *value;
        char *text = NULL;
        CHECK_OK(dt_json_parse(good[i].text, strlen(good[i].text), "t", &value));
        if (!value)
            continue;
        CHECK_OK(dt_json_print(value, DT_JSON_SORTED, &text));
        CHECK(strcmp(text, good[i].canonical) == 0, "%s gives %s", good[i].text, text);
        free(text);
        dt_json_destroy(value);
    }
}

static void prints_for_reading(void)
{
    struct cJSON *value;
    char *text, quote[16];
    const char *json = "{\"b\":{\"x\":[1,2]},\"a\":{}}";
    CHECK_OK(dt_json_parse(json, strlen(json), "t", &value));
    CHECK_OK(dt_json_print(value, DT_JSON_INDENT, &text));
    CHECK(strcmp(text, "{\n  \"b\": {\n    \"x\": [1, 2]\n  },\n  \"a\": {}\n}") == 0, "%s", text);
    dt_json_quote(value, quote, sizeof quote);
    CHECK(strcmp(quote, "{\"b\":{\"x\":[1...") == 0, "%s", quote);
    free(text);
    dt_json_destroy(value);
    value = cJSON_CreateString("aaaaaaaaaa\xc3\xa9\xc3\xa9\xc3\xa9");
    dt_json_quote(value, quote, sizeof quote);
    CHECK(strcmp(quote, "\"aaaaaaaaaa...") == 0, "cut through a character: %s", quote);
    dt_json_destroy(value);
    value = cJSON_CreateNumber(NAN);
    CHECK_OK(dt_json_print(value, 0, &text));
    CHECK(strcmp(text, "null") == 0, "%s", text);
    free(text);
    dt_json_destroy(value);
}

/* The longest list that is printed on one line, in bytes of that line. */
static size_t longest_line(const char *before, const char *behind)
{
    size_t longest = 0;
    for (int length = 1; length < 300; length++) {
        char text[400], *printed;
        struct cJSON *value;
        snprintf(text, sizeof text, "%s[\"%0*d\", 1]%s", before, length, 0, behind);
        CHECK_OK(dt_json_parse(text, strlen(text), "t", &value));
        CHECK_OK(dt_json_print(value, DT_JSON_FIT, &printed));
        const char *line = strrchr(printed, '[');
        while (line > printed && line[-1] != '\n')
            line--;
        const char *end = strchr(line, ']');
        bool one = end && memchr(line, '\n', (size_t)(end - line)) == NULL;
        longest = one && (size_t)(end + 1 - line) > longest ? (size_t)(end + 1 - line) : longest;
        free(printed);
        dt_json_destroy(value);
    }
    return longest;
}

/* The first line is as long as any other. */
static void lines_are_equally_long(void)
{
    size_t first = longest_line("", ""), later = longest_line("{\"a\": 1, \"b\": ", "}");
    CHECK(first == later && first > 50 && first < 250, "%zu and %zu bytes", first, later);
}

/* Of a list that is broken where lines are full: with its comma the longest line has one byte more
 * than what is printed on one. */
static void full_lines(void)
{
    size_t longest = 0;
    for (int length = 1; length < 60; length++) {
        char text[4000] = "[0", *printed;
        struct cJSON *value;
        for (int i = 0; i < 40; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), ", \"%0*d\"", length, 0);
        strcat(text, "]");
        CHECK_OK(dt_json_parse(text, strlen(text), "t", &value));
        CHECK_OK(dt_json_print(value, DT_JSON_FIT, &printed));
        for (const char *line = printed; *line; line += strcspn(line, "\n"), line += *line == '\n')
            longest = strcspn(line, "\n") > longest ? strcspn(line, "\n") : longest;
        free(printed);
        dt_json_destroy(value);
    }
    CHECK(longest == longest_line("", "") + 1, "%zu bytes", longest);
}

/* Nesting up to the limit, no deeper; the same for keys of one object. */
static void limits(void)
{
    for (int depth = DT_JSON_MAX_DEPTH; depth <= DT_JSON_MAX_DEPTH + 1; depth++) {
        char text[300] = "";
        for (int i = 0; i < depth; i++)
            strcat(text, "[");
        for (int i = 0; i < depth; i++)
            strcat(text, "]");
        struct cJSON *value;
        dt_status status = dt_json_parse(text, strlen(text), "t", &value);
        CHECK((status == DT_OK) == (depth == DT_JSON_MAX_DEPTH), "depth %d: %s", depth, dt_error_message());
        dt_json_destroy(value);
    }
    for (int keys = DT_JSON_MAX_KEYS; keys <= DT_JSON_MAX_KEYS + 1; keys++) {
        char *text = malloc(16 * (size_t)keys + 16), *at = text;
        for (int i = 0; i < keys; i++)
            at += sprintf(at, "%c\"k%d\":0", i ? ',' : '{', i);
        strcpy(at, "}");
        struct cJSON *value;
        dt_status status = dt_json_parse(text, strlen(text), "t", &value);
        CHECK((status == DT_OK) == (keys == DT_JSON_MAX_KEYS), "%d keys: %s", keys, dt_error_message());
        dt_json_destroy(value);
        free(text);
    }
}

/* Random doubles and floats survive their shortest text. */
static void numbers_round_trip(void)
{
    srand(11);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = 0;
        for (int k = 0; k < 5; k++)
            bits = bits << 15 ^ (uint64_t)(rand() & 0x7FFF);
        double d;
        float f;
        uint32_t low = (uint32_t)bits;
        char text[32];
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &low, sizeof f);
        if (isfinite(d)) {
            dt_format_double(d, text, sizeof text);
            CHECK(strtod(text, NULL) == d, "%a gives %s", d, text);
        }
        if (isfinite(f)) {
            dt_format_float(f, text, sizeof text);
            CHECK(strtof(text, NULL) == f, "%a gives %s", (double)f, text);
        }
    }
    char text[32];
    dt_format_float(0.1f, text, sizeof text);
    CHECK(strcmp(text, "0.1") == 0, "%s", text);
    dt_format_float(0x1p-149f, text, sizeof text); /* one digit tells the least number there is */
    CHECK(strcmp(text, "1e-45") == 0, "%s", text);
}

static void hashes(void)
{
    CHECK(dt_hash_fnv1a("", 0) == 0xCBF29CE484222325u);
    CHECK(dt_hash_fnv1a("a", 1) == 0xAF63DC4C8601EC8Cu);
    CHECK(dt_hash_fnv1a("foobar", 6) == 0x85944171F73967E8u);
}

static void reads_files(void)
{
    char path[] = "/tmp/dt_test_json_XXXXXX";
    int fd = mkstemp(path);
    char *text;
    size_t length;
    CHECK(fd >= 0 && write(fd, "a\0b", 3) == 3);
    CHECK_OK(dt_read_file(path, &text, &length));
    CHECK(length == 3 && memcmp(text, "a\0b", 4) == 0);
    free(text);
    CHECK(ftruncate(fd, DT_JSON_MAX_FILE_BYTES + 1) == 0);
    CHECK(dt_read_file(path, &text, &length) == DT_ERR_INVALID, "%s", dt_error_message());
    close(fd);
    unlink(path);
    CHECK(dt_read_file(path, &text, &length) == DT_ERR_IO && strstr(dt_error_message(), path), "%s", dt_error_message());
    CHECK(dt_read_file("/tmp", &text, &length) == DT_ERR_IO, "%s", dt_error_message());
}

/* A tree has the shape's keys and the arguments' values; a part that is lacking takes the whole
 * tree with it. */
static void makes_trees(void)
{
    static const char expected[] =
        "{\"name\":\"a\",\"none\":null,\"in\":{\"count\":-2,\"empty\":{},\"mean\":0.5},\"unknown\":null,\"yes\":true,"
        "\"list\":[1,null],\"own\":[\"a\",\"b c\"],\"more\":3}";
    char *text = NULL;
    cJSON *tree = dt_json_object("name: %s, none: %p, in: {count: %d, empty: {}, mean: %g}, unknown: %g, yes: %hhd, list: %p, %s: %p", "a",
                                 dt_json_known(""), -2, 0.5, NAN, (bool)true, dt_json_numbers((const double[]){1, NAN}, 2), "own",
                                 dt_json_words("a,b c", ","));
    dt_json_add(&tree, "more: %d", 3);
    CHECK_OK(dt_json_print(tree, DT_JSON_COMPACT, &text));
    CHECK(strcmp(text, expected) == 0, "%s", text);
    free(text);
    dt_json_add(&tree, "lacking: %p, other: %p", NULL, dt_json_array());
    CHECK(!tree, "a tree with a part missing");
    dt_json_add(&tree, "more: %d", 4);
    CHECK(!tree && !dt_json_object("in: {lacking: %p}, other: %p", NULL, dt_json_text("x")));
    cJSON *list = dt_json_array();
    dt_json_append(&list, dt_json_text("one"));
    dt_json_append(&list, NULL);
    CHECK(!list && dt_json_write(list, stdout) == DT_ERR_HOST_MEMORY);
}

static const struct test_case cases[] = {
    {"refuses what is not strict JSON, and says where", refuses},
    {"a NUL byte hides nothing", sees_past_nul},
    {"accepts JSON and prints its canonical form", accepts_and_prints},
    {"prints for people", prints_for_reading},
    {"lines are equally long", lines_are_equally_long},
    {"a list is broken where lines are full", full_lines},
    {"limits of depth and keys", limits},
    {"numbers survive their text", numbers_round_trip},
    {"FNV-1a's published values", hashes},
    {"reads files", reads_files},
    {"makes trees by their shape", makes_trees},
};
TEST_MAIN(cases)
