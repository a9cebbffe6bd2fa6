/* The table of metrics: it covers every member, and its rules over ranks and steps. */
#include "test/check.h"

#include "lib/config/json.h"
#include "lib/record/metrics.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#define AT(member) offsetof(struct dt_metrics, member)

static bool is_of_step(const struct dt_metric *m)
{
    return m->offset >= AT(step) && m->offset < AT(step) + sizeof(struct dt_step_metrics);
}

/* A member without a row is not set to unknown. */
static void every_member_has_a_row(void)
{
    struct dt_metrics metrics;
    for (int i = 0; dt_metric_at(i); i++) {
        const struct dt_metric *m = dt_metric_at(i);
        CHECK(m->help && *m->help && m->help[strlen(m->help) - 1] == '.', "%s has no sentence", m->key);
        CHECK(m->kind == DT_METRIC_TEXT || *dt_unit_name(m->unit), "%s has no unit", m->key);
        CHECK((m->kind == DT_METRIC_NUMBER && m->steps != DT_STEPS_RUN) == is_of_step(m), "%s is of a step, or not", m->key);
        CHECK(!is_of_step(m) || m->ranks != DT_RANKS_ONE, "%s is every rank's", m->key);
        for (int j = 0; j < i; j++)
            CHECK(strcmp(dt_metric_at(j)->key, m->key) != 0 && dt_metric_at(j)->offset != m->offset, "%s twice", m->key);
    }
    dt_metrics_init(&metrics);
    CHECK(!metrics.flops_formula, "a text");
    for (size_t at = 0; at < sizeof metrics; at += sizeof(double))
        CHECK(at == AT(flops_formula) || (at >= AT(unit) && at < AT(unit) + sizeof metrics.unit) ||
                  isnan(*(const double *)((const char *)&metrics + at)),
              "the double at %zu has no row", at);
    struct dt_step_metrics step = {0};
    dt_step_metrics_init(&step);
    for (size_t at = 0; at < sizeof step; at += sizeof(double))
        CHECK(isnan(*(const double *)((const char *)&step + at)), "a step's double at %zu has no row", at);
}

static void over_ranks(void)
{
    struct {
        int rank;
        struct dt_step_metrics metrics;
    } ranks[3] = {{0, {.forward_s = 1, .overflow_steps = 0, .overflow_elements = 0}},
                  {1, {.forward_s = 2, .overflow_steps = 1, .overflow_elements = 5}},
                  {2, {.forward_s = 6, .overflow_steps = 1, .overflow_elements = 7}}};
    struct dt_step_metrics all;
    ranks[1].metrics.backward_s = NAN;
    dt_metrics_over_ranks(&ranks[0].metrics, sizeof ranks[0], 3, &all);
    CHECK(fabs(all.forward_s - 3) < 1e-15, "mean %g", all.forward_s);
    CHECK(all.overflow_steps == 1 && all.overflow_elements == 12, "highest %g, sum %g", all.overflow_steps, all.overflow_elements);
    CHECK(isnan(all.backward_s), "one unknown makes a mean unknown: %g", all.backward_s);
    struct dt_step_metrics sums = {.forward_s = 9, .overflow_steps = 2, .overflow_elements = 12},
                           highest = {.forward_s = 6, .overflow_steps = 1, .overflow_elements = 7}, same;
    dt_metrics_from_sums(&sums, &highest, 3, &same);
    CHECK(same.forward_s == 3 && same.overflow_steps == 1 && same.overflow_elements == 12, "from sums: %g, %g, %g", same.forward_s,
          same.overflow_steps, same.overflow_elements);
    for (int unknown = 0; unknown < 3; unknown++) {
        double before = ranks[unknown].metrics.overflow_steps;
        ranks[unknown].metrics.overflow_steps = NAN;
        dt_metrics_over_ranks(&ranks[0].metrics, sizeof ranks[0], 3, &all);
        CHECK(isnan(all.overflow_steps), "and a highest, at rank %d: %g", unknown, all.overflow_steps);
        ranks[unknown].metrics.overflow_steps = before;
    }
}

static void over_steps(void)
{
    const struct dt_step_metrics steps[] = {{.forward_s = 9, .overflow_steps = 1, .overflow_elements = 100}, /* warm-up */
                                            {.forward_s = 1, .overflow_steps = 0},
                                            {.forward_s = 4, .overflow_steps = 1, .overflow_elements = 10},
                                            {.forward_s = 2, .overflow_steps = 1, .overflow_elements = 1}};
    struct dt_metrics metrics;
    int middle[2];
    dt_metrics_init(&metrics);
    dt_metrics_begin_sums(&metrics);
    CHECK(metrics.step.overflow_steps == 0 && isnan(metrics.step.forward_s), "before the first step");
    for (int i = 0; i < 4; i++)
        dt_metrics_add_step(&metrics, &steps[i]);
    CHECK(metrics.step.overflow_steps == 3 && metrics.step.overflow_elements == 111, "sums of all steps");
    CHECK(isnan(metrics.step.forward_s), "no timed step");
    CHECK_OK(dt_metrics_middle((double[]){7, 9, 8}, 3, middle));
    CHECK(middle[0] == 2 && middle[1] == 2, "the median step: %d and %d", middle[0], middle[1]);
    CHECK_OK(dt_metrics_middle((double[]){6, 7, 9, 8}, 4, middle));
    CHECK(middle[0] == 1 && middle[1] == 3, "two in the middle: %d and %d", middle[0], middle[1]);
    dt_metrics_set_middle(&metrics, (struct dt_step_metrics[]){steps[1], steps[3]});
    CHECK(metrics.step.forward_s == 1.5 && metrics.step.overflow_steps == 3, "their mean: %g", metrics.step.forward_s);
    CHECK_OK(dt_metrics_set_steps(&metrics, (double[]){1, 3, 2}, 3));
    CHECK(metrics.step_s.median == 2 && fabs(metrics.step_s.p95 - 2.9) < 1e-12 && metrics.step_s.cv == 0.5, "step times");
}

