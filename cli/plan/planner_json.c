#include "cli/plan/planner_json.h"

#include "cli/plan/confidence.h"
#include "cli/plan/strategy.h"
#include "lib/base/output_file.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "schedules/run/report.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a plan's JSON");
}

/* Of the candidate at `place`. Owner of *out: the caller. */
static dt_status config_of(const struct planner *p, int place, cJSON **out)
{
    struct experiment e;
    char *text;
    DT_TRY(planner_experiment(p, place, &e));
    DT_TRY(experiment_to_json(&e, DT_JSON_COMPACT, &text));
    dt_status status = dt_json_parse(text, strlen(text), "plan", out);
    free(text);
    return status;
}

static bool add_lines(cJSON *object, const char *key, const struct why *w)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    bool kept = array != NULL;
    for (int i = 0; kept && i < w->count; i++)
        kept = cJSON_AddItemToArray(array, cJSON_CreateString(w->lines[i]));
    return kept;
}

static bool add_amount(cJSON *object, const char *key, double value)
{
    return (isfinite(value) ? cJSON_AddNumberToObject(object, key, value) : cJSON_AddNullToObject(object, key)) != NULL;
}

static bool add_numbers(cJSON *object, const struct planner *p, int place, const struct experiment *e)
{
    const struct search_outcome *o = planner_outcome(p, place);
    struct confidence c = confidence_of(e, &p->machine);
    double gpu_hours = e->world_size / o->tokens_per_s * 1e9 / 3600;
    return add_amount(object, "tokens_per_s", o->tokens_per_s) && add_amount(object, "peak_bytes", o->peak_bytes) &&
           add_amount(object, "host_peak_bytes", o->host_peak_bytes) && add_amount(object, "step_s", o->step_s) &&
           add_amount(object, "forward_s", o->step.forward_s) && add_amount(object, "backward_s", o->step.backward_s) &&
           add_amount(object, "optimizer_s", o->step.optimizer_s) && add_amount(object, "exposed_comm_s", o->step.exposed_comm_s) &&
           add_amount(object, "bubble_s", o->step.bubble_s) && add_amount(object, "host_s", o->step.host_s) &&
           add_amount(object, "gpu_hours_per_1e9_tokens", gpu_hours) && add_amount(object, "hours", p->tokens / o->tokens_per_s / 3600) &&
           cJSON_AddNumberToObject(object, "alike", why_alike(p, place)) &&
           add_amount(object, "joules_per_token", planner_joules_per_token(p, place)) &&
           add_amount(object, "margin", why_margin(p, place)) &&
           cJSON_AddBoolToObject(object, "margin_tells", place > 0 && why_margin_tells(p, place)) &&
           add_amount(object, "known_error", c.error) && cJSON_AddBoolToObject(object, "mode_measured", c.measured);
}

static dt_status add_plan(cJSON *array, const struct planner *p, int place)
{
    char strategy[STRATEGY_BYTES];
    struct experiment e;
    struct why why;
    cJSON *object = cJSON_CreateObject(), *config;
    if (!cJSON_AddItemToArray(array, object))
        return no_memory();
    space_experiment(p->space, space_candidate(p->space, p->result.ranking[place]), &e);
    strategy_describe(&e, strategy);
    DT_TRY(config_of(p, place, &config));
    if (!cJSON_AddItemToObject(object, "config", config))
        return no_memory();
    DT_TRY(why_chosen(p, place, &why));
    bool kept =
        cJSON_AddStringToObject(object, "strategy", strategy) && add_numbers(object, p, place, &e) && add_lines(object, "why", &why);
    return kept ? DT_OK : no_memory();
}

