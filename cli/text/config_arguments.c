#include "cli/text/text.h"

#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

const char *config_device_choice(int index)
{
    const struct dt_table *table = experiment_table();
    return dt_field_choice(&table->fields[dt_config_find(table, "device")], index);
}

dt_status config_arguments_check(struct config_arguments *a)
{
    if (a->config && a->file)
        return dt_fail(DT_ERR_INVALID, "takes one config file, not two: '%s' and '%s'", a->config, a->file);
    if (!a->config && !a->file)
        return dt_fail(DT_ERR_INVALID, "needs a config file");
    for (int i = 0; i < a->sets.count; i++)
        if (!strchr(a->sets.items[i], '='))
            return dt_fail(DT_ERR_INVALID, "'--set %s' has no value: --set PATH=VALUE", a->sets.items[i]);
    return DT_OK;
}

static const char *const slow_keys[] = {"rank", "by", "part"};

enum { SLOW_KEYS = sizeof slow_keys / sizeof *slow_keys, SLOW_BY = 1 };

/* Read one part of the text, such as "by=10%". said: which keys have been given. */
static dt_status add_slow(const char *given, const char *value, bool said[SLOW_KEYS], struct slow_sets *out)
{
    char *end = NULL;
    double number = strtod(value, &end);
    int key = 0;
    while (key < SLOW_KEYS && strcmp(slow_keys[key], given) != 0)
        key++;
    if (key < SLOW_KEYS && said[key])
        return dt_fail(DT_ERR_INVALID, "--slow: %s is given twice: one part of the machine is slow", given);
    if (key == SLOW_KEYS || !*value)
        return dt_fail(DT_ERR_INVALID,
                       "--slow: \"%.40s=%.40s\": expected rank=3,by=10%% and, unless a GPU is slow, part=node, link or card", given, value);
    bool by = key == SLOW_BY;
    said[key] = true;
    if (by && (end == value || (strcmp(end, "%") != 0 && *end)))
        return dt_fail(DT_ERR_INVALID, "--slow: by=%.40s: expected how much of its rate is lost, 10%% or 0.1", value);
    if (by)
        snprintf(out->texts[out->count++], SLOW_SET_BYTES, "slow.by=%.17g", *end ? number / 100 : number);
    else
        snprintf(out->texts[out->count++], SLOW_SET_BYTES, "slow.%.8s=%.40s", given, value);
    return DT_OK;
}

dt_status config_slow_sets(const char *text, struct slow_sets *out)
{
    char copy[256], *rest = copy;
    bool said[SLOW_KEYS] = {false};
    *out = (struct slow_sets){.count = 0};
    if (!text)
        return DT_OK;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *key = strsep(&rest, ","); key; key = strsep(&rest, ",")) {
        char *value = strchr(key, '=');
        if (value)
            *value++ = 0;
        DT_TRY(add_slow(key, value ? value : "", said, out));
    }
    return said[SLOW_BY] ? DT_OK : dt_fail(DT_ERR_INVALID, "--slow %.80s: expected by how much, such as by=10%%", text);
}

const char *config_rates_set(const char *rates, char out[RATES_SET_BYTES])
{
    snprintf(out, RATES_SET_BYTES, "rates=\"%.512s\"", rates);
    return out;
}

dt_status config_arguments_read(const struct config_arguments *a, struct experiment_list **out)
{
    char device[128], from[1024], rates[RATES_SET_BYTES];
    const char *sets[OPTION_LIST_MAX + 3 + SLOW_SETS];
    struct slow_sets slow;
    int set_count = a->sets.count;
    memcpy(sets, a->sets.items, sizeof a->sets.items);
    if (a->device) {
        snprintf(device, sizeof device, "device=\"%.100s\"", a->device);
        sets[set_count++] = device;
    }
    if (a->from) {
        snprintf(from, sizeof from, "checkpoint.from=%.1000s", a->from);
        sets[set_count++] = from;
    }
    if (a->rates)
        sets[set_count++] = config_rates_set(a->rates, rates);
    DT_TRY(config_slow_sets(a->slow, &slow));
    for (int i = 0; i < slow.count; i++)
        sets[set_count++] = slow.texts[i];
    return experiments_read(a->config ? a->config : a->file, sets, set_count, a->passes_only, out);
}

void config_note_left_out(const struct experiment_list *experiments)
{
    const struct left_out *l = &experiments->left_out;
    if (l->count > 0)
        line_print(stderr, "dtbench: note: %d of %d combinations of the sweep left out, because they are not valid%s: %s", l->count, l->of,
                   l->count > 1 ? "; the first" : "", l->first);
}

dt_status config_file_says(const char *file, const char *object, const char *key, bool *out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *config = NULL;
    *out = false;
    if (!file || strcmp(file, "-") == 0)
        return DT_OK;
    DT_TRY(dt_json_read(file, file, &config));
    *out = cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(config, object), key);
    return DT_OK;
}
