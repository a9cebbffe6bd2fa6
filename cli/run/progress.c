#include "cli/run/run.h"

#include "cli/text/text.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Often enough for users, and rarely enough for a slow terminal. */
#define REDRAW_S 0.1

enum { LABEL_LEAST = 8 }; /* characters of the label that a narrow terminal still shows */

/* Draw the experiment, then `text`. A line longer than the terminal would scroll instead of being
 * redrawn. `text` matters more, so the label is shortened. Both are ASCII. */
static void draw(struct progress *p, const char *text)
{
    char line[512];
    int width = terminal_width(stderr) - 1, number = snprintf(line, sizeof line, "[%d/%d] ", p->index, p->experiments);
    int room = width - number - (int)strlen(text) - 2, whole = (int)strlen(p->label);
    if (room >= whole)
        snprintf(line + number, sizeof line - (size_t)number, "%s  %s", p->label, text);
    else
        snprintf(line + number, sizeof line - (size_t)number, "%.*s..  %s", room > LABEL_LEAST ? room - 2 : LABEL_LEAST, p->label, text);
    status_line("%.*s", width > 0 ? width : 0, line);
    p->drawn = true;
    p->drawn_s = dt_clock_s();
}

void progress_init(struct progress *progress, int experiments, bool quiet)
{
    *progress = (struct progress){.live = !quiet && terminal_is_live(stderr), .quiet = quiet, .experiments = experiments};
}

void progress_begin(struct progress *progress, int index, const char *label, int steps, double units_per_step, const char *unit)
{
    progress->index = index;
    progress->steps = steps;
    progress->units_per_step = units_per_step;
    progress->unit = unit;
    progress->steps_done = 0;
    snprintf(progress->label, sizeof progress->label, "%s", label);
    dt_printable(progress->label);
}

void progress_begin_one(struct progress *progress, int left)
{
    progress->left = left;
    progress->begun_s = dt_clock_s();
}

void progress_end_one(struct progress *progress)
{
    progress->ended++;
    progress->ended_s += dt_clock_s() - progress->begun_s;
}

/* Seconds until all experiments are done, if the remaining ones take the mean time of the finished
 * ones. Measured by the clock: simulated seconds do not count. */
static double seconds_left(const struct progress *p, double first_step_s)
{
    double now = dt_clock_s(), taken_s = now - p->begun_s;
    double step_s = p->steps_done > 1 ? (now - p->first_s) / (p->steps_done - 1) : fmin(first_step_s, taken_s);
    double left_s = step_s * (p->steps - p->steps_done);
    double one_s = (p->ended_s + taken_s + left_s) / (p->ended + 1);
    return left_s + (p->left > 1 ? one_s * (p->left - 1) : 0);
}

void progress_phase(struct progress *progress, const char *what)
{
    if (progress->live)
        draw(progress, what);
}

void progress_step(struct progress *progress, double seconds, double loss)
{
    char text[256], shown[32] = "", rate[FORMAT_BYTES], rest[FORMAT_BYTES];
    if (progress->steps_done == progress->steps)
        progress->steps++; /* the warm-up goes by time */
    if (progress->steps_done++ == 0)
        progress->first_s = dt_clock_s();
    if (!progress->live || (progress->steps_done > 1 && dt_clock_s() - progress->drawn_s < REDRAW_S))
        return;
    format_duration(seconds_left(progress, seconds), rest);
    format_number(seconds > 0 ? progress->units_per_step / seconds : 0, rate);
    if (!isnan(loss)) /* a simulated cluster computes no losses */
        snprintf(shown, sizeof shown, "  loss %.4f", loss);
    snprintf(text, sizeof text, "step %d/%d%s  %s %ss/s  ETA %s", progress->steps_done, progress->steps, shown, rate, progress->unit, rest);
    draw(progress, text);
}

void progress_clear(struct progress *progress)
{
    if (progress->drawn)
        status_clear();
    progress->drawn = false;
}

void progress_note(struct progress *progress, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    if (progress->quiet)
        return;
    progress_clear(progress);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    line_print(stderr, "dtbench: %s", text);
}