static void peaks_of_ranks(void)
{
    struct dt_rank_memory ranks[2] = {{.memory.device.peak_total_bytes = 700, .memory.host.peak_total_bytes = 5},
                                      {.memory.device.peak_total_bytes = 500, .memory.host.peak_total_bytes = 6}};
    struct dt_metrics metrics;
    ranks[1].memory.device.peak_bytes[DT_WORKSPACE] = 300;
    dt_metrics_init(&metrics);
    dt_metrics_set_peaks(&metrics, ranks, 2);
    CHECK(metrics.peak_bytes.total == 700 && metrics.peak_bytes.category[DT_WORKSPACE] == 300, "the highest of each");
    CHECK(metrics.host_peak_bytes.total == 6 && metrics.host_peak_bytes.category[DT_OPTIMIZER] == 0, "the host's");
    dt_metrics_set_peaks(&metrics, ranks, 0);
    CHECK(isnan(metrics.peak_bytes.total) && isnan(metrics.peak_bytes.category[DT_WORKSPACE]), "no rank is known");
}

/* A record's metrics are read: here each number has a different value. */
static void through_json(void)
{
    struct dt_metrics sent, got;
    cJSON *object = cJSON_CreateObject();
    dt_metrics_init(&sent);
    for (int i = 0; dt_metric_at(i); i++)
        if (dt_metric_at(i)->kind == DT_METRIC_NUMBER && i % 3 != 2)
            *(double *)((char *)&sent + dt_metric_at(i)->offset) = 1.0 / (i + 3);
    for (int i = 0; dt_metric_at(i); i++)
        if (dt_metric_at(i)->kind == DT_METRIC_NUMBER)
            cJSON_AddNumberToObject(object, dt_metric_at(i)->key, dt_metric_value(dt_metric_at(i), &sent));
    dt_metrics_read(&got, object);
    cJSON_Delete(object);
    for (int i = 0; dt_metric_at(i); i++) {
        double before = dt_metric_value(dt_metric_at(i), &sent), after = dt_metric_value(dt_metric_at(i), &got);
        CHECK(before == after || (isnan(before) && isnan(after)), "%s: %g, then %g", dt_metric_at(i)->key, before, after);
    }
    static const char of_images[] = "{\"images_per_s\": 7, \"samples_per_s\": 5}";
    struct cJSON *images;
    char key[DT_RATE_KEY_BYTES];
    CHECK_OK(dt_json_parse(of_images, sizeof of_images - 1, "a record", &images));
    dt_metrics_read(&got, images);
    cJSON_Delete(images);
    CHECK(got.units_per_s == 7 && got.samples_per_s == 5 && strcmp(got.unit, "image") == 0, "%g %ss", got.units_per_s, got.unit);
    CHECK(strcmp(dt_metric_key(dt_metric_at(0), &got, key), "images_per_s") == 0, "%s", key);
    static const char record[] =
        "{\"mfu\": null, \"startup_s\": \"1\", \"wall_s\": 4, \"step_s\": {\"median\": 3, \"p95\": 5, \"cv\": 0.5}, "
        "\"peak_bytes\": {\"total\": 9, \"gradients\": 8, \"optimizer\": null}}";
    struct cJSON *metrics;
    CHECK_OK(dt_json_parse(record, sizeof record - 1, "a record", &metrics));
    dt_metrics_read(&got, metrics);
    CHECK(isnan(got.mfu) && isnan(got.startup_s) && isnan(got.units_per_s) && got.wall_s == 4, "numbers");
    CHECK(got.step_s.median == 3 && got.step_s.p95 == 5 && got.step_s.cv == 0.5, "step times");
    CHECK(got.peak_bytes.total == 9 && got.peak_bytes.category[DT_GRADIENTS] == 8, "peaks");
    CHECK(isnan(got.peak_bytes.category[DT_OPTIMIZER]) && isnan(got.host_peak_bytes.total), "unknown peaks");
    dt_json_destroy(metrics);
    dt_metrics_read(&got, NULL); /* a record without metrics */
    CHECK(isnan(got.wall_s) && isnan(got.peak_bytes.total), "nothing");
}

static const struct test_case cases[] = {
    {"every member has a row, and every row a unit and a sentence", every_member_has_a_row},
    {"mean, sum and highest of the ranks", over_ranks},
    {"medians and sums of the steps", over_steps},
    {"peaks of the ranks", peaks_of_ranks},
    {"through JSON and back", through_json},
};
TEST_MAIN(cases)
