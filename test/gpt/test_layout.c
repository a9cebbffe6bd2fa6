#include "gpt/family.h"
#include "gpt/family_parts.h"
#include "gpt/layout.h"
#include "test/check.h"
#include "test/gpt/preset.h"

#include <math.h>
#include <stdlib.h>

static struct dt_model layout_of(enum dt_dtype dtype, const struct gpt_model *gpt)
{
    struct dt_model model = gpt_model_of(dtype, gpt);
    model.family = &gpt_family;
    return model;
}

static struct dt_model model_of(const char *preset)
{
    const struct dt_model_preset *p = preset_named(preset);
    struct gpt_model own = *(const struct gpt_model *)p->own;
    if (p->sizes_only) {
        own.vocab_size = 50000;
        own.block_size = 256;
    }
    return layout_of(DT_FP32, &own);
}

static uint64_t params_between(const struct dt_model *model, int first, int end)
{
    uint64_t total = 0;
    for (int i = first; i < end; i++) {
        struct gpt_layer layer;
        gpt_describe_layer(model, (struct gpt_cut){0, 1}, i, &layer);
        total += layer.param_elems;
    }
    return total;
}

/* The study's names and sizes, to the digits it gives. */
static void preset_sizes(void)
{
    static const struct {
        const char *name;
        double billions, tolerance;
    } study[] = {{"GPTSmall", 0.162, 0.001}, {"GPTMedium", 0.405, 0.001}, {"GPTLarge", 0.834, 0.001}, {"GPTXL", 1.4, 0.05},
                 {"GPT2.7B", 2.8, 0.05},     {"GPT6.7B", 6.8, 0.1},       {"GPT13B", 16, 0.6},        {"GPT39B", 34, 1},
                 {"GPT76B", 81, 1},          {"GPT100B", 102, 1},         {"GPT175B", 175, 1.5},      {"GPT1T", 1010, 10}};
    for (size_t i = 0; i < sizeof study / sizeof *study; i++) {
        struct dt_model model = model_of(study[i].name);
        double billions = (double)dt_model_parameter_count(&model) / 1e9;
        CHECK(fabs(billions - study[i].billions) <= study[i].tolerance, "%s has %.3f billion", study[i].name, billions);
        CHECK(params_between(&model, 0, gpt_layer_count(&model)) == dt_model_parameter_count(&model), "%s: layers do not add up",
              study[i].name);
    }
    struct dt_model small = model_of("GPTSmall");
    CHECK(dt_model_parameter_count(&small) == 162052608);
    CHECK(preset_named("gptsmall") == NULL && preset_named("") == NULL);
}

/* Exact numbers of parameters as published: from the index of the weights' files (total_size, 2
 * bytes each), for GPT-2 from the tensors without masks. Where no such figure was found, the
 * rounded one of the paper, the model card or the name. */
