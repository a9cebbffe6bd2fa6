/* Collectives, messages and copies on described clusters against closed forms. Constants of NCCL
 * are written out here again. */
#include "lib/sim/alone.h"
#include "test/lib/sim/sim_case.h"

static const double us = 1e-6;

/* Sockets of 16 Gbit/s for one communicator and 21.8 for several: what configs/clusters/gcp_a2.json
 * has is fitted, and may change. */
static void plain_network(struct sim_case *c)
{
    if (strcmp(c->cluster.name, "gcp_a2") != 0)
        return;
    c->cluster.nic.flow_gbit_per_s = 16;
    c->cluster.nic.total_gbit_per_s = 21.8;
    c->cluster.nic.latency_us = 40;
    c->cluster.nic.more_nodes = c->cluster.nic.fewer_gpus = c->cluster.nic.tree = c->cluster.nic.gain = 1;
}

static void check_near(double value, double expected, double tolerance, const char *what)
{
    CHECK(fabs(value - expected) <= tolerance * expected, "%s: %.9g s, not %.9g", what, value, expected);
}

/* How long one collective of all ranks takes alone, on a cluster that is loaded; ends the case. */
static double time_on(struct sim_case *c, int world, int per_node, enum dt_sim_collective kind, double bytes)
{
    struct dt_sim_program *p = sim_one_collective(kind, bytes);
    sim_case_start(c, world, per_node);
    int group = sim_case_group(c, 0, 1, world);
    for (int r = 0; r < world; r++)
        CHECK_OK(dt_sim_engine_set_program(c->engine, r, p, &group));
    CHECK_OK(dt_sim_engine_run(c->engine));
    double end = dt_sim_engine_end_s(c->engine, -1);
    sim_case_finish(c);
    dt_sim_program_destroy(p);
    return end;
}

static double time_collective(const char *cluster, int world, int per_node, enum dt_sim_collective kind, double bytes)
{
    struct sim_case c;
    sim_case_load(&c, cluster);
    plain_network(&c);
    return time_on(&c, world, per_node, kind, bytes);
}

/* One A100 node: the bus is NCCL's 235 GB/s, and a ring's steps are 3.4 us each. A rank's own part
 * takes 0.46 of a step's time. */
static void test_rings_in_a_node(void)
{
    double n = 8, bytes = 1 << 30, bus = 235e9, own = 0.46, once = (8.4 + (n - 1) * 3.4) * us + (n - 1 + own) / n * bytes / bus;
    check_near(time_collective("gcp_a2_1", 8, 0, DT_SIM_ALL_REDUCE, bytes),
               (8.4 + 2 * (n - 1) * 3.4) * us + (2 * (n - 1) + own) / n * bytes / bus, 1e-9, "all_reduce");
    check_near(time_collective("gcp_a2_1", 8, 0, DT_SIM_ALL_GATHER, bytes), once, 1e-9, "all_gather");
    check_near(time_collective("gcp_a2_1", 8, 0, DT_SIM_REDUCE_SCATTER, bytes), once, 1e-9, "reduce_scatter");
    check_near(time_collective("gcp_a2_1", 8, 0, DT_SIM_BROADCAST, bytes), (8.4 + 3.4) * us + bytes / bus, 1e-9, "broadcast");
    check_near(time_collective("gcp_a2_1", 2, 0, DT_SIM_ALL_REDUCE, bytes), (8.4 + 2 * 3.4) * us + (2 + own) / 2 * bytes / bus, 1e-9,
               "two ranks");
}

/* Measured rates within a node replace NCCL's: latencies of each protocol, and the bus. NCCL's own
 * tables still choose the algorithm. */
