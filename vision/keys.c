/* The keys that describe a convolutional network in a config: rows of the table of an experiment's
 * keys (schedules/config/fields.c), below "model". After a change run scripts/generate. */
#include "vision/family_parts.h"
#include "vision/model.h"

/* ---- which keys have a part in an experiment, which begins with its model ---- */

static bool of_own_sizes(const void *source)
{
    return !*((const struct dt_model *)source)->preset;
}

static bool of_augmentation(const void *source)
{
    return vision_of(source)->augmentation != 0;
}

static bool of_deeplab(const void *source)
{
    return vision_of(source)->head == VISION_DEEPLAB;
}

#define AT(member) .offset = offsetof(struct vision_model, member), .size = sizeof(((struct vision_model *)0)->member)

const struct dt_field vision_keys[] = {
    {"model.blocks.c2", DT_FIELD_INT, AT(blocks[0]), .min = 1, .max = 256, .required = DT_REQUIRED_IN_SECTION, .matters = of_own_sizes,
     .description = "Residual blocks of the first stage, conv2_x."},
    {"model.blocks.c3", DT_FIELD_INT, AT(blocks[1]), .min = 1, .max = 256, .required = DT_REQUIRED_IN_SECTION, .matters = of_own_sizes,
     .description = "Residual blocks of conv3_x."},
    {"model.blocks.c4", DT_FIELD_INT, AT(blocks[2]), .min = 1, .max = 256, .required = DT_REQUIRED_IN_SECTION, .matters = of_own_sizes,
     .description = "Residual blocks of conv4_x."},
    {"model.blocks.c5", DT_FIELD_INT, AT(blocks[3]), .min = 1, .max = 256, .required = DT_REQUIRED_IN_SECTION, .matters = of_own_sizes,
     .description = "Residual blocks of conv5_x."},
    {"model.image_size", DT_FIELD_INT, AT(image_size), .min = 1, .max = 8192, .initial = "224",
     .description = "Pixels of an image's side; images are square, with three colours."},
    {"model.classes", DT_FIELD_INT, AT(classes), .min = 2, .max = 65536, .initial = "1000",
     .description = "Classes of an image, or of a pixel."},
    {"model.block", DT_FIELD_ENUM, AT(block), .names = DT_NAMES([VISION_BASIC] = "basic", [VISION_BOTTLENECK] = "bottleneck"),
     .initial = "\"bottleneck\"",
     .description = "Residual blocks. basic: two 3x3 convolutions; bottleneck: 1x1, 3x3, and 1x1 to four times the channels."},
    {"model.channels", DT_FIELD_INT, AT(width), .min = 4, .max = 1024, .initial = "64",
     .description = "Channels of the stem and of the first stage's 3x3 convolutions; a multiple of 4. Each later stage has twice as many."},
    {"model.head", DT_FIELD_ENUM, AT(head), .names = DT_NAMES([VISION_CLASSIFIER] = "classifier", [VISION_DEEPLAB] = "deeplab"),
     .initial = "\"classifier\"", .description = "classifier: a class for each image; deeplab: DeepLabV3's, a class for each pixel."},
    {"model.output_stride", DT_FIELD_INT, AT(output_stride), .min = 8, .max = 32, .initial = "32",
     .description =
         "Pixels of the image, on a side, for one position of the last stage: 32, 16 or 8. Below 32 the last stages dilate their "
         "convolutions instead of taking every second position."},
    {"model.head_channels", DT_FIELD_INT, AT(head_channels), .min = 1, .max = 8192, .initial = "256", .matters = of_deeplab,
     .description = "deeplab: channels of each of the head's branches."},
    {"model.auxiliary", DT_FIELD_NUMBER, AT(auxiliary), .min = 0, .max = 1, .initial = "0", .matters = of_deeplab,
     .description = "deeplab: weight of the loss of an auxiliary head after conv4_x; 0: there is no such head."},
    {"model.head_dropout", DT_FIELD_BOOL, AT(head_dropout), .max = 1, .initial = "true", .matters = of_deeplab,
     .description = "deeplab: dropout in the heads, of 0.5, and of 0.1 in the auxiliary one."},
    {"model.norm_group", DT_FIELD_INT, AT(norm_group), .min = 0, .max = 65536, .initial = "0",
     .description =
         "Consecutive samples that share the statistics of a batch normalisation; if they are more than a rank's, ranks exchange sums in "
         "forward and backward. 0: the samples of a rank's micro-batch, as in PyTorch; losses then depend on how samples are divided."},
    {"model.running_statistics", DT_FIELD_ENUM, AT(running), .names = DT_NAMES([VISION_AVERAGE] = "average", [VISION_RANK_0] = "rank_0"),
     .initial = "\"average\"",
     .description =
         "Running mean and variance of batch normalisations on all ranks after a step. average: the mean over the ranks; rank_0: the first "
         "rank's, as in PyTorch's DistributedDataParallel."},
    {"model.augmentation", DT_FIELD_ENUM, AT(augmentation),
     .names = DT_NAMES("none", [VISION_FLIP] = "flip", [VISION_CROP] = "crop", [VISION_FLIP | VISION_CROP] = "flip_and_crop"),
     .initial = "\"none\"", .matters = of_augmentation,
     .description =
         "Random changes of a file's images, different each time one is used. flip: left and right are exchanged, or not; crop: image_size "
         "pixels are cut out anywhere, and an image of exactly that size is moved by up to an eighth, with black edges; flip_and_crop: "
         "both. none: the middle is cut out."},
};

_Static_assert(sizeof vision_keys / sizeof *vision_keys == VISION_KEYS, "vision_keys has VISION_KEYS rows");

const char *const vision_key_titles[] = {"c2", "c3", "c4", "c5", "pixels", "classes"};

const char *const vision_shape_keys[] = {"model.blocks",        "model.block",         "model.channels",  "model.head",
                                         "model.output_stride", "model.head_channels", "model.auxiliary", NULL};

const struct dt_schema_section vision_sections[] = {{"model.blocks", "Residual blocks of each stage of a convolutional network.", NULL},
                                                    {0}};
