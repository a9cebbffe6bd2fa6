/* Orders against their sources: what a rank keeps, how long the bubble is, the bubbles that the
 * authors of the zero-bubble orders publish; and that every plan of any shape runs. */
#include "schedules/plan/plan.h"
#include "test/check.h"

#include <stdlib.h>
#include <time.h>

enum { MOST_STAGES = 64 };

static struct order_shape shape_of(int stages, int parts, int micro_batches)
{
    return (struct order_shape){
        .stages = stages, .virtual_stages = parts, .micro_batches = micro_batches, .window = micro_batches, .times = plan_unit_times};
}

struct result {
    double makespan, bubble;
    struct plan_kept kept[MOST_STAGES];
};

static void finish(struct plan *plans, int stages)
{
    for (int i = 0; i < stages; i++)
        plan_finish(&plans[i]);
}

static dt_status run(const char *order, const struct order_shape *shape, struct result *out)
{
    struct plan plans[MOST_STAGES] = {0};
    struct rank_time ranks[MOST_STAGES];
    dt_status status = plans_make(pipeline_order_find(order), shape, plans);
    if (status == DT_OK)
        status = plan_time(plans, shape->stages, &shape->times, ranks);
    if (status == DT_OK) {
        out->makespan = plan_makespan(ranks, shape->stages);
        out->bubble = plan_bubble(ranks, shape->stages);
        for (int i = 0; i < shape->stages; i++)
            out->kept[i] = plan_keeps(&plans[i]);
    }
    finish(plans, shape->stages);
    return status;
}

/* ---- closed forms ---- */

/* Where a step has enough micro-batches the closed form is reached: by every rank, or by one. */
static void test_activations_are_those_of_the_sources(void)
{
    static const struct {
        const char *order;
        bool every_rank;
    } orders[] = {{"gpipe", true}, {"1f1b", true}, {"interleaved", true}, {"zb_h1", false}, {"zb_h2", false}, {"zb_v", true}};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        const struct pipeline_order *order = pipeline_order_find(orders[o].order);
        for (int stages = 1; stages <= 12; stages++) {
            for (int parts = 1; parts <= 4; parts++) {
                for (int micro_batches = 1; micro_batches <= 4 * stages; micro_batches += 1 + micro_batches / 6) {
                    struct order_shape shape = shape_of(stages, parts, micro_batches);
                    struct result r = {0};
                    int reached = 0;
                    CHECK_OK(run(order->name, &shape, &r));
                    for (int i = 0; i < stages; i++) {
                        double most = order->kept(order, &shape, i);
                        CHECK(r.kept[i].activations <= most, "%s, %d stages, %d parts, %d micro-batches, rank %d: %g, at most %g",
                              order->name, stages, parts, micro_batches, i, r.kept[i].activations, most);
                        reached += r.kept[i].activations == most;
                    }
                    if (micro_batches >= 2 * stages && micro_batches % stages == 0)
                        CHECK(reached >= (orders[o].every_rank ? stages : 1), "%s, %d stages, %d micro-batches: %d ranks", order->name,
                              stages, micro_batches, reached);
                }
            }
        }
    }
    const struct order_shape shape = shape_of(8, 3, 24);
    CHECK(pipeline_order_find("1f1b")->kept(pipeline_order_find("1f1b"), &shape, 2) == 6);
    double interleaved = pipeline_order_find("interleaved")->kept(pipeline_order_find("interleaved"), &shape, 0);
    CHECK(fabs(interleaved - 8 * (1 + 7 / (8 * 3.0))) < 1e-9, "%g", interleaved); /* p (1 + (p - 1) / (p v)) */
}

static void test_bubbles_are_those_of_the_sources(void)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zb_h1", "zb_h2"};
    static const struct plan_times times[] = {{1, 1, 1, 0, NULL}, {3, 4, 2, 0, NULL}, {2, 2, 1, 0, NULL}};
    for (size_t o = 0; o < sizeof names / sizeof *names; o++) {
        for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
            for (int stages = 1; stages <= 8; stages++) {
                struct order_shape shape = shape_of(stages, 3, 4 * stages);
                struct result r = {0};
                shape.times = times[t];
                CHECK_OK(run(names[o], &shape, &r));
                double passes = shape.micro_batches * (times[t].forward + times[t].backward_input + times[t].backward_weight);
                double bubble = pipeline_order_find(names[o])->bubble(&shape);
                CHECK(fabs(r.makespan - passes - bubble) < 1e-6, "%s, %d stages, times %zu: %g, expected %g", names[o], stages, t,
                      r.makespan - passes, bubble);
            }
        }
    }
}

