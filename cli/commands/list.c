/* `dtbench list`: what there is to choose from, on this machine. */
#include "cli/commands/commands.h"

#include "cli/records/records.h"
#include "cli/text/text.h"
#include "lib/base/text.h"
#include "lib/comm/comm.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "predict/profile.h"
#include "predict/simulated_system.h"
#include "schedules/config/experiment.h"
#include "schedules/config/families.h"
#include "schedules/plan/plan.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Parameters and gradients of 16 bits, Adam's two moments and master weights of 32. */
static const double STATE_BYTES = 2 + 2 + 3 * 4;

static dt_status add_model(struct table *t, const struct dt_model_preset *preset, const struct dt_model_family *family)
{
    struct dt_model model = model_of_preset(preset, family);
    double parameters = (double)dt_model_parameter_count(&model);
    char text[FORMAT_BYTES], *value;
    table_text(t, preset->name);
    for (int i = 0; i < family->first_keys; i++) {
        DT_TRY(dt_config_write_value(&family->keys[i], dt_model_own(&model), DT_JSON_COMPACT, &value));
        table_text(t, value);
        free(value);
    }
    table_text(t, format_count((uint64_t)parameters, text));
    table_number(t, dt_model_step_flops(&model, 1) / 1e9);
    table_number(t, parameters * STATE_BYTES / 0x1p30);
    return DT_OK;
}

static dt_status print_models_of(const struct dt_model_family *family)
{
    DT_DESTROYED(table_destroy) struct table *t = table_create();
    table_column(t, TABLE_LEFT, "model");
    for (int i = 0; i < family->first_keys; i++)
        table_column(t, TABLE_RIGHT, "%s", family->titles[i]);
    table_column(t, TABLE_RIGHT, "parameters");
    table_column(t, TABLE_RIGHT, "GFLOP\n/%s", family->unit);
    table_column(t, TABLE_RIGHT, "state\nGiB");
    for (const struct dt_model_preset *preset = family->presets; preset->name; preset++)
        DT_TRY(add_model(t, preset, family));
    return table_print(t, stdout);
}

static dt_status print_models(void)
{
    for (int f = 0; model_family(f); f++) {
        if (f > 0)
            printf("\n");
        DT_TRY(print_models_of(model_family(f)));
    }
    return DT_OK;
}

static struct table *described(const char *key)
{
    struct table *t = table_create();
    table_column(t, TABLE_LEFT, "%s", key);
    table_column(t, TABLE_LEFT, "what it does");
    return t;
}

static void add_described(struct table *t, const char *name, const char *help)
{
    table_text(t, name);
    table_text(t, help);
}

static dt_status print_paradigms(void)
{
    struct table *t = described("paradigm");
    const struct paradigm *paradigm;
    for (int i = 0; (paradigm = paradigm_of((enum paradigm_kind)i)); i++)
        add_described(t, paradigm->name, paradigm->help);
    return table_end(t, stdout);
}

static dt_status print_orders(void)
{
    struct table *t = described("pipeline.order");
    const struct pipeline_order *order;
    for (int i = 0; (order = pipeline_order_at(i)); i++)
        add_described(t, order->name, order->help);
    return table_end(t, stdout);
}

/* "fp32 (native), bf16 (native), fp16 (converted)" */
static void describe_dtypes(char *text, size_t text_bytes)
{
    char advice[256];
    *text = '\0';
    for (int d = 0; d < DT_DTYPE_COUNT; d++) {
        const struct dt_model_family *family;
        bool native = true;
        for (int f = 0; (family = model_family(f)) && d != DT_FP32; f++)
            native &= dt_cpu_dtype_native(family, (enum dt_dtype)d, advice, sizeof advice);
        dt_append(text, text_bytes, ", ", "%s (%s)", dt_dtype_name((enum dt_dtype)d), native ? "native" : "slower: converted");
    }
}

/* "4 x NVIDIA H100 80GB HBM3, 79.1 GiB; driver 580.65.06; CUDA 13.0; cuBLASLt 13.1.0": GPUs of one
 * name and size share an entry. Their facts are read without opening a context, which would take
 * GPU memory from other processes. */
