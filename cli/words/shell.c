/* Command lines, and shell scripts that have one, read as a shell reads them, as far as that goes
 * without running anything: variables that the file sets, arrays, quotes, sums of whole numbers,
 * and the branches of `if` and `case` that are taken by what the file sets. */
#include "cli/words/words.h"

#include "lib/base/text.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 1 << 15, NAME_BYTES = 64, VARIABLES = 256, DEPTH = 4, NESTED = 16, TEST_WORDS = 3, VALUE_BYTES = 1024 };

enum truth { NO, YES, NOT_KNOWN };

/* One `if` or `case`, from its first branch to its end. */
struct choice {
    enum truth read;   /* whether the branch is read; NOT_KNOWN: it is, but its variables are not known after it */
    bool over;         /* an earlier branch was taken, or the whole is not read */
    char *subject;     /* of a `case`, owned; NULL: it is an `if` */
    const char *begin; /* its condition, in the script */
};

/* What a script has assigned. A variable whose value is unknown keeps its name as the value:
 * "$NNODES". */
struct shell {
    const char *at;
    char names[VARIABLES][NAME_BYTES];
    char *values[VARIABLES];
    int count, depth;
    int parentheses;   /* those that are open: of an array, whose lines are no commands */
    int command;       /* number of the command that is read */
    int begun;         /* the one whose first word has been read */
    enum truth run;    /* whether the command runs, by && and || before it */
    enum truth status; /* whether the last one that ran has succeeded: tests alone may not */
    const char *test;  /* the last test of its own, in the script */
    enum truth sum;    /* what was between the last "((" and "))" */
    bool full;         /* a word was longer than WORD_BYTES */
    const char *asked; /* the condition on which flags depend, and which is not known; NULL: none */
    struct choice choices[NESTED];
    int open; /* of these */
    struct cJSON *flags;
    char flag[NAME_BYTES];    /* the flag that takes the next word as its value; "": none */
    char last[NAME_BYTES];    /* the flag that has taken its value, to which more words may belong; "": none */
    char value[VALUE_BYTES];  /* of that flag */
    bool redirects;           /* the next word is the file of a redirection */
    char program[NAME_BYTES]; /* the first one in Python; "": none yet */
    int its_command;
    bool several_programs; /* another command has one, too */
};

/* ---- variables and words ---- */

static const char *value_of(const struct shell *s, const char *name)
{
    for (int i = s->count - 1; i >= 0; i--)
        if (strcmp(s->names[i], name) == 0)
            return s->values[i];
    return NULL;
}

static void assign(struct shell *s, const char *word, const char *equals, const char *value)
{
    if (s->count == VARIABLES)
        return;
    snprintf(s->names[s->count], NAME_BYTES, "%.*s", (int)(equals - word), word);
    s->values[s->count] = strdup(value);
    s->count += s->values[s->count] != NULL;
}

/* Between words: parentheses of arrays, too, and what ends a command. */
#define BLANKS " \t\r\n();&|"

static void add(struct shell *s, char word[WORD_BYTES], const char *text, size_t bytes)
{
    size_t used = strlen(word);
    s->full |= used + bytes >= WORD_BYTES;
    snprintf(word + used, WORD_BYTES - used, "%.*s", (int)bytes, text);
}

/* A sum, as shells have it between "$((" and "))". */
struct sum {
    const struct shell *s;
    const char *at;
    bool known; /* all of it so far is whole numbers */
};

static long long sum_of(struct sum *sum, int depth);

