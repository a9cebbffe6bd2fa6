/* The part of a command line that says which experiments: a config file and what is changed in it. */
#ifndef CLI_TEXT_CONFIG_ARGUMENTS_H
#define CLI_TEXT_CONFIG_ARGUMENTS_H

#include "cli/text/options.h"
#include "schedules/config/experiment_list.h"

struct config_arguments {
    const char *file, *config; /* as an argument, as --config: the same */
    const char *device;
    struct option_list sets;
    bool passes_only; /* as of experiments_read */
};

/* Rows of the option table that fill `member` of the command's struct `type`. */
#define CONFIG_OPTION_ROWS(type, member)                                                                                                   \
    {"config", 'c', OPTION_TEXT, offsetof(type, member.config), "FILE", "the same as FILE; '-' is standard input", NULL},                  \
        {"set", 's', OPTION_LIST, offsetof(type, member.sets), "PATH=VALUE", CONFIG_SET_HELP, NULL},                                       \
    {                                                                                                                                      \
        "device", 'd', OPTION_TEXT, offsetof(type, member.device), "DEVICE", "the same as --set device=DEVICE", config_device_choice       \
    }

#define CONFIG_SET_HELP                                                                                                                    \
    "change the config before it is read: --set model.dtype=bf16 or --set sweep.batch_size=[1,2,4]. The value is JSON, or a string where " \
    "it is not JSON. Any number of times. Setting a path removes it from the sweep"

/* The devices that a config may name. */
const char *config_device_choice(int index);

/* After options_parse: is there one config, and has each --set a value? Errors: DT_ERR_INVALID. */
dt_status config_arguments_check(struct config_arguments *arguments);

/* The experiments, resolved. Owner of *out: the caller, experiment_list_destroy. Errors: as experiments_read. */
dt_status config_arguments_read(const struct config_arguments *arguments, struct experiment_list **out);

/* Whether a config file has the key of the object at its top: a default is then not asked for. No file (NULL), and standard input, which is read
 * once, say nothing. Errors: as dt_read_file, dt_json_parse. */
dt_status config_file_says(const char *file, const char *object, const char *key, bool *out);

/* Say on standard error how many combinations of the sweep are left out, and why; nothing where there are none. */
void config_note_left_out(const struct experiment_list *experiments);

#endif
