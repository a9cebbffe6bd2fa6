#include "lib/base/csv.h"
#include "test/check.h"

#include <stdlib.h>
#include <time.h>

static dt_status parse(const char *text, struct dt_csv *csv)
{
    return dt_csv_parse(text, strlen(text), "t.csv", csv);
}

static void fields_and_lines(void)
{
    struct dt_csv csv;
    CHECK_OK(parse("\xEF\xBB\xBF"
                   "a,b,\"c d\"\r\n1,,\"x,\"\"y\"\"\nz\"\n\n,2,3",
                   &csv));
    CHECK(csv.column_count == 3 && csv.row_count == 2, "%d columns, %d rows", csv.column_count, csv.row_count);
    CHECK(dt_csv_column(&csv, "c d") == 2 && dt_csv_column(&csv, "c") == -1 && dt_csv_column(&csv, "C D") == 2);
    CHECK(strcmp(dt_csv_field(&csv, 0, 0), "1") == 0 && strcmp(dt_csv_field(&csv, 0, 1), "") == 0);
    CHECK(strcmp(dt_csv_field(&csv, 0, 2), "x,\"y\"\nz") == 0, "%s", dt_csv_field(&csv, 0, 2));
    CHECK(strcmp(dt_csv_field(&csv, 1, 0), "") == 0 && strcmp(dt_csv_field(&csv, 1, 2), "3") == 0);
    CHECK(strcmp(dt_csv_field(&csv, 1, -1), "") == 0);
    CHECK(csv.lines[0] == 2 && csv.lines[1] == 5, "lines %d and %d", csv.lines[0], csv.lines[1]);
    dt_csv_finish(&csv);
    CHECK_OK(parse("only,names\n", &csv));
    CHECK(csv.row_count == 0 && csv.column_count == 2);
    dt_csv_finish(&csv);
}

/* Columns without a name, such as numbers of rows that a program has written; semicolons, with
 * which commas are text, and tabs. */
static void other_programs(void)
{
    static const char *const texts[] = {",a,\n0,\"1,5\",\n", ";a;\r\n0;1,5;\r\n", "\ta\t\n0\t1,5\t\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct dt_csv csv;
        CHECK_OK(parse(texts[i], &csv));
        CHECK(csv.column_count == 3 && csv.row_count == 1 && csv.delimiter == ",;\t"[i] && strcmp(dt_csv_field(&csv, 0, 1), "1,5") == 0,
              "case %zu: %s", i, dt_csv_field(&csv, 0, 1));
        dt_csv_finish(&csv);
    }
}

/* Bars of Markdown and of a database's client, spaces, an old line end, comments before and between
 * rows; a first name with '#', and names of which one holds another delimiter. */
static void as_people_paste_them(void)
{
    static const struct {
        const char *text;
        int line; /* of the row */
    } tables[] = {
        {"| a | b | c |\n|---|:-:|--:|\n| 0 | 1 5 |  |\n", 3},
        {"| **a** | `b` | c |\n|---|:-:|--:|\n| 0 | **1 5** |  |\n", 3},
        {" a | b | c \n---+---+---\n 0 | 1 5 | \n", 3},
        {"+---+---+---+\n| a | b | c |\n+===+===+===+\n| 0 | 1 5 |   |\n+---+---+---+\n", 4},
        {"sep=;\r\na;b;c\r\n0;1 5;\r\n", 3},
        {"a, b, c\n0 , 1 5,\n", 2},
        {"a,b,c\r0,1 5,\r", 2},
        {"# what, and when\n#\n\na;b;c\n# of the second day, later\n0;1 5;\n", 6},
        {"a\tb\tc (s, mean)\n0\t1 5\t\n", 2},
        {"# a,b,c\n0,1 5,\n", 2},
        {"a;b;\"c, d, e, f\"\n0;1 5;\n", 2},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct dt_csv csv;
        CHECK_OK(parse(tables[i].text, &csv));
        CHECK(csv.column_count == 3 && csv.row_count == 1 && csv.counts[0] == 3 && csv.lines[0] == tables[i].line &&
                  strcmp(csv.names[1], "b") == 0 && strcmp(dt_csv_field(&csv, 0, 0), "0") == 0 &&
                  strcmp(dt_csv_field(&csv, 0, 1), "1 5") == 0 && !*dt_csv_field(&csv, 0, 2),
              "table %zu: %d columns, %d rows", i, csv.column_count, csv.row_count);
        dt_csv_finish(&csv);
    }
}

/* Columns of text: of a program that numbers its rows, and of one with single blanks. */
static void columns_of_text(void)
{
    struct dt_csv csv;
    CHECK_OK(parse("     model  gpus  step (s)\n0  Llama 2     8     11.42\n11  GPT-2    16     1.5\r\n", &csv));
    CHECK(csv.column_count == 4 && csv.row_count == 2 && csv.counts[0] == 4 && strcmp(csv.names[3], "step (s)") == 0 &&
              strcmp(dt_csv_field(&csv, 0, 1), "Llama 2") == 0 && strcmp(dt_csv_field(&csv, 1, 3), "1.5") == 0,
          "%d columns, \"%s\"", csv.column_count, dt_csv_field(&csv, 0, 1));
    dt_csv_finish(&csv);
    CHECK_OK(parse("m n  seconds \n1 2 3\n", &csv));
    CHECK(csv.column_count == 2 && csv.counts[0] == 1, "the line of names decides: two blanks there");
    dt_csv_finish(&csv);
    CHECK_OK(parse("m n seconds \n1 2  3\n4 5 6", &csv));
    CHECK(csv.column_count == 3 && csv.row_count == 2 && strcmp(dt_csv_field(&csv, 0, 2), "3") == 0 && csv.lines[1] == 3);
    dt_csv_finish(&csv);
    CHECK(parse("  ", &csv) == DT_ERR_INVALID);
    dt_csv_finish(&csv);
}