static void describe_gpus(const char *libraries, char *text, size_t text_bytes)
{
    struct dt_device_info first, next;
    char memory[DT_MEMORY_TEXT];
    bool more = dt_device_look("cuda", 0, &first);
    *text = '\0';
    for (int i = 0, count; more; i += count) {
        count = 1;
        more = dt_device_look("cuda", i + 1, &next);
        while (more && strcmp(next.name, first.name) == 0 && next.memory_bytes == first.memory_bytes)
            more = dt_device_look("cuda", i + ++count, &next);
        dt_append(text, text_bytes, "; ", "%d x %s, %s", count, first.name, dt_memory_text(first.memory_bytes, memory));
        if (!more)
            dt_append(text, text_bytes, "", "%s%s%s%s%s%s", *first.driver ? "; driver " : "", first.driver, *first.versions ? "; " : "",
                      first.versions, *libraries ? "; " : "", libraries);
        first = next;
    }
}

/* "Intel Xeon ..., 4 threads, 15.6 GiB; oneDNN 3.1; fp32 (native), ..." */
static void describe_cpu(const char *kind, char *text, size_t text_bytes)
{
    struct dt_device *device;
    struct dt_device_info info;
    char dtypes[128];
    if (dt_device_create(kind, NULL, &device) < 0)
        return;
    dt_device_info(device, &info);
    describe_dtypes(dtypes, sizeof dtypes);
    snprintf(text, text_bytes, "%.100s, %d threads, %.1f GiB; %s; %s", info.name, info.threads, (double)info.memory_bytes / 0x1p30,
             info.versions, dtypes);
    dt_device_destroy(device);
}

/* Collect the libraries of all families' kernels, and why a family has no kernels. Returns whether
 * any family has kernels. */
static bool find_kernels(const struct dt_device_kind *kind, char *libraries, size_t bytes, char *missing, size_t missing_bytes)
{
    const struct dt_model_family *family;
    bool found = false;
    for (int f = 0; (family = model_family(f)); f++) {
        char text[512] = "";
        bool available = dt_kernels_available(family, kind, text, sizeof text);
        found |= available;
        if (!available)
            dt_append(missing, missing_bytes, "; ", "no kernels for %s: %s", family->name, text);
        else if (!strstr(libraries, text))
            dt_append(libraries, bytes, "; ", "%s", text);
    }
    return found;
}

/* Describe the device, or what it is missing. Returns whether it can be used. */
static bool describe_device(const struct dt_device_kind *kind, char *text, size_t text_bytes)
{
    char libraries[512] = "", missing[1024] = "";
    text[0] = '\0';
    if (!dt_device_available(kind->name, text, text_bytes))
        return false;
    if (!find_kernels(kind, libraries, sizeof libraries, missing, sizeof missing)) {
        snprintf(text, text_bytes, "the device is available, but its kernels are not: %s", missing);
        return false;
    }
    if (kind->simulated)
        snprintf(text, text_bytes, "predicts runs on a described cluster, by the files \"cluster\" and \"profile\"");
    else if (dt_device_count(kind->name) > 0)
        describe_gpus(libraries, text, text_bytes);
    else
        describe_cpu(kind->name, text, text_bytes);
    if (*missing)
        dt_append(text, text_bytes, "; ", "%s", missing);
    return true;
}

static dt_status print_devices(void)
{
    struct table *t = table_create();
    const struct dt_device_kind *kind;
    table_column(t, TABLE_LEFT, "device");
    table_column(t, TABLE_LEFT | TABLE_STAYS, "available");
    table_column(t, TABLE_LEFT, "");
    for (int i = 0; (kind = dt_device_kind_at(i)); i++) {
        char text[2048];
        bool available = describe_device(kind, text, sizeof text);
        table_text(t, kind->name);
        table_text(t, available ? "yes" : "no");
        table_text(t, text);
    }
    return table_end(t, stdout);
}

static dt_status print_communicators(void)
{
    struct table *t = table_create();
    const char *backend;
    table_column(t, TABLE_LEFT, "communicator");
    table_column(t, TABLE_LEFT | TABLE_STAYS, "available");
    table_column(t, TABLE_LEFT, "");
    for (int i = 0; (backend = dt_comm_backend_name(i)); i++) {
        char text[256];
        bool available = dt_comm_available(backend, text, sizeof text);
        table_text(t, backend);
        table_text(t, available ? "yes" : "no");
        table_text(t, text);
    }
    return table_end(t, stdout);
}

/* ---- files that come with dtbench ---- */

/* "8 x 400 RDMA", in Gbit/s; "-" without network cards. */
static void network_cell(struct table *t, const struct dt_sim_cluster *c)
{
    char rate[FORMAT_BYTES];
    if (c->nodes == 1 || c->nic.count == 0)
        table_text(t, "-");
    else
        table_cell(t, "%d x %s %s", c->nic.count, format_number(c->nic.label_gbit_per_s, rate),
                   c->nic.transport == DT_SIM_RDMA ? "RDMA" : "sockets");
}

