/* Slurm's lists of nodes: "gpu[01-03,7],login" is gpu01, gpu02, gpu03, gpu7 and login.
 *
 * A name may have several brackets ("rack[1-2]node[01-16]", the last one running fastest) and text after them. A range keeps its first
 * number's leading zeros. This is what `scontrol show hostnames` prints, for where neither Slurm's commands nor its library are. */
#ifndef LIB_LAUNCH_NODE_LIST_H
#define LIB_LAUNCH_NODE_LIST_H

#include "lib/base/status.h"

#include <stddef.h>

/* The longest name of a node, and the most that a list may name: Slurm's own limit is below both. */
enum { DT_NODE_NAME_BYTES = 256, DT_NODE_LIST_MAX = 1 << 17 };

/* All names in the list's order, a line each, without a newline after the last. Owner of *out_lines: the caller, free.
 * Errors: DT_ERR_INVALID with the list and what is wrong in it, DT_ERR_HOST_MEMORY. */
dt_status dt_node_list_expand(const char *list, char **out_lines, int *out_count);

/* The first name. Errors: DT_ERR_INVALID, as above, and for a list that names nobody. */
dt_status dt_node_list_first(const char *list, char out[DT_NODE_NAME_BYTES]);

#endif
