/* A calibration as JSON: to be sent between its processes, and as the files that device sim
 * reads. */
#include "predict/calibration.h"

#include "lib/base/machine.h"
#include "lib/config/config.h"
#include "lib/config/json.h"
#include "lib/config/words.h"
#include "lib/device/memory.h"
#include "lib/sim/cluster.h"
#include "lib/sim/program.h"
#include "predict/profile.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a calibration");
}

/* Owns `item`, also after a failure. */
static dt_status attach(struct cJSON *object, const char *key, struct cJSON *item)
{
    if (cJSON_AddItemToObject(object, key, item))
        return DT_OK;
    cJSON_Delete(item);
    return no_memory();
}

/* NULL: no memory. */
static struct cJSON *kernels_as_json(const struct calibration *c)
{
    struct cJSON *kernels;
    return measured_write(&c->kernels, &kernels) == DT_OK ? kernels : NULL;
}

static struct cJSON *collectives_as_json(const struct calibration *c)
{
    struct cJSON *collectives;
    return dt_sim_measured_write(&c->collectives, &collectives) == DT_OK ? collectives : NULL;
}

/* ---- between processes ---- */

dt_status calibration_request_write(const struct calibration_request *request, char **out_text)
{
    const struct calibration_bench *b = &request->bench;
    struct cJSON *kinds = dt_json_array();
    for (int kind = 0; dt_sim_measured_kind_name(kind); kind++)
        dt_json_append(&kinds, dt_json_truth(b->kinds[kind]));
    DT_DESTROYED(dt_json_destroy)
    struct cJSON *object = dt_json_object("device: %s, kernels: %hhd, quick: %hhd, threads: %d, bench: {bytes: %p, kinds: %p, group: %d, "
                                          "stride: %d, repetitions: %d, product: %hhd}",
                                          request->device, request->kernels, request->quick, request->threads,
                                          dt_json_numbers(b->bytes, b->sizes), kinds, b->group, b->stride, b->repetitions, b->product);
    for (int i = 0; i < DT_DTYPE_COUNT; i++)
        dt_json_add(&object, "%s: %hhd", dt_dtype_name((enum dt_dtype)i), request->dtypes[i]);
    return object ? dt_json_print(object, DT_JSON_COMPACT, out_text) : no_memory();
}

static void read_bench(const struct cJSON *object, struct calibration_bench *out)
{
    const struct cJSON *bytes = dt_json_at(object, "bytes"), *kinds = dt_json_at(object, "kinds");
    *out = (struct calibration_bench){.sizes = cJSON_GetArraySize(bytes),
                                      .group = (int)dt_json_number(object, "group", 0),
                                      .stride = (int)dt_json_number(object, "stride", 0),
                                      .repetitions = (int)dt_json_number(object, "repetitions", 0),
                                      .product = cJSON_IsTrue(dt_json_at(object, "product"))};
    out->sizes = out->sizes < CALIBRATION_SIZES ? out->sizes : CALIBRATION_SIZES;
    for (int i = 0; i < out->sizes; i++)
        out->bytes[i] = cJSON_GetNumberValue(cJSON_GetArrayItem(bytes, i));
    for (int kind = 0; dt_sim_measured_kind_name(kind); kind++)
        out->kinds[kind] = cJSON_IsTrue(cJSON_GetArrayItem(kinds, kind));
}

dt_status calibration_request_read(const char *text, struct calibration_request *out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    DT_TRY(dt_json_parse(text, strlen(text), "calibration", &object));
    snprintf(out->device, sizeof out->device, "%s", dt_json_text_at(object, "device"));
    out->kernels = cJSON_IsTrue(dt_json_at(object, "kernels"));
    out->quick = cJSON_IsTrue(dt_json_at(object, "quick"));
    out->threads = (int)dt_json_number(object, "threads", 0);
    for (int i = 0; i < DT_DTYPE_COUNT; i++)
        out->dtypes[i] = cJSON_IsTrue(dt_json_at(object, dt_dtype_name((enum dt_dtype)i)));
    read_bench(dt_json_at(object, "bench"), &out->bench);
    return DT_OK;
}

