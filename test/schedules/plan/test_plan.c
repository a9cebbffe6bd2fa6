/* Plans of whole pipelines: what an order emits, that its messages arrive, how long it takes in
 * unit times, and how many stashes it needs. The times and the stashes are the closed forms of the
 * papers that orders.c names. */
#include "schedules/plan/plan.h"
#include "test/check.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_STAGES = 8, MOST_ACTIONS = 1000, PARTS = 2 };

struct ranks {
    struct plan plans[MOST_STAGES];
    double times[MOST_STAGES][MOST_ACTIONS], end;
    int stages;
};

static void ranks_finish(struct ranks *r)
{
    for (int i = 0; i < r->stages; i++)
        plan_finish(&r->plans[i]);
}

static dt_status make(const char *order, int stages, int micro_batches, int window, struct ranks *r)
{
    double *times[MOST_STAGES];
    struct order_shape shape = {
        .stages = stages, .virtual_stages = PARTS, .micro_batches = micro_batches, .window = window, .times = plan_unit_times};
    *r = (struct ranks){.stages = stages};
    DT_TRY(pipeline_order_emit(pipeline_order_find(order), &shape, r->plans));
    for (int i = 0; i < stages; i++) {
        DT_TRY(plan_add_messages(&r->plans[i]));
        DT_TRY(plan_assign_slots(&r->plans[i]));
        CHECK(r->plans[i].count <= MOST_ACTIONS);
        times[i] = r->times[i];
    }
    DT_TRY(plan_play(r->plans, stages, NULL, times));
    for (int i = 0; i < stages; i++) {
        double end = r->times[i][r->plans[i].count - 1];
        r->end = end > r->end ? end : r->end;
    }
    return DT_OK;
}

