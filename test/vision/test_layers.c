/* Networks as they are described: counts of parameters and operations, shapes, what is carried,
 * stages. */
#include "test/check.h"
#include "test/vision/model_of.h"
#include "vision/family_parts.h"
#include "vision/layers.h"

#include <stdlib.h>

static struct dt_model preset(const char *name)
{
    const struct dt_model_preset *p = vision_presets;
    while (p->name && strcmp(p->name, name) != 0)
        p++;
    return vision_model_of(DT_FP32, p->own);
}

/* torchvision's own counts; and thousand millions of multiply-adds, which it tells of each of its
 * models at the image size given here. */
static void test_counts(void)
{
    static const struct {
        const char *name;
        uint64_t parameters;
        int image_size;
        double giga_multiply_adds;
    } rows[] = {
        {"ResNet18", 11689512, 224, 1.814},
        {"ResNet50", 25557032, 224, 4.089},
        {"ResNet101", 44549160, 224, 7.801},
        {"DeepLabV3-ResNet50", 42004074, 520, 178.722},
        {"DeepLabV3-ResNet101", 60996202, 520, 258.743},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_model model = preset(rows[i].name);
        vision_change(&model)->image_size = rows[i].image_size;
        double multiply_adds = dt_model_step_flops(&model, 1) / 6e9; /* three passes of two operations each */
        CHECK(dt_model_parameter_count(&model) == rows[i].parameters, "%s: %llu", rows[i].name,
              (unsigned long long)dt_model_parameter_count(&model));
        CHECK(fabs(multiply_adds - rows[i].giga_multiply_adds) < 0.0006, "%s: %g", rows[i].name, multiply_adds);
        CHECK_OK(vision_check_model(&model));
    }
}

static void test_auxiliary_scores_are_carried(void)
{
    struct dt_model model = preset("DeepLabV3-ResNet50");
    struct vision_layer layer;
    size_t before = 0;
    for (int i = 0; i < vision_layer_count(&model); i++) {
        vision_describe_layer(&model, i, &layer);
        CHECK(i == 0 || vision_input_elems(&layer) == before, "layer %d", i);
        CHECK(layer.index == i && layer.block == (i == 0 || i == 17 ? -1 : i - 1), "layer %d: %d", i, layer.block);
        size_t carried = vision_shape_elems(layer.carried_out);
        CHECK(carried == (i >= 13 && i < 17 ? (size_t)21 * 60 * 60 : 0), "layer %d: %zu", i, carried); /* 480 / 8 = 60 */
        before = vision_output_elems(&layer);
    }
    CHECK(before == 0 && layer.output < 0, "the last layer has an output");
}

static void test_strides_become_dilations(void)
{
    static const int strides[] = {32, 16, 8}, sizes[] = {7, 14, 28}; /* 224 / stride */
    for (int i = 0; i < 3; i++) {
        struct dt_model model = preset("ResNet50");
        struct vision_layer layer;
        vision_change(&model)->output_stride = strides[i];
        vision_describe_layer(&model, vision_block_count(&model), &layer);
        struct vision_shape out = layer.nodes[layer.output].shape;
        CHECK(out.height == sizes[i] && out.width == sizes[i] && out.channels == 2048, "stride %d: %d", strides[i], out.height);
        CHECK(dt_model_parameter_count(&model) == 25557032, "stride %d has other parameters", strides[i]);
    }
}

/* Every tensor begins where the one before ends, and no two have a random stream in common. */
static void test_tensors_are_consecutive(void)
{
    struct dt_model model = preset("DeepLabV3-ResNet50");
    struct vision_layer layer;
    uint32_t last_id = 0;
    for (int i = 0; i < vision_layer_count(&model); i++) {
        size_t at = 0;
        vision_describe_layer(&model, i, &layer);
        for (int t = 0; t < layer.tensor_count; t++) {
            CHECK(layer.tensors[t].first_elem == at, "layer %d, tensor %d", i, t);
            CHECK((i == 0 && t == 0) || layer.tensors[t].id > last_id, "layer %d, tensor %d: its stream is another's", i, t);
            at += layer.tensors[t].count;
            last_id = layer.tensors[t].id;
        }
        CHECK(at == layer.param_elems, "layer %d", i);
    }
}

static void test_stages_are_balanced(void)
{
    struct dt_model model = preset("ResNet50");
    int first[5];
    double most = 0;
    CHECK_OK(dt_partition(&model, DT_SPLIT_BALANCED, 4, first));
    for (int i = 0; i < 4; i++) {
        struct dt_layers_size size;
        vision_layers_size(&model, (struct dt_layers){.first = first[i], .end = first[i + 1]}, &size);
        most = fmax(most, 3 * (double)size.forward_flops);
    }
    CHECK(first[0] == 0 && first[4] == 18, "not all layers are dealt");
    CHECK(most < 1.2 * dt_model_step_flops(&model, 1) / 4, "the slowest stage has %g of the operations",
          most / dt_model_step_flops(&model, 1));
    CHECK(dt_partition(&model, DT_SPLIT_BALANCED, 19, (int[20]){0}) == DT_ERR_INVALID, "19 stages of 18 pieces");
}

static void test_blocks_can_be_fewer(void)
{
    struct dt_model model = preset("ResNet101");
    for (int blocks = 4; blocks < 40; blocks += 7) {
        vision_set_blocks(&model, blocks);
        CHECK(vision_block_count(&model) == blocks, "%d", vision_block_count(&model));
    }
}

static const struct test_case cases[] = {
    {"counts of parameters and operations are torchvision's", test_counts},
    {"the auxiliary head's scores travel to the last layer", test_auxiliary_scores_are_carried},
    {"strides become dilations", test_strides_become_dilations},
    {"tensors are consecutive", test_tensors_are_consecutive},
    {"stages are balanced by operations", test_stages_are_balanced},
    {"blocks can be fewer", test_blocks_can_be_fewer},
};

TEST_MAIN(cases)