/* A number, a variable that is one, or a sum in parentheses. */
static long long number_of(struct sum *sum, int depth)
{
    char name[NAME_BYTES], *end;
    const char *before = sum->at;
    sum->at += strspn(sum->at, " \t\n\"${}");
    bool is_variable = memchr(before, '$', (size_t)(sum->at - before));
    if (*sum->at == '(' && depth < NESTED) {
        sum->at++;
        long long inner = sum_of(sum, depth + 1);
        sum->at += strspn(sum->at, " \t\n\"}");
        sum->known &= *sum->at == ')';
        sum->at += *sum->at == ')';
        sum->at += strspn(sum->at, " \t\n");
        return inner;
    }
    int bytes = 0;
    while (isalnum((unsigned char)sum->at[bytes]) || sum->at[bytes] == '_')
        bytes++;
    snprintf(name, sizeof name, "%.*s", bytes, sum->at);
    const char *value = isdigit((unsigned char)*name) && !is_variable ? name : value_of(sum->s, name);
    long long number = strtoll(value ? value : "", &end, 10);
    sum->at += bytes + (int)strspn(sum->at + bytes, " \t\n\"}");
    sum->known &= value && end > value && !*end && llabs(number) < 1LL << 31;
    return number;
}

static long long product_of(struct sum *sum, int depth)
{
    long long product = number_of(sum, depth);
    while (*sum->at && strchr("*/%", *sum->at)) {
        char operation = *sum->at++;
        long long factor = number_of(sum, depth);
        sum->known &= factor != 0 || operation == '*';
        if (!sum->known || llabs(product) >= 1LL << 31)
            return sum->known = false;
        product = operation == '*' ? product * factor : operation == '/' ? product / factor : product % factor;
    }
    sum->known &= llabs(product) < 1LL << 40;
    return product;
}

static long long sum_of(struct sum *sum, int depth)
{
    long long total = product_of(sum, depth);
    while (*sum->at == '+' || *sum->at == '-')
        total += *sum->at++ == '+' ? product_of(sum, depth) : -product_of(sum, depth);
    return total;
}

/* "$(COMMAND)" stands for itself, "$((SUM))" for its value where that is known. */
static void add_parentheses(struct shell *s, char word[WORD_BYTES])
{
    const char *begin = s->at;
    int open = 0;
    for (s->at++; *s->at; s->at++) {
        open += (*s->at == '(') - (*s->at == ')');
        if (open == 0)
            break;
    }
    s->at += *s->at == ')';
    struct sum sum = {s, begin + 3, strncmp(begin, "$((", 3) == 0};
    long long value = sum.known ? sum_of(&sum, 0) : 0;
    char text[24];
    if (sum.known && strncmp(sum.at, "))", 2) == 0 && sum.at + 2 == s->at)
        add(s, word, text, (size_t)snprintf(text, sizeof text, "%lld", value));
    else
        add(s, word, begin, (size_t)(s->at - begin));
}

/* "$NAME", "${NAME}", "${NAME:-default}", or what is in parentheses. */
static void add_variable(struct shell *s, char word[WORD_BYTES])
{
    const char *begin = s->at++, *name = s->at, *otherwise = NULL;
    char text[NAME_BYTES];
    if (*name == '(') {
        s->at = begin;
        add_parentheses(s, word);
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
        const char *mark = s->at + (*s->at == ':');
        otherwise = *mark == '-' || *mark == '=' ? mark + 1 : NULL;
        s->at += strcspn(s->at, "}");
        bytes = otherwise ? (size_t)(s->at - otherwise) : 0;
        s->at += *s->at == '}';
    }
    bool quoted = bytes > 1 && otherwise && strchr("\"'", *otherwise) && otherwise[bytes - 1] == *otherwise;
    const char *value = value_of(s, text);
    if (value)
        add(s, word, value, strlen(value));
    else if (otherwise)
        add(s, word, otherwise + quoted, bytes - 2 * quoted);
    else
        add(s, word, begin, (size_t)(s->at - begin));
}

static void next_pattern(struct shell *s);

static enum truth opposite(enum truth truth)
{
    return truth == NOT_KNOWN ? NOT_KNOWN : !truth;
}

