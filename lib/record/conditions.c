#include "lib/record/conditions.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>

static bool add_number(cJSON *object, const char *key, double value)
{
    return isnan(value) ? cJSON_AddNullToObject(object, key) : cJSON_AddNumberToObject(object, key, value);
}

static bool add_pair(cJSON *object, const char *key, double before, double after)
{
    cJSON *pair = cJSON_AddArrayToObject(object, key);
    return pair && cJSON_AddItemToArray(pair, cJSON_CreateNumber(before)) && cJSON_AddItemToArray(pair, cJSON_CreateNumber(after));
}

static bool add_switch(cJSON *object, const char *key, int value)
{
    return value < 0 ? cJSON_AddNullToObject(object, key) : cJSON_AddBoolToObject(object, key, value);
}

static bool add_slowdowns(cJSON *object, const struct dt_device_condition *c)
{
    if (!c->slowdown_known)
        return cJSON_AddNullToObject(object, "slowed_by");
    cJSON *names = cJSON_AddArrayToObject(object, "slowed_by");
    bool done = names;
    for (int i = 0; done && i < DT_SLOWDOWN_COUNT; i++)
        if (c->slowdown[i])
            done = cJSON_AddItemToArray(names, cJSON_CreateString(dt_slowdown_name((enum dt_slowdown)i)));
    return done;
}

/* null where the GPU says nothing. */
static bool add_condition(cJSON *array, const struct dt_device_condition *before, const struct dt_device_condition *after)
{
    cJSON *object = after->known ? cJSON_CreateObject() : cJSON_CreateNull();
    if (!cJSON_AddItemToArray(array, object) || !after->known)
        return object;
    return add_pair(object, "clock_mhz", before->clock_mhz, after->clock_mhz) &&
           add_number(object, "clock_limit_mhz", after->clock_limit_mhz) &&
           add_pair(object, "memory_clock_mhz", before->memory_clock_mhz, after->memory_clock_mhz) &&
           add_pair(object, "temperature_c", before->temperature_c, after->temperature_c) &&
           add_pair(object, "power_w", before->power_w, after->power_w) && add_number(object, "power_limit_w", after->power_limit_w) &&
           add_number(object, "energy_j", after->energy_j - before->energy_j) && add_slowdowns(object, after) &&
           add_number(object, "power_slow_s", after->power_slow_s - before->power_slow_s) &&
           add_number(object, "heat_slow_s", after->heat_slow_s - before->heat_slow_s) && add_switch(object, "ecc", after->ecc) &&
           add_switch(object, "mig", after->mig) && add_switch(object, "persistence", after->persistence) &&
           add_number(object, "processes", after->processes < 0 ? NAN : after->processes);
}

dt_status dt_conditions_write(const struct dt_condition_pair *all, size_t stride, int count, char **out)
{
    cJSON *array = cJSON_CreateArray();
    bool done = array;
    for (int i = 0; done && i < count; i++) {
        const struct dt_condition_pair *pair = (const struct dt_condition_pair *)((const char *)all + (size_t)i * stride);
        done = add_condition(array, &pair->before, &pair->after);
    }
    dt_status status = done ? dt_json_print(array, DT_JSON_COMPACT, out)
                            : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the conditions of %d GPUs", count);
    cJSON_Delete(array);
    return status;
}
