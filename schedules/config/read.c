/* From a config to experiments: overrides, the combinations of its sweep, then every experiment by
 * itself. */
#include "schedules/config/parse.h"

#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "schedules/config/order.h"
#include "schedules/config/tuning.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE_BYTES = 512 };

struct source {
    const char *name; /* named in errors */
    const char *file; /* path of the config, whose order and tuning files are checked; NULL: the config is a text */
    bool passes_only; /* as in experiment.h */
    struct experiment_resolver last;
};

/* Reading a combination: on top of `base`, the config without its sweep. */
struct reading {
    struct dt_sweep *sweep;
    struct source *source;
    const struct experiment *base;
    const bool *base_given;
    bool *given; /* the combination's own */
};

/* Read and complete combination `index`. */
static dt_status read_combination(struct reading *r, int index, const char *where, struct experiment *out)
{
    memcpy(out, r->base, sizeof *out);
    memcpy(r->given, r->base_given, (size_t)experiment_table()->count * sizeof *r->given);
    DT_TRY(dt_sweep_read(experiment_table(), r->sweep, index, where, out, r->given));
    DT_TRY(experiment_resolve_next(out, r->given, where, &r->source->last));
    if (!r->source->file)
        return DT_OK;
    DT_TRY(experiment_check_tuning(out, where));
    return experiment_check_order(out, where);
}

/* Errors name the combination, for which it is read a second time. */
static dt_status resolve_combination(struct reading *r, int index, struct experiment *out)
{
    char where[WHERE_BYTES], combination[WHERE_BYTES / 2];
    if (read_combination(r, index, "", out) == DT_OK)
        return DT_OK;
    dt_sweep_describe(r->sweep, index, combination, sizeof combination);
    snprintf(where, sizeof where, "%.200s%s%s", r->source->name, *combination ? ": sweep " : "", combination);
    return read_combination(r, index, where, out);
}

/* The folder of a config file, where its cluster and profile are looked for first. */
static dt_status set_directory(const char *source, struct experiment *base)
{
    const char *slash = strrchr(source, '/');
    DT_FREED char *folder = strndup(source, slash ? (size_t)(slash - source) : 0);
    DT_TRY(dt_allocated(folder, "%s: out of memory", source));
    return dt_intern_into(&base->directory, folder);
}

static dt_status read_base(const struct cJSON *config, const struct source *source, struct experiment *base, bool *given,
                           struct dt_sweep *sweep)
{
    DT_TRY(dt_config_defaults(experiment_table(), base));
    base->passes_only = source->passes_only;
    DT_TRY(set_directory(source->name, base));
    struct dt_failures failures = {0};
    dt_failures_add(&failures, dt_config_read(experiment_table(), config, source->name, base, given));
    dt_failures_add(&failures, dt_sweep_init(experiment_table(), config, source->name, sweep));
    return dt_failures_end(&failures);
}

/* ---- equal combinations ---- */

/* The name is added since the hash leaves it out. */
static uint64_t key_of(const struct experiment *e)
{
    return dt_hash_fnv1a_more(dt_hash_fnv1a(e->hash, strlen(e->hash)), e->name, strlen(e->name));
}

/* A sweep multiplies paradigms by keys that not all of them read. Of combinations that differ only
 * in unread keys the first one stays. A combination that is written twice stays, too: this is
 * intended. */
static dt_status drop_repeated(struct experiment_list *list, struct dt_place *places)
{
    int count = list->count;
    DT_FREED bool *dropped = calloc((size_t)count, sizeof *dropped);
    DT_TRY(dt_allocated(dropped, "out of memory for %d experiments", count));
    dt_places_sort(places, count);
    for (int i = 1, first = 0; i < count; i++) {
        bool repeats = places[first].key == places[i].key;
        first = repeats ? first : i;
        dropped[places[i].at] = repeats && memcmp(&list->all[places[first].at], &list->all[places[i].at], sizeof *list->all) != 0;
    }
    list->count = 0;
    for (int i = 0; i < count; i++)
        if (!dropped[i])
            memmove(&list->all[list->count++], &list->all[i], sizeof *list->all);
    return DT_OK;
}

/* ---- which paradigms the pipeline is for ---- */

static bool is_pdp(const struct cJSON *value)
{
    return cJSON_IsString(value) && strcmp(value->valuestring, paradigm_name(PARADIGM_PDP)) == 0;
}

/* Whether the config, or its sweep, names pdp. */
static bool names_pdp(const struct cJSON *config)
{
    const struct cJSON *swept = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(config, "sweep"), "paradigm");
    const struct cJSON *cases = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(config, "sweep"), DT_SWEEP_CASES);
    for (const struct cJSON *value = swept ? swept->child : NULL; value; value = value->next)
        if (is_pdp(value))
            return true;
    for (const struct cJSON *value = cases ? cases->child : NULL; value; value = value->next)
        if (is_pdp(cJSON_GetObjectItemCaseSensitive(value, "paradigm")))
            return true;
    return is_pdp(cJSON_GetObjectItemCaseSensitive(config, "paradigm"));
}

/* Whether an override sets pipeline.stages, by itself or in a sweep. */
static bool sets_stages(const char *const *sets, int set_count)
{
    for (int i = 0; i < set_count; i++) {
        const char *path = strncmp(sets[i], "sweep.", 6) == 0 ? sets[i] + 6 : sets[i];
        if (strncmp(path, "pipeline.stages=", 16) == 0 || strncmp(path, "pipeline=", 9) == 0)
            return true;
    }
    return false;
}

/* Set pipeline.paradigms if the config does not. A pipeline that is written for pdp among other
 * paradigms stays pdp's if an override chooses another paradigm, unless overrides also set
 * stages. */
