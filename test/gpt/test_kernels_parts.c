/* Kernels on the part of a layer that one rank of a tensor group has: the parts together are the
 * whole. */
#include "test/gpt/kernel_setup.h"
#include "test/normal.h"

enum { PARTS = 3 };

/* Part `i` of `count`, of unequal sizes; the first may be empty. */
static struct gpt_part part_of(size_t count, size_t i)
{
    size_t first = count * i * i / (PARTS * PARTS), end = count * (i + 1) * (i + 1) / (PARTS * PARTS);
    return (struct gpt_part){first, end - first};
}

/* Columns `part` of [rows, columns], in both worlds. */
static struct array columns_of(const struct setup *s, const struct array *whole, size_t rows, size_t columns, struct gpt_part part)
{
    struct array out = output(s->dtype, rows * part.count);
    for (size_t r = 0; r < rows; r++)
        memcpy(out.values + r * part.count, whole->values + r * columns + part.first, part.count * sizeof *out.values);
    ref_encode(s->dtype, out.values, out.data, out.count);
    return out;
}

/* ---- the loss ---- */

static void loss_case(struct setup *s, size_t V, size_t rows, bool sum)
{
    struct array logits = input(s->dtype, rows * V, -3, 6), gradient = {test_alloc(rows * V * sizeof(double)), NULL, rows * V};
    struct array parts[PARTS];
    struct gpt_logit_row *all = test_alloc(PARTS * rows * sizeof *all);
    int32_t *targets = test_alloc(rows * sizeof *targets);
    double *loss = test_alloc(PARTS * sizeof *loss);
    setup_kernels(s, 1, 8, (int)V, 8);
    for (size_t r = 0; r < rows; r++)
        targets[r] = (int32_t)(r < 2 ? r * (V - 1) : test_random() % V);
    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = columns_of(s, &logits, rows, V, part_of(V, i));
        struct gpt_loss_part a = {parts[i].data, targets, all + i * rows, rows, part_of(V, i), sum};
        CHECK_OK(s->table->loss_part(s->kernels, s->stream, &a));
        loss[i] = 2.5;
    }
    for (size_t i = 0; i < PARTS; i++) {
        struct gpt_loss_gradient a = {parts[i].data, targets, all, &loss[i], rows, PARTS, part_of(V, i), 64, 0.125f, sum};
        CHECK_OK(s->table->loss_gradient(s->kernels, s->stream, &a));
    }
    CHECK_OK(dt_stream_synchronize(s->stream));
    double want = 2.5 + ref_loss(logits.values, targets, gradient.values, rows, V, 64, 0.125, sum);
    for (size_t i = 0; i < PARTS; i++) {
        struct array wanted = columns_of(s, &gradient, rows, V, part_of(V, i));
        memcpy(parts[i].values, wanted.values, wanted.count * sizeof *wanted.values);
        CHECK(fabs(loss[i] - want) < 2e-6 * (double)rows * (sum ? (double)V : 10), "part %zu: loss %.9g, not %.9g: %s", i, loss[i], want,
              dt_dtype_name(s->dtype));
        CHECK(loss[i] == loss[0], "ranks differ in the loss");
        CHECK_ARRAY(s, parts[i], "gradient");
    }
}

static void loss_body(struct setup *s)
{
    for (int sum = 0; sum < 2; sum++) {
        loss_case(s, 9, 11, sum);
        loss_case(s, 65, 5, sum);
        loss_case(s, 20011, 3, sum);
    }
}

static void loss(void)
{
    for_every_setup(loss_body);
}

/* ---- the embedding ---- */

static struct array rows_of_table(const struct setup *s, const struct array *table, size_t d, struct gpt_part part)
{
    struct array out = output(s->dtype, part.count * d);
    memcpy(out.values, table->values + part.first * d, out.count * sizeof *out.values);
    ref_encode(s->dtype, out.values, out.data, out.count);
    return out;
}

