#include "predict/search/search.h"

#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct axis_value {
    char text[SPACE_VALUE_BYTES];
    unsigned char bytes[SPACE_VALUE_BYTES]; /* in the format of struct experiment */
    bool forbidden;
};

struct axis {
    const char *key;
    const struct dt_field *field;
    const struct space_axis *row; /* NULL: an axis that the caller has made */
    struct axis_value values[SPACE_VALUES];
    int count;   /* values known so far */
    int allowed; /* number of values that may be chosen, from the first on; 0: those that the row proposes */
};

enum { SPACE_AXES = 32 };

/* An experiment: for each axis the number of its value, counted from 1; 0: the base's value. */
struct candidate {
    uint8_t values[SPACE_AXES];
};

struct space {
    struct space_scope scope;
    struct axis axes[SPACE_AXES];
    int axis_count;
    struct candidate *candidates; /* [count] */
    int count, room;
    char refusal[512]; /* why the last combination was not a valid experiment */
};

/* ---- values ---- */

/* Bytes of the field in a value: texts are shortened. */
static size_t bytes_of(const struct axis *axis)
{
    return axis->field->size < SPACE_VALUE_BYTES ? axis->field->size : SPACE_VALUE_BYTES;
}

/* Read the value's bytes with the config's reader. */
static dt_status read_value(const struct axis *axis, const char *text, const char *option, struct axis_value *out)
{
    const struct dt_table *table = experiment_table();
    char assignment[256], where[64], error[512];
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    struct experiment scratch = {0};
    *out = (struct axis_value){0};
    if (strlen(text) >= sizeof out->text)
        return dt_fail(DT_ERR_INVALID, "--%s %s: \"%.80s\" is too long a value", option, axis->key, text);
    snprintf(assignment, sizeof assignment, "%.120s=%.120s", axis->key, text);
    snprintf(where, sizeof where, "--%s", option);
    dt_status status = dt_json_parse("{}", 2, where, &object);
    DT_THEN(status, dt_config_set(table, object, assignment));
    DT_THEN(status, dt_config_read(table, object, where, &scratch, NULL));
    if (status == DT_OK) {
        memcpy(out->bytes, (const char *)&scratch + axis->field->offset, bytes_of(axis));
        snprintf(out->text, sizeof out->text, "%s", text);
    }
    if (status < 0 && strncmp(dt_error_message(), "--set ", 6) == 0) { /* replace the name of the option in the reader's text */
        snprintf(error, sizeof error, "%s", dt_error_message() + 6);
        return dt_fail(status, "--%s %s", option, error);
    }
    return status;
}

