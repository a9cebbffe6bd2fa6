/* The pipeline order of an experiment: its row, and the shape that it is made for. */
#pragma once

#include "schedules/config/experiment.h"
#include "schedules/plan/plan.h"

struct experiment_order {
    const struct pipeline_order *row; /* the strategy's row; gradient accumulation without a pipeline has one, too */
    struct order_shape shape;
    char *text; /* of a file */
};

/* An order file is looked for as a cluster file is (lib/config/data_file.h) and read. Errors:
 * DT_ERR_IO, DT_ERR_HOST_MEMORY; call experiment_order_finish also then. */
dt_status experiment_order_init(struct experiment_order *order, const struct experiment *experiment);
/* Check an order before a run: a file is complete and free of deadlocks, and the model has a layer
 * for each part. The file's contents become part of the experiment's hash. `where` begins the error
 * text. Errors: DT_ERR_INVALID, DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status experiment_check_order(struct experiment *experiment, const char *where);

/* Replace the name of an order file by its path, since rank processes do not know the config's
 * folder. Errors: DT_ERR_IO. */
dt_status experiment_find_order(struct experiment *experiment);

/* For experiment->made_plans: the plans [stages] of all ranks, if the order can only make plans for
 * all ranks together; else NULL. Owner of *out: the caller, plans_destroy. Errors: as
 * plans_make. */
dt_status experiment_make_plans(const struct experiment *experiment, struct plan **out);

void experiment_order_finish(struct experiment_order *order); /* takes a zeroed one */