/* The times of each collective; nothing unless a bench was requested. */
static struct cJSON *times_as_json(const struct calibration *c)
{
    struct cJSON *all = dt_json_array();
    for (int i = 0; i < c->collectives.count; i++) {
        const struct calibration_times *t = &c->times[i];
        dt_json_append(&all, dt_json_object("alone_s: %p, beside_s: %p, product_s: %g", dt_json_numbers(t->alone_s, t->count),
                                            dt_json_numbers(t->beside_s, t->product_s > 0 ? t->count : 0), t->product_s));
    }
    return all;
}

static void read_times(const struct cJSON *all, struct calibration *out)
{
    for (int i = 0; i < out->collectives.count; i++) {
        const struct cJSON *object = cJSON_GetArrayItem(all, i), *alone = dt_json_at(object, "alone_s"),
                           *beside = dt_json_at(object, "beside_s");
        struct calibration_times *t = &out->times[i];
        int count = cJSON_GetArraySize(alone);
        *t = (struct calibration_times){.count = count < CALIBRATION_REPETITIONS ? count : CALIBRATION_REPETITIONS};
        for (int k = 0; k < t->count; k++) {
            t->alone_s[k] = cJSON_GetNumberValue(cJSON_GetArrayItem(alone, k));
            t->beside_s[k] = cJSON_GetNumberValue(cJSON_GetArrayItem(beside, k));
        }
        t->product_s = dt_json_number(object, "product_s", 0);
    }
}

dt_status calibration_write(const struct calibration *c, char **out_text)
{
    const struct calibration_gpu *g = &c->gpu;
    DT_DESTROYED(dt_json_destroy)
    struct cJSON *object = dt_json_object("kernels: %p, collectives: %p, times: %p, library: %s", kernels_as_json(c),
                                          collectives_as_json(c), times_as_json(c), c->library);
    if (*g->name)
        dt_json_add(&object, "gpu: {name: %s, memory_bytes: %g, reserved_bytes: %g, copy_bytes_per_s: %g, copy_s: %g, peak_flops: %p}",
                    g->name, g->memory_bytes, g->reserved_bytes, g->copy_bytes_per_s, g->copy_s,
                    dt_json_numbers(g->peak_flops, DT_DTYPE_COUNT));
    return object ? dt_json_print(object, DT_JSON_COMPACT, out_text) : no_memory();
}

static void read_gpu(const struct cJSON *object, struct calibration_gpu *out)
{
    const struct cJSON *peaks = dt_json_at(object, "peak_flops");
    snprintf(out->name, sizeof out->name, "%.63s", dt_json_text_at(object, "name"));
    if (!*out->name)
        return;
    out->memory_bytes = dt_json_number(object, "memory_bytes", NAN);
    out->reserved_bytes = dt_json_number(object, "reserved_bytes", NAN);
    out->copy_bytes_per_s = dt_json_number(object, "copy_bytes_per_s", NAN);
    out->copy_s = dt_json_number(object, "copy_s", NAN);
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        out->peak_flops[dtype] = cJSON_GetNumberValue(cJSON_GetArrayItem(peaks, dtype));
}

static dt_status read_calibration(const struct cJSON *object, struct calibration *out)
{
    snprintf(out->library, sizeof out->library, "%s", dt_json_text_at(object, "library"));
    read_gpu(dt_json_at(object, "gpu"), &out->gpu);
    DT_TRY(measured_read(dt_json_at(object, "kernels"), "calibration", &out->kernels));
    DT_TRY(dt_sim_measured_read(dt_json_at(object, "collectives"), "calibration", &out->collectives));
    read_times(dt_json_at(object, "times"), out);
    return DT_OK;
}

static dt_status append(const struct calibration *part, struct calibration *out)
{
    if (out->kernels.count + part->kernels.count > DT_MEASURED_MAX ||
        out->collectives.count + part->collectives.count > DT_SIM_MEASURED_MAX)
        return dt_fail(DT_ERR_INVALID, "more than %d measurements: name fewer numbers of ranks, or dtypes", DT_MEASURED_MAX);
    for (int i = 0; i < part->kernels.count; i++)
        out->kernels.entries[out->kernels.count++] = part->kernels.entries[i];
    for (int i = 0; i < part->collectives.count; i++) {
        out->times[out->collectives.count] = part->times[i];
        out->collectives.entries[out->collectives.count++] = part->collectives.entries[i];
    }
    if (part->gpu.copy_bytes_per_s > 0) /* only ranks that measured kernels have it */
        out->gpu = part->gpu;
    if (*part->library)
        memcpy(out->library, part->library, sizeof out->library);
    return DT_OK;
}

