/* All ranks of a launcher, before the first step: each sends what it is and where, takes from rank 0 what is to be run, and checks the
 * placement. */
#ifndef CLI_RUN_RENDEZVOUS_CHECK_H
#define CLI_RUN_RENDEZVOUS_CHECK_H

#include "cli/run/sweep.h"

/* Collective. `code` is rank 0's: EXIT_CODE_OK, or why it cannot go on; the others return the same. Only rank 0 has looked at the records
 * and the time: the others take its outcomes[].skipped and `limited`, because a file may look different from another node.
 * Errors: DT_ERR_INVALID when the ranks are not placed as the experiments need it; as dt_comm_create when ranks are missing. */
dt_status rendezvous_check(struct sweep *sweep, enum exit_code *code);

/* Rank 0: a line on standard error where the ranks will meet over TCP without a secret, so that whoever reaches the port may join. */
void rendezvous_note_secret(struct sweep *sweep);

#endif
