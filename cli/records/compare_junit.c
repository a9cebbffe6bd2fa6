/* A comparison as JUnit's XML, which GitLab, Jenkins and others show as tests: an experiment is a test case, a regression its failure. */
#include "cli/records/compare.h"

#include "lib/base/text.h"

#include <math.h>
#include <string.h>

enum { TEXT_BYTES = 2048 };

/* Text of an element or attribute, UTF-8. XML 1.0 has neither control characters, in whatever form, nor U+FFFE and U+FFFF. */
static void put(const char *foreign, FILE *to)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%s", foreign);
    dt_printable(text);
    for (const char *at = text; *at; at++) {
        char c = *at;
        if (strncmp(at, "\xef\xbf\xbe", 3) == 0 || strncmp(at, "\xef\xbf\xbf", 3) == 0) {
            fputc('?', to);
            at += 2;
        } else if (c == '&')
            fputs("&amp;", to);
        else if (c == '<')
            fputs("&lt;", to);
        else if (c == '>')
            fputs("&gt;", to);
        else if (c == '"')
            fputs("&quot;", to);
        else
            fputc(c, to);
    }
}

static void put_details(const struct comparison *row, FILE *to)
{
    if (!isnan(row->ratio.low))
        fprintf(to, "throughput ratio %.4f, interval %.4f to %.4f\n", row->ratio.ratio, row->ratio.low, row->ratio.high);
    put(row->reason, to);
}

static void put_case(const struct comparison *row, FILE *to)
{
    const struct record_facts *record = row->new ? row->new : row->base;
    double seconds = 0;
    for (int i = 0; i < row->new_steps.count; i++)
        seconds += isfinite(row->new_steps.step_s[i]) ? row->new_steps.step_s[i] : 0;
    fputs("    <testcase classname=\"", to);
    put(record->experiment ? record->experiment->name : "dtbench", to);
    fputs("\" name=\"", to);
    put(row->label, to);
    fprintf(to, "\" time=\"%.6f\">\n", seconds);
    if (row->regressions) {
        fprintf(to, "      <failure type=\"%s\" message=\"%s", compare_verdict_name(row->verdict), compare_verdict_name(row->verdict));
        for (unsigned gate = 1; gate < GATE_ALL; gate <<= 1)
            if (row->regressions & gate)
                fprintf(to, ", regression in %s", compare_gate_name((enum compare_gate)gate));
        fputs("\">", to);
        put_details(row, to);
        fputs("</failure>\n", to);
    } else if (!row->new) {
        fputs("      <skipped message=\"missing\"/>\n", to);
    } else {
        fprintf(to, "      <system-out>%s\n", compare_verdict_name(row->verdict));
        put_details(row, to);
        fputs("</system-out>\n", to);
    }
    fputs("    </testcase>\n", to);
}

void compare_print_junit_error(const char *error, FILE *to)
{
    fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                "  <testsuite name=\"dtbench compare\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\n"
                "    <testcase classname=\"dtbench\" name=\"compare\">\n      <error message=\"nothing was compared\">");
    put(error, to);
    fputs("</error>\n    </testcase>\n  </testsuite>\n</testsuites>\n", to);
}

dt_status compare_print_junit(const struct compare *c, const struct compare_options *o, FILE *to)
{
    int skipped = 0;
    (void)o;
    for (int i = 0; i < c->count; i++)
        skipped += !c->rows[i].new && !c->rows[i].regressions;
    fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    fprintf(to, "  <testsuite name=\"dtbench compare\" tests=\"%d\" failures=\"%d\" errors=\"0\" skipped=\"%d\">\n", c->count,
            c->regressions, skipped);
    if (*c->predicted) {
        fputs("    <properties><property name=\"predicted\" value=\"", to);
        put(c->predicted, to);
        fputs("\"/></properties>\n", to);
    }
    for (int i = 0; i < c->count; i++)
        put_case(&c->rows[i], to);
    fprintf(to, "  </testsuite>\n</testsuites>\n");
    return DT_OK;
}
