/* Cluster files: those that are shipped, and what is refused. */
#include "lib/config/json.h"
#include "test/lib/sim/sim_case.h"

#include <cjson/cJSON.h>
#include <math.h>

static const char *const shipped[] = {
    "aws_p5",    "cpu_node",      "dgx_a100",           "dgx_a100_1", "dgx_h100", "dgx_h100_1",    "dgx_h200",
    "gcp_a2",    "gcp_a2_1",      "gcp_a2_fast_socket", "aws_p3",     "ib_a100",  "omnipath_a100", "roce_a100_40gb",
    "roce_h100", "superpod_h100", "grand_teton_h100",   "dgx_b200",   "l40s",     "mi300x",        "pcie_a100"};

static void test_shipped_files(void)
{
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
        struct sim_case c;
        sim_case_load(&c, shipped[i]);
        CHECK(strcmp(c.cluster.name, shipped[i]) == 0, "%s calls itself %s", shipped[i], c.cluster.name);
        sim_case_start(&c, c.cluster.nodes * c.cluster.gpus_per_node, 0);
        sim_case_finish(&c);
    }
}

/* The file `name` with `path` set to the JSON text `value` ("" takes the key away): the error must
 * begin with "f: " and `expected`. */
static void check_refused(const char *name, const char *path, const char *value, const char *expected)
{
    char file[256], full[1024], *text = NULL, wanted[512];
    size_t length = 0;
    struct dt_sim_cluster cluster;
    snprintf(file, sizeof file, "configs/clusters/%s.json", name);
    CHECK_OK(dt_read_file(sim_source_path(file, full, sizeof full), &text, &length));
    cJSON *object = cJSON_Parse(text), *at = object;
    char copy[128], *rest = copy, *key = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    while ((key = strsep(&rest, ".")) != NULL && rest)
        at = cJSON_GetObjectItemCaseSensitive(at, key);
    cJSON_DeleteItemFromObjectCaseSensitive(at, key);
    if (*value)
        cJSON_AddItemToObject(at, key, cJSON_Parse(value));
    char *changed = cJSON_PrintUnformatted(object);
    dt_status status = dt_sim_cluster_parse(changed, strlen(changed), "f", &cluster);
    snprintf(wanted, sizeof wanted, "f: %s", expected);
    CHECK(status == DT_ERR_INVALID && strncmp(dt_error_message(), wanted, strlen(wanted)) == 0, "%s = %s: %s: %s", path, value,
          status_name(status), status < 0 ? dt_error_message() : "taken");
    cJSON_free(changed);
    cJSON_Delete(object);
    free(text);
}

static void test_rates_follow_from_the_label(void)
{
    struct dt_sim_cluster c;
    char full[1024];
    CHECK_OK(dt_sim_cluster_load(sim_source_path("configs/clusters/dgx_a100.json", full, sizeof full), &c));
    CHECK(c.nic.flow_gbit_per_s == 184 && c.nic.total_gbit_per_s == 184, "rdma: %g, %g", c.nic.flow_gbit_per_s, c.nic.total_gbit_per_s);
    CHECK_OK(dt_sim_cluster_set_network(&c, 400, -1));
    CHECK(c.nic.flow_gbit_per_s == 368 && c.nic.label_gbit_per_s == 400 && c.nic.latency_us == 0);
    struct dt_sim_nic_rates slow = dt_sim_nic_rates(DT_SIM_SOCKETS, 10), fast = dt_sim_nic_rates(DT_SIM_SOCKETS, 100);
    CHECK(slow.flow_gbit_per_s == slow.total_gbit_per_s && slow.flow_gbit_per_s > 9.4 && slow.flow_gbit_per_s < 9.5);
    CHECK(fast.flow_gbit_per_s == 20 && fast.total_gbit_per_s > 94 && fast.total_gbit_per_s < 94.2);
    /* Measured: as they are with the card of the file, and in proportion with others. */
    CHECK_OK(dt_sim_cluster_load(sim_source_path("configs/clusters/gcp_a2.json", full, sizeof full), &c));
    double flow = c.nic.flow_gbit_per_s, latency = c.nic.latency_us;
    CHECK_OK(dt_sim_cluster_set_network(&c, 0, -1));
    CHECK(c.nic.flow_gbit_per_s == flow && c.nic.total_gbit_per_s == 100 && c.nic.latency_us == latency);
    CHECK_OK(dt_sim_cluster_set_network(&c, 100, 5));
    CHECK(c.nic.flow_gbit_per_s == flow && c.nic.latency_us == 5);
    CHECK_OK(dt_sim_cluster_set_network(&c, 10, -1));
    CHECK(fabs(c.nic.flow_gbit_per_s - flow / 20 * slow.flow_gbit_per_s) < 1e-9 && fabs(c.nic.total_gbit_per_s - 10) < 1e-9);
    CHECK_OK(dt_sim_cluster_load(sim_source_path("configs/clusters/dgx_a100_1.json", full, sizeof full), &c));
    CHECK(dt_sim_cluster_set_network(&c, 100, -1) == DT_ERR_UNAVAILABLE);
}