static void test_zb_v_has_no_bubble_where_passes_are_equal(void)
{
    for (int stages = 1; stages <= 12; stages++) {
        for (int micro_batches = 2 * stages - 1; micro_batches <= 3 * stages; micro_batches++) {
            struct order_shape shape = shape_of(stages, 1, micro_batches);
            struct result r = {0};
            CHECK_OK(run("zb_v", &shape, &r));
            CHECK(fabs(r.bubble) < 1e-9, "%d stages, %d micro-batches: %g", stages, micro_batches, r.bubble);
        }
    }
}

/* ---- published bubbles ---- */

/* Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, tables 5 and 9: measured times in ms,
 * and the bubbles of the authors' schedules with them. A layer is a part of the interleaved order;
 * the first and the last stage have one less than the others, which is not in the times. */
static const struct {
    int stages, parts, micro_batches;
    struct plan_times times;
    double f1b1, interleaved, zb_h1, zb_h2, zb_1p, zb_2p;
} published[] = {
    {8, 3, 24, {18.522, 18.086, 9.337, 0.601, NULL}, 0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433},
    {8, 3, 32, {18.513, 18.086, 9.331, 0.626, NULL}, 0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039},
    {8, 3, 64, {18.546, 18.097, 9.321, 0.762, NULL}, 0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026},
    {8, 4, 24, {29.718, 29.444, 19.927, 0.527, NULL}, 0.2347, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029},
    {8, 4, 32, {29.802, 29.428, 19.530, 0.577, NULL}, 0.1898, 0.0628, 0.1045, 0.0559, 0.1045, 0.0022},
    {8, 4, 64, {29.935, 29.621, 19.388, 0.535, NULL}, 0.1091, 0.0320, 0.0554, 0.0294, 0.0554, 0.0010},
};

static double bubble_of(const char *order, size_t row, int memory_limit)
{
    struct order_shape shape = shape_of(published[row].stages, published[row].parts, published[row].micro_batches);
    struct result r = {.bubble = NAN};
    shape.times = published[row].times;
    shape.memory_limit = memory_limit;
    CHECK_OK(run(order, &shape, &r));
    return r.bubble;
}

static void test_bubbles_are_the_published_ones(void)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        int stages = published[i].stages;
        double f1b1 = bubble_of("1f1b", i, 0), zb_h1 = bubble_of("zb_h1", i, 0), zb_h2 = bubble_of("zb_h2", i, 0);
        double interleaved = bubble_of("interleaved", i, 0);
        double zb_1p = bubble_of("zb_auto", i, stages), zb_2p = bubble_of("zb_auto", i, 2 * stages);
        CHECK(fabs(f1b1 - published[i].f1b1) < 0.0005, "row %zu: %.4f", i, f1b1);
        CHECK(fabs(zb_h1 - published[i].zb_h1) < 0.0005, "row %zu: %.4f", i, zb_h1);
        CHECK(fabs(zb_h2 - published[i].zb_h2) < 0.0005, "row %zu: %.4f", i, zb_h2);
        CHECK(fabs(interleaved - published[i].interleaved) < 0.01, "row %zu: %.4f", i, interleaved);
        CHECK(zb_1p < published[i].zb_1p + 0.001, "row %zu: %.4f", i, zb_1p);
        CHECK(zb_2p < published[i].zb_2p + 0.001, "row %zu: %.4f", i, zb_2p);
    }
}

/* ---- any shape ---- */

static uint32_t state;

static int random_from(int first, int last)
{
    state = state * 1664525u + 1013904223u;
    return first + (int)((state >> 8) % (uint32_t)(last - first + 1));
}

/* Each micro-batch goes through each part once, in sequence. */
static void check_passes(const struct pipeline_order *order, const struct plan *plan)
{
    int places = plan->parts * plan->micro_batches, wrong = 0;
    uint8_t *done = calloc((size_t)places, 1);
    for (int i = 0; i < plan->count; i++) {
        const struct action *a = &plan->actions[i];
        uint8_t *d = &done[a->part * plan->micro_batches + (int)a->micro_batch];
        if (!action_computes(a))
            continue;
        int before = a->op == ACTION_FORWARD ? 0 : a->op == ACTION_BACKWARD_WEIGHT ? 2 : 1;
        bool half = a->op == ACTION_BACKWARD_INPUT || a->op == ACTION_BACKWARD_WEIGHT;
        wrong += *d != before || half != (order->halves && a->op != ACTION_FORWARD);
        *d = (uint8_t)(a->op == ACTION_BACKWARD ? 3 : before + 1);
    }
    for (int i = 0; i < places; i++)
        wrong += done[i] != 3;
    CHECK(wrong == 0, "%s, stage %d of %d, %d parts, %d micro-batches", order->name, plan->stage, plan->stages, plan->parts,
          plan->micro_batches);
    free(done);
}

