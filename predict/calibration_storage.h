/* Measuring the storage that checkpoints go to: a file is written and put onto the disk, forgotten by the system, and read again, as checkpoints
 * are: a few MB at a time, by one process. Where the system does not forget, as in a folder in memory, reads are as fast as that. */
#ifndef PREDICT_CALIBRATION_STORAGE_H
#define PREDICT_CALIBRATION_STORAGE_H

#include "lib/base/status.h"

#include <stdbool.h>

struct calibration_storage {
    double write_bytes_per_s, read_bytes_per_s; /* medians of a few rounds; 0: not measured */
};

/* The file, of 256 MiB (quick: 8), has no name in the folder. Errors: DT_ERR_IO, also where there is no room for it; DT_ERR_HOST_MEMORY. */
dt_status calibration_storage_measure(const char *folder, bool quick, struct calibration_storage *out);

#endif
