#include "lib/record/record.h"

#include "lib/base/machine.h"
#include "lib/config/json.h"
#include "lib/device/device.h"
#include "lib/launch/launch.h"
#include "lib/slurm/facts.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

const char *dt_version(void)
{
    return DTBENCH_VERSION;
}

/* "oneDNN 2.6.3, Open MPI 4.1.4": a list of names, each with its version as the last word. */
static cJSON *describe_versions(const char *versions)
{
    cJSON *object = cJSON_CreateObject();
    for (const char *part = versions; object && part && *part;) {
        char name[128], *version;
        size_t bytes = strcspn(part, ",");
        snprintf(name, sizeof name, "%.*s", (int)bytes, part);
        version = strrchr(name, ' ');
        if (version)
            *version++ = 0;
        if (*name && !cJSON_HasObjectItem(object, name))
            dt_json_add(&object, "%s: %p", name, dt_json_text(version));
        part += bytes;
        part += strspn(part, ", ");
    }
    return object;
}

static cJSON *describe_hosts(const struct dt_provenance_facts *facts)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    return dt_json_words(facts->hosts ? facts->hosts : own, "\n");
}

/* {"name": ..., "hash": "0123456789abcdef"}, as configs are hashed. */
static cJSON *describe_file(const struct dt_provenance_file *file)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, file->hash);
    return dt_json_object("name: %p, hash: %s", dt_json_text(file->name), hash);
}

static cJSON *describe_simulated(const struct dt_provenance_facts *facts)
{
    if (!facts->cluster.name)
        return dt_json_text(NULL);
    return dt_json_object("cluster: %p, profile: %p", describe_file(&facts->cluster), describe_file(&facts->profile));
}

static cJSON *describe_tuning(const struct dt_provenance_facts *facts)
{
    if (!facts->tuning.file.name)
        return dt_json_text(NULL);
    cJSON *tuning = describe_file(&facts->tuning.file);
    dt_json_add(&tuning, "products: %d, decided: %d, undecided: %d", facts->tuning.products, facts->tuning.decided,
                facts->tuning.undecided);
    return tuning;
}

/* "a, b" becomes ["a", "b"]. Unknown values are left out. */
static void add_words(cJSON **object, const char *key, const char *words)
{
    cJSON *list = dt_json_array();
    for (const char *at = words ? words : ""; *at;) {
        char word[128];
        size_t bytes = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)bytes, at);
        dt_json_append(&list, dt_json_text(word));
        at += bytes;
        at += strspn(at, ", ");
    }
    if (words)
        dt_json_add(object, "%s: %p", key, list);
    else
        dt_json_destroy(list);
}

static cJSON *describe_network(const struct dt_provenance_facts *facts)
{
    const char *gpudirect = facts->network.gpudirect;
    uint64_t registered_bytes = facts->network.registered_bytes;
    if (!facts->network.transports && !facts->network.network && !facts->network.cards && registered_bytes == 0)
        return dt_json_text(NULL);
    cJSON *network = cJSON_CreateObject();
    add_words(&network, "transports", facts->network.transports);
    add_words(&network, "network", facts->network.network);
    add_words(&network, "cards", facts->network.cards);
    if (gpudirect)
        dt_json_add(&network, "gpudirect: %s", gpudirect);
    if (registered_bytes > 0)
        dt_json_add(&network, "registered_bytes: %g", (double)registered_bytes);
    return network;
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Does the variable NAME=VALUE change results, without being a secret? */
static bool is_recorded(const char *variable)
{
    static const char *const prefixes[] = {"OMP_",  "GOMP_",   "KMP_",     "OMPI_MCA_", "UCX_",   "NCCL_",
                                           "DNNL_", "ONEDNN_", "DTBENCH_", "CUDA_",     "CUBLAS", "NVIDIA_TF32_OVERRIDE=",
                                           "SLURM_"};
    static const char *const secrets[] = {"TOKEN", "SECRET", "PASSW", "JWT", "CREDENTIAL", "_KEY"};
    char name[128];
    bool known = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        known |= begins_with(variable, prefixes[i]);
    size_t bytes = strcspn(variable, "=");
    if (!known || bytes >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)bytes, variable);
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        if (strstr(name, secrets[i]))
            return false;
    return true;
}

static cJSON *describe_environment(const char *settings)
{
    cJSON *object = settings ? cJSON_Parse(settings) : cJSON_CreateObject();
    for (char **variable = environ; object && variable && *variable; variable++) {
        char name[128];
        size_t bytes = strcspn(*variable, "=");
        if (!is_recorded(*variable) || (*variable)[bytes] == 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)bytes, *variable);
        if (!cJSON_GetObjectItemCaseSensitive(object, name))
            dt_json_add(&object, "%s: %s", name, *variable + bytes + 1);
    }
    return object;
}

