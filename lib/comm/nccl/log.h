/* Facts from NCCL's log; log.c describes how they are read. */
#pragma once

#include "lib/comm/comm.h"

/* Call it before NCCL's first call in this process: NCCL then writes its log where dt_nccl_log_read
 * finds it, unless the user has asked for the log. False: nothing was changed. dt_nccl_log_started:
 * NCCL has read its variables, which are reset. */
bool dt_nccl_log_begin(void);
void dt_nccl_log_started(bool begun);

/* Everything in the log so far, of all communicators of this process; nothing if there is no
 * log. */
void dt_nccl_log_read(struct dt_comm_network *out);
