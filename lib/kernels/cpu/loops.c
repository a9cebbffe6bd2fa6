/* Compiled once for each instruction set and dtype (meson.build). DT_SIMD_DTYPE is the dtype,
 * DT_SIMD_TABLE the name of the table. */
#include "lib/kernels/cpu/loops.h"

#include "lib/kernels/cpu/simd_dtype.h"

#include <math.h>

static void widen(float *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i += V_LANES)
        v_store(DT_FP32, to, i, count - i, load(from, i, count));
}

static void widen_add(float *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i += V_LANES)
        v_store(DT_FP32, to, i, count - i, v_load(DT_FP32, to, i, count - i) + load(from, i, count));
}

static void narrow(void *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i += V_LANES)
        store(to, i, count, v_load(DT_FP32, from, i, count - i));
}

static void narrow_add(void *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i += V_LANES)
        store(to, i, count, load(to, i, count) + v_load(DT_FP32, from, i, count - i));
}

static void fill(void *to, size_t count, float value)
{
    for (size_t i = 0; i < count; i += V_LANES)
        store(to, i, count, v_set(value));
}

static void add(void *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i += V_LANES)
        store(to, i, count, load(to, i, count) + load(from, i, count));
}

static void combine(void *out, const void *a, const void *b, size_t count, float scale)
{
    size_t i = 0;
    for (; i + V_LANES <= count; i += V_LANES)
        store(out, i, i + V_LANES, (load(a, i, i + V_LANES) + load(b, i, i + V_LANES)) * scale);
    if (i < count)
        store(out, i, count, (load(a, i, count) + load(b, i, count)) * scale);
}

/* -1 in the lanes of finite numbers, 0 in the others. */
V_INLINE vint is_finite(vfloat x)
{
    return ((vint)x & 0x7F800000) != 0x7F800000;
}

/* The number of `whole` lanes that `sums`, the sums of is_finite()'s results, did not count. Lanes
 * after an array's end were zero, so finite. */
V_INLINE size_t left_out(vint sums, size_t whole)
{
    for (size_t lane = 0; lane < V_LANES; lane++)
        whole -= (size_t)-sums[lane];
    return whole;
}

static size_t sgd(void *params, const void *grads, size_t count, float rate)
{
    vint counted = {0};
    size_t i = 0;
    for (; i < count; i += V_LANES) {
        vfloat g = load(grads, i, count);
        vint taken = is_finite(g);
        counted += taken;
        store(params, i, count, load(params, i, count) - (vfloat)((vint)g & taken) * rate);
    }
    return left_out(counted, i);
}

static size_t momentum(void *params, const void *grads, float *moment, float *master, size_t count, const struct dt_sgd_step *step)
{
    struct dt_sgd_step s = *step;
    vint counted = {0};
    size_t i = 0;
    for (; i < count; i += V_LANES) {
        vfloat gradient = s.wide ? v_load(DT_FP32, grads, i, count - i) : load(grads, i, count);
        vfloat p = s.first || !master ? load(params, i, count) : v_load(DT_FP32, master, i, count - i);
        vfloat g = gradient * s.gradient_scale + p * s.weight_decay;
        vfloat m = s.first || !moment ? (vfloat){0} : v_load(DT_FP32, moment, i, count - i);
        vint taken = is_finite(gradient);
        counted += taken;
        m = v_select(taken, m * s.momentum + g, m);
        if (moment)
            v_store(DT_FP32, moment, i, count - i, m);
        p = v_select(taken, p - m * s.learning_rate, p);
        if (master)
            v_store(DT_FP32, master, i, count - i, p);
        store(params, i, count, p);
    }
    return left_out(counted, i);
}

