#include "predict/simulated_system.h"

#include "lib/base/text.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "predict/framework.h"
#include "predict/profile.h"
#include "predict/rates.h"
#include "schedules/run/measure.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fail with the last error's text after the key that names the file; for a missing file also with
 * the available ones. */
static dt_status fail_of_file(dt_status status, const char *key, const char *folder)
{
    char error[1024], names[700] = "";
    snprintf(error, sizeof error, "%s", dt_error_message());
    if (folder)
        dt_data_file_names(folder, names, sizeof names);
    return dt_fail(status, "%s: %s%s%s", key, error, *names ? "; there are " : "", names);
}

static const char *rates_of(const struct experiment *e)
{
    return e->rates ? e->rates : "";
}

static dt_status find(const char *key, const char *folder, const char *name, const char *directory, struct simulated_file *out)
{
    DT_FREED char *text = NULL;
    size_t length;
    dt_status status = dt_find_data_file(name, directory, out->path, sizeof out->path);
    if (status < 0)
        return fail_of_file(status, key, folder);
    status = dt_read_file(out->path, &text, &length);
    if (status < 0)
        return fail_of_file(status, key, NULL);
    out->hash = dt_hash_fnv1a(text, length);
    return DT_OK;
}

/* Whether the text has `word`, not as a part of a longer word. "A100" is in "NVIDIA
 * A100-SXM4-40GB". */
static bool has_word(const char *text, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[bytes]))
            return true;
    return false;
}

/* Whether the text has one of the words, which blanks separate. */
static bool has_any(const char *text, const char *words)
{
    char copy[sizeof((struct dt_profile *)0)->gpu], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (const char *word = strsep(&rest, " "); word; word = strsep(&rest, " "))
        if (*word && has_word(text, word))
            return true;
    return false;
}

static dt_status check_profile(const struct experiment *e, const struct simulated_system *s)
{
    const char *gpu = s->costs.profile.gpu;
    bool cpu = s->cluster.gpu.architecture == DT_SIM_CPU, same = cpu ? strcmp(gpu, "cpu") == 0 : has_any(s->cluster.gpu.name, gpu);
    if (!*gpu || same || e->any_profile)
        return DT_OK;
    return dt_fail(DT_ERR_UNAVAILABLE,
                   "profile: %s is for %s, and cluster %s has %s: take a profile for that, or allow it with \"any_profile\": true",
                   e->profile, gpu, e->cluster, s->cluster.gpu.name);
}

/* Check one axis of the mesh, whose groups should each be on one node. */
static dt_status check_axis(const struct experiment *placed, const struct mesh_shape *mesh, enum mesh_axis axis)
{
    int per_node = placed->ranks_per_node;
    for (int rank = 0; rank < placed->world_size; rank++) {
        int at = mesh_coordinate(mesh, axis, rank), previous = mesh_moved(mesh, axis, rank, at > 0 ? at - 1 : 0);
        if (rank / per_node == previous / per_node)
            continue;
        return dt_fail(DT_ERR_UNAVAILABLE,
                       "%s: %d ranks that belong together would straddle nodes: ranks %d and %d are on nodes %d and %d, which have %d "
                       "each; use a number that divides %d, or allow it with \"straddle_nodes\": true",
                       experiment_node_key(placed, axis), mesh->size[axis], previous, rank, previous / per_node, rank / per_node, per_node,
                       per_node);
    }
    return DT_OK;
}

/* Groups that communicate often must each be on one node, as in real runs (cli/run/placement.c). */
static dt_status check_groups(const struct experiment *e, const struct simulated_system *s)
{
    struct experiment placed = *e;
    experiment_place(&placed, s->placement.ranks_per_node);
    struct mesh_shape mesh = placed.strategy.mesh;
    for (int axis = 0; axis < MESH_AXES && !e->straddle_nodes; axis++)
        if (experiment_node_key(&placed, (enum mesh_axis)axis))
            DT_TRY(check_axis(&placed, &mesh, (enum mesh_axis)axis));
    return DT_OK;
}