/* Pass "((A > 2))", and find whether that holds. */
static void pass_sum(struct shell *s)
{
    struct sum sum = {s, s->at + 2, true};
    s->test = s->at;
    long long left = sum_of(&sum, 0);
    const char *relation = sum.at;
    size_t marks = strspn(relation, "<>=!");
    sum.at += marks;
    long long right = sum_of(&sum, 0);
    bool equal = memchr(relation, '=', marks), known = sum.known && marks > 0 && strncmp(sum.at, "))", 2) == 0;
    if (*relation == '!')
        s->sum = left != right;
    else
        s->sum = (equal && left == right) || (*relation == '<' && left < right) || (*relation == '>' && left > right);
    s->sum = known ? s->sum : NOT_KNOWN;
    for (int open = 0; *s->at && (open += (*s->at == '(') - (*s->at == ')')) > 0;)
        s->at++;
    s->at += *s->at == ')';
    if (s->run == YES)
        s->status = s->sum;
    s->begun = s->command;
}

/* Pass what ends a command, and find whether the next one runs. A line may end after && and ||. */
static void end_command(struct shell *s)
{
    bool if_done = strncmp(s->at, "&&", 2) == 0, if_failed = strncmp(s->at, "||", 2) == 0;
    bool goes_on = *s->at == '\n' && s->command != s->begun;
    if (if_done || if_failed)
        s->run = if_done ? s->status : opposite(s->status);
    else if (*s->at != '|' && !goes_on)
        s->run = s->status = YES;
    s->command++;
    *s->flag = *s->last = 0;
    s->at += if_done || if_failed ? 2 : 1;
}

/* Pass what is between words. A backslash joins two lines. */
static void pass_blanks(struct shell *s)
{
    while (*s->at && (strchr(BLANKS, *s->at) || strncmp(s->at, "\\\n", 2) == 0 || *s->at == '#')) {
        bool is_command = s->parentheses == 0 && s->depth == 1, ends = strchr("\n;&|", *s->at) && is_command;
        if (strchr(";&|", *s->at))
            *s->flag = *s->last = 0;
        if (is_command && strncmp(s->at, "((", 2) == 0) {
            pass_sum(s);
            continue;
        }
        if (ends && strncmp(s->at, ";;", 2) == 0 && s->open > 0 && s->choices[s->open - 1].subject) {
            s->at += 2;
            s->command++;
            next_pattern(s);
            continue;
        }
        if (ends) {
            end_command(s);
            continue;
        }
        s->parentheses += *s->at == '(';
        s->parentheses -= *s->at == ')' && s->parentheses > 0;
        s->at += *s->at == '#' ? strcspn(s->at, "\n") : *s->at == '\\' ? 2 : 1;
    }
}

/* Read a word. Returns whether it is one: a variable that is empty, without quotes around it, is none. */
static bool read_word(struct shell *s, char word[WORD_BYTES])
{
    char quote = 0;
    bool quoted = false;
    while (*s->at && (quote || !strchr(BLANKS, *s->at) || (*s->at == '&' && s->at[-1] == '>'))) { /* 2>&1 is one word */
        if (*s->at == '\\' && quote != '\'' && s->at[1]) {
            add(s, word, s->at + 1, s->at[1] != '\n');
            s->at += 2;
        } else if (*s->at == '`' && quote != '\'') { /* a command, which stands for itself */
            size_t bytes = 1 + strcspn(s->at + 1, "`");
            bytes += s->at[bytes] == '`';
            add(s, word, s->at, bytes);
            s->at += bytes;
        } else if ((*s->at == '"' || *s->at == '\'') && (!quote || quote == *s->at)) {
            quote = quote ? 0 : *s->at;
            quoted = true;
            s->at++;
        } else if (*s->at == '$' && quote != '\'') {
            add_variable(s, word);
        } else {
            add(s, word, s->at++, 1);
        }
    }
    return *word || quoted;
}

/* The next word; false at the end. */
static bool next_word(struct shell *s, char word[WORD_BYTES])
{
    *word = 0;
    do {
        pass_blanks(s);
        if (!*s->at)
            return false;
    } while (!read_word(s, word));
    return true;
}

