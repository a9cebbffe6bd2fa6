/* Calibrations: predictions from measurements, shared processors, and files that device sim can
 * read. */
#include "gpt/family.h"
#include "gpt/kernels.h"
#include "lib/config/json.h"
#include "lib/model/probe.h"
#include "predict/calibration.h"
#include "predict/profile.h"
#include "schedules/config/families.h"
#include "test/lib/sim/sim_case.h"

#include <stdlib.h>

/* A machine by formula: speeds that grow with a power of every number of a shape. */
static double made_up_s(const double shape[3])
{
    return 1e-9 * pow(shape[0], 0.9) * pow(shape[1], 0.8) * pow(shape[2], 0.7);
}

static struct calibration *made_up(void)
{
    struct calibration *c = calloc(1, sizeof *c);
    static const double dims[] = {64, 256, 1024};
    for (int r = 0; r < 3; r++)
        for (int o = 0; o < 3; o++)
            for (int i = 0; i < 3; i++) {
                struct dt_measured m = {.kernel = GPT_KERNEL_LINEAR, .dtype = DT_BF16, .ranks = 4, .threads = 1};
                m.shape[0] = dims[r], m.shape[1] = dims[o], m.shape[2] = dims[i];
                m.alone_s = made_up_s(m.shape);
                m.together_s = 2 * m.alone_s;
                c->kernels.entries[c->kernels.count++] = m;
            }
    c->kernels.entries[c->kernels.count++] =
        (struct dt_measured){DT_PRICED_COPY, DT_VARIANT_PLAIN, DT_BF16, 2, 1, {1e6, 1, 1}, 1e-4, 1.5e-4};
    c->collectives.entries[c->collectives.count++] = (struct dt_sim_measured){DT_SIM_ALL_REDUCE, 4, 1 << 10, 1e-4, 0.5, 1};
    c->collectives.entries[c->collectives.count++] = (struct dt_sim_measured){DT_SIM_ALL_REDUCE, 4, 1 << 20, 1e-2, 1, 1};
    c->collectives.entries[c->collectives.count++] = (struct dt_sim_measured){DT_SIM_ALL_GATHER, 4, 1 << 20, 1e-3, 1, 1};
    c->collectives.entries[c->collectives.count++] = (struct dt_sim_measured){DT_SIM_MESSAGE, 4, 1 << 10, 2e-4, 0.25, 1};
    snprintf(c->library, sizeof c->library, "Open MPI 4.1.4");
    return c;
}

static void times_between_shapes(void)
{
    struct calibration *c = made_up();
    double seconds = 0, load = 0, expected;
    struct dt_measured what = c->kernels.entries[7];
    CHECK(dt_measured_find(&c->kernels, DT_SHAPE_PRODUCT, &what, &seconds, &load) && fabs(seconds / what.alone_s - 1) < 1e-4, "%g",
          seconds);
    CHECK(fabs(load - 0.5) < 1e-9, "%g", load);
    static const double shapes[][3] = {{128, 512, 384}, {100, 1000, 300}, {900, 70, 65}};
    for (int i = 0; i < 3; i++) {
        memcpy(what.shape, shapes[i], sizeof what.shape);
        expected = made_up_s(what.shape);
        CHECK(dt_measured_find(&c->kernels, DT_SHAPE_PRODUCT, &what, &seconds, &load) && fabs(seconds / expected - 1) < 0.02, "%g, not %g",
              seconds, expected);
    }
    what.shape[0] = 1 << 20, what.shape[1] = what.shape[2] = 1024; /* beyond the grid: at the speed of the largest shape */
    const double largest[] = {1024, 1024, 1024};
    expected = made_up_s(largest) * 1024;
    CHECK(dt_measured_find(&c->kernels, DT_SHAPE_PRODUCT, &what, &seconds, &load) && fabs(seconds / expected - 1) < 1e-4, "%g, not %g",
          seconds, expected);
    what.variant = DT_VARIANT_DROPOUT; /* not measured: predicted as another variant */
    CHECK(dt_measured_find(&c->kernels, DT_SHAPE_PRODUCT, &what, &seconds, &load));
    what.dtype = DT_FP32;
    CHECK(!dt_measured_find(&c->kernels, DT_SHAPE_PRODUCT, &what, &seconds, &load));
    free(c);
}

