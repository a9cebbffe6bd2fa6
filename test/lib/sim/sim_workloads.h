/* Programs of the shape that training makes, for the benchmark and the scale test of the
 * simulation. */
#pragma once

#include "test/lib/sim/sim_case.h"

/* FSDP as schedules/data_parallel/fsdp.c queues it: each block is gathered one ahead of its forward
 * and of its backward, gradients are scattered after it. Streams 0 compute and 1 network; slot 0
 * all ranks. `kernels` launches of a block's pass, one operation where work is coalesced. */
static inline struct dt_sim_program *sim_fsdp_program(int blocks, int kernels, double block_bytes, double block_s, bool coalesce)
{
    struct dt_sim_program *p = NULL;
    int compute, network, slot;
    uint32_t gathered, ahead = 0, computed;
    CHECK_OK(dt_sim_program_create(coalesce, &p));
    CHECK_OK(dt_sim_program_add_stream(p, "compute", &compute));
    CHECK_OK(dt_sim_program_add_stream(p, "network", &network));
    CHECK_OK(dt_sim_program_add_slot(p, &slot));
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < blocks; b++) {
            if (b == 0) {
                CHECK_OK(dt_sim_program_collective(p, network, slot, DT_SIM_ALL_GATHER, block_bytes, 0, "gather"));
                CHECK_OK(dt_sim_program_record(p, network, &ahead));
            }
            gathered = ahead;
            if (b + 1 < blocks) {
                CHECK_OK(dt_sim_program_host(p, 10e-6));
                CHECK_OK(dt_sim_program_collective(p, network, slot, DT_SIM_ALL_GATHER, block_bytes, 0, "gather"));
                CHECK_OK(dt_sim_program_record(p, network, &ahead));
            }
            CHECK_OK(dt_sim_program_wait(p, compute, gathered));
            for (int k = 0; k < kernels; k++) {
                CHECK_OK(dt_sim_program_host(p, 5e-6));
                CHECK_OK(dt_sim_program_work(p, compute, (1 + pass) * block_s / kernels, "kernel"));
            }
            if (pass == 0)
                continue;
            CHECK_OK(dt_sim_program_record(p, compute, &computed));
            CHECK_OK(dt_sim_program_wait(p, network, computed));
            CHECK_OK(dt_sim_program_collective(p, network, slot, DT_SIM_REDUCE_SCATTER, block_bytes, 0, "scatter"));
        }
    CHECK_OK(dt_sim_program_synchronize(p, network));
    CHECK_OK(dt_sim_program_synchronize(p, compute));
    CHECK_OK(dt_sim_program_finish(p));
    return p;
}

/* A GPipe stage of `chunks` micro-batches, then its gradients in `buckets`. Streams: compute,
 * forward traffic, backward traffic, gradients. Slots: with the stage before (if there is one),
 * with the next (likewise), then the stage's replicas. */
static inline struct dt_sim_program *sim_pipeline_program(int stage, int stages, int chunks, int buckets, double message_bytes,
                                                          double bucket_bytes, double chunk_s)
{
    struct dt_sim_program *p = NULL;
    int stream, slots = 0, slot, before = stage > 0 ? slots++ : -1, after = stage + 1 < stages ? slots++ : -1;
    uint32_t event;
    CHECK_OK(dt_sim_program_create(true, &p));
    for (int s = 0; s < 4; s++)
        CHECK_OK(dt_sim_program_add_stream(p, (const char *const[]){"compute", "forward", "backward", "gradients"}[s], &stream));
    for (int s = 0; s <= slots; s++)
        CHECK_OK(dt_sim_program_add_slot(p, &slot));
    for (int pass = 0; pass < 2; pass++) {
        int from = pass ? after : before, to = pass ? before : after, traffic = 1 + pass;
        for (int c = 0; c < chunks; c++) {
            if (from >= 0) {
                CHECK_OK(dt_sim_program_recv(p, traffic, from, pass, message_bytes, NULL));
                CHECK_OK(dt_sim_program_record(p, traffic, &event));
                CHECK_OK(dt_sim_program_wait(p, 0, event));
            }
            CHECK_OK(dt_sim_program_host(p, 1e-3));
            CHECK_OK(dt_sim_program_work(p, 0, (1 + pass) * chunk_s, NULL));
            if (to >= 0) {
                CHECK_OK(dt_sim_program_record(p, 0, &event));
                CHECK_OK(dt_sim_program_wait(p, traffic, event));
                CHECK_OK(dt_sim_program_send(p, traffic, to, !pass, message_bytes, NULL));
            }
        }
    }
    CHECK_OK(dt_sim_program_record(p, 0, &event));
    CHECK_OK(dt_sim_program_wait(p, 3, event));
    for (int b = 0; b < buckets; b++)
        CHECK_OK(dt_sim_program_collective(p, 3, slots, DT_SIM_ALL_REDUCE, bucket_bytes, 0, NULL));
    CHECK_OK(dt_sim_program_finish(p));
    return p;
}

/* All ranks of the case run the FSDP program. */
static inline void sim_case_fsdp(struct sim_case *c, const struct dt_sim_program *p)
{
    int world = c->placement.world_size, group = sim_case_group(c, 0, 1, world);
    for (int r = 0; r < world; r++)
        CHECK_OK(dt_sim_engine_set_program(c->engine, r, p, &group));
}

/* Pipelines of neighbouring ranks, replicas across: rank = replica * stages + stage. programs
 * [stages]. */
static inline void sim_case_pipelines(struct sim_case *c, struct dt_sim_program *const *programs, int stages)
{
    int world = c->placement.world_size, *replicas = malloc((size_t)stages * sizeof *replicas);
    for (int s = 0; s < stages; s++)
        replicas[s] = sim_case_group(c, s, stages, world / stages);
    for (int r = 0; r < world; r += stages) {
        int before = -1;
        for (int s = 0; s < stages; s++) {
            int groups[3], count = 0, after = s + 1 < stages ? sim_case_group(c, r + s, 1, 2) : -1;
            if (before >= 0)
                groups[count++] = before;
            if (after >= 0)
                groups[count++] = after;
            groups[count] = replicas[s];
            CHECK_OK(dt_sim_engine_set_program(c->engine, r + s, programs[s], groups));
            before = after;
        }
    }
    free(replicas);
}
