/* The bytes that a rank communicates in a step, in closed form: from the sizes of its groups of
 * parameters and micro-batches, and from how often its plan reduces, gathers and sends them.
 * Nothing is queued. Tests compare it with the communicators' counts.
 *
 *   ddp, pdp           all-reduce: P for each reduction
 *   zero1, zero2       reduce-scatter: P for each reduction; all-gather: P
 *   fsdp               all-gather: P for each time a group is fetched, up to 2 P a micro-batch;
 *                      reduce-scatter: P for each reduction
 *   hsdp               the same, and all-reduce: P / shards for each reduction
 *   data_parallel      broadcast: P; reduce: P for each reduction
 *   parameter_server   send: a worker its gradients, a server its parameters to every other rank
 *   pipelines          send: M d for each micro-batch and boundary, forward and backward
 *   tied tables        all-reduce: the table, by a pipeline's first and last stage
 *   tensor parallelism test/gpt/exchange_bytes.c
 *
 * P: bytes of the parameters of the rank's stage, runs that are divided with their padding. Source  Rajbhandari et al., "ZeRO", SC 2020,
 * section 7: 2 P for ddp and zero2, whose all-reduce is two halves, 3 P for fsdp. */
#pragma once

#include "schedules/run/trainer.h"

/* The bytes of `rank` of the experiment, of which a dry trainer is made (schedules/run/dry_rank.h).
 * Errors: as trainer_create. */
dt_status expected_traffic(const struct experiment *experiment, int rank, struct step_traffic *out);
