/* Plans of whole pipelines: what an order emits, that its messages arrive, how long it takes in unit times, and how many stashes it needs.
 * The times and the stashes are the closed forms of the papers that orders.c names. */
#include "schedules/plan/orders.h"
#include "schedules/plan/passes.h"
#include "test/check.h"

#include <stdlib.h>

enum { MOST_STAGES = 8, MOST_ACTIONS = 1000 };

struct ranks {
    struct plan plans[MOST_STAGES];
    int times[MOST_STAGES][MOST_ACTIONS];
    int stages, end;
};

static void ranks_finish(struct ranks *r)
{
    for (int i = 0; i < r->stages; i++)
        plan_finish(&r->plans[i]);
}

static dt_status make(const char *order, int stages, int micro_batches, int window, struct ranks *r)
{
    int *times[MOST_STAGES];
    *r = (struct ranks){.stages = stages};
    for (int i = 0; i < stages; i++) {
        struct order_shape shape = {.stage = i, .stages = stages, .micro_batches = micro_batches, .window = window};
        DT_TRY(pipeline_order_emit(pipeline_order_find(order), &shape, &r->plans[i]));
        DT_TRY(plan_add_messages(&r->plans[i]));
        DT_TRY(plan_assign_slots(&r->plans[i]));
        CHECK(r->plans[i].count <= MOST_ACTIONS);
        times[i] = r->times[i];
    }
    DT_TRY(plan_play(r->plans, stages, times));
    for (int i = 0; i < stages; i++) {
        int end = r->times[i][r->plans[i].count - 1];
        r->end = end > r->end ? end : r->end;
    }
    return DT_OK;
}

/* The passes of a plan as text: F0 B0, and I and W for the halves. */
static void passes_of(const struct plan *plan, char *text, size_t bytes)
{
    static const char letters[] = {
        [ACTION_FORWARD] = 'F', [ACTION_BACKWARD] = 'B', [ACTION_BACKWARD_INPUT] = 'I', [ACTION_BACKWARD_WEIGHT] = 'W'};
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < plan->count && used + 8 < bytes; i++)
        if (plan->actions[i].op <= ACTION_BACKWARD_WEIGHT)
            used += (size_t)snprintf(text + used, bytes - used, "%s%c%u", used ? " " : "", letters[plan->actions[i].op],
                                     plan->actions[i].micro_batch);
}

static void check_passes(const char *order, int stage, int stages, int micro_batches, int window, const char *expected)
{
    char text[512];
    struct ranks r;
    CHECK_OK(make(order, stages, micro_batches, window, &r));
    passes_of(&r.plans[stage], text, sizeof text);
    CHECK(strcmp(text, expected) == 0, "%s, stage %d: %s", order, stage, text);
    ranks_finish(&r);
}

