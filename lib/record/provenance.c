#include "lib/record/provenance.h"

#include "lib/base/machine.h"
#include "lib/launch/node_list.h"
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

/* NULL text becomes null. False when memory is out, as all of these. */
static bool add_text(cJSON *object, const char *key, const char *text)
{
    return text ? cJSON_AddStringToObject(object, key, text) : cJSON_AddNullToObject(object, key);
}

/* "oneDNN 2.6.3, Open MPI 4.1.4": a list of names, each with its version as the
 * last word. */
static bool add_versions(cJSON *provenance, const char *versions)
{
    cJSON *object = cJSON_AddObjectToObject(provenance, "versions");
    for (const char *part = versions; object && part && *part;) {
        char name[128], *version;
        size_t bytes = strcspn(part, ",");
        snprintf(name, sizeof name, "%.*s", (int)bytes, part);
        version = strrchr(name, ' ');
        if (version)
            *version++ = 0;
        if (*name && !cJSON_HasObjectItem(object, name) && !add_text(object, name, version))
            return false;
        part += bytes;
        part += strspn(part, ", ");
    }
    return object;
}

static bool add_hosts(cJSON *provenance, const struct dt_provenance_facts *facts)
{
    char own[256] = "";
    cJSON *hosts = cJSON_AddArrayToObject(provenance, "hosts");
    gethostname(own, sizeof own - 1);
    for (int i = 0; hosts && i < (facts->hosts ? facts->host_count : 1); i++) {
        cJSON *host = cJSON_CreateString(facts->hosts ? facts->hosts[i] : own);
        if (!host)
            return false;
        cJSON_AddItemToArray(hosts, host);
    }
    return hosts;
}

static bool add_gpus(cJSON *provenance, const struct dt_provenance_facts *facts)
{
    if (!facts->gpus)
        return cJSON_AddNullToObject(provenance, "gpus");
    cJSON *gpus = cJSON_CreateStringArray(facts->gpus, facts->gpu_count);
    if (gpus && cJSON_AddItemToObject(provenance, "gpus", gpus))
        return true;
    cJSON_Delete(gpus);
    return false;
}

static bool add_gpu_conditions(cJSON *provenance, const char *conditions)
{
    cJSON *array = conditions ? cJSON_Parse(conditions) : cJSON_CreateNull();
    if (array && cJSON_AddItemToObject(provenance, "gpu_conditions", array))
        return true;
    cJSON_Delete(array);
    return false;
}

/* {"name": ..., "hash": "0123456789abcdef"}, as configs are hashed. */
static bool add_file(cJSON *object, const char *key, const struct dt_provenance_file *file)
{
    char hash[17];
    cJSON *facts = cJSON_AddObjectToObject(object, key);
    snprintf(hash, sizeof hash, "%016" PRIx64, file->hash);
    return facts && add_text(facts, "name", file->name) && add_text(facts, "hash", hash);
}

static bool add_simulated(cJSON *provenance, const struct dt_provenance_facts *facts)
{
    if (!facts->cluster.name)
        return cJSON_AddNullToObject(provenance, "simulated");
    cJSON *object = cJSON_AddObjectToObject(provenance, "simulated");
    return object && add_file(object, "cluster", &facts->cluster) && add_file(object, "profile", &facts->profile);
}

static bool add_tuning(cJSON *provenance, const struct dt_provenance_facts *facts)
{
    if (!facts->tuning.file.name)
        return cJSON_AddNullToObject(provenance, "tuning");
    if (!add_file(provenance, "tuning", &facts->tuning.file))
        return false;
    cJSON *object = cJSON_GetObjectItemCaseSensitive(provenance, "tuning");
    return cJSON_AddNumberToObject(object, "products", facts->tuning.products) &&
           cJSON_AddNumberToObject(object, "decided", facts->tuning.decided) &&
           cJSON_AddNumberToObject(object, "undecided", facts->tuning.undecided);
}

/* "a, b": ["a", "b"]. What is unknown is left out. */
static bool add_words(cJSON *object, const char *key, const char *words)
{
    cJSON *list = words ? cJSON_AddArrayToObject(object, key) : NULL;
    for (const char *at = list ? words : ""; *at;) {
        char word[128];
        size_t bytes = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)bytes, at);
        cJSON *text = cJSON_CreateString(word);
        if (!text)
            return false;
        cJSON_AddItemToArray(list, text);
        at += bytes;
        at += strspn(at, ", ");
    }
    return list || !words;
}

static bool add_network(cJSON *provenance, const struct dt_provenance_facts *facts)
{
    const char *gpudirect = facts->network.gpudirect;
    uint64_t registered_bytes = facts->network.registered_bytes;
    if (!facts->network.transports && !facts->network.network && !facts->network.cards && registered_bytes == 0)
        return cJSON_AddNullToObject(provenance, "network");
    cJSON *object = cJSON_AddObjectToObject(provenance, "network");
    return object && add_words(object, "transports", facts->network.transports) && add_words(object, "network", facts->network.network) &&
           add_words(object, "cards", facts->network.cards) && (!gpudirect || add_text(object, "gpudirect", gpudirect)) &&
           (registered_bytes == 0 || cJSON_AddNumberToObject(object, "registered_bytes", (double)registered_bytes));
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Does the variable NAME=VALUE change results, and is it nobody's secret? */
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

static bool add_environment(cJSON *provenance, const char *settings)
{
    cJSON *object = settings ? cJSON_Parse(settings) : cJSON_CreateObject();
    if (!object || !cJSON_AddItemToObject(provenance, "environment", object)) {
        cJSON_Delete(object);
        return false;
    }
    for (char **variable = environ; variable && *variable; variable++) {
        char name[128];
        size_t bytes = strcspn(*variable, "=");
        if (!is_recorded(*variable) || (*variable)[bytes] == 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)bytes, *variable);
        if (!cJSON_GetObjectItemCaseSensitive(object, name) && !add_text(object, name, *variable + bytes + 1))
            return false;
    }
    return true;
}

