/* What is said wherever figures of device sim are shown: that they are predicted, for which cluster and by which profile. */
#ifndef CLI_TEXT_PREDICTIONS_H
#define CLI_TEXT_PREDICTIONS_H

#include "schedules/config/experiment.h"

enum { PREDICTIONS_BYTES = 512 };

/* Zeroed at first. */
struct predictions {
    int predicted, measured;           /* experiments */
    char clusters[192], profiles[192]; /* "gcp_a2, dgx_a100": each once; a file that is not dtbench's own by its path */
};

void predictions_add(struct predictions *all, const struct experiment *experiment);

/* "predicted, not measured: cluster gcp_a2, profile pytorch_1.11_a100". Where others are measured, the rows of device sim are named; "" where
 * nothing is predicted. Returns text. */
const char *predictions_describe(const struct predictions *all, char text[PREDICTIONS_BYTES]);

#endif