static void check_random_plan(void)
{
    int count = 0;
    struct plan plans[MOST_STAGES] = {0};
    struct rank_time ranks[MOST_STAGES];
    while (pipeline_order_at(count))
        count++;
    const struct pipeline_order *order = pipeline_order_at(random_from(0, count - 1));
    struct order_shape shape = shape_of(random_from(1, 12), random_from(1, 5), random_from(1, 40));
    shape.memory_limit = random_from(0, 3 * shape.stages);
    shape.times =
        (struct plan_times){random_from(1, 99), random_from(0, 99), random_from(0, 99), random_from(0, 3) * random_from(0, 99), NULL};
    CHECK_OK(plans_make(order, &shape, plans));
    CHECK_OK(plan_time(plans, shape.stages, &shape.times, ranks));
    double bubble = plan_bubble(ranks, shape.stages);
    CHECK(bubble > -1e-9 && bubble < 1);
    for (int i = 0; i < shape.stages; i++) {
        struct plan_kept kept = plan_keeps(&plans[i]);
        check_passes(order, &plans[i]);
        if (order->kept)
            CHECK(kept.activations <= order->kept(order, &shape, i), "%s: %g", order->name, kept.activations);
        else
            CHECK(kept.weighted <= (shape.memory_limit ? shape.memory_limit : shape.stages), "%s: %g", order->name, kept.weighted);
    }
    finish(plans, shape.stages);
}

/* test/meson.build sets ASAN_OPTIONS for sanitizers, which are slow: they try fewer similar
 * cases. */
static bool is_slowed_down(void)
{
    return getenv("ASAN_OPTIONS") != NULL;
}

static void test_random_plans_run(void)
{
    const char *plans = getenv("DTBENCH_TEST_PLANS");
    state = 1;
    for (int i = 0; i < (plans ? atoi(plans) : is_slowed_down() ? 200 : 2000); i++)
        check_random_plan();
}

/* The found order is not longer than the hand-made order that keeps the same. */
static void test_a_search_finds_no_less_than_zb_h1(void)
{
    state = 2;
    for (int i = 0; i < (is_slowed_down() ? 20 : 200); i++) {
        struct order_shape shape = shape_of(random_from(1, 10), 1, random_from(1, 40));
        struct result by_hand = {0}, found = {0};
        shape.times = (struct plan_times){random_from(10, 20), random_from(10, 25), random_from(5, 20), random_from(0, 4), NULL};
        CHECK_OK(run("zb_h1", &shape, &by_hand));
        CHECK_OK(run("zb_auto", &shape, &found));
        CHECK(found.makespan <= by_hand.makespan * 1.001, "%d stages, %d micro-batches, %g %g %g %g: %g and %g", shape.stages,
              shape.micro_batches, shape.times.forward, shape.times.backward_input, shape.times.backward_weight, shape.times.send,
              found.makespan, by_hand.makespan);
    }
}

static void test_large_plans_take_less_than_a_second(void)
{
    const struct pipeline_order *order;
    if (is_slowed_down())
        SKIP("sanitizers take their time");
    for (int o = 0; (order = pipeline_order_at(o)); o++) {
        struct order_shape shape = shape_of(64, 2, 1024);
        struct plan plans[MOST_STAGES] = {0};
        clock_t begin = clock(); /* the processor's time: the machine may be busy with something else */
        CHECK_OK(plans_make(order, &shape, plans));
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        printf("# %s: %.3f s\n", order->name, seconds);
        CHECK(seconds < 1, "%s: %g s", order->name, seconds);
        finish(plans, shape.stages);
    }
}

