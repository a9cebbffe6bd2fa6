#include "predict/profile.h"

#include "lib/config/config.h"
#include "lib/config/json.h"
#include "lib/config/schema.h"
#include "schedules/config/families.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) .offset = offsetof(struct dt_profile, member), .size = sizeof(((struct dt_profile *)0)->member)

static const struct dt_field before_kernels[] = {
    {"name", DT_FIELD_STRING, AT(name), .min = 1, .max = 63, .description = "What the stack is called in records."},

    {"gpu", DT_FIELD_STRING, AT(gpu), .max = 63, .initial = "\"\"",
     .description =
         "The GPUs that the constants hold for: words of clusters' gpu.name (\"A100\", \"H100 H200\"), or the architecture (\"cpu\")."},
    {"basis", DT_FIELD_STRING, AT(basis), .max = 31, .initial = "\"\"",
     .description =
         "What the constants rest on, for tables: \"fitted to runs\", \"estimate\", \"guess\" and the like; sources say it of each."},

    {"error.median", DT_FIELD_NUMBER, AT(error.median), .max = 10, .initial = "0",
     .description = "The median of |predicted - measured| / measured of step times that the constants were not fitted to; 0: not told."},
    {"error.eight", DT_FIELD_NUMBER, AT(error.eight), .max = 10, .initial = "0",
     .description = "What eight of ten of them stay below; where it is not told, it is taken from the other two."},
    {"error.most", DT_FIELD_NUMBER, AT(error.most), .max = 10, .initial = "0", .description = "What nine of ten of them stay below."},
    {"error.unseen", DT_FIELD_NUMBER, AT(error.unseen), .max = 10, .initial = "0",
     .description = "What eight of ten stay below of software that no run of the profile's is of; 0: not known."},
    {"error.of", DT_FIELD_STRING, AT(error.of), .max = 127, .initial = "\"\"", .description = "The runs that these were."},

    {"gemm.peak_fraction", DT_FIELD_NUMBER, AT(gemm.peak_fraction), .above = true, .max = 1,
     .description = "Share of the GPU's peak that a large, aligned product reaches."},
    {"gemm.older_fraction", DT_FIELD_NUMBER, AT(gemm.older_fraction), .max = 1, .initial = "0",
     .description = "The same with cuBLAS before CUDA 12.6 update 2, for measured runs whose notes say so; 0: as peak_fraction."},
    {"gemm.fp8_peak_fraction", DT_FIELD_NUMBER, AT(gemm.fp8_peak_fraction), .max = 1, .initial = "0",
     .description = "Share of the GPU's FP8 peak that a large, aligned product of FP8 operands reaches in a step; 0: as peak_fraction."},
    {"gemm.alone_fraction", DT_FIELD_NUMBER, AT(gemm.alone_fraction), .max = 1, .initial = "0",
     .description =
         "The same for a product that is measured alone, repeatedly: in a step the GPU's power limits it. Rates of products from --rates "
         "are taken to be slower in a step by the ratio of both; 0: not slower."},
    {"gemm.start_s", DT_FIELD_NUMBER, AT(gemm.start_s), .max = 1, .initial = "0",
     .description =
         "Additional seconds of each product: loading its first operands and storing its last results, which no other tile hides."},
    {"gemm.half_k", DT_FIELD_NUMBER, AT(gemm.half_k), .max = 1e6, .description = "Inner dimension at which half of it is reached."},
    {"gemm.tile_rows", DT_FIELD_NUMBER, AT(gemm.tile_rows), .max = 65536,
     .description =
         "Rows of the output in the largest tile that one multiprocessor computes at a time; smaller ones are its halves; 0: no tiles."},
    {"gemm.tile_columns", DT_FIELD_NUMBER, AT(gemm.tile_columns), .max = 65536, .description = "Columns likewise."},
    {"gemm.multiprocessors", DT_FIELD_NUMBER, AT(gemm.multiprocessors), .max = 65536,
     .description = "Of the GPU that the profile is for; 0: any number."},
    {"gemm.least_fill", DT_FIELD_NUMBER, AT(gemm.least_fill), .above = true, .max = 1,
     .description = "Share of the multiprocessors that a product of few tiles keeps busy at least, where its inner dimension is split."},
    {"gemm.aligned_bytes", DT_FIELD_INT, AT(gemm.aligned_bytes), .min = 1, .max = 4096,
     .description = "Row lengths that are a multiple of this power of two, in bytes, run at full speed."},
    {"gemm.half_aligned", DT_FIELD_NUMBER, AT(gemm.half_aligned), .above = true, .max = 1,
     .description = "The most of peak_fraction that products reach, whatever k, where only half of aligned_bytes divides a row length."},
    {"gemm.quarter_aligned", DT_FIELD_NUMBER, AT(gemm.quarter_aligned), .above = true, .max = 1, .description = "A quarter."},
    {"gemm.unaligned", DT_FIELD_NUMBER, AT(gemm.unaligned), .above = true, .max = 1, .description = "None of them."},
    {"gemm.unbatched_unaligned", DT_FIELD_NUMBER, AT(gemm.unbatched_unaligned), .max = 1, .initial = "0",
     .description =
         "Share of its speed that one product, not a batch of them, keeps where none of them or a quarter divides; its square root where a "
         "half does; 0: as batches."},
    {"gemm.half_reuse", DT_FIELD_NUMBER, AT(gemm.half_reuse), .max = 1000, .initial = "0",
     .description = "Operations on each loaded element at which a tile reaches half of its speed: what smaller tiles lose; 0: nothing."},
    {"gemm.fused_attention", DT_FIELD_NUMBER, AT(gemm.fused_attention), .above = true, .max = 100,
     .description = "Time of fused attention's products over that of whole squares: less for causality, more for its efficiency."},
    {"gemm.fused_peak_fraction", DT_FIELD_NUMBER, AT(gemm.fused_peak_fraction), .max = 1, .initial = "0",
     .description = "Share of the GPU's peak that fused attention's products reach, whatever the width of a head; 0: as other products."},
    {"gemm.fused_half_t", DT_FIELD_NUMBER, AT(gemm.fused_half_t), .max = 1e6, .initial = "0",
     .description = "Length of a sequence at which fused attention reaches half of fused_peak_fraction; 0: all lengths reach it."},
    {"gemm.qkv_products", DT_FIELD_INT, AT(gemm.qkv_products), .min = 1, .max = 3,
     .description = "Products that q, k and v are made in: 1 together, 3 one after the other."},
    {"convolution.peak_fraction", DT_FIELD_NUMBER, AT(convolution.peak_fraction), .max = 1, .initial = "0",
     .description = "Share of the GPU's peak that a large convolution reaches; 0: as other products."},
    {"convolution.half_k", DT_FIELD_NUMBER, AT(convolution.half_k), .max = 1e6, .initial = "0",
     .description = "Elements under a convolution's window at which half of it is reached; 0: as other products."},
    {"bandwidth_fraction", DT_FIELD_NUMBER, AT(bandwidth_fraction), .above = true, .max = 1,
     .description = "Share of the memory's bandwidth that elementwise kernels get."},
    {"kernel_s", DT_FIELD_NUMBER, AT(kernel_s), .max = 1, .description = "Seconds that the shortest kernel takes on the device."},
};

