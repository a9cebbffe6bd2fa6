#include "cli/plan/planner.h"

#include "lib/base/output_file.h"
#include "lib/config/json.h"
#include "lib/record/metrics.h"
#include "schedules/config/parse.h"
#include "schedules/run/report.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Make the config of the candidate at `place`. Owner of *out: the caller. */
static dt_status config_of(const struct planner *p, int place, cJSON **out)
{
    struct experiment e;
    DT_TRY(planner_experiment(p, place, &e));
    return experiment_to_tree(&e, out);
}

static cJSON *lines_as_json(const struct why *w)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < w->count; i++)
        dt_json_append(&array, cJSON_CreateString(w->lines[i]));
    return array;
}

static dt_status add_plan(cJSON **array, const struct planner *p, int place)
{
    const struct search_outcome *o = planner_outcome(p, place);
    char strategy[STRATEGY_BYTES];
    struct experiment e = planner_candidate(p, place);
    struct why why;
    cJSON *config;
    char key[DT_RATE_KEY_BYTES], hours[64], joules[64];
    strategy_describe(&e, strategy);
    struct confidence c = confidence_of(&e, &p->machine);
    why_chosen(p, place, &why);
    DT_TRY(config_of(p, place, &config));
    snprintf(hours, sizeof hours, "gpu_hours_per_1e9_%ss", e.model.family->unit);
    snprintf(joules, sizeof joules, "joules_per_%s", e.model.family->unit);
    dt_json_append(array, dt_json_object("config: %p, strategy: %s, %s: %g, peak_bytes: %g, host_peak_bytes: %g, step_s: %g, "
                                         "forward_s: %g, backward_s: %g, optimizer_s: %g, exposed_comm_s: %g, bubble_s: %g, host_s: %g, "
                                         "%s: %g, hours: %g, alike: %d, %s: %g, margin: %g, "
                                         "margin_tells: %hhd, known_error: %g, known_error_of_eight: %g, known_error_of_unseen: %g, "
                                         "mode_measured: %hhd, lost_to_slow: %g, why: %p",
                                         config, strategy, dt_rate_key(e.model.family->unit, key), o->units_per_s, o->peak_bytes,
                                         o->host_peak_bytes, o->step_s, o->step.forward_s, o->step.backward_s, o->step.optimizer_s,
                                         o->step.exposed_comm_s, o->step.bubble_s, o->step.host_s, hours,
                                         e.world_size / o->units_per_s * 1e9 / 3600, planner_training_s(p, place, p->tokens) / 3600,
                                         why_alike(p, place), joules, planner_joules_per_token(p, place), why_margin(p, 0, place),
                                         (bool)(place > 0 && why_margin_tells(p, 0, place)), c.error, c.eight, c.unseen, c.measured,
                                         planner_slow_cost(p, place), lines_as_json(&why)));
    return DT_OK;
}

static cJSON *rules_as_json(const struct rule_results *rules, const char *key)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < rules->count; i++) {
        const struct rule_result *rule = &rules->all[i];
        dt_json_append(&array,
                       dt_json_object("name: %s, says: %s, strategy: %p, %s: %g, regret: %g, interrupted: %hhd", rule->name, rule->says,
                                      dt_json_known(rule->strategy), key, rule->units_per_s, rule->regret, rule->interrupted));
    }
    return array;
}

/* {"device": "cpu", "won": 1, "runs": [...]}; won: the number of the fastest run, from 1; place:
 * the place in the plan, from 1; wins: it is the fastest or not distinguishable from it;
 * of_fastest: its throughput over the fastest one's, with the interval. */