static void test_impossible_clusters(void)
{
    check_refused("gcp_a2", "nodes", "0", "nodes: 0 is out of range");
    check_refused("gcp_a2", "nodes", "\"64\"", "nodes: ");
    check_refused("gcp_a2", "node", "64", "node: unknown key; did you mean \"nodes\"?");
    check_refused("gcp_a2", "gpu.memory_gib", "0", "gpu.memory_gib: 0 is out of range");
    check_refused("gcp_a2", "gpu.memory_gib", "", "gpu.memory_gib: missing; expected a number above 0 ");
    check_refused("gcp_a2", "gpu.architecture", "\"amperes\"", "gpu.architecture: \"amperes\" is not one of");
    check_refused("gcp_a2", "name", "", "name: missing; expected a string of 1 to 63 characters");
    check_refused("cpu_node", "collectives.measured", "1", "collectives.measured: expected a list of objects, not 1");
    check_refused("cpu_node", "collectives.measured", "[{\"kind\":\"alltoall\"}]",
                  "collectives.measured[0]: kind: \"alltoall\" is not one of all_reduce, ");
    check_refused("cpu_node", "collectives.measured", "[{\"kind\":\"message\",\"ranks\":1}]",
                  "collectives.measured[0]: ranks: 1 is out of range");
    check_refused("cpu_node", "collectives.measured", "[{\"size\":1}]", "collectives.measured[0]: size: unknown key");
    check_refused("cpu_node", "collectives.measured", "[{\"kind\":\"message\",\"ranks\":2}]",
                  "collectives.measured[0]: bytes: missing; expected a number");
    check_refused("gcp_a2", "collectives.measured", "[{\"kind\":\"message\",\"ranks\":2}]",
                  "collectives.measured[0]: bytes: missing; expected a number");
    check_refused("gcp_a2", "nic.source", "", "nic.source: missing; expected a string of 1 to 767 characters");
    check_refused("gcp_a2", "nic.source", "\"\"", "nic.source: ");
    check_refused("gcp_a2", "nic", "{}", "nic.count: must be above 0 where there are several nodes");
    check_refused("gcp_a2", "nic.count", "9", "nic.count: 9 is more than gpus_per_node, which is 8");
    check_refused("gcp_a2", "nic.flow_gbit_per_s", "101", "nic.flow_gbit_per_s: 101 is more than nic.total_gbit_per_s, which is 100");
    check_refused("gcp_a2", "nic.gain", "1.5", "nic.gain: 1.5 is out of range");
    check_refused("gcp_a2", "nic.more_nodes", "0", "nic.more_nodes: 0 is out of range");
    check_refused("gcp_a2", "nic.total_gbit_per_s", "200", "nic.total_gbit_per_s: 200 is more than nic.label_gbit_per_s, which is 100");
    check_refused("gcp_a2", "pcie.gpus_per_link", "3", "pcie.gpus_per_link: 3 does not divide gpus_per_node, which is 8");
    check_refused("gcp_a2", "pcie.gb_per_s", "0", "pcie.gb_per_s: must be above 0");
    check_refused("gcp_a2", "fabric.blocking_factor", "1001", "fabric.blocking_factor: 1001 is out of range");
    check_refused("gcp_a2", "fabric.blocking_factor", "0.5", "fabric.blocking_factor: 0.5 is out of range");
    check_refused("gcp_a2", "collectives.version", "\"2.9\"",
                  "collectives.version: the tables of NCCL 2.9 are not known; known are 2.10.3, 2.20.3, 2.27.3");
    check_refused("cpu_node", "collectives.library", "\"nccl\"", "collectives.library: nccl does not run on cpus");
    check_refused("cpu_node", "collectives.gb_per_s", "0", "collectives.gb_per_s: must be above 0 with mpi");
}

static void check_place(const struct dt_sim_cluster *cluster, int world, int per_node, int expected, const char *error)
{
    struct dt_sim_placement placement = {.world_size = world, .ranks_per_node = per_node};
    dt_status status = dt_sim_cluster_place(cluster, "f.json", &placement);
    if (!error)
        CHECK(status == DT_OK && placement.ranks_per_node == expected, "%d ranks: %d on a node", world, placement.ranks_per_node);
    else
        CHECK(status == DT_ERR_INVALID && strcmp(dt_error_message(), error) == 0, "%d ranks: %s", world, dt_error_message());
}

static void test_places_of_ranks(void)
{
    struct sim_case c;
    sim_case_load(&c, "dgx_a100");
    check_place(&c.cluster, 4, 0, 4, NULL);
    check_place(&c.cluster, 12, 0, 8, NULL);
    check_place(&c.cluster, 128, 0, 8, NULL);
    check_place(&c.cluster, 8, 2, 2, NULL);
    check_place(&c.cluster, 129, 0, 0, "world_size: 129 ranks, 8 on a node, need 17 nodes; nodes of f.json is 16");
    check_place(&c.cluster, 34, 2, 0, "world_size: 34 ranks, 2 on a node, need 17 nodes; nodes of f.json is 16");
    check_place(&c.cluster, 16, 9, 0, "ranks per node: 9, but gpus_per_node of f.json is 8");
}

static const struct test_case cases[] = {
    {"shipped clusters are read, and hold as many ranks as they say", test_shipped_files},
    {"rates of flows follow from the label where none are measured", test_rates_follow_from_the_label},
    {"impossible clusters are refused with the JSON path", test_impossible_clusters},
    {"ranks are placed, or refused", test_places_of_ranks},
};

TEST_MAIN(cases)
