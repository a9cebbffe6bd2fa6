/* The time that a described cluster's storage adds to a training's steps.
 *
 * The section "storage" of a cluster's file gives bytes per second of a node and of all nodes
 * together, for any number and size of files. A node reads each byte of a checkpoint once; its
 * other ranks find it in memory. Samples are read again in each epoch. Saves are dtbench's own,
 * whatever the profile's software: each rank writes what it owns. */
#pragma once

#include "lib/sim/cluster.h"
#include "schedules/checkpoint/checkpoint.h"
#include "schedules/run/training_time.h"

/* of_rank [world size]. */
void storage_times_find(const struct experiment *experiment, const struct dt_sim_cluster *cluster, int ranks_per_node,
                        const struct checkpoint_size *of_rank, struct storage_times *out);