static cJSON *measured_as_json(const struct measured *m, const char *key)
{
    cJSON *runs = cJSON_CreateArray();
    for (int i = 0; i < m->count; i++) {
        const struct measured_run *run = &m->runs[i];
        dt_json_append(&runs, dt_json_object("place: %d, status: %s, step_s: %g, %s: %g, error: %g, wins: %hhd, "
                                             "of_fastest: {ratio: %g, low: %g, high: %g}, steps_s: %p",
                                             run->place + 1, report_status_name(run->status), run->step_s, key, run->units_per_s,
                                             run->error_of_step, run->wins, run->of_fastest.ratio, run->of_fastest.low,
                                             run->of_fastest.high, dt_json_numbers(run->steps_s, run->done)));
    }
    return dt_json_object("device: %s, won: %g, runs: %p", m->device, m->won < 0 ? NAN : m->won + 1.0, runs);
}

dt_status planner_to_json(const struct planner *p, const struct planner_reasons *reasons, const struct measured *measured, cJSON **out)
{
    char rate[DT_RATE_KEY_BYTES];
    const char *key = dt_rate_key(p->base.model.family->unit, rate);
    const struct search_result *r = &p->result;
    DT_DESTROYED(dt_json_destroy) cJSON *plans = cJSON_CreateArray();
    for (int place = 0; place < planner_shown(p); place++)
        DT_TRY(add_plan(&plans, p, place));
    *out = dt_json_object("plans: %p, why_not: %p, what_would_change_it: %p, confidence: %p", DT_PASSED_ON(plans),
                          lines_as_json(&reasons->not), lines_as_json(&reasons->changes), lines_as_json(&reasons->trusted));
    if (reasons->rules.count > 0)
        dt_json_add(out, "rules: %p", rules_as_json(&reasons->rules, key));
    dt_json_add(out,
                "search: {candidates: %d, do_not_fit: %d, too_slow: %d, simulated: %d, not_needed: %d, seconds: %g, interrupted: %hhd}, "
                "objective: %s, cluster: %s, profile: %s, capacity_bytes: %g",
                r->count, r->states[SEARCH_TOO_LARGE] + r->states[SEARCH_OUT_OF_MEMORY], r->states[SEARCH_TOO_SLOW],
                r->states[SEARCH_SIMULATED], r->states[SEARCH_NOT_NEEDED], r->seconds, r->interrupted,
                planner_objective_name((int)p->options.objective), p->machine.cluster_file.name, p->machine.profile_file.name,
                r->capacity_bytes);
    if (measured)
        dt_json_add(out, "measured: %p", measured_as_json(measured, key));
    return dt_allocated(*out, "no memory for a plan's JSON");
}

dt_status planner_print_json(const struct planner *p, const struct planner_reasons *reasons, const struct measured *measured, FILE *to)
{
    cJSON *top;
    DT_TRY(planner_to_json(p, reasons, measured, &top));
    return dt_json_write(top, to);
}

/* ---- the config ---- */

/* Keep in `one` only what differs from `common`, which all configs share. */
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

/* Remove from `common` what differs in `other`. */
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
    DT_DESTROYED(dt_json_destroy) cJSON *sweep = cJSON_CreateArray();
    cJSON *config, *one;
    *out = NULL;
    for (int place = 0; place < planner_shown(p); place++) {
        DT_TRY(config_of(p, place, &config));
        dt_json_append(&sweep, config);
    }
    *out = sweep ? cJSON_Duplicate(sweep->child, true) : NULL;
    cJSON_ArrayForEach(one, sweep) keep_alike(*out, one);
    cJSON_ArrayForEach(one, sweep) take_common(*out, one);
    if (planner_shown(p) != 1)
        dt_json_add(out, "sweep: %p", DT_PASSED_ON(sweep));
    return dt_allocated(*out, "no memory for a plan's config");
}

dt_status planner_write_config(const struct planner *p, const char *path)
{
    DT_DESTROYED(dt_json_destroy) cJSON *config = NULL;
    DT_FREED char *text = NULL;
    DT_TRY(make_config(p, &config));
    DT_TRY(dt_json_print(config, DT_JSON_INDENT, &text));
    return dt_output_write(path, text);
}
