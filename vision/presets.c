#include "vision/model.h"

/* clang-format off */
#define RESNET(kind, c2, c3, c4, c5)                                                                                                       \
    .blocks = {c2, c3, c4, c5}, .block = kind, .width = 64
#define CLASSIFIER .image_size = 224, .classes = 1000, .head = VISION_CLASSIFIER, .output_stride = 32
/* Of an image 480 pixels are cut out, as torchvision's own training does; 21 classes are those of PASCAL VOC with the background. */
#define DEEPLAB                                                                                                                            \
    .image_size = 480, .classes = 21, .head = VISION_DEEPLAB, .output_stride = 8, .head_channels = 256, .auxiliary = 0.4, .head_dropout = true
#define NETWORK(...) &(const struct vision_model) {__VA_ARGS__}, false
/* clang-format on */

const struct dt_model_preset vision_presets[] = {
    {"ResNet18", NETWORK(RESNET(VISION_BASIC, 2, 2, 2, 2), CLASSIFIER)},
    {"ResNet50", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 6, 3), CLASSIFIER)},
    {"ResNet101", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 23, 3), CLASSIFIER)},
    {"DeepLabV3-ResNet50", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 6, 3), DEEPLAB)},
    {"DeepLabV3-ResNet101", NETWORK(RESNET(VISION_BOTTLENECK, 3, 4, 23, 3), DEEPLAB)},
    {0},
};
