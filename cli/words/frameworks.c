#include "cli/words/words.h"

#include "cli/text/text.h"
#include "lib/base/text.h"
#include "lib/config/json.h"
#include "schedules/config/families.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 192, LIST_BYTES = 4000, QUOTE_BYTES = 80, FILE_BYTES = 4096 };

static const struct framework *const frameworks[] = {
    &framework_megatron, &framework_torchtitan, &framework_deepspeed, &framework_accelerate, &framework_bridge,
    &framework_nemo,     &framework_trainer,    &framework_axolotl,   &framework_torchtune,
};

enum { FRAMEWORKS = sizeof frameworks / sizeof *frameworks, EXPORTED = 4 };

const char *framework_name(int index)
{
    return index < FRAMEWORKS ? frameworks[index]->name : NULL;
}

const char *framework_export_name(int index)
{
    return index < EXPORTED ? frameworks[index]->name : NULL;
}

const struct framework *framework_find(const char *name)
{
    for (int i = 0; i < FRAMEWORKS; i++)
        if (strcmp(frameworks[i]->name, name) == 0)
            return frameworks[i];
    return NULL;
}

/* Does the file have each of the blank-separated paths? */
static bool has_all(const struct cJSON *theirs, const char *paths)
{
    char path[PATH_BYTES];
    for (size_t bytes; *paths; paths += bytes + (paths[bytes] == ' ')) {
        bytes = strcspn(paths, " ");
        snprintf(path, sizeof path, "%.*s", (int)bytes, paths);
        if (!dt_json_at(theirs, path))
            return false;
    }
    return true;
}

const struct framework *framework_of(const struct cJSON *theirs)
{
    for (int i = 0; i < FRAMEWORKS; i++)
        for (const char *const *mark = frameworks[i]->marks; *mark; mark++)
            if (has_all(theirs, *mark))
                return frameworks[i];
    return NULL;
}

static void use_settings(const char *prefix, const struct cJSON *tree, framework_setting *use, void *context)
{
    for (const struct cJSON *child = tree->child; child; child = child->next) {
        char path[PATH_BYTES], setting[PATH_BYTES + QUOTE_BYTES], value[QUOTE_BYTES];
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", child->string);
        dt_json_quote(child, value, sizeof value);
        snprintf(setting, sizeof setting, "%s=%s", path, value);
        if (cJSON_IsObject(child))
            use_settings(path, child, use, context);
        else
            use(context, setting);
    }
}

void framework_settings(const struct framework *f, framework_setting *use, void *context)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *fixed = dt_json_value(f->fixed);
    use_settings("", fixed, use, context);
}

/* ---- settings without a counterpart ---- */

typedef void leaf_visit(struct dt_translation *t, const struct framework *f, const char *path, const struct cJSON *value, char *list);

static void visit_leaves(struct dt_translation *t, const struct framework *f, const char *prefix, const struct cJSON *tree,
                         leaf_visit *visit, char *list)
{
    char path[PATH_BYTES];
    for (const struct cJSON *child = tree ? tree->child : NULL; child; child = child->next) {
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", child->string);
        if (cJSON_IsObject(child))
            visit_leaves(t, f, path, child, visit, list);
        else
            visit(t, f, path, child, list);
    }
}

static bool is_off(const struct cJSON *value)
{
    bool empty_text = cJSON_IsString(value) && !*value->valuestring;
    return cJSON_IsNull(value) || cJSON_IsFalse(value) || empty_text || (cJSON_IsArray(value) && !value->child);
}

/* Does `path` begin with one of the blank-separated words? */
static bool begins_with_one(const char *path, const char *beginnings)
{
    for (size_t bytes; *beginnings; beginnings += bytes + (beginnings[bytes] == ' ')) {
        bytes = strcspn(beginnings, " ");
        if (strncmp(path, beginnings, bytes) == 0)
            return true;
    }
    return false;
}

/* Flags of srun, before the command that it starts. */
static const char srun_flags[] =
    "container- cpu-bind cpus-per gpu-bind gpus-per gres job-name kill-on label mem-bind mpi nodes ntasks unbuffered";

static bool has_no_bearing(const struct framework *f, const char *path)
{
    bool none = begins_with_one(path, f->no_bearing) || begins_with_one(path, srun_flags);
    for (int i = 0; f->below && f->below[i] && !none; i++)
        none = begins_with_one(path, f->below[i]->no_bearing);
    return none;
}

/* Remark on a framework's setting that no word has read. An unknown key may matter, unless it is
 * off. */
