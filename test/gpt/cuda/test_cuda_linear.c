/* The cuda kernels' products, beyond what test_kernels asks of every kind of device: addresses of
 * all alignments, sums that are added to when a shape first appears, shapes that first appear while
 * a graph is captured, and the same bits every time. */
#include "gpt/kernels.h"
#include "lib/device/device.h"
#include "test/check.h"
#include "test/gpt/reference.h"

#include <stdlib.h>
#include <string.h>

static struct dt_device *device;
static struct dt_stream *stream;
static struct dt_kernels base;
static struct gpt_kernels *kernels;
static enum dt_dtype dtype;
static char no_gpu[512]; /* why there is no GPU */

/* An array of the model's dtype on the host and on the device. */
struct array {
    double *values;
    struct dt_buffer buffer;
    void *data; /* some elements into the buffer */
    size_t count;
};

/* `shift` elements past an address that is aligned to everything. */
static struct array make(size_t count, double scale, size_t shift)
{
    size_t bytes = dt_dtype_bytes(dtype);
    struct array a = {.values = malloc(count * sizeof *a.values), .count = count};
    char *host = malloc(count * bytes);
    for (size_t i = 0; i < count; i++)
        a.values[i] = scale * (2 * ((double)rand() / RAND_MAX) - 1);
    ref_round(dtype, a.values, count);
    ref_encode(dtype, a.values, host, count);
    CHECK_OK(dt_alloc(stream, DT_WORKSPACE, (count + shift) * bytes, &a.buffer));
    a.data = (char *)a.buffer.data + shift * bytes;
    CHECK_OK(dt_copy_from_host(stream, a.data, host, count * bytes));
    CHECK_OK(dt_stream_synchronize(stream));
    free(host);
    return a;
}

static void release(struct array *a)
{
    dt_free(stream, &a->buffer);
    free(a->values);
}

static void read_back(const struct array *a, void *host)
{
    CHECK_OK(dt_copy_to_host(stream, host, a->data, a->count * dt_dtype_bytes(dtype)));
    CHECK_OK(dt_stream_synchronize(stream));
}

/* Norm-relative distance of what is on the device from a->values. */
static double error_of(const struct array *a)
{
    char *host = malloc(a->count * dt_dtype_bytes(dtype));
    double *got = malloc(a->count * sizeof *got);
    read_back(a, host);
    ref_decode(dtype, host, got, a->count);
    double error = ref_error(got, a->values, a->count);
    free(host);
    free(got);
    return error;
}

static double bound(void)
{
    return dtype == DT_FP32 ? 3e-6 : dtype == DT_FP16 ? 0x1p-11 : 0x1p-8;
}

#define CHECK_ARRAY(a, what)                                                                                                               \
    CHECK(error_of(&(a)) <= bound(), "%s, %s: error %.3g, limit %.3g", what, dt_dtype_name(dtype), error_of(&(a)), bound())

/* Every dtype with kernels that have seen no shape yet. */
static void for_every_dtype(void (*body)(void))
{
    for (dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        struct dt_model model =
            gpt_model_of(dtype, &(struct gpt_model){.layers = 1, .heads = 1, .hidden = 8, .vocab_size = 8, .block_size = 8});
        CHECK_OK(dt_kernels_init(&base, device, dtype));
        CHECK_OK(gpt_kernels_cuda.create(&base, &model, &kernels));
        if (kernels)
            body();
        CHECK_OK(dt_stream_synchronize(stream));
        gpt_kernels_cuda.destroy(kernels);
        dt_kernels_finish(&base);
    }
}