static dt_status place(const struct experiment *e, struct simulated_system *s)
{
    struct dt_sim_cluster *c = &s->cluster;
    if (e->gpus_per_node > c->gpus_per_node)
        return dt_fail(DT_ERR_UNAVAILABLE, "gpus_per_node: %d, and the nodes of cluster %s have %d", e->gpus_per_node, e->cluster,
                       c->gpus_per_node);
    if (e->gpus_per_node > 0)
        s->placement.ranks_per_node = e->gpus_per_node;
    int per_node = e->gpus_per_node > 0 ? e->gpus_per_node : c->gpus_per_node, nodes = (e->world_size + per_node - 1) / per_node;
    if (e->more_nodes && c->nodes > 1 && nodes > c->nodes)
        c->nodes = nodes;
    if (nodes > c->nodes)
        return dt_fail(DT_ERR_UNAVAILABLE,
                       "world_size: %d ranks, and cluster %s has %d (%d node%s of %d): use a larger cluster, or at most %d%s",
                       e->world_size, e->cluster, per_node * c->nodes, c->nodes, c->nodes > 1 ? "s" : "", per_node, per_node * c->nodes,
                       c->nodes > 1 ? ", or allow more nodes of this kind with \"more_nodes\": true" : "");
    s->placement.world_size = e->world_size;
    DT_TRY(dt_sim_cluster_place(c, e->cluster, &s->placement));
    return check_groups(e, s);
}

/* If the profile was measured: find the measurements with the experiment's number of ranks on a
 * node, or the nearest number; another number of threads is refused. Without measurements
 * *copy_bytes_per_s is unchanged, and *copy_load is 0. */
static dt_status find_measurements(const struct experiment *e, struct simulated_system *s, double *copy_bytes_per_s, double *copy_load)
{
    enum { COPIED_BYTES = 4 << 20 };
    const struct dt_measured_list *list = &s->costs.profile.measured;
    double seconds;
    *copy_load = 0;
    if (list->count == 0)
        return DT_OK;
    int beside = s->cluster.host.shared_processors ? e->world_size : s->placement.ranks_per_node; /* ranks that share processors */
    dt_measured_nearest(list, beside, e->threads, &s->costs.measured_ranks, &s->costs.measured_threads);
    if (e->threads > 0 && e->threads != s->costs.measured_threads && s->cluster.gpu.architecture == DT_SIM_CPU)
        return dt_fail(DT_ERR_UNAVAILABLE,
                       "threads: %d, and profile %s was measured with %d; measure again: dtbench calibrate --threads %d", e->threads,
                       e->profile, s->costs.measured_threads, e->threads);
    const struct dt_measured copy = {.kernel = DT_PRICED_COPY,
                                     .dtype = e->model.dtype,
                                     .ranks = s->costs.measured_ranks,
                                     .threads = s->costs.measured_threads,
                                     .shape = {COPIED_BYTES, 1, 1}};
    if (!dt_measured_find(list, DT_SHAPE_FLAT, &copy, &seconds, copy_load))
        return dt_fail(DT_ERR_UNAVAILABLE, "model.dtype: profile %s has no measurements in %s; measure again: dtbench calibrate --dtype %s",
                       e->profile, dt_dtype_name(e->model.dtype), dt_dtype_name(e->model.dtype));
    *copy_bytes_per_s = 2.0 * COPIED_BYTES / seconds; /* bytes are read and written */
    return DT_OK;
}

static bool stages_span_nodes(const struct experiment *e, const struct simulated_system *s)
{
    struct experiment placed = *e;
    experiment_place(&placed, s->placement.ranks_per_node);
    struct mesh_shape mesh = placed.strategy.mesh;
    return mesh_moved(&mesh, MESH_PIPELINE, 0, mesh.size[MESH_PIPELINE] - 1) >= placed.ranks_per_node;
}

/* The part of a weight that is cast before each product. Transformer Engine casts weights once a
 * step if they stay on the device; torchao casts shards if it gathers FP8. */