/* The operating system may take the processors away in the middle of a measurement: sim can still
 * use it. */
static void interrupted_measurements(void)
{
    struct calibration *c = made_up();
    double seconds, load;
    for (int i = 0; i < c->kernels.count; i++)
        c->kernels.entries[i].together_s = 1000 * c->kernels.entries[i].alone_s;
    CHECK(dt_measured_find(&c->kernels, DT_SHAPE_PRODUCT, &c->kernels.entries[7], &seconds, &load) && load == DT_SIM_MAX_LOAD, "%g", load);
    free(c);
}

static void ranks_and_threads_that_count(void)
{
    struct calibration *c = calloc(1, sizeof *c);
    static const int sets[][2] = {{1, 2}, {2, 1}, {4, 1}};
    static const int asked[][4] = {{1, 0, 1, 2}, {1, 1, 2, 1}, {2, 0, 2, 1}, {3, 0, 4, 1}, {64, 0, 4, 1}};
    for (int i = 0; i < 3; i++)
        c->kernels.entries[c->kernels.count++] = (struct dt_measured){.ranks = sets[i][0], .threads = sets[i][1]};
    for (int i = 0; i < 5; i++) {
        int ranks, threads;
        dt_measured_nearest(&c->kernels, asked[i][0], asked[i][1], &ranks, &threads);
        CHECK(ranks == asked[i][2] && threads == asked[i][3], "%d ranks of %d: %d of %d", asked[i][0], asked[i][1], ranks, threads);
    }
    free(c);
}

static void collectives_between_sizes(void)
{
    struct calibration *c = made_up();
    double seconds = 0, load = 0;
    const struct dt_sim_measured_list *list = &c->collectives;
    CHECK(dt_sim_measured_find(list, DT_SIM_ALL_REDUCE, 4, 1, 1 << 15, &seconds, &load) && fabs(seconds - 1e-3) < 1e-9, "%g", seconds);
    CHECK(fabs(load - 0.75) < 1e-9, "%g", load);
    CHECK(dt_sim_measured_find(list, DT_SIM_ALL_REDUCE, 2, 1, 16, &seconds, &load) && fabs(seconds - 1e-4) < 1e-12, "%g", seconds);
    CHECK(dt_sim_measured_find(list, DT_SIM_ALL_REDUCE, 4, 1, 4 << 20, &seconds, &load) && fabs(seconds - 4e-2) < 1e-9, "%g", seconds);
    CHECK(!dt_sim_measured_find(list, DT_SIM_BROADCAST, 4, 1, 16, &seconds, &load));
    CHECK(!dt_sim_measured_find(list, DT_SIM_ALL_REDUCE, 4, 2, 16, &seconds, &load)); /* one node says nothing of the network */
    free(c);
}

/* ---- the files ---- */

static void check_same(const struct calibration *a, const struct calibration *b)
{
    char *left = NULL, *right = NULL;
    CHECK_OK(calibration_write(a, &left));
    CHECK_OK(calibration_write(b, &right));
    CHECK(left && right && strcmp(left, right) == 0, "\n# %s\n# %s", left, right);
    free(left);
    free(right);
}

