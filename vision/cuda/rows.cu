/* Images and labels, columns of matrices, dropout, the loss. All except the loss
 * are limited only by the memory's bandwidth. */
#include "vision/cuda/kernels.cuh"

namespace {

using namespace vision_cuda;

/* ---- images (lib/base/random.h) ---- */

enum { BYTES_OF_BLOCK = 16, COLOURS = 3, LABELS_OF_BLOCK = 4 };

/* A thread makes the sixteen pixels of one Philox call. to [samples, image] */
template <typename E>
__global__ void __launch_bounds__(THREADS)
    draw_kernel(E *to, size_t samples, size_t image, uint64_t seed, uint32_t first_sample, const struct dt_cuda_step *step)
{
    wait_for_earlier();
    const float mean = 127.5f, deviation = 73.9003f; /* of integers from 0 to 255: sqrt((256^2 - 1) / 12) */
    size_t blocks = (image + BYTES_OF_BLOCK - 1) / BYTES_OF_BLOCK;
    first_sample += step->first_sample;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < samples * blocks; i += gridDim.x * (size_t)THREADS) {
        size_t sample = i / blocks, first = i % blocks * BYTES_OF_BLOCK;
        struct dt_philox random =
            dt_philox4x32(seed, (uint32_t)(i % blocks), 0, first_sample + (uint32_t)sample, (uint32_t)DT_RANDOM_PIXEL << 24);
#pragma unroll
        for (int b = 0; b < BYTES_OF_BLOCK; b++)
            if (first + b < image)
                to[sample * image + first + b] = from_float<E>(((float)(random.word[b / 4] >> b % 4 * 8 & 0xFF) - mean) / deviation);
    }
}

/* The same from a file's bytes; the pixels of an image begin with its first colour. */
template <typename E>
__global__ void __launch_bounds__(THREADS) pixels_kernel(E *to, const uint8_t *from, size_t samples, size_t image, size_t image_bytes)
{
    wait_for_earlier();
    const float means[COLOURS] = {0.485f, 0.456f, 0.406f}, deviations[COLOURS] = {0.229f, 0.224f, 0.225f};
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < samples * image; i += gridDim.x * (size_t)THREADS) {
        size_t sample = i / image, place = i % image;
        int colour = (int)(place % COLOURS);
        to[i] = from_float<E>(((float)from[sample * image_bytes + place] / 255 - means[colour]) / deviations[colour]);
    }
}

/* A thread makes the four labels of one Philox call. labels [samples, of_image] */
__global__ void __launch_bounds__(THREADS) labels_kernel(int32_t *labels, size_t samples, size_t of_image, uint32_t classes, uint64_t seed,
                                                         uint32_t first_sample, const struct dt_cuda_step *step)
{
    wait_for_earlier();
    size_t blocks = (of_image + LABELS_OF_BLOCK - 1) / LABELS_OF_BLOCK;
    first_sample += step->first_sample;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < samples * blocks; i += gridDim.x * (size_t)THREADS) {
        size_t sample = i / blocks, first = i % blocks * LABELS_OF_BLOCK;
        struct dt_philox random =
            dt_philox4x32(seed, (uint32_t)(i % blocks), 0, first_sample + (uint32_t)sample, (uint32_t)DT_RANDOM_TOKEN << 24);
        for (int j = 0; j < LABELS_OF_BLOCK; j++)
            if (first + j < of_image)
                labels[sample * of_image + first + j] = (int32_t)((uint64_t)random.word[j] * classes >> 32);
    }
}

/* ---- columns ---- */

template <typename E, int N>
__global__ void __launch_bounds__(THREADS)
    copy_columns_kernel(E *to, const E *from, size_t rows, size_t columns, size_t to_stride, size_t from_stride)
{
    wait_for_earlier();
    size_t packs = columns / N;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < rows * packs; i += gridDim.x * (size_t)THREADS) {
        size_t row = i / packs, column = i % packs * N;
        store_pack<N>(to + row * to_stride + column, load_pack<N>(from + row * from_stride + column));
    }
}

/* ---- dropout ---- */

enum { DROPOUT_COLUMNS = 8 };

/* A thread computes the eight columns of one Philox call. */
template <typename E>
__global__ void __launch_bounds__(THREADS)
    dropout_kernel(E *to, const E *from, struct vision_dropout a, uint32_t threshold, float scale, const struct dt_cuda_step *step)
{
    wait_for_earlier();
    size_t eights = (a.channels + DROPOUT_COLUMNS - 1) / DROPOUT_COLUMNS, rows = a.samples * a.positions;
    uint32_t first_sample = a.first_sample + step->first_sample;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < rows * eights; i += gridDim.x * (size_t)THREADS) {
        size_t row = i / eights, column = i % eights * DROPOUT_COLUMNS;
        float factor[DROPOUT_COLUMNS];
        draw_dropout(a.seed, (uint32_t)DT_RANDOM_DROPOUT << 24 | a.number, threshold, scale, first_sample + (uint32_t)(row / a.positions),
                     (uint32_t)(row % a.positions), (uint32_t)column, factor);
#pragma unroll
        for (int j = 0; j < DROPOUT_COLUMNS; j++)
            if (column + j < a.channels)
                to[row * a.channels + column + j] = from_float<E>(to_float(from[row * a.channels + column + j]) * factor[j]);
    }
}

/* ---- the loss ---- */

enum { LOSS_LANES = 32, LOSS_ROWS = 8 };

