#include "cli/plan/strategy.h"

#include "cli/text/experiment_columns.h"
#include "schedules/config/parse.h"
#include "schedules/plan/orders.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(char text[STRATEGY_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char text[STRATEGY_BYTES], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, STRATEGY_BYTES - used, format, arguments);
    va_end(arguments);
}

/* By its name in the papers; a file by its own. */
static void add_order(char text[STRATEGY_BYTES], const char *name)
{
    const struct pipeline_order *order = pipeline_order_find(name);
    add(text, ", %s", order && order->title ? order->title : name);
}

/* Keys that are said elsewhere in the text or in a column, or have no part in what is done. */
static bool is_said(const char *path)
{
    static const char *const said[] = {"name",
                                       "device",
                                       "world_size",
                                       "paradigm",
                                       "gpus_per_node",
                                       "straddle_nodes",
                                       "batch_size",
                                       "micro_batches",
                                       "pipeline.stages",
                                       "pipeline.paradigms",
                                       "mesh.order",
                                       "pipeline.chunks",
                                       "pipeline.order",
                                       "hsdp.shard_size",
                                       "tensor.size",
                                       "activation",
                                       "parameter_offload",
                                       "fsdp.unit",
                                       "fsdp.gather",
                                       "ddp.bucket_mib",
                                       "cluster",
                                       "profile",
                                       "optimizer.learning_rate",
                                       "loss_scaling"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (strcmp(said[i], path) == 0)
            return true;
    return strncmp(path, "model.", 6) == 0 || strncmp(path, "optimizer.", 10) == 0 || strncmp(path, "steps.", 6) == 0 ||
           strncmp(path, "timeout.", 8) == 0;
}

/* Whatever else is not as its default says, so that a new key is never passed over. */
static void add_others(char text[STRATEGY_BYTES], const struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    static const struct experiment zero;
    struct experiment defaults = zero;
    if (dt_config_defaults(table, &defaults) < 0)
        return;
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        char value[VALUE_BYTES], usual[VALUE_BYTES];
        if (is_said(field->path) || !experiment_depends_on(e, field))
            continue;
        experiment_value(e, field, value);
        experiment_value(&defaults, field, usual);
        if (strcmp(value, usual) != 0)
            add(text, ", %s %s", experiment_column_title(field), value);
    }
}

void strategy_describe(const struct experiment *e, char text[STRATEGY_BYTES])
{
    const struct paradigm *p = e->strategy.paradigm;
    struct mesh_shape mesh = e->strategy.mesh;
    int shards = mesh.size[MESH_SHARD], replicas = mesh.size[MESH_REPLICA], stages = mesh.size[MESH_PIPELINE];
    snprintf(text, STRATEGY_BYTES, "%s", e->strategy.paradigm->title);
    if (p->axes & MESH_ON_SHARD && p->axes & MESH_ON_REPLICA)
        add(text, " %dx%d", shards, replicas);
    if (mesh.size[MESH_TENSOR] > 1)
        add(text, ", tensor %d", mesh.size[MESH_TENSOR]);
    if (stages > 1) {
        add(text, ", %d stages", stages);
        if (mesh_count(&mesh, MESH_ON_DATA) > 1)
            add(text, " x %d", mesh_count(&mesh, MESH_ON_DATA));
        add_order(text, e->pipeline.order);
        if (e->mesh.order == MESH_TENSOR_DATA_PIPELINE)
            add(text, ", stages apart");
    }
    int micro_batches = e->micro_batches * (stages > 1 ? e->pipeline.chunks : 1);
    if (micro_batches > 1)
        add(text, ", %d micro-batches", micro_batches);
    if (e->activation == ACTIVATION_CHECKPOINT)
        add(text, ", checkpoint");
    else if (e->activation == ACTIVATION_OFFLOAD)
        add(text, ", activations on the host");
    else if (e->activation == ACTIVATION_SELECTIVE)
        add(text, ", selective recomputation");
    if (e->parameter_offload)
        add(text, ", parameters on the host");
    if (paradigm_has_key(p, "fsdp.unit") && e->fsdp.unit == DT_UNIT_LINEAR)
        add(text, ", linear units");
    if (paradigm_has_key(p, "fsdp.gather") && e->fsdp.gather == GATHER_ONCE)
        add(text, ", gathered once a step");
    if (paradigm_has_key(p, "ddp.bucket_mib") && e->ddp.bucket_mib != 25 && e->world_size > 1)
        add(text, ", buckets of %g MiB", e->ddp.bucket_mib);
    add_others(text, e);
}