/* NCCL reads these files before its variables. Their settings change results and are visible
 * nowhere else.
 * Source  NVIDIA, "NCCL User Guide", environment variables: /etc/nccl.conf, then ~/.nccl.conf,
 *         lines of NAME=VALUE, "#" begins a comment. */
static cJSON *describe_nccl_files(const char *device)
{
    const struct dt_device_kind *kind = device ? dt_device_kind_find(device) : NULL;
    char own[512] = "", line[512];
    const char *home = getenv("HOME");
    if (home)
        snprintf(own, sizeof own, "%.490s/.nccl.conf", home);
    const char *const paths[] = {"/etc/nccl.conf", own};
    if (!kind || !kind->nccl)
        return dt_json_text(NULL);
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; object && i < sizeof paths / sizeof paths[0]; i++) {
        FILE *file = *paths[i] ? fopen(paths[i], "re") : NULL;
        while (file && fgets(line, sizeof line, file)) {
            line[strcspn(line, "\r\n")] = '\0';
            char *value = strchr(line, '=');
            if (!is_recorded(line) || !value)
                continue;
            *value++ = '\0';
            cJSON_DeleteItemFromObjectCaseSensitive(object, line);
            dt_json_add(&object, "%s: %s", line, value);
        }
        if (file)
            fclose(file);
    }
    return object;
}

/* ISO 8601, UTC, to the second. NULL if the time is not finite and therefore has no integer
 * value. */
static const char *format_time(double unix_s, char text[32])
{
    if (!isfinite(unix_s))
        return NULL;
    time_t whole = (time_t)unix_s;
    struct tm utc;
    if (!gmtime_r(&whole, &utc) || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        return NULL;
    return text;
}

static cJSON *describe_slurm_fact(int number, const char *value)
{
    char time_text[32];
    if (number == DT_SLURM_END_TIME && value)
        return dt_json_text(format_time(strtod(value, NULL), time_text));
    return number == DT_SLURM_NODE_NAMES && value ? dt_json_words(value, " ") : dt_json_text(value);
}

static cJSON *describe_slurm(const struct dt_slurm_facts *known)
{
    DT_ENDED(dt_slurm_facts_finish) struct dt_slurm_facts own = {0};
    if (!dt_slurm_in_job())
        return dt_json_text(NULL);
    cJSON *slurm = known || dt_slurm_facts_collect(NULL, 0, &own) == DT_OK ? cJSON_CreateObject() : NULL;
    for (int i = 0; i < DT_SLURM_KEYS; i++)
        dt_json_add(&slurm, "%s: %p", dt_slurm_fact(i)->key, describe_slurm_fact(i, (known ? known : &own)->values[i]));
    return slurm;
}

dt_status dt_provenance_collect(const struct dt_provenance_facts *facts, struct cJSON **out)
{
    struct utsname system;
    char kernel[256], processor[128], started[32];
    dt_machine_processor_name(processor, sizeof processor);
    bool known = uname(&system) == 0;
    if (known)
        snprintf(kernel, sizeof kernel, "%.100s %.100s", system.sysname, system.release);
    cJSON *p = dt_json_object(
        "device: %p, device_name: %p, threads_per_rank: %p, driver: %p", dt_json_text(facts->device), dt_json_text(facts->device_name),
        facts->threads_per_rank > 0 ? cJSON_CreateNumber(facts->threads_per_rank) : dt_json_text(NULL), dt_json_text(facts->driver));
    dt_json_add(&p, "hosts: %p, gpus: %p, gpu_conditions: %p, doubts: %p", describe_hosts(facts),
                facts->gpus ? dt_json_words(facts->gpus, "\n") : dt_json_text(NULL),
                facts->gpu_conditions ? cJSON_Parse(facts->gpu_conditions) : dt_json_text(NULL), dt_json_text(facts->doubts));
    dt_json_add(&p, "dtbench: %s, git_commit: %s, versions: %p, kernel: %p, processor: %s", dt_version(), dt_git_commit(),
                describe_versions(facts->versions), dt_json_text(known ? kernel : NULL), processor);
    dt_json_add(&p, "launcher: %p, rank_proof: %p, graph: %p, products: %p, warpgroup_kernels: %p", dt_json_text(facts->launcher),
                dt_json_text(facts->secret), dt_json_text(facts->graph), dt_json_text(facts->products),
                dt_json_text(facts->warpgroup_kernels));
    dt_json_add(&p, "tuning: %p, network: %p, simulated: %p, slurm: %p, environment: %p, nccl_files: %p, started: %p",
                describe_tuning(facts), describe_network(facts), describe_simulated(facts), describe_slurm(facts->slurm),
                describe_environment(facts->settings), describe_nccl_files(facts->device),
                dt_json_text(format_time(facts->started_s, started)));
    *out = p;
    return dt_allocated(p, "out of memory while collecting provenance");
}
