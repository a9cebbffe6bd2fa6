#include "cli/words/words.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* Values are written as in JSON, which YAML and TOML read, too. */
static void write_value(const struct cJSON *value, bool quoted, FILE *to)
{
    DT_FREED char *text = NULL;
    if (cJSON_IsString(value) && !quoted)
        fputs(value->valuestring, to);
    else if (dt_json_print(value, DT_JSON_COMPACT, &text) == DT_OK)
        fputs(text, to);
}

/* Write torchrun's flags, the program, and the program's flags, a line each. */
static void write_flags(const struct cJSON *theirs, FILE *to)
{
    static const char *const launcher[] = {"nnodes", "nproc-per-node"};
    fputs("torchrun", to);
    for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++) {
        fprintf(to, " --%s ", launcher[i]);
        write_value(dt_json_at(theirs, launcher[i]), false, to);
    }
    fputs(" pretrain_gpt.py", to);
    for (const struct cJSON *flag = theirs->child; flag; flag = flag->next) {
        if (strcmp(flag->string, launcher[0]) == 0 || strcmp(flag->string, launcher[1]) == 0 || cJSON_IsFalse(flag))
            continue;
        fprintf(to, " \\\n    --%s", flag->string);
        if (!cJSON_IsTrue(flag)) {
            fputc(' ', to);
            write_value(flag, false, to);
        }
    }
    fputc('\n', to);
}

static void write_yaml(const struct cJSON *tree, int indent, FILE *to)
{
    for (const struct cJSON *child = tree->child; child; child = child->next) {
        fprintf(to, "%*s%s:%s", indent, "", child->string, cJSON_IsObject(child) ? "\n" : " ");
        if (cJSON_IsObject(child)) {
            write_yaml(child, indent + 2, to);
            continue;
        }
        write_value(child, true, to);
        fputc('\n', to);
    }
}

static void write_toml(const struct cJSON *theirs, FILE *to)
{
    for (const struct cJSON *table = theirs->child; table; table = table->next) {
        fprintf(to, "%s[%s]\n", table == theirs->child ? "" : "\n", table->string);
        for (const struct cJSON *key = table->child; key; key = key->next) {
            fprintf(to, "%s = ", key->string);
            write_value(key, true, to);
            fputc('\n', to);
        }
    }
}

void words_write_text(const struct framework *f, const struct cJSON *theirs, FILE *to)
{
    char *text = NULL;
    switch (f->format) {
    case TEXT_FLAGS: write_flags(theirs, to); break;
    case TEXT_YAML: write_yaml(theirs, 0, to); break;
    case TEXT_TOML: write_toml(theirs, to); break;
    case TEXT_JSON:
        if (dt_json_print(theirs, DT_JSON_INDENT, &text) == DT_OK)
            fprintf(to, "%s\n", text);
        free(text);
    }
}