/* The passes of a plan as text: F0 B0, and I and W for the halves. */
static void passes_of(const struct plan *plan, char *text, size_t bytes)
{
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < plan->count && used + 8 < bytes; i++)
        if (plan->actions[i].op <= ACTION_BACKWARD_WEIGHT)
            used += (size_t)snprintf(text + used, bytes - used, "%s%c%u", used ? " " : "",
                                     action_letter((enum action_op)plan->actions[i].op), plan->actions[i].micro_batch);
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
    check_passes("zb_h1", 0, 3, 4, 4, "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
    check_passes("zb_h1", 2, 3, 4, 4, "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
    check_passes("zb_h2", 1, 2, 4, 4, "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
    check_passes("interleaved", 1, 2, 2, 2, "F0 F1 F0 B0 F1 B1 B0 B1");
    check_passes("interleaved", 0, 2, 3, 3, "F0 F1 F0 F1 F2 B0 B1 F2 B0 B1 B2 B2"); /* a round that is not whole */
    check_passes("zb_v", 1, 2, 3, 3, "F0 F0 F1 F1 I0 W0 F2 I0 W0 F2 I1 W1 I1 I2 I2 W1 W2 W2");
}

/* Forward takes 1 and backward 2, so that a rank computes for 3 of each micro-batch; the rest of
 * the step is its bubble. */
static void check_end(const char *order, int stages, int micro_batches, int window, double bubble)
{
    struct ranks r;
    CHECK_OK(make(order, stages, micro_batches, window, &r));
    CHECK(fabs(r.end - (3 * micro_batches + bubble)) < 1e-9, "%s, %d stages, %d micro-batches: %g, expected %g", order, stages,
          micro_batches, r.end, 3 * micro_batches + bubble);
    ranks_finish(&r);
    double part, wanted = bubble / (3 * micro_batches + bubble);
    struct order_shape shape = {
        .stages = stages, .virtual_stages = PARTS, .micro_batches = micro_batches, .window = window, .times = plan_unit_times};
    CHECK_OK(plan_order_bubble(pipeline_order_find(order), &shape, &part));
    CHECK(fabs(part - wanted) < 1e-12, "%s, %d stages, %d micro-batches: %g of the time, expected %g", order, stages, micro_batches, part,
          wanted);
}

static void test_bubbles_are_those_of_the_papers(void)
{
    for (int stages = 1; stages <= MOST_STAGES; stages++) {
        for (int rounds = 2; rounds <= 4; rounds++) {
            int n = rounds * stages, p = stages - 1;
            check_end("gpipe", stages, n, n, 3 * p);
            check_end("gpipe", stages, n, stages, rounds * 3 * p); /* one for each window */
            check_end("1f1b", stages, n, n, 3 * p);
            check_end("interleaved", stages, n, n, 3 * p / 2.0); /* divided by the parts */
            check_end("zb_h1", stages, n, n, p);                 /* forward + input gradient - weight gradient */
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
    CHECK_OK(make("zb_h1", stages, n, n, &r));
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
    CHECK(plan_play(r.plans, 2, NULL, NULL) == DT_ERR_INVALID);
    CHECK(strcmp(dt_error_message(), "deadlock: rank 0 cannot run B0, which needs the gradient from rank 1; "
                                     "rank 1 cannot run F0, which needs the input from rank 0") == 0,
          "%s", dt_error_message());
    ranks_finish(&r);
}

/* The circle is of stages 1 and 2; the others wait for them and are not named. */
static void test_of_a_deadlock_only_the_circle_is_named(void)
{
    struct ranks r;
    CHECK_OK(make("gpipe", 4, 1, 1, &r));
    swap(&r.plans[1], ACTION_SEND_OUTPUT, ACTION_RECV_GRADIENT);
    CHECK(plan_play(r.plans, 4, NULL, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "rank 1 cannot run B0, which needs the gradient from rank 2"), "%s", dt_error_message());
    CHECK(strstr(dt_error_message(), "rank 2 cannot run F0, which needs the input from rank 1"), "%s", dt_error_message());
    CHECK(!strstr(dt_error_message(), "rank 0 cannot") && !strstr(dt_error_message(), "rank 3 cannot"), "%s", dt_error_message());
    ranks_finish(&r);
}

static void test_messages_that_cross_or_are_left_are_named(void)
{
    struct ranks r;
    CHECK_OK(make("gpipe", 2, 2, 2, &r));
    for (int i = 0; i < r.plans[0].count; i++)
        if (r.plans[0].actions[i].op == ACTION_SEND_OUTPUT)
            r.plans[0].actions[i].micro_batch ^= 1;
    CHECK(plan_play(r.plans, 2, NULL, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "messages cross: rank 1 cannot run F0, which needs the input from rank 0"), "%s", dt_error_message());
    ranks_finish(&r);

    CHECK_OK(make("gpipe", 2, 1, 1, &r));
    r.plans[0].count = 2; /* the gradient that stage 1 sends is not received */
    CHECK(plan_play(r.plans, 2, NULL, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "nobody receives"), "%s", dt_error_message());
    ranks_finish(&r);

    CHECK_OK(make("gpipe", 2, 1, 1, &r));
    r.plans[1].count = 2; /* nor sent */
    CHECK(plan_play(r.plans, 2, NULL, NULL) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), "rank 1 has finished and never sends it"), "%s", dt_error_message());
    ranks_finish(&r);
}

/* ---- expanded plans, as text: an operation's letter and the group (or the segment, or the range
 * of groups) that it is of ---- */

static const char letters[ACTION_OPS] = {
    [ACTION_FORWARD] = 'F',       [ACTION_BACKWARD] = 'B',         [ACTION_BACKWARD_INPUT] = 'I', [ACTION_BACKWARD_WEIGHT] = 'W',
    [ACTION_RECOMPUTE] = 'R',     [ACTION_FORWARD_BACKWARD] = 'L', [ACTION_RECV_INPUT] = '<',     [ACTION_SEND_OUTPUT] = '>',
    [ACTION_RECV_GRADIENT] = '}', [ACTION_SEND_GRADIENT] = '{',    [ACTION_BEGIN] = '(',          [ACTION_END] = ')',
    [ACTION_KEEP_INPUT] = 'k',    [ACTION_TAKE_INPUT] = 't',       [ACTION_DROP] = 'd',           [ACTION_COPY_OUT] = 'o',
    [ACTION_AWAIT_OUT] = 'a',     [ACTION_COPY_IN] = 'i',          [ACTION_PUBLISH] = 'p',        [ACTION_GATHER] = 'g',
    [ACTION_FREE] = 'x',          [ACTION_REDUCE] = 'r',           [ACTION_UPDATE] = 'u',         [ACTION_END_STEP] = '.',
    [ACTION_SUM_COPIES] = 's',
};

static void text_of(const struct plan *plan, const char *only, char *text, size_t bytes)
{
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < plan->count && used + 16 < bytes; i++) {
        const struct action *a = &plan->actions[i];
        char letter = letters[a->op];
        if (!letter || !strchr(only, letter))
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%c", used ? " " : "", letter);
        if (strchr("FBIWRLgxrus", letter))
            used += (size_t)snprintf(text + used, bytes - used, "%d", a->group);
        else if (strchr("ktoai", letter) && a->segment != ACTION_WHOLE_PART)
            used += (size_t)snprintf(text + used, bytes - used, "%d", a->segment);
    }
}

enum { GROUPS = 4 };

/* One stage: an embedding whose backward reads no parameters, two blocks, the head. */
static const struct plan_group groups[GROUPS] = {
    {.backward_reads_params = false, .bucket = 2},
    {.backward_reads_params = true, .bucket = 1},
    {.backward_reads_params = true, .bucket = 1},
    {.backward_reads_params = true, .bucket = 0},
};
static const struct plan_segment kept_segments[] = {{.end_group = GROUPS}};
static const struct plan_segment checkpoint_segments[] = {
    {.first_group = 0, .end_group = 1},
    {.first_group = 1, .end_group = 2, .input_only = true},
    {.first_group = 2, .end_group = 3, .input_only = true},
    {.first_group = 3, .end_group = 4, .input_only = true, .late = true},
};
static const struct plan_part keep = {.groups = groups, .end_group = GROUPS, .segments = kept_segments, .segment_count = 1};
static const struct plan_part checkpoint = {.groups = groups, .end_group = GROUPS, .segments = checkpoint_segments, .segment_count = 4};
static const struct plan_part offload = {
    .groups = groups, .end_group = GROUPS, .segments = checkpoint_segments, .segment_count = 4, .offload = true};

static void check_step(const char *order, int micro_batches, int window, const struct plan_part *part, const struct plan_rules *rules,
                       const char *only, const char *expected)
{
    struct ranks r;
    char text[2048];
    struct plan *plan = &r.plans[0];
    CHECK_OK(make(order, 1, micro_batches, window, &r));
    CHECK_OK(plan_expand(plan, part));
    CHECK_OK(plan_place_parameters(plan, part, rules));
    text_of(plan, only, text, sizeof text);
    CHECK(strcmp(text, expected) == 0, "%s", text);
    ranks_finish(&r);
}

/* A group is gathered while the one before it is computed, from forward into backward and into the
 * next micro-batch; what is used twice in a row stays; what no pass reads is not gathered. */
static void test_groups_are_gathered_one_pass_ahead(void)
{
    struct plan_rules fsdp = {.gathers = true, .gathers_ahead = 1, .reduce_every = 2};
    check_step("gpipe", 1, 1, &keep, &fsdp, "FBgx", "g0 g1 F0 x0 g2 F1 x1 g3 F2 x2 F3 g2 B3 x3 g1 B2 x2 B1 x1 B0");
    check_step("gpipe", 2, 1, &keep, &fsdp, "FBgx",
               "g0 g1 F0 x0 g2 F1 x1 g3 F2 x2 F3 g2 B3 x3 g1 B2 x2 B1 x1 g0 B0 "
               "g1 F0 x0 g2 F1 x1 g3 F2 x2 F3 g2 B3 x3 g1 B2 x2 B1 x1 B0");
    check_step("gpipe", 1, 1, &checkpoint, &fsdp, "FBRLgx", "g0 g1 F0 x0 g2 F1 x1 g3 F2 x2 g2 L3 x3 R2 g1 B2 x2 R1 B1 x1 B0");
    fsdp.gathers_ahead = 2;
    check_step("gpipe", 1, 1, &keep, &fsdp, "FBgx", "g0 g1 g2 F0 x0 g3 F1 x1 F2 x2 g2 F3 g1 B3 x3 B2 x2 B1 x1 B0");
    fsdp.gathers_ahead = 0;
    check_step("gpipe", 1, 1, &keep, &fsdp, "FBgx", "g0 F0 x0 g1 F1 x1 g2 F2 x2 g3 F3 B3 x3 g2 B2 x2 g1 B1 x1 B0");
    fsdp.gathers_in_turn = true;
    check_step("gpipe", 1, 1, &keep, &fsdp, "FBgx", "g0 F0 x0 g1 F1 x1 g2 F2 x2 g3 F3 x3 g3 B3 x3 g2 B2 x2 g1 B1 x1 g0 B0 x0");
}

/* A head whose weight is the embedding's table reads two groups. */
static void test_a_tied_head_gathers_the_table(void)
{
    struct plan_rules fsdp = {.gathers = true, .gathers_ahead = 1, .reduce_every = 1};
    struct plan_group tied[GROUPS];
    struct plan_part part = keep;
    memcpy(tied, groups, sizeof tied);
    tied[3].reads_first = true;
    part.groups = tied;
    check_step("gpipe", 1, 1, &part, &fsdp, "FBgx", "g0 g1 F0 x0 g2 F1 x1 g0 g3 F2 x2 F3 g2 B3 x0 x3 g1 B2 x2 B1 x1 B0");
}

static void test_buckets_are_reduced_behind_their_last_backward(void)
{
    struct plan_rules last = {.reduce_every = 4}, each = {.reduce_every = 2}, at_once = {.updates_at_once = true};
    check_step("gpipe", 4, 2, &keep, &last, "Br", "B3 B2 B1 B0 B3 B2 B1 B0 B3 B2 B1 B0 B3 r3 B2 B1 r1 B0 r0");
    check_step("gpipe", 4, 2, &keep, &each, "Br", "B3 B2 B1 B0 B3 r3 B2 B1 r1 B0 r0 B3 B2 B1 B0 B3 r3 B2 B1 r1 B0 r0");
    check_step("gpipe", 1, 1, &checkpoint, &each, "BLr", "L3 r3 B2 B1 r1 B0 r0"); /* the last is always reduced */
    check_step("gpipe", 2, 1, &keep, &at_once, "Bru.", "B3 B2 B1 B0 B3 u3 B2 u2 B1 u1 B0 u0 .");
    check_step("zb_h1", 2, 2, &keep, &at_once, "IWu", "I3 I2 I1 I0 W3 W2 W1 W0 I3 I2 I1 I0 W3 u3 W2 u2 W1 u1 W0 u0");
}

/* A later stage sends its parameters while it waits for its first message. */
static void test_parameters_are_sent_before_the_first_message(void)
{
    struct ranks r;
    char text[2048];
    struct plan_rules publishes = {.publishes = true, .reduce_every = 1};
    check_step("gpipe", 1, 1, &keep, &publishes, "p(FBr.", "p ( F0 F1 F2 F3 B3 r3 B2 B1 r1 B0 r0 .");
    CHECK_OK(make("gpipe", 2, 2, 2, &r));
    CHECK_OK(plan_expand(&r.plans[1], &keep));
    CHECK_OK(plan_place_parameters(&r.plans[1], &keep, &publishes));
    text_of(&r.plans[1], "p<F", text, sizeof text);
    CHECK(strcmp(text, "p < F0 F1 F2 F3 < F0 F1 F2 F3") == 0, "%s", text);
    ranks_finish(&r);
}

/* The head's group has a copy at the pipeline's other end: after all passes, first the sum, then
 * what it waited for; others are as before. */
static void test_copies_are_summed_up_behind_all_passes(void)
{
    struct plan_rules each = {.reduce_every = 1}, at_once = {.updates_at_once = true};
    struct plan_group tied[GROUPS];
    struct plan_part part = keep;
    memcpy(tied, groups, sizeof tied);
    tied[3].has_copy = true;
    part.groups = tied;
    check_step("gpipe", 2, 1, &part, &each, "Brs.", "B3 B2 B1 r1 B0 r0 B3 B2 B1 r1 B0 r0 s3 r3 .");
    check_step("gpipe", 2, 1, &part, &at_once, "Bsu.", "B3 B2 B1 B0 B3 B2 u2 B1 u1 B0 u0 s3 u3 .");
    tied[3].bucket = 1; /* with its bucket; and both copies on one rank: sums first */
    tied[0].has_copy = true;
    check_step("gpipe", 2, 1, &part, &each, "Brs.", "B3 B2 B1 B0 B3 B2 B1 B0 s3 s0 r1 r0 .");
}

/* The flags that tell a mode where in the step a pass is: first, last, reduced. */
static void test_passes_are_marked(void)
{
    static const struct {
        int reduce_every;
        const char *flags; /* of group 1's backward passes: f first, l last, r reduces */
    } rules[] = {{4, "f|||lr"}, {2, "f|r||lr"}, {1, "fr|r|r|lr"}, {0, "f|||l"}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct ranks r;
        char text[64] = "";
        CHECK_OK(make("1f1b", 1, 4, 4, &r));
        CHECK_OK(plan_expand(&r.plans[0], &checkpoint));
        CHECK_OK(plan_place_parameters(&r.plans[0], &checkpoint, &(struct plan_rules){.reduce_every = rules[i].reduce_every}));
        for (int k = 0, passes = 0, forwards = 0; k < r.plans[0].count; k++) {
            const struct action *a = &r.plans[0].actions[k];
            if (a->op == ACTION_FORWARD && a->group == 1)
                CHECK(!(a->flags & ACTION_FIRST) == (forwards++ > 0));
            if (a->op == ACTION_RECOMPUTE && a->group == 1) /* belongs to the backward that follows */
                CHECK(!(a->flags & ACTION_FIRST) == (passes > 0));
            if (a->op != ACTION_BACKWARD || a->group != 1)
                continue;
            strcat(text, passes++ ? "|" : "");
            strcat(text, a->flags & ACTION_FIRST ? "f" : "");
            strcat(text, a->flags & ACTION_LAST ? "l" : "");
            strcat(text, a->flags & ACTION_REDUCES ? "r" : "");
        }
        CHECK(strcmp(text, rules[i].flags) == 0, "every %d: %s", rules[i].reduce_every, text);
        ranks_finish(&r);
    }
}

static void test_segments_are_recomputed_and_copied(void)
{
    static const struct plan_rules none = {0};
    check_step("gpipe", 1, 1, &checkpoint, &none, "FBRLktd()", "( F0 F1 k1 F2 k2 k3 t3 L3 t2 R2 d B2 t1 R1 d B1 B0 )");
    /* The two inputs that backward needs first stay on the device, the first block's leaves while
     * the second is computed. */
    check_step("gpipe", 1, 1, &offload, &none, "FBRLktoai", "F0 o1 F1 k1 a1 F2 k2 k3 t3 L3 t2 i1 R2 B2 t1 R1 B1 B0");
    /* Where another forward comes first all of them leave. */
    check_step("gpipe", 2, 2, &offload, &none, "FBLoaiRt",
               "F0 o1 F1 a1 o2 F2 a2 o3 F0 a3 o1 F1 a1 F2 t3 L3 t2 i1 R2 B2 t1 i3 R1 B1 B0 t3 i2 L3 t2 i1 R2 B2 t1 R1 B1 B0");
}

/* A forward that keeps the part's input alone, and is computed once more. */
static dt_status forget_the_first(void *context, const struct plan *from, int at, struct plan *out)
{
    struct action a = from->actions[at];
    if (a.op == ACTION_BACKWARD && a.micro_batch == 0)
        DT_TRY(plan_append(out, (struct action){.op = ACTION_FORWARD, .flags = ACTION_AGAIN, .slot = a.slot}));
    if (a.op == ACTION_FORWARD && a.micro_batch == 0)
        a.flags = ACTION_FORGETS;
    return plan_append(out, a);
}

static void test_a_forgotten_forward_is_computed_again(void)
{
    struct ranks r;
    char text[512];
    static const struct plan_rules none = {0};
    struct plan_group joined[GROUPS];
    memcpy(joined, groups, sizeof joined);
    joined[1].kept_with_next = true;
    struct plan_part part = keep;
    part.groups = joined;
    CHECK_OK(make("gpipe", 1, 2, 2, &r));
    CHECK_OK(plan_rewrite(&r.plans[0], forget_the_first, NULL));
    CHECK_OK(plan_expand(&r.plans[0], &part));
    CHECK_OK(plan_place_parameters(&r.plans[0], &part, &none));
    text_of(&r.plans[0], "FBktd()", text, sizeof text);
    for (int i = 0, next = 0; i < r.plans[0].count && next < GROUPS; i++) { /* nothing is kept twice, or by nobody */
        const struct action *a = &r.plans[0].actions[i];
        if (a->op != ACTION_KEEP_INPUT && a->op != ACTION_DROP)
            continue;
        CHECK(a->group == next && a->end > next, "groups %d to %d behind %d", a->group, a->end, next);
        next = a->end;
    }
    CHECK(strcmp(text, "( F0 k F1 F2 d F3 d ( F0 F1 F2 F3 B3 B2 B1 B0 ) t F0 F1 F2 F3 d B3 B2 B1 B0 )") == 0, "%s", text);
    ranks_finish(&r);
}

/* A stage between two others: the gradient is received after the recomputation that does not need
 * it. */
static void test_messages_surround_the_groups(void)
{
    static const struct plan_group blocks[] = {{.backward_reads_params = true}, {.backward_reads_params = true, .bucket = 1}};
    static const struct plan_segment segments[] = {{0, 1, .input_only = true}, {1, 2, .input_only = true}};
    static const struct plan_rules none = {0};
    struct plan_part part = {.groups = blocks, .end_group = 2, .segments = segments, .segment_count = 2};
    struct ranks r;
    char text[512];
    CHECK_OK(make("1f1b", 3, 1, 1, &r));
    CHECK_OK(plan_expand(&r.plans[1], &part));
    CHECK_OK(plan_place_parameters(&r.plans[1], &part, &none));
    text_of(&r.plans[1], "()<>{}FBRkt", text, sizeof text);
    CHECK(strcmp(text, "( < F0 k0 F1 k1 > t1 R1 } B1 t0 R0 B0 ) {") == 0, "%s", text);
    ranks_finish(&r);
}

/* A rank by itself makes the plan that it has among all. */
static void test_one_rank_alone(void)
{
    for (int o = 0; pipeline_order_at(o); o++) {
        for (int stages = 1; stages <= 5; stages++) {
            struct order_shape shape = {
                .stages = stages, .virtual_stages = PARTS, .micro_batches = 6, .window = 3, .times = plan_unit_times};
            struct plan all[5], alone;
            CHECK_OK(plans_make(pipeline_order_at(o), &shape, all));
            for (int i = 0; i < stages; i++) {
                CHECK_OK(plans_of_stages(pipeline_order_at(o), &shape, &i, 1, &alone));
                CHECK(alone.count == all[i].count && alone.stage == i && alone.parts == all[i].parts && alone.folded == all[i].folded &&
                          memcmp(alone.actions, all[i].actions, (size_t)alone.count * sizeof *alone.actions) == 0,
                      "%s, rank %d of %d", pipeline_order_at(o)->name, i, stages);
                plan_finish(&alone);
                plan_finish(&all[i]);
            }
        }
    }
}

/* An activation is known to be received when its gradient comes, which under 1F1B is stages - stage
 * - 1 forward passes later, and a gradient when the activation comes that the stage before makes
 * after that backward pass. */
static void test_arrivals_are_receipts(void)
{
    enum { STAGES = 4, MICRO_BATCHES = 12 };
    static const char *const orders[] = {"1f1b", "gpipe"};
    for (int o = 0; o < 2; o++) {
        for (int i = 0; i < STAGES; i++) {
            struct ranks r;
            struct plan_receipts receipts;
            int most[PLAN_CHANNELS], all = o == 1;
            CHECK_OK(make(orders[o], STAGES, MICRO_BATCHES, MICRO_BATCHES, &r));
            CHECK_OK(plan_receipts_find(i, &r.plans[(i + STAGES - 1) % STAGES], &r.plans[(i + 1) % STAGES], &receipts));
            plan_receipts_most_kept(&receipts, &r.plans[i], most);
            int up = i == STAGES - 1 ? 0 : all ? MICRO_BATCHES : STAGES - i, down = i == 0 ? 0 : all ? MICRO_BATCHES : STAGES - i + 1;
            CHECK(most[PLAN_ACTIVATIONS_UP] == up && most[PLAN_GRADIENTS_DOWN] == down, "%s, stage %d: %d activations, %d gradients",
                  orders[o], i, most[PLAN_ACTIVATIONS_UP], most[PLAN_GRADIENTS_DOWN]);
            CHECK(most[PLAN_ACTIVATIONS_DOWN] == 0 && most[PLAN_GRADIENTS_UP] == 0);
            plan_receipts_finish(&receipts);
            ranks_finish(&r);
        }
    }
}

/* The plans of an order with messages, of any number of micro-batches; NULL: the order has none of
 * this shape. */
static struct plan *plans_of(const struct pipeline_order *order, int stages, int micro_batches, int window)
{
    struct order_shape shape = {
        .stages = stages, .virtual_stages = PARTS, .micro_batches = micro_batches, .window = window, .times = plan_unit_times};
    struct plan *plans = calloc((size_t)stages, sizeof *plans);
    if (plans)
        CHECK_OK(plans_make(order, &shape, plans));
    return plans;
}

static bool same_actions(const struct plan *a, const struct plan *b)
{
    bool same = a->count == b->count && a->micro_batches == b->micro_batches;
    for (int i = 0; same && i < a->count; i++)
        same = a->actions[i].op == b->actions[i].op && a->actions[i].part == b->actions[i].part &&
               a->actions[i].micro_batch == b->actions[i].micro_batch;
    return same;
}

/* A shortened plan is what the order does with so many micro-batches. Orders that are searched have
 * no such rule: theirs still run. */
static void test_a_plan_is_shortened_where_it_repeats_itself(void)
{
    const struct pipeline_order *order;
    for (int i = 0; (order = pipeline_order_at(i)) != NULL; i++)
        for (int stages = 1; stages <= 8; stages *= 2)
            for (int windows = 1; windows <= 16; windows *= 16) {
                int micro_batches = 256, window = micro_batches / windows, step = windows == 1 ? 1 : window;
                struct plan *plans = plans_of(order, stages, micro_batches, window);
                int left_out = plans_shorten(plans, stages, step, 3);
                CHECK(order->emit ? left_out > 0 : left_out >= 0, "%s, %d stages, %d windows: %d", order->name, stages, windows, left_out);
                CHECK(left_out % step == 0 && (left_out == 0 || left_out >= micro_batches / 2), "%s: %d", order->name, left_out);
                struct plan *expected = plans_of(order, stages, micro_batches - left_out, windows == 1 ? micro_batches - left_out : window);
                for (int s = 0; s < stages && order->emit; s++)
                    CHECK(same_actions(&plans[s], &expected[s]), "%s, rank %d of %d, %d windows without %d micro-batches", order->name, s,
                          stages, windows, left_out);
                CHECK_OK(plan_play(plans, stages, NULL, NULL));
                plans_destroy(expected, stages);
                plans_destroy(plans, stages);
            }
}

static void test_what_does_not_repeat_itself_is_not_shortened(void)
{
    const struct pipeline_order *order = pipeline_order_find("1f1b");
    struct plan *plans = plans_of(order, 4, 10, 10);
    CHECK(plans_shorten(plans, 4, 1, 3) == 0 && plans[0].micro_batches == 10, "less than half");
    plans_destroy(plans, 4);

    plans = plans_of(order, 4, 240, 240);
    struct action *a = &plans[2].actions[plans[2].count / 2];
    struct action first = a[0];
    a[0] = a[1];
    a[1] = first;
    CHECK(plans_shorten(plans, 4, 1, 3) == 0 && plans[0].micro_batches == 240, "one rank does otherwise once");
    CHECK(plans_shorten(plans, 2, 1, 3) > 0 && plans[0].micro_batches < 120 && plans[2].micro_batches == 240, "the first two do not");
    plans_destroy(plans, 4);
}

static const struct test_case cases[] = {
    {"orders emit their passes", test_orders_emit_their_passes},
    {"bubbles are those of the papers", test_bubbles_are_those_of_the_papers},
    {"slots are the fewest", test_slots_are_the_fewest},
    {"a slot has one micro-batch at a time", test_a_slot_has_one_micro_batch_at_a_time},
    {"a deadlock is named", test_a_deadlock_is_named},
    {"of a deadlock only the circle is named", test_of_a_deadlock_only_the_circle_is_named},
    {"messages that cross or are left are named", test_messages_that_cross_or_are_left_are_named},
    {"groups are gathered one pass ahead", test_groups_are_gathered_one_pass_ahead},
    {"a tied head", test_a_tied_head_gathers_the_table},
    {"buckets are reduced behind their last backward", test_buckets_are_reduced_behind_their_last_backward},
    {"parameters are sent before the first message", test_parameters_are_sent_before_the_first_message},
    {"copies are summed up behind all passes", test_copies_are_summed_up_behind_all_passes},
    {"passes are marked", test_passes_are_marked},
    {"segments are recomputed and copied", test_segments_are_recomputed_and_copied},
    {"a forgotten forward is computed again", test_a_forgotten_forward_is_computed_again},
    {"messages surround the groups", test_messages_surround_the_groups},
    {"one rank alone", test_one_rank_alone},
    {"arrivals are receipts", test_arrivals_are_receipts},
    {"a plan is shortened where it repeats itself", test_a_plan_is_shortened_where_it_repeats_itself},
    {"what does not repeat itself is not shortened", test_what_does_not_repeat_itself_is_not_shortened},
};
TEST_MAIN(cases)
