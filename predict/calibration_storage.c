#include "predict/calibration.h"

#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/base/statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 8 << 20, CHUNKS = 32, ROUNDS = 3 };

/* Fill with numbers that no file system can compress. */
static void fill(char *chunk)
{
    for (uint32_t i = 0; i < CHUNK_BYTES / sizeof(struct dt_philox); i++) {
        struct dt_philox random = dt_philox4x32(1, i, 0, 0, 0);
        memcpy(chunk + i * sizeof random, &random, sizeof random);
    }
}

static bool write_chunk(int file, const char *chunk, off_t at)
{
    for (ssize_t done = 0, step; done < CHUNK_BYTES; done += step) {
        step = pwrite(file, chunk + done, (size_t)(CHUNK_BYTES - done), at + done);
        if (step <= 0)
            return false;
    }
    sync_file_range(file, at, CHUNK_BYTES, SYNC_FILE_RANGE_WRITE); /* a save also begins to write while it copies */
    return true;
}

static bool write_all(int file, int chunks, const char *chunk)
{
    for (int i = 0; i < chunks; i++)
        if (!write_chunk(file, chunk, (off_t)i * CHUNK_BYTES))
            return false;
    return fsync(file) == 0;
}

static bool read_all(int file, int chunks, char *chunk)
{
    for (off_t at = 0, end = (off_t)chunks * CHUNK_BYTES; at < end;) {
        ssize_t got = pread(file, chunk, CHUNK_BYTES, at);
        if (got <= 0)
            return false;
        at += got;
    }
    return true;
}

/* Seconds of writing and of reading. False: errno says why. */
static bool measure_round(int file, int chunks, char *chunk, double *write_s, double *read_s)
{
    double begun_s = dt_clock_s();
    if (ftruncate(file, 0) < 0 || !write_all(file, chunks, chunk))
        return false;
    *write_s = dt_clock_s() - begun_s;
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    begun_s = dt_clock_s();
    if (!read_all(file, chunks, chunk))
        return false;
    *read_s = dt_clock_s() - begun_s;
    return true;
}

static dt_status measure(const char *folder, int file, int chunks, char *chunk, struct calibration_storage *out)
{
    double write_s[ROUNDS], read_s[ROUNDS], bytes = (double)chunks * CHUNK_BYTES;
    fill(chunk);
    for (int round = 0; round < ROUNDS; round++)
        if (!measure_round(file, chunks, chunk, &write_s[round], &read_s[round]))
            return dt_fail(DT_ERR_IO, "%s: a file of %.0f MiB cannot be written and read: %s", folder, bytes / 0x1p20,
                           errno ? strerror(errno) : "it ends early");
    DT_TRY(dt_statistics_quantile(write_s, ROUNDS, 0.5, &out->write_bytes_per_s));
    DT_TRY(dt_statistics_quantile(read_s, ROUNDS, 0.5, &out->read_bytes_per_s));
    out->write_bytes_per_s = bytes / out->write_bytes_per_s;
    out->read_bytes_per_s = bytes / out->read_bytes_per_s;
    return DT_OK;
}

dt_status calibration_storage_measure(const char *folder, bool quick, struct calibration_storage *out)
{
    char name[PATH_MAX];
    *out = (struct calibration_storage){0};
    snprintf(name, sizeof name, "%.4000s/.dtbench-calibrate-XXXXXX", folder);
    int file = mkostemp(name, O_CLOEXEC);
    if (file < 0)
        return dt_fail(DT_ERR_IO, "%s: %s", folder, strerror(errno));
    unlink(name);
    char *chunk = malloc(CHUNK_BYTES);
    dt_status status = dt_allocated(chunk, "no host memory for measuring storage");
    DT_THEN(status, measure(folder, file, quick ? 1 : CHUNKS, chunk, out));
    free(chunk);
    close(file);
    return status;
}