static void many_fields(void)
{
    enum { ROWS = 9000 };
    static char text[ROWS * 8 + 16];
    struct dt_csv csv;
    size_t used = (size_t)sprintf(text, "a,b\n");
    for (int i = 0; i < ROWS; i++)
        used += (size_t)sprintf(text + used, "%d,x\n", i);
    CHECK_OK(dt_csv_parse(text, used, "t.csv", &csv));
    CHECK(csv.row_count == ROWS && strcmp(dt_csv_field(&csv, 8191, 0), "8191") == 0 && strcmp(dt_csv_field(&csv, ROWS - 1, 1), "x") == 0);
    dt_csv_finish(&csv);
}

/* Records with another number of fields than there are columns: what they lack is empty, what they
 * have more is left out. */
static void short_and_long_records(void)
{
    enum { ROWS = 5000 };
    static char text[ROWS * 8 + 16];
    struct dt_csv csv;
    CHECK_OK(parse("a,b,c\n1\n1,2,3,4,5\n\"x\",y\n1,2,3\n6", &csv));
    static const int counts[] = {1, 5, 2, 3, 1};
    static const char *const expected[][3] = {{"1", "", ""}, {"1", "2", "3"}, {"x", "y", ""}, {"1", "2", "3"}, {"6", "", ""}};
    CHECK(csv.row_count == 5, "%d rows", csv.row_count);
    for (int row = 0; row < 5; row++)
        for (int c = 0; c < 3; c++)
            CHECK(csv.counts[row] == counts[row] && strcmp(dt_csv_field(&csv, row, c), expected[row][c]) == 0, "row %d, column %d: %s", row,
                  c, dt_csv_field(&csv, row, c));
    dt_csv_finish(&csv);

    size_t used = (size_t)sprintf(text, "a,b,c\n");
    for (int i = 0; i < ROWS; i++)
        used += (size_t)sprintf(text + used, i % 2 ? "%d\n" : "%d,,,\n", i);
    CHECK_OK(dt_csv_parse(text, used, "t.csv", &csv));
    for (int i = 0; i < ROWS; i++)
        CHECK(atoi(dt_csv_field(&csv, i, 0)) == i && !*dt_csv_field(&csv, i, 2), "row %d", i);
    dt_csv_finish(&csv);
}

/* Quotes that do not end a field are text of their own row, and the rows after it are read. */
static void stray_quotes(void)
{
    struct dt_csv csv;
    CHECK_OK(parse("a,b\n\"x,1\n7\" disk,2\n\"y\"z,3\n\"v\",\"\n\"w\",\"5\"\n\"", &csv));
    static const char *const expected[][2] = {{"\"x", "1"}, {"7\" disk", "2"}, {"\"y\"z", "3"}, {"v", "\""}, {"w", "5"}, {"\"", ""}};
    CHECK(csv.row_count == 6, "%d rows", csv.row_count);
    for (int row = 0; row < csv.row_count; row++)
        for (int c = 0; c < 2; c++)
            CHECK(strcmp(dt_csv_field(&csv, row, c), expected[row][c]) == 0 && csv.lines[row] == row + 2, "row %d, column %d: %s", row, c,
                  dt_csv_field(&csv, row, c));
    dt_csv_finish(&csv);
}

static void faults(void)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"", "t.csv: empty"},
        {"\n\n", "t.csv: empty"},
        {"\xFF\xFE"
         "a",
         "t.csv: its text is UTF-16: save it as UTF-8"},
        {"a,a\n", "t.csv:1: two columns are called a"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct dt_csv csv;
        CHECK(parse(wrong[i].text, &csv) == DT_ERR_INVALID && strstr(dt_error_message(), wrong[i].error), "case %zu: %s", i,
              dt_error_message());
        dt_csv_finish(&csv);
    }
    struct dt_csv csv;
    CHECK(dt_csv_parse("a\n\0", 3, "t.csv", &csv) == DT_ERR_INVALID && strstr(dt_error_message(), "NUL"), "%s", dt_error_message());
    dt_csv_finish(&csv);
}

/* Comparing each name with each other would take a minute. */
static void many_columns(void)
{
    enum { COLUMNS = 150000 };
    static const double most_s = 5; /* processor time, with sanitizers on a slow machine; usually it takes a hundredth */
    char *text = malloc(COLUMNS * 9);
    struct dt_csv csv;
    size_t used = 0;
    if (!text)
        return;
    for (int i = 0; i < COLUMNS; i++)
        used += (size_t)sprintf(text + used, "c%d%c", i, i + 1 < COLUMNS ? ',' : '\n');
    clock_t begun = clock();
    CHECK_OK(dt_csv_parse(text, used, "t.csv", &csv));
    double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
    CHECK(csv.column_count == COLUMNS && took_s < most_s, "%d columns took %g s", csv.column_count, took_s);
    dt_csv_finish(&csv);
    free(text);
}

static const struct test_case cases[] = {
    {"fields, quotes, line numbers", fields_and_lines},
    {"as other programs write them", other_programs},
    {"as people paste them", as_people_paste_them},
    {"columns of text", columns_of_text},
    {"more fields than the first allocation", many_fields},
    {"records with fewer and with more fields", short_and_long_records},
    {"quotes that end no field", stray_quotes},
    {"what is no such table", faults},
    {"150,000 columns", many_columns},
};
TEST_MAIN(cases)
