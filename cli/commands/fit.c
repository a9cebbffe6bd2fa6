/* `dtbench fit`: a profile for software of one's own, from a few measured runs. This file is the
 * command line; the fit is scripts/fit, a Python program that calls `dtbench validate`, and becomes
 * this process. */
#include "cli/commands/commands.h"

#include "cli/text/text.h"
#include "lib/config/data_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fit_options {
    const char *runs, *cluster, *output; /* all others are read by the script alone */
    const char *profile, *name, *seconds, *jobs;
    struct option_list sets, where;
};

#define AT(member) offsetof(struct fit_options, member)

static const struct option_row options[] = {
    {"cluster", 'C', OPTION_TEXT, AT(cluster), "FILE", NULL, "the cluster of the runs, by name or file"},
    {"output", 'o', OPTION_TEXT, AT(output), "FILE", NULL, "the profile to write"},
    {"profile", 'P', OPTION_TEXT, AT(profile), "FILE", NULL,
     "begin with this profile, by name or file; default: the shipped one of the GPU that is best"},
    {"name", 'n', OPTION_TEXT, AT(name), "NAME", NULL, "what records call the profile"},
    {"set", 's', OPTION_LIST, AT(sets), "PATH=VALUE", NULL,
     "what the table does not say of all runs, as in dtbench validate; any number of times"},
    {"where", 'w', OPTION_LIST, AT(where), "COND", NULL, "only rows that meet a condition on a column, as in dtbench validate"},
    {"seconds", 't', OPTION_TEXT, AT(seconds), "SECONDS", NULL, "after this time the fit ends with what it has; default: 60"},
    {"jobs", 'j', OPTION_TEXT, AT(jobs), "COUNT", NULL, "predictions at a time; default: as many as there are processors"},
    {0},
};

static dt_status check_options(void *options_read)
{
    const struct fit_options *o = options_read;
    if (!o->cluster)
        return dt_fail(DT_ERR_INVALID,
                       "needs the cluster of the runs: --cluster dgx_a100, or a file; 'dtbench list --clusters' names them");
    return o->output ? DT_OK : dt_fail(DT_ERR_INVALID, "needs the name of the profile to write: --output my_profile.json");
}

/* Become the script. Returns only where that cannot be. argv: as typed, which the script reads as
 * this command does. */
static dt_status become_script(int argc, char **argv)
{
    char script[PATH_MAX], program[PATH_MAX] = "";
    DT_TRY(dt_find_script("fit", script, sizeof script));
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        return dt_fail(DT_ERR_IO, "cannot find this program's own file: %s", strerror(errno));
    DT_FREED const char **words = calloc((size_t)argc + 5, sizeof *words);
    DT_TRY(dt_allocated(words, "no memory for the script's arguments"));
    const char *const first[] = {"python3", "-B", script, "--dtbench", program}; /* -B: an installation is not written to */
    memcpy(words, first, sizeof first);
    memcpy(words + sizeof first / sizeof *first, argv + 1, (size_t)argc * sizeof *words); /* and the NULL */
    fflush(NULL);
    execvp(words[0], (char **)words);
    return dt_fail(DT_ERR_UNAVAILABLE, "needs python3 on the PATH, which cannot be started: %s", strerror(errno));
}

static int run(int argc, char **argv)
{
    struct fit_options o = {0};
    int code;
    if (!options_begin(&command_fit, argc, argv, &o, check_options, &code))
        return code;
    become_script(argc, argv);
    return report_failure("fit", EXIT_CODE_CONFIG);
}

const struct command command_fit = {
    .name = "fit",
    .summary = "make a profile of your own software from a few measured runs",
    .usage = "[OPTION]... FILE",
    .description =
        "Fits the constants of a profile to measured runs, five to twenty of them, in FILE: a table as dtbench validate reads it, or "
        "dtbench's own records. Says which constants the runs tell, how far each run is off that is predicted from the others, and which "
        "runs contradict each other. That error stands in the profile, and dtbench plan takes it as the margin between two plans. Then\n"
        "\n"
        "  dtbench plan --model GPT13B --cluster dgx_a100 --profile my_profile.json\n"
        "\n"
        "Needs python3 on the PATH, and no device, MPI or GPU.",
    .options = options,
    .argument = {"file", OPTION_TEXT, AT(runs), "needs a file of measured runs"},
    .run = run,
};