static void test_measured_in_a_node(void)
{
    struct sim_case c;
    double n = 8, bytes = 1 << 30, bus = 0.5 * 235e9;
    sim_case_load(&c, "gcp_a2_1");
    plain_network(&c);
    c.cluster.collectives.simple_latency = 3;
    c.cluster.collectives.delivered = 0.5;
    check_near(time_on(&c, 8, 0, DT_SIM_ALL_GATHER, bytes), 3 * (8.4 + (n - 1) * 3.4) * us + (n - 1 + 0.46) / n * bytes / bus, 1e-9,
               "Simple");
    sim_case_load(&c, "gcp_a2_1");
    plain_network(&c);
    c.cluster.collectives.ll_latency = 2;
    check_near(time_on(&c, 8, 0, DT_SIM_ALL_GATHER, 8), 2 * (3.6 + (n - 1) * 0.47) * us, 1e-3, "LL");
}

/* How long an all-reduce of 1 GiB takes while kernels run on rank 0's GPU for `beside_s` seconds,
 * which slow it by a half. */
static double time_beside_kernels(const char *cluster, int world, double beside_s)
{
    struct sim_case c;
    struct dt_sim_program *p = NULL, *idle = sim_one_collective(DT_SIM_ALL_REDUCE, 1 << 30);
    int number, group;
    uint32_t done;
    sim_case_load(&c, cluster);
    c.cluster.collectives.compute_slowdown = 0.5;
    CHECK_OK(dt_sim_program_create(false, &p));
    CHECK_OK(dt_sim_program_add_stream(p, "compute", &number));
    CHECK_OK(dt_sim_program_add_stream(p, "network", &number));
    CHECK_OK(dt_sim_program_add_slot(p, &number));
    CHECK_OK(dt_sim_program_work(p, 0, beside_s, NULL));
    CHECK_OK(dt_sim_program_collective(p, 1, 0, DT_SIM_ALL_REDUCE, 1 << 30, 0, NULL));
    CHECK_OK(dt_sim_program_record(p, 1, &done));
    CHECK_OK(dt_sim_program_finish(p));
    sim_case_start(&c, world, 0);
    group = sim_case_group(&c, 0, 1, world);
    for (int r = 0; r < world; r++)
        CHECK_OK(dt_sim_engine_set_program(c.engine, r, r ? idle : p, &group));
    CHECK_OK(dt_sim_engine_run(c.engine));
    double done_s = dt_sim_engine_event_s(c.engine, 0, done);
    sim_case_finish(&c);
    dt_sim_program_destroy(p);
    dt_sim_program_destroy(idle);
    return done_s;
}

/* Within a node its channels share the GPU's memory with them; between nodes the network is slower
 * than either. */
static void test_kernels_slow_collectives(void)
{
    double one = time_beside_kernels("gcp_a2_1", 8, 0), two = time_beside_kernels("gcp_a2", 16, 0);
    check_near(time_beside_kernels("gcp_a2_1", 8, 10), 1.5 * one, 1e-9, "in a node, beside kernels all the time");
    check_near(time_beside_kernels("gcp_a2_1", 8, one / 2), 1.25 * one, 1e-9, "in a node, half of the time");
    check_near(time_beside_kernels("gcp_a2", 16, 10), two, 1e-9, "across nodes");
}

static struct dt_sim_nccl_plan plan_of(const char *cluster, int world, int per_node, enum dt_sim_collective kind, double bytes)
{
    struct sim_case c;
    struct dt_sim_nccl_comm comm = {0};
    int *ranks = malloc((size_t)world * sizeof *ranks);
    for (int r = 0; r < world; r++)
        ranks[r] = r;
    sim_case_load(&c, cluster);
    plain_network(&c);
    sim_case_start(&c, world, per_node);
    CHECK_OK(dt_sim_links_nccl(c.links, ranks, world, &comm));
    sim_case_finish(&c);
    free(ranks);
    return dt_sim_nccl_plan(&comm, kind, bytes);
}

static void check_plan(const char *cluster, int world, enum dt_sim_collective kind, double bytes, enum dt_sim_algorithm algorithm,
                       enum dt_sim_protocol protocol)
{
    struct dt_sim_nccl_plan plan = plan_of(cluster, world, 0, kind, bytes);
    CHECK(plan.algorithm == algorithm && plan.protocol == protocol, "%s, %d ranks, %g bytes: algorithm %d, protocol %d", cluster, world,
          bytes, plan.algorithm, plan.protocol);
}

