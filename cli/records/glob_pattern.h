/* Patterns for glob(3) that begin with a name. */
#ifndef CLI_RECORDS_GLOB_PATTERN_H
#define CLI_RECORDS_GLOB_PATTERN_H

/* `name` as it is, its special characters escaped, and then the pattern `ending`. Owner: the caller, free; NULL when memory is out. */
char *glob_pattern(const char *name, const char *ending);

#endif