static void test_orders_emit_their_passes(void)
{
    check_passes("gpipe", 0, 2, 3, 3, "F0 F1 F2 B2 B1 B0");
    check_passes("gpipe", 1, 2, 4, 2, "F0 F1 B1 B0 F2 F3 B3 B2"); /* two windows */
    check_passes("gpipe", 0, 1, 2, 1, "F0 B0 F1 B1");             /* gradient accumulation */
    check_passes("1f1b", 0, 3, 4, 4, "F0 F1 F2 B0 F3 B1 B2 B3");
    check_passes("1f1b", 2, 3, 4, 4, "F0 B0 F1 B1 F2 B2 F3 B3");
    check_passes("zero_bubble", 0, 3, 4, 4, "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
    check_passes("zero_bubble", 2, 3, 4, 4, "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
    check_passes("interleaved_1f1b", 1, 2, 2, 2, "F0 F1 F0 B0 F1 B1 B0 B1");
}

static void test_every_pass_is_emitted_once_and_in_sequence(void)
{
    const struct pipeline_order *order;
    for (int o = 0; (order = pipeline_order_at(o)); o++) {
        for (int stages = 1; stages <= MOST_STAGES; stages++) {
            for (int rounds = 1; rounds <= 3; rounds++) {
                struct ranks r;
                int n = rounds * stages, done[ACTION_OPS][2][3 * MOST_STAGES];
                CHECK_OK(make(order->name, stages, n, stages, &r));
                for (int i = 0; i < stages; i++) {
                    memset(done, 0, sizeof done);
                    for (int k = 0; k < r.plans[i].count; k++) {
                        const struct action *a = &r.plans[i].actions[k];
                        done[a->op][a->part][a->micro_batch]++;
                        bool forward = done[ACTION_FORWARD][a->part][a->micro_batch];
                        bool input = done[ACTION_BACKWARD_INPUT][a->part][a->micro_batch];
                        CHECK(a->op != ACTION_BACKWARD || forward);
                        CHECK(a->op != ACTION_BACKWARD_INPUT || forward);
                        CHECK(a->op != ACTION_BACKWARD_WEIGHT || input);
                    }
                    for (int part = 0; part < order->parts; part++)
                        for (int m = 0; m < n; m++)
                            CHECK(done[ACTION_FORWARD][part][m] == 1 && done[ACTION_BACKWARD][part][m] == !order->halves &&
                                      done[ACTION_BACKWARD_INPUT][part][m] == order->halves &&
                                      done[ACTION_BACKWARD_WEIGHT][part][m] == order->halves,
                                  "%s, %d stages, micro-batch %d", order->name, stages, m);
                }
                ranks_finish(&r);
            }
        }
    }
}

/* Forward takes 1 and backward 2, so that a rank computes for 3 of each micro-batch; the rest of the step is its bubble. */
static void check_end(const char *order, int stages, int micro_batches, int window, double bubble)
{
    struct ranks r;
    CHECK_OK(make(order, stages, micro_batches, window, &r));
    CHECK(r.end == (int)((3 * micro_batches + bubble) * UNIT_TIME), "%s, %d stages, %d micro-batches: %g, expected %g", order, stages,
          micro_batches, (double)r.end / UNIT_TIME, 3 * micro_batches + bubble);
    ranks_finish(&r);
}

static void test_bubbles_are_those_of_the_papers(void)
{
    for (int stages = 1; stages <= MOST_STAGES; stages++) {
        for (int rounds = 2; rounds <= 4; rounds++) {
            int n = rounds * stages, p = stages - 1;
            check_end("gpipe", stages, n, n, 3 * p);
            check_end("gpipe", stages, n, stages, rounds * 3 * p); /* one for each window */
            check_end("1f1b", stages, n, n, 3 * p);
            check_end("interleaved_1f1b", stages, n, n, 3 * p / 2.0); /* divided by the parts */
            check_end("zero_bubble", stages, n, n, p);                /* forward + input gradient - weight gradient */
        }
    }
}

static int most_alive(const struct plan *plan)
{
    int alive = 0, most = 0;
    for (int i = 0; i < plan->count; i++) {
        uint8_t op = plan->actions[i].op;
        alive += op == ACTION_FORWARD;
        most = alive > most ? alive : most;
        alive -= op == ACTION_BACKWARD || op == ACTION_BACKWARD_WEIGHT;
    }
    return most;
}

static void test_slots_are_the_fewest(void)
{
    struct ranks r;
    int stages = 4, n = 12;
    CHECK_OK(make("gpipe", stages, n, n, &r));
    for (int i = 0; i < stages; i++)
        CHECK(r.plans[i].slots == n);
    ranks_finish(&r);
    CHECK_OK(make("gpipe", stages, n, 3, &r));
    for (int i = 0; i < stages; i++)
        CHECK(r.plans[i].slots == 3); /* a window's */
    ranks_finish(&r);
    CHECK_OK(make("1f1b", stages, n, n, &r));
    for (int i = 0; i < stages; i++)
        CHECK(r.plans[i].slots == stages - i);
    ranks_finish(&r);
    CHECK_OK(make("zero_bubble", stages, n, n, &r));
    for (int i = 0; i < stages; i++)
        CHECK(r.plans[i].slots == most_alive(&r.plans[i]) && r.plans[i].slots <= stages, "stage %d: %d", i, r.plans[i].slots);
    ranks_finish(&r);
}

static void test_a_slot_has_one_micro_batch_at_a_time(void)
{
    const struct pipeline_order *order;
    for (int o = 0; (order = pipeline_order_at(o)); o++) {
        struct ranks r;
        CHECK_OK(make(order->name, 4, 8, 4, &r));
        for (int i = 0; i < 4; i++) {
            const struct plan *plan = &r.plans[i];
            int holder[2][8], slot[2][8];
            memset(holder, -1, sizeof holder);
            memset(slot, -1, sizeof slot);
            for (int k = 0; k < plan->count; k++) {
                const struct action *a = &plan->actions[k];
                int *held = &holder[a->part][a->slot], m = (int)a->micro_batch;
                if (slot[a->part][m] < 0) {
                    CHECK(*held < 0, "%s: slot %d has micro-batch %d when %d takes it", order->name, a->slot, *held, m);
                    *held = m;
                    slot[a->part][m] = a->slot;
                }
                CHECK(*held == m && slot[a->part][m] == a->slot);
                bool last = true;
                for (int later = k + 1; later < plan->count; later++)
                    last &= plan->actions[later].part != a->part || plan->actions[later].micro_batch != a->micro_batch;
                if (last)
                    *held = -1;
            }
        }
        ranks_finish(&r);
    }
}

static void swap(struct plan *plan, enum action_op first, enum action_op second)
{
    struct action *one = NULL, *other = NULL, kept;
    for (int i = 0; i < plan->count; i++) {
        one = !one && plan->actions[i].op == first ? &plan->actions[i] : one;
        other = !other && plan->actions[i].op == second ? &plan->actions[i] : other;
    }
    kept = *one;
    *one = *other;
    *other = kept;
}

/* The first stage waits for a gradient before it sends what that gradient is made from. */
static void test_a_deadlock_is_named(void)
{
    struct ranks r;
    CHECK_OK(make("1f1b", 2, 2, 2, &r));
    swap(&r.plans[0], ACTION_SEND_OUTPUT, ACTION_RECV_GRADIENT);
    CHECK(plan_play(r.plans, 2, NULL) == DT_ERR_INVALID);
    CHECK(strcmp(dt_error_message(), "deadlock: stage 0 waits for the output's gradient of micro-batch 0 from stage 1, "
                                     "stage 1 waits for the input of micro-batch 0 from stage 0") == 0,
          "%s", dt_error_message());
    ranks_finish(&r);
}

/* The circle is of stages 1 and 2; the others wait for them and are not named. */
static void test_of_a_deadlock_only_the_circle_is_named(void)
{
    struct ranks r;
    CHECK_OK(make("gpipe", 4, 1, 1, &r));
    swap(&r.plans[1], ACTION_SEND_OUTPUT, ACTION_RECV_GRADIENT);
    CHECK(plan_play(r.plans, 4, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "stage 1 waits for the output's gradient of micro-batch 0 from stage 2"), "%s", dt_error_message());
    CHECK(strstr(dt_error_message(), "stage 2 waits for the input of micro-batch 0 from stage 1"), "%s", dt_error_message());
    CHECK(!strstr(dt_error_message(), "stage 0 waits") && !strstr(dt_error_message(), "stage 3 waits"), "%s", dt_error_message());
    ranks_finish(&r);
}

static void test_messages_that_cross_or_are_left_are_named(void)
{
    struct ranks r;
    CHECK_OK(make("gpipe", 2, 2, 2, &r));
    for (int i = 0; i < r.plans[0].count; i++)
        if (r.plans[0].actions[i].op == ACTION_SEND_OUTPUT)
            r.plans[0].actions[i].micro_batch ^= 1;
    CHECK(plan_play(r.plans, 2, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "messages cross: stage 1 waits for the input of micro-batch 0 from stage 0"), "%s",
          dt_error_message());
    ranks_finish(&r);

    CHECK_OK(make("gpipe", 2, 1, 1, &r));
    r.plans[0].count = 2; /* the gradient that stage 1 sends is not received */
    CHECK(plan_play(r.plans, 2, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "nobody receives"), "%s", dt_error_message());
    ranks_finish(&r);

    CHECK_OK(make("gpipe", 2, 1, 1, &r));
    r.plans[1].count = 2; /* nor sent */
    CHECK(plan_play(r.plans, 2, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "stage 1 has finished and never sends it"), "%s", dt_error_message());
    ranks_finish(&r);
}

static void test_interleaving_needs_whole_rounds(void)
{
    struct ranks r;
    CHECK(make("interleaved_1f1b", 4, 6, 6, &r) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "multiple of its 4 stages"), "%s", dt_error_message());
    ranks_finish(&r);
    CHECK(pipeline_order_find("unknown") == NULL);
}

static const struct test_case cases[] = {
    {"orders emit their passes", test_orders_emit_their_passes},
    {"every pass is emitted once and in sequence", test_every_pass_is_emitted_once_and_in_sequence},
    {"bubbles are those of the papers", test_bubbles_are_those_of_the_papers},
    {"slots are the fewest", test_slots_are_the_fewest},
    {"a slot has one micro-batch at a time", test_a_slot_has_one_micro_batch_at_a_time},
    {"a deadlock is named", test_a_deadlock_is_named},
    {"of a deadlock only the circle is named", test_of_a_deadlock_only_the_circle_is_named},
    {"messages that cross or are left are named", test_messages_that_cross_or_are_left_are_named},
    {"interleaving needs whole rounds", test_interleaving_needs_whole_rounds},
};
TEST_MAIN(cases)
