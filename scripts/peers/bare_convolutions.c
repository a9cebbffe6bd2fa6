/* The convolutions of one training step of ResNet-50 on bare oneDNN and nothing else: how fast a
 * step could be if the rest of it took no time.
 *
 * Forward, input gradient and weight gradient of each (the first needs no input gradient), images
 * with channels last, weights in the layout that oneDNN likes best; what brings them into it is not
 * timed. The linear layer at the end is left out. Usage: bare_convolutions [--batch N] [--size N]
 * [--threads N] [--steps N] [--warmup N]; fp32; prints one JSON line. */
#include "scripts/peers/bare.h"
#include "vision/cpu/onednn.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256, IMAGES = 2 };

struct options {
    int batch, size, threads, steps, warmup;
};

struct pass {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[4];
};

struct step {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct pass passes[MOST];
    int count;
    void *images[IMAGES]; /* as large as any layer's, which all layers share */
    double flops;
};

static void check(dnnl_status_t status, const char *what)
{
    bare_check("bare_convolutions", (int)status, what);
}

/* Small numbers: zeros and denormals would be a different workload. */
static void *allocate(size_t bytes)
{
    float *data = bare_allocate("bare_convolutions", bytes);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        data[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
    return data;
}

/* An operand of a pass: in `data`, or in memory of its own. */
static dnnl_memory_t operand(const struct step *s, dnnl_primitive_desc_t desc, dnnl_query_t query, void *data)
{
    dt_onednn_layout layout = dnnl_primitive_desc_query_md(desc, query, 0);
    dnnl_memory_t memory;
    check(dnnl_memory_create(&memory, layout, s->engine, DNNL_MEMORY_NONE), "memory");
    check(dnnl_memory_set_data_handle(memory, data ? data : allocate(dnnl_memory_desc_get_size(layout))), "memory");
    return memory;
}

static void add_pass(struct step *s, enum vision_pass pass, const struct vision_onednn_convolution *c, dnnl_primitive_desc_t hint,
                     dnnl_primitive_desc_t *out)
{
    static const struct {
        dnnl_query_t source, weights, target;
        int source_argument, weights_argument, target_argument;
    } of[] = {
        [VISION_FORWARD] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        [VISION_INPUT_GRADIENT] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md, DNNL_ARG_DIFF_SRC,
                                   DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        [VISION_WEIGHT_GRADIENT] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md, DNNL_ARG_SRC,
                                    DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
    };
    struct pass *p = &s->passes[s->count++];
    check(vision_onednn_describe(s->engine, pass, c, NULL, hint, out), "convolution");
    check(dnnl_primitive_create(&p->primitive, *out), "convolution");
    p->arguments[0] = (dnnl_exec_arg_t){of[pass].source_argument, operand(s, *out, of[pass].source, s->images[0])};
    p->arguments[1] = (dnnl_exec_arg_t){of[pass].weights_argument, operand(s, *out, of[pass].weights, NULL)};
    p->arguments[2] = (dnnl_exec_arg_t){of[pass].target_argument, operand(s, *out, of[pass].target, s->images[1])};
}

/* A convolution that leaves the size as it is, or takes every stride-th position; the size of what
 * it makes. */
static int add_convolution(struct step *s, const struct options *o, int in, int out, int kernel, int stride, int size)
{
    int padding = kernel / 2, made = (size + 2 * padding - kernel) / stride + 1;
    const struct vision_onednn_convolution c = {.type = dnnl_f32,
                                                .source = {o->batch, in, size, size},
                                                .weights = {out, in, kernel, kernel},
                                                .bias = {out},
                                                .target = {o->batch, out, made, made},
                                                .strides = {stride, stride},
                                                .padding = {padding, padding}};
    dnnl_primitive_desc_t forward, backward;
    int first = s->count;
    add_pass(s, VISION_FORWARD, &c, NULL, &forward);
    if (in > 3) {
        add_pass(s, VISION_INPUT_GRADIENT, &c, forward, &backward);
        check(dnnl_primitive_desc_destroy(backward), "convolution");
    }
    add_pass(s, VISION_WEIGHT_GRADIENT, &c, forward, &backward);
    check(dnnl_primitive_desc_destroy(backward), "convolution");
    check(dnnl_primitive_desc_destroy(forward), "convolution");
    s->flops += 2.0 * (s->count - first) * o->batch * made * made * out * in * kernel * kernel;
    return made;
}

static void add_network(struct step *s, const struct options *o)
{
    static const int blocks[] = {3, 4, 6, 3};
    int size = (add_convolution(s, o, 3, 64, 7, 2, o->size) + 1) / 2, channels = 64;
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++) {
            int width = 64 << stage, stride = stage > 0 && block == 0 ? 2 : 1;
            add_convolution(s, o, channels, width, 1, 1, size);
            if (block == 0)
                add_convolution(s, o, channels, 4 * width, 1, stride, size);
            size = add_convolution(s, o, width, width, 3, stride, size);
            channels = 4 * width;
            add_convolution(s, o, width, channels, 1, 1, size);
        }
}

static double run(struct step *s)
{
    double begun = bare_now_s();
    for (int i = 0; i < s->count; i++)
        check(dnnl_primitive_execute(s->passes[i].primitive, s->stream, 3, s->passes[i].arguments), "running");
    check(dnnl_stream_wait(s->stream), "running");
    return bare_now_s() - begun;
}

static struct options options_of(int argc, char **argv)
{
    struct options o = {32, 224, 2, 3, 1};
    const struct {
        const char *name;
        int *value;
    } known[] = {{"--batch", &o.batch}, {"--size", &o.size}, {"--threads", &o.threads}, {"--steps", &o.steps}, {"--warmup", &o.warmup}};
    for (int i = 1; i < argc; i += 2) {
        int k = 0;
        while (k < 5 && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == 5 || i + 1 == argc || atoi(argv[i + 1]) < (k == 4 ? 0 : 1)) {
            fprintf(stderr, "usage: bare_convolutions [--batch N] [--size N] [--threads N] [--steps N] [--warmup N]\n");
            exit(2);
        }
        *known[k].value = atoi(argv[i + 1]);
    }
    return o;
}

int main(int argc, char **argv)
{
    struct options o = options_of(argc, argv);
    static struct step step;
    double total = 0;
    omp_set_num_threads(o.threads);
    check(dnnl_engine_create(&step.engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&step.stream, step.engine, dnnl_stream_default_flags), "stream");
    for (int i = 0; i < IMAGES; i++) /* the largest there are: 64 channels after the first convolution, 256 after the first stage */
        step.images[i] = allocate((size_t)o.batch * 64 * (size_t)(o.size / 2 + 1) * (size_t)(o.size / 2 + 1) * sizeof(float));
    add_network(&step, &o);
    for (int i = 0; i < o.warmup; i++)
        run(&step);
    printf("{\"peer\": \"bare_convolutions\", \"version\": \"oneDNN %d.%d.%d\", \"dtype\": \"fp32\", \"batch\": %d, \"threads\": %d, "
           "\"step_s\": [",
           dnnl_version()->major, dnnl_version()->minor, dnnl_version()->patch, o.batch, o.threads);
    for (int i = 0; i < o.steps; i++) {
        double seconds = run(&step);
        total += seconds;
        printf("%s%.6f", i ? ", " : "", seconds);
    }
    printf("], \"images_per_s\": %.3f, \"gflops\": %.1f}\n", o.batch * o.steps / total, step.flops * o.steps / total * 1e-9);
    return 0;
}