static void published_parameters(void)
{
    static const struct {
        const char *name;
        uint64_t exact;
        double billions, tolerance;
    } published[] = {
        {"Llama-7B", 6738415616, 6.7, 0.1},
        {"Llama-13B", 13015864320, 13.0, 0.1},
        {"Llama-30B", 32528943616, 32.5, 0.1},
        {"Llama-65B", 65285660672, 65.2, 0.1},
        {"Llama-2-7B", 6738415616, 6.74, 0.01},
        {"Llama-2-13B", 13015864320, 13.0, 0.1},
        {"Llama-2-70B", 68976648192, 69.0, 0.1},
        {"Llama-3.2-1B", 1235814400, 1.23, 0.01},
        {"Llama-3.2-3B", 3212749824, 3.21, 0.01},
        {"Llama-3.1-8B", 8030261248, 8.03, 0.01},
        {"Llama-3.1-70B", 70553706496, 70.6, 0.1},
        {"Llama-3.1-405B", 405853388800, 405, 1},
        {"Mistral-7B", 7241732096, 7.24, 0.01},
        {"Qwen2.5-0.5B", 494032768, 0.49, 0.01},
        {"Qwen2.5-1.5B", 1543714304, 1.54, 0.01},
        {"Qwen2.5-3B", 3085938688, 3.09, 0.01},
        {"Qwen2.5-7B", 7615616512, 7.61, 0.01},
        {"Qwen2.5-14B", 14770033664, 14.7, 0.1},
        {"Qwen2.5-32B", 32763876352, 32.5, 0.3},
        {"Qwen2.5-72B", 72706203648, 72.7, 0.1},
        {"OPT-125M", 125239296, 0.125, 0.001},
        {"OPT-1.3B", 1315758080, 1.3, 0.05},
        {"OPT-2.7B", 2651596800, 2.7, 0.05},
        {"OPT-6.7B", 6658473984, 6.7, 0.05},
        {"OPT-13B", 0, 13, 0.2},
        {"OPT-30B", 0, 30, 0.1},
        {"OPT-66B", 0, 66, 0.5},
        {"OPT-175B", 0, 175, 1},
        {"MPT-7B", 6649286656, 6.7, 0.1},
        {"MPT-30B", 0, 29.95, 0.01},
        {"MPT-125M", 0, 0.125, 0.002},
        {"MPT-350M", 0, 0.35, 0.006},
        {"MPT-760M", 0, 0.76, 0.006},
        {"MPT-1B", 0, 1.3, 0.05},
        {"MPT-3B", 0, 2.65, 0.05},
        {"MPT-13B", 0, 13, 0.5},
        {"MPT-70B", 0, 65, 1},
        {"GPT-2-small", 124439808, 0.124, 0.0005},
        {"GPT-2-medium", 354823168, 0.355, 0.0005},
        {"GPT-2-large", 774030080, 0.774, 0.0005},
        {"GPT-2-XL", 1557611200, 1.558, 0.0005},
        {"GPT-3-175B", 0, 174.6, 0.05}, /* Brown et al. 2020, Table D.1 */
    };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct dt_model model = model_of(published[i].name);
        uint64_t count = dt_model_parameter_count(&model);
        CHECK(fabs((double)count / 1e9 - published[i].billions) <= published[i].tolerance, "%s has %.4f billion", published[i].name,
              (double)count / 1e9);
        CHECK(!published[i].exact || count == published[i].exact, "%s has %llu, published %llu", published[i].name,
              (unsigned long long)count, (unsigned long long)published[i].exact);
        CHECK(params_between(&model, 0, gpt_layer_count(&model)) == count, "%s: layers do not add up", published[i].name);
    }
}

/* 6 * parameters in products * tokens, and 12 * L * d * T of attention: the usual count. */
static void flops(void)
{
    struct dt_model m = model_of("GPTSmall");
    double products = 12.0 * 12 * 768 * 768 + 50000.0 * 768;
    double expected = (6 * products + 12.0 * 12 * 768 * 256) * 2048;
    CHECK(fabs(dt_model_step_flops(&m, 2048) / expected - 1) < 1e-12, "%g, expected %g", dt_model_step_flops(&m, 2048), expected);
    /* Mistral: all its parameters are in products but the embedding and 65 norms of d */
    m = model_of("Mistral-7B");
    products = 7241732096.0 - 32000.0 * 4096 - 65.0 * 4096;
    expected = 6 * products + 12.0 * 32 * 4096 * 4096;
    double causal = 6 * products + 6.0 * 32 * 4096 * 4096;
    CHECK(fabs(dt_model_step_flops(&m, 1) / expected - 1) < 1e-12, "%g, expected %g", dt_model_step_flops(&m, 1), expected);
    CHECK(fabs(gpt_causal_step_flops(&m, 1) / causal - 1) < 1e-12, "%g, expected %g", gpt_causal_step_flops(&m, 1), causal);
}