static dt_status add_cluster(struct table *t, const char *path, const char *name)
{
    struct dt_sim_cluster c;
    DT_TRY(dt_sim_cluster_load(path, &c));
    table_text(t, name);
    table_cell(t, "%d x %d", c.nodes, c.gpus_per_node);
    table_text(t, c.gpu.name);
    network_cell(t, &c);
    return DT_OK;
}

static dt_status add_profile(struct table *t, const char *path, const char *name)
{
    struct dt_profile p;
    DT_TRY(profile_read(path, &p));
    table_text(t, name);
    table_text(t, *p.gpu ? p.gpu : "-");
    table_text(t, p.name);
    table_text(t, *p.basis ? p.basis : "-");
    return DT_OK;
}

/* Print a row for each file of the folder, under the name that a config uses, and destroy the
 * table. */
static dt_status print_files(struct table *table, const char *folder, dt_status (*add)(struct table *t, const char *path, const char *name))
{
    char path[PATH_MAX], name[NAME_MAX + 1];
    DT_DESTROYED(table_destroy) struct table *t = table;
    DT_ENDED(globfree) glob_t found = {0};
    DT_TRY(dt_find_data_file(folder, NULL, path, sizeof path));
    DT_FREED char *pattern = glob_pattern(path, "/*.json");
    DT_TRY(dt_allocated(pattern, "no memory for the files of %s", path));
    DT_TRY(dt_allocated(glob(pattern, 0, NULL, &found) != GLOB_NOSPACE, "no memory for the files of %s", path));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *base = strrchr(found.gl_pathv[i], '/') + 1;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(base) - strlen(".json")), base);
        DT_TRY(add(t, found.gl_pathv[i], name));
    }
    return table_print(t, stdout);
}

static dt_status print_clusters(void)
{
    struct table *t = table_create();
    table_column(t, TABLE_LEFT, "cluster");
    table_column(t, TABLE_RIGHT, "nodes x\nGPUs");
    table_columns(t, TABLE_LEFT, "GPU", "a node's network\nGbit/s");
    return print_files(t, "clusters", add_cluster);
}

static dt_status print_profiles(void)
{
    struct table *t = table_create();
    table_columns(t, TABLE_LEFT, "profile", "for GPU", "software", "its constants");
    return print_files(t, "profiles", add_profile);
}

struct command_options {
    bool models, clusters, profiles;
};

static const struct option_row options[] = {
    {"models", 'm', OPTION_FLAG, offsetof(struct command_options, models), NULL, NULL, "Print the models."},
    {"clusters", 'c', OPTION_FLAG, offsetof(struct command_options, clusters), NULL, NULL,
     "Print the clusters for device sim that come with dtbench."},
    {"profiles", 'p', OPTION_FLAG, offsetof(struct command_options, profiles), NULL, NULL,
     "Print the profiles for device sim that come with dtbench."},
    {0},
};

static int run(int argc, char **argv)
{
    struct command_options o = {0};
    int code;
    if (!options_begin(&command_list, argc, argv, &o, NULL, &code))
        return code;
    bool all = !o.models && !o.clusters && !o.profiles, begun = false;
    const struct {
        bool wanted;
        dt_status (*print)(void);
    } sections[] = {{all || o.models, print_models}, {all, print_paradigms},       {all, print_orders},         {all, print_devices},
                    {all, print_communicators},      {o.clusters, print_clusters}, {o.profiles, print_profiles}};
    dt_status status = DT_OK;
    for (size_t i = 0; i < sizeof sections / sizeof *sections && status == DT_OK; i++) {
        if (!sections[i].wanted)
            continue;
        fputs(begun ? "\n" : "", stdout);
        begun = true;
        status = sections[i].print();
    }
    return status == DT_OK ? EXIT_CODE_OK : report_failure("list", EXIT_CODE_OTHER);
}

const struct command command_list = {
    .name = "list",
    .summary = "list models, paradigms, pipeline orders, devices, communicators, clusters and profiles",
    .usage = "[OPTION]...",
    .description =
        "Prints the model presets, the paradigms, the pipeline orders, and the devices and communicators with what is missing where one is "
        "not available. With options: only what they name. For a model: the vocabulary and the tokens of a sample that it is counted with, "
        "its parameters, floating-point operations of a training step for each token (forward and backward, attention over the whole "
        "square), and the bytes of a training state: parameters and gradients of 16 bits, and Adam's moments and master weights.",
    .options = options,
    .run = run,
};
