/* Ranks that share the positions of each sample (context parallelism), on sim: the work of each,
 * what it sends, and who stands for whom. */
#include "gpt/kernels.h"
#include "predict/simulation.h"
#include "predict/symmetry.h"
#include "schedules/config/parse.h"
#include "test/check.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 4, HEADS = 8, KV_HEADS = 4, WIDTH = 8, POSITIONS = 128, VOCAB = 512, BATCH = 3 };

static const char *const forms[] = {"p2p", "all_gather", "a2a"};

static struct experiment *experiment_of(const char *form, int world, int contexts, const char *more)
{
    char text[1024];
    struct experiment *e = NULL;
    int count;
    snprintf(text, sizeof text,
             "{\"device\": \"sim\", \"cluster\": \"clusters/gcp_a2.json\", \"steps\": {\"warmup\": 1, \"timed\": 1}, \"world_size\": %d, "
             "\"batch_size\": %d, \"context\": {\"size\": %d, \"comm_type\": \"%s\"}, %s, \"model\": {\"layers\": %d, \"heads\": %d, "
             "\"kv_heads\": %d, \"hidden\": %d, \"vocab_size\": %d, \"block_size\": %d}}",
             world, BATCH, contexts, form, more, LAYERS, HEADS, KV_HEADS, HEADS * WIDTH, VOCAB, POSITIONS);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    return e;
}

/* Only attention takes time: one product of a sample's heads, with 2 T T w operations each, takes a
 * second. */
static void only_attention(struct simulated_system *s)
{
    struct dt_profile *p = &s->costs.profile;
    memset(p->kernels, 0, sizeof p->kernels);
    memset(&p->schedule, 0, sizeof p->schedule);
    memset(&p->host, 0, sizeof p->host);
    p->kernel_s = 0;
    p->bandwidth_fraction = p->gemm.peak_fraction = 1;
    s->costs.hardware.peak_flops = 1e30;
    s->costs.hardware.memory_bytes_per_s = 1e30;
    s->device.memory_bytes_per_s = 1e30;
    s->device.kernel_s = 0;
    s->device.copy_host_s = s->device.collective_host_s = s->device.gather_host_s = s->device.message_host_s = 0;
    s->device.queue_kernels = 0;
    p->gemm.fused_peak_fraction = HEADS * 2.0 * POSITIONS * POSITIONS * WIDTH / s->costs.hardware.peak_flops;
    p->gemm.fused_attention = 1;
}

/* As PyTorch's context_parallel. */
static void in_pieces(struct simulated_system *s)
{
    s->costs.profile.schedule.key_pieces = 1;
}

static void only_attention_in_pieces(struct simulated_system *s)
{
    only_attention(s);
    in_pieces(s);
}

static double run(struct experiment *e, void (*change)(struct simulated_system *system), struct measure_result *result)
{
    struct simulated_system *system;
    CHECK_OK(simulated_system_create(e, &system));
    if (change)
        change(system);
    CHECK_OK(simulation_run(e, system, NULL, result));
    simulated_system_destroy(system);
    free(e);
    return result->steps_done > 0 ? result->step_s[0] : NAN;
}

/* N ranks have an N-th of the pairs of positions each, in every form; two products forward and five
 * backward. */
static void attention_is_shared(void)
{
    for (size_t f = 0; f < 2 * (sizeof forms / sizeof *forms); f++)
        for (int contexts = 1; contexts <= 4; contexts *= 2) {
            struct measure_result result;
            const char *form = forms[f / 2];
            double seconds =
                run(experiment_of(form, 4, contexts, "\"paradigm\": \"ddp\""), f % 2 ? only_attention_in_pieces : only_attention, &result);
            double wanted = 7.0 * BATCH * LAYERS / contexts;
            CHECK(fabs(seconds - wanted) < 1e-3 * wanted, "%s, %d ranks: %g s, wanted %g s", form, contexts, seconds, wanted);
            measure_result_finish(&result);
        }
}

/* As gpt/attend.h says, of all layers; gradients of all parameters are reduced over the data axis
 * and the ranks that share samples. */