/* Marks in `seen` [elements of the whole tensor] what a part has of it. */
static void mark_part(const struct gpt_tensor *part, unsigned char *seen)
{
    for (size_t i = 0; i < part->count_elems; i++)
        seen[part->first_elem + i / part->run_elems * part->stride_elems + i % part->run_elems]++;
}

/* How many ranks have each element of a tensor: one, those with copies of its heads of keys and
 * values, or all. */
static int ranks_with(const struct dt_model *model, int ranks, enum gpt_layer_kind kind, const char *name)
{
    bool whole = strncmp(name, "norm.", 5) == 0 || strstr(name, "_norm.") || strcmp(name, "projection.bias") == 0 ||
                 (kind == GPT_MLP_DOWN && strcmp(name, "bias") == 0);
    bool of_kv = strncmp(name, "k.", 2) == 0 || strncmp(name, "v.", 2) == 0;
    return whole ? ranks : of_kv ? gpt_cut_copies(model, ranks) : 1;
}

static void check_parts(const struct dt_model *model, int ranks, int layer_index)
{
    struct gpt_layer whole;
    gpt_describe_layer(model, (struct gpt_cut){0, 1}, layer_index, &whole);
    for (int t = 0; t < whole.tensor_count; t++) {
        const char *name = gpt_tensor_text(whole.tensors[t].name);
        int expected = ranks_with(model, ranks, whole.kind, name);
        unsigned char *seen = calloc(whole.tensors[t].count_elems, 1);
        for (int rank = 0; rank < ranks; rank++) {
            struct gpt_layer part;
            gpt_describe_layer(model, (struct gpt_cut){rank, ranks}, layer_index, &part);
            CHECK(part.kind == whole.kind && part.tensor_count == whole.tensor_count && part.tensors[t].id == whole.tensors[t].id);
            mark_part(&part.tensors[t], seen);
        }
        size_t wrong = 0;
        for (size_t i = 0; i < whole.tensors[t].count_elems; i++)
            wrong += seen[i] != expected;
        CHECK(wrong == 0, "%s of a %s on %d ranks: %zu elements", name, gpt_layer_kind_name(whole.kind), ranks, wrong);
        free(seen);
    }
}

static void parts_make_the_whole(void)
{
    struct dt_model m =
        layout_of(DT_FP32, &(struct gpt_model){.layers = 1, .heads = 12, .hidden = 48, .vocab_size = 1003, .block_size = 13});
    for (int ranks = 1; ranks <= 12; ranks++)
        for (int i = 0; gpt_of(&m)->heads % ranks == 0 && i < gpt_layer_count(&m); i++)
            check_parts(&m, ranks, i);
    gpt_change(&m)->kv_heads = 3;
    gpt_change(&m)->qk_norm = true;
    for (int ranks = 1; ranks <= 12; ranks++)
        if (gpt_cut_check(&m, ranks, false) == DT_OK)
            check_parts(&m, ranks, gpt_block_layer(0));
}

/* The ranks with copies of a head of keys and values are those whose heads of q read it. */
static void copies_follow_their_heads(void)
{
    struct dt_model m = layout_of(
        DT_FP32, &(struct gpt_model){.layers = 1, .heads = 24, .hidden = 48, .vocab_size = 1000, .block_size = 24, .kv_heads = 4});
    CHECK(gpt_cut_copies(&m, 4) == 1 && gpt_cut_copies(&m, 8) == 2 && gpt_cut_copies(&m, 24) == 6);
    for (int ranks = 1; ranks <= 24; ranks++)
        for (int rank = 0; rank < ranks && gpt_cut_check(&m, ranks, false) == DT_OK; rank++) {
            struct gpt_part heads = gpt_cut_heads((struct gpt_cut){rank, ranks}, &m),
                            kv = gpt_cut_kv_heads((struct gpt_cut){rank, ranks}, &m);
            CHECK(heads.first / 6 == kv.first && (heads.first + heads.count - 1) / 6 == kv.first + kv.count - 1, "rank %d of %d", rank,
                  ranks);
        }
    CHECK(gpt_cut_check(&m, 6, false) == DT_ERR_INVALID && strstr(dt_error_message(), "neither divides model.kv_heads 4") &&
              strstr(dt_error_message(), "possible for this model: 1, 2, 4, 8, 12, 24"),
          "%s", dt_error_message());
}