static const struct dt_field after_kernels[] = {
    {"optimizer_fused", DT_FIELD_INT, AT(optimizer_fused), .max = 2,
     .description = "0: sgd's and adam's launches are for each tensor; 1: for each bucket or group that is "
                    "updated at a time; 2: for all parameters of a rank together."},

    {"host.launch_s", DT_FIELD_NUMBER, AT(host.launch_s), .max = 1, .description = "Seconds of the host to launch one kernel."},
    {"host.interpreter_launch_s", DT_FIELD_NUMBER, AT(host.interpreter_launch_s), .max = 1,
     .description = "The same for a kernel of forward or of the optimizer, if an interpreter issues each operation."},
    {"host.stages_share", DT_FIELD_INT, AT(host.stages_share), .max = 1,
     .description = "1: the stages of a pipeline are threads of one process, and its interpreter runs one of them at a time."},
    {"host.replicas_share", DT_FIELD_INT, AT(host.replicas_share), .max = 1, .initial = "0",
     .description = "1: so are the replicas of data_parallel."},
    {"host.queue_kernels", DT_FIELD_NUMBER, AT(host.queue_kernels), .max = 1e9,
     .description = "Kernels that a stream's queue holds: the host waits when it is full; 0: any number."},
    {"host.gather_s", DT_FIELD_NUMBER, AT(host.gather_s), .max = 1,
     .description = "To queue an all-gather or reduce-scatter of what data parallelism has divided, with what a framework does around it."},
    {"host.collective_s", DT_FIELD_NUMBER, AT(host.collective_s), .max = 1, .description = "To queue a collective."},
    {"host.message_s", DT_FIELD_NUMBER, AT(host.message_s), .max = 1, .description = "To queue a send or a receive."},
    {"host.tensor_rank_s", DT_FIELD_NUMBER, AT(host.tensor_rank_s), .max = 1, .initial = "0",
     .description = "What queueing a collective of tensor parallelism costs more for each of its ranks, where there is a pipeline, too."},
    {"host.copy_s", DT_FIELD_NUMBER, AT(host.copy_s), .max = 1, .description = "To queue a copy or a fill."},
    {"host.step_s", DT_FIELD_NUMBER, AT(host.step_s), .max = 3600, .description = "Around a step."},
    {"host.runs_ahead", DT_FIELD_INT, AT(host.runs_ahead), .max = 1,
     .description = "1: steps follow each other without waiting for the device; 0: each waits, as dtbench's."},

    {"memory.block_elems", DT_FIELD_NUMBER, AT(memory.block_elems), .max = 1000,
     .description = "Elements kept for backward, per block, token and d, dtbench's own included; 0: as dtbench."},
    {"memory.block_mask_bytes", DT_FIELD_NUMBER, AT(memory.block_mask_bytes), .max = 1000, .description = "Bytes of masks likewise."},
    {"memory.rms_norm_elems", DT_FIELD_NUMBER, AT(memory.rms_norm_elems), .max = 1000, .initial = "0",
     .description = "Elements kept of each RMS norm of a block in addition to its input and output, per token and d; 0: one kernel, which "
                    "keeps none."},
    {"memory.weights_elems", DT_FIELD_NUMBER, AT(memory.weights_elems), .max = 1000,
     .description = "Elements kept of the attention weights, per block, sample, head and T x T; unfused only; 0: as dtbench."},
    {"memory.weights_mask_bytes", DT_FIELD_NUMBER, AT(memory.weights_mask_bytes), .max = 1000, .description = "Bytes of masks likewise."},
    {"memory.logits_elems", DT_FIELD_NUMBER, AT(memory.logits_elems), .max = 1000,
     .description = "Elements kept of recomputed logits and their gradient, per token and V; 0: as dtbench, which needs 1."},
    {"memory.output_elems", DT_FIELD_NUMBER, AT(memory.output_elems), .max = 1000,
     .description = "Elements of the model's output that are held until backward is over, per token and V."},
    {"memory.shared_output_elems", DT_FIELD_NUMBER, AT(memory.shared_output_elems), .max = 1000, .initial = "0",
     .description = "In addition, if tensor parallelism divides the logits: elements that the loss over parts of the vocabulary holds."},
    {"memory.gradient_copies", DT_FIELD_NUMBER, AT(memory.gradient_copies), .max = 1000,
     .description = "Copies of a weight's gradient while it is made, in addition to the buffer that it is added to."},
    {"memory.gradient_bytes", DT_FIELD_NUMBER, AT(memory.gradient_bytes), .max = 64, .initial = "0",
     .description = "Bytes of a parameter's gradient from backward to the update, copies in other types included; 0: the model's dtype."},
    {"memory.keeps_narrow_gradients", DT_FIELD_INT, AT(memory.keeps_narrow_gradients), .max = 1, .initial = "0",
     .description = "1: with gradients of 16 bits that are added up in fp32, those of one micro-batch stay until the next backward, and "
                    "through the update (none with zero2, fsdp, hsdp); 0: each is freed once it is added."},
    {"memory.update_bytes", DT_FIELD_NUMBER, AT(memory.update_bytes), .max = 64, .initial = "0",
     .description = "Bytes per parameter that a rank updates, held during the update of master weights by gradients of 16 bits (none with "
                    "fsdp, hsdp): copies in fp32."},
    {"memory.gathered_elems", DT_FIELD_NUMBER, AT(memory.gathered_elems), .max = 64, .initial = "0",
     .description =
         "Elements kept per block, token and d of what tensor parallelism has gathered: whole on every rank, with sequence_parallel; the "
         "head's input is half as many."},
    {"memory.granularity_bytes", DT_FIELD_NUMBER, AT(memory.granularity_bytes), .min = 1, .max = 0x1p32,
     .description = "What the allocator rounds up to, in bytes."},
    {"memory.workspaces", DT_FIELD_INT, AT(memory.workspaces), .max = 1, .initial = "0",
     .description =
         "1: convolutions, and attention with context.comm_type all_gather, hold while they run what dtbench's hold on GPUs; 0: nothing."},
    {"memory.in_flight", DT_FIELD_NUMBER, AT(memory.in_flight), .max = 100,
     .description = "Bytes of fsdp's gathered units that are freed and wait for other streams, over those of all its parameters."},
    {"memory.full_at", DT_FIELD_NUMBER, AT(memory.full_at), .max = 1,
     .description = "Part of the device's memory from where on the allocator gives back and takes anew for each gathered unit; 0: never."},
    {"memory.reallocation_s_per_gb", DT_FIELD_NUMBER, AT(memory.reallocation_s_per_gb), .max = 1000,
     .description = "Seconds of that for 1e9 bytes, for each rank of a node: one after the other."},
    {"memory.reallocation_spread", DT_FIELD_NUMBER, AT(memory.reallocation_spread), .max = 1,
     .description = "A collective waits for all nodes: this part of a node's time is added for each further node; the rest overlaps."},
    {"memory.reserve_bytes", DT_FIELD_NUMBER, AT(memory.reserve_bytes), .max = 0x1p40,
     .description = "Device memory that context and libraries take: not counted in peaks, but not available either."},
    {"memory.communicator_bytes", DT_FIELD_NUMBER, AT(memory.communicator_bytes), .max = 0x1p40, .initial = "0",
     .description = "Likewise of a communicator: one for each of data, tensor, context and pipeline parallelism that a run has."},
    {"memory.fragmentation", DT_FIELD_NUMBER, AT(memory.fragmentation), .max = 10,
     .description = "Memory that the allocator holds and cannot use, as a part of the peak; decides about out of memory."},

    {"memory.peaks_reserved", DT_FIELD_INT, AT(memory.peaks_reserved), .max = 1, .initial = "0",
     .description = "1: the peaks that the framework reports are what its allocator has reserved, fragmentation included."},
    {"memory.peaks_of_first_rank", DT_FIELD_INT, AT(memory.peaks_of_first_rank), .max = 1, .initial = "0",
     .description = "1: they are the first rank's, which of a pipeline has the first stage; 0: the most of all ranks."},

    {"schedule.flattening_copies", DT_FIELD_INT, AT(schedule.flattening_copies), .max = 16,
     .description = "Times that fsdp copies a unit's gradients on their way to the reduce-scatter."},
    {"schedule.offloads_in_turn", DT_FIELD_INT, AT(schedule.offloads_in_turn), .max = 1,
     .description = "1: offloaded activations are copied in turn with kernels, not concurrently."},
    {"schedule.gathers_in_turn", DT_FIELD_INT, AT(schedule.gathers_in_turn), .max = 1,
     .description = "1: fsdp gathers a unit immediately before its use, never ahead, and frees it after each use."},
    {"schedule.gathers_layers", DT_FIELD_INT, AT(schedule.gathers_layers), .max = 1,
     .description = "1: fsdp's units are the inner layers, whatever fsdp.unit says."},
    {"schedule.keeps_last_chunk", DT_FIELD_INT, AT(schedule.keeps_last_chunk), .max = 1,
     .description = "1: all chunks of a pipeline but the last keep only their stage's input, and are recomputed."},
    {"schedule.holds_last_chunk", DT_FIELD_INT, AT(schedule.holds_last_chunk), .max = 1,
     .description = "1: the last chunk's output is held a second time."},
    {"schedule.whole_head", DT_FIELD_INT, AT(schedule.whole_head), .max = 1,
     .description = "1: a checkpointed head makes all of its logits at once, in forward and again in backward (with fsdp: once)."},
    {"schedule.separate_first_gradients", DT_FIELD_INT, AT(schedule.separate_first_gradients), .max = 1,
     .description = "1: the first step makes gradients outside ddp's buckets."},
    {"schedule.wide_gradients", DT_FIELD_INT, AT(schedule.wide_gradients), .max = 1, .initial = "0",
     .description = "1: gradients in 16 bits are reduced over the ranks in 32."},
    {"schedule.gathers_outputs", DT_FIELD_INT, AT(schedule.gathers_outputs), .max = 1, .initial = "0",
     .description = "1: data_parallel's root takes the outputs of all ranks, and sends their gradients back."},
    {"schedule.fills_stages", DT_FIELD_INT, AT(schedule.fills_stages), .max = 1, .initial = "0",
     .description = "1: a pipeline's stage takes pieces of the model until its share of the operations is passed, whatever pipeline.split "
                    "says; a run with two empty stages is refused."},
    {"schedule.fewest_chunks", DT_FIELD_INT, AT(schedule.fewest_chunks), .max = 1, .initial = "0",
     .description = "1: a pipeline has at least as many micro-batches as stages less one; a run with fewer is refused."},
    {"schedule.key_pieces", DT_FIELD_INT, AT(schedule.key_pieces), .max = 1, .initial = "0",
     .description =
         "1: with context.comm_type all_gather, attention in pieces as PyTorch's context_parallel makes it (predict/framework.h)."},
    {"schedule.copies_shares", DT_FIELD_INT, AT(schedule.copies_shares), .max = 1, .initial = "0",
     .description =
         "1: zero1 and zero2 copy every rank's share of a bucket's gradients before they are reduced, and gather all parameters at "
         "once, from where every rank's share of each is copied to its place."},
    {"schedule.sums_in_turn", DT_FIELD_INT, AT(schedule.sums_in_turn), .max = 2, .initial = "0",
     .description = "1: ranks that share layers wait for the sum of an input's gradient before they compute weight gradients. 2: and "
                    "without sequence parallelism each of SwiGLU's two products has a sum of its own."},
    {"schedule.divides_messages", DT_FIELD_INT, AT(schedule.divides_messages), .max = 1, .initial = "0",
     .description = "1: without sequence parallelism ranks that share layers each send a part of a message to the next stage, whose ranks "
                    "gather the parts."},
    {"schedule.recomputes_outputs", DT_FIELD_INT, AT(schedule.recomputes_outputs), .max = 1, .initial = "0",
     .description = "1: what is computed again ends with the output, which nobody reads: a block's last product and its ranks' sum."},
    {"schedule.recomputes_keys", DT_FIELD_INT, AT(schedule.recomputes_keys), .max = 1, .initial = "0",
     .description = "1: activation selective_op computes k's product and rope again, too (predict/framework.h)."},
    {"schedule.stage_buffers", DT_FIELD_INT, AT(schedule.stage_buffers), .max = 1, .initial = "0",
     .description = "1: a pipeline's stages hold what PyTorch's hold of all micro-batches of a step (predict/framework.h)."},
};

