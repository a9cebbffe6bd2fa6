/* Experiments on device sim for tests: how they are made and run, and systems in which only one
 * thing takes time. */
#pragma once

#include "gpt/kernels.h"
#include "predict/simulation.h"
#include "schedules/config/parse.h"
#include "test/check.h"

#include <stdlib.h>

/* The experiment of these keys, by default on the study's cluster. */
static inline struct experiment *experiment_of(const char *keys)
{
    char text[1024];
    struct experiment *e = NULL;
    int count;
    snprintf(text, sizeof text,
             "{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"steps\": {\"warmup\": 1, \"timed\": 3}, %s}", keys);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    return e;
}

#define TINY "\"model\": {\"layers\": 4, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32}"
#define SMALL "\"model\": {\"preset\": \"GPTSmall\", \"attention\": \"unfused\"}"

/* Seconds of a step. The caller finishes *result, if it is given. */
static inline double run(const struct experiment *e, const struct simulated_system *system, struct measure_result *result)
{
    struct measure_result own = {0}, *at = result ? result : &own;
    CHECK_OK(simulation_run(e, system, NULL, at));
    double seconds = at->steps_done > 0 ? at->step_s[0] : NAN;
    measure_result_finish(&own);
    return seconds;
}

static inline double run_keys(const char *keys, void (*change)(struct simulated_system *system))
{
    struct simulated_system *system;
    struct experiment *e = experiment_of(keys);
    CHECK_OK(simulated_system_create(e, &system));
    if (change)
        change(system);
    double seconds = run(e, system, NULL);
    simulated_system_destroy(system);
    free(e);
    return seconds;
}

static const char *const divisions[] = {
    "\"world_size\": 16, \"paradigm\": \"ddp\", \"batch_size\": 4, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"pdp\", \"batch_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 4}, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"fsdp\", \"batch_size\": 4, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"hsdp\", \"batch_size\": 4, \"hsdp\": {\"shard_size\": 8}, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"zero2\", \"batch_size\": 4, \"optimizer\": {\"name\": \"adam\"}, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"parameter_server\", \"batch_size\": 4, " SMALL,
    "\"world_size\": 16, \"paradigm\": \"data_parallel\", \"batch_size\": 4, " SMALL,
};
enum { DIVISIONS = sizeof divisions / sizeof *divisions };

/* A host that takes no time, so that only network and device limit a step. */
static inline void free_host(struct simulated_system *s)
{
    int runs_ahead = s->costs.profile.host.runs_ahead;
    memset(&s->costs.profile.host, 0, sizeof s->costs.profile.host);
    s->costs.profile.host.runs_ahead = runs_ahead;
    s->device.copy_host_s = s->device.collective_host_s = s->device.gather_host_s = s->device.message_host_s = 0;
    s->device.queue_kernels = 0;
}

/* Only attention takes time, 1 s for each of TINY's samples and blocks in forward, and 2 s in
 * backward. The time comes from its many passes over memory; the memory is so fast that the
 * products' own traffic does not count. */
static inline void only_attention(struct simulated_system *s)
{
    struct dt_profile *p = &s->costs.profile;
    const double sample_bytes = 32 * 64 * 2, passes = 1e9;
    memset(p->kernels, 0, sizeof p->kernels);
    memset(&p->schedule, 0, sizeof p->schedule);
    p->kernels[GPT_KERNEL_ATTENTION].passes = passes;
    p->kernels[GPT_KERNEL_ATTENTION_GRADIENT].passes = 2 * passes;
    p->bandwidth_fraction = p->gemm.peak_fraction = 1;
    p->kernel_s = 0;
    s->costs.hardware.peak_flops = 1e30;
    s->costs.hardware.memory_bytes_per_s = sample_bytes * passes;
    s->device.memory_bytes_per_s = 1e30;
    s->device.kernel_s = 0;
    free_host(s);
    p->host.runs_ahead = 0;
}