/* A tied head's copy of the table begins like the token table: the same rows, from the same random
 * numbers. */
static void a_copy_of_the_table_begins_as_the_table(void)
{
    struct dt_model m =
        layout_of(DT_FP32, &(struct gpt_model){.layers = 1, .heads = 2, .hidden = 8, .vocab_size = 100, .block_size = 4, .tied = true});
    struct gpt_layer embedding, head;
    struct gpt_cut cut = {1, 2};
    gpt_describe_layer(&m, cut, 0, &embedding);
    gpt_describe_layer(&m, cut, gpt_layer_count(&m) - 1, &head);
    CHECK(head.param_elems == 0 && !gpt_has_tensor(&head, GPT_WEIGHT));
    gpt_add_table_copy(&m, cut, &head);
    const struct gpt_tensor *table = &embedding.tensors[0], *copy = &head.tensors[0];
    CHECK(head.param_elems == table->count_elems && copy->id == table->id && copy->first_elem == table->first_elem &&
          copy->run_elems == table->run_elems && copy->init == table->init);
}

/* Later ranks have no more, and rows of logits begin at 16 bytes. */
static void tables_divide_unevenly(void)
{
    struct gpt_part last = gpt_cut_table((struct gpt_cut){7, 8}, 50257), first = gpt_cut_table((struct gpt_cut){0, 8}, 50257);
    CHECK(first.first == 0 && first.count == 6288 && last.first % 8 == 0 && last.first + last.count == 50257 && last.count <= first.count,
          "%zu, %zu from %zu", first.count, last.count, last.first);
    for (int rank = 0; rank < 3; rank++)
        CHECK(gpt_cut_table((struct gpt_cut){rank, 3}, 5).count == (size_t)(rank < 2 ? 2 : 1));
}

static void groups_that_do_not_fit(void)
{
    struct dt_model m =
        layout_of(DT_FP32, &(struct gpt_model){.layers = 1, .heads = 12, .hidden = 48, .vocab_size = 1000, .block_size = 8});
    CHECK_OK(gpt_cut_check(&m, 4, true));
    CHECK_OK(gpt_cut_check(&m, 3, false));
    CHECK(gpt_cut_check(&m, 5, false) == DT_ERR_INVALID &&
              strstr(dt_error_message(), "model.heads 12; possible for this model: 1, 2, 3, 4, 6"),
          "%s", dt_error_message());
    CHECK(gpt_cut_check(&m, 3, true) == DT_ERR_INVALID && strstr(dt_error_message(), "model.block_size 8") &&
              strstr(dt_error_message(), "possible for this model: 1, 2, 4"),
          "%s", dt_error_message());
    gpt_change(&m)->vocab_size = 3;
    CHECK(gpt_cut_check(&m, 4, true) == DT_ERR_INVALID && strstr(dt_error_message(), "model.vocab_size 3"), "%s", dt_error_message());
}

static void tensor_ids_are_unique(void)
{
    struct dt_model m = model_of("GPTMedium");
    int count = gpt_layer_count(&m);
    char *seen = calloc((size_t)count * 16, 1);
    for (int i = 0; i < count; i++) {
        struct gpt_layer layer;
        gpt_describe_layer(&m, (struct gpt_cut){0, 1}, i, &layer);
        size_t offset = 0;
        for (int j = 0; j < layer.tensor_count; j++) {
            CHECK(layer.tensors[j].offset_elems == offset, "a gap before %s", gpt_tensor_text(layer.tensors[j].name));
            CHECK(!seen[layer.tensors[j].id], "id %u twice", layer.tensors[j].id);
            seen[layer.tensors[j].id] = 1;
            offset += layer.tensors[j].count_elems;
        }
        CHECK(offset == layer.param_elems);
    }
    free(seen);
}