/* Short messages go by LL, longer ones by LL128 where NVLink joins the ranks, the longest by
 * Simple; trees where steps are dear. */
static void test_choice(void)
{
    check_plan("gcp_a2_1", 8, DT_SIM_ALL_REDUCE, 1024, DT_SIM_RING, DT_SIM_LL);
    check_plan("gcp_a2_1", 8, DT_SIM_ALL_REDUCE, 4 << 20, DT_SIM_RING, DT_SIM_LL128);
    check_plan("gcp_a2_1", 8, DT_SIM_ALL_REDUCE, 1 << 30, DT_SIM_RING, DT_SIM_SIMPLE);
    check_plan("gcp_a2", 128, DT_SIM_ALL_REDUCE, 1024, DT_SIM_TREE, DT_SIM_LL);
    check_plan("gcp_a2", 16, DT_SIM_ALL_REDUCE, 25 << 20, DT_SIM_TREE, DT_SIM_SIMPLE); /* two nodes: half of a ring's bytes */
    check_plan("gcp_a2", 32, DT_SIM_ALL_REDUCE, 25 << 20, DT_SIM_RING, DT_SIM_SIMPLE);
    check_plan("gcp_a2", 16, DT_SIM_ALL_GATHER, 25 << 20, DT_SIM_RING, DT_SIM_SIMPLE); /* only an all_reduce has a tree */
    check_plan("dgx_a100", 128, DT_SIM_ALL_REDUCE, 1 << 30, DT_SIM_RING, DT_SIM_SIMPLE);
}

/* 4 nodes of 8 on sockets of 16 Gbit/s for one ring. While a chunk goes from card to card, the card
 * sends those of the other 7 ranks. */
static void test_ring_across_nodes(void)
{
    double n = 32, bytes = 25 << 20, nic = 16e9 / 8;
    check_near(time_collective("gcp_a2", 32, 0, DT_SIM_ALL_REDUCE, bytes), 8.4 * us + 2 * (n - 1) / n * bytes / nic, 1e-9, "all_reduce");
    check_near(time_collective("gcp_a2", 32, 0, DT_SIM_ALL_GATHER, bytes), 8.4 * us + (n - 1) / n * bytes / nic, 1e-9, "all_gather");
}

/* What ranks exchange in messages. In a node all-to-all sends 7 of 8 parts, a shift all of it, both
 * by all channels. Across 4 nodes of 8 a shift puts its bytes on each card once, and of all-to-all
 * each of a node's 8 ranks sends 24 of 32 parts over the one card, which many connections fill. */
static void test_exchanges(void)
{
    struct sim_case c;
    double bytes = 1 << 30, nic = 16e9 / 8, all = 21.8e9 / 8, latency = (8.4 + 9.6 + 40) * us;
    sim_case_load(&c, "gcp_a2_1");
    double channels = fmin(1e9 * c.cluster.collectives.channels * c.cluster.collectives.channel_gb_per_s, 1e9 * c.cluster.nvlink.gb_per_s);
    check_near(time_collective("gcp_a2_1", 8, 0, DT_SIM_SHIFT, bytes), (8.4 + 3.4) * us + bytes / channels, 1e-9, "shift");
    check_near(time_collective("gcp_a2_1", 8, 0, DT_SIM_ALL_TO_ALL, bytes), (8.4 + 3.4) * us + 7 / 8.0 * bytes / channels, 1e-9,
               "all_to_all");
    check_near(time_collective("gcp_a2", 32, 0, DT_SIM_SHIFT, bytes), latency + bytes / nic, 1e-9, "shift across nodes");
    check_near(time_collective("gcp_a2", 32, 0, DT_SIM_ALL_TO_ALL, bytes), latency + 8 * 24 / 32.0 * bytes / all, 1e-9,
               "all_to_all across nodes");
}