static size_t adam(void *params, const void *grads, float *first_moment, float *second_moment, float *master, size_t count,
                   const struct dt_adam_step *step)
{
    struct dt_adam_step s = *step;
    vint counted = {0};
    size_t i = 0;
    for (; i < count; i += V_LANES) {
        size_t left = count - i;
        vfloat gradient = s.wide ? v_load(DT_FP32, grads, i, left) : load(grads, i, count);
        vint taken = is_finite(gradient);
        counted += taken;
        vfloat m = s.first ? (vfloat){0} : v_load(DT_FP32, first_moment, i, left);
        vfloat v = s.first ? (vfloat){0} : v_load(DT_FP32, second_moment, i, left);
        vfloat p = s.first || !master ? load(params, i, count) : v_load(DT_FP32, master, i, left);
        vfloat g = gradient * s.gradient_scale + p * s.weight_decay;
        m = v_select(taken, m + (g - m) * (1 - s.beta1), m);
        v = v_select(taken, v + (g * g - v) * (1 - s.beta2), v);
        p = v_select(taken, p - p * s.decay - m * (s.learning_rate * s.correction1) / (v_sqrt(v * s.correction2) + s.epsilon), p);
        v_store(DT_FP32, first_moment, i, left, m);
        v_store(DT_FP32, second_moment, i, left, v);
        if (master)
            v_store(DT_FP32, master, i, left, p);
        store(params, i, count, p);
    }
    return left_out(counted, i);
}

/* Four words of each block become its four elements. In between, the first half of the blocks has
 * the even lanes of a vector. */
enum { NORMALS = 4 * V_LANES };
static void normals_of_blocks(float *out, uint64_t seed, uint64_t first_block, uint32_t tensor_id, float standard_deviation)
{
    vuint words[4];
    vfloat deviate[4];
    struct v_philox random =
        v_philox4x32(seed, (uint32_t)first_block, (uint32_t)(first_block >> 32), tensor_id, (uint32_t)DT_RANDOM_WEIGHT << 24);
    for (int w = 0; w < 4; w++)
        words[w] = (vuint)((random.word[0][w] & 0xFFFFFFFFu) | random.word[1][w] << 32);
    for (int pair = 0; pair < 4; pair += 2) {
        vfloat radius = v_box_muller_radius(words[pair]);
        v_turn(words[pair + 1], &deviate[pair], &deviate[pair + 1]);
        deviate[pair] *= radius;
        deviate[pair + 1] *= radius;
    }
    for (int w = 0; w < 4; w++)
        deviate[w] *= standard_deviation;
    for (int h = 0; h < 2; h++) {
        vwide a = (vwide)deviate[0], b = (vwide)deviate[1], c = (vwide)deviate[2], d = (vwide)deviate[3];
        vwide low = h ? a >> 32 | (b >> 32) << 32 : (a & 0xFFFFFFFFu) | b << 32;
        vwide high = h ? c >> 32 | (d >> 32) << 32 : (c & 0xFFFFFFFFu) | d << 32;
        vwide first = v_zip_first(low, high), second = v_zip_second(low, high);
        memcpy(out + h * 2 * V_LANES, &first, sizeof first);
        memcpy(out + h * 2 * V_LANES + V_LANES, &second, sizeof second);
    }
}

static void normal(void *to, size_t count, uint64_t seed, uint32_t tensor_id, uint64_t first_element, float standard_deviation)
{
    float deviates[NORMALS];
    size_t skip = first_element % 4; /* only the first round starts inside a block */
    for (size_t i = 0; i < count; skip = 0) {
        size_t here = NORMALS - skip < count - i ? NORMALS - skip : count - i;
        normals_of_blocks(deviates, seed, (first_element + i) / 4, tensor_id, standard_deviation);
        for (size_t j = 0; j < here; j += V_LANES)
            v_store(DT_SIMD_DTYPE, to, i + j, here - j, v_load(DT_FP32, deviates, skip + j, here - j));
        i += here;
    }
}