/* Every stage has layers, starts at a block's first layer, and closes at the first piece that
 * passes its share. */
static void partition(void)
{
    for (const struct dt_model_preset *p = gpt_presets; p->name; p++) {
        struct dt_model m = model_of(p->name);
        for (int stages = 1; stages <= 8; stages++) {
            int first[9];
            CHECK_OK(dt_partition(&m, DT_SPLIT_PARAMETERS, stages, first));
            CHECK(first[0] == 0 && first[stages] == gpt_layer_count(&m));
            for (int s = 1; s < stages; s++) {
                CHECK(first[s] > first[s - 1]);
                CHECK(first[s] >= 1 + 3 * gpt_of(&m)->layers || (first[s] - 1) % 3 == 0, "stage %d of %s starts inside a block", s,
                      p->name);
                double share = (double)params_between(&m, 0, first[s]) * stages / (double)dt_model_parameter_count(&m);
                int pieces_behind =
                    first[s] >= 1 + 3 * gpt_of(&m)->layers ? gpt_layer_count(&m) - first[s] : gpt_of(&m)->layers - (first[s] - 1) / 3 + 2;
                CHECK(share > s || pieces_behind == stages - s, "stage %d of %d of %s closes at %.3f", s, stages, p->name, share);
            }
        }
    }
    /* A tied head counts as no parameters when stages are chosen, though a stage may have a copy of
     * the table: the table is more than half of the model, and stage 0 ends after it. */
    struct dt_model tied =
        layout_of(DT_FP32, &(struct gpt_model){.layers = 4, .heads = 2, .hidden = 8, .vocab_size = 1000, .block_size = 8, .tied = true});
    int two[3];
    CHECK_OK(dt_partition(&tied, DT_SPLIT_PARAMETERS, 2, two));
    CHECK(two[1] == 1, "the second stage begins with layer %d", two[1]);
    struct dt_model tiny = layout_of(DT_FP32, &(struct gpt_model){.layers = 2, .heads = 2, .hidden = 8, .vocab_size = 10, .block_size = 8});
    int first[65];
    CHECK(dt_partition(&tiny, DT_SPLIT_PARAMETERS, 64, first) == DT_ERR_INVALID);
    CHECK(dt_partition(&tiny, DT_SPLIT_BALANCED, 64, first) == DT_ERR_INVALID);
}

static double cost_of(const struct dt_model *m, int first, int end)
{
    struct dt_layers_size size;
    gpt_layers_size(m, (struct dt_layers){.first = first, .end = end}, &size);
    return 3 * (double)size.forward_flops;
}

enum { MOST_PIECES = 40, MOST_STAGES = 12 };

/* The least cost of the slowest stage, by dynamic programming: the best place of the last cut, for
 * the first `end` pieces in s stages. */
static double least_cost(const struct dt_model *m, int stages)
{
    int pieces = gpt_of(m)->layers + 3, layer[MOST_PIECES + 1] = {0};
    double best[MOST_STAGES + 1][MOST_PIECES + 1];
    for (int i = 0; i < pieces; i++)
        layer[i + 1] = layer[i] < dt_block_layer(m->family, gpt_of(m)->layers)
                           ? dt_unit_end(m->family, dt_blocks_of(m), layer[i], DT_UNIT_BLOCK)
                           : layer[i] + 1;
    for (int s = 1; s <= stages; s++)
        for (int end = s; end <= pieces; end++) {
            best[s][end] = s == 1 ? cost_of(m, 0, layer[end]) : INFINITY;
            for (int cut = s - 1; s > 1 && cut < end; cut++)
                best[s][end] = fmin(best[s][end], fmax(best[s - 1][cut], cost_of(m, layer[cut], layer[end])));
        }
    return best[stages][pieces];
}