static const struct shape {
    size_t rows, in, out;
} shapes[] = {{16, 24, 40}, {24, 64, 48}, {5, 7, 9}, {3, 130, 17}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* All operands of one layer, shifted. */
struct layer {
    struct shape z;
    struct array x, w, b, y, dy, dx, dw, db, hidden;
};

static struct layer make_layer(struct shape z, const size_t shift[5])
{
    return (struct layer){
        .z = z,
        .x = make(z.rows * z.in, 1, shift[0]),
        .w = make(z.out * z.in, 0.2, shift[1]),
        .b = make(z.out, 1, shift[2]),
        .y = make(z.rows * z.out, 1, shift[3]),
        .dy = make(z.rows * z.out, 1, shift[4]),
        .dx = make(z.rows * z.in, 1, shift[3]),
        .dw = make(z.out * z.in, 1, shift[1]),
        .db = make(z.out, 1, shift[2]),
        .hidden = make(z.rows * z.in, 3, shift[0]),
    };
}

static void release_layer(struct layer *l)
{
    struct array *all[] = {&l->x, &l->w, &l->b, &l->y, &l->dy, &l->dx, &l->dw, &l->db, &l->hidden};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        release(all[i]);
}

static dt_status queue_all(const struct layer *l, bool bias, bool accumulate)
{
    struct shape z = l->z;
    struct gpt_linear forward = {l->x.data, l->w.data, bias ? l->b.data : NULL, l->y.data, z.rows, z.in, z.out, 1};
    struct gpt_linear_input_gradient for_x = {l->dy.data, l->w.data, l->dx.data, z.rows, z.in, z.out, 1};
    struct gpt_linear_weight_gradient for_w = {l->dy.data, l->x.data, l->dw.data, bias ? l->db.data : NULL, z.rows, z.in,
                                               z.out,      1,         accumulate};
    DT_TRY(gpt_kernels_cuda.linear(kernels, stream, &forward));
    DT_TRY(gpt_kernels_cuda.linear_input_gradient(kernels, stream, &for_x));
    return gpt_kernels_cuda.linear_weight_gradient(kernels, stream, &for_w);
}

/* Check the results of queue_all. dw and db had their `values` before. */
static void check_all(struct layer *l, bool bias, bool accumulate)
{
    struct shape z = l->z;
    double *dw = malloc(l->dw.count * sizeof *dw), *db = malloc(l->db.count * sizeof *db);
    ref_linear(l->x.values, l->w.values, bias ? l->b.values : NULL, l->y.values, z.rows, z.in, z.out);
    ref_linear_gradient(l->dy.values, l->x.values, l->w.values, l->dx.values, dw, db, z.rows, z.in, z.out);
    for (size_t i = 0; i < l->dw.count; i++)
        l->dw.values[i] = dw[i] + (accumulate ? l->dw.values[i] : 0);
    for (size_t i = 0; i < l->db.count && bias; i++)
        l->db.values[i] = db[i] + (accumulate ? l->db.values[i] : 0);
    CHECK_ARRAY(l->y, "y");
    CHECK_ARRAY(l->dx, "dx");
    CHECK_ARRAY(l->dw, "dw");
    CHECK_ARRAY(l->db, "db");
    free(dw);
    free(db);
}

static void alignments_body(void)
{
    static const size_t shifts[][5] = {{0, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, {0, 3, 1, 0, 0}, {0, 0, 0, 1, 0}, {2, 4, 6, 8, 1}};
    for (int i = 0; i < SHAPES; i++)
        for (size_t j = 0; j < sizeof shifts / sizeof shifts[0]; j++) {
            struct layer l = make_layer(shapes[i], shifts[j]);
            CHECK_OK(queue_all(&l, true, false));
            check_all(&l, true, false);
            release_layer(&l);
        }
}

static void alignments(void)
{
    if (!device)
        SKIP("%.200s", no_gpu);
    for_every_dtype(alignments_body);
}

/* The first time a shape appears, and the second. */
static void accumulating_body(void)
{
    static const size_t none[5];
    for (int i = 0; i < SHAPES; i++) {
        struct layer l = make_layer(shapes[i], none);
        for (int times = 0; times < 2; times++) {
            CHECK_OK(queue_all(&l, true, true));
            check_all(&l, true, true);
        }
        release_layer(&l);
    }
}

static void accumulating(void)
{
    if (!device)
        SKIP("%.200s", no_gpu);
    for_every_dtype(accumulating_body);
}

/* A shape is computed the same way every time: the same bits, plain or through GELU. */
static void repeating_body(void)
{
    static const size_t none[5];
    for (int i = 0; i < SHAPES; i++) {
        struct layer l = make_layer(shapes[i], none);
        struct shape z = l.z;
        size_t bytes = l.dx.count * dt_dtype_bytes(dtype);
        char *first = malloc(bytes), *again = malloc(bytes);
        struct gpt_linear_gelu_input_gradient through = {{l.dy.data, l.w.data, l.dx.data, z.rows, z.in, z.out, 1}, l.hidden.data};
        for (int times = 0; times < 3; times++) {
            CHECK_OK(gpt_kernels_cuda.linear_gelu_input_gradient(kernels, stream, &through));
            read_back(&l.dx, times ? again : first);
            CHECK(times == 0 || memcmp(first, again, bytes) == 0, "%s, shape %d", dt_dtype_name(dtype), i);
        }
        double *plain = malloc(l.dx.count * sizeof *plain);
        ref_linear_gradient(l.dy.values, l.x.values, l.w.values, plain, NULL, NULL, z.rows, z.in, z.out);
        ref_gelu_gradient(plain, l.hidden.values, l.dx.values, l.dx.count, GPT_MLP_GELU);
        CHECK(error_of(&l.dx) <= 2 * bound(), "dx through GELU, %s: error %.3g, limit %.3g", dt_dtype_name(dtype), error_of(&l.dx),
              2 * bound()); /* rounded twice */
        free(plain);
        free(first);
        free(again);
        release_layer(&l);
    }
}

static void repeating(void)
{
    if (!device)
        SKIP("%.200s", no_gpu);
    for_every_dtype(repeating_body);
}

/* In a capture the result is the same, and so is a replay's. */
static void capturing_body(void)
{
    static const size_t none[5];
    for (int i = 0; i < SHAPES; i++) {
        struct layer l = make_layer(shapes[i], none);
        struct dt_graph *graph = NULL;
        CHECK_OK(dt_graph_begin(stream));
        CHECK_OK(queue_all(&l, false, true));
        CHECK_OK(dt_graph_end(stream, &graph)); /* runs it once */
        check_all(&l, false, true);
        if (graph)
            CHECK_OK(dt_graph_launch(graph, stream));
        CHECK(graph);
        check_all(&l, false, true);
        CHECK_OK(dt_stream_synchronize(stream));
        dt_graph_destroy(graph);
        release_layer(&l);
    }
}

static void capturing(void)
{
    if (!device)
        SKIP("%.200s", no_gpu);
    for_every_dtype(capturing_body);
}

/* The heuristic's first algorithm is taken, however slow it is (the emulated one is, and sums in an
 * order of its own): what is computed does not depend on how long it takes. */
static void first_named_body(void)
{
    static const size_t none[5];
    for (int i = 0; i < SHAPES; i++) {
        struct layer l = make_layer(shapes[i], none);
        struct dt_model model =
            gpt_model_of(dtype, &(struct gpt_model){.layers = 1, .heads = 1, .hidden = 8, .vocab_size = 8, .block_size = 8});
        struct gpt_kernels *several = kernels;
        const struct array *results[] = {&l.y, &l.dx, &l.dw, &l.db};
        char *seen[4];
        CHECK_OK(queue_all(&l, true, false));
        for (int r = 0; r < 4; r++) {
            seen[r] = malloc(results[r]->count * dt_dtype_bytes(dtype));
            read_back(results[r], seen[r]);
        }
        setenv("DTBENCH_EMULATED_ONE_ALGORITHM", "1", 1);
        CHECK_OK(gpt_kernels_cuda.create(&base, &model, &kernels));
        CHECK_OK(queue_all(&l, true, false));
        for (int r = 0; r < 4; r++) {
            size_t bytes = results[r]->count * dt_dtype_bytes(dtype);
            char *again = malloc(bytes);
            read_back(results[r], again);
            CHECK(memcmp(seen[r], again, bytes) == 0, "%s, shape %d, result %d", dt_dtype_name(dtype), i, r);
            free(again);
            free(seen[r]);
        }
        unsetenv("DTBENCH_EMULATED_ONE_ALGORITHM");
        gpt_kernels_cuda.destroy(kernels);
        kernels = several;
        release_layer(&l);
    }
}

static void first_named(void)
{
    if (!device)
        SKIP("%.200s", no_gpu);
    for_every_dtype(first_named_body);
}

/* Without a GPU, too. */
static void missing_library(void)
{
    char text[512];
    setenv("DTBENCH_LIBCUBLASLT", "/nowhere/libcublasLt.so", 1);
    bool found = gpt_kernels_available(dt_device_kind_find("cuda"), text, sizeof text);
    unsetenv("DTBENCH_LIBCUBLASLT");
    if (found)
        SKIP("%.60s is part of this program", text);
    CHECK(strstr(text, "/nowhere/libcublasLt.so") || strstr(text, "no CUDA"), "%s", text);
}

static const struct test_case cases[] = {
    {"a library that is not there", missing_library}, {"addresses of all alignments", alignments},
    {"sums that are added to", accumulating},         {"the same bits every time, through GELU", repeating},
    {"by the algorithm named first", first_named},    {"in a graph", capturing},
};

int main(void)
{
    const char *seed = getenv("DTBENCH_TEST_SEED");
    unsigned start = seed ? (unsigned)strtoul(seed, NULL, 10) : 1;
    bool available =
        dt_device_available("cuda", no_gpu, sizeof no_gpu) && gpt_kernels_available(dt_device_kind_find("cuda"), no_gpu, sizeof no_gpu);
    if (available && (dt_device_create("cuda", NULL, &device) < 0 || dt_stream_create(device, "compute", &stream) < 0)) {
        printf("Bail out! %s\n", dt_error_message());
        return 1;
    }
    printf("# DTBENCH_TEST_SEED=%u\n", start);
    srand(start);
    int failed = test_main(cases, sizeof cases / sizeof cases[0]);
    dt_stream_destroy(stream);
    dt_device_destroy(device);
    return failed;
}
