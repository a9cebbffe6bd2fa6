#include "lib/record/conditions.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>

static cJSON *pair(double before, double after)
{
    return dt_json_numbers((const double[]){before, after}, 2);
}

static cJSON *known_switch(int value)
{
    return value < 0 ? cJSON_CreateNull() : dt_json_truth(value);
}

static cJSON *slowdowns(const struct dt_device_condition *c)
{
    cJSON *names = c->slowdown_known ? dt_json_array() : cJSON_CreateNull();
    for (int i = 0; c->slowdown_known && i < DT_SLOWDOWN_COUNT; i++)
        if (c->slowdown[i])
            dt_json_append(&names, dt_json_text(dt_slowdown_name((enum dt_slowdown)i)));
    return names;
}

/* null where the GPU says nothing; what is not known is NAN, and printed as null. */
static cJSON *condition_as_json(const struct dt_device_condition *before, const struct dt_device_condition *after)
{
    if (!after->known)
        return cJSON_CreateNull();
    return dt_json_object(
        "clock_mhz: %p, clock_limit_mhz: %g, memory_clock_mhz: %p, temperature_c: %p, power_w: %p, power_limit_w: %g, "
        "energy_j: %g, slowed_by: %p, power_slow_s: %g, heat_slow_s: %g, ecc: %p, mig: %p, persistence: %p, processes: %g",
        pair(before->clock_mhz, after->clock_mhz), after->clock_limit_mhz, pair(before->memory_clock_mhz, after->memory_clock_mhz),
        pair(before->temperature_c, after->temperature_c), pair(before->power_w, after->power_w), after->power_limit_w,
        after->energy_j - before->energy_j, slowdowns(after), after->power_slow_s - before->power_slow_s,
        after->heat_slow_s - before->heat_slow_s, known_switch(after->ecc), known_switch(after->mig), known_switch(after->persistence),
        after->processes < 0 ? NAN : after->processes);
}

dt_status dt_conditions_write(const struct dt_condition_pair *all, size_t stride, int count, char **out)
{
    cJSON *array = dt_json_array();
    for (int i = 0; i < count; i++) {
        const struct dt_condition_pair *its = (const struct dt_condition_pair *)((const char *)all + (size_t)i * stride);
        dt_json_append(&array, condition_as_json(&its->before, &its->after));
    }
    dt_status status = array ? dt_json_print(array, DT_JSON_COMPACT, out)
                             : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the conditions of %d GPUs", count);
    cJSON_Delete(array);
    return status;
}