/* ---- branches ---- */

static bool is_outside(const char *word)
{
    return strpbrk(word, "$`") != NULL;
}

/* One test, without its brackets: -z A, A = B, A -gt B, or a word. */
static enum truth test_of(char words[][NAME_BYTES], int count)
{
    static const char *const relations[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    if (count == 2 && (strcmp(words[0], "-z") == 0 || strcmp(words[0], "-n") == 0))
        return (!*words[1] || *words[1] == '$') == (words[0][1] == 'z'); /* what the file does not set is empty */
    if (count == 1)
        return strcmp(words[0], "true") == 0 ? YES : strcmp(words[0], "false") == 0 ? NO : NOT_KNOWN;
    if (count != TEST_WORDS || is_outside(words[0]) || is_outside(words[2]))
        return NOT_KNOWN;
    if (dt_is_one_of(words[1], "= == !="))
        return (fnmatch(words[2], words[0], 0) == 0) == (*words[1] == '=');
    char *ends[2];
    long left = strtol(words[0], &ends[0], 10), right = strtol(words[2], &ends[1], 10);
    const bool holds[] = {left == right, left != right, left<right, left <= right, left> right, left >= right};
    for (size_t i = 0; !*ends[0] && !*ends[1] && i < sizeof relations / sizeof *relations; i++)
        if (strcmp(words[1], relations[i]) == 0)
            return holds[i];
    return NOT_KNOWN;
}

static enum truth joined(enum truth left, enum truth right, bool and)
{
    enum truth decides = and ? NO : YES;
    return left == decides || right == decides ? decides : left == NOT_KNOWN || right == NOT_KNOWN ? NOT_KNOWN : !decides;
}

/* Read a condition, and the word that ends it: `then`, or a bracket. */
static enum truth condition(struct shell *s, const char *end)
{
    char words[TEST_WORDS + 1][NAME_BYTES];
    DT_FREED char *word = malloc(WORD_BYTES);
    enum truth whole = YES, run = s->run;
    s->sum = NOT_KNOWN;
    bool and = true, is_not = false, more = word != NULL;
    for (int count = 0; more;) {
        const char *before = s->at + strspn(s->at, " \t");
        bool joins = strncmp(before, "&&", 2) == 0 || strncmp(before, "||", 2) == 0;
        more = next_word(s, word) && strcmp(word, end) != 0;
        if (joins || !more) {
            enum truth test = count ? test_of(words, count) : s->sum;
            whole = joined(whole, is_not ? opposite(test) : test, and);
            and = *before == '&';
            is_not = false;
            count = 0;
        }
        if (strcmp(word, "!") == 0)
            is_not = !is_not;
        else if (count <= TEST_WORDS && !dt_is_one_of(word, "[ ] [[ ]] test"))
            snprintf(words[count++], NAME_BYTES, "%.63s", word);
    }
    s->run = run;
    s->begun = s->command;
    return whole;
}

/* Go on to the next branch, whose condition is `holds`. */
static void branch(struct choice *c, enum truth holds)
{
    c->over |= c->read == YES;
    c->read = c->over ? NO : c->read == NOT_KNOWN ? NOT_KNOWN : holds;
}

/* The pattern of a branch of `case`, and the parenthesis after it; `esac` ends them. */
static void next_pattern(struct shell *s)
{
    struct choice *c = &s->choices[s->open - 1];
    enum truth holds = is_outside(c->subject) ? NOT_KNOWN : NO;
    pass_blanks(s);
    size_t bytes = strcspn(s->at, ")");
    if (strncmp(s->at, "esac", 4) == 0 || !s->at[bytes])
        return;
    for (size_t i = 0; i < bytes && holds == NO; i += i < bytes) {
        char pattern[NAME_BYTES];
        i += strspn(s->at + i, " \"'");
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(s->at + i, " |)\"'"), s->at + i);
        holds = fnmatch(pattern, c->subject, 0) == 0;
        while (i < bytes && s->at[i] != '|')
            i++;
    }
    s->at += bytes + 1;
    branch(c, holds);
}

