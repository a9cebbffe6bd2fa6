#include "schedules/plan/plan.h"

#include "lib/base/grow.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pass as the file has it. */
struct written {
    int rank, line;
    enum action_op op;
    int micro_batch;
    int part;          /* the number after the dot; 0 without one */
    int virtual_stage; /* the number before the pass; -1 without one */
    char text[24];
};

struct contents {
    const char *name;
    struct written *passes; /* [count] */
    int count, room;
    int ranks;
};

/* ---- reading ---- */

/* Read the number at *text, and move *text after it; -1: no digits, or too many. */
static int read_number(const char **text)
{
    int number = -1;
    for (int digits = 0; isdigit((unsigned char)**text); (*text)++) {
        if (++digits > 7)
            return -1;
        number = (number < 0 ? 0 : number) * 10 + (**text - '0');
    }
    return number;
}

/* ACTION_OPS: the letter is no pass. */
static enum action_op op_of(char letter)
{
    int op = ACTION_FORWARD;
    while (op < ACTION_OPS && action_letter((enum action_op)op) != letter)
        op++;
    return letter ? (enum action_op)op : ACTION_OPS;
}

static bool parse_pass(const char *text, struct written *out)
{
    out->virtual_stage = isdigit((unsigned char)*text) ? read_number(&text) : -1;
    out->op = op_of(*text);
    if (out->op == ACTION_OPS)
        return false;
    text++;
    out->micro_batch = read_number(&text);
    out->part = 0;
    if (*text == '.' && out->virtual_stage < 0) {
        text++;
        out->part = read_number(&text);
    }
    return out->micro_batch >= 0 && out->part >= 0 && !*text;
}

static dt_status add_pass(struct contents *c, const char *text, size_t length, int line)
{
    struct written pass = {.rank = c->ranks, .line = line};
    snprintf(pass.text, sizeof pass.text, "%.*s", (int)length, text);
    if (length >= sizeof pass.text || !parse_pass(pass.text, &pass))
        return dt_fail(DT_ERR_INVALID,
                       "%s: line %d: \"%s\" is no pass; expected F, B, I or W with a micro-batch (F0), a part (F0.1), "
                       "or a virtual stage (3F0)",
                       c->name, line, pass.text);
    DT_TRY(dt_allocated(DT_ROOM(c->passes, c->count, c->room), "no host memory for %d passes", c->count + 1));
    c->passes[c->count++] = pass;
    return DT_OK;
}

static dt_status read_line(struct contents *c, const char *text, size_t length, int line)
{
    static const char separators[] = ", \t\r";
    int before = c->count;
    for (size_t i = 0; i < length && text[i] != '#';) {
        size_t from = i;
        while (i < length && !strchr(separators, text[i]) && text[i] != '#')
            i++;
        if (i > from)
            DT_TRY(add_pass(c, text + from, i - from, line));
        while (i < length && strchr(separators, text[i]))
            i++;
    }
    c->ranks += c->count > before;
    return DT_OK;
}

static dt_status read_contents(const struct order_shape *shape, struct contents *out)
{
    int line = 0;
    *out = (struct contents){.name = shape->file};
    for (const char *text = shape->text; *text;) {
        size_t length = strcspn(text, "\n");
        DT_TRY(read_line(out, text, length, ++line));
        text += length + (text[length] == '\n');
    }
    if (out->ranks != shape->stages)
        return dt_fail(DT_ERR_INVALID, "%s: has lines for %d ranks; the pipeline has %d (pipeline.stages)", out->name, out->ranks,
                       shape->stages);
    return DT_OK;
}

/* ---- where the parts are ---- */

/* The first pass that is on another rank than its virtual stage; NULL: none. */
static const struct written *misplaced(const struct contents *c, bool folded)
{
    for (int i = 0; i < c->count; i++)
        if (virtual_stage_rank(c->passes[i].virtual_stage, c->ranks, folded) != c->passes[i].rank)
            return &c->passes[i];
    return NULL;
}

static dt_status place_virtual_stages(struct contents *c, struct order_layout *out)
{
    const struct written *off_ring = misplaced(c, false), *off_vee = misplaced(c, true);
    if (off_ring && off_vee)
        return dt_fail(DT_ERR_INVALID, "%s: line %d: %s: virtual stage %d is not on rank %d, neither in a ring nor in a V of %d ranks",
                       c->name, off_ring->line, off_ring->text, off_ring->virtual_stage, off_ring->rank, c->ranks);
    out->folded = off_ring != NULL;
    for (int i = 0; i < c->count; i++)
        c->passes[i].part = c->passes[i].virtual_stage / c->ranks;
    return DT_OK;
}