static bool add_facts(cJSON *top, const struct planner *p)
{
    const struct search_result *r = &p->result;
    cJSON *search = cJSON_AddObjectToObject(top, "search");
    return search && cJSON_AddNumberToObject(search, "candidates", r->count) &&
           cJSON_AddNumberToObject(search, "do_not_fit", r->states[SEARCH_TOO_LARGE] + r->states[SEARCH_OUT_OF_MEMORY]) &&
           cJSON_AddNumberToObject(search, "too_slow", r->states[SEARCH_TOO_SLOW]) &&
           cJSON_AddNumberToObject(search, "simulated", r->states[SEARCH_SIMULATED]) &&
           cJSON_AddNumberToObject(search, "not_needed", r->states[SEARCH_NOT_NEEDED]) &&
           cJSON_AddNumberToObject(search, "seconds", r->seconds) && cJSON_AddBoolToObject(search, "interrupted", r->interrupted) &&
           cJSON_AddStringToObject(top, "objective", planner_objective_name((int)p->options.objective)) &&
           cJSON_AddStringToObject(top, "cluster", p->machine.cluster_file.name) &&
           cJSON_AddStringToObject(top, "profile", p->machine.profile_file.name) &&
           cJSON_AddNumberToObject(top, "capacity_bytes", r->capacity_bytes);
}

static bool add_rules(cJSON *top, const struct rule_results *rules)
{
    cJSON *array = rules->count > 0 ? cJSON_AddArrayToObject(top, "rules") : NULL;
    bool kept = array || rules->count == 0;
    for (int i = 0; kept && i < rules->count; i++) {
        const struct rule_result *rule = &rules->all[i];
        cJSON *one = cJSON_CreateObject();
        kept = cJSON_AddItemToArray(array, one) && cJSON_AddStringToObject(one, "name", rule->name) &&
               cJSON_AddStringToObject(one, "says", rule->says) &&
               (*rule->strategy ? cJSON_AddStringToObject(one, "strategy", rule->strategy) : cJSON_AddNullToObject(one, "strategy")) &&
               add_amount(one, "tokens_per_s", rule->tokens_per_s) && add_amount(one, "regret", rule->regret) &&
               cJSON_AddBoolToObject(one, "interrupted", rule->interrupted);
    }
    return kept;
}

static dt_status add_all(cJSON *top, const struct planner *p, const struct planner_reasons *reasons)
{
    cJSON *plans = cJSON_AddArrayToObject(top, "plans");
    if (!plans)
        return no_memory();
    for (int place = 0; place < planner_shown(p); place++)
        DT_TRY(add_plan(plans, p, place));
    bool kept = add_lines(top, "why_not", &reasons->not) && add_lines(top, "what_would_change_it", &reasons->changes) &&
                add_lines(top, "confidence", &reasons->trusted) && add_rules(top, &reasons->rules) && add_facts(top, p);
    return kept ? DT_OK : no_memory();
}

static bool add_run(cJSON *runs, const struct measured_run *run)
{
    const struct dt_ratio *ratio = &run->of_fastest;
    cJSON *one = cJSON_CreateObject(), *of_fastest = NULL, *steps = NULL;
    bool kept = cJSON_AddItemToArray(runs, one) && add_amount(one, "place", run->place + 1) &&
                cJSON_AddStringToObject(one, "status", report_status_name(run->status)) && add_amount(one, "step_s", run->step_s) &&
                add_amount(one, "tokens_per_s", run->tokens_per_s) && add_amount(one, "error", run->error_of_step) &&
                cJSON_AddBoolToObject(one, "wins", run->wins);
    of_fastest = kept ? cJSON_AddObjectToObject(one, "of_fastest") : NULL;
    kept = of_fastest && add_amount(of_fastest, "ratio", ratio->ratio) && add_amount(of_fastest, "low", ratio->low) &&
           add_amount(of_fastest, "high", ratio->high);
    steps = kept ? cJSON_AddArrayToObject(one, "steps_s") : NULL;
    for (int i = 0; kept && steps && i < run->done; i++)
        kept = cJSON_AddItemToArray(steps, cJSON_CreateNumber(run->steps_s[i]));
    return kept && steps;
}

/* {"device": "cpu", "won": 1, "runs": [...]}; won: which of the runs was the fastest, from 1; place: which of the plans, from 1; wins: it is that
 * one or cannot be told from it; of_fastest: its throughput over that one's, with the interval. */