static void files_that_sim_reads(void)
{
    struct calibration *c = made_up(), *again = calloc(1, sizeof *again);
    struct dt_profile *profile = calloc(1, sizeof *profile);
    struct dt_sim_cluster *cluster = calloc(1, sizeof *cluster);
    char *text = NULL;
    CHECK_OK(calibration_profile_text(c, "measured by a test", &text));
    CHECK_OK(profile_parse(text, strlen(text), "profile.json", profile));
    free(text);
    CHECK_OK(calibration_cluster_text(c, "measured by a test", &text));
    CHECK_OK(dt_sim_cluster_parse(text, strlen(text), "cluster.json", cluster));
    free(text);
    CHECK(cluster->gpus_per_node == 4 && fabs(cluster->gpu.memory_gb_per_s - 20) < 1e-9, "%d, %g", cluster->gpus_per_node,
          cluster->gpu.memory_gb_per_s);
    CHECK(fabs(cluster->collectives.step_us - 200) < 1e-9, "the shortest message: %g us", cluster->collectives.step_us);
    again->kernels = profile->measured;
    again->collectives = cluster->collectives.measured;
    snprintf(again->library, sizeof again->library, "%s", cluster->collectives.version);
    check_same(c, again);
    c->collectives.count = 0; /* one rank alone: no message was sent */
    CHECK_OK(calibration_cluster_text(c, "measured by a test", &text));
    CHECK_OK(dt_sim_cluster_parse(text, strlen(text), "cluster.json", cluster));
    CHECK(cluster->collectives.step_us == 0 && strcmp(cluster->collectives.version, "none") == 0, "%g us", cluster->collectives.step_us);
    free(text);
    free(cluster);
    free(profile);
    free(again);
    free(c);
}

static void what_ranks_tell(void)
{
    struct calibration *c = made_up(), *again = calloc(1, sizeof *again);
    const struct calibration_request request = {.dtypes = {[DT_BF16] = true}, .threads = 3, .quick = true};
    struct calibration_request heard = {0};
    char *text = NULL;
    CHECK_OK(calibration_write(c, &text));
    CHECK_OK(calibration_read(text, again));
    check_same(c, again);
    CHECK_OK(calibration_read(text, again)); /* appends */
    CHECK(again->kernels.count == 2 * c->kernels.count && again->collectives.count == 2 * c->collectives.count);
    free(text);
    CHECK_OK(calibration_request_write(&request, &text));
    CHECK_OK(calibration_request_read(text, &heard));
    CHECK(heard.quick && heard.threads == 3 && heard.dtypes[DT_BF16] && !heard.dtypes[DT_FP32]);
    free(text);
    free(again);
    free(c);
}

static void check_refused(const char *entry, const char *wanted)
{
    struct dt_measured_list *list = calloc(1, sizeof *list);
    struct cJSON *array = NULL;
    CHECK_OK(dt_json_parse(entry, strlen(entry), "test", &array));
    CHECK(measured_read(array, "p.json: measured", list) == DT_ERR_INVALID && strstr(dt_error_message(), wanted), "%s", dt_error_message());
    dt_json_destroy(array);
    free(list);
}

static void wrong_measurements(void)
{
#define ENTRY(kernel, seconds, more)                                                                                                       \
    "[{\"kernel\":\"" kernel "\",\"variant\":\"plain\",\"dtype\":\"bf16\",\"ranks\":1,\"threads\":1,\"rows\":1,\"columns\":1,"             \
    "\"inner\":1,\"alone_s\":" seconds ",\"together_s\":1" more "}]"
    check_refused("{}", "p.json: measured: expected a list of objects, not ");
    check_refused("[1]", "p.json: measured[0]: expected an object with kernel, variant, ");
    check_refused(ENTRY("gemm", "1", ""), "p.json: measured[0]: kernel: \"gemm\" is not one of sgd, ");
    check_refused(ENTRY("linear", "0", ""), "p.json: measured[0]: alone_s: 0 is out of range");
    check_refused(ENTRY("linear", "1", ",\"x\":1"), "p.json: measured[0]: x: unknown key");
}

/* ---- GPUs ---- */

/* GPUs are measured with longer rows, columns and inner dimensions than processors, and with heads
 * that kernels can compute; --quick uses the same shapes for both. */
