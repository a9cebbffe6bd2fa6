/* A user's own tables of single operations: collectives by size, matrix products by shape,
 * attention by length. They replace the curves of a cluster and a profile (config key `rates`).
 *
 * A table is what nccl-tests prints, or comma-separated values with a line of names:
 *   collective, size, gpus, nodes, busbw_GB_s   (or gpus_per_node for nodes)
 *   m, n, k, and one of seconds, latency_ms, latency_us and tflops; dtype (bf16 without it)
 *   head_dim, seq, direction (forward, backward or forward+backward), tflops; dtype, and causal
 *   ("no": the row is skipped)
 * A column `gpu` must have the same value in all rows, and for attention also `library`. */
#pragma once

#include "lib/base/csv.h"
#include "lib/cost/profile.h"
#include "lib/sim/cluster_measured.h"
#include "lib/sim/program.h"

#include <stdbool.h>

/* Read a table, or what nccl-tests has printed as one. Owner: the caller, dt_csv_finish, also after
 * a failure. Errors: DT_ERR_IO, DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status rates_csv_read(const char *path, struct dt_csv *out);

/* ---- collectives ---- */

struct rates_columns {
    int collective, size, gpus, nodes, gpus_per_node, bus; /* -1: there is no such column */
};

struct rates_collective {
    enum dt_sim_collective kind;
    double bytes;
    int gpus, nodes;
    double bus_gb_per_s; /* as nccl-tests define it */
};

/* False: the table has no collectives. */
bool rates_find_columns(const struct dt_csv *csv, struct rates_columns *out);

/* Errors: DT_ERR_INVALID, "PATH:LINE: COLUMN: ...". */
dt_status rates_read_collective(const char *path, const struct dt_csv *csv, const struct rates_columns *columns, int row,
                                struct rates_collective *out);

/* Bytes on the bus divided by bytes of the buffer, which is bus bandwidth divided by algorithm
 * bandwidth, as nccl-tests define them. kind: a collective or message, numbered as in struct
 * dt_sim_measured. */
double rates_bus_factor(int kind, int ranks);

/* A number of bytes, or of K, M or G (powers of two, as in nccl-tests), with or without B or iB. 0:
 * not a size. */
double rates_bytes_of_text(const char *text);

/* ---- all of it ---- */

/* Add a table's rows to a cluster's measured collectives, or to rates of products and attention.
 * Errors: DT_ERR_IO; DT_ERR_INVALID, also if there is no room for all rows. */
dt_status rates_read(const char *path, struct dt_sim_measured_list *collectives, struct dt_profile *profile);

/* The names of the columns that rates_read takes nothing from, but for "source" and "notes", which
 * are for people; separated by commas, "" where it reads all. Errors: as rates_csv_read. */
dt_status rates_unread(const char *path, char *out, size_t out_bytes);
