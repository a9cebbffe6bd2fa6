/* Facts that NCCL writes into its log; log.c describes how they are read. */
#ifndef LIB_COMM_NCCL_LOG_H
#define LIB_COMM_NCCL_LOG_H

#include "lib/comm/comm.h"

/* Before NCCL's first call in this process: have it write its log where dt_nccl_log_read finds it, unless somebody has asked for that log
 * himself. False: nothing was changed. started: NCCL has read its variables, which are taken back. */
bool dt_nccl_log_begin(void);
void dt_nccl_log_started(bool begun);

/* All that the log says so far, of all communicators of this process; nothing where there is no log. */
void dt_nccl_log_read(struct dt_comm_network *out);
void dt_nccl_log_read_line(const char *line, struct dt_comm_network *out); /* the same of one more line */

#endif
