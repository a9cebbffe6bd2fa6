#include "test/fuzz/targets.h"

#include "cli/records/records.h"
#include "cli/records/results.h"
#include "lib/base/csv.h"
#include "lib/base/text.h"
#include "lib/config/json.h"
#include "lib/launch/launch.h"
#include "lib/launch/launch_parts.h"
#include "lib/rendezvous/internal.h"
#include "lib/sim/cluster.h"
#include "lib/tensors/safetensors.h"
#include "lib/tensors/tensor_part.h"
#include "predict/profile.h"
#include "schedules/config/families.h"
#include "schedules/config/parse.h"
#include "schedules/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* End the program like a sanitizer if a condition does not hold. */
static void require(bool holds)
{
    if (!holds)
        abort();
}

static char *text_of(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    require(text != NULL);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    return text;
}

/* ---- documents ---- */

/* Is the sweep large? Large sweeps take long, and show no more than small ones. */
static bool is_large_sweep(const char *text, size_t bytes)
{
    enum { LARGE = 200 };
    struct cJSON *config;
    struct dt_sweep sweep;
    if (dt_json_parse(text, bytes, "fuzz", &config) < 0)
        return false;
    bool large = dt_sweep_init(experiment_table(), config, "fuzz", &sweep) == DT_OK && sweep.combinations > LARGE;
    dt_json_destroy(config);
    return large;
}

/* A config that was read is written, and must be read again as the same. */
static void run_config(const uint8_t *data, size_t bytes)
{
    enum { WRITTEN = 20 };
    char *text = text_of(data, bytes), *written;
    struct experiment *experiments, *again;
    int count, one;
    if (!is_large_sweep(text, bytes) && experiments_parse(text, bytes, "fuzz", NULL, 0, &experiments, &count) == DT_OK) {
        for (int i = 0; i < count && i < WRITTEN; i++) {
            require(dt_is_printable(experiments[i].name));
            require(experiment_to_json(&experiments[i], 0, &written) == DT_OK);
            require(experiments_parse(written, strlen(written), "written", NULL, 0, &again, &one) == DT_OK && one == 1);
            require(strcmp(again->hash, experiments[i].hash) == 0);
            free(again);
            free(written);
        }
        free(experiments);
    }
    free(text);
}

static bool want_all(const void *context, const char *name)
{
    return true;
}

/* The same records as a table of values: read every value. */
static void run_results(const char *const *arguments)
{
    struct results *results;
    char number[32];
    require(results_create(want_all, NULL, &results) == DT_OK);
    (void)results_read(results, "fuzz", arguments, 1);
    for (int c = 0; c < results_columns(results); c++)
        for (int r = 0; r < results_count(results); r++)
            require(results_same(results, r, r, c) && results_text(results, r, c, number) && results_kind(results, r, c) <= RESULT_TRUTH);
    results_destroy(results);
}