/* An all_gather of 25 MiB on 4 nodes whose cards take 4 ms from node to node. */
static double time_with_late_cards(int per_node, bool slow_inside)
{
    struct sim_case c;
    sim_case_load(&c, "gcp_a2");
    plain_network(&c);
    c.cluster.nic.latency_us = 4000;
    if (slow_inside) {
        c.cluster.collectives.channels = 1;
        c.cluster.collectives.channel_gb_per_s = 2;
    }
    return time_on(&c, 4 * per_node, per_node, DT_SIM_ALL_GATHER, 25 << 20);
}

/* Each node's card sends 31 of 32 parts. A part takes 28 steps within nodes and 3 between them;
 * what the card sends meanwhile are 7 of 8 parts, but for the time that the part takes on links of
 * 235 GB/s. Where these are no faster than the card, and for a rank alone on its node, it waits for
 * all of them. */
static void test_latency_beside_other_chunks(void)
{
    double bytes = 25 << 20, nic = 16e9 / 8, sent = 31 / 32.0 * bytes / nic, steps = (28 * 3.4 + 3 * (9.6 + 4000)) * us;
    check_near(time_with_late_cards(8, false), 8.4 * us + sent + steps - sent * 7 / 8 * (1 - nic / 235e9), 1e-9, "8 ranks on a node");
    check_near(time_with_late_cards(8, true), 8.4 * us + sent + steps, 1e-9, "links within the node as slow as the card");
    check_near(time_with_late_cards(1, false), 8.4 * us + 3 / 4.0 * bytes / nic + 3 * (9.6 + 4000) * us, 1e-9, "a rank alone on its node");
}

/* 2 nodes: each byte passes a NIC once; at 0.92 of its rate, 0.7 of that for 25 MiB (log2 of its
 * 64-byte lines is 18). */
static void test_tree_across_two_nodes(void)
{
    double bytes = 25 << 20, nic = 16e9 / 8, latency = 2 * (7 * 28 + 28 + 40) * us;
    check_near(time_collective("gcp_a2", 16, 0, DT_SIM_ALL_REDUCE, bytes), latency + bytes / (0.92 * 0.7 * nic), 1e-9, "all_reduce");
}

/* Several NICs carry the ring's channels side by side. A rank alone on its node has one of them. */
static void test_several_nics(void)
{
    double bytes = 1 << 30, nic = 184e9 / 8;
    check_near(time_collective("dgx_a100", 16, 0, DT_SIM_ALL_GATHER, bytes), 8.4 * us + 15 / 16.0 * bytes / (8 * nic), 1e-9,
               "8 GPUs on each of 2 nodes");
    check_near(time_collective("dgx_a100", 4, 1, DT_SIM_ALL_GATHER, bytes), (8.4 + 3 * 14.0) * us + 3 / 4.0 * bytes / nic, 1e-9,
               "1 GPU on each of 4");
}

static double time_nvls(int world, int per_node, bool sums, double gbit_per_s, double latency_us)
{
    struct dt_sim_cluster cluster;
    char path[1024];
    double seconds = 0;
    CHECK_OK(dt_sim_cluster_load(sim_source_path("configs/clusters/dgx_h100.json", path, sizeof path), &cluster));
    cluster.collectives.nvls = true;
    cluster.fabric.sums = sums;
    cluster.nic.flow_gbit_per_s = cluster.nic.total_gbit_per_s = gbit_per_s;
    cluster.nic.latency_us = latency_us;
    const struct dt_sim_placement placement = {.world_size = world, .ranks_per_node = per_node};
    CHECK_OK(dt_sim_time_alone(&cluster, "cluster.json", &placement, DT_SIM_ALL_REDUCE, 1 << 30, &seconds));
    return seconds;
}