static void points_of_gpus(void)
{
    struct calibration_request gpus = {.device = "cuda", .dtypes = {[DT_BF16] = true}, .kernels = true}, cpu = gpus;
    struct dt_measured a, b;
    snprintf(cpu.device, sizeof cpu.device, "cpu");
    CHECK(!calibration_shares(&gpus) && calibration_shares(&cpu));
    int of_gpus = calibration_count(&gpus, 0), of_cpu = calibration_count(&cpu, 0);
    CHECK(of_gpus <= of_cpu && calibration_count(&gpus, 1) - of_gpus == calibration_count(&cpu, 1) - of_cpu);
    for (int i = 0; calibration_kernel(&gpus, &gpt_family, i, &a); i++) {
        CHECK(calibration_kernel(&cpu, &gpt_family, i, &b) && a.kernel == b.kernel && a.variant == b.variant);
        CHECK(a.shape[0] == 4 * b.shape[0] && (a.shape[1] == 4 * b.shape[1] || b.shape[1] == 1), "%d: %g x %g", i, a.shape[0], a.shape[1]);
        bool heads = profile_kernels()->kernels[a.kernel]->shape == DT_SHAPE_HEADS;
        CHECK(a.shape[2] == (heads || b.shape[2] == 1 ? 1 : 4) * b.shape[2] && (!heads || a.shape[2] <= 128), "%d: %g", i, a.shape[2]);
    }
    int all = calibration_count(&gpus, 1);
    gpus.kernels = false;
    CHECK(calibration_count(&gpus, 0) == 0 && calibration_count(&gpus, 1) == all - of_gpus, "a further number of ranks");
    gpus.kernels = gpus.quick = cpu.quick = true;
    for (int i = 0; calibration_kernel(&gpus, &gpt_family, i, &a); i++)
        CHECK(calibration_kernel(&cpu, &gpt_family, i, &b) && memcmp(a.shape, b.shape, sizeof a.shape) == 0, "%d", i);
}

/* Facts that ranks send about their GPUs, and the files made from these. */
static void files_of_gpus(void)
{
    static const struct {
        const char *name, *word;
        enum dt_sim_architecture architecture;
    } gpus[] = {{"NVIDIA H100 80GB HBM3", "H100", DT_SIM_HOPPER},
                {"NVIDIA A100-SXM4-40GB", "A100", DT_SIM_AMPERE},
                {"Tesla V100-SXM2-16GB", "V100", DT_SIM_VOLTA}};
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        struct calibration *c = made_up(), *again = calloc(1, sizeof *again);
        struct dt_profile *profile = calloc(1, sizeof *profile);
        struct dt_sim_cluster *cluster = calloc(1, sizeof *cluster);
        char *text = NULL;
        c->gpu = (struct calibration_gpu){.memory_bytes = 0x1p36, .reserved_bytes = 1e9, .copy_bytes_per_s = 50e9, .copy_s = 8e-6};
        c->gpu.peak_flops[DT_BF16] = 989e12;
        snprintf(c->gpu.name, sizeof c->gpu.name, "%s", gpus[i].name);
        CHECK_OK(calibration_write(c, &text));
        CHECK_OK(calibration_read(text, again));
        free(text);
        CHECK_OK(calibration_cluster_text(again, "here", &text));
        CHECK_OK(dt_sim_cluster_parse(text, strlen(text), "cluster.json", cluster));
        free(text);
        CHECK(strcmp(cluster->gpu.name, gpus[i].name) == 0 && cluster->gpu.architecture == gpus[i].architecture, "%s", cluster->gpu.name);
        CHECK(cluster->collectives.library == DT_SIM_NCCL && cluster->collectives.measured.count == 4 && cluster->gpus_per_node == 4);
        CHECK(cluster->gpu.memory_gib == 64 && cluster->gpu.peak_tflops[DT_BF16] == 989 && cluster->gpu.peak_tflops[DT_FP32] == 0);
        CHECK(cluster->pcie.gb_per_s == 50 && cluster->pcie.latency_us == 8 && fabs(cluster->nvlink.gb_per_s - 1024e-9 / 2e-4) < 1e-12,
              "%g", cluster->nvlink.gb_per_s);
        CHECK_OK(calibration_profile_text(again, "here", &text));
        CHECK_OK(profile_parse(text, strlen(text), "profile.json", profile));
        free(text);
        CHECK(strcmp(profile->gpu, gpus[i].word) == 0 && profile->memory.reserve_bytes == 1e9, "%s", profile->gpu);
        free(cluster);
        free(profile);
        free(again);
        free(c);
    }
}

/* ---- shared processors ---- */