static void visit_theirs(struct dt_translation *t, const struct framework *f, const char *path, const struct cJSON *value, char *list)
{
    char quote[QUOTE_BYTES];
    if (has_no_bearing(f, path) || is_off(value)) {
        dt_append(list, LIST_BYTES, ", ", "%s", path);
        return;
    }
    dt_json_quote(value, quote, sizeof quote);
    dt_remark(t, DT_REMARK_CANNOT, "%s: %s; what that does to time and memory is not known here", path, quote);
}

/* Keys that no framework's job has: how many steps to run, on which machine, within which
 * limits. */
static const char run_keys[] =
    "name device seed steps timeout nccl register_ tuning memory_limit host_memory_limit threads cluster profile rates any_profile "
    "more_nodes network graph share_gpus fused_kernels gpus_per_node straddle_nodes loss_scaling job. optimizer.weight_decay "
    "optimizer.decayed optimizer.schedule optimizer.warmup_steps optimizer.final_rate optimizer.scale_with_batch optimizer.base_batch";

/* Remark on a config's setting for which the framework has no word. */
static void visit_ours(struct dt_translation *t, const struct framework *f, const char *path, const struct cJSON *value, char *list)
{
    char quote[QUOTE_BYTES];
    dt_json_quote(value, quote, sizeof quote);
    if (begins_with_one(path, run_keys))
        return;
    if (f->without_model && strncmp(path, "optimizer.", strlen("optimizer.")) == 0)
        dt_append(list, LIST_BYTES, ", ", "%s %s", path, quote);
    else
        dt_remark(t, DT_REMARK_CANNOT, "%s: %s; %s has no word for that", path, quote, f->title);
}

/* Remark on a setting that differs from what the framework always does. */
static void visit_fixed(struct dt_translation *t, const struct framework *f, const char *path, const struct cJSON *value, char *list)
{
    char quote[QUOTE_BYTES], other[QUOTE_BYTES];
    (void)list;
    DT_DESTROYED(dt_json_destroy) struct cJSON *ours = dt_json_take(t->ours, path);
    const enum dt_remark kind = strcmp(path, "gradient_reduction") == 0 ? DT_REMARK_ASSUMED : DT_REMARK_CANNOT;
    if (ours && !cJSON_Compare(ours, value, true)) {
        dt_json_quote(ours, quote, sizeof quote);
        dt_json_quote(value, other, sizeof other);
        dt_remark(t, kind, "%s: %s; with %s it is always %s", path, quote, f->title, other);
    }
}

/* Remark on a value that has been read, and which a variable from outside of the file decides. How
 * many GPUs there are is asked for where it matters. */
static void visit_outside(struct dt_translation *t, const struct framework *f, const char *path, const struct cJSON *value, char *list)
{
    const char *text = cJSON_GetStringValue(value);
    (void)f, (void)list;
    if (text && strpbrk(text, "$`") && !dt_json_at(t->theirs, path) && !begins_with_one(path, "nnodes nproc num_"))
        dt_remark(t, DT_REMARK_CANNOT, "%s: \"%.64s\"; the file does not say what that is: write its value into it", path, text);
}

/* ---- import and export ---- */

/* Read a file that the job names. It is looked for in the folder of the job's file, in the same
 * folder by the last part of its name, and by its name alone. */
static dt_status read_beside(const char *file, const char *name, struct cJSON **out)
{
    char paths[3][FILE_BYTES];
    const char *slash = strrchr(file, '/'), *last = strrchr(name, '/');
    int folder = slash ? (int)(slash + 1 - file) : 0, i = 0;
    snprintf(paths[0], FILE_BYTES, "%.*s%s", *name == '/' ? 0 : folder, file, name);
    snprintf(paths[1], FILE_BYTES, "%.*s%s", folder, file, last ? last + 1 : name);
    snprintf(paths[2], FILE_BYTES, "%s", name);
    while (i < 2 && access(paths[i], R_OK) != 0)
        i++;
    return words_read_text(paths[i], NULL, out);
}

/* Put the files that the job names in place of their names. */
static void take_files(struct dt_translation *t, const struct framework *f, const struct import_options *options)
{
    char key[PATH_BYTES];
    const char *keys = f->files;
    for (size_t bytes; keys && (bytes = strcspn(keys, " ")) > 0; keys += bytes + (keys[bytes] == ' ')) {
        struct cJSON *tree;
        snprintf(key, sizeof key, "%.*s", (int)bytes, keys);
        const char *name = dt_json_text_at(t->theirs, key);
        if (!*name)
            continue;
        if (read_beside(options->file ? options->file : "", name, &tree) == DT_OK) {
            dt_remark(t, DT_REMARK_READ, "%s: %s", key, name);
            dt_json_put(t->theirs, key, tree);
        } else {
            dt_remark(t, DT_REMARK_CANNOT, "%s: %s", key, dt_error_message());
            dt_json_drop(t->theirs, key);
        }
    }
}

