#include "predict/storage.h"
#include "schedules/run/trainer.h"

#include <math.h>

/* Seconds in which storage reads or writes bytes: limited by the rate of a node, and by that of all
 * nodes together. */
static double stored_s(double most_of_a_node, double of_all, double gb_per_s, double total_gb_per_s)
{
    double together_s = total_gb_per_s > 0 ? 1e-9 * of_all / total_gb_per_s : 0;
    return fmax(1e-9 * most_of_a_node / gb_per_s, together_s);
}

static double move_s(double bytes, double gb_per_s)
{
    return gb_per_s > 0 ? 1e-9 * bytes / gb_per_s : 0;
}

/* Seconds to copy from the parameters' memory to host memory; if that is the same memory, to
 * another place in it, with all ranks of a node at once. */
static double copy_s(const struct experiment *e, const struct dt_sim_cluster *c, int ranks_per_node, double bytes)
{
    bool cpu = c->gpu.architecture == DT_SIM_CPU;
    if (cpu)
        return move_s(2 * bytes, c->gpu.memory_gb_per_s);
    if (e->parameter_offload)
        return move_s(2 * bytes * ranks_per_node, c->host.memory_gb_per_s);
    return move_s(bytes, c->pcie.gb_per_s / c->pcie.gpus_per_link);
}

/* Forward's part of a step's operations, at least, if layers are recomputed. */
static const double FORWARD = 0.25;

/* Bytes of the node that moves most, and of all nodes. */
struct volume {
    double of_node, of_all, of_rank;
};

static struct volume add_up(const struct checkpoint_size *of_rank, bool loaded, int world_size, int ranks_per_node, double most)
{
    struct volume v = {0};
    double on_node = 0;
    for (int i = 0; i < world_size; i++) {
        double bytes = loaded ? of_rank[i].loaded : of_rank[i].saved;
        on_node = fmin(i % ranks_per_node == 0 ? bytes : on_node + bytes, most);
        v.of_rank = fmax(v.of_rank, bytes);
        v.of_node = fmax(v.of_node, on_node);
        if ((i + 1) % ranks_per_node == 0 || i + 1 == world_size)
            v.of_all += on_node;
    }
    return v;
}

void storage_times_find(const struct experiment *e, const struct dt_sim_cluster *c, int ranks_per_node,
                        const struct checkpoint_size *of_rank, struct storage_times *out)
{
    double whole = (double)checkpoint_bytes(e);
    bool alternates = !e->parameter_offload && c->gpu.architecture != DT_SIM_CPU; /* copies from or to the device alternate with storage */
    *out = (struct storage_times){0};
    if (training_loads(e)) {
        struct volume v = add_up(of_rank, true, e->world_size, ranks_per_node, whole);
        out->load_s = stored_s(v.of_node, v.of_all, c->storage.read_gb_per_s, c->storage.total_read_gb_per_s) +
                      (alternates ? copy_s(e, c, ranks_per_node, v.of_rank) : 0);
    }
    if (*e->checkpoint.path) {
        struct volume v = add_up(of_rank, false, e->world_size, ranks_per_node, whole);
        out->copy_s = copy_s(e, c, ranks_per_node, v.of_rank);
        /* the copy overlaps with the next step: a graph waits for everything that was queued before
         * it */
        out->beside = !e->parameter_offload && (c->gpu.architecture == DT_SIM_CPU || trainer_no_graph(e)) ? FORWARD : 0;
        out->write_s = stored_s(v.of_node, v.of_all, c->storage.write_gb_per_s, c->storage.total_write_gb_per_s);
        out->save_s = out->write_s + (alternates ? out->copy_s : 0);
    }
    if (experiment_reads_data(e)) {
        double sample = (double)e->model.family->stored_bytes(&e->model, experiment_id_bytes(e));
        double all = sample * (double)experiment_global_batch(e), on_node = sample * e->batch_size * fmin(ranks_per_node, e->world_size);
        out->read_s = stored_s(on_node, all, c->storage.read_gb_per_s, c->storage.total_read_gb_per_s);
    }
}