static struct dt_sim_program *work_of(double seconds, double load)
{
    struct dt_sim_program *p = NULL;
    int stream, slot;
    CHECK_OK(dt_sim_program_create(true, &p));
    CHECK_OK(dt_sim_program_add_stream(p, "compute", &stream));
    CHECK_OK(dt_sim_program_add_slot(p, &slot));
    CHECK_OK(dt_sim_program_shared_work(p, stream, seconds / 4, load, "part"));
    CHECK_OK(dt_sim_program_shared_work(p, stream, seconds * 3 / 4, load, "part"));
    CHECK_OK(dt_sim_program_finish(p));
    CHECK(p->op_count == 1, "%zu operations, and not one made of two", p->op_count);
    return p;
}

/* Ranks [0, busy) work for one second, with this load each. */
static double time_together(int busy, double load)
{
    struct sim_case c;
    struct dt_sim_program *work = work_of(1, load);
    sim_case_load(&c, "cpu_node");
    sim_case_start(&c, 2, 0);
    int group = sim_case_group(&c, 0, 1, 2);
    for (int r = 0; r < busy; r++)
        CHECK_OK(dt_sim_engine_set_program(c.engine, r, work, &group));
    CHECK_OK(dt_sim_engine_run(c.engine));
    double end = dt_sim_engine_end_s(c.engine, -1);
    sim_case_finish(&c);
    dt_sim_program_destroy(work);
    return end;
}

static void processors_are_shared(void)
{
    CHECK(fabs(time_together(1, 0.75) - 1) < 1e-9, "%g", time_together(1, 0.75));
    CHECK(fabs(time_together(2, 0.5) - 1) < 1e-9, "%g", time_together(2, 0.5));
    CHECK(fabs(time_together(2, 0.75) - 1.5) < 1e-9, "%g", time_together(2, 0.75));
    CHECK(fabs(time_together(2, 1) - 2) < 1e-9, "%g", time_together(2, 1));
}

/* A collective takes its measured time, and longer concurrently with work that uses all
 * processors. */
static void measured_collectives_are_carried(void)
{
    struct sim_case c;
    struct dt_sim_program *p = sim_one_collective(DT_SIM_ALL_REDUCE, 1 << 20);
    sim_case_load(&c, "cpu_node");
    c.cluster.collectives.measured.entries[0] = (struct dt_sim_measured){DT_SIM_ALL_REDUCE, 2, 1 << 20, 0.25, 0.5, 1};
    c.cluster.collectives.measured.count = 1;
    sim_case_start(&c, 2, 0);
    int group = sim_case_group(&c, 0, 1, 2);
    for (int r = 0; r < 2; r++)
        CHECK_OK(dt_sim_engine_set_program(c.engine, r, p, &group));
    CHECK_OK(dt_sim_engine_run(c.engine));
    CHECK(fabs(dt_sim_engine_end_s(c.engine, -1) - 0.25) < 1e-9, "%g", dt_sim_engine_end_s(c.engine, -1));
    sim_case_finish(&c);
    dt_sim_program_destroy(p);
}

/* One of the two ranks of a message. */
static struct dt_sim_program *message_of(bool sends, int peer)
{
    struct dt_sim_program *p = NULL;
    int stream, slot;
    CHECK_OK(dt_sim_program_create(true, &p));
    CHECK_OK(dt_sim_program_add_stream(p, "network", &stream));
    CHECK_OK(dt_sim_program_add_slot(p, &slot));
    CHECK_OK(sends ? dt_sim_program_send(p, stream, slot, peer, 1 << 20, NULL) : dt_sim_program_recv(p, stream, slot, peer, 1 << 20, NULL));
    CHECK_OK(dt_sim_program_finish(p));
    return p;
}

/* Messages within a node and between nodes were measured separately: a quarter and half of a
 * second. */
