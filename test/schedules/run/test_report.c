/* Reports: the numbers made of a result, and their way from rank 0 to a record. */
#include "test/check.h"

#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "schedules/run/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char config[] = "{\"name\": \"r\", \"world_size\": 2, \"paradigm\": \"ddp\", \"batch_size\": 4, \"steps\": {\"warmup\": 1, "
                             "\"timed\": 3}, \"model\": {\"preset\": \"GPTSmall\", \"dtype\": \"bf16\"}}";

static struct experiment *make_experiment(void)
{
    struct experiment *e = NULL;
    int count = 0;
    CHECK(experiments_parse(config, strlen(config), "test", NULL, 0, &e, &count) == DT_OK && count == 1, "%s", dt_error_message());
    return e;
}

/* A result as a run returns it: steps of 1, 3 and 2 seconds, 0.5 of them exposed. */
static void fill(struct report *report)
{
    struct measure_result *r = &report->result;
    report_init(report);
    *r = (struct measure_result){.steps_done = 3, .losses_done = 4, .rank_count = 2};
    dt_metrics_init(&r->metrics);
    r->metrics.startup_s = 0.25;
    r->metrics.step = (struct dt_step_metrics){.forward_s = 0.1,
                                               .backward_s = 0.2,
                                               .optimizer_s = 0.3,
                                               .exposed_comm_s = 0.5,
                                               .bubble_s = 0.25,
                                               .overflow_steps = 2,
                                               .overflow_elements = 1e10};
    r->step_s = calloc(3, sizeof(double));
    r->losses = calloc(4, sizeof(double));
    r->ranks = calloc(2, sizeof *r->ranks);
    memcpy(r->step_s, (double[]){1, 3, 2}, 3 * sizeof(double));
    memcpy(r->losses, (double[]){10.8, 10.7, 1.0 / 3, NAN}, 4 * sizeof(double));
    for (int i = 0; i < 2; i++) {
        r->ranks[i].memory.device.peak_total_bytes = 1000 + (uint64_t)i;
        r->ranks[i].memory.device.peak_bytes[DT_GRADIENTS] = 256;
        r->ranks[i].memory.host.peak_total_bytes = 700 - (uint64_t)i;
        r->ranks[i].memory.host.peak_bytes[DT_OPTIMIZER] = 512;
        r->ranks[i].rss_peak_bytes = 5000;
    }
    strcpy(r->graph, "replayed");
    strcpy(r->products, "amx");
    strcpy(report->device, "cpu");
    strcpy(report->device_name, "A \"processor\"");
    strcpy(report->versions, "oneDNN 2.6.3, Open MPI 4.1.4");
    report->threads = 3;
    strcpy(report->driver, "580.65");
    strcpy(report->secret, "file");
    report->hosts = strdup("one\ntwo");
    report->gpus = strdup("GPU-1\nGPU-1");
}

static void test_metrics(void)
{
    struct experiment *e = make_experiment();
    struct report report;
    struct dt_metrics m;
    fill(&report);
    CHECK(report_measure(&report, e, &m) == DT_OK, "%s", dt_error_message());
    CHECK(m.step_s.median == 2 && m.units_per_s == 2 * 4 * 256 / 2.0 && m.samples_per_s == 4, "median %g, %g tokens/s", m.step_s.median,
          m.units_per_s);
    CHECK(fabs(m.tflops_per_gpu / (dt_model_step_flops(&e->model, 4 * 256) / 2e12) - 1) < 1e-12, "%g TFLOP/s", m.tflops_per_gpu);
    CHECK(isnan(m.mfu) && isnan(m.causal_mfu), "a cpu's peak is unknown");
    CHECK(m.bubble == 0.25 / 2 && m.bubble_ideal == 0, "bubble %g", m.bubble);
    double causal = e->model.family->causal_step_flops(&e->model, 4 * 256) / 2e12;
    CHECK(fabs(m.causal_tflops_per_gpu / causal - 1) < 1e-12 && causal < m.tflops_per_gpu, "%g TFLOP/s", m.causal_tflops_per_gpu);
    CHECK(isnan(m.scaling_efficiency), "nothing to compare with");
    CHECK(m.aco_ms_per_sample == 0.5 * 1000 / 4, "ACO %g", m.aco_ms_per_sample);
    CHECK(m.host_peak_bytes.total == 700, "host peak %g", m.host_peak_bytes.total);
    CHECK(m.peak_bytes.total == 1001 && m.peak_bytes.category[DT_GRADIENTS] == 256, "peak %g", m.peak_bytes.total);
    report.peak_flops = 4e12;
    report.fewest_units_per_s = 1024; /* of one rank */
    CHECK_OK(report_measure(&report, e, &m));
    CHECK(m.mfu == m.tflops_per_gpu / 4 && m.causal_mfu == m.causal_tflops_per_gpu / 4, "MFU %g, %g", m.mfu, m.causal_mfu);
    CHECK(m.scaling_efficiency == 0.5, "%g", m.scaling_efficiency);
    report_finish(&report);

    report_init(&report);
    CHECK(report_measure(&report, e, &m) == DT_OK && isnan(m.units_per_s) && isnan(m.peak_bytes.total) && isnan(m.aco_ms_per_sample),
          "nothing known");
    report_finish(&report);
    free(e);
}

