/* A run in MLPerf's log format, for programs that read it: a line for each event, ":::MLLOG " and
 * an object.
 *
 * Keys are those of mlperf_logging 6.1 (mllog/constants.py). A record has no time for each event,
 * so times are derived: the run begins at the record's start time, training begins startup_s later,
 * warm-up steps take the median time, and timed steps follow each other. There is no evaluation,
 * and the submitter is unknown, so the compliance checker reports eval_accuracy, eval_samples and
 * submission_* as missing. */
#include "cli/records/show_parts.h"

#include "lib/config/json.h"
#include "lib/config/words.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_BYTES = 64 };

struct log {
    const struct cJSON *record;
    FILE *to;
    double time_ms; /* since 1970; the time of the next event */
    double samples; /* samples trained on before the next event */
    dt_status status;
};

/* Takes ownership of value and metadata; NULL: none. Each event's metadata gives its source. */
static void event(struct log *l, const char *type, const char *key, struct cJSON *value, struct cJSON *metadata)
{
    struct cJSON *about = metadata ? metadata : dt_json_object("");
    DT_FREED char *text = NULL;
    dt_json_add(&about, "file: %s, lineno: %d", "dtbench", 0);
    DT_DESTROYED(dt_json_destroy)
    struct cJSON *line = dt_json_object("namespace: %s, time_ms: %g, event_type: %s, key: %s, value: %p, metadata: %p", "",
                                        floor(l->time_ms), type, key, value ? value : dt_json_text(NULL), about);
    dt_status status = dt_allocated(line, "no memory for a log");
    DT_THEN(status, dt_json_print(line, DT_JSON_SPACED, &text));
    l->status = l->status < 0 ? l->status : status;
    if (status < 0)
        return;
    fprintf(l->to, ":::MLLOG %s\n", text);
}

static void tell(struct log *l, const char *key, struct cJSON *value)
{
    event(l, "POINT_IN_TIME", key, value, NULL);
}

static struct cJSON *at_samples(const struct log *l)
{
    return dt_json_object("samples_count: %g", l->samples);
}

static double config_number(const struct log *l, const char *path, double otherwise)
{
    return dt_json_number(dt_json_at(l->record, "config"), path, otherwise);
}

/* The ranks of a context group share their samples. */
static double samples_of_step(const struct log *l)
{
    return round(config_number(l, "batch_size", 1) * config_number(l, "world_size", 1) / config_number(l, "context.size", 1));
}

static const char *text_of(const struct log *l, const char *path, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(dt_json_at(l->record, path));
    return text ? text : otherwise;
}

/* Log the model, the settings and the machine. */
static void tell_settings(struct log *l)
{
    static const struct {
        const char *key, *path;
    } settings[] = {
        {"max_sequence_length", "config.model.block_size"},
        {"gradient_accumulation_steps", "config.micro_batches"},
        {"seed", "config.seed"},
        {"opt_name", "config.optimizer.name"},
        {"opt_base_learning_rate", "config.optimizer.learning_rate"},
        {"opt_%s_beta_1", "config.optimizer.beta1"},
        {"opt_%s_beta_2", "config.optimizer.beta2"},
        {"opt_%s_epsilon", "config.optimizer.epsilon"},
        {"opt_weight_decay", "config.optimizer.weight_decay"},
        {"tensor_parallelism", "config.tensor.size"},
        {"pipeline_parallelism", "config.pipeline.stages"},
    };
    char key[KEY_BYTES], platform[192];
    double ranks = config_number(l, "world_size", 1);
    snprintf(platform, sizeof platform, "%g x %.128s", ranks, text_of(l, "provenance.device_name", text_of(l, "config.device", "")));
    tell(l, "submission_platform", dt_json_text(platform));
    tell(l, "submission_benchmark", dt_json_text(text_of(l, "config.model.preset", text_of(l, "config.name", ""))));
    tell(l, "global_batch_size", cJSON_CreateNumber(samples_of_step(l)));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct cJSON *value = dt_json_at(l->record, settings[i].path);
        const char *name = strchr(settings[i].key, '%');
        snprintf(key, sizeof key, "%.*s%s%s", (int)strcspn(settings[i].key, "%"), settings[i].key,
                 name ? text_of(l, "config.optimizer.name", "") : "", name ? name + strlen("%s") : "");
        if (value)
            tell(l, key, cJSON_Duplicate(value, true));
    }
}

/* Log the steps from the first timed one to the last. */
static dt_status tell_steps(struct log *l)
{
    double of_step = samples_of_step(l);
    DT_FREED double *step_s = NULL, *losses = NULL;
    int steps, loss_count;
    DT_TRY(dt_json_read_numbers(dt_json_at(l->record, "metrics.step_s.all"), &step_s, &steps));
    dt_status status = dt_json_read_numbers(dt_json_at(l->record, "losses"), &losses, &loss_count);
    int warmup = loss_count > steps ? loss_count - steps : 0;
    l->samples = warmup * of_step;
    l->time_ms += 1e3 * warmup * dt_json_number(l->record, "metrics.step_s.median", 0);
    event(l, "INTERVAL_START", "block_start", NULL, at_samples(l));
    for (int i = 0; status == DT_OK && i < steps; i++) {
        l->time_ms += 1e3 * step_s[i];
        l->samples += of_step;
        event(l, "POINT_IN_TIME", "tracked_stats", dt_json_object("throughput: %g", of_step / step_s[i]), at_samples(l));
        if (warmup + i < loss_count && isfinite(losses[warmup + i]))
            event(l, "POINT_IN_TIME", "train_loss", cJSON_CreateNumber(losses[warmup + i]), at_samples(l));
    }
    event(l, "INTERVAL_END", "block_stop", NULL, at_samples(l));
    return status;
}

dt_status mllog_print(const struct cJSON *record, FILE *to)
{
    struct log l = {.record = record, .to = to};
    struct tm began = {0};
    const char *started = text_of(&l, "provenance.started", ""), *end = strptime(started, "%Y-%m-%dT%H:%M:%SZ", &began);
    bool ok = strcmp(text_of(&l, "status", ""), "ok") == 0;
    if (!end || *end)
        return dt_fail(DT_ERR_INVALID, "a log says when each event was, and the record has no provenance.started");
    l.time_ms = 1e3 * (double)timegm(&began);
    event(&l, "INTERVAL_START", "init_start", NULL, NULL);
    tell_settings(&l);
    l.time_ms += 1e3 * dt_json_number(record, "metrics.startup_s", 0);
    event(&l, "INTERVAL_END", "init_stop", NULL, NULL);
    event(&l, "INTERVAL_START", "run_start", NULL, NULL);
    DT_TRY(tell_steps(&l));
    tell(&l, "train_samples", cJSON_CreateNumber(l.samples));
    event(&l, "INTERVAL_END", "run_stop", NULL, dt_json_object("status: %s, samples_count: %g", ok ? "success" : "aborted", l.samples));
    return l.status;
}
