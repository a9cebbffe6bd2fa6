/* Drafts: what is known of the experiment that runs, in a file beside the records, for the case that no process is left to write its record.
 *
 * Linux when memory runs out, a lost node, or Slurm when it ends a step kill a process with SIGKILL. So the process that writes records
 * keeps the record that the experiment would then have, "failed" with all steps so far, in RECORDS.XXXXXX.draft, and removes it once the real
 * one is written. What reads RECORDS reads the drafts of dead processes too, and the next run moves them into RECORDS. A live process holds a
 * lock (flock) on its draft. A draft is replaced as a whole, so none is half-written. */
#ifndef CLI_RECORDS_DRAFT_H
#define CLI_RECORDS_DRAFT_H

#include "lib/record/record.h"
#include "schedules/config/experiment.h"
#include "schedules/run/report.h"

struct draft {
    const struct experiment *experiment; /* NULL: there is none */
    const struct report *report;
    char *path;    /* owned */
    int fd;        /* holds the lock */
    double due_s;  /* when to write again, on the clock that only goes forward */
    double took_s; /* the last write; 0: none yet */
};

/* Begin the draft of an experiment, whose report the caller fills until draft_end. Without a place to write (standard output, a folder
 * that takes no files) there is no draft, which is no failure: a record is written all the same unless the process is killed. */
void draft_begin(struct draft *draft, const char *records, const struct experiment *experiment, const struct report *report);
/* The report has a step more: it is written at most once a second, and for at most a thousandth of the time. Takes NULL. */
void draft_step(struct draft *draft);
/* The record is there: the draft goes. */
void draft_end(struct draft *draft);

/* Call `use` for each draft of RECORDS whose process is gone, as long as it returns DT_OK; the draft stays as it is. Errors:
 * DT_ERR_HOST_MEMORY, and those of `use`. */
dt_status drafts_visit(const char *records, dt_status (*use)(void *context, const char *path), void *context);
/* Move the drafts of dead processes into the open file of records; *count of them. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status drafts_adopt(const char *records, struct dt_record_file *file, int *count);

#endif
