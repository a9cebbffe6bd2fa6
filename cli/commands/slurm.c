/* `dtbench slurm`: the helper process of lib/slurm/facts.h. */
#include "cli/commands/commands.h"

#include "cli/text/text.h"
#include "lib/slurm/library.h"

static int run(int argc, char **argv)
{
    if (argc != 1) {
        fprintf(stderr, "dtbench slurm: only dtbench itself starts this; takes no argument\n");
        return EXIT_CODE_USAGE;
    }
    return dt_slurm_library_answer() == DT_OK ? EXIT_CODE_OK : report_failure("slurm", EXIT_CODE_OTHER);
}

const struct command command_slurm = {
    .name = "slurm",
    .summary = "print what libslurm knows of this job; called by dtbench itself",
    .run = run,
    .hidden = true,
};