static dt_status place(struct contents *c, struct order_layout *out)
{
    bool stages = c->passes[0].virtual_stage >= 0;
    *out = (struct order_layout){.parts = 1};
    for (int i = 0; i < c->count; i++)
        if ((c->passes[i].virtual_stage >= 0) != stages)
            return dt_fail(DT_ERR_INVALID, "%s: line %d: %s: a virtual stage stands in front of every pass, or of none", c->name,
                           c->passes[i].line, c->passes[i].text);
    if (stages)
        DT_TRY(place_virtual_stages(c, out));
    for (int i = 0; i < c->count; i++)
        out->parts = c->passes[i].part >= out->parts ? c->passes[i].part + 1 : out->parts;
    if (out->parts > ORDER_MOST_PARTS)
        return dt_fail(DT_ERR_INVALID, "%s: %d parts on a rank; at most %d", c->name, out->parts, ORDER_MOST_PARTS);
    return DT_OK;
}

/* ---- whether it is complete ---- */

enum { DONE_F = 1, DONE_B = 2, DONE_I = 4, DONE_W = 8 };

static int bit_of(enum action_op op)
{
    return 1 << (op - ACTION_FORWARD);
}

/* Why `pass` cannot come next; NULL: it can. */
static const char *objection(int done, enum action_op op)
{
    if (done & bit_of(op))
        return "comes twice";
    if (op == ACTION_FORWARD)
        return NULL;
    if (!(done & DONE_F))
        return "comes before its forward pass";
    if (op == ACTION_BACKWARD_WEIGHT)
        return done & DONE_I ? NULL : "comes before the gradients of its inputs (I)";
    return done & (DONE_B | DONE_I) ? "comes after another backward pass of the same micro-batch" : NULL;
}

static dt_status add_to_plan(const struct contents *c, const struct written *pass, uint8_t *done, struct plan *plan)
{
    if (pass->micro_batch >= plan->micro_batches)
        return dt_fail(DT_ERR_INVALID, "%s: line %d: %s: the step has %d micro-batches, numbered from 0 (micro_batches * pipeline.chunks)",
                       c->name, pass->line, pass->text, plan->micro_batches);
    uint8_t *of_pass = &done[pass->part * plan->micro_batches + pass->micro_batch];
    const char *why_not = objection(*of_pass, pass->op);
    if (why_not)
        return dt_fail(DT_ERR_INVALID, "%s: line %d (rank %d): %s %s", c->name, pass->line, pass->rank, pass->text, why_not);
    *of_pass |= (uint8_t)bit_of(pass->op);
    return plan_append_pass(plan, pass->op, pass->part, pass->micro_batch);
}

static dt_status check_complete(const struct contents *c, const uint8_t *done, const struct plan *plan)
{
    for (int part = 0; part < plan->parts; part++) {
        for (int m = 0; m < plan->micro_batches; m++) {
            int of_pass = done[part * plan->micro_batches + m];
            if (of_pass == (DONE_F | DONE_B) || of_pass == (DONE_F | DONE_I | DONE_W))
                continue;
            const char *missing = of_pass & DONE_I ? "W" : "B (nor I and W)";
            return dt_fail(DT_ERR_INVALID,
                           "%s: rank %d: micro-batch %d has no %s through part %d; each of the step's %d micro-batches goes "
                           "through each part",
                           c->name, plan->stage, m, of_pass & DONE_F ? missing : "F", part, plan->micro_batches);
        }
    }
    return DT_OK;
}

static dt_status make_plan(const struct contents *c, int rank, uint8_t *done, struct plan *plan)
{
    memset(done, 0, (size_t)plan->parts * (size_t)plan->micro_batches);
    for (int i = 0; i < c->count; i++)
        if (c->passes[i].rank == rank)
            DT_TRY(add_to_plan(c, &c->passes[i], done, plan));
    return check_complete(c, done, plan);
}

static dt_status make_plans(const struct order_shape *shape, const struct contents *c, struct plan *plans)
{
    DT_FREED uint8_t *done = malloc((size_t)plans[0].parts * (size_t)shape->micro_batches);
    DT_TRY(dt_allocated(done, "no host memory for %d micro-batches", shape->micro_batches));
    for (int rank = 0; rank < shape->stages; rank++) {
        DT_TRY(make_plan(c, rank, done, &plans[rank]));
        double kept = plan_keeps(&plans[rank]).weighted;
        if (shape->memory_limit && kept > shape->memory_limit)
            return dt_fail(DT_ERR_INVALID, "%s: rank %d keeps %g micro-batches; pipeline.memory_limit is %d", c->name, rank, kept,
                           shape->memory_limit);
    }
    return DT_OK;
}

/* ---- both ---- */

dt_status order_file_layout(const struct order_shape *shape, struct order_layout *out)
{
    struct contents c;
    dt_status status = read_contents(shape, &c);
    DT_THEN(status, place(&c, out));
    free(c.passes);
    return status;
}

dt_status order_file_emit(const struct order_shape *shape, struct plan *plans)
{
    struct contents c;
    struct order_layout layout;
    dt_status status = read_contents(shape, &c);
    DT_THEN(status, place(&c, &layout));
    DT_THEN(status, make_plans(shape, &c, plans));
    free(c.passes);
    return status;
}