/* ---- with the kernels of the families ---- */

enum { FIELDS_MAX = 1024 };

/* The rows above, with those of each family's kernels inserted, and the kernels by number; made
 * once. */
static struct {
    struct dt_field fields[FIELDS_MAX];
    struct dt_table table;
    struct dt_priced_list kernels;
} all = {.table = {.fields = all.fields, .complete = true}};

static void add_fields(const struct dt_field *fields, int count, size_t offset)
{
    assert(all.table.count + count <= FIELDS_MAX);
    for (int i = 0; i < count; i++) {
        struct dt_field *field = &all.fields[all.table.count++];
        *field = fields[i];
        field->offset += offset;
    }
}

static void add_kernels(const struct dt_pricing *pricing)
{
    assert(all.kernels.count + pricing->count <= DT_PRICED_MAX);
    for (int i = 0; i < pricing->count; i++)
        all.kernels.kernels[all.kernels.count++] = &pricing->kernels[i];
}

static void join(void)
{
    size_t first = DT_PRICED_SHARED;
    add_fields(before_kernels, sizeof before_kernels / sizeof *before_kernels, 0);
    add_kernels(&dt_shared_pricing);
    for (int f = 0; model_family(f); f++) {
        const struct dt_pricing *pricing = model_family(f)->pricing;
        if (!pricing)
            continue;
        add_fields(pricing->keys, pricing->key_count, offsetof(struct dt_profile, kernels[first]));
        add_kernels(pricing);
        first += (size_t)pricing->count;
    }
    add_fields(dt_shared_pricing.keys, dt_shared_pricing.key_count, offsetof(struct dt_profile, kernels));
    add_fields(after_kernels, sizeof after_kernels / sizeof *after_kernels, 0);
}

