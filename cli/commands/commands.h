/* The commands, each in the file of its name: it reads its options, calls cli/run, cli/records or
 * cli/predict for the work, prints, and returns the exit code (cli/text/exit_code.h). A file ends
 * with its command's row. cli/main.c has the table of them, and is the only file outside of this
 * folder that includes this header. No command calls another one. */
#pragma once

#include "cli/text/text.h"

extern const struct command command_run, command_check, command_compare, command_merge, command_status, command_validate, command_calibrate,
    command_bench, command_report, command_trace, command_import, command_export, command_show, command_list, command_plan, command_tune,
    command_fit;

/* Hidden, and started by dtbench itself. */
extern const struct command command_rank, command_calibrate_rank, command_slurm;