static void take_model(struct dt_translation *t, const char *model)
{
    const struct dt_model_family *family;
    static const char *const kept[] = {"model.block_size", "model.dtype"};
    DT_DESTROYED(dt_json_destroy) struct cJSON *described = dt_json_take(t->ours, "model");
    dt_json_put(t->ours, model_find_preset(model, &family) ? "model.preset" : "model.from", dt_json_text(model));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        dt_json_put(t->ours, kept[i], dt_json_take(described, kept[i] + strlen("model.")));
}

dt_status framework_import(const struct framework *f, struct cJSON *theirs, const struct import_options *options, struct dt_translation *t)
{
    char list[LIST_BYTES] = "";
    DT_TRY(dt_translation_init(t, f->origin, theirs, dt_json_value(f->fixed)));
    take_files(t, f, options);
    if (f->adapt)
        f->adapt(t);
    DT_DESTROYED(dt_json_destroy) struct cJSON *adapted = cJSON_Duplicate(t->theirs, true);
    dt_words_read(f->words, t);
    if (options->model)
        dt_json_put(t->ours, "job.model", dt_json_text(options->model));
    if (f->settle)
        f->settle(t);
    visit_leaves(t, f, "", adapted, visit_outside, list);
    if (options->model)
        take_model(t, options->model);
    else if (!dt_json_at(t->ours, "model.preset") && !dt_json_at(t->ours, "model.layers"))
        dt_remark(t, DT_REMARK_CANNOT, "the file has no model%s%s: name it with --model NAME, or a Hugging Face config.json",
                  f->without_model ? ", which is in " : "", f->without_model ? f->without_model : "");
    job_settle(t, options);
    visit_leaves(t, f, "", t->theirs, visit_theirs, list);
    if (*list)
        dt_remark(t, DT_REMARK_LEFT, "%s: no bearing on time or memory", list);
    dt_json_put(t->ours, "device", dt_json_text("sim"));
    return DT_OK;
}

dt_status framework_export(const struct framework *f, const struct experiment *e, struct dt_translation *t)
{
    char list[LIST_BYTES] = "";
    struct cJSON *ours = NULL;
    DT_DESTROYED(dt_json_destroy) struct cJSON *fixed = dt_json_value(f->fixed);
    struct experiment sized = *e;
    sized.model.preset[0] = 0; /* other frameworks do not know the preset's name: they get its sizes */
    DT_TRY(experiment_to_tree(&sized, &ours));
    DT_TRY(dt_translation_init(t, f->origin, NULL, ours));
    job_prepare(t, e);
    if (job_reduces_each(t, f->reduces_each))
        dt_json_put(fixed, "gradient_reduction", dt_json_text("each"));
    if (e->micro_batches == 1) /* then both are the same */
        dt_json_drop(t->ours, "gradient_reduction");
    if (f->prepare)
        f->prepare(t, e);
    dt_words_write(f->words, t);
    visit_leaves(t, f, "", fixed, visit_fixed, list);
    if (f->without_model) {
        dt_json_drop(t->ours, "model");
        dt_append(list, LIST_BYTES, ", ", "the model: %s", *e->model.preset ? e->model.preset : dt_model_texts(&e->model).sizes);
    }
    visit_leaves(t, f, "", t->ours, visit_ours, list);
    if (*list)
        dt_remark(t, DT_REMARK_LEFT, "for %s: %s", f->without_model, list);
    return DT_OK;
}

/* ---- what their files share ---- */

void remarks_print_kind(const struct dt_translation *t, enum dt_remark kind, const char *label, FILE *to)
{
    for (const struct cJSON *text = t->remarks[kind] ? t->remarks[kind]->child : NULL; text; text = text->next)
        line_print(to, "%-8s  %s", label, text->valuestring);
}

void remarks_print(const struct dt_translation *t, FILE *to)
{
    static const char *const labels[DT_REMARKS] = {[DT_REMARK_READ] = "read",
                                                   [DT_REMARK_ASSUMED] = "assumed",
                                                   [DT_REMARK_ALIKE] = "alike",
                                                   [DT_REMARK_LEFT] = "left out",
                                                   [DT_REMARK_CANNOT] = "unknown"};
    for (int kind = 0; kind < DT_REMARKS; kind++)
        remarks_print_kind(t, (enum dt_remark)kind, labels[kind], to);
}