dt_status calibration_read(const char *text, struct calibration *out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    DT_FREED struct calibration *part = calloc(1, sizeof *part); /* too large for the stack */
    if (!part)
        return no_memory();
    DT_TRY(dt_json_parse(text, strlen(text), "calibration", &object));
    DT_TRY(read_calibration(object, part));
    return append(part, out);
}

/* ---- the cluster ---- */

/* The speed of the fastest product, or copy, of one rank alone: operations, or bytes, a second. */
static double best_speed(const struct calibration *c, bool copies, enum dt_dtype dtype)
{
    double best = 0;
    for (int i = 0; i < c->kernels.count; i++) {
        const struct dt_measured *m = &c->kernels.entries[i];
        const struct dt_priced *kernel = profile_kernels()->kernels[m->kernel];
        bool product = kernel->shape == DT_SHAPE_PRODUCT && kernel->phase == DT_PHASE_FORWARD;
        if (copies ? m->kernel == DT_PRICED_COPY : product && m->dtype == dtype)
            best = fmax(best, dt_measured_work(kernel->shape, m->shape) / m->alone_s);
    }
    return best;
}

static int most_ranks(const struct calibration *c)
{
    int most = 1;
    for (int i = 0; i < c->kernels.count; i++)
        most = c->kernels.entries[i].ranks > most ? c->kernels.entries[i].ranks : most;
    return most;
}

/* GB/s that each rank sends in the largest collective of a kind; 0: not measured. */
static double sent_gb_per_s(const struct calibration *c, int kind)
{
    const struct dt_sim_measured *largest = NULL;
    for (int i = 0; i < c->collectives.count; i++) {
        const struct dt_sim_measured *m = &c->collectives.entries[i];
        if (m->kind == kind && (!largest || m->bytes > largest->bytes))
            largest = m;
    }
    return largest ? 1e-9 * largest->bytes * (largest->ranks - 1) / largest->ranks / largest->seconds : 0;
}

static double shortest_message_us(const struct calibration *c)
{
    double least = INFINITY;
    for (int i = 0; i < c->collectives.count; i++)
        if (c->collectives.entries[i].kind == DT_SIM_MESSAGE)
            least = fmin(least, 1e6 * c->collectives.entries[i].seconds);
    return isfinite(least) ? least : 0;
}

/* GB/s that leave a node in the largest measurement of a kind between nodes: the best kind of those
 * whose bytes leave all nodes alike. */
static double best_network_gb_per_s(const struct calibration *c)
{
    double best = 0;
    for (int i = 0; i < c->collectives.count; i++) {
        const struct dt_sim_measured *m = &c->collectives.entries[i], *next = m + 1;
        bool largest = i + 1 == c->collectives.count || next->kind != m->kind || next->ranks != m->ranks || next->nodes != m->nodes;
        double on_node = (double)m->ranks / m->nodes, others = m->ranks - on_node, sent = 0;
        if (m->kind == DT_SIM_MESSAGE)
            sent = m->bytes;
        if (m->kind == DT_SIM_ALL_GATHER || m->kind == DT_SIM_REDUCE_SCATTER)
            sent = on_node * others * m->bytes / m->ranks;
        if (largest && m->nodes > 1)
            best = fmax(best, 1e-9 * sent / m->seconds);
    }
    return best;
}

static void describe_network(const struct calibration *c, const char *source, struct dt_sim_cluster *out)
{
    snprintf(out->nic.source, sizeof out->nic.source, "%s: the fastest of the largest messages and collectives between nodes", source);
    snprintf(out->host.source, sizeof out->host.source, "%s", source);
    out->nodes = c->place.nodes;
    out->gpus_per_node = c->place.ranks_per_node;
    out->host.shared_processors = c->place.shared_processors;
    out->nic.count = 1;
    out->nic.transport = DT_SIM_SOCKETS;
    out->nic.flow_gbit_per_s = out->nic.total_gbit_per_s = out->nic.label_gbit_per_s = 8 * best_network_gb_per_s(c);
}