static void measured_messages_are_carried(void)
{
    for (int away = 0; away < 2; away++) {
        struct sim_case c;
        struct dt_sim_program *programs[] = {message_of(true, 1), message_of(false, 0)};
        sim_case_load(&c, "cpu_node");
        c.cluster.nodes = 2;
        c.cluster.nic.count = 1;
        c.cluster.nic.label_gbit_per_s = c.cluster.nic.total_gbit_per_s = c.cluster.nic.flow_gbit_per_s = 1;
        c.cluster.collectives.measured.entries[0] = (struct dt_sim_measured){DT_SIM_MESSAGE, 2, 1 << 20, 0.25, 0.1, 1};
        c.cluster.collectives.measured.entries[1] = (struct dt_sim_measured){DT_SIM_MESSAGE, 2, 1 << 20, 0.5, 0.1, 2};
        c.cluster.collectives.measured.count = 2;
        sim_case_start(&c, 2, away ? 1 : 2);
        int group = sim_case_group(&c, 0, 1, 2);
        for (int r = 0; r < 2; r++)
            CHECK_OK(dt_sim_engine_set_program(c.engine, r, programs[r], &group));
        CHECK_OK(dt_sim_engine_run(c.engine));
        CHECK(fabs(dt_sim_engine_end_s(c.engine, -1) - (away ? 0.5 : 0.25)) < 1e-9, "%d: %g", away, dt_sim_engine_end_s(c.engine, -1));
        sim_case_finish(&c);
        dt_sim_program_destroy(programs[0]);
        dt_sim_program_destroy(programs[1]);
    }
}

/* A message is work of two ranks, which share the processors with a third rank's work. */
static void messages_share_processors(void)
{
    struct sim_case c;
    struct dt_sim_program *programs[] = {message_of(true, 1), message_of(false, 0), work_of(1, 1)};
    sim_case_load(&c, "cpu_node");
    c.cluster.gpus_per_node = 3;
    c.cluster.collectives.measured.entries[0] = (struct dt_sim_measured){DT_SIM_MESSAGE, 3, 1 << 20, 1, 1, 1};
    c.cluster.collectives.measured.count = 1;
    sim_case_start(&c, 3, 0);
    int group = sim_case_group(&c, 0, 1, 3);
    for (int r = 0; r < 3; r++)
        CHECK_OK(dt_sim_engine_set_program(c.engine, r, programs[r], &group));
    CHECK_OK(dt_sim_engine_run(c.engine));
    CHECK(fabs(dt_sim_engine_end_s(c.engine, 1) - 1.5) < 1e-9, "two of three parts for the message: %g", dt_sim_engine_end_s(c.engine, 1));
    CHECK(fabs(dt_sim_engine_end_s(c.engine, 2) - 2) < 1e-9, "the rest: %g", dt_sim_engine_end_s(c.engine, 2));
    sim_case_finish(&c);
    for (int r = 0; r < 3; r++)
        dt_sim_program_destroy(programs[r]);
}

/* Two nodes of two ranks, on cards of 4 MB/s: as many communicators over both nodes as `count`,
 * whose all_reduce of 1 MiB was measured. */
static double time_across(int count, double measured_s, double load, bool shared)
{
    struct sim_case c;
    struct dt_sim_program *p = sim_one_collective(DT_SIM_ALL_REDUCE, 1 << 20);
    sim_case_load(&c, "cpu_node");
    c.cluster.nodes = 2;
    c.cluster.gpus_per_node = 2;
    c.cluster.nic.count = 1;
    c.cluster.nic.label_gbit_per_s = c.cluster.nic.total_gbit_per_s = c.cluster.nic.flow_gbit_per_s = 8e-3 * 1.048576 * 4;
    c.cluster.host.shared_processors = shared;
    c.cluster.collectives.measured.entries[0] = (struct dt_sim_measured){DT_SIM_ALL_REDUCE, 2, 1 << 20, measured_s, load, 2};
    c.cluster.collectives.measured.entries[1] = (struct dt_sim_measured){DT_SIM_ALL_REDUCE, 2, 1 << 20, 17, load, 1};
    c.cluster.collectives.measured.count = 2;
    sim_case_start(&c, 4, 2);
    for (int i = 0; i < count; i++) {
        int group = sim_case_group(&c, i, 2, 2);
        CHECK_OK(dt_sim_engine_set_program(c.engine, i, p, &group));
        CHECK_OK(dt_sim_engine_set_program(c.engine, 2 + i, p, &group));
    }
    CHECK_OK(dt_sim_engine_run(c.engine));
    double end = dt_sim_engine_end_s(c.engine, -1);
    sim_case_finish(&c);
    dt_sim_program_destroy(p);
    return end;
}

