#include "cli/commands/record_arguments.h"

#include "cli/text/exit_code.h"

int record_arguments_read(const char *command, const char *const *arguments, int count, struct record_set *out)
{
    dt_status status = record_set_read(out, command, arguments, count);
    if (status == DT_OK)
        return EXIT_CODE_OK;
    return report_failure(command, status == DT_ERR_IO ? EXIT_CODE_CONFIG : EXIT_CODE_OTHER);
}