static void describe_cluster(const struct calibration *c, const char *source, struct dt_sim_cluster *out)
{
    bool alone = c->collectives.count == 0;
    snprintf(out->name, sizeof out->name, "calibrated");
    snprintf(out->source, sizeof out->source, "%s, %s", c->place.nodes > 1 ? "these nodes" : "this machine", source);
    out->nodes = 1;
    out->gpus_per_node = most_ranks(c);
    dt_machine_processor_name(out->gpu.name, sizeof out->gpu.name);
    snprintf(out->gpu.source, sizeof out->gpu.source,
             "%s: the fastest product and the fastest copy of one rank alone; each rank may use all of the memory", source);
    out->gpu.architecture = DT_SIM_CPU;
    snprintf(out->profile, sizeof out->profile, "profile.json");
    out->gpu.memory_gib = (double)dt_machine_memory_bytes() / 0x1p30;
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        out->gpu.peak_tflops[dtype] = 1e-12 * best_speed(c, false, (enum dt_dtype)dtype);
    out->gpu.memory_gb_per_s = 2e-9 * best_speed(c, true, DT_FP32);
    snprintf(out->collectives.source, sizeof out->collectives.source, "%s%s", source,
             alone ? ": one rank, so nothing was sent; the speed is a placeholder" : "");
    out->collectives.library = DT_SIM_MPI;
    snprintf(out->collectives.version, sizeof out->collectives.version, "%s", alone ? "none" : c->library);
    out->collectives.step_us = shortest_message_us(c);
    out->collectives.gb_per_s = alone ? 1 : sent_gb_per_s(c, DT_SIM_ALL_GATHER);
    out->collectives.sum_gb_per_s = sent_gb_per_s(c, DT_SIM_REDUCE_SCATTER);
    if (c->place.nodes > 1)
        describe_network(c, source, out);
}

/* The architecture by the GPU's name: its tables in NCCL are used where nothing was measured. */
static enum dt_sim_architecture architecture_of(const char *gpu)
{
    static const char *const hoppers[] = {"H100", "H200", "H800",
                                          "B100", "B200", "B300"}; /* and later ones, which NCCL 2.20.3 treats like Hopper */
    for (size_t i = 0; i < sizeof hoppers / sizeof *hoppers; i++)
        if (strstr(gpu, hoppers[i]))
            return DT_SIM_HOPPER;
    return strstr(gpu, "V100") ? DT_SIM_VOLTA : DT_SIM_AMPERE;
}

/* GB/s of the largest message within a node; 0: not measured. */
static double message_gb_per_s(const struct calibration *c)
{
    double most = 0, speed = 0;
    for (int i = 0; i < c->collectives.count; i++) {
        const struct dt_sim_measured *m = &c->collectives.entries[i];
        if (m->kind != DT_SIM_MESSAGE || m->nodes > 1 || m->bytes < most)
            continue;
        most = m->bytes;
        speed = 1e-9 * m->bytes / m->seconds;
    }
    return speed;
}

/* Describe what is different on GPUs; describe_cluster() has set the rest. */
static void describe_gpus(const struct calibration *c, const char *source, struct dt_sim_cluster *out)
{
    bool alone = c->collectives.count == 0;
    const struct calibration_gpu *g = &c->gpu;
    snprintf(out->gpu.name, sizeof out->gpu.name, "%.63s", g->name);
    snprintf(out->gpu.source, sizeof out->gpu.source,
             "%s: peaks by the maker's data sheet where dtbench knows it, else the fastest product; memory as the driver reports it",
             source);
    out->gpu.architecture = architecture_of(g->name);
    out->gpu.memory_gib = g->memory_bytes / 0x1p30;
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        if (out->gpu.peak_tflops[dtype] > 0 && g->peak_flops[dtype] > 0)
            out->gpu.peak_tflops[dtype] = 1e-12 * g->peak_flops[dtype];
    for (int i = 0; i < c->collectives.count && c->place.nodes < 2; i++)
        out->gpus_per_node = (int)fmax(out->gpus_per_node, c->collectives.entries[i].ranks);
    snprintf(out->pcie.source, sizeof out->pcie.source, "%s: copies of pinned memory, the slower direction; one GPU alone", source);
    out->pcie.gb_per_s = 1e-9 * g->copy_bytes_per_s;
    out->pcie.gpus_per_link = 1;
    out->pcie.latency_us = 1e6 * g->copy_s;
    snprintf(out->nvlink.source, sizeof out->nvlink.source, "%s: messages between two GPUs of a node, over the links that the node has",
             source);
    out->nvlink.gb_per_s = message_gb_per_s(c);
    snprintf(out->collectives.source, sizeof out->collectives.source,
             "%s%s%s; what is not under \"measured\" follows the tables of NCCL 2.20.3", source,
             alone ? ": one GPU, so nothing was sent" : ", ", alone ? "" : c->library);
    out->collectives.library = DT_SIM_NCCL;
    snprintf(out->collectives.version, sizeof out->collectives.version, "2.20.3");
    out->collectives.channels = 1;
    out->collectives.channel_gb_per_s = alone ? out->pcie.gb_per_s : sent_gb_per_s(c, DT_SIM_ALL_GATHER);
    if (c->place.nodes > 1)
        out->nic.transport = DT_SIM_RDMA;
}