const struct dt_table *profile_table(void)
{
    if (all.table.count == 0)
        join();
    return &all.table;
}

const struct dt_priced_list *profile_kernels(void)
{
    (void)profile_table();
    return &all.kernels;
}

int profile_shift(const struct dt_model_family *family)
{
    int shift = 0;
    for (int f = 0; model_family(f) && model_family(f) != family; f++)
        shift += model_family(f)->pricing ? model_family(f)->pricing->count : 0;
    return shift;
}

/* ---- "measured": a list, which has no rows ---- */

static const char *kernel_choice(int index)
{
    return index < profile_kernels()->count ? profile_kernels()->kernels[index]->name : NULL;
}

#define OF(member) .offset = offsetof(struct dt_measured, member)
#define SHAPE(index) OF(shape[index]), .min = 1, .max = 1e12
#define SECONDS(member) OF(member), .min = 1e-9, .max = 1e6

static const struct dt_field measured_fields[] = {
    {"kernel", DT_FIELD_ENUM, OF(kernel), .choice = kernel_choice,
     .description = "one of those under \"kernels\", or a copy within the device"},
    {"variant", DT_FIELD_ENUM, OF(variant), .names = DT_NAMES("plain", "dropout", "unfused", "accumulate"),
     .description = "what makes it another kernel of the same shape"},
    {"dtype", DT_FIELD_ENUM, OF(dtype), .choice = dt_dtype_name, .description = "of its operands"},
    {"ranks", DT_FIELD_INT, OF(ranks), .min = 1, .max = 4096, .description = "on the machine"},
    {"threads", DT_FIELD_INT, OF(threads), .min = 1, .max = 65536, .description = "of a rank"},
    {"rows", DT_FIELD_NUMBER, SHAPE(0),
     .description = "rows; of attention samples * heads; elements where a kernel has no rows; of a copy bytes"},
    {"columns", DT_FIELD_NUMBER, SHAPE(1), .description = "columns; out; of attention T; 1 where there are none"},
    {"inner", DT_FIELD_NUMBER, SHAPE(2), .description = "in; of attention the width of a head; of embeddings V + T; 1 where there is none"},
    {"alone_s", DT_FIELD_NUMBER, SECONDS(alone_s), .description = "seconds while the other ranks rest"},
    {"together_s", DT_FIELD_NUMBER, SECONDS(together_s), .description = "seconds while all ranks do the same"},
};