static void bytes_sent(void)
{
    const double element = 2, keys = element * 2 * KV_HEADS * WIDTH * BATCH * POSITIONS * LAYERS;
    const double heads = element * 2 * (HEADS + KV_HEADS) * WIDTH * BATCH * POSITIONS * LAYERS;
    for (int contexts = 2; contexts <= 4; contexts *= 2) {
        double n = contexts, own = keys / n, parameters = 0;
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            struct measure_result result;
            struct experiment *e = experiment_of(forms[f], 4, contexts, "\"paradigm\": \"ddp\"");
            parameters = (double)dt_model_parameter_count(&e->model);
            run(e, NULL, &result);
            const struct dt_step_metrics *m = &result.metrics.step;
            CHECK(m->all_reduce_bytes == element * parameters, "%s: %g bytes of gradients", forms[f], m->all_reduce_bytes);
            CHECK(m->send_bytes == (f == 0 ? 3 * (n - 1) * own : 0), "%s, %d: %g bytes around", forms[f], contexts, m->send_bytes);
            CHECK(m->all_gather_bytes == (f == 1 ? 2 * keys : 0) && m->reduce_scatter_bytes == (f == 1 ? keys : 0),
                  "%s, %d: %g bytes gathered, %g scattered", forms[f], contexts, m->all_gather_bytes, m->reduce_scatter_bytes);
            CHECK(m->all_to_all_bytes == (f == 2 ? 2 * heads / n : 0), "%s, %d: %g bytes exchanged", forms[f], contexts,
                  m->all_to_all_bytes);
            measure_result_finish(&result);
        }
    }
}

/* PyTorch's context_parallel: a key and a value for each query head are gathered twice, and sums of
 * their gradients in fp32 pass all ranks of the ring. */
static void bytes_in_pieces(void)
{
    const double repeated = 2.0 * HEADS * WIDTH * BATCH * POSITIONS * LAYERS;
    struct measure_result result;
    run(experiment_of("all_gather", 4, 4, "\"paradigm\": \"ddp\""), in_pieces, &result);
    const struct dt_step_metrics *m = &result.metrics.step;
    CHECK(m->all_gather_bytes == 2 * 2 * repeated && m->send_bytes == 4 * repeated && m->reduce_scatter_bytes == 0,
          "%g bytes gathered, %g around, %g scattered", m->all_gather_bytes, m->send_bytes, m->reduce_scatter_bytes);
    measure_result_finish(&result);
}

/* Two ranks that share samples keep half of what one rank keeps; and each a half of the optimizer's
 * state where fsdp divides it. */
static void memory_is_shared(void)
{
    static const char *const fsdp = "\"paradigm\": \"fsdp\", \"optimizer\": {\"name\": \"adam\"}";
    struct measure_result one, two;
    run(experiment_of("p2p", 2, 1, fsdp), NULL, &one);
    run(experiment_of("p2p", 2, 2, fsdp), NULL, &two);
    const uint64_t *alone = one.ranks[0].memory.device.peak_bytes, *shared = two.ranks[0].memory.device.peak_bytes;
    CHECK(fabs((double)shared[DT_ACTIVATIONS] / (double)alone[DT_ACTIVATIONS] - 0.5) < 0.02, "%.0f of %.0f bytes",
          (double)shared[DT_ACTIVATIONS], (double)alone[DT_ACTIVATIONS]);
    CHECK(shared[DT_OPTIMIZER] == alone[DT_OPTIMIZER] && shared[DT_OPTIMIZER] > 0);
    measure_result_finish(&one);
    measure_result_finish(&two);
}

/* Hold so much of the output that the peak is at the output. */
static void holds_output(struct simulated_system *s)
{
    s->costs.profile.memory.output_elems = 1000;
}

static void holds_shared_output(struct simulated_system *s)
{
    holds_output(s);
    s->costs.profile.memory.shared_output_elems = 3;
}

static void holds_gathered(struct simulated_system *s)
{
    holds_output(s);
    s->costs.profile.memory.gathered_elems = 2;
}

static double peak_of(const char *more, void (*change)(struct simulated_system *system))
{
    struct measure_result result;
    run(experiment_of("p2p", 2, 1, more), change, &result);
    double peak = (double)result.ranks[0].memory.device.peak_bytes[DT_ACTIVATIONS];
    measure_result_finish(&result);
    return peak;
}

/* A loss over parts of the vocabulary holds more, and the head's gathered input is held in addition
 * to those of all blocks: the other rank's part, with 2 bytes an element. */
static void what_ranks_hold_of_the_output(void)
{
    static const char alone[] = "\"paradigm\": \"ddp\"",
                      shared[] = "\"paradigm\": \"ddp\", \"tensor\": {\"size\": 2, \"sequence_parallel\": true}";
    const double tokens = 2.0 * BATCH * POSITIONS; /* the batch is per rank, and two ranks share layers */
    CHECK(peak_of(alone, holds_shared_output) == peak_of(alone, holds_output) &&
          peak_of(alone, holds_gathered) == peak_of(alone, holds_output));
    double more = peak_of(shared, holds_shared_output) - peak_of(shared, holds_output), wanted = 3 * 2 * tokens * VOCAB / 2;
    CHECK(more == wanted, "%g bytes of the output more, wanted %g", more, wanted);
    more = peak_of(shared, holds_gathered) - peak_of(shared, holds_output);
    wanted = (2 * LAYERS + 1) * 2 * tokens * HEADS * WIDTH / 2;
    CHECK(more == wanted, "%g bytes gathered, wanted %g", more, wanted);
}