static enum truth is_read(const struct shell *s)
{
    enum truth read = s->run;
    for (int i = 0; i < s->open; i++)
        read = joined(read, s->choices[i].read, true);
    return read;
}

/* Take a word that begins a command and says which of the next ones are read. */
static bool take_branch(struct shell *s, const char *word)
{
    static const size_t LONGEST = 1000; /* bytes of a condition: an `if` of another language has no `then` */
    struct choice *c = s->open > 0 ? &s->choices[s->open - 1] : NULL, opened = {.over = is_read(s) == NO, .begin = s->at};
    const char *then = strstr(s->at, "then"), *in = strstr(s->at, " in");
    if ((strcmp(word, "[") == 0 || strcmp(word, "[[") == 0) && strcspn(s->at, "]") < strcspn(s->at, "\n")) {
        s->test = s->at - strlen(word);
        enum truth holds = condition(s, word[1] ? "]]" : "]");
        s->status = s->run == YES ? holds : s->status;
        return true;
    }
    if (strcmp(word, "if") == 0 && s->open < NESTED && then && then < s->at + LONGEST) {
        s->choices[s->open] = opened;
        enum truth holds = condition(s, "then");
        branch(&s->choices[s->open++], holds);
    } else if (strcmp(word, "case") == 0 && s->open < NESTED && in && in < s->at + LONGEST) {
        DT_FREED char *subject = malloc(WORD_BYTES);
        DT_FREED char *word_in = malloc(WORD_BYTES);
        if (subject && word_in && next_word(s, subject) && next_word(s, word_in))
            opened.subject = strdup(subject);
        s->choices[s->open++] = opened;
        if (opened.subject)
            next_pattern(s);
    } else if (c && strcmp(word, "elif") == 0) {
        branch(c, condition(s, "then"));
    } else if (c && strcmp(word, "else") == 0) {
        branch(c, YES);
    } else if (c && strcmp(word, c->subject ? "esac" : "fi") == 0) {
        free(c->subject);
        s->open--;
    } else {
        return false;
    }
    s->begun = s->command - 1; /* the next word begins a command, too */
    return true;
}

/* ---- flags ---- */

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

static bool is_flag(const char *word)
{
    return strncmp(word, "--", 2) == 0 && isalpha((unsigned char)word[2]);
}

/* Take a word that is no flag: the value of the flag before it, or one more word of that value. One
 * more is only taken after the program's name, since a word before it may be the program. */
static void take_value(struct shell *s, const char *word, bool is_after)
{
    size_t used = strlen(s->value);
    if (*s->flag) {
        snprintf(s->last, sizeof s->last, "%s", s->flag);
        snprintf(s->value, sizeof s->value, "%s", word);
        dt_json_put(s->flags, s->flag, dt_json_value(word));
    } else if (*s->last && is_after && *word != '-' && !strstr(word, ".py")) {
        snprintf(s->value + used, sizeof s->value - used, " %s", word);
        dt_json_put(s->flags, s->last, dt_json_text(s->value));
    }
    if (*word == '-' && isalpha((unsigned char)word[1])) /* an option of one letter */
        *s->last = 0;
    *s->flag = 0;
}