/* Scores of a row become their gradient; returns its loss, on every lane. */
template <typename E> __device__ double entropy_of_row(E *scores, size_t classes, int32_t label, float scale, int lane)
{
    float largest = -INFINITY, exponentials = 0, at_label = 0;
    for (size_t i = lane; i < classes; i += LOSS_LANES)
        largest = fmaxf(largest, to_float(scores[i]));
    largest = warp_max(largest);
    for (size_t i = lane; i < classes; i += LOSS_LANES) {
        float score = to_float(scores[i]);
        exponentials += expf(score - largest);
        at_label += i == (size_t)label ? score : 0.0f;
    }
    exponentials = warp_sum(exponentials);
    at_label = warp_sum(at_label);
    for (size_t i = lane; i < classes; i += LOSS_LANES) {
        float part = expf(to_float(scores[i]) - largest) / exponentials;
        scores[i] = from_float<E>((i == (size_t)label ? part - 1 : part) * scale);
    }
    return (double)largest + log((double)exponentials) - (double)at_label;
}

/* Rows without cross-entropy: the loss is the sum of all scores, or the row does not count. */
template <typename E> __device__ double sum_of_row(E *scores, size_t classes, bool counts, float scale, int lane)
{
    float sum = 0;
    for (size_t i = lane; i < classes; i += LOSS_LANES) {
        sum += counts ? to_float(scores[i]) : 0.0f;
        scores[i] = from_float<E>(counts ? scale : 0.0f);
    }
    return (double)warp_sum(sum);
}

/* A warp computes one row at a time. losses [gridDim.x]: sums of each block's rows. Floor: scores
 * are read and written once; a row fits into the cache. */
template <typename E>
__global__ void __launch_bounds__(LOSS_LANES *LOSS_ROWS)
    loss_kernel(E *scores, const int32_t *labels, double *losses, size_t rows, size_t classes, float gradient_scale, bool sum,
                const struct dt_cuda_step *step)
{
    wait_for_earlier();
    __shared__ double of_rows[LOSS_ROWS];
    double loss = 0;
    gradient_scale *= step->norm.loss_scale;
    for (size_t row = blockIdx.x * (size_t)LOSS_ROWS + threadIdx.y; row < rows; row += gridDim.x * (size_t)LOSS_ROWS) {
        E *of_row = scores + row * classes;
        if (!sum && (size_t)labels[row] < classes)
            loss += entropy_of_row(of_row, classes, labels[row], gradient_scale, (int)threadIdx.x);
        else
            loss += sum_of_row(of_row, classes, sum, gradient_scale, (int)threadIdx.x);
    }
    if (threadIdx.x == 0)
        of_rows[threadIdx.y] = loss;
    __syncthreads();
    if (threadIdx.x > 0 || threadIdx.y > 0)
        return;
    for (int y = 1; y < LOSS_ROWS; y++)
        loss += of_rows[y];
    losses[blockIdx.x] = loss;
}

} // namespace

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_images, vision_images)
{
    size_t image = (size_t)a->size * (size_t)a->size * COLOURS, labels = a->samples * a->labels_of_image;
    const struct dt_cuda_step *step = k->base.cuda_step;
    if (a->images)
        DT_TRY(for_dtype(k->base.dtype, [&]<typename E>() {
            if (a->pixels)
                return launch("pixels", pixels_kernel<E>, blocks_of(k, a->samples * image), dim3(THREADS), 0, stream, (E *)a->images,
                              a->pixels, a->samples, image, a->image_bytes);
            return launch("images", draw_kernel<E>, blocks_of(k, a->samples * (image / BYTES_OF_BLOCK + 1)), dim3(THREADS), 0, stream,
                          (E *)a->images, a->samples, image, a->seed, a->first_sample, step);
        }));
    if (!a->labels)
        return DT_OK;
    return launch("labels", labels_kernel, blocks_of(k, labels), dim3(THREADS), 0, stream, a->labels, a->samples, a->labels_of_image,
                  (uint32_t)a->classes, a->seed, a->first_sample, step);
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_copy_columns, vision_copy_columns)
{
    return for_packs(k->base.dtype, a->columns | a->from_stride | a->to_stride, {a->to, a->from}, [&]<typename E, int N>() {
        return launch("copy columns", copy_columns_kernel<E, N>, blocks_of(k, a->rows * a->columns / N), dim3(THREADS), 0, stream,
                      (E *)a->to, (const E *)a->from, a->rows, a->columns, a->to_stride, a->from_stride);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_dropout, vision_dropout)
{
    size_t eights = (a->channels + DROPOUT_COLUMNS - 1) / DROPOUT_COLUMNS;
    return for_dtype(k->base.dtype, [&]<typename E>() {
        return launch("dropout", dropout_kernel<E>, blocks_of(k, a->samples * a->positions * eights), dim3(THREADS), 0, stream, (E *)a->to,
                      (const E *)a->from, *a, dt_dropout_threshold(a->probability), dt_dropout_scale(a->probability),
                      (const struct dt_cuda_step *)k->base.cuda_step);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_loss, vision_loss)
{
    unsigned blocks = blocks_for(k->base.multiprocessors, a->rows, LOSS_ROWS, BLOCKS_PER_MULTIPROCESSOR);
    struct dt_cuda_scratch *scratch = &k->backend->scratch;
    DT_TRY(dt_cuda_scratch_reserve(k->base.device, scratch, blocks * sizeof(double)));
    DT_TRY(for_dtype(k->base.dtype, [&]<typename E>() {
        return launch("loss", loss_kernel<E>, dim3(blocks), dim3(LOSS_LANES, LOSS_ROWS), 0, stream, (E *)a->scores, a->labels,
                      (double *)scratch->data, a->rows, a->classes, a->gradient_scale, a->sum,
                      (const struct dt_cuda_step *)k->base.cuda_step);
    }));
    return dt_cuda_add_sum(stream, a->loss, (const double *)scratch->data, blocks, a->loss_scale);
}