const struct dt_list *measured_table(void)
{
    static const struct dt_table table = {
        .fields = measured_fields, .count = sizeof measured_fields / sizeof *measured_fields, .complete = true};
    static const struct dt_list list = {&table, sizeof(struct dt_measured), DT_MEASURED_MAX};
    return &list;
}

dt_status measured_read(const struct cJSON *array, const char *where, struct dt_measured_list *out)
{
    return dt_config_read_list(measured_table(), array, where, out->entries, &out->count);
}

dt_status measured_write(const struct dt_measured_list *list, struct cJSON **out)
{
    return dt_config_write_list(measured_table(), list->entries, list->count, out);
}

/* ---- all of it ---- */

static const struct dt_schema_section sections[] = {
    {"", "What a software stack costs on the hardware that a cluster file describes: kernels, host, allocator.", NULL},
    {"kernels", "Each kernel of gpt/kernels.h as this stack does it; lib/cost/profile.h says what a pass goes over.", NULL},
    {"schedule", "Where the framework's schedule is not dtbench's.", NULL},
    {0},
};

static const struct dt_schema_part parts[] = {
    {.path = "sources",
     .description = "Where each constant comes from, by its path or by that of an object it is in; every constant must be covered.",
     .required = true,
     .schema = "{\"type\": \"object\", \"minProperties\": 1, \"additionalProperties\": {\"type\": \"string\", \"minLength\": 1}}"},
    {.path = "measured",
     .description = "Kernels as they were measured on a machine whose ranks share its processors (dtbench calibrate); they go before the "
                    "constants.",
     .list = measured_table},
    {0},
};

