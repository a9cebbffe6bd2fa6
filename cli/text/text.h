/* The command line and the terminal: options from a table, the arguments that name a config, exit
 * codes and failures; tables with aligned columns, numbers and texts for people, columns and labels
 * of experiments. */
#pragma once

#include "lib/base/status.h"
#include "lib/config/config.h"
#include "schedules/config/experiment.h"
#include "schedules/config/experiment_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Commands and their options, as tables: the command line is read by them, and the help, the manual
 * page and what shells complete come from them.
 *
 * "--name value" and "--name=value" mean the same, and so does "-n value" where there is a letter.
 * Names cannot be abbreviated, so that a new option breaks no script. "--" ends the options; "-"
 * alone is an argument. Every command has --help. */

enum option_kind {
    OPTION_FLAG, /* bool */
    OPTION_TEXT, /* const char *: at most once */
    OPTION_LIST, /* struct option_list: any number of times */
};

enum { OPTION_LIST_MAX = 256 };

struct option_list {
    const char *items[OPTION_LIST_MAX];
    int count;
};

struct option_row {
    const char *name; /* without "--" */
    char letter;      /* 0: none */
    enum option_kind kind;
    size_t offset;        /* offset of the value in the command's struct */
    const char *argument; /* "FILE", for the help; NULL for a flag. FILE and RECORDS are completed as files, DIR as a directory */
    const char *(*choice)(int index); /* word `index` of those that it accepts, alone or in a list; NULL past the last. NULL: any text */
    const char *help;                 /* a text, see paragraph_print */
};

struct command {
    const char *name;
    const char *summary;              /* in the list of commands */
    const char *usage;                /* "[OPTION]... FILE" */
    const char *description;          /* a text */
    const struct option_row *options; /* the last has a NULL name; --help is no row */
    struct {
        const char *name; /* of the positional argument; NULL: takes none */
        enum option_kind kind;
        size_t offset;
        const char *missing; /* what is said without one; NULL: it may be missing */
    } argument;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    bool exit_codes;                   /* the help ends with them */
    bool hidden;                       /* only for dtbench itself: not in the help */
};

/* The start of a command: read argv[1..argc) into the command's struct `target`, which must be zero,
 * and check the options' combination with `check` (NULL: no check). Strings remain argv's. False:
 * the command ends with *code, after its help, or after printing a failure of one line. */
bool options_begin(const struct command *command, int argc, char **argv, void *target, dt_status (*check)(void *target), int *code);

/* The value of an option that takes a whole number from 1 to `most`; without a text *out keeps its
 * value, the default. Errors: DT_ERR_INVALID. */
dt_status options_read_count(const char *option, const char *text, int most, int *out);

/* The value of an option that takes one of the words of `choice` (struct option_row): *out is its
 * number. Without a text *out keeps its value, the default. Errors: DT_ERR_INVALID, naming the
 * words. */
dt_status options_read_choice(const char *option, const char *text, const char *(*choice)(int index), int *out);

/* The value of an option that takes some of the words of `choice` (struct option_row),
 * comma-separated: chosen[i] becomes true for word i. Errors: DT_ERR_INVALID, naming the words. */
dt_status options_read_words(const char *option, const char *text, const char *(*choice)(int index), bool *chosen);

/* A condition of --where, such as "world_size>=8". */
enum relation { RELATION_IS, RELATION_IS_NOT, RELATION_BELOW, RELATION_AT_MOST, RELATION_ABOVE, RELATION_AT_LEAST };
struct option_condition {
    char key[128];
    enum relation relation;
    const char *sign;  /* of the relation */
    const char *value; /* in the text */
    double number;     /* the value; NAN: it is not a number */
};
/* Returns whether the text is one. */
bool option_condition_read(const char *text, struct option_condition *out);
bool option_condition_orders(const struct option_condition *condition); /* neither = nor != */
/* Whether a number meets a condition whose value is a number. NAN meets only !=. */
bool option_condition_holds(const struct option_condition *condition, double number);

void options_print_help(const struct command *command, FILE *to);

/* Write into out[out_bytes] the help of an option with the words that it accepts: "...: table, json
 * or markdown". */
void options_describe(const struct option_row *row, char *out, size_t out_bytes);

/* Print what a shell may offer for the last of `words`, which are the words of a command line after
 * the program's name, up to the cursor; the last may be "". Each line is a whole word that it may
 * become; ":files" and ":directories" mean that such names may replace the text after the word's
 * last "="; ":nospace" means that no blank follows. commands: the last is NULL. */
void completions_print(const struct command *const *commands, int count, const char *const *words, FILE *to);

