#include "schedules/checkpoint/internal.h"

#include "lib/base/output_file.h"
#include "lib/config/json.h"
#include "lib/config/words.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WHY_BYTES = 1024 };

static const char INDEX[] = "checkpoint.json", FORMAT[] = "dtbench checkpoint 1", FILES_OF_A_STEP[] = "step-";

void checkpoint_file_name(const char *path, const char *folder, int rank, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s/%s/rank-%05d.safetensors", path, folder, rank);
}

void checkpoint_model_text(const struct dt_model *model, char *out, size_t out_bytes)
{
    struct dt_model_texts texts = dt_model_texts(model);
    snprintf(out, out_bytes, "%s, %s", model->family->name, texts.sizes);
}

/* Fail with the text of the first rank that has one, and its number. */
static dt_status fail_as_first(struct dt_comm *world, dt_status status, const char own[WHY_BYTES])
{
    int size = dt_comm_size(world), first = 0;
    DT_FREED char(*all)[WHY_BYTES] = calloc((size_t)size, sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", size));
    DT_TRY(dt_host_all_gather(world, own, WHY_BYTES, all));
    while (first + 1 < size && !*all[first])
        first++;
    return size == 1 ? dt_fail(status, "%s", own) : dt_fail(status, "rank %d: %s", first, all[first]);
}

dt_status checkpoint_agree(struct dt_comm *world, dt_status status, dt_status others)
{
    char own[WHY_BYTES] = "";
    double mine = status < 0, sum_and_highest[2];
    if (status < 0)
        snprintf(own, sizeof own, "%s", dt_error_message());
    DT_TRY(dt_host_reduce(world, &mine, 1, sum_and_highest));
    return sum_and_highest[0] == 0 ? DT_OK : fail_as_first(world, status < 0 ? status : others, own);
}

dt_status checkpoint_sync_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = folder >= 0 && fsync(folder) == 0;
    dt_status status = synced ? DT_OK : dt_fail(DT_ERR_IO, "%s: %s", path, strerror(errno));
    if (folder >= 0)
        close(folder);
    return status;
}

/* ---- the index ---- */

static dt_status take_shape(const cJSON *shape, const char *path, struct checkpoint_index *out)
{
    DT_FREED char *text = NULL;
    if (!shape)
        return DT_OK;
    DT_TRY(dt_json_print(shape, DT_JSON_COMPACT, &text));
    size_t length = strlen(text);
    memcpy(out->shape, text, length < sizeof out->shape ? length + 1 : 0);
    return length < sizeof out->shape ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: the index is damaged", path);
}

static dt_status take_index(const cJSON *object, const char *path, struct checkpoint_index *out)
{
    double steps = dt_json_number(object, "steps", 0);
    const char *folder = dt_json_text_at(object, "folder"), *model = dt_json_text_at(object, "model");
    const char *optimizer = dt_json_text_at(object, "optimizer");
    if (strcmp(dt_json_text_at(object, "format"), FORMAT) != 0)
        return dt_fail(DT_ERR_INVALID, "%s: not the index of a checkpoint of this version", path);
    if (!(steps >= 1 && steps < INT_MAX) || !*folder || strchr(folder, '/') || !*model || !*optimizer)
        return dt_fail(DT_ERR_INVALID, "%s: the index is damaged", path);
    *out = (struct checkpoint_index){.steps = (int)steps};
    snprintf(out->folder, sizeof out->folder, "%s", folder);
    snprintf(out->model, sizeof out->model, "%s", model);
    snprintf(out->optimizer, sizeof out->optimizer, "%s", optimizer);
    DT_TRY(take_shape(dt_json_at(object, "shape"), path, out));
    out->loss_scale = dt_json_number(object, "loss_scale", 0);
    out->good_steps = dt_json_number(object, "good_steps", 0);
    out->skipped_steps = dt_json_number(object, "skipped_steps", 0);
    return dt_json_read_numbers(dt_json_at(object, "bytes"), &out->bytes, &out->count);
}

dt_status checkpoint_index_read(const char *path, struct checkpoint_index *out)
{
    char name[PATH_MAX];
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    *out = (struct checkpoint_index){0};
    snprintf(name, sizeof name, "%s/%s", path, INDEX);
    DT_TRY(dt_json_read(name, name, &object));
    return take_index(object, name, out);
}

