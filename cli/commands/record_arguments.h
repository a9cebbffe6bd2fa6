/* The arguments of the commands that read records: compare, merge and status. */
#ifndef CLI_COMMANDS_RECORD_ARGUMENTS_H
#define CLI_COMMANDS_RECORD_ARGUMENTS_H

#include "cli/records/record_set.h"

/* For the help. */
#define RECORD_ARGUMENTS_HELP                                                                                                              \
    "RECORDS are files, folders (all *.jsonl in them, sorted by name), quoted patterns, or '-' for standard input. Of several records of " \
    "one experiment (the same config_hash) the newest with status ok counts, or the newest of all where none is ok."

/* Read the records of `arguments` for `command`. Returns the exit code; a failure is already printed. Owner of *out, also after a failure:
 * the caller, record_set_finish. */
int record_arguments_read(const char *command, const char *const *arguments, int count, struct record_set *out);

#endif
