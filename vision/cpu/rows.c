/* Random images and labels; columns of matrices; dropout; the loss. */
#include "vision/cpu/kernels.h"

#include "lib/base/random.h"
#include "lib/kernels/cpu/team.h"

#include <stdlib.h>
#include <string.h>

/* ---- images ---- */

struct images_task {
    struct vision_kernels *k;
    struct vision_images a; /* first_sample includes the step's first sample */
};

enum { BYTES_OF_BLOCK = 16, COLOURS = 3 };

/* Draw one row of pixels: `count` bytes of an image from number `first` on, where a random block
 * begins. */
static void draw(const struct images_task *t, void *to, size_t first, size_t count, uint32_t sample)
{
    static const float MEAN = 127.5f, DEVIATION = 73.9003f; /* of integers from 0 to 255: sqrt((256^2 - 1) / 12) */
    for (size_t i = 0; i < count; i += BYTES_OF_BLOCK) {
        float pixels[BYTES_OF_BLOCK];
        struct dt_philox random =
            dt_philox4x32(t->a.seed, (uint32_t)((first + i) / BYTES_OF_BLOCK), 0, sample, (uint32_t)DT_RANDOM_PIXEL << 24);
        for (int b = 0; b < BYTES_OF_BLOCK; b++)
            pixels[b] = ((float)(random.word[b / 4] >> b % 4 * 8 & 0xFF) - MEAN) / DEVIATION;
        size_t here = count - i < BYTES_OF_BLOCK ? count - i : BYTES_OF_BLOCK;
        t->k->base.host.loops->narrow(vision_cpu_at(t->k, to, i), pixels, here);
    }
}

/* The same from a file's bytes; each group of three colours is whole. */
static void convert(const struct images_task *t, void *to, const uint8_t *from, size_t first, size_t count)
{
    static const float MEANS[COLOURS] = {0.485f, 0.456f, 0.406f}, DEVIATIONS[COLOURS] = {0.229f, 0.224f, 0.225f};
    for (size_t i = 0; i < count; i += BYTES_OF_BLOCK) {
        float pixels[BYTES_OF_BLOCK];
        size_t here = count - i < BYTES_OF_BLOCK ? count - i : BYTES_OF_BLOCK;
        for (size_t b = 0; b < here; b++) {
            size_t colour = (first + i + b) % COLOURS;
            pixels[b] = ((float)from[i + b] / 255 - MEANS[colour]) / DEVIATIONS[colour];
        }
        t->k->base.host.loops->narrow(vision_cpu_at(t->k, to, i), pixels, here);
    }
}

static void images_part(void *argument, int thread, int threads)
{
    const struct images_task *t = argument;
    enum { PIECE = 256 * BYTES_OF_BLOCK };
    size_t image = (size_t)t->a.size * (size_t)t->a.size * COLOURS, pieces = (image + PIECE - 1) / PIECE;
    struct dt_cpu_share share = dt_cpu_share(t->a.samples * pieces, 1, thread, threads);
    for (size_t i = share.first; i < share.end; i++) {
        size_t sample = i / pieces, first = i % pieces * PIECE, count = image - first < PIECE ? image - first : PIECE;
        void *to = vision_cpu_at(t->k, t->a.images, sample * image + first);
        if (t->a.pixels)
            convert(t, to, t->a.pixels + sample * t->a.image_bytes + first, first, count);
        else
            draw(t, to, first, count, t->a.first_sample + (uint32_t)sample);
    }
}

static dt_status run_images(void *arguments)
{
    struct images_task *t = arguments;
    if (t->a.images)
        dt_cpu_parallel(vision_cpu_threads(t->k, t->a.samples * (size_t)(t->a.size * t->a.size * COLOURS)), images_part, t);
    for (size_t i = 0; t->a.labels && i < t->a.samples * t->a.labels_of_image; i++)
        t->a.labels[i] = (int32_t)dt_random_token(t->a.seed, t->a.first_sample + (uint32_t)(i / t->a.labels_of_image),
                                                  (uint32_t)(i % t->a.labels_of_image), (uint32_t)t->a.classes);
    return DT_OK;
}

VISION_KERNEL_FUNCTION(vision_cpu_images, vision_images)
{
    struct images_task t = {k, *a};
    t.a.first_sample += k->base.first_sample;
    return dt_cpu_submit(stream, "images", run_images, &t, sizeof t);
}

/* ---- columns ---- */