static void take_word(struct shell *s, const char *word)
{
    char flag[NAME_BYTES];
    if (s->redirects || is_redirection(word)) {
        s->redirects = !s->redirects && strchr("<>", word[strlen(word) - 1]);
        return;
    }
    const bool is_after = *s->program || s->depth > 1 || s->parentheses > 0;
    take_program(s, word);
    if (!is_flag(word)) {
        take_value(s, word, is_after);
        return;
    }
    size_t bytes = strcspn(word + 2, "=");
    snprintf(flag, sizeof flag, "%.*s", (int)bytes, word + 2);
    for (char *c = flag; *c; c++)
        *c = *c == '_' || *c == '.' ? '-' : *c;
    bool has_value = word[2 + bytes] == '=';
    *s->last = 0;
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

static void read_words(struct shell *s, const char *text);

/* Take a word of a branch that is read, or may be. The value of a variable, or a quoted word, may
 * itself contain flags, or a command line. */
static void take(struct shell *s, const char *word, bool may_be)
{
    const char *equals = is_assignment(word) ? strchr(word, '=') : NULL, *flags = equals ? equals + 1 : word;
    flags += strspn(flags, " \t\r\n\\");
    bool several = s->depth < DEPTH && strpbrk(flags, " \t\n") && (is_flag(flags) || strstr(flags, ".py "));
    if (may_be && s->run == NOT_KNOWN && (several || is_flag(word)))
        s->asked = s->test;
    if (may_be && (several || is_flag(word)))
        for (int i = 0; i < s->open; i++)
            s->asked = s->choices[i].read == NOT_KNOWN ? s->choices[i].begin : s->asked;
    if (equals && may_be) {
        char unknown[NAME_BYTES];
        snprintf(unknown, sizeof unknown, "$%.*s", (int)(equals - word), word);
        assign(s, word, equals, unknown);
    } else if (equals) {
        assign(s, word, equals, equals + 1);
    }
    if (several)
        read_words(s, flags);
    else if (!equals)
        take_word(s, word);
}

static void read_words(struct shell *s, const char *text)
{
    DT_FREED char *word = malloc(WORD_BYTES);
    const char *before = s->at;
    s->at = text;
    s->depth++;
    while (word && next_word(s, word)) {
        bool begins = s->depth == 1 && s->parentheses == 0 && s->command != s->begun;
        s->begun = begins ? s->command : s->begun;
        if (begins && s->run == YES)
            s->status = YES;
        if (begins && strcmp(word, "do") == 0)
            s->begun--;
        else if (!(begins && take_branch(s, word)) && is_read(s) != NO)
            take(s, word, is_read(s) == NOT_KNOWN);
    }
    *s->flag = *s->last = 0;
    s->depth--;
    s->at = before;
}

/* Name the condition on which flags depend, and the line of the text that has it. */
static dt_status refuse_condition(const char *asked, const char *text, const char *name)
{
    int line = 1;
    for (const char *c = text; c < asked; c++)
        line += *c == '\n';
    asked += strspn(asked, " ");
    size_t length = strcspn(asked, ";&\n");
    while (length > 0 && asked[length - 1] == ' ')
        length--;
    return dt_fail(DT_ERR_INVALID,
                   "%s:%d: flags depend on %.*s, which the file does not say: set its variables above it, or leave only the "
                   "branch that is taken",
                   name, line, (int)length, asked);
}

dt_status words_read_flags(const char *text, const char *name, struct cJSON **out)
{
    DT_FREED struct shell *s = calloc(1, sizeof *s);
    *out = cJSON_CreateObject();
    dt_status status = dt_allocated(s && *out, "no memory for a command line");
    if (status == DT_OK) {
        s->flags = *out;
        s->command = 1;
        s->run = s->status = YES;
        read_words(s, text);
        if (s->several_programs)
            status = dt_fail(DT_ERR_INVALID, "%s: has several command lines, the first one of %s: leave only that of the training in it",
                             name, s->program);
        else if (s->full)
            status =
                dt_fail(DT_ERR_INVALID, "%s: one of its words is longer than %d bytes: leave only the command line of the training in it",
                        name, WORD_BYTES);
        else if (s->asked)
            status = refuse_condition(s->asked, text, name);
    }
    for (int i = 0; s && i < s->open; i++)
        free(s->choices[i].subject);
    for (int i = 0; s && i < s->count; i++)
        free(s->values[i]);
    if (status < 0)
        dt_json_destroy(*out);
    return status;
}