/* The number of tries depends only on the number of passes. */
static void test_a_search_has_a_limit(void)
{
    static const struct {
        int stages, micro_batches;
        const char *tried;
    } examples[] = {
        {16, 64, "50 of 50 settings tried with 64 micro-batches, and the best 4 with all"},
        {64, 1024, "50 of 50 settings tried with 256 micro-batches, and the best 4 with all"},
        {256, 4096, "12 of 50 settings tried with 1024 micro-batches, and the best 1 with all"},
        {4096, 256, "4 of 50 settings tried with 256 micro-batches, and the best 1 with all"},
        {1, 1048576, "50 of 50 settings tried with 4 micro-batches, and the best 1 with all"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        char text[128];
        struct order_shape shape = shape_of(examples[i].stages, 1, examples[i].micro_batches);
        pipeline_order_find("zb_auto")->tell(&shape, text, sizeof text);
        CHECK(strcmp(text, examples[i].tried) == 0, "%d x %d: %s", examples[i].stages, examples[i].micro_batches, text);
    }
}

/* Plans that are already made replace a search if they have this shape. */
static void test_plans_are_made_once(void)
{
    struct order_shape shape = shape_of(4, 1, 8);
    struct plan first[4] = {0}, again[4] = {0}, two[2] = {0};
    CHECK_OK(plans_make(pipeline_order_find("zb_auto"), &shape, first));
    shape.made = first;
    first[2].actions[5].micro_batch = 77; /* no search finds this */
    CHECK_OK(plans_make(pipeline_order_find("zb_auto"), &shape, again));
    CHECK_OK(plans_of_stages(pipeline_order_find("zb_auto"), &shape, (const int[]){1, 2}, 2, two));
    CHECK(again[2].count == first[2].count && again[2].actions[5].micro_batch == 77 && two[1].actions[5].micro_batch == 77);
    finish(again, 4);
    finish(two, 2);
    shape.micro_batches = shape.window = 9;
    CHECK_OK(plans_make(pipeline_order_find("zb_auto"), &shape, again));
    CHECK(again[2].actions[5].micro_batch != 77);
    finish(again, 4);
    finish(first, 4);
}

/* ---- files ---- */

static dt_status make_file(const char *text, int stages, int micro_batches, int memory_limit, struct plan *plans)
{
    struct order_shape shape = shape_of(stages, 1, micro_batches);
    shape.file = "my.csv";
    shape.text = text;
    shape.memory_limit = memory_limit;
    return plans_make(pipeline_order_find("my.csv"), &shape, plans);
}

static void test_a_file_is_an_order(void)
{
    static const struct {
        const char *text;
        int stages, micro_batches, parts;
        bool folded;
    } files[] = {
        {"F0 F1 B0 B1\nF0 B0 F1 B1\n", 2, 2, 1, false},
        {"# two ranks\n\nF0,F1,B0,B1\r\n  F0, I0,,W0\tF1 I1 W1 # the last\n", 2, 2, 1, false},
        {"F0 F0.1 B0.1 B0\nF0 F0.1 B0.1 B0", 2, 1, 2, false},
        {"0F0 2F0 2B0 0B0\n1F0 3F0 3I0 1B0 3W0\n", 2, 1, 2, false},
        {"0F0,3F0,3I0,0I0,3W0,0W0\n1F0,2F0,2I0,1I0,1W0,2W0\n", 2, 1, 2, true},
        {"F0 F0.1 F0.2 B0.2 B0.1 B0", 1, 1, 3, false},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct plan plans[MOST_STAGES] = {0};
        CHECK_OK(make_file(files[i].text, files[i].stages, files[i].micro_batches, 0, plans));
        CHECK(plans[0].parts == files[i].parts && plans[0].folded == files[i].folded, "file %zu: %d parts", i, plans[0].parts);
        finish(plans, files[i].stages);
    }
    struct plan plans[MOST_STAGES] = {0};
    CHECK_OK(make_file(files[0].text, 2, 2, 2, plans)); /* as many as may be kept */
    finish(plans, 2);
}

/* Each rank from its own first pass on, not from the step's beginning. */
static void test_a_makespan_is_the_longest_rank(void)
{
    const struct rank_time ranks[] = {
        {.begin = 0, .end = 6, .busy = 3}, {.begin = 4, .end = 9, .busy = 3}, {.begin = 1, .end = 8, .busy = 3}};
    CHECK(plan_makespan(ranks, 3) == 7 && plan_makespan(ranks, 2) == 6, "%g", plan_makespan(ranks, 3));
}

static void test_a_wrong_file_is_refused(void)
{
    static const struct {
        const char *text, *error;
        int memory_limit;
    } files[] = {
        {"F0 F1 B0 B1", "has lines for 1 ranks; the pipeline has 2", 0},
        {"F0 X0\nF0", "line 1: \"X0\" is no pass", 0},
        {"F0 F\nF0", "line 1: \"F\" is no pass", 0},
        {"F0 F99999999\nF0", "is no pass", 0},
        {"F0 F1 B0 B1\nF0 F0 B0 F1 B1", "line 2 (rank 1): F0 comes twice", 0},
        {"F0 F1 B0 B1\nF0 B1 F1 B0", "line 2 (rank 1): B1 comes before its forward pass", 0},
        {"F0 F1 B0 B1\nF0 W0 I0 F1 B1", "W0 comes before the gradients of its inputs", 0},
        {"F0 F1 B0 B1\nF0 B0 I0 W0 F1 B1", "I0 comes after another backward pass", 0},
        {"F0 F1 B0 B1\nF0 B0 F1", "rank 1: micro-batch 1 has no B", 0},
        {"F0 F1 B0 B1\nF0 B0 F1 I1", "rank 1: micro-batch 1 has no W", 0},
        {"F0 B0\nF0 B0", "rank 0: micro-batch 1 has no F", 0},
        {"F0 F1 F2 B0 B1 B2\nF0 B0 F1 B1 F2 B2", "F2: the step has 2 micro-batches", 0},
        {"F0 F1 B0 B1\nF1 B1 F0 B0", "messages cross: rank 1 cannot run F1", 0},
        {"F0 B0 F1 B1\nF0 F1 B0 B1",
         "deadlock: rank 0 cannot run B0, which needs the gradient from rank 1; rank 1 cannot run F1, which needs the input from rank 0",
         0},
        {"F0 F1 B0 B0.1 F0.1 F1.1 B1.1 B1\nF0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1", "B0.1 comes before its forward pass", 0},
        {"F0 F0.1 F1 F1.1 B0.1 B1.1 B0 B1\nF0.1 F0 F1 F1.1 B0.1 B1.1 B0 B1", "rank 1 cannot run F0.1, which needs the input from rank 0",
         0},
        {"0F0 0F1 0B0 0B1\n0F0 0F1 0B0 0B1", "line 2: 0F0: virtual stage 0 is not on rank 1", 0},
        {"0F0 F1 0B0 0B1\n1F0 1F1 1B0 1B1", "in front of every pass, or of none", 0},
        {"F0 F1 B0 B1\nF0 B0 F1 B1", "rank 0 keeps 2 micro-batches; pipeline.memory_limit is 1", 1},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct plan plans[MOST_STAGES] = {0};
        CHECK(make_file(files[i].text, 2, 2, files[i].memory_limit, plans) == DT_ERR_INVALID, "file %zu", i);
        CHECK(strstr(dt_error_message(), files[i].error), "file %zu: %s", i, dt_error_message());
        finish(plans, 2);
    }
    CHECK(pipeline_order_find("unknown") == NULL);
}

/* In a V the two parts of the last rank follow one another without a message. */
static void test_a_deadlock_within_a_rank_is_named(void)
{
    struct plan plans[MOST_STAGES] = {0};
    CHECK(make_file("0F0 3F0 3B0 0B0\n2F0 1F0 2B0 1B0", 2, 1, 0, plans) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "deadlock: rank 1 cannot run F0.1, which needs the input from its own part 0"), "%s",
          dt_error_message());
    finish(plans, 2);
}

static const struct test_case cases[] = {
    {"activations are those of the sources", test_activations_are_those_of_the_sources},
    {"bubbles are those of the sources", test_bubbles_are_those_of_the_sources},
    {"zb_v has no bubble where passes are equal", test_zb_v_has_no_bubble_where_passes_are_equal},
    {"bubbles are the published ones", test_bubbles_are_the_published_ones},
    {"random plans run", test_random_plans_run},
    {"a search finds no less than zb_h1", test_a_search_finds_no_less_than_zb_h1},
    {"large plans take less than a second", test_large_plans_take_less_than_a_second},
    {"a search has a limit", test_a_search_has_a_limit},
    {"plans are made once", test_plans_are_made_once},
    {"a file is an order", test_a_file_is_an_order},
    {"a makespan is that of the longest rank", test_a_makespan_is_the_longest_rank},
    {"a wrong file is refused", test_a_wrong_file_is_refused},
    {"a deadlock within a rank is named", test_a_deadlock_within_a_rank_is_named},
};
TEST_MAIN(cases)
