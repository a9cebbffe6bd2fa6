/* `dtbench report`: values of records, a comparison, a plan's answer and pictures of pipelines as
 * one HTML page that needs no network. */
#pragma once

#include "cli/records/result_lines.h"
#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The files of this folder, and Chart.js, "" where the build did not find it. */
extern const char report_html[], report_css[], report_js[], report_chart_js[];

/* The metrics and provenance that a report needs: a results_wish without a context. */
results_wish report_wish;

/* JSON texts of other parts; NULL: the page has none. */
struct report_parts {
    const char *compare; /* as `dtbench compare --format json` */
    const char *plan;    /* as `dtbench plan --json` */
    const char *pipelines;
};

/* The JSON that the page reads (report.js). Above 2,000 lines rates have 5 digits instead of 6, and
 * other numbers 3. Errors: DT_ERR_HOST_MEMORY through `to`. */
void report_write_data(const struct result_lines *lines, const struct report_parts *parts, FILE *to);

/* text [bytes] packed with zlib, as base64. *packed is false, and nothing is done, where dtbench
 * was built without zlib. Owner of *out: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status report_pack(const char *text, size_t bytes, char **out, bool *packed);

/* The whole page. Errors: DT_ERR_HOST_MEMORY. */
dt_status report_write(const struct result_lines *lines, const struct report_parts *parts, FILE *to);