struct copy_task {
    struct vision_copy_columns a;
    size_t element_bytes;
};

static dt_status run_copy(void *arguments)
{
    const struct copy_task *t = arguments;
    const char *from = t->a.from;
    char *to = t->a.to;
    for (size_t r = 0; r < t->a.rows; r++, from += t->a.from_stride * t->element_bytes, to += t->a.to_stride * t->element_bytes)
        memcpy(to, from, t->a.columns * t->element_bytes);
    return DT_OK;
}

VISION_KERNEL_FUNCTION(vision_cpu_copy_columns, vision_copy_columns)
{
    struct copy_task t = {*a, dt_dtype_bytes(k->base.dtype)};
    return dt_cpu_submit(stream, "copy columns", run_copy, &t, sizeof t);
}

/* ---- dropout ---- */

static void dropout_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct vision_kernels *k = kernels;
    const struct vision_dropout *a = arguments; /* first_sample includes the step's first sample */
    for (size_t r = first; r < end; r++)
        k->backend->loops->dropout(vision_cpu_at(k, a->to, r * a->channels), vision_cpu_at(k, a->from, r * a->channels), a->channels,
                                   a->seed, (uint32_t)(r % a->positions), a->first_sample + (uint32_t)(r / a->positions),
                                   (uint32_t)DT_RANDOM_DROPOUT << 24 | a->number, a->probability);
}

VISION_KERNEL_FUNCTION(vision_cpu_dropout, vision_dropout)
{
    struct vision_dropout queued = *a;
    queued.first_sample += k->base.first_sample;
    size_t rows = a->samples * a->positions;
    struct dt_cpu_work work = {dropout_rows, k, rows, 1, vision_cpu_threads(k, rows * a->channels)};
    return dt_cpu_submit_work(stream, "dropout", &work, &queued, sizeof queued);
}

/* ---- the loss ---- */

struct loss_task {
    struct vision_kernels *k;
    struct vision_loss a;
    float gradient_scale; /* includes the step's loss scale */
    double *losses;       /* [pieces] of ROWS_OF_PIECE rows each, summed in their order */
};

enum { ROWS_OF_PIECE = 64 };

static double loss_of_row(const struct loss_task *t, size_t r)
{
    const struct vision_loss *a = &t->a;
    const struct dt_simd *loops = t->k->base.host.loops;
    void *scores = vision_cpu_at(t->k, a->scores, r * a->classes);
    double sum = 0;
    if (!a->sum && (size_t)a->labels[r] < a->classes)
        return loops->cross_entropy(scores, a->classes, a->labels[r], t->gradient_scale);
    if (a->sum)
        sum = loops->sum(scores, a->classes);
    loops->fill(scores, a->classes, a->sum ? t->gradient_scale : 0);
    return sum;
}

static void loss_part(void *argument, int thread, int threads)
{
    const struct loss_task *t = argument;
    size_t pieces = (t->a.rows + ROWS_OF_PIECE - 1) / ROWS_OF_PIECE;
    struct dt_cpu_share share = dt_cpu_share(pieces, 1, thread, threads);
    for (size_t p = share.first; p < share.end; p++) {
        t->losses[p] = 0;
        for (size_t r = p * ROWS_OF_PIECE; r < (p + 1) * ROWS_OF_PIECE && r < t->a.rows; r++)
            t->losses[p] += loss_of_row(t, r);
    }
}

static dt_status run_loss(void *arguments)
{
    struct loss_task *t = arguments;
    size_t pieces = (t->a.rows + ROWS_OF_PIECE - 1) / ROWS_OF_PIECE;
    double loss = 0;
    t->gradient_scale = t->a.gradient_scale * t->k->base.host.norm.loss_scale;
    t->losses = malloc(pieces * sizeof *t->losses);
    DT_TRY(dt_allocated(t->losses, "no host memory"));
    dt_cpu_parallel(vision_cpu_threads(t->k, t->a.rows * t->a.classes), loss_part, t);
    for (size_t p = 0; p < pieces; p++)
        loss += t->losses[p];
    free(t->losses);
    *t->a.loss += loss * (double)t->a.loss_scale;
    return DT_OK;
}

VISION_KERNEL_FUNCTION(vision_cpu_loss, vision_loss)
{
    struct loss_task t = {.k = k, .a = *a};
    return dt_cpu_submit(stream, "loss", run_loss, &t, sizeof t);
}