static double cast_part(const struct experiment *e)
{
    bool gathers = e->strategy.mode->gathers.of != DP_LESS;
    if (e->model.fp8_gather && gathers)
        return 1.0 / e->strategy.mesh.size[MESH_SHARD];
    return dt_fp8_recipe(e->model.fp8)->weight_bytes > 0 && !gathers ? 1.0 / e->strategy.micro_batches : 1;
}

/* What the GPU can do in the experiment's dtype, and what the profile makes of it. */
static dt_status describe_device(const struct experiment *e, struct simulated_system *s)
{
    const struct dt_sim_cluster *c = &s->cluster;
    const struct dt_profile *p = &s->costs.profile;
    double bandwidth = c->gpu.memory_gb_per_s * 1e9 * p->bandwidth_fraction, copy_load;
    DT_TRY(find_measurements(e, s, &bandwidth, &copy_load));
    if (c->gpu.peak_tflops[e->model.dtype] <= 0)
        return dt_fail(DT_ERR_UNAVAILABLE, "model.dtype: the %s of cluster %s does not compute %s", c->gpu.name, e->cluster,
                       dt_dtype_name(e->model.dtype));
    bool microscaled = dt_fp8_recipe(e->model.fp8)->microscaled;
    s->costs.hardware = (struct dt_cost_hardware){
        .peak_flops = c->gpu.peak_tflops[e->model.dtype] * 1e12,
        .fp8_flops = (microscaled ? c->gpu.mxfp8_tflops : c->gpu.fp8_tflops) * 1e12,
        .memory_bytes_per_s = c->gpu.memory_gb_per_s * 1e9,
    };
    if (e->model.fp8 && s->costs.hardware.fp8_flops <= 0)
        return dt_fail(DT_ERR_UNAVAILABLE, "fp8.recipe: the %s of cluster %s has no rate for %s (gpu.peak_tflops.%s); use \"%s\"",
                       c->gpu.name, e->cluster, microscaled ? "MXFP8" : "FP8", microscaled ? "mxfp8" : "fp8",
                       microscaled ? "blockwise" : "none");
    s->costs.fp8_weight_part = cast_part(e);
    s->device = (struct dt_sim_device){
        .costs = &s->costs,
        .memory_bytes_per_s = bandwidth,
        .copy_load = copy_load,
        .kernel_s = p->kernel_s,
        .copy_host_s = p->host.copy_s,
        .collective_host_s = p->host.collective_s,
        .gathered_group = mesh_group_name(MESH_SHARD), /* not tensor parallelism's, whose layers only call collectives */
        .gather_host_s = p->host.gather_s,
        .queue_kernels = p->host.queue_kernels,
        .message_host_s = p->host.message_s,
        .granularity_bytes = (uint64_t)p->memory.granularity_bytes,
    };
    if (stages_span_nodes(e, s)) {
        s->device.slow_group = mesh_group_name(MESH_TENSOR);
        s->device.slow_group_rank_s = p->host.tensor_rank_s;
    }
    dt_product_rates_settle(&s->costs, e->model.dtype);
    s->costs.shift = profile_shift(e->model.family);
    s->costs.interpreter_sharers = p->host.stages_share ? e->strategy.stages : 1;
    if (p->host.replicas_share && e->paradigm == PARADIGM_DATA_PARALLEL)
        s->costs.interpreter_sharers = e->world_size;
    if (e->paradigm == PARADIGM_FSDP) { /* a unit's gradients are new each time, so there is nothing to add them to */
        s->costs.new_gradients = true;
        s->costs.profile.memory.gradient_copies = 0;
    }
    s->costs.keys_again = p->schedule.recomputes_keys && e->strategy.again & DT_AGAIN_PRODUCTS;
    int replica = e->tensor.size * e->strategy.stages;
    int communicators = (e->world_size > replica) + (e->tensor.size > 1) + (e->context.size > 1) + (e->strategy.stages > 1);
    s->reserved_bytes = p->memory.reserve_bytes + communicators * p->memory.communicator_bytes;
    double bytes = c->gpu.memory_gib * 0x1p30 - s->reserved_bytes;
    if (bytes <= 0)
        return dt_fail(DT_ERR_INVALID, "%s: memory.reserve_bytes: more than the GPUs of cluster %s have", s->profile_file.path, e->cluster);
    s->memory_bytes = (uint64_t)bytes;
    if (e->memory_limit_bytes && e->memory_limit_bytes < s->memory_bytes)
        s->memory_bytes = e->memory_limit_bytes;
    return DT_OK;
}