/* Ranks that share samples do the same on any nodes, except where zero1 divides unevenly: of six
 * shards the last has less. */
static void who_stands_for_whom(void)
{
    static const struct {
        int world, contexts;
        const char *more;
        int count;
    } rows[] = {{16, 4, "\"gpus_per_node\": 8, \"paradigm\": \"ddp\"", 1},
                {16, 16, "\"gpus_per_node\": 8, \"paradigm\": \"fsdp\"", 1},
                {16, 8, "\"gpus_per_node\": 8, \"straddle_nodes\": true, \"paradigm\": \"pdp\", \"pipeline\": {\"stages\": 2}", 2},
                {16, 8, "\"gpus_per_node\": 8, \"paradigm\": \"zero1\"", 1},
                {48, 8, "\"gpus_per_node\": 8, \"paradigm\": \"zero1\"", 16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct simulated_system *system;
        struct experiment *e = experiment_of("p2p", rows[i].world, rows[i].contexts, rows[i].more);
        CHECK_OK(simulated_system_create(e, &system));
        simulated_system_apply(system, e);
        CHECK(symmetric_part_count(e, system) == rows[i].count, "%d, not %d: %s", symmetric_part_count(e, system), rows[i].count,
              rows[i].more);
        simulated_system_destroy(system);
        free(e);
    }
}

/* The whole world takes as long as those that stand for it. */
static void a_part_is_as_the_whole(void)
{
    static const char *const more[] = {"\"gpus_per_node\": 2, \"paradigm\": \"ddp\"", "\"gpus_per_node\": 2, \"paradigm\": \"zero1\"",
                                       "\"gpus_per_node\": 4, \"paradigm\": \"fsdp\", \"tensor\": {\"size\": 2}"};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
            struct simulated_system *system;
            struct measure_result part, whole;
            struct experiment *e = experiment_of(forms[f], 8, i == 2 ? 2 : 4, more[i]);
            CHECK_OK(simulated_system_create(e, &system));
            CHECK_OK(simulation_run(e, system, NULL, &whole));
            CHECK_OK(simulation_run_symmetric(e, system, NULL, &part));
            simulated_system_destroy(system);
            free(e);
            CHECK(fabs(whole.step_s[0] / part.step_s[0] - 1) < 1e-6, "%s, %s: %.9g s and %.9g s", forms[f], more[i], whole.step_s[0],
                  part.step_s[0]);
            measure_result_finish(&part);
            measure_result_finish(&whole);
        }
}

static void refused(const char *form, int world, int contexts, const char *more, const char *wanted)
{
    char text[1024];
    struct experiment *e = NULL;
    int count;
    snprintf(text, sizeof text,
             "{\"world_size\": %d, \"context\": {\"size\": %d, \"comm_type\": \"%s\"}, %s, \"model\": {\"layers\": 2, \"heads\": 8, "
             "\"kv_heads\": 4, \"hidden\": 64, \"block_size\": 48%s}}",
             world, contexts, form, more, strstr(wanted, "unfused") ? ", \"attention\": \"unfused\"" : "");
    CHECK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count) == DT_ERR_INVALID && strstr(dt_error_message(), wanted), "%s",
          dt_error_message());
    free(e);
}

static void what_is_refused(void)
{
    static const char sim[] = "\"device\": \"sim\", \"paradigm\": \"ddp\"";
    refused("p2p", 4, 3, sim, "context.size: 3 times pipeline.stages 1 times tensor.size 1 does not divide world_size 4");
    refused("p2p", 32, 32, sim, "context.size: 32 ranks with 2 pieces each: their number does not divide model.block_size 48");
    refused("a2a", 8, 8, sim, "context.size: 8 ranks that exchange heads");
    refused("p2p", 4, 2, sim, "\"unfused\"");
    refused("p2p", 1, 2, "\"device\": \"sim\"", "paradigm \"none\" sums up none");
    refused("p2p", 4, 2, "\"device\": \"sim\", \"paradigm\": \"parameter_server\"", "paradigm \"parameter_server\" divides no samples");
    refused("p2p", 8, 2, "\"device\": \"sim\", \"paradigm\": \"hsdp\", \"hsdp\": {\"shard_size\": 1}", "no multiple of context.size 2");
}

static const struct test_case cases[] = {
    {"attention is shared", attention_is_shared},
    {"bytes sent", bytes_sent},
    {"bytes in pieces", bytes_in_pieces},
    {"memory is shared", memory_is_shared},
    {"what ranks hold of the output", what_ranks_hold_of_the_output},
    {"who stands for whom", who_stands_for_whom},
    {"a part is as the whole", a_part_is_as_the_whole},
    {"what is refused", what_is_refused},
};
TEST_MAIN(cases)
