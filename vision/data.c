/* Files of images with their classes, in two formats.
 *
 * CIFAR-10's binary format as published: for each image a byte with its class, then 32 x 32 bytes
 * each of red, green and blue.
 * Source  Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009, and the data
 *         set's own page.
 *
 * dtbench's format (scripts/images writes it): a header of 32 bytes, then records. Numbers are
 * little-endian.
 *   header  "DTIMAGES"; uint32 version 1, height, width, colours 3, label_bytes; 4 bytes 0
 *   record  uint8 [height, width, 3]; then its labels [label_bytes]: 2 bytes: the uint16 class of
 *           the image; height * width bytes: the class of each pixel, 255 for none */
#include "vision/family_parts.h"

#include "lib/base/random.h"
#include "vision/kernels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 3, CIFAR_SIDE = 32, HEADER_BYTES = 32, CLASS_BYTES = 2 };

static const char MAGIC[] = "DTIMAGES";

/* The format of a file, and of its records. */
struct format {
    int height, width;
    size_t first, record, pixels, labels,
        label_bytes; /* bytes: of the header; of a record; of a record before the pixels, and before the labels; of the labels */
    bool by_colour;  /* all pixels of one colour, then of the next */
};

static int number_at(const uint8_t *b)
{
    return (int)(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
}

static struct format cifar(void)
{
    size_t pixels = CIFAR_SIDE * CIFAR_SIDE * COLOURS;
    return (struct format){CIFAR_SIDE, CIFAR_SIDE, 0, 1 + pixels, 1, 0, 1, true};
}

static dt_status take_header(const uint8_t header[HEADER_BYTES], struct format *out)
{
    enum { MOST_SIDE = 16384 };
    int version = number_at(header + 8), height = number_at(header + 12), width = number_at(header + 16), colours = number_at(header + 20);
    int label_bytes = number_at(header + 24);
    if (version != 1 || colours != COLOURS)
        return dt_fail(DT_ERR_INVALID, "images of version %d with %d colours; expected version 1 with 3", version, colours);
    if (height < 1 || height > MOST_SIDE || width < 1 || width > MOST_SIDE)
        return dt_fail(DT_ERR_INVALID, "images of %d x %d pixels; expected 1 to %d", height, width, MOST_SIDE);
    if (label_bytes != CLASS_BYTES && label_bytes != height * width)
        return dt_fail(DT_ERR_INVALID, "labels of %d bytes; expected 2, or one for each pixel", label_bytes);
    size_t pixels = (size_t)height * (size_t)width * COLOURS;
    *out = (struct format){height, width, HEADER_BYTES, pixels + (size_t)label_bytes, 0, pixels, (size_t)label_bytes, false};
    return DT_OK;
}

static dt_status find_format(const struct dt_data_set *set, struct format *out)
{
    uint8_t header[HEADER_BYTES] = {0};
    *out = cifar();
    if (set->file.size_bytes >= HEADER_BYTES)
        DT_TRY(dt_mapped_file_read(&set->file, set->path, 0, HEADER_BYTES, header));
    if (memcmp(header, MAGIC, sizeof MAGIC - 1) == 0)
        DT_TRY(take_header(header, out));
    size_t rest = set->file.size_bytes - out->first;
    if (rest >= out->record && rest % out->record == 0)
        return DT_OK;
    return dt_fail(
        DT_ERR_INVALID,
        "not a file of images: %zu bytes%s are not a multiple of %zu, the size of %s; scripts/images makes such a file from a folder", rest,
        out->first ? " after the header" : "", out->record, out->first ? "an image with its labels" : "one of CIFAR-10");
}

static bool is_per_pixel(const struct dt_model *model)
{
    return vision_of(model)->head == VISION_DEEPLAB;
}

size_t vision_labels_of_image(const struct dt_model *model)
{
    size_t size = (size_t)vision_of(model)->image_size;
    return is_per_pixel(model) ? size * size : 1;
}

/* Images begin at multiples of 4 bytes, so that the labels after them are aligned. */
void vision_sample_bytes(const struct dt_model *model, size_t *inputs, size_t *targets)
{
    size_t size = (size_t)vision_of(model)->image_size;
    *inputs = (size * size * COLOURS + 3) / 4 * 4;
    *targets = vision_labels_of_image(model) * sizeof(int32_t);
}

size_t vision_stored_bytes(const struct dt_model *model, int id_bytes)
{
    size_t size = (size_t)vision_of(model)->image_size;
    (void)id_bytes;
    return size * size * COLOURS + (is_per_pixel(model) ? size * size : CLASS_BYTES);
}

dt_status vision_sample_count(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out)
{
    struct format f;
    int size = vision_of(model)->image_size;
    DT_TRY(find_format(set, &f));
    if (f.height < size || f.width < size)
        return dt_fail(DT_ERR_INVALID, "images of %d x %d pixels are smaller than model.image_size %d", f.width, f.height, size);
    if (is_per_pixel(model) != (f.label_bytes > CLASS_BYTES))
        return dt_fail(DT_ERR_INVALID, "the file has a class for each %s, but model.head \"%s\" needs one for each %s",
                       is_per_pixel(model) ? "image" : "pixel", is_per_pixel(model) ? "deeplab" : "classifier",
                       is_per_pixel(model) ? "pixel" : "image");
    *out = (set->file.size_bytes - f.first) / f.record;
    return DT_OK;
}

/* The part of an image that is a sample: image_size pixels from here on, which may be outside of
 * the image. flipped: from right to left. */
struct view {
    int top, left;
    bool flipped;
};

/* The first of `size` pixels among `all`: chosen by 32 random bits, or in the middle. */
static int place(int all, int size, bool anywhere, uint32_t random)
{
    int slack = all - size, moved = slack == 0 ? size / 8 : 0;
    return anywhere ? (int)((uint64_t)random * (uint64_t)(slack + 2 * moved + 1) >> 32) - moved : slack / 2;
}

static struct view view_of(const struct vision_model *m, const struct format *f, uint64_t seed, uint64_t position)
{
    struct dt_philox random = dt_philox4x32(seed, 0, 0, (uint32_t)position, (uint32_t)DT_RANDOM_AUGMENT << 24);
    bool crop = m->augmentation & VISION_CROP;
    return (struct view){place(f->height, m->image_size, crop, random.word[0]), place(f->width, m->image_size, crop, random.word[1]),
                         m->augmentation & VISION_FLIP && random.word[2] & 1};
}

/* The index of the pixel of the file's image at a place of the sample; -1: none. */
static int pixel_at(const struct format *f, const struct view *v, int size, int row, int column)
{
    int y = v->top + row, x = v->left + (v->flipped ? size - 1 - column : column);
    return y < 0 || y >= f->height || x < 0 || x >= f->width ? -1 : y * f->width + x;
}

static void copy_pixels(const struct format *f, const struct view *v, int size, const uint8_t *from, uint8_t *to)
{
    size_t apart = f->by_colour ? (size_t)(f->height * f->width) : 1, next = f->by_colour ? 1 : COLOURS;
    for (int i = 0; i < size * size; i++, to += COLOURS) {
        int pixel = pixel_at(f, v, size, i / size, i % size);
        for (size_t c = 0; c < COLOURS; c++)
            to[c] = pixel < 0 ? 0 : from[(size_t)pixel * next + c * apart];
    }
}

/* In CIFAR-10 the class of an image is one byte, in other files two. */
static int32_t class_at(const struct format *f, const uint8_t *labels)
{
    return f->label_bytes == CLASS_BYTES ? labels[0] | labels[1] << 8 : labels[0];
}

static dt_status take_sample(const struct dt_model *model, const struct dt_data_set *set, const struct format *f, const uint8_t *record,
                             uint64_t sample, uint64_t position, void *inputs, int32_t *labels)
{
    const struct vision_model *m = vision_of(model);
    struct view v = view_of(m, f, set->seed, position);
    bool per_pixel = is_per_pixel(model);
    copy_pixels(f, &v, m->image_size, record + f->pixels, inputs);
    for (size_t i = 0; i < vision_labels_of_image(model); i++) {
        int pixel = per_pixel ? pixel_at(f, &v, m->image_size, (int)i / m->image_size, (int)i % m->image_size) : 0;
        labels[i] = pixel < 0 ? VISION_NO_LABEL : per_pixel ? record[f->labels + (size_t)pixel] : class_at(f, record + f->labels);
        if (labels[i] >= m->classes && !(per_pixel && labels[i] == VISION_NO_LABEL))
            return dt_fail(DT_ERR_IO, "%s: image %" PRIu64 " has class %d, and model.classes is %d", set->path, sample, labels[i],
                           m->classes);
    }
    return DT_OK;
}

dt_status vision_read_sample(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                             void *targets)
{
    struct format f;
    DT_TRY(find_format(set, &f));
    DT_FREED uint8_t *record = malloc(f.record);
    DT_TRY(dt_allocated(record, "%s: no host memory for an image of %zu bytes", set->path, f.record));
    DT_TRY(dt_mapped_file_read(&set->file, set->path, f.first + sample * f.record, f.record, record));
    return take_sample(model, set, &f, record, sample, position, inputs, targets);
}
