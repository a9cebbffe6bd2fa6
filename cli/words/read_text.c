/* Reads the formats in which jobs are written. JSON and command lines are read here. YAML and TOML
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

enum { WORD_BYTES = 4096, NAME_BYTES = 64, VARIABLES = 256, DEPTH = 4 };

/* ---- command lines, as a shell reads them ---- */

/* What a script has assigned. A variable whose value is unknown keeps its name as the value:
 * "$NNODES". */
struct shell {
    const char *at;
    char names[VARIABLES][NAME_BYTES];
    char *values[VARIABLES];
    int count, depth;
    int parentheses; /* those that are open: of an array, whose lines are no commands */
    int command;     /* number of the command that is read */
    struct cJSON *flags;
    char flag[NAME_BYTES];    /* the flag that takes the next word as its value; "": none */
    bool redirects;           /* the next word is the file of a redirection */
    char program[NAME_BYTES]; /* the first one in Python; "": none yet */
    int its_command;
    bool several_programs; /* another command has one, too */
};

static const char *value_of(const struct shell *s, const char *name)
{
    for (int i = s->count - 1; i >= 0; i--)
        if (strcmp(s->names[i], name) == 0)
            return s->values[i];
    return NULL;
}

static void assign(struct shell *s, const char *word, const char *equals)
{
    if (s->count == VARIABLES)
        return;
    snprintf(s->names[s->count], NAME_BYTES, "%.*s", (int)(equals - word), word);
    s->values[s->count] = strdup(equals + 1);
    s->count += s->values[s->count] != NULL;
}

/* Between words: parentheses of arrays, too, and what ends a command. */
#define BLANKS " \t\r\n();&|"

static void add(char word[WORD_BYTES], const char *text, size_t bytes)
{
    size_t used = strlen(word);
    snprintf(word + used, WORD_BYTES - used, "%.*s", (int)bytes, text);
}

/* "$NAME", "${NAME}", "${NAME:-default}"; arithmetic is not done. */
static void add_variable(struct shell *s, char word[WORD_BYTES])
{
    const char *begin = s->at++, *name = s->at, *otherwise = NULL;
    char text[NAME_BYTES];
    if (*name == '(') {
        s->at = name + strcspn(name, ")");
        s->at += strspn(s->at, ")");
        add(word, begin, (size_t)(s->at - begin));
        return;
    }
    bool braces = *name == '{';
    name += braces;
    size_t bytes = 0;
    while (isalnum((unsigned char)name[bytes]) || name[bytes] == '_')
        bytes++;
    snprintf(text, sizeof text, "%.*s", (int)bytes, name);
    s->at = name + bytes;
    if (braces) {
        otherwise = strncmp(s->at, ":-", 2) == 0 ? s->at + 2 : NULL;
        s->at += strcspn(s->at, "}");
        bytes = otherwise ? (size_t)(s->at - otherwise) : 0;
        s->at += *s->at == '}';
    }
    const char *value = value_of(s, text);
    if (value)
        add(word, value, strlen(value));
    else if (otherwise)
        add(word, otherwise + strspn(otherwise, "\"'"), bytes - 2 * strspn(otherwise, "\"'"));
    else
        add(word, begin, (size_t)(s->at - begin));
}

/* Pass what is between words. A backslash joins two lines. */
static void pass_blanks(struct shell *s)
{
    while (*s->at && (strchr(BLANKS, *s->at) || strncmp(s->at, "\\\n", 2) == 0 || *s->at == '#')) {
        bool ends = strchr("\n;&|", *s->at) && s->parentheses == 0 && s->depth == 1;
        if (ends) {
            s->command++;
            *s->flag = 0;
        }
        s->parentheses += *s->at == '(';
        s->parentheses -= *s->at == ')' && s->parentheses > 0;
        s->at += *s->at == '#' ? strcspn(s->at, "\n") : *s->at == '\\' ? 2 : 1;
    }
}

