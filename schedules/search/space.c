#include "schedules/search/space.h"

#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct axis_value {
    char text[SPACE_VALUE_BYTES];
    unsigned char bytes[SPACE_VALUE_BYTES]; /* as in struct experiment */
    bool forbidden;
};

/* What a row of the table proposes its values with. */
struct proposal {
    const struct space *space;
    const struct experiment *experiment; /* with the values of earlier axes */
    char texts[SPACE_VALUES][SPACE_VALUE_BYTES];
    int count;
};

struct axis_row {
    const char *key;
    bool (*concerns)(const struct space *space, const struct experiment *experiment);
    void (*propose)(struct proposal *proposal);
};

struct axis {
    const char *key;
    const struct dt_field *field;
    const struct axis_row *row; /* NULL: of the caller alone */
    struct axis_value values[SPACE_VALUES];
    int count;   /* of values that are known so far */
    int allowed; /* only the first so many may be taken; 0: what the row proposes */
};

struct space {
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct space_request *request;
    int ranks_per_node;
    struct axis axes[SPACE_AXES];
    int axis_count;
    struct candidate *candidates; /* [count] */
    int count, room;
    char refusal[512]; /* why the last combination was no experiment */
};

/* ---- what is proposed ---- */

static void propose(struct proposal *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void propose(struct proposal *p, const char *format, ...)
{
    va_list arguments;
    if (p->count == SPACE_VALUES)
        return;
    va_start(arguments, format);
    vsnprintf(p->texts[p->count++], SPACE_VALUE_BYTES, format, arguments);
    va_end(arguments);
}

static void propose_all(struct proposal *p, const char *const *texts)
{
    for (; *texts; texts++)
        propose(p, "%s", *texts);
}

/* 1, 2, 4, ... up to the limit, and the limit itself. */
static void propose_powers(struct proposal *p, int first, int limit)
{
    int n = first;
    for (; n < limit; n *= 2)
        propose(p, "%d", n);
    if (n >= limit && limit >= first)
        propose(p, "%d", limit);
}

/* Sizes of groups of ranks: divisors of the world that fill nodes evenly, or are divided evenly by them. */
static void propose_group_sizes(struct proposal *p, int most)
{
    int tensor = p->experiment->tensor.size, world = p->experiment->world_size / tensor;
    int node = p->space->ranks_per_node % tensor == 0 ? p->space->ranks_per_node / tensor : 1;
    for (int n = 2; n <= most; n++)
        if (world % n == 0 && (node % n == 0 || n % node == 0))
            propose(p, "%d", n);
}

static bool always(const struct space *s, const struct experiment *e)
{
    return true;
}

static bool reads_key(const struct experiment *e, const char *key)
{
    return paradigm_has_key(paradigm_of(e->paradigm), key);
}

/* Is the key of all paradigms, or one of this paradigm's? */
static bool concerns_paradigm(const struct experiment *e, const char *key)
{
    bool special = false;
    for (int i = 0; i < PARADIGM_COUNT; i++)
        special |= paradigm_has_key(paradigm_of((enum paradigm_kind)i), key);
    return !special || reads_key(e, key);
}

static bool on_fewer_nodes(const struct space *s, const struct experiment *e)
{
    return s->request->any_nodes;
}

static void propose_worlds(struct proposal *p)
{
    int world = p->space->base->world_size, node = p->space->ranks_per_node;
    for (int n = node; n < world; n *= 2)
        if (n < world)
            propose(p, "%d", n);
    propose(p, "%d", world);
}

/* data_parallel and parameter_server are of the past: who wants to see them allows them. */
static void propose_paradigms(struct proposal *p)
{
    static const enum paradigm_kind of_today[] = {PARADIGM_DDP, PARADIGM_ZERO1, PARADIGM_ZERO2, PARADIGM_FSDP, PARADIGM_HSDP, PARADIGM_PDP};
    if (p->experiment->world_size == 1) {
        propose(p, "%s", paradigm_name(PARADIGM_NONE));
        return;
    }
    for (size_t i = 0; i < sizeof of_today / sizeof *of_today; i++)
        propose(p, "%s", paradigm_name(of_today[i]));
}

static bool has_shard_groups(const struct space *s, const struct experiment *e)
{
    return reads_key(e, "hsdp.shard_size");
}

/* One rank would be ddp, all of them fsdp. */
static void propose_shard_sizes(struct proposal *p)
{
    propose_group_sizes(p, p->experiment->world_size / p->experiment->tensor.size / 2);
}

static bool is_pipelined(const struct space *s, const struct experiment *e)
{
    return experiment_stages(e) > 1;
}

/* ddp with stages is pdp, and zero2 differs from zero1 in gradients that a pipeline keeps to its end; fsdp and hsdp would gather for each of
 * its many micro-batches what a stage could as well keep. zero1 divides an optimizer's state, where there is one. Who wants to see the others
 * allows them. */
static bool may_be_pipelined(const struct space *s, const struct experiment *e)
{
    bool divides = e->paradigm == PARADIGM_ZERO1 && e->optimizer.name == OPTIMIZER_ADAM;
    return e->world_size > 1 && (e->paradigm == PARADIGM_PDP || divides);
}

static bool has_several_ranks(const struct space *s, const struct experiment *e)
{
    return e->world_size > 1;
}

/* Of a node: each layer's activations travel between them. */
static void propose_tensor_sizes(struct proposal *p)
{
    const struct dt_model *model = &p->experiment->model;
    propose(p, "1");
    for (int n = 2; n <= p->space->ranks_per_node; n *= 2)
        if (p->space->ranks_per_node % n == 0 &&
            model->family->check_tensor_group(model, n, p->experiment->tensor.sequence_parallel) == DT_OK)
            propose(p, "%d", n);
}

static void propose_stages(struct proposal *p)
{
    if (p->experiment->paradigm != PARADIGM_PDP)
        propose(p, "1");
    propose_group_sizes(p, p->experiment->model.layers);
}

static void propose_choices(struct proposal *p, const char *key, const char *but)
{
    const struct dt_field *field = &experiment_table()->fields[dt_config_find(experiment_table(), key)];
    for (int i = 0; field->choice(i); i++)
        if (!but || strcmp(field->choice(i), but) != 0)
            propose(p, "%s", field->choice(i));
}

/* zb_auto is a search of its own. */
static void propose_orders(struct proposal *p)
{
    propose_choices(p, "pipeline.order", "zb_auto");
}

static bool has_stages_on_nodes(const struct space *s, const struct experiment *e)
{
    return is_pipelined(s, e) && e->world_size > s->ranks_per_node && experiment_stages(e) * e->tensor.size < e->world_size;
}

/* Stages beside each other, or data-parallel ranks. */
static void propose_mesh_orders(struct proposal *p)
{
    propose(p, "%s", mesh_order_name(MESH_TENSOR_PIPELINE_DATA));
    propose(p, "%s", mesh_order_name(MESH_TENSOR_DATA_PIPELINE));
}

static void propose_batches(struct proposal *p)
{
    const struct space_request *request = p->space->request;
    if (request->global_batch > 0)
        propose(p, "%d", request->global_batch / p->experiment->world_size);
    else
        propose_powers(p, 1, request->max_batch);
}

static bool accumulates(const struct space *s, const struct experiment *e)
{
    return !is_pipelined(s, e); /* a pipeline's chunks are micro-batches already */
}

/* Divisors, so that micro-batches are equal. */
static void propose_micro_batches(struct proposal *p)
{
    for (int n = 1; n <= p->experiment->batch_size; n *= 2)
        if (p->experiment->batch_size % n == 0)
            propose(p, "%d", n);
}

/* From one for each stage, which a pipeline needs to be full for a moment, to eight: what is left of its bubble is then a tenth. */
static void propose_chunks(struct proposal *p)
{
    int stages = experiment_stages(p->experiment), samples = stages * p->experiment->tensor.size * p->experiment->batch_size;
    int most = 8 * stages;
    for (int n = stages; n <= most && n <= samples; n *= 2)
        if (samples % n == 0)
            propose(p, "%d", n);
}

static void propose_activations(struct proposal *p)
{
    propose_choices(p, "activation", NULL);
}

/* Of a pipeline each micro-batch would fetch the stage anew. */
static bool may_offload(const struct space *s, const struct experiment *e)
{
    return !is_pipelined(s, e);
}

static void propose_offload(struct proposal *p)
{
    propose_all(p, (const char *const[]){"false", "true", NULL});
}

/* A framework that gathers inner layers does so whatever the key says. */
static bool has_units(const struct space *s, const struct experiment *e)
{
    return reads_key(e, "fsdp.unit") && !s->machine->profile.schedule.gathers_layers;
}

static void propose_units(struct proposal *p)
{
    propose_all(p, (const char *const[]){"block", "linear", NULL});
}

static bool has_buckets(const struct space *s, const struct experiment *e)
{
    return reads_key(e, "ddp.bucket_mib") && e->world_size > 1 && !is_pipelined(s, e); /* a pipeline reduces when it is drained */
}

static bool gathers_often(const struct space *s, const struct experiment *e)
{
    return reads_key(e, "fsdp.gather") && e->micro_batches * (is_pipelined(s, e) ? e->pipeline.chunks : 1) > 1;
}

static void propose_gathers(struct proposal *p)
{
    propose_choices(p, "fsdp.gather", NULL);
}

/* The usual size, and one that spends less on the start of each collective. */
static void propose_buckets(struct proposal *p)
{
    propose_all(p, (const char *const[]){"25", "100", NULL});
}

/* ---- the table ---- */

static const struct axis_row rows[] = {
    {"world_size", on_fewer_nodes, propose_worlds},
    {"paradigm", always, propose_paradigms},
    {"tensor.size", has_several_ranks, propose_tensor_sizes},
    {"hsdp.shard_size", has_shard_groups, propose_shard_sizes},
    {"pipeline.stages", may_be_pipelined, propose_stages},
    {"mesh.order", has_stages_on_nodes, propose_mesh_orders},
    {"pipeline.order", is_pipelined, propose_orders},
    {"batch_size", always, propose_batches},
    {"micro_batches", accumulates, propose_micro_batches},
    {"pipeline.chunks", is_pipelined, propose_chunks},
    {"activation", always, propose_activations},
    {"parameter_offload", may_offload, propose_offload},
    {"fsdp.unit", has_units, propose_units},
    {"fsdp.gather", gathers_often, propose_gathers},
    {"ddp.bucket_mib", has_buckets, propose_buckets},
};

enum { ROWS = sizeof rows / sizeof *rows };

/* ---- values ---- */

/* Of the field, as far as values reach: texts are short. */
static size_t bytes_of(const struct axis *axis)
{
    return axis->field->size < SPACE_VALUE_BYTES ? axis->field->size : SPACE_VALUE_BYTES;
}

/* The value's bytes, found as a config's reader finds them. */
static dt_status read_value(const struct axis *axis, const char *text, const char *option, struct axis_value *out)
{
    const struct dt_table *table = experiment_table();
    char assignment[256], where[64], error[512];
    struct cJSON *object = NULL;
    *out = (struct axis_value){0};
    if (strlen(text) >= sizeof out->text)
        return dt_fail(DT_ERR_INVALID, "--%s %s: \"%.80s\" is too long a value", option, axis->key, text);
    struct experiment *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    snprintf(assignment, sizeof assignment, "%.120s=%.120s", axis->key, text);
    snprintf(where, sizeof where, "--%s", option);
    dt_status status = dt_json_parse("{}", 2, where, &object);
    if (status == DT_OK)
        status = dt_config_set(table, object, assignment);
    if (status == DT_OK)
        status = dt_config_read(table, object, where, scratch, NULL);
    if (status == DT_OK) {
        memcpy(out->bytes, (const char *)scratch + axis->field->offset, bytes_of(axis));
        snprintf(out->text, sizeof out->text, "%s", text);
    }
    dt_json_destroy(object);
    free(scratch);
    if (status < 0 && strncmp(dt_error_message(), "--set ", 6) == 0) { /* the reader's word for it is another option's */
        snprintf(error, sizeof error, "%s", dt_error_message() + 6);
        return dt_fail(status, "--%s %s", option, error);
    }
    return status;
}

/* The number of the value with this text, from 1; a new one is added. */
static dt_status value_number(struct axis *axis, const char *text, const char *option, int *out)
{
    for (*out = 1; *out <= axis->count; ++*out)
        if (strcmp(axis->values[*out - 1].text, text) == 0)
            return DT_OK;
    if (axis->count == SPACE_VALUES)
        return dt_fail(DT_ERR_INVALID, "--%s %s: more than %d values", option, axis->key, SPACE_VALUES);
    DT_TRY(read_value(axis, text, option, &axis->values[axis->count]));
    for (*out = 1; *out <= axis->count; ++*out) /* 25 and 25.0 are one */
        if (memcmp(axis->values[*out - 1].bytes, axis->values[axis->count].bytes, bytes_of(axis)) == 0)
            return DT_OK;
    *out = ++axis->count;
    return DT_OK;
}

static void apply(const struct axis *axis, int number, struct experiment *e)
{
    if (number > 0)
        memcpy((char *)e + axis->field->offset, axis->values[number - 1].bytes, bytes_of(axis));
}

/* ---- requests ---- */

/* The axis of "KEY=...", a new one where no row has the key. */
static dt_status find_axis(struct space *s, const char *option, const char *request, struct axis **out)
{
    const struct dt_table *table = experiment_table();
    char key[96];
    size_t bytes = strcspn(request, "=");
    if (!request[bytes] || !request[bytes + 1] || bytes == 0 || bytes >= sizeof key)
        return dt_fail(DT_ERR_INVALID, "--%s %.80s: expected KEY=VALUE, or KEY=VALUE,VALUE", option, request);
    snprintf(key, sizeof key, "%.*s", (int)bytes, request);
    for (int i = 0; i < s->axis_count; i++)
        if (strcmp(s->axes[i].key, key) == 0) {
            *out = &s->axes[i];
            return DT_OK;
        }
    int index = dt_config_find(table, key);
    if (index < 0) { /* the reader knows the nearest key */
        struct axis unknown = {.key = key, .field = &table->fields[0]};
        struct axis_value value;
        DT_TRY(read_value(&unknown, request + bytes + 1, option, &value));
        return dt_fail(DT_ERR_INVALID, "--%s %.80s: is not one key", option, request);
    }
    bool varies = table->fields[index].size <= SPACE_VALUE_BYTES || (table->fields[index].choice && !table->fields[index].words);
    if (s->axis_count == SPACE_AXES || !varies)
        return dt_fail(DT_ERR_INVALID, "--%s %.80s: cannot be varied here; --set changes it for all candidates", option, request);
    *out = &s->axes[s->axis_count++];
    **out = (struct axis){.key = table->fields[index].path, .field = &table->fields[index]};
    return DT_OK;
}

/* The next of "a,b,c" at *rest; false past the last. */
static bool next_value(const char **rest, char text[SPACE_VALUE_BYTES])
{
    if (!**rest)
        return false;
    size_t bytes = strcspn(*rest, ",");
    snprintf(text, SPACE_VALUE_BYTES, "%.*s", (int)bytes, *rest);
    *rest += bytes + ((*rest)[bytes] == ',');
    return true;
}

static dt_status restrict_axis(struct space *s, const char *option, const char *request)
{
    char text[SPACE_VALUE_BYTES];
    struct axis *axis;
    int number;
    DT_TRY(find_axis(s, option, request, &axis));
    for (const char *rest = strchr(request, '=') + 1; next_value(&rest, text);) {
        DT_TRY(value_number(axis, text, option, &number));
        if (strcmp(option, "forbid") == 0)
            axis->values[number - 1].forbidden = true;
        else
            axis->allowed = axis->count;
    }
    if (strcmp(option, "fix") == 0 && axis->allowed != 1)
        return dt_fail(DT_ERR_INVALID, "--fix %.80s: one value; --allow takes several", request);
    return DT_OK;
}

/* Allowed values come first, so that they are the first ones of their axis. */
static dt_status apply_requests(struct space *s)
{
    const struct space_request *r = s->request;
    if (*s->base->pipeline.activation)
        return dt_fail(DT_ERR_INVALID,
                       "pipeline.activation: candidates have one policy for all parts of a rank, activation; leave this key out");
    for (int i = 0; i < r->fix_count; i++)
        DT_TRY(restrict_axis(s, "fix", r->fix[i]));
    for (int i = 0; i < r->allow_count; i++)
        DT_TRY(restrict_axis(s, "allow", r->allow[i]));
    for (int i = 0; i < r->forbid_count; i++)
        DT_TRY(restrict_axis(s, "forbid", r->forbid[i]));
    return DT_OK;
}

/* ---- all combinations ---- */

/* What stands before any value: no pipeline, and whatever has stages has one. */
static void begin(const struct space *s, struct experiment *e)
{
    *e = *s->base;
    e->pipeline.stages = 1;
    e->pipeline.paradigms = PIPELINE_OF_ALL;
}

/* What follows from the values: groups that belong on one node may lie on several, where they do. */
static void complete(const struct space *s, struct experiment *e)
{
    struct mesh_shape mesh = experiment_mesh(e);
    for (int axis = 0; axis < MESH_AXES; axis++) {
        int reach = mesh_moved(&mesh, (enum mesh_axis)axis, 0, mesh.size[axis] - 1) + 1;
        if (experiment_node_key(e, (enum mesh_axis)axis) && reach > s->ranks_per_node)
            e->straddle_nodes = true;
    }
    if (e->paradigm == PARADIGM_PDP || e->pipeline.stages == 1) /* as experiment_resolve has it */
        e->pipeline.paradigms = PIPELINE_OF_PDP;
}

static dt_status keep(struct space *s, const struct candidate *candidate, const struct experiment *e)
{
    if (experiment_check(e, "") < 0) {
        snprintf(s->refusal, sizeof s->refusal, "%.500s", dt_error_message() + strspn(dt_error_message(), ": "));
        return DT_OK;
    }
    if (s->count == s->room) {
        int room = s->room ? 2 * s->room : 4096;
        struct candidate *grown = realloc(s->candidates, (size_t)room * sizeof *grown);
        if (!grown)
            return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d candidates", room);
        s->candidates = grown;
        s->room = room;
    }
    s->candidates[s->count++] = *candidate;
    return DT_OK;
}

static dt_status combine(struct space *s, int number, struct candidate *candidate, struct experiment *e);

static dt_status take(struct space *s, int number, int value, struct candidate *candidate, struct experiment *e)
{
    struct axis *axis = &s->axes[number];
    unsigned char before[SPACE_VALUE_BYTES];
    if (axis->values[value - 1].forbidden)
        return DT_OK;
    memcpy(before, (const char *)e + axis->field->offset, bytes_of(axis));
    apply(axis, value, e);
    candidate->values[number] = (uint8_t)value;
    dt_status status = combine(s, number + 1, candidate, e);
    candidate->values[number] = 0;
    memcpy((char *)e + axis->field->offset, before, bytes_of(axis));
    return status;
}

static dt_status take_proposed(struct space *s, int number, struct candidate *candidate, struct experiment *e)
{
    struct axis *axis = &s->axes[number];
    struct proposal *p = malloc(sizeof *p);
    int value;
    if (!p)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a space");
    *p = (struct proposal){.space = s, .experiment = e};
    axis->row->propose(p);
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < p->count; i++) {
        status = value_number(axis, p->texts[i], "allow", &value);
        if (status == DT_OK)
            status = take(s, number, value, candidate, e);
    }
    free(p);
    return status;
}

