/* The shared kernels, and the copy within the device. */
#include "lib/cost/priced.h"

static const struct dt_priced kernels[DT_PRICED_SHARED] = {
    [DT_PRICED_SGD] = {"sgd", DT_PHASE_UPDATE, DT_SHAPE_FLAT},   [DT_PRICED_ADAM] = {"adam", DT_PHASE_UPDATE, DT_SHAPE_FLAT},
    [DT_PRICED_ADD] = {"add", DT_PHASE_UPDATE, DT_SHAPE_FLAT},   [DT_PRICED_SQUARES] = {"squares", DT_PHASE_UPDATE, DT_SHAPE_FLAT},
    [DT_PRICED_COPY] = {"copy", DT_PHASE_UPDATE, DT_SHAPE_FLAT},
};

/* A copy has no constants: the memory's bandwidth is known. dt_cost_update_bytes() counts the
 * traffic of Adam's fp32 state. */
static const struct dt_field keys[] = {DT_PRICED_KEYS(sgd, DT_PRICED_SGD, "the parameters", NULL) DT_PRICED_KEYS(
    adam, DT_PRICED_ADAM, "the parameters", NULL) DT_PRICED_KEYS(add, DT_PRICED_ADD, "the elements", NULL)
                                           DT_PRICED_KEYS(squares, DT_PRICED_SQUARES, "the gradients, whose norm is asked for", "1")};

const struct dt_pricing dt_shared_pricing = {
    .kernels = kernels, .count = DT_PRICED_SHARED, .keys = keys, .key_count = sizeof keys / sizeof *keys};
