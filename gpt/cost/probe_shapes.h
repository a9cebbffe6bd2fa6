/* The shapes of gpt's kernels that calibration times. Each list ends with one without rows. */
#pragma once

#include "lib/model/probe.h"

extern const struct dt_grid gpt_probe_full[], gpt_probe_quick[];