/* Rank 0's record becomes that of the process that started it: what was measured stays, and how it
 * ended is the latter's. */
static void test_taken(void)
{
    struct experiment *e = make_experiment(), *its = make_experiment();
    struct report rank, report;
    struct dt_metrics sent, got;
    char *line = NULL, *written = NULL;
    CHECK(its->world_size == 2, "the rank has another config");
    its->name = "another";
    fill(&rank);
    rank.peak_flops = 4e12;
    rank.started_s = 86400;
    strcpy(rank.launcher, "mpirun");
    snprintf(rank.settings, sizeof rank.settings, "{\"OMP_WAIT_POLICY\": \"passive\", \"OF_THE_RANK\": \"1\"}");
    CHECK(report_record(&rank, its, &line) == DT_OK, "%s", dt_error_message());
    CHECK_OK(report_measure(&rank, its, &sent));
    report_init(&report);
    CHECK(report_add_step(&report, e, 0, 1, 5) == DT_OK, "a step that was heard before");
    CHECK(report_take(&report, line) == DT_OK, "%s", dt_error_message());
    CHECK(report.result.losses_done == 4 && report.result.losses[2] == 1.0 / 3 && isnan(report.result.losses[3]), "losses");
    CHECK(strcmp(report.result.graph, "replayed") == 0 && strcmp(report.device, "cpu") == 0, "graph and device");
    report.fewest_units_per_s = 1024;
    CHECK_OK(report_measure(&report, e, &got));
    CHECK(got.scaling_efficiency == 0.5, "%g", got.scaling_efficiency);
    sent.scaling_efficiency = got.scaling_efficiency;
    sent.wall_s = got.wall_s;
    for (int i = 0; dt_metric_at(i); i++) {
        const struct dt_metric *m = dt_metric_at(i);
        if (m->kind == DT_METRIC_NUMBER) {
            double before = dt_metric_value(m, &sent), after = dt_metric_value(m, &got);
            CHECK(before == after || (isnan(before) && isnan(after)), "%s: %g was sent, %g arrived", m->key, before, after);
        }
    }
    CHECK(got.mfu == sent.tflops_per_gpu / 4, "the rank knows its device's peak: %g", got.mfu);
    CHECK(got.peak_bytes.total == 1001 && got.host_peak_bytes.category[DT_OPTIMIZER] == 512 && got.step_s.p95 == sent.step_s.p95);

    report.started_s = 0;
    strcpy(report.launcher, "none");
    report.verification = "failed";
    report.verification_error = 0.5;
    report_end(&report, DT_ERR_VERIFY, "differs");
    CHECK(report_record(&report, e, &written) == DT_OK, "%s", dt_error_message());
    static const char *const expected[] = {
        "{\"schema_version\":1,\"config\":{\"name\":\"r\",",
        "\"status\":\"failed\",\"error\":\"differs\",\"losses\":[10.8,10.7,0.3333333333333333,null],\"metrics\":{",
        "\"all\":[1,3,2]}",
        "\"scaling_efficiency\":0.5,",
        "\"process_rss\":[5000,5000]",
        "\"verification\":{\"status\":\"failed\",\"largest_relative_difference\":0.5},\"provenance\":{\"device\":\"cpu\"",
        "\"threads_per_rank\":3,\"driver\":\"580.65\",\"hosts\":[\"one\",\"two\"],\"gpus\":[\"GPU-1\",\"GPU-1\"]",
        "\"launcher\":\"none\",\"rank_proof\":\"file\",\"graph\":\"replayed\",\"products\":\"amx\"",
        "\"environment\":{\"OMP_WAIT_POLICY\":\"passive\"",
        "\"started\":\"1970-01-01T00:00:00Z\"}}",
    };
    for (size_t i = 0; written && i < sizeof expected / sizeof expected[0]; i++)
        CHECK(strstr(written, expected[i]), "%s is not in %s", expected[i], written);
    CHECK(written && !strstr(written, "OF_THE_RANK") && !strstr(written, "another"), "the rank's own: %s", written);
    CHECK(report_take(&report, "{\"losses\": []}") == DT_ERR_INVALID, "half a record is none");
    CHECK(report.result.losses_done == 4 && report.taken, "and leaves the old one alone");
    free(written);
    free(line);
    report_finish(&report);
    report_finish(&rank);
    free(its);
    free(e);
}

