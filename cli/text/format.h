/* Numbers for people. */
#ifndef CLI_TEXT_FORMAT_H
#define CLI_TEXT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum { FORMAT_BYTES = 48 };

/* "162,052,608" */
const char *format_count(uint64_t value, char text[FORMAT_BYTES]);
/* Three significant digits or all before the point, thousands separated: "1,234", "45.6", "0.0312"; "-" for NaN. */
const char *format_number(double value, char text[FORMAT_BYTES]);
/* "0:42", "1:02:03" */
const char *format_duration(double seconds, char text[FORMAT_BYTES]);

/* One unit for a whole column, chosen by its largest value. */
struct unit {
    const char *name;
    double size;
};
struct unit unit_for_bytes(double largest);        /* KiB, MiB, GiB */
struct unit unit_for_seconds(double largest);      /* ms, s */
struct unit unit_for_durations(double shortest_s); /* hours, days, years: at least two of them */
struct unit unit_for_flops(double largest);        /* GFLOP, TFLOP, ... */

#endif
