/* Which sweep an experiment is part of: what records carry, so that from the records alone it can be told what is still missing. */
#ifndef CLI_RECORDS_SWEEP_IDENTITY_H
#define CLI_RECORDS_SWEEP_IDENTITY_H

#include "schedules/config/experiment_list.h"
#include "schedules/run/report.h"

struct sweep_identity {
    char id[17]; /* FNV-1a 64 of the experiments' hashes, in their order; hexadecimal */
    int count;   /* of different experiments: those with the same hash count once */
    int *index;  /* [experiments] the place of each among the different ones, in the sweep's order; owned */
};

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_identity_init(struct sweep_identity *identity, const struct experiment_list *experiments);
void sweep_identity_finish(struct sweep_identity *identity);

/* Name experiment `experiment` of the sweep in its report. */
void sweep_identity_report(const struct sweep_identity *identity, int experiment, struct report *report);

#endif