static void test_steps_that_were_heard(void)
{
    struct experiment *e = make_experiment();
    struct report report;
    report_init(&report);
    for (int step = 0; step < 6; step++) /* two more than there are */
        CHECK(report_add_step(&report, e, step, 0.5 + step, 10 - step) == DT_OK, "%s", dt_error_message());
    CHECK(report_add_step(&report, e, 2, 9, 9) == DT_OK, "a step that is known");
    CHECK(report.result.losses_done == 4 && report.result.losses[3] == 7, "losses");
    CHECK(report.result.steps_done == 3 && report.result.step_s[0] == 1.5, "the warm-up step is not timed");
    report_finish(&report);
    free(e);
}

/* Steps of 0.5 s each until 1.25 s have gone into the warm-up: the third ends it. */
static void test_warmup_by_time(void)
{
    struct experiment *e = make_experiment();
    struct report report;
    report_init(&report);
    e->steps.warmup_s = 1.25;
    for (int step = 0; step < 8; step++)
        CHECK(report_add_step(&report, e, step, 0.5, 10 - step) == DT_OK, "%s", dt_error_message());
    CHECK(report.result.losses_done == 6 && report.result.losses[5] == 5, "%d losses", report.result.losses_done);
    CHECK(report.result.steps_done == 3 && report.result.warmup_s == 1.5, "%d timed steps", report.result.steps_done);
    report_finish(&report);

    report_init(&report);
    e->steps.warmup = 4; /* at least */
    for (int step = 0; step < 8; step++)
        CHECK(report_add_step(&report, e, step, 0.5, 10 - step) == DT_OK, "%s", dt_error_message());
    CHECK(report.result.losses_done == 7 && report.result.steps_done == 3, "%d losses", report.result.losses_done);
    report_finish(&report);
    free(e);
}

static void test_record(void)
{
    struct experiment *e = make_experiment();
    struct report report;
    char *line = NULL;
    fill(&report);
    report_end(&report, DT_ERR_OOM, "two\nlines");
    CHECK(report_record(&report, e, &line) == DT_OK, "%s", dt_error_message());
    CHECK(line && !strchr(line, '\n'), "one line");
    CHECK(line && strstr(line, "\"status\":\"oom\",\"error\":\"two lines\""), "status: %s", line);
    CHECK(line && strstr(line, "\"hosts\":[\"one\",\"two\"]"), "hosts: %s", line);
    CHECK(line && strstr(line, "\"gpus\":[\"GPU-1\",\"GPU-1\"]") && strstr(line, "\"driver\":\"580.65\""), "GPUs: %s", line);
    CHECK(line && strstr(line, e->hash), "hash: %s", line);
    CHECK(line && strstr(line, "\"graph\":\"replayed\""), "graph: %s", line);
    CHECK(line && strstr(line, "\"products\":\"amx\""), "products: %s", line);
    CHECK(line && strstr(line, "\"overflow_steps\":2,\"overflow_elements\":10000000000,"), "overflows: %s", line);
    free(line);
    report_finish(&report);
    free(e);
}

/* Ranks go on together after what all of them found out, and after a lack of memory or a loss that
 * is not finite where all were told. */
static void test_ended_together(void)
{
    for (int together = 0; together < 2; together++) {
        const struct measure_result result = {.together = together};
        CHECK(measure_ended_together(DT_OK, &result) && measure_ended_together(DT_ERR_INTERRUPTED, &result) &&
              measure_ended_together(DT_ERR_INVALID, &result));
        CHECK(measure_ended_together(DT_ERR_OOM, &result) == together && measure_ended_together(DT_ERR_DEVICE, &result) == together);
        CHECK(!measure_ended_together(DT_ERR_COMM, &result) && !measure_ended_together(DT_ERR_TIMEOUT, &result));
    }
}

static const struct test_case cases[] = {
    {"who ended together", test_ended_together},   {"tokens/s, TFLOP/s, ACO and the highest rank's peak", test_metrics},
    {"rank 0's record is taken over", test_taken}, {"steps that were heard of before a crash", test_steps_that_were_heard},
    {"a warm-up by time", test_warmup_by_time},    {"a record is one line", test_record},
};
TEST_MAIN(cases)
