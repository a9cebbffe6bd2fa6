/* Files of images: which bytes of them are a sample's, cut out, moved and turned round; and which
 * files are refused. */
#include "test/check.h"
#include "test/vision/model_of.h"
#include "vision/family_parts.h"
#include "vision/kernels.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIDE = 8, IMAGES = 3, CLASSES = 5, HEADER = 32 };

/* Each pixel has its row, its column and its image for colours; its class is that of its row, and
 * in the last one none. */
static size_t write_file(uint8_t *to, bool per_pixel)
{
    const uint32_t header[] = {1, SIDE, SIDE, 3, per_pixel ? SIDE * SIDE : 2, 0};
    uint8_t *at = to + HEADER;
    memcpy(to, "DTIMAGES", 8);
    for (size_t i = 0; i < sizeof header; i++)
        to[8 + i] = (uint8_t)(header[i / 4] >> i % 4 * 8);
    for (int image = 0; image < IMAGES; image++) {
        for (int i = 0; i < SIDE * SIDE; i++, at += 3) {
            at[0] = (uint8_t)(1 + i / SIDE);
            at[1] = (uint8_t)(1 + i % SIDE);
            at[2] = (uint8_t)image;
        }
        for (int i = 0; i < SIDE * SIDE && per_pixel; i++)
            *at++ = i / SIDE == SIDE - 1 ? VISION_NO_LABEL : (uint8_t)(i / SIDE % CLASSES);
        if (!per_pixel) {
            *at++ = (uint8_t)(image + 1);
            *at++ = 0;
        }
    }
    return (size_t)(at - to);
}

static struct dt_model model_of(int size, bool per_pixel, int augmentation)
{
    struct vision_model m = {
        .image_size = size, .classes = CLASSES, .head = per_pixel ? VISION_DEEPLAB : VISION_CLASSIFIER, .augmentation = augmentation};
    return vision_model_of(DT_FP32, &m);
}

/* In memory, until the test's end. */
static struct dt_data_set set_of(const uint8_t *file, size_t bytes)
{
    int descriptor = memfd_create("images", 0);
    CHECK(write(descriptor, file, bytes) == (ssize_t)bytes, "cannot write %zu bytes", bytes);
    return (struct dt_data_set){.file = {.size_bytes = bytes, .descriptor = descriptor}, .path = "a file", .seed = 7};
}

static void put(const struct dt_data_set *set, off_t at, uint8_t byte)
{
    CHECK(pwrite(set->file.descriptor, &byte, 1, at) == 1, "cannot write");
}

static void test_the_middle_is_cut_out(void)
{
    uint8_t file[4096], image[4 * 4 * 3];
    int32_t label;
    uint64_t count;
    struct dt_data_set set = set_of(file, write_file(file, false));
    struct dt_model model = model_of(4, false, 0);
    CHECK_OK(vision_sample_count(&model, &set, &count));
    CHECK(count == IMAGES, "%d images", (int)count);
    CHECK_OK(vision_read_sample(&model, &set, 2, 0, image, &label));
    CHECK(label == 3, "class %d", label);
    for (int i = 0; i < 16; i++)
        CHECK(image[3 * i] == 3 + i / 4 && image[3 * i + 1] == 3 + i % 4 && image[3 * i + 2] == 2, "pixel %d", i);
}

/* The pixels of a sample show how it was cut and flipped, and labels are cut and flipped in the
 * same way. */
