/* Reads the formats in which jobs are written. JSON is read here, command lines in shell.c. YAML and TOML
 * are read by one line of Python, which prints the file as JSON. Debian 12 has no C library for
 * TOML. Its C library for YAML does not distinguish numbers from texts. */
#include "cli/words/words.h"

#include "lib/base/text.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what Python reads ---- */

static const struct {
    const char *endings[2];
    const char *title, *program, *hint;
} readers[] = {
    [TEXT_YAML] =
        {{".yaml", ".yml"},
         "YAML",
         "import sys,json,re,yaml; yaml.SafeLoader.add_implicit_resolver('tag:yaml.org,2002:float',"
         "re.compile(r'[-+]?[0-9]+(\\.[0-9]*)?[eE][-+]?[0-9]+$'),list('-+0123456789'));" /* 2e-5: a text in YAML 1.1, and a number in 1.2 */
         "json.dump(yaml.safe_load(open(sys.argv[1])),sys.stdout,default=str)",
         "python3 and its module yaml (Debian: python3-yaml)"},
    [TEXT_TOML] = {{".toml", NULL},
                   "TOML",
                   "import sys,json,tomllib; json.dump(tomllib.load(open(sys.argv[1],'rb')),sys.stdout,default=str)",
                   "python3 3.11 or newer"},
};

/* Run Python on the file; its output, or its error message, in *text. */
static dt_status run_python(const char *path, const char *program, bool *failed, char **text, size_t *bytes)
{
    extern char **environ;
    int ends[2], state = 0;
    pid_t child;
    char output[32];
    char *arguments[] = {"python3", "-c", (char *)program, (char *)(strcmp(path, "-") == 0 ? "/dev/stdin" : path), NULL};
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return dt_fail(DT_ERR_IO, "%s: no pipe", path);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    int refused = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    snprintf(output, sizeof output, "/proc/self/fd/%d", ends[0]);
    dt_status status = refused ? DT_OK : dt_read_file(output, text, bytes);
    close(ends[0]);
    if (!refused)
        waitpid(child, &state, 0);
    *failed = refused || !WIFEXITED(state) || WEXITSTATUS(state) != 0;
    return status;
}

static const char *last_line(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = 0;
    const char *line = strrchr(text, '\n');
    dt_printable(text);
    return line ? line + 1 : text;
}

static dt_status read_by_python(const char *path, enum text_format format, struct cJSON **out)
{
    DT_FREED char *text = NULL;
    size_t bytes = 0;
    bool failed = true;
    if (strcmp(path, "-") != 0 && access(path, R_OK) != 0)
        return dt_fail(DT_ERR_IO, "%s: cannot be read", path);
    DT_TRY(run_python(path, readers[format].program, &failed, &text, &bytes));
    if (failed && (!text || strstr(text, "ModuleNotFoundError")))
        return dt_fail(DT_ERR_UNAVAILABLE, "%s: %s is read by %s, which is missing", path, readers[format].title, readers[format].hint);
    if (failed)
        return dt_fail(DT_ERR_INVALID, "%s: is no %s: %.300s", path, readers[format].title, last_line(text));
    return dt_json_parse(text, bytes, path, out);
}

static bool ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), bytes = ending ? strlen(ending) : 0;
    return ending && length > bytes && strcmp(path + length - bytes, ending) == 0;
}

static enum text_format format_of(const char *path, const struct framework *f)
{
    for (int i = TEXT_YAML; i <= TEXT_TOML; i++)
        if (ends_with(path, readers[i].endings[0]) || ends_with(path, readers[i].endings[1]))
            return (enum text_format)i;
    return ends_with(path, ".json") ? TEXT_JSON : f && !ends_with(path, ".sh") ? f->format : TEXT_FLAGS;
}

static dt_status read_value(const char *path, enum text_format format, struct cJSON **out)
{
    DT_FREED char *text = NULL;
    size_t length;
    if (ends_with(path, ".py"))
        return dt_fail(DT_ERR_INVALID, "%s: a Python file is not run: give the file that it reads, or writes down", path);
    if (format == TEXT_YAML || format == TEXT_TOML)
        return read_by_python(path, format, out);
    DT_TRY(dt_read_file(path, &text, &length));
    return format == TEXT_JSON ? dt_json_parse(text, length, path, out) : words_read_flags(text, path, out);
}

dt_status words_read_text(const char *path, const struct framework *f, struct cJSON **out)
{
    DT_TRY(read_value(path, format_of(path, f), out));
    if (cJSON_IsObject(*out))
        return DT_OK;
    dt_json_destroy(*out);
    return dt_fail(DT_ERR_INVALID, "%s: expected an object of keys and values", path);
}