/* Records are read from a file: one in memory, which is used again. */
static void run_record(const uint8_t *data, size_t bytes)
{
    char path[32];
    const char *const arguments[] = {path};
    int fd = memfd_create("records", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct record_set set;
    if (record_set_read(&set, "fuzz", arguments, 1) == DT_OK) {
        int *chosen = calloc((size_t)set.count + 1, sizeof *chosen), count;
        require(chosen && record_set_newest(&set, chosen, &count) == DT_OK && count <= set.count);
        free(chosen);
    }
    record_set_finish(&set);
    run_results(arguments);
    close(fd);
}

static void run_cluster(const uint8_t *data, size_t bytes)
{
    char *text = text_of(data, bytes);
    struct dt_sim_cluster cluster;
    (void)dt_sim_cluster_parse(text, bytes, "fuzz", &cluster);
    free(text);
}

static void run_tuning(const uint8_t *data, size_t bytes)
{
    char *text = text_of(data, bytes);
    const struct dt_tuner *tuner = model_family(0)->tuner;
    struct dt_tuning *tuning;
    require(tuner->create(&tuning) == DT_OK);
    (void)tuner->read(tuning, "fuzz", text);
    tuner->destroy(tuning);
    free(text);
}

static void run_profile(const uint8_t *data, size_t bytes)
{
    char *text = text_of(data, bytes);
    struct dt_profile profile;
    (void)profile_parse(text, bytes, "fuzz", &profile);
    free(text);
}

static void run_csv(const uint8_t *data, size_t bytes)
{
    char *text = text_of(data, bytes);
    struct dt_csv csv;
    if (dt_csv_parse(text, bytes, "fuzz", &csv) == DT_OK)
        for (int row = 0; row < csv.row_count; row++)
            for (int column = 0; column < csv.column_count; column++)
                require(dt_csv_field(&csv, row, column) != NULL);
    dt_csv_finish(&csv);
    free(text);
}

static void run_node_list(const uint8_t *data, size_t bytes)
{
    char *text = text_of(data, bytes), *lines, first[DT_NODE_NAME_BYTES];
    int count;
    if (dt_node_list_expand(text, &lines, &count) == DT_OK) {
        require(count <= DT_NODE_LIST_MAX);
        require(count == 0 || (dt_node_list_first(text, first) == DT_OK && strncmp(first, lines, strlen(first)) == 0));
        free(lines);
    }
    free(text);
}

/* ---- what comes over sockets ---- */

/* The first byte chooses which end reads. */
static void run_wire(const uint8_t *data, size_t bytes)
{
    struct dt_wire_message message;
    if (bytes == 0)
        return;
    struct dt_wire_reader reader = {.end = data[0] % 2 ? DT_WIRE_SUPERVISOR : DT_WIRE_RANK, .passed_fd = -1};
    reader.data = malloc(bytes);
    require(reader.data != NULL);
    memcpy(reader.data, data + 1, bytes - 1);
    reader.used = reader.capacity = bytes - 1;
    while (dt_wire_next(&reader, &message) > 0)
        require(message.length < bytes && strlen(message.text) <= message.length);
    dt_wire_finish(&reader);
}

enum { RANKS = 5 };

/* A rendezvous after its meeting, without connections and without its thread. */
static void rendezvous_init(struct dt_rendezvous *r, int rank, enum dt_link_state states[RANKS], enum dt_frame_fault faults[RANKS],
                            int turns[RANKS], struct dt_link links[RANKS])
{
    *r = (struct dt_rendezvous){.rank = rank, .size = RANKS, .states = states, .faults = faults, .turns = turns, .links = links};
    pthread_mutex_init(&r->mutex, NULL);
    pthread_mutex_init(&r->sending, NULL);
    pthread_mutex_init(&r->routing, NULL);
    pthread_cond_init(&r->changed, NULL);
    for (int i = 0; i < RANKS; i++)
        links[i] =
            (struct dt_link){.fd = -1, .reader = {.hub = rank == 0, .met = true, .rank = (uint32_t)(rank ? rank : i), .size = RANKS}};
}

static void rendezvous_finish(struct dt_rendezvous *r)
{
    dt_rendezvous_hub_finish(r);
    while (r->letters) {
        struct letter *letter = r->letters;
        r->letters = letter->next;
        free(letter);
    }
    free(r->failure);
    for (int i = 0; i < RANKS; i++)
        dt_link_close(&r->links[i]);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    pthread_mutex_destroy(&r->sending);
    pthread_mutex_destroy(&r->routing);
}

/* The first byte chooses who reads, rank 0 or another; then each rank in turn sends part of the
 * bytes. */
static void run_frame(const uint8_t *data, size_t bytes)
{
    enum dt_link_state states[RANKS] = {DT_LINK_HERE};
    enum dt_frame_fault faults[RANKS] = {DT_FRAME_FINE};
    int turns[RANKS] = {0};
    struct dt_link links[RANKS];
    struct dt_rendezvous r;
    struct dt_frame frame;
    const char *payload;
    bool hub = bytes > 0 && data[0] % 2 == 0;
    rendezvous_init(&r, hub ? 0 : 3, states, faults, turns, links);
    for (int from = 1; bytes > 1 && from < (hub ? RANKS : 2); from++) {
        size_t part = (bytes - 1) / (hub ? RANKS - 1 : 1);
        struct dt_link *link = &links[hub ? from : 0];
        link->data = malloc(part + 1);
        require(link->data != NULL);
        memcpy(link->data, data + 1 + (size_t)(from - 1) * part, part);
        link->used = link->capacity = part;
        while (dt_link_next(link, &frame, &payload)) {
            require(frame.bytes <= part && frame.index < RANKS);
            if (hub)
                dt_rendezvous_hub_handle(&r, from, &frame, payload);
            else
                dt_rendezvous_handle(&r, &frame, payload);
        }
        if (hub)
            dt_rendezvous_hub_lose(&r, from, DT_LINK_LOST, link->fault);
    }
    rendezvous_finish(&r);
}

/* ---- orders and plans ---- */

enum { MOST_STAGES = 8 };

static void finish_plans(struct plan plans[MOST_STAGES], int stages)
{
    for (int i = 0; i < stages; i++)
        plan_finish(&plans[i]);
}

/* Ranks and micro-batches are the first two bytes. */
static void run_order(const uint8_t *data, size_t bytes)
{
    struct plan plans[MOST_STAGES] = {0};
    struct order_layout layout;
    if (bytes < 2)
        return;
    char *text = text_of(data + 2, bytes - 2);
    int micro_batches = 1 + data[1] % 16;
    struct order_shape shape = {.stages = 1 + data[0] % MOST_STAGES,
                                .virtual_stages = 1,
                                .micro_batches = micro_batches,
                                .window = micro_batches,
                                .times = plan_unit_times,
                                .file = "fuzz.csv",
                                .text = text};
    if (order_file_layout(&shape, &layout) == DT_OK)
        (void)plans_make(pipeline_order_find(shape.file), &shape, plans);
    finish_plans(plans, shape.stages);
    free(text);
}

/* A shape in five bytes: all orders that have a name must make a plan of it that can be played, or
 * say why not. */
static void run_plan(const uint8_t *data, size_t bytes)
{
    struct plan plans[MOST_STAGES] = {0};
    int orders = 0;
    if (bytes < 6)
        return;
    while (pipeline_order_at(orders))
        orders++;
    int window = 1 + data[3] % 12, steps = 1 + data[4] % 3;
    struct order_shape shape = {.stages = 1 + data[1] % MOST_STAGES,
                                .virtual_stages = 1 + data[2] % 4,
                                .micro_batches = window * steps,
                                .window = window,
                                .memory_limit = data[5] % 32,
                                .times = plan_unit_times};
    if (plans_make(pipeline_order_at(data[0] % orders), &shape, plans) == DT_OK)
        for (int i = 0; i < shape.stages; i++)
            require(plan_assign_slots(&plans[i]) == DT_OK && plans[i].slots <= shape.micro_batches);
    finish_plans(plans, shape.stages);
}

/* A file of tensors, whose parts name each other's elements. */
static void run_tensors(const uint8_t *data, size_t bytes)
{
    char path[32], name[DT_TENSOR_NAME];
    struct dt_tensor_file file;
    struct dt_tensor_part part;
    int fd = memfd_create("tensors", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (dt_tensor_file_open(path, &file) == DT_OK) {
        for (int i = 0; i < file.count; i++) {
            const struct dt_tensor *tensor = &file.tensors[i];
            require(tensor->first_byte + tensor->bytes <= bytes &&
                    dt_tensor_elems(tensor) * dt_dtype_bytes(tensor->dtype) == tensor->bytes);
            if (dt_tensor_part_read(tensor->name, name, sizeof name, &part)) {
                uint64_t length, k, at = dt_tensor_part_at(&part, part.from, &length);
                require(length > 0 && dt_tensor_part_find(&part, at, &k, &length));
            }
        }
        dt_tensor_file_close(&file);
    }
    close(fd);
}

static const struct fuzz_target targets[] = {
    {"config", run_config}, {"record", run_record}, {"cluster", run_cluster},     {"profile", run_profile},
    {"tuning", run_tuning}, {"csv", run_csv},       {"node_list", run_node_list}, {"wire", run_wire},
    {"frame", run_frame},   {"order", run_order},   {"plan", run_plan},           {"tensors", run_tensors},
};
enum { TARGETS = sizeof targets / sizeof targets[0] };

const struct fuzz_target *fuzz_target_at(int index)
{
    return index < TARGETS ? &targets[index] : NULL;
}

const struct fuzz_target *fuzz_target_find(const char *name)
{
    for (int i = 0; i < TARGETS; i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    return NULL;
}
