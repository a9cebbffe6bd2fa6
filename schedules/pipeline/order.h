/* Pipeline orders: which forward or backward of which micro-batch a stage does next. An order only makes a list; pipeline.c executes any.
 */
#ifndef SCHEDULES_PIPELINE_ORDER_H
#define SCHEDULES_PIPELINE_ORDER_H

#include "lib/base/status.h"

enum pipeline_kind { PIPELINE_FORWARD, PIPELINE_BACKWARD };

struct pipeline_action {
    enum pipeline_kind kind;
    int micro_batch;
};

struct pipeline_order {
    struct pipeline_action *actions; /* [count]: every micro-batch's forward once, and later its backward once */
    int count;
};

/* The list of stage `stage` of `stages` for `micro_batches`. Orders: "gpipe". Owner: the caller, who calls pipeline_order_finish. Errors:
 * DT_ERR_INVALID for an unknown name, DT_ERR_HOST_MEMORY. */
dt_status pipeline_order_init(const char *name, int stage, int stages, int micro_batches, struct pipeline_order *out);
void pipeline_order_finish(struct pipeline_order *order);

#endif