/* Every combination of the axes from `number` on. */
static dt_status combine(struct space *s, int number, struct candidate *candidate, struct experiment *e)
{
    struct axis *axis = &s->axes[number];
    if (number == s->axis_count)
        return keep(s, candidate, e);
    if (axis->allowed == 0) {
        bool proposed = axis->row && axis->row->concerns(s, e); /* forbidden values alone make no axis */
        return proposed ? take_proposed(s, number, candidate, e) : combine(s, number + 1, candidate, e);
    }
    if (!concerns_paradigm(e, axis->key))
        return combine(s, number + 1, candidate, e);
    for (int value = 1; value <= axis->allowed; value++)
        DT_TRY(take(s, number, value, candidate, e));
    return DT_OK;
}

static dt_status check_batch(const struct space *s)
{
    int world = s->base->world_size, batch = s->request->global_batch;
    if (batch <= 0 || batch % world == 0)
        return DT_OK;
    if (batch < world)
        return dt_fail(DT_ERR_INVALID, "--global-batch %d: %d GPUs have at least a sample each; the smallest is %d", batch, world, world);
    return dt_fail(DT_ERR_INVALID, "--global-batch %d: %d GPUs cannot divide it; %d or %d they can", batch, world, batch / world * world,
                   (batch / world + 1) * world);
}

