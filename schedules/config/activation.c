#include "schedules/config/activation.h"

#include <string.h>

const char *activation_name(enum activation_kind kind)
{
    static const char *const names[] = {[ACTIVATION_KEEP] = "keep",
                                        [ACTIVATION_CHECKPOINT] = "checkpoint",
                                        [ACTIVATION_OFFLOAD] = "offload",
                                        [ACTIVATION_SELECTIVE] = "selective"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

/* Words of "keep-checkpoint"; 0 of "". */
static int count_words(const char *text)
{
    int count = *text != 0;
    for (; *text; text++)
        count += *text == '-';
    return count;
}

/* The policy whose name is the first word of `text`. */
static enum activation_kind first_word(const char *text)
{
    size_t length = strcspn(text, "-");
    enum activation_kind kind = ACTIVATION_KEEP;
    while (activation_name(kind) && (strlen(activation_name(kind)) != length || strncmp(activation_name(kind), text, length) != 0))
        kind++;
    return kind;
}

enum activation_kind experiment_activation(const struct experiment *e, int part)
{
    const char *word = e->pipeline.activation;
    if (!*word || experiment_stages(e) == 1)
        return e->activation;
    for (; part > 0; part--)
        word = strchr(word, '-') + 1;
    return first_word(word);
}

dt_status experiment_check_activation(const struct experiment *e, int parts, const char *where)
{
    int words = count_words(e->pipeline.activation);
    if (words == 0 || words == parts)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID,
                   "%s: pipeline.activation: %d %s, but pipeline.order %s gives each rank %d %s of the model; one for each%s", where, words,
                   words > 1 ? "policies" : "policy", e->pipeline.order, parts, parts > 1 ? "parts" : "part",
                   parts == 1 ? ", or \"activation\" for all" : "");
}