/* An all_reduce of two ranks puts its bytes on both cards once. */
static void collectives_between_nodes_share_cards(void)
{
    CHECK(fabs(time_across(1, 0.5, 0.1, false) - 0.5) < 1e-9, "%g", time_across(1, 0.5, 0.1, false));
    CHECK(fabs(time_across(2, 0.5, 0.1, false) - 0.5) < 1e-9, "half full: %g", time_across(2, 0.5, 0.1, false));
    CHECK(fabs(time_across(2, 0.25, 0.1, false) - 0.5) < 1e-9, "full: %g", time_across(2, 0.25, 0.1, false));
    CHECK(fabs(time_across(1, 0.1, 0.1, false) - 0.1) < 1e-9, "what was measured went through: %g", time_across(1, 0.1, 0.1, false));
    CHECK(fabs(time_across(2, 1, 0.75, false) - 1.5) < 1e-9, "processors: %g", time_across(2, 1, 0.75, false));
}

/* Work on every rank of two nodes: twice as long where the nodes are one machine. */
static void emulated_nodes_share_processors(void)
{
    for (int shared = 0; shared < 2; shared++) {
        struct sim_case c;
        struct dt_sim_program *work = work_of(1, 1);
        sim_case_load(&c, "cpu_node");
        c.cluster.nodes = 2;
        c.cluster.nic.count = 1;
        c.cluster.nic.label_gbit_per_s = c.cluster.nic.total_gbit_per_s = c.cluster.nic.flow_gbit_per_s = 1;
        c.cluster.host.shared_processors = shared;
        sim_case_start(&c, 2, 1);
        int group = sim_case_group(&c, 0, 1, 2);
        for (int r = 0; r < 2; r++)
            CHECK_OK(dt_sim_engine_set_program(c.engine, r, work, &group));
        CHECK_OK(dt_sim_engine_run(c.engine));
        CHECK(fabs(dt_sim_engine_end_s(c.engine, -1) - (1 + shared)) < 1e-9, "%d: %g", shared, dt_sim_engine_end_s(c.engine, -1));
        sim_case_finish(&c);
        dt_sim_program_destroy(work);
    }
}

/* ---- probing: every kernel of the quick list runs ---- */

static void groups_of_nodes(void)
{
    static const struct {
        int nodes, per_node, spans[8];
        const char *groups[8]; /* the ranks of each group, one digit for each rank */
    } expected[] = {
        {1, 4, {1}, {"0123"}},
        {4, 1, {2, 4}, {"01", "0123"}},
        {3, 1, {2, 3}, {"01", "012"}},
        {2, 3, {2, 1, 1, 2}, {"03", "01", "012", "012345"}},
        {4, 2, {2, 4, 1, 2, 4}, {"02", "0246", "01", "0123", "01234567"}},
        {2, 4, {2, 1, 1, 2}, {"04", "01", "0123", "01234567"}},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct calibration_place place = {.nodes = expected[i].nodes, .ranks_per_node = expected[i].per_node};
        int ranks[8], spans, groups = 0;
        for (; groups < 8 && expected[i].groups[groups]; groups++) {
            const char *members = expected[i].groups[groups];
            int count = calibration_group(&place, groups, ranks, &spans);
            CHECK(count == (int)strlen(members) && spans == expected[i].spans[groups], "%d nodes of %d, group %d: %d ranks of %d nodes",
                  place.nodes, place.ranks_per_node, groups, count, spans);
            for (int r = 0; r < count && members[r]; r++)
                CHECK(ranks[r] == members[r] - '0', "%d nodes of %d, group %d: rank %d", place.nodes, place.ranks_per_node, groups,
                      ranks[r]);
        }
        CHECK(calibration_group(&place, groups, ranks, &spans) == 0 && calibration_group_count(&place) == groups, "%d groups",
              calibration_group_count(&place));
    }
}