/* NCCL 2.10 limits the bus of an Ampere node, 2.20 does not. */
static void test_limit_of_ampere(void)
{
    struct dt_sim_cluster cluster;
    char path[1024];
    double limited = 0, free_of_it = 0;
    const struct dt_sim_placement placement = {.world_size = 8, .ranks_per_node = 8};
    CHECK_OK(dt_sim_cluster_load(sim_source_path("configs/clusters/dgx_a100.json", path, sizeof path), &cluster));
    cluster.collectives.channels = 24;
    cluster.collectives.channel_gb_per_s = 20;
    snprintf(cluster.collectives.version, sizeof cluster.collectives.version, "2.10.3");
    CHECK_OK(dt_sim_time_alone(&cluster, "cluster.json", &placement, DT_SIM_ALL_REDUCE, 1 << 30, &limited));
    snprintf(cluster.collectives.version, sizeof cluster.collectives.version, "2.20.3");
    CHECK_OK(dt_sim_time_alone(&cluster, "cluster.json", &placement, DT_SIM_ALL_REDUCE, 1 << 30, &free_of_it));
    CHECK(free_of_it > 0 && limited > 1.2 * free_of_it, "%g and %g s", limited, free_of_it);
}

/* On DGX H100: five sixths of a bus of 360 GB/s in a node. Between nodes what 8 cards carry: the
 * message once between two nodes or where switches sum, and twice in a tree of more. One or two
 * ranks of a node have no NVSwitch to sum for them. */
static void test_sums_in_switches(void)
{
    double bytes = 1 << 30, own = 5.0 / 6 * 360e9;
    check_near(time_nvls(8, 8, false, 300, 0), 25 * us + bytes / own, 1e-9, "a node");
    check_near(time_nvls(16, 8, false, 160, 0), (25 + 2 * 14) * us + bytes / 160e9, 1e-9, "two nodes");
    check_near(time_nvls(64, 8, false, 160, 0), (25 + 6 * 14) * us + bytes / 80e9, 1e-9, "a tree of 8 nodes");
    check_near(time_nvls(64, 8, true, 160, 0), (25 + 18) * us + bytes / 160e9, 1e-9, "switches between 8 nodes");
    check_near(time_nvls(64, 8, true, 160, 500), (25 + 18 + 500) * us + bytes / 160e9, 1e-9, "cards that are late");
    CHECK(time_nvls(4, 1, true, 160, 0) > 1.5 * bytes / 20e9, "a ring: %g", time_nvls(4, 1, true, 160, 0));
    check_near(time_nvls(2, 2, true, 160, 0), 1.3 * (8.4 + 2 * 3.4) * us + 2.46 / 2 * bytes / 360e9, 1e-9, "two of a node: a ring");
    CHECK(time_nvls(8, 2, true, 160, 0) > 1.5 * bytes / 40e9, "two of each node: %g s", time_nvls(8, 2, true, 160, 0));
}

/* Ranks 0, 8, 16, 24 and 1, 9, 17, 25 reduce at once over the same four NICs: claim C4, 17 ms
 * alone, 25 ms together. */
static void test_two_rings_on_the_same_nics(void)
{
    double end[2], bytes = 1e9;
    for (int rings = 1; rings <= 2; rings++) {
        struct sim_case c;
        struct dt_sim_program *p = sim_one_collective(DT_SIM_ALL_REDUCE, bytes);
        sim_case_load(&c, "gcp_a2");
        plain_network(&c);
        sim_case_start(&c, 32, 0);
        for (int i = 0; i < rings; i++) {
            int group = sim_case_group(&c, i, 8, 4);
            for (int r = i; r < 32; r += 8)
                CHECK_OK(dt_sim_engine_set_program(c.engine, r, p, &group));
        }
        CHECK_OK(dt_sim_engine_run(c.engine));
        end[rings - 1] = dt_sim_engine_end_s(c.engine, -1);
        sim_case_finish(&c);
        dt_sim_program_destroy(p);
    }
    check_near(end[1] / end[0], 25 / 17.0, 0.005, "two rings to one");
}