static void test_crops_and_flips_go_with_their_labels(void)
{
    uint8_t file[4096], image[SIDE * SIDE * 3];
    int32_t labels[SIDE * SIDE];
    struct dt_data_set set = set_of(file, write_file(file, true));
    for (int size = 5; size <= SIDE; size += 3) {
        struct dt_model model = model_of(size, true, VISION_FLIP | VISION_CROP);
        bool seen[2][4] = {{false}};
        for (uint64_t position = 0; position < 100; position++) {
            CHECK_OK(vision_read_sample(&model, &set, 1, position, image, labels));
            const uint8_t *middle = image + 3 * (size * (size / 2) + size / 2); /* which is never an edge */
            bool flipped = middle[1] > middle[4];
            int top = middle[0] - 1 - size / 2, left = middle[1] - 1 - (flipped ? size - 1 - size / 2 : size / 2);
            int slack = SIDE - size, moved = slack == 0 ? 1 : 0;
            CHECK(top >= -moved && top <= slack + moved && left >= -moved && left <= slack + moved, "from %d, %d", top, left);
            seen[flipped][top + moved] = true;
            for (int i = 0; i < size * size; i++) {
                int row = top + i / size, column = left + (flipped ? size - 1 - i % size : i % size);
                bool inside = row >= 0 && row < SIDE && column >= 0 && column < SIDE;
                CHECK(image[3 * i] == (inside ? row + 1 : 0) && image[3 * i + 1] == (inside ? column + 1 : 0), "pixel %d", i);
                CHECK(labels[i] == (inside && row < SIDE - 1 ? row % CLASSES : VISION_NO_LABEL), "label %d: %d", i, labels[i]);
            }
        }
        for (int i = 0; i < (size == SIDE ? 6 : 8); i++)
            CHECK(seen[i % 2][i / 2], "of %d pixels none begins at row %d, flipped %d", size, i / 2, i % 2);
    }
}

static void test_cifar_has_one_colour_after_the_other(void)
{
    enum { PLANE = 32 * 32, RECORD = 1 + 3 * PLANE };
    uint8_t *file = malloc(2 * RECORD), image[3 * PLANE];
    int32_t label;
    for (int i = 0; i < 2 * RECORD; i++)
        file[i] = (uint8_t)(i % RECORD == 0 ? 4 : (i % RECORD - 1) * 7 / 5);
    struct dt_data_set set = set_of(file, 2 * RECORD);
    struct dt_model model = model_of(32, false, 0);
    CHECK_OK(vision_read_sample(&model, &set, 1, 0, image, &label));
    CHECK(label == 4, "class %d", label);
    for (int i = 0; i < 3 * PLANE; i++)
        CHECK(image[i] == file[RECORD + 1 + i % 3 * PLANE + i / 3], "byte %d", i);
    free(file);
}

static void refused(dt_status status, dt_status expected, const char *text)
{
    CHECK(status == expected, "status %s", status_name(status));
    CHECK(strstr(dt_error_message(), text), "\"%s\" is not in \"%s\"", text, dt_error_message());
}

static void test_other_files_are_refused(void)
{
    uint8_t file[4096], image[SIDE * SIDE * 3];
    int32_t labels[SIDE * SIDE];
    uint64_t count;
    size_t bytes = write_file(file, false);
    struct dt_data_set set = set_of(file, bytes), shorter = set_of(file, bytes - 1), empty = set_of(file, HEADER);
    struct dt_model fits = model_of(SIDE, false, 0), larger = model_of(SIDE + 1, false, 0), pixels = model_of(SIDE, true, 0);
    refused(vision_sample_count(&larger, &set, &count), DT_ERR_INVALID, "smaller than model.image_size 9");
    refused(vision_sample_count(&pixels, &set, &count), DT_ERR_INVALID, "needs one for each pixel");
    refused(vision_sample_count(&fits, &shorter, &count), DT_ERR_INVALID, "are not a multiple of 194");
    refused(vision_sample_count(&fits, &empty, &count), DT_ERR_INVALID, "are not a multiple of 194");
    put(&set, HEADER + SIDE * SIDE * 3 + 1, 1); /* class 257 */
    refused(vision_read_sample(&fits, &set, 0, 0, image, labels), DT_ERR_IO, "image 0 has class 257, and model.classes is 5");
    CHECK(ftruncate(set.file.descriptor, (off_t)bytes - 1) == 0, "cannot cut it off");
    refused(vision_read_sample(&fits, &set, IMAGES - 1, 0, image, labels), DT_ERR_IO,
            "a file: the file has become shorter while it was read");
    put(&set, 20, 1);
    refused(vision_sample_count(&fits, &set, &count), DT_ERR_INVALID, "with 1 colours");
    put(&set, 0, 'd');
    refused(vision_sample_count(&fits, &set, &count), DT_ERR_INVALID, "are not a multiple of 3073");
}

static const struct test_case cases[] = {
    {"the middle is cut out", test_the_middle_is_cut_out},
    {"crops and flips go with their labels", test_crops_and_flips_go_with_their_labels},
    {"CIFAR-10 has one colour after the other", test_cifar_has_one_colour_after_the_other},
    {"other files are refused", test_other_files_are_refused},
};

TEST_MAIN(cases)