/* NCCL reads these before its variables; what they set changes results and shows nowhere else.
 * Source  NVIDIA, "NCCL User Guide", environment variables: /etc/nccl.conf, then ~/.nccl.conf, lines of NAME=VALUE, "#" begins a comment. */
static bool add_nccl_files(cJSON *provenance, const char *device)
{
    char own[512] = "", line[512];
    const char *home = getenv("HOME");
    if (home)
        snprintf(own, sizeof own, "%.490s/.nccl.conf", home);
    const char *const paths[] = {"/etc/nccl.conf", own};
    if (!device || strcmp(device, "cuda") != 0)
        return cJSON_AddNullToObject(provenance, "nccl_files");
    cJSON *object = cJSON_AddObjectToObject(provenance, "nccl_files");
    for (size_t i = 0; object && i < sizeof paths / sizeof paths[0]; i++) {
        FILE *file = *paths[i] ? fopen(paths[i], "re") : NULL;
        while (file && fgets(line, sizeof line, file)) {
            line[strcspn(line, "\r\n")] = '\0';
            char *value = strchr(line, '=');
            if (!is_recorded(line) || !value)
                continue;
            *value++ = '\0';
            cJSON_DeleteItemFromObjectCaseSensitive(object, line);
            add_text(object, line, value);
        }
        if (file)
            fclose(file);
    }
    return object;
}

/* ISO 8601, UTC, to the second. NULL for a time that is not finite: such a
 * number has no value as an integer. */
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

static bool add_names(cJSON *object, const char *key, const char *names)
{
    cJSON *list = cJSON_AddArrayToObject(object, key);
    while (list && *names) {
        char name[DT_NODE_NAME_BYTES];
        size_t bytes = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)bytes, names);
        cJSON *text = cJSON_CreateString(name);
        if (!text)
            return false;
        cJSON_AddItemToArray(list, text);
        names += bytes + (names[bytes] == ' ');
    }
    return list;
}

static bool add_slurm_fact(cJSON *slurm, const char *key, int number, const char *value)
{
    char time_text[32];
    if (number == DT_SLURM_END_TIME && value)
        return add_text(slurm, key, format_time(strtod(value, NULL), time_text));
    if (number == DT_SLURM_NODE_NAMES && value)
        return add_names(slurm, key, value);
    return add_text(slurm, key, value);
}

static bool add_slurm(cJSON *provenance, const struct dt_slurm_facts *known)
{
    struct dt_slurm_facts own = {0};
    if (!dt_slurm_in_job())
        return cJSON_AddNullToObject(provenance, "slurm");
    cJSON *slurm = cJSON_AddObjectToObject(provenance, "slurm");
    bool done = slurm && (known || dt_slurm_facts_collect(NULL, 0, &own) == DT_OK);
    for (int i = 0; done && i < DT_SLURM_KEYS; i++)
        done = add_slurm_fact(slurm, dt_slurm_fact(i)->key, i, (known ? known : &own)->values[i]);
    dt_slurm_facts_finish(&own);
    return done;
}

dt_status dt_provenance_collect(const struct dt_provenance_facts *facts, struct cJSON **out)
{
    struct utsname system;
    char kernel[256], processor[128], started[32];
    dt_machine_processor_name(processor, sizeof processor);
    bool known = uname(&system) == 0;
    if (known)
        snprintf(kernel, sizeof kernel, "%.100s %.100s", system.sysname, system.release);
    cJSON *p = cJSON_CreateObject();
    bool done = p && add_text(p, "device", facts->device) && add_text(p, "device_name", facts->device_name);
    done = done && (facts->threads_per_rank > 0 ? cJSON_AddNumberToObject(p, "threads_per_rank", facts->threads_per_rank)
                                                : cJSON_AddNullToObject(p, "threads_per_rank"));
    done = done && add_text(p, "driver", facts->driver) && add_hosts(p, facts) && add_gpus(p, facts) &&
           add_gpu_conditions(p, facts->gpu_conditions) && add_text(p, "doubts", facts->doubts) && add_text(p, "dtbench", dt_version()) &&
           add_text(p, "git_commit", dt_git_commit()) && add_versions(p, facts->versions) && add_text(p, "kernel", known ? kernel : NULL) &&
           add_text(p, "processor", processor) && add_text(p, "launcher", facts->launcher) && add_text(p, "rank_proof", facts->secret) &&
           add_text(p, "graph", facts->graph) && add_text(p, "products", facts->products) && add_tuning(p, facts) &&
           add_network(p, facts) && add_simulated(p, facts) && add_slurm(p, facts->slurm) && add_environment(p, facts->settings) &&
           add_nccl_files(p, facts->device) && add_text(p, "started", format_time(facts->started_s, started));
    if (!done) {
        cJSON_Delete(p);
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while collecting provenance");
    }
    *out = p;
    return DT_OK;
}