/* Messages between rank 0 and `to`, and copies of two GPUs; each alone, or both at once. */
static double time_message(const char *cluster, int world, int per_node, int to, double bytes)
{
    struct sim_case c;
    int ends[] = {0, to}, group;
    sim_case_load(&c, cluster);
    plain_network(&c);
    sim_case_start(&c, world, per_node);
    CHECK_OK(dt_sim_engine_add_group(c.engine, "pair", ends, 2, &group));
    struct dt_sim_program *p[2];
    for (int i = 0; i < 2; i++) {
        int stream, slot;
        CHECK_OK(dt_sim_program_create(true, &p[i]));
        CHECK_OK(dt_sim_program_add_stream(p[i], "network", &stream));
        CHECK_OK(dt_sim_program_add_slot(p[i], &slot));
        CHECK_OK(i ? dt_sim_program_recv(p[i], stream, slot, 0, bytes, NULL) : dt_sim_program_send(p[i], stream, slot, 1, bytes, NULL));
        CHECK_OK(dt_sim_program_finish(p[i]));
        CHECK_OK(dt_sim_engine_set_program(c.engine, ends[i], p[i], &group));
    }
    CHECK_OK(dt_sim_engine_run(c.engine));
    double end = dt_sim_engine_end_s(c.engine, to);
    sim_case_finish(&c);
    dt_sim_program_destroy(p[0]);
    dt_sim_program_destroy(p[1]);
    return end;
}

static void test_messages(void)
{
    check_near(time_message("gcp_a2", 16, 0, 7, 1e9), (8.4 + 3.4) * us + 1e9 / 264e9, 1e-9, "by NVLink");
    check_near(time_message("gcp_a2", 16, 0, 8, 1e9), (8.4 + 9.6 + 40) * us + 1e9 / 2e9, 1e-9, "by the NIC");
    check_near(time_message("dgx_a100", 16, 0, 8, 1e9), (8.4 + 14.0) * us + 1e9 / 23e9, 1e-9, "by InfiniBand");
}

static double time_copies(enum dt_sim_direction direction, int first, int second)
{
    struct sim_case c;
    struct dt_sim_program *p;
    int stream;
    sim_case_load(&c, "gcp_a2_1");
    c.cluster.pcie.gb_per_s = 12; /* the file's is fitted, and may change */
    c.cluster.host.memory_gb_per_s = 120;
    sim_case_start(&c, 8, 0);
    CHECK_OK(dt_sim_program_create(true, &p));
    CHECK_OK(dt_sim_program_add_stream(p, "copies", &stream));
    CHECK_OK(dt_sim_program_copy(p, stream, direction, 1.2e9, NULL));
    CHECK_OK(dt_sim_program_finish(p));
    CHECK_OK(dt_sim_engine_set_program(c.engine, first, p, NULL));
    if (second >= 0)
        CHECK_OK(dt_sim_engine_set_program(c.engine, second, p, NULL));
    CHECK_OK(dt_sim_engine_run(c.engine));
    double end = dt_sim_engine_end_s(c.engine, -1);
    sim_case_finish(&c);
    dt_sim_program_destroy(p);
    return end;
}

static void test_copies(void)
{
    check_near(time_copies(DT_SIM_TO_HOST, 0, -1), 10 * us + 0.1, 1e-9, "one GPU");
    check_near(time_copies(DT_SIM_TO_HOST, 0, 2), 10 * us + 0.1, 1e-9, "two GPUs with links of their own");
    check_near(time_copies(DT_SIM_TO_HOST, 0, 1), 10 * us + 0.2, 1e-9, "two GPUs on one link");
    check_near(time_copies(DT_SIM_WITHIN_HOST, 0, -1), 0.01, 1e-9, "a host's own memory");
    check_near(time_copies(DT_SIM_WITHIN_HOST, 0, 2), 0.02, 1e-9, "which all ranks of the node share");
}

/* On memory that two groups use at once each has half of it, though one has twice the ranks, and
 * each of its bytes is copied twice as often. */
