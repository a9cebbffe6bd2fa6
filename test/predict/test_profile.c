/* Profiles: all shipped ones can be read, and errors name the JSON path. */
#include "gpt/kernels.h"
#include "lib/config/config.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "predict/profile.h"
#include "test/check.h"

#include <cjson/cJSON.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>

static struct cJSON *default_profile(void)
{
    char path[PATH_MAX], *text;
    size_t length;
    struct cJSON *object = NULL;
    CHECK_OK(dt_find_data_file("profiles/pytorch_1.11_a100.json", NULL, path, sizeof path));
    CHECK_OK(dt_read_file(path, &text, &length));
    CHECK_OK(dt_json_parse(text, length, path, &object));
    free(text);
    return object;
}

/* Print, parse, and destroy `object`. */
static dt_status parse(struct cJSON *object, struct dt_profile *out)
{
    char *text;
    dt_status status = dt_json_print(object, DT_JSON_COMPACT, &text);
    if (status == DT_OK)
        status = profile_parse(text, strlen(text), "p.json", out);
    free(text);
    dt_json_destroy(object);
    return status;
}

static void shipped_profiles(void)
{
    char path[PATH_MAX];
    glob_t files;
    struct dt_profile profile;
    CHECK_OK(dt_find_data_file("profiles/pytorch_1.11_a100.json", NULL, path, sizeof path));
    strcpy(strrchr(path, '/'), "/*.json");
    CHECK(glob(path, 0, NULL, &files) == 0 && files.gl_pathc >= 1);
    for (size_t i = 0; i < files.gl_pathc; i++)
        CHECK(profile_read(files.gl_pathv[i], &profile) == DT_OK && *profile.name && *profile.basis && profile.hash != 0, "%s: %s",
              files.gl_pathv[i], dt_error_message());
    globfree(&files);
}

static void every_row_reaches_the_struct(void)
{
    struct dt_profile profile;
    const struct dt_table *table = profile_table();
    CHECK_OK(parse(default_profile(), &profile));
    CHECK(profile.kernels[GPT_KERNEL_LAYER_NORM].launches == 1 && profile.kernels[GPT_KERNEL_LAYER_NORM].passes == 2);
    CHECK(profile.kernels[GPT_KERNEL_ATTENTION].other_passes > 0 && profile.gemm.qkv_products == 3 && profile.optimizer_fused == 0);
    for (int kind = 0; kind < profile_kernels()->count; kind++) {
        if (kind == DT_PRICED_COPY)
            continue;
        char at[64];
        snprintf(at, sizeof at, "kernels.%s.passes", profile_kernels()->kernels[kind]->name);
        int row = dt_config_find(table, at);
        CHECK(row >= 0 && table->fields[row].offset ==
                              offsetof(struct dt_profile, kernels[0].passes) + (size_t)kind * sizeof(struct dt_kernel_cost),
              "%s", at);
    }
}

static void refused(struct cJSON *object, const char *wanted)
{
    struct dt_profile profile;
    CHECK(parse(object, &profile) == DT_ERR_INVALID && strstr(dt_error_message(), wanted), "%s: %s", wanted, dt_error_message());
}

static struct cJSON *inside(struct cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static void wrong_profiles(void)
{
    struct cJSON *p = default_profile();
    cJSON_DeleteItemFromObject(inside(p, "gemm"), "half_k");
    refused(p, "p.json: gemm.half_k: missing");
    p = default_profile();
    cJSON_AddNumberToObject(inside(inside(p, "kernels"), "gelu"), "launch", 1);
    refused(p, "p.json: kernels.gelu.launch: unknown key");
    p = default_profile();
    cJSON_SetNumberValue(inside(inside(p, "gemm"), "peak_fraction"), 1.5);
    refused(p, "p.json: gemm.peak_fraction: 1.5 is out of range");
    p = default_profile();
    cJSON_DeleteItemFromObject(inside(p, "sources"), "kernel_s");
    refused(p, "p.json: sources: nothing says where kernel_s comes from");
    p = default_profile();
    cJSON_AddStringToObject(inside(p, "sources"), "gemmm", "nowhere");
    refused(p, "p.json: sources: \"gemmm\" is not a constant of a profile");
    p = default_profile();
    cJSON_DeleteItemFromObject(p, "sources");
    refused(p, "p.json: sources: missing");
    refused(cJSON_CreateArray(), "p.json: expected a profile, a JSON object");
}

static void files_are_found(void)
{
    char path[PATH_MAX];
    static const char *const names[][2] = {
        {"a.json", "a.json"}, {"a", "profiles/a.json"}, {".json", "profiles/.json.json"}, {"./a", "./a"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dt_data_file_name("profiles", names[i][0], path, sizeof path);
        CHECK(strcmp(path, names[i][1]) == 0, "%s is %s", names[i][0], path);
    }
    CHECK(dt_find_data_file("profiles/none.json", "/nowhere", path, sizeof path) == DT_ERR_IO);
    CHECK(strstr(dt_error_message(), "profiles/none.json: not found in /nowhere, ."), "%s", dt_error_message());
    CHECK(dt_find_data_file("/nowhere/none.json", NULL, path, sizeof path) == DT_ERR_IO);
}

static const struct test_case cases[] = {
    {"profiles that come with dtbench", shipped_profiles},
    {"every row reaches the struct", every_row_reaches_the_struct},
    {"wrong profiles", wrong_profiles},
    {"files are found", files_are_found},
};
TEST_MAIN(cases)
