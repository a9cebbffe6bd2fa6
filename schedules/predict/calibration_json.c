/* What a calibration's processes tell each other. */
#include "schedules/predict/calibration.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a calibration");
}

dt_status calibration_request_write(const struct calibration_request *request, char **out_text)
{
    struct cJSON *object = cJSON_CreateObject();
    bool complete =
        object && cJSON_AddBoolToObject(object, "quick", request->quick) && cJSON_AddNumberToObject(object, "threads", request->threads);
    for (int i = 0; i < DT_DTYPE_COUNT && complete; i++)
        complete = cJSON_AddBoolToObject(object, dt_dtype_name((enum dt_dtype)i), request->dtypes[i]);
    dt_status status = complete ? dt_json_print(object, DT_JSON_COMPACT, out_text) : no_memory();
    cJSON_Delete(object);
    return status;
}

dt_status calibration_request_read(const char *text, struct calibration_request *out)
{
    struct cJSON *object;
    DT_TRY(dt_json_parse(text, strlen(text), "calibration", &object));
    out->quick = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "quick"));
    out->threads = (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(object, "threads"));
    for (int i = 0; i < DT_DTYPE_COUNT; i++)
        out->dtypes[i] = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, dt_dtype_name((enum dt_dtype)i)));
    dt_json_destroy(object);
    return DT_OK;
}

dt_status calibration_write(const struct calibration *c, char **out_text)
{
    struct cJSON *object = cJSON_CreateObject(), *kernels = NULL, *collectives = NULL;
    dt_status status = object ? gpt_measured_write(&c->kernels, &kernels) : no_memory();
    if (status == DT_OK)
        status = dt_sim_measured_write(&c->collectives, &collectives);
    if (status == DT_OK &&
        (!cJSON_AddItemToObject(object, "kernels", kernels) || !cJSON_AddItemToObject(object, "collectives", collectives)))
        status = no_memory();
    if (status == DT_OK && !cJSON_AddStringToObject(object, "library", c->library))
        status = no_memory();
    if (status == DT_OK)
        status = dt_json_print(object, DT_JSON_COMPACT, out_text);
    cJSON_Delete(object);
    return status;
}

/* Appending: entries are read behind those that are there. */
dt_status calibration_read(const char *text, struct calibration *out)
{
    struct cJSON *object;
    struct calibration *part = calloc(1, sizeof *part);
    if (!part)
        return no_memory();
    dt_status status = dt_json_parse(text, strlen(text), "calibration", &object);
    if (status == DT_OK) {
        status = gpt_measured_read(cJSON_GetObjectItemCaseSensitive(object, "kernels"), "calibration", &part->kernels);
        if (status == DT_OK)
            status = dt_sim_measured_read(cJSON_GetObjectItemCaseSensitive(object, "collectives"), "calibration", &part->collectives);
        const char *library = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "library"));
        if (library && *library)
            snprintf(out->library, sizeof out->library, "%s", library);
        dt_json_destroy(object);
    }
    if (status == DT_OK && (out->kernels.count + part->kernels.count > GPT_MEASURED_MAX ||
                            out->collectives.count + part->collectives.count > DT_SIM_MEASURED_MAX))
        status = dt_fail(DT_ERR_INVALID, "more than %d measurements: name fewer numbers of ranks, or dtypes", GPT_MEASURED_MAX);
    for (int i = 0; status == DT_OK && i < part->kernels.count; i++)
        out->kernels.entries[out->kernels.count++] = part->kernels.entries[i];
    for (int i = 0; status == DT_OK && i < part->collectives.count; i++)
        out->collectives.entries[out->collectives.count++] = part->collectives.entries[i];
    free(part);
    return status;
}