/* The speed is one node's. What several nodes get together was not measured. */
static void describe_storage(const struct calibration *c, const char *source, struct dt_sim_cluster *out)
{
    snprintf(out->storage.source, sizeof out->storage.source,
             "%s: a file written with fsync, and read when it was no longer in memory; one node", source);
    out->storage.read_gb_per_s = 1e-9 * c->storage.read_bytes_per_s;
    out->storage.write_gb_per_s = 1e-9 * c->storage.write_bytes_per_s;
    if (c->place.nodes < 2)
        out->storage.total_read_gb_per_s = out->storage.total_write_gb_per_s = 0;
}

static bool belongs_to_storage(const struct calibration *c, const char *path)
{
    return c->storage.read_bytes_per_s > 0 && strncmp(path, "storage.", 8) == 0 &&
           (c->place.nodes < 2 || strncmp(path, "storage.total", 13) != 0);
}

/* Keys that cluster files of machines with GPUs have, without those of networks. */
static bool belongs_to_gpus(const char *path)
{
    static const char *const not_nccl[] = {"collectives.step_us", "collectives.gb_per_s", "collectives.sum_gb_per_s"};
    for (size_t i = 0; i < sizeof not_nccl / sizeof *not_nccl; i++)
        if (strcmp(path, not_nccl[i]) == 0)
            return false;
    return strncmp(path, "pcie.", 5) == 0 || strcmp(path, "nvlink.source") == 0 || strcmp(path, "nvlink.gb_per_s") == 0 ||
           strncmp(path, "collectives.", 12) == 0;
}

/* Keys that cluster files of machines without GPUs have; several: also those of the network between
 * nodes. */
static bool belongs(const char *path, bool several)
{
    static const char *const of_network[] = {"host.source",   "host.shared_processors", "nic.source",          "nic.count",
                                             "nic.transport", "nic.label_gbit_per_s",   "nic.flow_gbit_per_s", "nic.total_gbit_per_s"};
    for (size_t i = 0; several && i < sizeof of_network / sizeof *of_network; i++)
        if (strcmp(path, of_network[i]) == 0)
            return true;
    return !strchr(path, '.') || (strncmp(path, "gpu.", 4) == 0) ||
           (strncmp(path, "collectives.", 12) == 0 && strncmp(path, "collectives.channel", 19) != 0 &&
            strncmp(path, "collectives.net", 15) != 0);
}

static dt_status write_cluster(const struct calibration *c, const char *source, struct dt_sim_cluster *cluster, bool *wanted,
                               struct cJSON **object, char **out_text)
{
    const struct dt_table *table = dt_sim_cluster_table();
    DT_TRY(dt_config_defaults(table, cluster));
    describe_cluster(c, source, cluster);
    if (*c->gpu.name)
        describe_gpus(c, source, cluster);
    if (c->storage.read_bytes_per_s > 0)
        describe_storage(c, source, cluster);
    for (int i = 0; i < table->count; i++)
        wanted[i] = *c->gpu.name && strncmp(table->fields[i].path, "collectives.", 12) == 0
                        ? belongs_to_gpus(table->fields[i].path)
                        : belongs(table->fields[i].path, c->place.nodes > 1) || (*c->gpu.name && belongs_to_gpus(table->fields[i].path)) ||
                              belongs_to_storage(c, table->fields[i].path);
    DT_TRY(dt_config_write(table, cluster, wanted, object));
    DT_TRY(attach(dt_json_at(*object, "collectives"), "measured", collectives_as_json(c)));
    return dt_json_print(*object, DT_JSON_INDENT, out_text);
}

