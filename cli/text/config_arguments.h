/* The part of a command line that says which experiments: a config file and what is changed in it. */
#ifndef CLI_TEXT_CONFIG_ARGUMENTS_H
#define CLI_TEXT_CONFIG_ARGUMENTS_H

#include "cli/text/options.h"
#include "schedules/config/experiment.h"

struct config_arguments {
    const char *file, *config; /* as an argument, as --config: the same */
    const char *device;
    struct option_list sets;
};

/* Rows of the option table that fill `arguments`. */
#define CONFIG_OPTION_ROWS(arguments)                                                                                                      \
    {"config", 'c', OPTION_TEXT, &(arguments)->config, "FILE", "the same as FILE; '-' is standard input"},                                 \
        {"set", 's', OPTION_LIST, &(arguments)->sets, "PATH=VALUE", "change the config: --set model.dtype=bf16; any number of times"},     \
        {"device", 'd', OPTION_TEXT, &(arguments)->device, "DEVICE", "the same as --set device=DEVICE"}

/* After options_parse: is there one config, and has each --set a value? Errors: DT_ERR_INVALID. */
dt_status config_arguments_check(struct config_arguments *arguments);

/* The experiments, resolved. Owner of *out: the caller, free. Errors: as experiments_read. */
dt_status config_arguments_read(const struct config_arguments *arguments, struct experiment **out, int *count);

#endif
