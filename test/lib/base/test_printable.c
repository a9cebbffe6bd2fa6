#include "lib/base/text.h"
#include "test/check.h"

#include <stdlib.h>
#include <string.h>

static void known_texts(void)
{
    static const struct {
        const char *before, *after;
    } rows[] = {
        {"plain text, 100 %", "plain text, 100 %"},
        {"Größe \xe2\x86\x92 7 \xf0\x9f\x99\x82", "Größe \xe2\x86\x92 7 \xf0\x9f\x99\x82"},
        {"\033[31mred\033[0m", "?[31mred?[0m"},
        {"a\nb\tc\rd\177", "a?b?c?d?"},
        {"a\xc2\x9b"
         "31mb",
         "a?31mb"}, /* U+009B, the control sequence introducer in one character */
        {"a\xe2\x80\xae"
         "b\xe2\x81\xa6"
         "c",
         "a?b?c"}, /* U+202E, U+2066: from right to left */
        {"a\xe2\x80\x8b"
         "b\xef\xbb\xbf",
         "a?b?"},                    /* U+200B, U+FEFF: nothing to see */
        {"a\xf3\xa0\x81\x81", "a?"}, /* U+E0041: tags */
        {"\x9b"
         "31m",
         "?31m"}, /* no UTF-8: a byte that some terminals take for U+009B */
        {"\xc0\x9b"
         "31m",
         "??31m"},                    /* ESC in two bytes: not the shortest form */
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"cut \xe2\x82", "cut ??"},   /* cut off */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = strdup(rows[i].before);
        if (!text)
            abort();
        bool same = strcmp(rows[i].before, rows[i].after) == 0;
        CHECK(dt_is_printable(text) == same, "row %zu", i);
        dt_printable(text);
        CHECK(strcmp(text, rows[i].after) == 0, "row %zu: %s", i, text);
        CHECK(dt_is_printable(text), "row %zu: not twice the same", i);
        free(text);
    }
}

static void words_of_a_list(void)
{
    CHECK(dt_is_one_of("ok", "done ok") && dt_is_one_of("DONE", "done ok"));
    CHECK(!dt_is_one_of("o", "done ok") && !dt_is_one_of("done ok", "done ok") && !dt_is_one_of("", "done ok") && !dt_is_one_of("ok", ""));
}

static void words_are_appended_once(void)
{
    char list[16] = "";
    dt_append_once(list, sizeof list, "ib", 2);
    dt_append_once(list, sizeof list, "ib0", 3);
    dt_append_once(list, sizeof list, "ib0,eth", 2);
    dt_append_once(list, sizeof list, "", 0);
    dt_append_once(list, sizeof list, "too long for it", 15);
    CHECK(strcmp(list, "ib, ib0") == 0, "%s", list);
}

static void ranges_of_a_list(void)
{
    static const char *const wrong[] = {"", "x", "-1", "3-", "3-1", "3x", "3--4", " 3"};
    const char *at = "0,8-15,3";
    long first, last;
    CHECK(dt_read_range(&at, &first, &last) && first == 0 && last == 0 && at);
    CHECK(dt_read_range(&at, &first, &last) && first == 8 && last == 15 && at);
    CHECK(dt_read_range(&at, &first, &last) && first == 3 && last == 3 && !at);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        at = wrong[i];
        CHECK(!dt_read_range(&at, &first, &last), "%s", wrong[i]);
    }
    at = "3,";
    CHECK(dt_read_range(&at, &first, &last) && at && !dt_read_range(&at, &first, &last), "something has to follow a comma");
}

static const struct test_case cases[] = {
    {"known texts", known_texts},
    {"words of a list", words_of_a_list},
    {"words are appended once", words_are_appended_once},
    {"ranges of a list", ranges_of_a_list},
};

TEST_MAIN(cases)