/* The number of the value with this text, from 1; a new value is added. */
static dt_status value_number(struct axis *axis, const char *text, const char *option, int *out)
{
    for (*out = 1; *out <= axis->count; ++*out)
        if (strcmp(axis->values[*out - 1].text, text) == 0)
            return DT_OK;
    if (axis->count == SPACE_VALUES)
        return dt_fail(DT_ERR_INVALID, "--%s %s: more than %d values", option, axis->key, SPACE_VALUES);
    DT_TRY(read_value(axis, text, option, &axis->values[axis->count]));
    for (*out = 1; *out <= axis->count; ++*out) /* 25 and 25.0 are the same value */
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

/* The axis of "KEY=..."; a new one if no row has the key. */
static dt_status find_axis(struct space *s, const char *option, const char *request, struct axis **out)
{
    const struct dt_table *table = experiment_table();
    char key[96];
    size_t bytes = strcspn(request, "=");
    bool has_value = request[bytes] && request[bytes + 1];
    if (bytes == 0 || bytes >= sizeof key)
        return dt_fail(DT_ERR_INVALID, "--%s %.80s: expected KEY=VALUE, or KEY=VALUE,VALUE", option, request);
    snprintf(key, sizeof key, "%.*s", (int)bytes, request);
    int index = dt_config_find(table, key);
    if (index < 0) { /* the config's reader suggests the nearest key */
        struct axis unknown = {.key = key, .field = &table->fields[0]};
        struct axis_value value;
        DT_TRY(read_value(&unknown, has_value ? request + bytes + 1 : "0", option, &value));
        return dt_fail(DT_ERR_INVALID, "--%s %.80s: not a single key", option, request);
    }
    if (!has_value)
        return dt_fail(DT_ERR_INVALID, "--%s %.80s: expected KEY=VALUE, or KEY=VALUE,VALUE", option, request);
    for (int i = 0; i < s->axis_count; i++)
        if (strcmp(s->axes[i].key, key) == 0) {
            *out = &s->axes[i];
            return DT_OK;
        }
    const struct dt_field *field = &table->fields[index];
    bool text = field->kind == DT_FIELD_STRING || field->kind == DT_FIELD_TEXT || field->kind == DT_FIELD_SETTINGS;
    bool varies = !text || (dt_field_has_choices(field) && !field->words);
    if (s->axis_count == SPACE_AXES || !varies)
        return dt_fail(DT_ERR_INVALID, "--%s %.80s: cannot be varied here; --set changes it for all candidates", option, request);
    *out = &s->axes[s->axis_count++];
    **out = (struct axis){.key = table->fields[index].path, .field = &table->fields[index]};
    return DT_OK;
}

/* The next value of "a,b,c" at *rest; false past the last. */
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

/* Allowed values become the first ones of their axis. */
static dt_status apply_requests(struct space *s)
{
    const struct space_request *r = s->scope.request;
    if (*s->scope.base->pipeline.activation)
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

/* The state before any value is chosen: no pipeline, and anything with stages has a pipeline. */
static void begin(const struct space *s, struct experiment *e)
{
    *e = *s->scope.base;
    e->pipeline.stages = 1;
    e->pipeline.paradigms = PIPELINE_OF_ALL;
    experiment_settle(e);
}

/* Set what follows from the values: groups that should be on one node may be on several if they do
 * not fit. */
static void complete(const struct space *s, struct experiment *e)
{
    experiment_settle(e);
    struct mesh_shape mesh = e->strategy.mesh;
    for (int axis = 0; axis < MESH_AXES; axis++) {
        int reach = mesh_moved(&mesh, (enum mesh_axis)axis, 0, mesh.size[axis] - 1) + 1;
        if (experiment_node_key(e, (enum mesh_axis)axis) && reach > s->scope.ranks_per_node)
            e->straddle_nodes = true;
    }
    if (e->paradigm == PARADIGM_PDP || e->pipeline.stages == 1) /* as in experiment_resolve */
        e->pipeline.paradigms = PIPELINE_OF_PDP;
}

static dt_status keep(struct space *s, const struct candidate *candidate, struct experiment *e)
{
    if (experiment_check(e, "") < 0) {
        snprintf(s->refusal, sizeof s->refusal, "%.500s", dt_error_message() + strspn(dt_error_message(), ": "));
        return DT_OK;
    }
    DT_TRY(dt_allocated(DT_ROOM(s->candidates, s->count, s->room), "no host memory for %d candidates", s->count + 1));
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
    experiment_settle(e);
    candidate->values[number] = (uint8_t)value;
    dt_status status = combine(s, number + 1, candidate, e);
    candidate->values[number] = 0;
    memcpy((char *)e + axis->field->offset, before, bytes_of(axis));
    experiment_settle(e);
    return status;
}

static dt_status take_proposed(struct space *s, int number, struct candidate *candidate, struct experiment *e)
{
    struct axis *axis = &s->axes[number];
    DT_FREED struct proposal *p = malloc(sizeof *p);
    int value;
    DT_TRY(dt_allocated(p, "no host memory for a space"));
    *p = (struct proposal){.scope = &s->scope, .experiment = e};
    if (axis->row->propose)
        axis->row->propose(p);
    for (const char *rest = axis->row->values; rest && next_value(&rest, p->texts[p->count]);)
        p->count++;
    for (int i = 0; i < p->count; i++) {
        DT_TRY(value_number(axis, p->texts[i], "allow", &value));
        DT_TRY(take(s, number, value, candidate, e));
    }
    return DT_OK;
}

/* Make every combination of the axes from `number` on. */
static dt_status combine(struct space *s, int number, struct candidate *candidate, struct experiment *e)
{
    struct axis *axis = &s->axes[number];
    if (number == s->axis_count)
        return keep(s, candidate, e);
    if (axis->allowed == 0) {
        const struct space_axis *row = axis->row; /* forbidden values alone do not make an axis */
        bool proposed = row && (row->propose || row->values) && (!row->concerns || row->concerns(&s->scope, e));
        return proposed ? take_proposed(s, number, candidate, e) : combine(s, number + 1, candidate, e);
    }
    if (!experiment_reads(e, axis->field))
        return combine(s, number + 1, candidate, e);
    for (int value = 1; value <= axis->allowed; value++)
        DT_TRY(take(s, number, value, candidate, e));
    return DT_OK;
}

static dt_status no_candidate(const struct space *s)
{
    int world = s->scope.base->world_size, batch = s->scope.request->global_batch;
    if (*s->refusal)
        return dt_fail(DT_ERR_INVALID, "no candidate is left: %s", s->refusal);
    if (batch % world)
        return dt_fail(DT_ERR_INVALID,
                       "--global-batch %d: it cannot be divided among the copies of the model that %d GPUs have in what --fix, --allow and "
                       "--forbid leave; use a multiple of %d",
                       batch, world, world);
    return dt_fail(DT_ERR_INVALID, "no candidate is left: --fix, --allow and --forbid exclude everything");
}

static dt_status enumerate(struct space *s)
{
    struct candidate candidate = {{0}};
    struct experiment e;
    begin(s, &e);
    DT_TRY(combine(s, 0, &candidate, &e));
    return s->count > 0 ? DT_OK : no_candidate(s);
}

dt_status space_create(const struct experiment *base, const struct simulated_machine *machine, const struct space_request *request,
                       struct space **out)
{
    DT_DESTROYED(space_destroy) struct space *s = calloc(1, sizeof *s);
    *out = NULL;
    DT_TRY(dt_allocated(s, "no host memory for a space"));
    *s = (struct space){.scope = {.base = base, .machine = machine, .request = request}};
    s->scope.ranks_per_node = base->gpus_per_node > 0 ? base->gpus_per_node : machine->cluster.gpus_per_node;
    if (s->scope.ranks_per_node > base->world_size)
        s->scope.ranks_per_node = base->world_size;
    for (const struct space_axis *row = space_axis(0); row; row = space_axis(s->axis_count)) {
        const struct dt_table *table = experiment_table();
        s->axes[s->axis_count++] = (struct axis){.key = row->key, .row = row, .field = &table->fields[dt_config_find(table, row->key)]};
    }
    DT_TRY(apply_requests(s));
    DT_TRY(enumerate(s));
    *out = DT_PASSED_ON(s);
    return DT_OK;
}

void space_destroy(struct space *s)
{
    if (!s)
        return;
    free(s->candidates);
    free(s);
}

/* ---- reading a space ---- */

int space_count(const struct space *s)
{
    return s->count;
}

void space_experiment(const struct space *s, int index, struct experiment *out)
{
    begin(s, out);
    for (int i = 0; i < s->axis_count; i++)
        apply(&s->axes[i], s->candidates[index].values[i], out);
    complete(s, out);
}

bool space_differ_only_in(const struct space *s, int left, int right, const char *key)
{
    for (int i = 0; i < s->axis_count; i++)
        if (s->candidates[left].values[i] != s->candidates[right].values[i] && strcmp(s->axes[i].key, key) != 0)
            return false;
    return true;
}