dt_status calibration_cluster_text(const struct calibration *c, const char *source, char **out_text)
{
    DT_FREED struct dt_sim_cluster *cluster = calloc(1, sizeof *cluster);
    DT_FREED bool *wanted = calloc((size_t)dt_sim_cluster_table()->count, sizeof *wanted);
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    return cluster && wanted ? write_cluster(c, source, cluster, wanted, &object, out_text) : no_memory();
}

/* ---- the profile ---- */

/* The word that distinguishes the GPU: "H100" in "NVIDIA H100 80GB HBM3". */
static void gpu_word(const char *name, char *out, size_t out_bytes)
{
    static const char blanks[] = " -";
    size_t length = strcspn(name, blanks);
    while (name[length] && ((length == 6 && strncmp(name, "NVIDIA", 6) == 0) || (length == 5 && strncmp(name, "Tesla", 5) == 0))) {
        name += length + strspn(name + length, blanks);
        length = strcspn(name, blanks);
    }
    snprintf(out, out_bytes, "%.*s", (int)length, name);
}

/* Every kernel is measured, so the constants are those of a stack without overhead. */
static void describe_profile(const struct calibration *c, struct dt_profile *p)
{
    snprintf(p->name, sizeof p->name, "dtbench, calibrated");
    snprintf(p->gpu, sizeof p->gpu, "cpu");
    if (*c->gpu.name)
        gpu_word(c->gpu.name, p->gpu, sizeof p->gpu);
    p->memory.reserve_bytes = c->gpu.reserved_bytes;
    snprintf(p->basis, sizeof p->basis, "measured here");
    p->gemm.peak_fraction = p->gemm.least_fill = 1;
    p->gemm.aligned_bytes = 1;
    p->gemm.half_aligned = p->gemm.quarter_aligned = p->gemm.unaligned = p->gemm.fused_attention = 1;
    p->gemm.qkv_products = 1;
    p->bandwidth_fraction = 1;
    p->memory.granularity_bytes = DT_ALLOCATION_BYTES;
    p->memory.workspaces = *c->gpu.name != '\0';
}

/* Add one text for each key, or object, of the top level. */
static dt_status add_sources(struct cJSON *object, const struct dt_table *table, const char *source)
{
    char text[512];
    struct cJSON *sources = cJSON_AddObjectToObject(object, "sources");
    for (int i = PROFILE_LABELS; i < table->count && sources; i++) {
        const char *path = table->fields[i].path, *dot = strchr(path, '.');
        char key[64];
        snprintf(key, sizeof key, "%.*s", dot ? (int)(dot - path) : (int)strlen(path), path);
        bool memory = strcmp(key, "memory") == 0;
        if (memory)
            snprintf(text, sizeof text, "dtbench's own allocator, lib/device/memory.h: no other framework is described");
        else
            snprintf(text, sizeof text, "%s: no separate overhead: the times under \"measured\" include it", source);
        if (!cJSON_HasObjectItem(sources, key) && !cJSON_AddStringToObject(sources, key, text))
            return no_memory();
    }
    return sources ? DT_OK : no_memory();
}

static dt_status write_profile(const struct calibration *c, const char *source, struct dt_profile *profile, struct cJSON **object,
                               char **out_text)
{
    const struct dt_table *table = profile_table();
    DT_TRY(dt_config_defaults(table, profile));
    describe_profile(c, profile);
    DT_TRY(dt_config_write(table, profile, NULL, object));
    DT_TRY(add_sources(*object, table, source));
    DT_TRY(attach(*object, "measured", kernels_as_json(c)));
    return dt_json_print(*object, DT_JSON_INDENT, out_text);
}

dt_status calibration_profile_text(const struct calibration *c, const char *source, char **out_text)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    if (c->kernels.count == 0)
        return dt_fail(DT_ERR_INVALID, "nothing was measured");
    DT_FREED struct dt_profile *profile = calloc(1, sizeof *profile);
    return profile ? write_profile(c, source, profile, &object, out_text) : no_memory();
}