/* ---- what `dtbench` returns, and how a command says that it failed ---- */

/* If several apply to a sweep, the first of interrupted, output, later, verify, failed, oom is
 * returned. */
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_OTHER = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_CONFIG = 3,
    EXIT_CODE_FAILED = 4,
    EXIT_CODE_OOM = 5,
    EXIT_CODE_VERIFY = 6,
    EXIT_CODE_OUTPUT = 7,
    EXIT_CODE_REGRESSION = 8,
    EXIT_CODE_INCOMPARABLE = 9,
    EXIT_CODE_LATER = 75,   /* sysexits.h calls it EX_TEMPFAIL: try again */
    EXIT_CODE_SIGNAL = 128, /* plus the signal's number: 129 for SIGHUP, 130 for SIGINT, 143 for SIGTERM */
};

struct exit_code_row {
    int code;
    const char *meaning;
};

/* Rows in the order of their numbers; the last one has a NULL meaning. The help, the manual page
 * and the docs are made from it. */
const struct exit_code_row *exit_code_table(void);

void exit_codes_print(FILE *to);

/* Print "dtbench COMMAND: the last failure's text" to stderr and return `code`; after a usage error
 * also say how to get help. */
int report_failure(const char *command, enum exit_code code);
/* The same after a failure in what the command was given to read: EXIT_CODE_CONFIG if that is wrong or not there. */
int report_wrong(const char *command, dt_status status);

/* ---- the arguments that choose the experiments: a config file, and changes to it ---- */

struct config_arguments {
    const char *file, *config; /* the same file, as an argument or by --config */
    const char *device, *from;
    struct option_list sets;
    const char *slow, *rates;
    bool passes_only; /* passed to experiments_read */
};

/* Rows of the option table that fill `member` of the command's struct `type`. */
#define CONFIG_OPTION_ROWS(type, member)                                                                                                   \
    {"config", 'c', OPTION_TEXT, offsetof(type, member.config), "FILE", NULL, "the same as FILE; '-' is standard input"},                  \
        {"set", 's', OPTION_LIST, offsetof(type, member.sets), "PATH=VALUE", NULL, CONFIG_SET_HELP},                                       \
        {"device", 'd', OPTION_TEXT, offsetof(type, member.device), "DEVICE", config_device_choice, "the same as --set device=DEVICE"},    \
    {                                                                                                                                      \
        "from", 0, OPTION_TEXT, offsetof(type, member.from), "FOLDER", NULL, CONFIG_FROM_HELP                                              \
    }

/* For commands that predict: the option row that fills `member` with the text of --slow. */
#define CONFIG_SLOW_ROW(type, member) {"slow", 0, OPTION_TEXT, offsetof(type, member), "WHAT", NULL, CONFIG_SLOW_HELP}

/* For the same commands: the option row that fills `member` with the text of --rates. */
#define CONFIG_RATES_ROW(type, member) {"rates", 0, OPTION_TEXT, offsetof(type, member), "FILE", NULL, CONFIG_RATES_HELP}

/* The setting that --rates stands for, in the form of --set. */
enum { RATES_SET_BYTES = 600 };
const char *config_rates_set(const char *rates, char out[RATES_SET_BYTES]);

/* The settings that --slow stands for, in the form of --set. */
enum { SLOW_SETS = 3, SLOW_SET_BYTES = 64 };
struct slow_sets {
    char texts[SLOW_SETS][SLOW_SET_BYTES];
    int count;
};
/* text: "rank=3,by=10%"; NULL gives no settings. Errors: DT_ERR_INVALID with one line. */
dt_status config_slow_sets(const char *text, struct slow_sets *out);

#define CONFIG_FROM_HELP "the same as --set checkpoint.from=FOLDER: continue from a checkpoint"

#define CONFIG_SLOW_HELP                                                                                                                   \
    "sim: one rank's hardware is slower than that of the others: rank=3,by=10% is a GPU at 90 % of its speed; part=node, part=link and "   \
    "part=card are all GPUs of its node, its link to them, and its network card. The same as --set slow.rank=3 and so on"

#define CONFIG_RATES_HELP                                                                                                                  \
    "sim: predict collectives or matrix products from this table of measured ones, as far as it goes; several are separated by ':'. The "  \
    "same as --set rates=FILE"

#define CONFIG_SET_HELP                                                                                                                    \
    "change the config before it is read: --set model.dtype=bf16 or --set sweep.batch_size=[1,2,4]. The value is JSON, or a string where " \
    "it is not JSON. Any number of times. Setting a path removes it from the sweep"

/* The devices that a config may name. */
const char *config_device_choice(int index);

