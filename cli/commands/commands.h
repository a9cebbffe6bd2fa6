/* The commands, each in the file of its name: it reads its options, has the work done by cli/run, cli/records or cli/predict, prints, and
 * returns the exit code. cli/main.c has the table of them, and is the only file outside of this folder that includes this header. No
 * command calls another one. */
#ifndef CLI_COMMANDS_COMMANDS_H
#define CLI_COMMANDS_COMMANDS_H

/* argv[0] is the command's name; each returns the exit code (cli/text/exit_code.h). */
int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_validate(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_list(int argc, char **argv);

int cmd_generate(int argc, char **argv); /* hidden: for scripts/generate */

/* Hidden, and started by dtbench itself: */
int cmd_rank(int argc, char **argv);           /* one rank of an experiment */
int cmd_calibrate_rank(int argc, char **argv); /* one rank of a calibration */
int cmd_slurm(int argc, char **argv);          /* what libslurm knows of this job */

#endif