const struct dt_schema *profile_schema(void)
{
    static struct dt_schema schema = {.title = "dtbench profile", .sections = sections, .parts = parts};
    schema.table = profile_table();
    return &schema;
}

/* Does a key of "sources" name `path`, or an object that contains it? */
static bool covers(const char *key, const char *path)
{
    size_t bytes = strlen(key);
    return strncmp(key, path, bytes) == 0 && (path[bytes] == 0 || path[bytes] == '.');
}

/* Each given constant must have a source, and each source a constant. */
static dt_status check_sources(const struct cJSON *sources, const bool *given, const char *source)
{
    const struct dt_table *table = profile_table();
    if (!cJSON_IsObject(sources))
        return dt_fail(DT_ERR_INVALID, "%s: sources: missing; expected an object that says where each constant comes from", source);
    for (const cJSON *item = sources->child; item; item = item->next) {
        bool known = false;
        for (int i = 0; i < table->count; i++)
            known |= covers(item->string, table->fields[i].path);
        if (!known)
            return dt_fail(DT_ERR_INVALID, "%s: sources: \"%.100s\" is not a constant of a profile", source, item->string);
        if (!cJSON_IsString(item) || !*item->valuestring)
            return dt_fail(DT_ERR_INVALID, "%s: sources.%.100s: expected a text that says where the constant comes from", source,
                           item->string);
    }
    for (int i = PROFILE_LABELS; i < table->count; i++) {
        bool covered = !given[i];
        for (const cJSON *item = sources->child; item && !covered; item = item->next)
            covered = covers(item->string, table->fields[i].path);
        if (!covered)
            return dt_fail(DT_ERR_INVALID, "%s: sources: nothing says where %s comes from", source, table->fields[i].path);
    }
    return DT_OK;
}