/* The sum of the ranks' summands, before dropout, and each rank's rows of the tables' gradients. */
static void embedding_case(struct setup *s, int hidden, int vocab, size_t samples)
{
    struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.heads = 1, .hidden = hidden, .vocab_size = vocab, .block_size = 7});
    size_t d = (size_t)hidden, T = 7, V = (size_t)vocab, count = samples * T * d;
    struct gpt_dropout none = {.probability = 0}, dropout = {.seed = 5, .layer = 3, .first_sample = 9, .probability = 0.25f};
    struct array tokens_table = input(s->dtype, V * d, 0, 1), positions = input(s->dtype, T * d, 0, 1), dout = input(s->dtype, count, 0, 1);
    double *want = test_alloc(count * sizeof *want), *got = test_alloc(count * sizeof *got), *one = test_alloc(count * sizeof *one);
    double *dtokens = test_alloc(V * d * sizeof *dtokens), *dpositions = test_alloc(T * d * sizeof *dpositions);
    int32_t *tokens = test_alloc(samples * T * sizeof *tokens);
    for (size_t m = 0; m < samples * T; m++)
        tokens[m] = (int32_t)(test_random() % V);
    memset(got, 0, count * sizeof *got);
    setup_kernels(s, 1, hidden, vocab, 7);
    ref_embedding(&model, tokens, tokens_table.values, positions.values, want, samples, &none);
    ref_embedding_gradient(&model, tokens, dout.values, dtokens, dpositions, samples, &dropout);
    for (size_t i = 0; i < PARTS; i++) {
        struct gpt_part v = part_of(V, i), t = part_of(T, i);
        struct array out = output(s->dtype, count), for_tokens = output(s->dtype, v.count * d),
                     for_positions = output(s->dtype, t.count * d);
        struct gpt_embedding forward = {
            tokens, rows_of_table(s, &tokens_table, d, v).data, rows_of_table(s, &positions, d, t).data, out.data, samples, v, t, none};
        struct gpt_embedding_gradient backward = {tokens, dout.data, for_tokens.data, for_positions.data, samples, v, t, false, dropout};
        CHECK_OK(s->table->embedding(s->kernels, s->stream, &forward));
        CHECK_OK(s->table->embedding_gradient(s->kernels, s->stream, &backward));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_decode(s->dtype, out.data, one, count);
        for (size_t j = 0; j < count; j++)
            got[j] += one[j];
        memcpy(for_tokens.values, dtokens + v.first * d, for_tokens.count * sizeof *dtokens);
        memcpy(for_positions.values, dpositions + t.first * d, for_positions.count * sizeof *dpositions);
        CHECK_ARRAY(s, for_tokens, "dtoken_table");
        CHECK_ARRAY(s, for_positions, "dposition_table");
    }
    CHECK(ref_error(got, want, count) <= bound_of(s->dtype), "the summands of %s are off by %.3g", dt_dtype_name(s->dtype),
          ref_error(got, want, count));
}

static void embedding_body(struct setup *s)
{
    embedding_case(s, 20, 301, 4);
    embedding_case(s, 264, 6, 4);
    embedding_case(s, 8, 1500, 40);
}

static void embedding(void)
{
    for_every_setup(embedding_body);
}

/* ---- rows of the residual stream ---- */

static void dropout_body(struct setup *s)
{
    for (int i = 0; i < 2; i++) {
        size_t d = i ? 86 : 256, T = 5, samples = 3, rows = samples * T;
        struct gpt_dropout dropout = {.seed = 5, .layer = 3, .first_sample = 9, .probability = 0.25f};
        struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.hidden = (int)d, .block_size = (int)T});
        struct array residual = input(s->dtype, rows * d, 0, 1), branch = input(s->dtype, rows * d, 0, 1), in_place = branch;
        struct array out = output(s->dtype, rows * d);
        in_place.values = test_alloc(rows * d * sizeof(double));
        setup_kernels(s, 1, (int)d, 8, (int)T);
        for (size_t p = 0; p < PARTS; p++) {
            struct gpt_part part = part_of(rows, p);
            size_t at = part.first * d * dt_dtype_bytes(s->dtype);
            dropout.first_row = (uint32_t)part.first;
            struct gpt_dropout_residual forward = {(char *)residual.data + at, (char *)branch.data + at, (char *)out.data + at, part.count,
                                                   dropout};
            struct gpt_dropout_gradient alone = {(char *)branch.data + at, (char *)branch.data + at, part.count, dropout};
            CHECK_OK(s->table->dropout_residual(s->kernels, s->stream, &forward));
            CHECK_OK(s->table->dropout_gradient(s->kernels, s->stream, &alone));
        }
        CHECK_OK(dt_stream_synchronize(s->stream));
        dropout.first_row = 0;
        memcpy(out.values, branch.values, rows * d * sizeof(double));
        ref_dropout_residual(&model, residual.values, branch.values, out.values, samples, &dropout);
        ref_dropout_gradient(&model, branch.values, in_place.values, samples, &dropout);
        CHECK_ARRAY(s, out, "out");
        CHECK_ARRAY(s, in_place, "the branch, in place");
    }
}

static void dropout(void)
{
    for_every_setup(dropout_body);
}

/* ---- columns of a weight ---- */

static void normal_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 4; i++) {
        size_t rows = 9, columns = (size_t[]){40, 41, 4096, 12}[i], run = (size_t[]){10, 7, 1024, 3}[i], done = i % 2 ? run - 2 : 0;
        size_t count = rows * run - done - (i > 1);
        uint64_t seed = test_random(), first = 5 + run;
        struct array weights = output(s->dtype, count);
        struct dt_initial a = {.to = weights.data,
                               .count = count,
                               .seed = seed,
                               .first_element = first,
                               .run_elems = run,
                               .run_done = done,
                               .stride_elems = columns,
                               .tensor_id = 77,
                               .scale = 0.02f};
        CHECK_OK(dt_kernels_initialise(&s->base, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        for (size_t j = 0; j < count; j++) {
            size_t place = j + done;
            weights.values[j] = 0.02f * dt_random_normal(seed, 77, first + place / run * columns + place % run);
        }
        CHECK_ARRAY(s, weights, "columns");
    }
}

static void normal(void)
{
    for_every_setup(normal_body);
}

static const struct test_case cases[] = {
    {"the loss of a divided vocabulary", loss},
    {"an embedding whose tables are divided", embedding},
    {"dropout on some of the rows", dropout},
    {"initial columns of a weight", normal},
};

int main(void)
{
    test_seed();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}
