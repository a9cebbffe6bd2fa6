#include "cli/report/report.h"

#include <stdlib.h>
#include <string.h>

/* Escape '<', which could begin the end of the script element. JSON has '<' in texts only. */
static void put_json(const char *text, FILE *to)
{
    for (const char *c = text; *c; c++)
        fputs(*c == '<' ? "\\u003c" : (char[]){*c, 0}, to);
}

/* The template with its marks "@NAME@" replaced. */
static void put_page(const char *data, bool packed, FILE *to)
{
    const struct {
        const char *mark, *text;
        bool json;
    } parts[] = {{"@CSS@", report_css, false},
                 {"@DATA_TYPE@", packed ? "application/octet-stream" : "application/json", false},
                 {"@DATA@", data, !packed},
                 {"@CHART@", report_chart_js, false},
                 {"@JS@", report_js, false}};
    const char *rest = report_html;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *mark = strstr(rest, parts[i].mark);
        fwrite(rest, 1, (size_t)(mark - rest), to);
        if (parts[i].json)
            put_json(parts[i].text, to);
        else
            fputs(parts[i].text, to);
        rest = mark + strlen(parts[i].mark);
    }
    fputs(rest, to);
}

dt_status report_write(const struct result_lines *lines, const struct report_parts *parts, FILE *to)
{
    DT_FREED char *data = NULL, *small = NULL;
    size_t bytes = 0;
    bool packed;
    FILE *stream = open_memstream(&data, &bytes);
    DT_TRY(dt_allocated(stream, "no memory for a report"));
    report_write_data(lines, parts, stream);
    bool failed = ferror(stream);
    DT_TRY(dt_allocated(fclose(stream) == 0 && !failed, "no memory for a report"));
    DT_TRY(report_pack(data, bytes, &small, &packed));
    put_page(packed ? small : data, packed, to);
    return DT_OK;
}