static void test_groups_share_a_host(void)
{
    struct sim_case c;
    struct dt_sim_program *few = sim_one_collective(DT_SIM_ALL_REDUCE, 3e9), *many = sim_one_collective(DT_SIM_ALL_REDUCE, 1e9);
    sim_case_load(&c, "cpu_node");
    c.cluster.gpus_per_node = 6;
    c.cluster.host.copy_gb_per_s = 12;
    c.cluster.collectives.gb_per_s = c.cluster.collectives.sum_gb_per_s = 6;
    sim_case_start(&c, 6, 0);
    int pair = sim_case_group(&c, 0, 1, 2), four = sim_case_group(&c, 2, 1, 4);
    for (int r = 0; r < 6; r++)
        CHECK_OK(dt_sim_engine_set_program(c.engine, r, r < 2 ? few : many, r < 2 ? &pair : &four));
    CHECK_OK(dt_sim_engine_run(c.engine));
    check_near(dt_sim_engine_end_s(c.engine, 0), 2 * 30 * us + 3e9 / (12e9 / 2 / 2), 1e-9, "two ranks");
    check_near(dt_sim_engine_end_s(c.engine, 2), 2 * 30 * us + 1.5e9 / (12e9 / 2 / 4), 1e-9, "four ranks");
    sim_case_finish(&c);
    dt_sim_program_destroy(few);
    dt_sim_program_destroy(many);
}

/* Switches that carry a quarter of the NICs' sum: rings between all nodes at once get a quarter,
 * unless each card has a switch of its own with the same cards of other nodes (rails), which NCCL's
 * rings stay on. */
static void test_blocking_fabric(void)
{
    double end[3];
    for (int blocking = 0; blocking < 3; blocking++) {
        struct sim_case c;
        struct dt_sim_program *p = sim_one_collective(DT_SIM_ALL_GATHER, 1e10);
        sim_case_load(&c, "dgx_a100");
        c.cluster.nic.flow_gbit_per_s = c.cluster.nic.total_gbit_per_s = c.cluster.nic.label_gbit_per_s = 100;
        c.cluster.fabric.blocking_factor = blocking ? 4 : 1;
        c.cluster.fabric.rails = blocking == 2;
        sim_case_start(&c, 32, 0);
        int group = sim_case_group(&c, 0, 1, 32);
        for (int r = 0; r < 32; r++)
            CHECK_OK(dt_sim_engine_set_program(c.engine, r, p, &group));
        CHECK_OK(dt_sim_engine_run(c.engine));
        end[blocking] = dt_sim_engine_end_s(c.engine, -1);
        sim_case_finish(&c);
        dt_sim_program_destroy(p);
    }
    check_near(end[1] / end[0], 4, 0.01, "a fabric that blocks by 4");
    check_near(end[2], end[0], 1e-9, "rails do not block");
}

/* Of four links the slowest leaves 0.9 of what it leaves of two: the root of log n once more. Of
 * 16, which is 2.42 times as far, 0.788. */
static void test_slowest_of_many_links(void)
{
    static const double left[] = {1, 0.9, 0.788};
    double rate[3];
    for (int i = 0; i < 3; i++) {
        struct sim_case c;
        struct dt_sim_program *p = sim_one_collective(DT_SIM_ALL_GATHER, 1e11);
        int world = 16 << (i == 2 ? 3 : i);
        sim_case_load(&c, "dgx_a100");
        c.cluster.nic.flow_gbit_per_s = 10;
        c.cluster.nic.more_nodes = 0.9;
        sim_case_start(&c, world, 0);
        int group = sim_case_group(&c, 0, 1, world);
        for (int r = 0; r < world; r++)
            CHECK_OK(dt_sim_engine_set_program(c.engine, r, p, &group));
        CHECK_OK(dt_sim_engine_run(c.engine));
        rate[i] = (world - 1.0) / world / dt_sim_engine_end_s(c.engine, -1);
        sim_case_finish(&c);
        dt_sim_program_destroy(p);
        check_near(rate[i] / rate[0], left[i], 1e-3, "what is left of a flow");
    }
}

/* Each of a ring's steps waits for the card: 15 of 16 ranks, however few the bytes, and none more
 * for the bytes that fit into them. */
static void test_steps_across_nodes(void)
{
    double end[2];
    for (int slow = 0; slow < 2; slow++) {
        struct sim_case c;
        struct dt_sim_program *p = sim_one_collective(DT_SIM_ALL_GATHER, 1e9);
        sim_case_load(&c, "aws_p5");
        c.cluster.nic.step_us = slow ? 1000 : 0;
        sim_case_start(&c, 16, 0);
        int group = sim_case_group(&c, 0, 1, 16);
        for (int r = 0; r < 16; r++)
            CHECK_OK(dt_sim_engine_set_program(c.engine, r, p, &group));
        CHECK_OK(dt_sim_engine_run(c.engine));
        end[slow] = dt_sim_engine_end_s(c.engine, -1);
        sim_case_finish(&c);
        dt_sim_program_destroy(p);
    }
    check_near(end[1] - end[0], 15e-3 + 8.4 * us - (8.4 + 14 * 6 + 14) * us, 1e-5, "a ring of 15 steps of a millisecond");
}