/* Blocks are summed in fp32, and their sums in double. */
V_INLINE double sum_of(const void *x, size_t count, bool squared)
{
    enum { BLOCK = 64 * V_LANES };
    double total = 0;
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t end = count - first < BLOCK ? count : first + BLOCK;
        vfloat sums = {0};
        for (size_t i = first; i < end; i += V_LANES) {
            vfloat all = load(x, i, end);
            sums += squared ? all * all : all;
        }
        total += v_sum(sums);
    }
    return total;
}

static double sum(const void *x, size_t count)
{
    return sum_of(x, count, false);
}

static double squares(const void *x, size_t count)
{
    return sum_of(x, count, true);
}

/* Four rows at a time, so that the sums go through memory once for four rows. */
static void column_sums(float *sums, const void *from, size_t rows, size_t columns, size_t stride)
{
    memset(sums, 0, columns * sizeof *sums);
    for (size_t r = 0; r < rows; r += 4) {
        const char *row[4];
        size_t here = rows - r < 4 ? rows - r : 4;
        for (size_t j = 0; j < 4; j++)
            row[j] = (const char *)from + (r + (j < here ? j : 0)) * stride * (DT_SIMD_DTYPE == DT_FP32 ? 4 : 2);
        for (size_t i = 0; i < columns; i += V_LANES) {
            vfloat sum = load(row[0], i, columns);
            if (here == 4)
                sum = (sum + load(row[1], i, columns)) + (load(row[2], i, columns) + load(row[3], i, columns));
            else
                for (size_t j = 1; j < here; j++)
                    sum += load(row[j], i, columns);
            v_store(DT_FP32, sums, i, columns - i, v_load(DT_FP32, sums, i, columns - i) + sum);
        }
    }
}

/* One pass computes the maximum and the sum, which is rescaled when the maximum grows. */
static double exponentials(const void *logits, size_t count, float *out_largest)
{
    enum { BLOCK = 256 * V_LANES }; /* small enough to be in the nearest cache when the sum reads it again */
    float largest = -INFINITY;
    double total = 0;
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t end = count - first < BLOCK ? count : first + BLOCK, whole = first + (end - first) / V_LANES * V_LANES;
        vfloat most = v_set(largest), sum = {0};
        for (size_t i = first; i < whole; i += V_LANES)
            most = v_max(most, load(logits, i, whole));
        if (whole < end)
            most = v_max(most, v_first(load(logits, whole, end), end - whole, -INFINITY));
        float before = largest;
        largest = v_largest(most);
        if (before < largest)
            total *= exp((double)before - largest);
        for (size_t i = first; i < whole; i += V_LANES)
            sum += v_exp(load(logits, i, whole) - largest);
        if (whole < end)
            sum += v_first(v_exp(load(logits, whole, end) - largest), end - whole, 0);
        total += v_sum(sum);
    }
    *out_largest = largest;
    return total;
}

static void softmax(void *logits, size_t count, float largest, float scale)
{
    for (size_t i = 0; i < count; i += V_LANES)
        store(logits, i, count, v_exp(load(logits, i, count) - largest) * scale);
}

static double cross_entropy(void *logits, size_t count, int32_t target, float gradient_scale)
{
    float largest, x = load(logits, (size_t)target, (size_t)target + 1)[0];
    double total = exponentials(logits, count, &largest);
    float gradient = (float)(gradient_scale * (exp((double)x - largest) / total - 1));
    softmax(logits, count, largest, (float)(gradient_scale / total));
    store(logits, (size_t)target, (size_t)target + 1, v_set(gradient));
    return largest + log(total) - x;
}

const struct dt_simd DT_SIMD_TABLE = {
    .widen = widen,
    .widen_add = widen_add,
    .narrow = narrow,
    .narrow_add = narrow_add,
    .fill = fill,
    .add = add,
    .combine = combine,
    .sgd = sgd,
    .momentum = momentum,
    .adam = adam,
    .normal = normal,
    .sum = sum,
    .squares = squares,
    .column_sums = column_sums,
    .cross_entropy = cross_entropy,
    .exponentials = exponentials,
    .softmax = softmax,
};