/* The next word; false at the end. */
static bool next_word(struct shell *s, char word[WORD_BYTES])
{
    char quote = 0;
    *word = 0;
    pass_blanks(s);
    if (!*s->at)
        return false;
    while (*s->at && (quote || !strchr(BLANKS, *s->at) || (*s->at == '&' && s->at[-1] == '>'))) { /* 2>&1 is one word */
        if (*s->at == '\\' && quote != '\'' && s->at[1]) {
            add(word, s->at + 1, s->at[1] != '\n');
            s->at += 2;
        } else if ((*s->at == '"' || *s->at == '\'') && (!quote || quote == *s->at)) {
            quote = quote ? 0 : *s->at;
            s->at++;
        } else if (*s->at == '$' && quote != '\'') {
            add_variable(s, word);
        } else {
            add(word, s->at++, 1);
        }
    }
    return true;
}

static void take_program(struct shell *s, const char *word)
{
    size_t bytes = strlen(word);
    bool is_python = bytes > 3 && strcmp(word + bytes - 3, ".py") == 0 && !strchr(word, ' ');
    if (!is_python || s->depth > 1 || s->parentheses > 0)
        return;
    s->several_programs |= *s->program && s->command != s->its_command;
    if (!*s->program)
        snprintf(s->program, sizeof s->program, "%s", word);
    s->its_command = s->command;
}

/* ">log", "2>&1", or "<" before a file's name. */
static bool is_redirection(const char *word)
{
    return strchr("<>", word[strspn(word, "0123456789")]) && word[strspn(word, "0123456789")];
}

/* Take a word. After a flag it is the flag's value; of several words the first is kept. */
static void take_word(struct shell *s, const char *word)
{
    char flag[NAME_BYTES];
    bool is_flag = strncmp(word, "--", 2) == 0 && isalpha((unsigned char)word[2]);
    if (s->redirects || is_redirection(word)) {
        s->redirects = !s->redirects && strchr("<>", word[strlen(word) - 1]);
        return;
    }
    take_program(s, word);
    if (!is_flag) {
        if (*s->flag)
            dt_json_put(s->flags, s->flag, dt_json_value(word));
        *s->flag = 0;
        return;
    }
    size_t bytes = strcspn(word + 2, "=");
    snprintf(flag, sizeof flag, "%.*s", (int)bytes, word + 2);
    for (char *c = flag; *c; c++)
        *c = *c == '_' || *c == '.' ? '-' : *c;
    bool has_value = word[2 + bytes] == '=';
    dt_json_put(s->flags, flag, has_value ? dt_json_value(word + 2 + bytes + 1) : dt_json_truth(true));
    snprintf(s->flag, sizeof s->flag, "%s", has_value ? "" : flag);
}

static bool is_assignment(const char *word)
{
    size_t bytes = strcspn(word, "=");
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)word[i]) && word[i] != '_' && word[i] != '+')
            return false;
    return bytes > 0 && word[bytes] == '=';
}

/* Read text as words again: the value of a variable, or a quoted word, may itself contain flags. */
static void read_words(struct shell *s, const char *text)
{
    DT_FREED char *word = malloc(WORD_BYTES);
    const char *before = s->at;
    s->at = text;
    s->depth++;
    while (word && next_word(s, word)) {
        const char *flags = is_assignment(word) ? strchr(word, '=') + 1 : word;
        flags += strspn(flags, " \t\r\n\\");
        bool several = strncmp(flags, "--", 2) == 0 && strpbrk(flags, " \t\n") && s->depth < DEPTH;
        if (several)
            read_words(s, flags);
        else if (is_assignment(word))
            assign(s, word, strchr(word, '='));
        else
            take_word(s, word);
    }
    *s->flag = 0;
    s->depth--;
    s->at = before;
}

dt_status words_read_flags(const char *text, const char *name, struct cJSON **out)
{
    DT_FREED struct shell *s = calloc(1, sizeof *s);
    *out = cJSON_CreateObject();
    dt_status status = dt_allocated(s && *out, "no memory for a command line");
    if (status == DT_OK) {
        s->flags = *out;
        read_words(s, text);
        if (s->several_programs)
            status = dt_fail(DT_ERR_INVALID, "%s: has several command lines, the first one of %s: leave only that of the training in it",
                             name, s->program);
    }
    for (int i = 0; s && i < s->count; i++)
        free(s->values[i]);
    if (status < 0)
        dt_json_destroy(*out);
    return status;
}

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