/* Measured rates become part of the profile, of its name and its hash. */
static dt_status load_rates(const struct experiment *e, struct simulated_machine *m)
{
    char files[512], *rest = files;
    snprintf(files, sizeof files, "%s", rates_of(e));
    for (char *name = strsep(&rest, ":"); name; name = strsep(&rest, ":")) {
        struct simulated_file file;
        if (!*name)
            continue;
        DT_TRY(find("rates", NULL, name, e->directory, &file));
        dt_status status = rates_read(file.path, &m->cluster.collectives.measured, &m->profile);
        if (status < 0)
            return fail_of_file(status, "rates", NULL);
        m->profile_file.hash = dt_hash_fnv1a_more(m->profile_file.hash, &file.hash, sizeof file.hash);
        dt_append(m->profile_file.name, sizeof m->profile_file.name, ", ", "rates of %s", name);
    }
    return DT_OK;
}

dt_status simulated_machine_load(const struct experiment *e, struct simulated_machine *out)
{
    out->found_by.cluster = NULL; /* after a failure nothing is kept */
    DT_TRY(find("cluster", "clusters", e->cluster, e->directory, &out->cluster_file));
    DT_TRY(find("profile", "profiles", e->profile, e->directory, &out->profile_file));
    dt_status status = dt_sim_cluster_load(out->cluster_file.path, &out->cluster);
    if (status < 0)
        return fail_of_file(status, "cluster", NULL);
    status = profile_read(out->profile_file.path, &out->profile);
    if (status < 0)
        return fail_of_file(status, "profile", NULL);
    snprintf(out->cluster_file.name, sizeof out->cluster_file.name, "%s", out->cluster.name);
    snprintf(out->profile_file.name, sizeof out->profile_file.name, "%s", out->profile.name);
    DT_TRY(load_rates(e, out));
    out->found_by.cluster = e->cluster;
    out->found_by.rates = rates_of(e);
    out->found_by.profile = e->profile;
    out->found_by.directory = e->directory;
    return DT_OK;
}

dt_status simulated_system_create_on(const struct simulated_machine *machine, const struct experiment *e, struct simulated_system **out)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *s = calloc(1, sizeof *s);
    *out = NULL;
    DT_TRY(dt_allocated(s, "no host memory for a cluster"));
    s->cluster_file = machine->cluster_file;
    s->profile_file = machine->profile_file;
    s->cluster = machine->cluster;
    s->costs.profile = machine->profile;
    DT_TRY(check_profile(e, s));
    DT_TRY(dt_sim_cluster_set_network(&s->cluster, e->network.gbit_per_s, e->network.latency_us));
    DT_TRY(place(e, s));
    DT_TRY(describe_device(e, s));
    *out = DT_PASSED_ON(s);
    return DT_OK;
}

dt_status simulated_system_create_next(struct simulated_machine *last, const struct experiment *e, struct simulated_system **out)
{
    bool same = last->found_by.cluster && strcmp(last->found_by.cluster, e->cluster) == 0 &&
                strcmp(last->found_by.profile, e->profile) == 0 && strcmp(last->found_by.rates, rates_of(e)) == 0 &&
                strcmp(last->found_by.directory, e->directory) == 0;
    *out = NULL;
    if (!same)
        DT_TRY(simulated_machine_load(e, last));
    return simulated_system_create_on(last, e, out);
}

dt_status simulated_system_create(const struct experiment *e, struct simulated_system **out)
{
    DT_FREED struct simulated_machine *machine = calloc(1, sizeof *machine);
    *out = NULL;
    DT_TRY(dt_allocated(machine, "no host memory for a cluster"));
    return simulated_system_create_next(machine, e, out);
}