static dt_status read_table(const struct cJSON *object, const struct cJSON *sources, const char *source, struct dt_profile *out)
{
    const struct dt_table *table = profile_table();
    DT_FREED bool *given = calloc((size_t)table->count, sizeof *given);
    DT_TRY(dt_allocated(given, "%s: no host memory", source));
    DT_TRY(dt_config_defaults(table, out));
    DT_TRY(dt_config_read(table, object, source, out, given));
    DT_TRY(dt_config_check_required(table, given, source));
    return check_sources(sources, given, source);
}

static dt_status read_constants(struct cJSON *object, const char *source, struct dt_profile *out)
{
    char where[512];
    if (!cJSON_IsObject(object))
        return dt_fail(DT_ERR_INVALID, "%s: expected a profile, a JSON object", source);
    DT_DESTROYED(dt_json_destroy) struct cJSON *sources = cJSON_DetachItemFromObjectCaseSensitive(object, "sources");
    DT_DESTROYED(dt_json_destroy)
    struct cJSON *measured = cJSON_DetachItemFromObjectCaseSensitive(object, "measured"); /* a list, which has no rows */
    DT_TRY(read_table(object, sources, source, out));
    snprintf(where, sizeof where, "%.400s: measured", source);
    return measured_read(measured, where, &out->measured);
}