static dt_status enumerate(struct space *s)
{
    struct candidate candidate = {{0}};
    struct experiment *e = malloc(sizeof *e);
    if (!e)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    begin(s, e);
    dt_status status = combine(s, 0, &candidate, e);
    free(e);
    DT_TRY(status);
    if (s->count > 0)
        return DT_OK;
    return *s->refusal ? dt_fail(DT_ERR_INVALID, "nothing is left to choose from: %s", s->refusal)
                       : dt_fail(DT_ERR_INVALID, "nothing is left to choose from: --fix, --allow and --forbid exclude everything");
}

dt_status space_create(const struct experiment *base, const struct simulated_machine *machine, const struct space_request *request,
                       struct space **out)
{
    struct space *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a space");
    *s = (struct space){.base = base, .machine = machine, .request = request, .axis_count = ROWS};
    s->ranks_per_node = base->gpus_per_node > 0 ? base->gpus_per_node : machine->cluster.gpus_per_node;
    if (s->ranks_per_node > base->world_size)
        s->ranks_per_node = base->world_size;
    for (int i = 0; i < ROWS; i++) {
        const struct dt_table *table = experiment_table();
        s->axes[i] = (struct axis){.key = rows[i].key, .row = &rows[i], .field = &table->fields[dt_config_find(table, rows[i].key)]};
    }
    dt_status status = check_batch(s);
    if (status == DT_OK)
        status = apply_requests(s);
    if (status == DT_OK)
        status = enumerate(s);
    if (status < 0) {
        space_destroy(s);
        return status;
    }
    *out = s;
    return DT_OK;
}

void space_destroy(struct space *s)
{
    if (!s)
        return;
    free(s->candidates);
    free(s);
}

/* ---- asking ---- */

int space_count(const struct space *s)
{
    return s->count;
}

const struct candidate *space_candidate(const struct space *s, int index)
{
    return &s->candidates[index];
}

void space_experiment(const struct space *s, const struct candidate *candidate, struct experiment *out)
{
    begin(s, out);
    for (int i = 0; i < s->axis_count; i++)
        apply(&s->axes[i], candidate->values[i], out);
    complete(s, out);
}

const char *space_axis_key(const struct space *s, int axis)
{
    return axis >= 0 && axis < s->axis_count ? s->axes[axis].key : NULL;
}

int space_paradigm_count(const struct space *s, enum paradigm_kind paradigm)
{
    struct experiment *e = malloc(sizeof *e);
    int count = 0;
    for (int i = 0; e && i < s->count; i++) {
        space_experiment(s, &s->candidates[i], e);
        count += e->paradigm == paradigm;
    }
    free(e);
    return count;
}
