#include "schedules/config/tuning.h"

#include "lib/base/grow.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "schedules/config/print.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_read(const struct experiment *e)
{
    return *e->tuning && (!e->strategy.device || e->strategy.device->gpus);
}

static dt_status check_text(const struct experiment *e, const char *text)
{
    const struct dt_tuner *tuner = e->model.family->tuner;
    struct dt_tuning *tuning;
    if (!tuner)
        return dt_fail(DT_ERR_INVALID, "models of the family %s have no products to tune", e->model.family->name);
    DT_TRY(tuner->create(&tuning));
    dt_status status = tuner->read(tuning, e->tuning, text);
    tuner->destroy(tuning);
    return status;
}

static dt_status check_file(struct experiment *e)
{
    char path[PATH_MAX];
    DT_FREED char *text = NULL;
    size_t length;
    DT_TRY(dt_find_data_file(e->tuning, e->directory, path, sizeof path));
    DT_TRY(dt_read_file(path, &text, &length));
    DT_TRY(check_text(e, text));
    experiment_hash_file(e, text, length);
    return DT_OK;
}

dt_status experiment_check_tuning(struct experiment *e, const char *where)
{
    dt_status status = is_read(e) ? check_file(e) : DT_OK;
    return status < 0 ? dt_fail(status, "%s: tuning: %s", where, dt_error_message()) : DT_OK;
}

dt_status experiment_find_tuning(struct experiment *e)
{
    char path[PATH_MAX];
    if (!is_read(e))
        return DT_OK;
    DT_TRY(dt_find_data_file(e->tuning, e->directory, path, sizeof path));
    return dt_intern_into(&e->tuning, path);
}
