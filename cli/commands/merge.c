/* `dtbench merge`: the records of many writers in one file. */
#include "cli/commands/commands.h"

#include "cli/records/records.h"
#include "cli/text/text.h"
#include "lib/base/output_file.h"
#include "lib/config/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct command_options {
    struct option_list records;
    const char *output;
    bool force;
};

#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"output", 'o', OPTION_TEXT, AT(output), "FILE", NULL, "write the records to this file, all or none; default: '-', standard output"},
    {"force", 'f', OPTION_FLAG, AT(force), NULL, NULL, "replace FILE if it exists, even if it is one of RECORDS"},
    {0},
};

/* A record's position: its sweep, numbered where that first occurs, and its place in the sweep. */
struct place {
    int group, index, record;
};

static int by_place(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return (a->record > b->record) - (a->record < b->record);
}

/* Sort chosen[count] by sweep, and by place in the sweep. */
static dt_status sort_by_sweep(const struct record_set *set, int *chosen, int count)
{
    DT_FREED struct place *places = malloc(((size_t)count + 1) * sizeof *places);
    DT_TRY(dt_allocated(places, "no memory for %d records", count));
    for (int i = 0; i < count; i++) {
        const struct record_facts *record = &set->records[chosen[i]];
        places[i] = (struct place){i, record->sweep.index, chosen[i]};
        if (*record->sweep.id == 0)
            continue;
        int first = 0; /* records of a sweep mostly follow each other: only a new sweep is searched for */
        if (i > 0 && strcmp(set->records[chosen[i - 1]].sweep.id, record->sweep.id) == 0) {
            places[i].group = places[i - 1].group;
            continue;
        }
        while (strcmp(set->records[chosen[first]].sweep.id, record->sweep.id) != 0)
            first++;
        places[i].group = first;
    }
    qsort(places, (size_t)count, sizeof *places, by_place);
    for (int i = 0; i < count; i++)
        chosen[i] = places[i].record;
    return DT_OK;
}

static dt_status write_records(const struct record_set *set, const int *chosen, int count, FILE *to, const char *name)
{
    for (int i = 0; i < count; i++) {
        char *line;
        DT_TRY(dt_json_print(set->records[chosen[i]].json, DT_JSON_COMPACT, &line));
        fprintf(to, "%s\n", line);
        free(line);
    }
    errno = 0;
    if (fflush(to) != 0 || ferror(to))
        return dt_fail(DT_ERR_IO, "cannot write %s: %s", name, errno ? strerror(errno) : "write error");
    return DT_OK;
}

static dt_status write_file(const struct record_set *set, const int *chosen, int count, const char *path, bool force)
{
    struct dt_output_file file;
    bool exists = access(path, F_OK) == 0 && !dt_output_is_stream(path);
    if (exists && !force)
        return dt_fail(DT_ERR_IO, "%s exists; --force replaces it", path);
    if (exists && set->newer > 0) /* the newer records may be in this file */
        return dt_fail(DT_ERR_IO, "%s is not replaced: %d record%s of a newer dtbench would be lost", path, set->newer,
                       set->newer > 1 ? "s" : "");
    DT_TRY(dt_output_open(path, &file));
    file.only_new = !force;
    dt_status status = write_records(set, chosen, count, file.stream, path), closed = dt_output_close(&file, status == DT_OK);
    return status < 0 ? status : closed;
}

/* One record of each experiment, in the order of their sweeps. */
static dt_status write_merged(const struct record_set *set, int *chosen, const struct command_options *o)
{
    struct predictions predictions = {0};
    char predicted[PREDICTIONS_BYTES];
    int count, ok = 0;
    DT_TRY(record_set_newest(set, chosen, &count));
    DT_TRY(sort_by_sweep(set, chosen, count));
    if (!o->output || strcmp(o->output, "-") == 0)
        DT_TRY(write_records(set, chosen, count, stdout, "standard output"));
    else
        DT_TRY(write_file(set, chosen, count, o->output, o->force));
    for (int i = 0; i < count; i++) {
        const struct record_facts *record = &set->records[chosen[i]];
        ok += record_is_ok(record);
        if (record->experiment)
            predictions_add(&predictions, record->experiment);
    }
    predictions_describe(&predictions, predicted);
    line_print(stderr, "dtbench merge: %d record%s from %d file%s: %d experiment%s, %d ok%s%s", set->count, set->count == 1 ? "" : "s",
               set->file_count, set->file_count == 1 ? "" : "s", count, count == 1 ? "" : "s", ok, *predicted ? "; " : "", predicted);
    return DT_OK;
}

static int merge(const struct record_set *set, const struct command_options *o)
{
    DT_FREED int *chosen = malloc(((size_t)set->count + 1) * sizeof *chosen);
    dt_status status = chosen ? write_merged(set, chosen, o) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for %d records", set->count);
    if (status == DT_OK)
        return EXIT_CODE_OK;
    return report_failure("merge", status == DT_ERR_IO ? EXIT_CODE_OUTPUT : EXIT_CODE_OTHER);
}

static int run(int argc, char **argv)
{
    struct command_options o = {0};
    DT_ENDED(record_set_finish) struct record_set set = {0};
    int code;
    if (!options_begin(&command_merge, argc, argv, &o, NULL, &code))
        return code;
    code = record_arguments_read("merge", o.records.items, o.records.count, false, &set);
    if (code == EXIT_CODE_OK)
        code = merge(&set, &o);
    return code;
}

const struct command command_merge = {
    .name = "merge",
    .summary = "merge the records of many jobs, one for each experiment",
    .usage = "[OPTION]... RECORDS...",
    .description = "Merges the records that several jobs wrote, each into a file of its own: one record for each experiment, in the "
                   "order of their sweep. Several sweeps, and records of no sweep, keep the order in which they are read. "
                   "Incomplete lines are left out with a warning.\n"
                   "\n" RECORD_ARGUMENTS_HELP,
    .options = options,
    .argument = {"records", OPTION_LIST, AT(records), RECORDS_MISSING},
    .run = run,
};