static dt_status write_index(const char *path, const char *text)
{
    char name[PATH_MAX];
    struct dt_output_file file;
    snprintf(name, sizeof name, "%s/%s", path, INDEX);
    DT_TRY(dt_output_open(name, &file));
    fputs(text, file.stream);
    DT_TRY(dt_output_close(&file, true));
    return checkpoint_sync_folder(path);
}

dt_status checkpoint_index_write(const char *path, const struct checkpoint_index *index)
{
    DT_FREED char *text = NULL;
    DT_DESTROYED(dt_json_destroy)
    struct cJSON *object = dt_json_object("format: %s, steps: %d, folder: %s, model: %s, optimizer: %s, bytes: %p", FORMAT, index->steps,
                                          index->folder, index->model, index->optimizer, dt_json_numbers(index->bytes, index->count));
    if (*index->shape)
        dt_json_add(&object, "shape: %p", dt_json_value(index->shape));
    if (index->loss_scale > 0)
        dt_json_add(&object, "loss_scale: %g, good_steps: %g, skipped_steps: %g", index->loss_scale, index->good_steps,
                    index->skipped_steps);
    DT_TRY(object ? dt_json_print(object, DT_JSON_INDENT, &text) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an index"));
    return write_index(path, text);
}

bool checkpoint_exists(const char *path)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/%s", path, INDEX);
    return access(name, F_OK) == 0;
}

/* ---- the folder ---- */

/* Remove only files that a save makes: any other file belongs to somebody, and the folder stays
 * then. */
static void remove_files(const char *folder)
{
    DIR *listed = opendir(folder);
    for (const struct dirent *entry; listed && (entry = readdir(listed)) != NULL;)
        if (strncmp(entry->d_name, "rank-", 5) == 0)
            unlinkat(dirfd(listed), entry->d_name, 0);
    if (listed)
        closedir(listed);
    rmdir(folder);
}

void checkpoint_folder_clean(const char *path, const char *keep)
{
    char folder[PATH_MAX];
    DIR *listed = opendir(path);
    for (const struct dirent *entry; listed && (entry = readdir(listed)) != NULL;) {
        if (strncmp(entry->d_name, FILES_OF_A_STEP, strlen(FILES_OF_A_STEP)) != 0 || strcmp(entry->d_name, keep) == 0)
            continue;
        snprintf(folder, sizeof folder, "%s/%s", path, entry->d_name);
        remove_files(folder);
    }
    if (listed)
        closedir(listed);
}

static dt_status lock(struct checkpoint_folder *folder)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/lock", folder->path);
    folder->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->lock < 0)
        return dt_fail(DT_ERR_INVALID, "checkpoint.path: %s: %s", folder->path, strerror(errno));
    if (flock(folder->lock, LOCK_EX | LOCK_NB) < 0)
        return dt_fail(DT_ERR_INVALID, "checkpoint.path: %s: %s", folder->path,
                       errno == EWOULDBLOCK ? "another run saves its checkpoints there; give this run another folder" : strerror(errno));
    return DT_OK;
}

/* A damaged index, or one of another program, is not overwritten. */
static dt_status take_over(struct checkpoint_folder *folder)
{
    struct checkpoint_index index = {0};
    if (mkdir(folder->path, 0777) < 0 && errno != EEXIST)
        return dt_fail(DT_ERR_INVALID, "checkpoint.path: %s: %s", folder->path,
                       errno == ENOENT ? "the folder in which it would be made does not exist; make that first" : strerror(errno));
    DT_TRY(lock(folder));
    dt_status status = checkpoint_exists(folder->path) ? checkpoint_index_read(folder->path, &index) : DT_OK;
    free(index.bytes);
    if (status < 0)
        return dt_fail(DT_ERR_INVALID, "checkpoint.path: %s", dt_error_message());
    checkpoint_folder_clean(folder->path, index.folder);
    return DT_OK;
}

dt_status checkpoint_folder_open(const char *path, struct dt_comm *world, struct checkpoint_folder *out)
{
    *out = (struct checkpoint_folder){.lock = -1};
    snprintf(out->path, sizeof out->path, "%s", path);
    dt_status status = dt_comm_rank(world) == 0 ? take_over(out) : DT_OK;
    return checkpoint_agree(world, status, DT_ERR_INVALID);
}

void checkpoint_folder_close(struct checkpoint_folder *folder)
{
    if (folder->lock >= 0)
        close(folder->lock);
    folder->lock = -1;
}