/* Small and large heads, fewer and more blocks than stages: the slowest stage is as fast as it can
 * be, and no other far from the mean. */
static void balanced_partition(void)
{
    static const int sizes[][3] = {{1, 8, 10}, {2, 8, 10}, {3, 16, 5000}, {7, 64, 100}, {12, 768, 50000}, {24, 1024, 50000}, {32, 512, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct dt_model m = layout_of(
            DT_FP32,
            &(struct gpt_model){.layers = sizes[i][0], .heads = 2, .hidden = sizes[i][1], .vocab_size = sizes[i][2], .block_size = 32});
        for (int stages = 1; stages <= MOST_STAGES && stages <= gpt_of(&m)->layers + 3; stages++) {
            int first[MOST_STAGES + 1];
            double slowest = 0;
            uint64_t parameters = 0;
            CHECK_OK(dt_partition(&m, DT_SPLIT_BALANCED, stages, first));
            CHECK(first[0] == 0 && first[stages] == gpt_layer_count(&m));
            for (int s = 0; s < stages; s++) {
                CHECK(first[s] < first[s + 1], "stage %d of %d is empty", s, stages);
                slowest = fmax(slowest, cost_of(&m, first[s], first[s + 1]));
                parameters += params_between(&m, first[s], first[s + 1]);
            }
            CHECK(parameters == dt_model_parameter_count(&m));
            CHECK(slowest == least_cost(&m, stages), "%d blocks on %d stages: %.0f, and %.0f can be had", gpt_of(&m)->layers, stages,
                  slowest, least_cost(&m, stages));
        }
    }
    /* 10 equal blocks on 4 stages, and a head that costs nothing: 3 is the slowest in any case, and
     * none has 1. */
    struct dt_model m = layout_of(DT_FP32, &(struct gpt_model){.layers = 10, .heads = 2, .hidden = 64, .vocab_size = 2, .block_size = 32});
    int first[5];
    CHECK_OK(dt_partition(&m, DT_SPLIT_BALANCED, 4, first));
    for (int s = 1; s < 4; s++)
        CHECK((first[s] - first[s - 1]) / 3 >= 2 && (first[s] - first[s - 1]) / 3 <= 3);
}

static void groups(void)
{
    struct dt_model m = model_of("GPTSmall");
    int ends[][3] = {{0, 1, 1}, {1, 4, 2}, {4, 7, 5}, {34, 37, 35}, {37, 39, 39}}; /* of the group that begins there: blocks, linear */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        CHECK(dt_unit_end(m.family, dt_blocks_of(&m), ends[i][0], DT_UNIT_BLOCK) == ends[i][1], "layer %d", ends[i][0]);
        CHECK(dt_unit_end(m.family, dt_blocks_of(&m), ends[i][0], DT_UNIT_LINEAR) == ends[i][2], "layer %d", ends[i][0]);
    }
    CHECK(dt_layer_count(&m) == 39 && dt_block_layer(m.family, 12) == 37);
}

static const struct test_case cases[] = {
    {"a tensor group\'s parts make the whole", parts_make_the_whole},
    {"copies of heads follow the heads that read them", copies_follow_their_heads},
    {"a copy of the table begins as the table", a_copy_of_the_table_begins_as_the_table},
    {"tables divide unevenly", tables_divide_unevenly},
    {"groups that do not fit a model", groups_that_do_not_fit},
    {"presets have the study's sizes", preset_sizes},
    {"presets have the published parameters", published_parameters},
    {"FLOPs are the usual count", flops},
    {"tensors fill a layer and have ids of their own", tensor_ids_are_unique},
    {"the study's partition rule", partition},
    {"the slowest stage is as fast as it can be", balanced_partition},
    {"groups by block and by linear layer", groups},
};
TEST_MAIN(cases)