/* Called when the options are read: checks that there is one config, and that each --set has a value.
 * Errors: DT_ERR_INVALID. */
dt_status config_arguments_check(struct config_arguments *arguments);

/* The experiments, resolved. Owner of *out: the caller, experiment_list_destroy. Errors: as
 * experiments_read. */
dt_status config_arguments_read(const struct config_arguments *arguments, struct experiment_list **out);

/* Does a config file have `key` in its top-level `object`? Then no default is applied. No file
 * (NULL), and standard input, which can be read only once, count as having none. Errors: as
 * dt_read_file, dt_json_parse. */
dt_status config_file_says(const char *file, const char *object, const char *key, bool *out);

/* Print to standard error how many combinations of the sweep are left out, and why; no output if
 * there are none. */
void config_note_left_out(const struct experiment_list *experiments);

/* ---- numbers for people ---- */

enum { FORMAT_BYTES = 48 };

/* "162,052,608" */
const char *format_count(uint64_t value, char text[FORMAT_BYTES]);
/* Three significant digits, or all digits before the point, with thousands separated: "1,234",
 * "45.6", "0.0312"; "-" for NaN. */
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

/* ---- lines with text from other sources: records, names of files, messages of libraries ---- */

/* All of it is made printable (lib/base/text.h), so that no text reaches the terminal as a command.
 * On a terminal a line is broken between words, and continues with an indent of two columns; a
 * single word, such as a path, may be wider than the terminal. Elsewhere a line is not broken, for
 * programs that read it. */

enum { LINE_BYTES = 4096 }; /* of one part */

/* A line that is written in parts: the members belong to format.c. */
struct line {
    FILE *to;
    int width;  /* of the terminal; 0: 0: not a terminal */
    int column; /* after the printed words */
    int blanks; /* blanks to print before the next word */
    size_t used;
    char word[LINE_BYTES]; /* current word, which the next part may continue */
};

void line_begin(struct line *line, FILE *to);
/* Add a part without a newline. Text longer than LINE_BYTES is cut. */
void line_add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print the last word and a newline. */
void line_end(struct line *line);

/* A whole line. */
void line_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print a text in Markdown, with a backslash before characters that have a meaning in Markdown,
 * HTML or formulas, especially a table's bar. Text longer than LINE_BYTES is cut. */
void text_print_markdown(const char *foreign, FILE *to);

/* Texts for people. Each line of a text is a paragraph, which is wrapped when it is printed; an
 * empty line separates paragraphs. A line that begins with a blank is a command and printed
 * unchanged, or on a narrower terminal broken so that a shell still reads it. */

enum { PARAGRAPH_COLUMNS = 110 };

/* Print `text` from column `indent` to PARAGRAPH_COLUMNS, or to the width of a narrower terminal,
 * and a newline. The first line continues the caller's line. */
void paragraph_print(const char *text, int indent, FILE *to);

/* The unit of all rows of a table, found one row after the other: `all` so far, NULL at first, and this row's, NULL for none.
 * "unit" if they differ. */
const char *unit_in_common(const char *all, const char *unit);

/* ---- what the terminal can do ---- */

/* Numbers of SGR escapes; NONE: no escape. */
enum colour { COLOUR_NONE = 0, COLOUR_RED = 31, COLOUR_GREEN = 32, COLOUR_YELLOW = 33 };

/* Can a line be overwritten? On a terminal, unless TERM is "dumb". */
bool terminal_is_live(FILE *stream);
/* Can colours be used? Where terminal_is_live, unless NO_COLOR is set (https://no-color.org). */
bool terminal_has_colour(FILE *stream);
/* Write over the last line of the terminal, on standard error; or clear it. */
void status_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void status_clear(void);
int terminal_width(FILE *stream);   /* without a terminal: the environment's COLUMNS, or 80 */
int terminal_columns(FILE *stream); /* 0: not a terminal */
/* Characters of UTF-8 text, as a terminal counts them for letters and digits. */
int text_width(const char *text);

/* ---- tables of text whose columns line up, whatever their content ---- */

struct table;

/* How a column is printed; flags. */
enum table_column {
    TABLE_LEFT = 0,
    TABLE_RIGHT = 1,
    TABLE_UNIT = 2,  /* the title's last line is the unit */
    TABLE_STAYS = 4, /* shown even if it is equal in all rows */
    TABLE_KEY = 8,   /* distinguishes rows, as the first column always does */
};

/* Owner: the caller. If memory runs out in any call, table_print reports it. */
struct table *table_create(void);
void table_destroy(struct table *table); /* takes NULL */
DT_DESTROYS(table_destroy, struct table)