static void find_reach(const struct cJSON *config, bool was_for_pdp, struct experiment *base, bool *given)
{
    int index = dt_config_find(experiment_table(), "pipeline.paradigms");
    if (given[index] || !(was_for_pdp || names_pdp(config)))
        return;
    base->pipeline.paradigms = PIPELINE_OF_PDP;
    given[index] = true;
}

/* Report the combinations that are left out. */
static void leave_out(const struct dt_failures *impossible, int count, int combinations, struct experiment_list *list)
{
    struct left_out *left_out = &list->left_out;
    left_out->count = count;
    left_out->of = combinations;
    snprintf(left_out->first, sizeof left_out->first, "%.*s", (int)strcspn(impossible->text, "\n"), impossible->text);
}

/* After a failure the other combinations are read, too, so that all errors are reported at once. */
static dt_status resolve_combinations(struct reading *r, struct experiment_list *list)
{
    int count = r->sweep->combinations, left_out = 0;
    struct experiment one;
    struct dt_failures wrong = {0}, impossible = {0};
    DT_FREED struct dt_place *places = malloc((size_t)count * sizeof *places);
    DT_TRY(dt_allocated(places, "%s: out of memory for %d experiments", r->source->name, count));
    for (int i = 0; i < count; i++) {
        dt_status status = resolve_combination(r, i, &one);
        DT_THEN(status, experiment_list_add(list, &one));
        bool is_impossible = status < 0 && r->source->last.impossible;
        dt_failures_add(is_impossible ? &impossible : &wrong, status);
        left_out += is_impossible;
        if (status == DT_OK)
            places[list->count - 1] = (struct dt_place){key_of(&one), list->count - 1};
    }
    DT_TRY(dt_failures_end(left_out == count ? &impossible : &wrong));
    leave_out(&impossible, left_out, count, list);
    return drop_repeated(list, places);
}

static dt_status resolve_all(const struct cJSON *config, bool for_pdp, struct source *source, struct experiment_list *list)
{
    const struct dt_table *table = experiment_table();
    DT_FREED struct experiment *base = calloc(1, sizeof *base);
    DT_FREED struct dt_sweep *sweep = malloc(sizeof *sweep);
    DT_FREED bool *base_given = calloc(2 * (size_t)table->count, sizeof *base_given); /* followed by the marks of each combination */
    DT_TRY(dt_allocated(base && sweep && base_given, "%s: out of memory", source->name));
    DT_TRY(read_base(config, source, base, base_given, sweep));
    find_reach(config, for_pdp, base, base_given);
    return resolve_combinations(&(struct reading){sweep, source, base, base_given, base_given + table->count}, list);
}

/* Apply the overrides. They need a JSON object: check first that the config is one. */
static dt_status override(struct cJSON *config, const char *source, const char *const *sets, int set_count)
{
    if (set_count > 0)
        DT_TRY(dt_config_read(experiment_table(), config, source, NULL, NULL));
    struct dt_failures failures = {0};
    for (int i = 0; i < set_count; i++)
        dt_failures_add(&failures, dt_config_set(experiment_table(), config, sets[i]));
    return dt_failures_end(&failures);
}

static dt_status parse(const char *text, size_t length, struct source *source, const char *const *sets, int set_count,
                       struct experiment_list **out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *config = NULL;
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *list = calloc(1, sizeof *list);
    *out = NULL;
    DT_TRY(dt_allocated(list, "no memory for experiments"));
    DT_TRY(dt_json_parse(text, length, source->name, &config));
    bool for_pdp = names_pdp(config) && !sets_stages(sets, set_count);
    DT_TRY(override(config, source->name, sets, set_count));
    DT_TRY(resolve_all(config, for_pdp, source, list));
    *out = DT_PASSED_ON(list);
    return DT_OK;
}

dt_status experiments_parse_list(const char *text, size_t length, const char *source, const char *const *sets, int set_count,
                                 struct experiment_list **out)
{
    return parse(text, length, &(struct source){.name = source}, sets, set_count, out);
}

dt_status experiments_parse(const char *text, size_t length, const char *source, const char *const *sets, int set_count,
                            struct experiment **out, int *count)
{
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *list = NULL;
    DT_TRY(experiments_parse_list(text, length, source, sets, set_count, &list));
    *count = list->count;
    *out = DT_PASSED_ON(list->all);
    return DT_OK;
}

dt_status experiments_read(const char *path, const char *const *sets, int set_count, bool passes_only, struct experiment_list **out)
{
    DT_FREED char *text = NULL;
    size_t length;
    DT_TRY(dt_read_file(path, &text, &length));
    struct source source = {.name = strcmp(path, "-") == 0 ? "standard input" : path, .file = path, .passes_only = passes_only};
    return parse(text, length, &source, sets, set_count, out);
}

dt_status experiment_set_environment(const struct experiment *e)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *settings = NULL;
    if (!*e->nccl)
        return DT_OK;
    DT_TRY(dt_json_parse(e->nccl, strlen(e->nccl), "nccl", &settings));
    for (const struct cJSON *s = settings->child; s; s = s->next)
        DT_TRY(dt_allocated(setenv(s->string, s->valuestring, 1) == 0, "no memory for %s in the environment", s->string));
    return DT_OK;
}

/* ---- lists of experiments ---- */

void experiment_list_destroy(struct experiment_list *list)
{
    free(list ? list->all : NULL);
    free(list);
}

dt_status experiment_list_add(struct experiment_list *list, const struct experiment *e)
{
    DT_TRY(dt_allocated(DT_ROOM(list->all, list->count, list->room), "no memory for %d experiments", list->count + 1));
    memcpy(&list->all[list->count++], e, sizeof *e);
    return DT_OK;
}