/* dtbench's own collectives: a phase that sums at 3 GB/s and one that copies at 6, 30 us each;
 * every rank sends half of the buffer. */
static void test_mpi(void)
{
    check_near(time_collective("cpu_node", 2, 0, DT_SIM_ALL_REDUCE, 6e8), 60 * us + 3e8 / 3e9 + 3e8 / 6e9, 1e-9, "all_reduce");
    check_near(time_collective("cpu_node", 2, 0, DT_SIM_REDUCE_SCATTER, 6e8), 30 * us + 3e8 / 3e9, 1e-9, "reduce_scatter");
    check_near(time_collective("cpu_node", 2, 0, DT_SIM_ALL_GATHER, 6e8), 30 * us + 3e8 / 6e9, 1e-9, "all_gather");
    check_near(time_message("cpu_node", 2, 0, 1, 6e8), 30 * us + 0.1, 1e-9, "message");
}

/* What tables hold: times and GB/s that are above 0, and parts of the bandwidth. */
static void tables_are_sound(void)
{
    const struct dt_sim_nccl_tables *t;
    char known[DT_ERROR_BYTES], *rest = known;
    CHECK(dt_sim_nccl_find("0", "here") == DT_ERR_INVALID && strstr(dt_error_message(), "known are "), "%s", dt_error_message());
    snprintf(known, sizeof known, "%s", strstr(dt_error_message(), "known are ") + strlen("known are "));
    for (const char *version; (version = strtok_r(rest, ", ", &rest));) {
        t = dt_sim_nccl_tables(version);
        CHECK(t && strcmp(t->version, version) == 0, "%s", version);
        for (int p = 0; p < DT_SIM_PROTOCOLS; p++)
            for (int i = 0; i < 23; i++)
                CHECK(dt_sim_nccl_tree_correction[p][i] > 0 && dt_sim_nccl_tree_correction[p][i] <= 1, "%s, protocol %d, size %d", version,
                      p, i);
        for (int i = 0; t && i < 9; i++)
            CHECK(t->ll_bus[i / 3][i % 3] > 0 && t->ring_ll128_channel[i / 3][i % 3] > 0 && t->tree_channel[i / 3][i % 3] > 0, "%s, %d",
                  version, i);
    }
}

static const struct test_case cases[] = {
    {"tables are sound", tables_are_sound},
    {"groups share a host", test_groups_share_a_host},
    {"sums in switches", test_sums_in_switches},
    {"a limit of Ampere", test_limit_of_ampere},
    {"rings within a node", test_rings_in_a_node},
    {"exchanges in messages", test_exchanges},
    {"what was measured within a node", test_measured_in_a_node},
    {"kernels slow collectives within a node", test_kernels_slow_collectives},
    {"NCCL's choice of algorithm and protocol", test_choice},
    {"a ring across nodes passes each NIC once", test_ring_across_nodes},
    {"latency beside other ranks' chunks", test_latency_beside_other_chunks},
    {"a tree across two nodes has half of a ring's bytes on the NICs", test_tree_across_two_nodes},
    {"several NICs divide a ring's bytes", test_several_nics},
    {"two rings on the same NICs, as the study measured", test_two_rings_on_the_same_nics},
    {"messages within a node and between nodes", test_messages},
    {"copies share PCIe links", test_copies},
    {"switches that block, and rails that do not", test_blocking_fabric},
    {"steps of a ring across nodes", test_steps_across_nodes},
    {"the slowest of many links", test_slowest_of_many_links},
    {"MPI on processors", test_mpi},
};

TEST_MAIN(cases)