dt_status profile_parse(const char *text, size_t length, const char *source, struct dt_profile *out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    *out = (struct dt_profile){.hash = dt_hash_fnv1a(text, length), .priced = profile_kernels()};
    DT_TRY(dt_json_parse(text, length, source, &object));
    return read_constants(object, source, out);
}

dt_status profile_read(const char *path, struct dt_profile *out)
{
    DT_FREED char *text = NULL;
    size_t length;
    DT_TRY(dt_read_file(path, &text, &length));
    return profile_parse(text, length, path, out);
}

double profile_eight(const struct dt_profile *p)
{
    double median = p->error.median, most = p->error.most, between = median + (most - median) * (1.282 - 0.674) / (1.645 - 0.674);
    return p->error.eight > 0 ? p->error.eight : most > median ? between : NAN;
}

static struct dt_kernel_cost *kernel_called(struct dt_profile *p, const char *name)
{
    int i = 0;
    while (strcmp(p->priced->kernels[i]->name, name) != 0)
        i++;
    return &p->kernels[i];
}

void profile_norm_in_operations(struct dt_profile *p)
{
    *kernel_called(p, "rms_norm") = (struct dt_kernel_cost){.launches = 8, .passes = 18};
    *kernel_called(p, "rms_norm_gradient") = (struct dt_kernel_cost){.launches = 17 - 8, .passes = 46 - 18};
    p->memory.rms_norm_elems = 3;
}

void profile_adam_in_operations(struct dt_profile *p)
{
    p->memory.update_bytes += 2 * sizeof(float);
}

void profile_gate_and_rope_in_operations(struct dt_profile *p, bool again)
{
    *kernel_called(p, "swiglu") = (struct dt_kernel_cost){.launches = 2, .passes = 5};
    *kernel_called(p, "swiglu_gradient") = (struct dt_kernel_cost){.launches = again ? 3 + 2 : 3, .passes = again ? 9 + 5 : 9};
    *kernel_called(p, "rope") = (struct dt_kernel_cost){.launches = 6, .passes = 10};
    p->memory.last_product_elems = again ? 1 : 0;
}

void profile_older_products(struct dt_profile *p)
{
    if (p->gemm.older_fraction > 0)
        p->gemm.peak_fraction = p->gemm.older_fraction;
}

double profile_attention_rate(const char *notes)
{
    static const struct {
        const char *kernel;
        double rate;
    } kernels[] = {{"kernel=flash_attentionv1", 0.44}, {"kernel=cudnn", 1.61}, {"kernel=flash_attention3", 1.82}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strstr(notes, kernels[i].kernel))
            return kernels[i].rate;
    return 1;
}

void profile_softmax_in_operations(struct dt_profile *p)
{
    struct dt_kernel_cost *forward = kernel_called(p, "attention"), *backward = kernel_called(p, "attention_gradient");
    forward->launches += 3;
    forward->other_passes = 14.5;
    backward->launches += 3;
    backward->other_passes = 16.5;
}
