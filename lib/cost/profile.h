/* Profiles: the cost of a software stack on given hardware.
 *
 * A cluster file (lib/sim/cluster.h) says what a GPU and its links can do; a profile says how much
 * of that a framework uses, and what its host threads and its allocator add. Together they give the
 * time of every kernel (lib/cost/cost.h), and the bytes beyond those of dtbench's own schedule. A
 * profile is a JSON object, read by one table: every constant without a default must be there, and
 * "sources" must name the source of each: a data sheet, a source file, or the rows it was fitted
 * on. A profile does not depend on paradigms, models or single rows.
 *
 * Passes count how often one element is read from or written to the device's memory; each kernel
 * below says what its elements are. */
#pragma once

#include "lib/cost/measured.h"
#include "lib/cost/rates.h"

#include <stdint.h>

/* Kernels of an update: for each tensor, for each call, or for all of a step in its first call. */
enum dt_update_launches { DT_LAUNCHES_PER_TENSOR, DT_LAUNCHES_PER_CALL, DT_LAUNCHES_PER_STEP };

struct dt_profile {
    char name[128];
    char gpu[64];   /* GPUs for which the profile is valid, as words of clusters' gpu.name, or the architecture; "": unknown */
    char basis[32]; /* the basis of the constants, in a few words; "": unknown */
    /* Errors of its predictions of step times, for runs to which the constants were not fitted. */
    struct {
        /* |predicted - measured| / measured; half, eight of ten and nine of ten runs are below
         * these; 0: unknown */
        double median, eight, most;
        double unseen; /* eight of ten, for software with no runs in the profile's fit; 0: unknown */
        char of[128];  /* which runs these were */
    } error;
    uint64_t hash; /* FNV-1a of the file's bytes */

    /* Matrix products: see dt_cost_product_s. */
    struct {
        double peak_fraction;           /* of a large, aligned product */
        double older_fraction;          /* the same with an older cuBLAS, for runs that say so; 0: as with others */
        double fp8_peak_fraction;       /* the same for FP8 operands, relative to their peak; 0: as others */
        double alone_fraction;          /* the same for a product that is measured alone, repeatedly; 0: as in a step */
        double start_s;                 /* of each product: loading first operands, storing last results, not hidden by other tiles */
        double half_k;                  /* inner dimension at which half of that is reached */
        double tile_rows, tile_columns; /* the library's largest: a piece of the output that one multiprocessor computes; 0: no tiles */
        double multiprocessors;         /* of the GPU; 0: no quantisation */
        double least_fill;              /* share of the multiprocessors below which a product's inner dimension is split */
        int aligned_bytes;              /* rows of operands whose length is a multiple of this power of two run at full speed */
        double half_aligned, quarter_aligned, unaligned; /* limit of peak_fraction if only a half, a quarter of it, or neither divides */
        double unbatched_unaligned;                      /* remaining speed of one product (no batch) if no half divides; 0: as batches */
        double half_reuse;                               /* operations per loaded element at which a tile reaches half of its speed */
        double fused_attention;     /* time of fused products relative to whole squares: less for causality, more for efficiency */
        double fused_peak_fraction; /* of fused attention's products, whatever the width of a head; 0: as other products */
        double fused_half_t;        /* length of a sequence at which it reaches half of that; 0: all lengths reach it */
        int qkv_products;           /* 1: q, k and v in one product, as in dtbench; 3: one product each */
    } gemm;
    /* The same for convolutions, whose kernels are from another library
     * (dt_cost_implicit_product_s). 0: as other products. */
    struct {
        double peak_fraction, half_k;
    } convolution;
    double bandwidth_fraction; /* part of the GPU's memory bandwidth that elementwise kernels get */
    double kernel_s;           /* time of the shortest kernel on the device */

    const struct dt_priced_list *priced;
    struct dt_kernel_cost kernels[DT_PRICED_MAX]; /* by number */
    int optimizer_fused;                          /* launches of sgd and adam: enum dt_update_launches */