static void processors_are_busy(void)
{
    const double told[][2] = {{1, 4}, {2, 5}, {3, 6}}; /* seconds busy, seconds that passed */
    CHECK(calibration_load(told, 3, 2) == 6 / (4.0 * 2) && calibration_load(told, 1, 2) == 1 / (4.0 * 2));
    CHECK(calibration_load(told, 3, 1) == 1, "more than there is: clocks that differ");
    CHECK(calibration_load(told, 1, 1000) == 0.01, "%g", calibration_load(told, 1, 1000));
}

static void kernels_are_probed(void)
{
    struct dt_device *device = NULL;
    struct dt_probe *probe = NULL;
    char reason[256];
    if (!dt_device_available("cpu", reason, sizeof reason))
        SKIP("%s", reason);
    CHECK_OK(dt_device_create("cpu", NULL, &device));
    CHECK_OK(dt_probe_create(model_family(0), device, 4 << 20, &probe));
    for (int kernel = 0; kernel < GPT_KERNEL_END; kernel++)
        for (int variant = 0; variant < DT_VARIANTS; variant++) {
            struct dt_measured what = {.kernel = kernel, .variant = (enum dt_variant)variant, .dtype = DT_FP32};
            what.shape[0] = 64, what.shape[1] = 32, what.shape[2] = kernel <= GPT_KERNEL_EMBEDDING_GRADIENT ? 128 : 16;
            CHECK_OK(dt_probe_set(probe, &what));
            CHECK_OK(dt_probe_run(probe, 3));
        }
    struct dt_measured large = {.kernel = GPT_KERNEL_LINEAR, .dtype = DT_FP32, .shape = {4096, 4096, 4096}};
    CHECK(dt_probe_set(probe, &large) == DT_ERR_INVALID);
    dt_probe_destroy(probe);
    dt_device_destroy(device);
}

/* Every measured shape fits into its memory region: otherwise a calibration would end after its
 * first minute. */
static void what_is_measured_fits(void)
{
    struct dt_device *device = NULL;
    char reason[256];
    if (!dt_device_available("cpu", reason, sizeof reason))
        SKIP("%s", reason);
    CHECK_OK(dt_device_create("cpu", NULL, &device));
    const struct calibration_request request = {.device = "cpu", .dtypes = {[DT_FP32] = true}};
    for (int f = 0; model_family(f); f++) {
        struct dt_probe *probe = NULL;
        struct dt_measured what;
        if (!calibration_measures(&request, model_family(f)))
            continue;
        CHECK_OK(dt_probe_create(model_family(f), device, calibration_region_bytes(&request), &probe));
        for (int i = 0; calibration_kernel(&request, model_family(f), i, &what); i++)
            CHECK_OK(dt_probe_set(probe, &what));
        dt_probe_destroy(probe);
    }
    dt_device_destroy(device);
}

static const struct test_case cases[] = {
    {"times between shapes", times_between_shapes},
    {"interrupted measurements", interrupted_measurements},
    {"ranks and threads that count", ranks_and_threads_that_count},
    {"collectives between sizes", collectives_between_sizes},
    {"files that sim reads", files_that_sim_reads},
    {"what ranks tell", what_ranks_tell},
    {"wrong measurements", wrong_measurements},
    {"points of GPUs", points_of_gpus},
    {"files of GPUs", files_of_gpus},
    {"processors are shared", processors_are_shared},
    {"collectives between nodes share cards", collectives_between_nodes_share_cards},
    {"emulated nodes share processors", emulated_nodes_share_processors},
    {"groups of nodes", groups_of_nodes},
    {"busy processors", processors_are_busy},
    {"measured collectives are carried", measured_collectives_are_carried},
    {"measured messages are carried", measured_messages_are_carried},
    {"messages share processors", messages_share_processors},
    {"kernels are probed", kernels_are_probed},
    {"what is measured fits", what_is_measured_fits},
};
TEST_MAIN(cases)