/* All columns come before the first row. A title of two lines ("step\nms") takes two lines. */
void table_column(struct table *table, int flags, const char *title, ...) __attribute__((format(printf, 3, 4)));
/* Several columns with the same flags. */
#define table_columns(table, flags, ...) table_columns_of(table, flags, (const char *const[]){__VA_ARGS__, NULL})
void table_columns_of(struct table *table, int flags, const char *const *titles); /* the last is NULL */
/* Set the text above the table. */
void table_heading(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next cell: row by row, all columns of each. Its text is made printable (lib/base/text.h). */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_text(struct table *table, const char *text); /* the same for a text without a format */
void table_number(struct table *table, double value);   /* as format_number writes it */
/* The same with the cell in a colour (an SGR number such as 31), which takes no width; 0: none. */
void table_colour_cell(struct table *table, int colour, const char *text);

/* Print at most as wide as the terminal, or 80 columns without one. Values that are equal in all of
 * several rows are shown in the heading, and columns without any value are left out. If the table
 * is still too wide, gaps become narrower; then long words are broken in their cells; then the
 * remaining columns follow in further tables, with the keys. Errors: DT_ERR_HOST_MEMORY, if a cell
 * could not be stored; nothing is printed then. */
dt_status table_print(const struct table *table, FILE *to);
/* The same, and destroy it. */
dt_status table_end(struct table *table, FILE *to);

/* ---- the differences between a run's experiments: columns of a table, and a label for each
 * ---- */

enum { COLUMNS_MAX = 12, VALUE_BYTES = 96, LABEL_BYTES = 192 };

struct experiment_columns {
    const struct dt_field *fields[COLUMNS_MAX]; /* name, paradigm, world_size and batch_size are not among them */
    int count;
    bool names_differ, worlds_differ, batches_differ, models_differ;
};

void experiment_columns_find(const struct experiment *experiments, int count, struct experiment_columns *out);

/* The same of experiments in several places, one after the other. Starts zeroed. */
enum { FIELDS_MAX = 512 }; /* the table has fewer */
struct experiment_differences {
    const struct experiment *first; /* NULL: none yet */
    bool fields[FIELDS_MAX];        /* which fields differ */
};
void experiment_differences_add(struct experiment_differences *differences, const struct experiment *experiment); /* takes NULL */
void experiment_columns_choose(const struct experiment_differences *differences, struct experiment_columns *out);
/* Does the default of the key at `path` follow from the key at `from`, as loss_scaling's from
 * model.dtype? */
bool experiment_field_follows(const char *path, const char *from);
/* The short name of a field: "dtype" for model.dtype. */
const char *experiment_key_title(const char *path);
/* A column with the key's title; a long one takes two lines, as its values are short: "parameter"
 * over "offload". */
void experiment_key_column(struct table *table, const char *path);
/* A config's text as shown to people: "dgx_a100" of "clusters/dgx_a100.json"; of other files the path,
 * "mine/c" of "mine/c.json"; "-" for none. Of a very long text the end. */
void experiment_text_shown(const char *value, char text[VALUE_BYTES]);
void experiment_value(const struct experiment *experiment, const struct dt_field *field, char text[VALUE_BYTES]);
/* Add a row's cells: the name where names differ, the paradigm, the ranks, the batch, and the
 * columns' values, "-" where a key has no effect on the experiment. */
void experiment_value_cells(struct table *table, const struct experiment *experiment, const struct experiment_columns *columns);
void experiment_cells(struct table *table, const struct experiment *experiment, const struct experiment_columns *columns);

/* "ddp, batch 8, dtype fp32, parameter_offload": the experiment's differences from the others.
 * LABEL_BYTES is enough for all but very unusual sweeps. */
void experiment_label(const struct experiment *experiment, const struct experiment_columns *columns, char *text, size_t text_bytes);

/* ---- the remark below figures of device sim: predicted, for which cluster and with which profile
 * ---- */

enum { PREDICTIONS_BYTES = 704 };

/* Zeroed at first. */
struct predictions {
    int predicted, measured;           /* experiments */
    char clusters[192], profiles[192]; /* "gcp_a2, dgx_a100": each once; a file that is not dtbench's own by its path */
    char rates[192];
};

void predictions_add(struct predictions *all, const struct experiment *experiment);
/* Add a predicted experiment, with its cluster and profile. */
void predictions_add_files(struct predictions *all, const char *cluster, const char *profile);

/* "predicted, not measured: cluster gcp_a2, profile pytorch_1.11_a100". Where some rows are
 * measured, the text begins with "the rows of device sim are"; "" where nothing is predicted.
 * Returns text. */
const char *predictions_describe(const struct predictions *all, char text[PREDICTIONS_BYTES]);