    /* The host queue, which runs ahead of the device. */
    struct {
        double launch_s;             /* to queue one kernel of backward, which compiled code issues */
        double interpreter_launch_s; /* to queue one of forward or the optimizer, if an interpreter issues each operation */
        int stages_share;            /* 1: the stages of a pipeline are threads of one process and share its interpreter */
        int replicas_share;          /* 1: so do data_parallel's replicas */
        double queue_kernels;        /* capacity of a stream's queue: the host waits when it is full; 0: unlimited */
        double collective_s;         /* to queue a collective */
        double gather_s;             /* to queue a collective of a framework's sharded data parallelism, with the operations around it */
        double message_s;            /* to queue a send or a receive */
        double tensor_rank_s;        /* in addition, for each rank that shares layers in a pipeline */
        double copy_s;               /* to queue a copy or a fill */
        double step_s;               /* around a whole step */
        int runs_ahead;              /* 1: the host goes on to the next step without waiting for the device */
    } host;

    /* What is kept for backward, in total, including dtbench's own bytes. 0: as dtbench. */
    struct {
        double block_elems, block_mask_bytes;     /* per block, token and d: elements of the model's dtype, and bytes */
        double rms_norm_elems;                    /* of each RMS norm, per token and d, in addition to its input and output */
        double weights_elems, weights_mask_bytes; /* per block, head and T x T */
        double logits_elems;                      /* per token and V of a head that is recomputed, gradient included */
        double output_elems;                      /* per token and V, of the model's output: held until backward is over */
        double shared_output_elems;               /* in addition, if ranks share the logits */
        double last_product_elems;                /* per block, token and d: of the MLP's second product, recomputed or not; not a key */
        double gradient_copies;                   /* copies of a weight's gradient while it is made */
        double gradient_bytes;                    /* of a parameter's gradient, from backward to the update */
        int keeps_narrow_gradients;               /* 1: gradients of 16 bits are kept after they were added to their fp32 sums */
        double update_bytes;                      /* per parameter that a rank updates, while it does, if its gradient has 16 bits */
        double gathered_elems;                    /* per block, token and d: kept whole if ranks share the rows; half of it for the head */
        double granularity_bytes;                 /* allocations are rounded up to a multiple */
        int workspaces;                           /* 1: kernels have dtbench's workspace on GPUs (vision/workspace.h, gpt_ordered_bytes) */
        double in_flight;                         /* bytes of fsdp's gathered units that wait for other streams, over all its parameters */
        double reallocation_s_per_gb;             /* seconds for a gathered unit if the device is full, for each rank of a node */
        double reallocation_spread;               /* the part of each other node's time that does not overlap */
        double full_at;                           /* part of the device's memory above which it counts as full; 0: never */
        double reserve_bytes;                     /* context and libraries: not in the peak, but missing from the device */
        double communicator_bytes;                /* the same, for each axis of the mesh on which a rank communicates */
        double fragmentation;                     /* part of the peak that the allocator cannot use; for out of memory */
        int peaks_reserved;      /* 1: measured peaks are what the framework reserved, so predicted ones count fragmentation too */
        int peaks_of_first_rank; /* 1: and only the first rank's, not the highest of all ranks */
    } memory;

    /* As described in predict/framework.h: each 0 or 1, flattening_copies a count, sums_in_turn up
     * to 2. */
    struct {
        int flattening_copies, offloads_in_turn, gathers_in_turn, gathers_layers, keeps_last_chunk, holds_last_chunk, whole_head,
            separate_first_gradients, wide_gradients, gathers_outputs, fills_stages, fewest_chunks, copies_shares, key_pieces, sums_in_turn,
            recomputes_outputs, recomputes_keys, stage_buffers, divides_messages;
    } schedule;
    struct dt_measured_list measured;          /* kernels that need no formula */
    struct dt_product_rates rates;             /* from a user's table: not a key of a profile */
    struct dt_attention_rates attention_rates; /* the same */
};