static bool add_measured(cJSON *top, const struct measured *m)
{
    cJSON *object = cJSON_AddObjectToObject(top, "measured"), *runs = NULL;
    bool kept = object && cJSON_AddStringToObject(object, "device", m->device) && add_amount(object, "won", m->won < 0 ? NAN : m->won + 1);
    if (kept)
        runs = cJSON_AddArrayToObject(object, "runs");
    for (int i = 0; kept && runs && i < m->count; i++)
        kept = add_run(runs, &m->runs[i]);
    return kept && runs;
}

dt_status planner_to_json(const struct planner *p, const struct planner_reasons *reasons, const struct measured *measured, cJSON **out)
{
    cJSON *top = cJSON_CreateObject();
    *out = NULL;
    dt_status status = top ? add_all(top, p, reasons) : no_memory();
    if (status == DT_OK && measured && !add_measured(top, measured))
        status = no_memory();
    if (status < 0)
        cJSON_Delete(top);
    else
        *out = top;
    return status;
}

dt_status planner_print_json(const struct planner *p, const struct planner_reasons *reasons, const struct measured *measured, FILE *to)
{
    cJSON *top;
    char *text = NULL;
    DT_TRY(planner_to_json(p, reasons, measured, &top));
    dt_status status = dt_json_print(top, DT_JSON_INDENT, &text);
    if (status == DT_OK)
        fprintf(to, "%s\n", text);
    free(text);
    cJSON_Delete(top);
    return status;
}

/* ---- the config ---- */

/* What all configs have alike stays in `common`; the rest of `one` is what is special about it. */
static void take_common(cJSON *common, cJSON *one)
{
    for (cJSON *child = one->child, *next; child; child = next) {
        cJSON *same = cJSON_GetObjectItemCaseSensitive(common, child->string);
        next = child->next;
        if (cJSON_IsObject(child) && cJSON_IsObject(same))
            take_common(same, child);
        if (same && (cJSON_Compare(child, same, true) || (cJSON_IsObject(child) && !child->child)))
            cJSON_Delete(cJSON_DetachItemViaPointer(one, child));
    }
}

/* Take from `common` what is not alike in `other`. */
static void keep_alike(cJSON *common, const cJSON *other)
{
    for (cJSON *child = common->child, *next; child; child = next) {
        const cJSON *same = cJSON_GetObjectItemCaseSensitive(other, child->string);
        next = child->next;
        if (cJSON_IsObject(child) && cJSON_IsObject(same))
            keep_alike(child, same);
        else if (!same || !cJSON_Compare(child, same, true))
            cJSON_Delete(cJSON_DetachItemViaPointer(common, child));
    }
}

static dt_status make_config(const struct planner *p, cJSON **out)
{
    cJSON *sweep = cJSON_CreateArray(), *config, *one;
    *out = NULL;
    dt_status status = sweep ? DT_OK : no_memory();
    for (int place = 0; status == DT_OK && place < planner_shown(p); place++) {
        status = config_of(p, place, &config);
        if (status == DT_OK && !cJSON_AddItemToArray(sweep, config))
            status = no_memory();
    }
    if (status == DT_OK) {
        *out = cJSON_Duplicate(sweep->child, true);
        status = *out ? DT_OK : no_memory();
    }
    if (status < 0) {
        cJSON_Delete(sweep);
        return status;
    }
    cJSON_ArrayForEach(one, sweep) keep_alike(*out, one);
    cJSON_ArrayForEach(one, sweep) take_common(*out, one);
    if (planner_shown(p) == 1) {
        cJSON_Delete(sweep);
        return DT_OK;
    }
    return cJSON_AddItemToObject(*out, "sweep", sweep) ? DT_OK : no_memory();
}

dt_status planner_write_config(const struct planner *p, const char *path)
{
    cJSON *config;
    char *text = NULL;
    dt_status status = make_config(p, &config);
    if (status == DT_OK)
        status = dt_json_print(config, DT_JSON_INDENT, &text);
    cJSON_Delete(config);
    DT_TRY(status);
    status = dt_output_write(path, text);
    free(text);
    return status;
}