void simulated_system_destroy(struct simulated_system *system)
{
    free(system);
}

void simulated_system_apply(const struct simulated_system *s, struct experiment *e)
{
    if (s->costs.profile.schedule.gathers_layers)
        e->fsdp.unit = DT_UNIT_LINEAR;
    experiment_place(e, s->placement.ranks_per_node);
}

dt_status simulated_system_check_stages(const struct simulated_system *s, const struct experiment *e)
{
    int stages = e->strategy.stages, chunks = e->strategy.micro_batches;
    if (stages == 1)
        return DT_OK;
    if (s->costs.profile.schedule.fewest_chunks && chunks < stages - 1)
        return dt_fail(DT_ERR_UNAVAILABLE, "pipeline.chunks: %d for %d stages, and the framework of profile %s needs %d", chunks, stages,
                       e->profile, stages - 1);
    if (!s->costs.profile.schedule.fills_stages)
        return DT_OK;
    DT_FREED int *first_layer = malloc(((size_t)stages + 1) * sizeof *first_layer);
    DT_TRY(dt_allocated(first_layer, "no host memory for %d stages", stages));
    return framework_fill_stages(e, stages, first_layer);
}

bool simulated_system_ignores_unit(const struct simulated_system *s, const struct experiment *e, char *text, size_t text_bytes)
{
    bool ignored = s->costs.profile.schedule.gathers_layers && e->strategy.paradigm->reads & READS_UNITS && e->fsdp.unit == DT_UNIT_BLOCK;
    if (ignored)
        snprintf(text, text_bytes,
                 "fsdp.unit: \"block\" is predicted as \"linear\": the framework of profile %s gathers each inner layer by itself",
                 e->profile);
    return ignored;
}

double simulated_peak_bytes(const struct measure_result *result)
{
    double peak_bytes = 0;
    for (int i = 0; i < result->rank_count; i++)
        peak_bytes = fmax(peak_bytes, (double)result->ranks[i].memory.device.peak_total_bytes);
    return peak_bytes;
}

/* What the allocator holds at such a peak of tensors. */
static double held_bytes(const struct simulated_system *s, double peak_bytes)
{
    return fmin(peak_bytes * (1 + s->costs.profile.memory.fragmentation), (double)s->memory_bytes);
}

double simulated_system_reported_bytes(const struct simulated_system *s, const struct measure_result *result)
{
    const struct dt_profile *p = &s->costs.profile;
    bool first = p->memory.peaks_of_first_rank && result->rank_count > 0;
    double peak_bytes = first ? (double)result->ranks[0].memory.device.peak_total_bytes : simulated_peak_bytes(result);
    return p->memory.peaks_reserved ? held_bytes(s, peak_bytes) : peak_bytes;
}

double simulated_system_used_bytes(const struct simulated_system *s, const struct measure_result *result)
{
    double most = simulated_peak_bytes(result);
    for (int i = 0; i < result->rank_count; i++) {
        double bytes = 0;
        for (int kind = 0; kind < DT_CATEGORY_COUNT; kind++)
            bytes += (double)result->ranks[i].memory.device.peak_bytes[kind];
        most = fmax(most, bytes);
    }
    return held_bytes(s, most) + s->reserved_bytes;
}

double simulated_system_update_s(const struct simulated_system *s, const struct experiment *e)
{
    bool adam = experiment_is_adam(e);
    double bytes = dt_cost_update_bytes(&s->costs.profile, dt_dtype_bytes(e->model.dtype), adam, experiment_state_bytes(e));
    return s->costs.profile.measured.count > 0 ? 0 : dt_cost_memory_s(&s->costs, 0, bytes);
}

bool simulated_system_fits(const struct simulated_system *s, uint64_t peak_bytes)
{
    return (double)peak_bytes * (1 + s->costs.profile.memory.fragmentation) <= (double)s->memory_bytes;
}
