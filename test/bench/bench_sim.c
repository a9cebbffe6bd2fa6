/* How many activities the simulation gets through in a second, on one core. Usage: bench_sim
 * [CASE...]; without: all. An activity is an operation of one rank: a kernel (consecutive ones
 * count as one where they are coalesced), a wait, a record, a message, a collective. */
#include "lib/base/clock.h"
#include "lib/sim/engine_parts.h"
#include "test/lib/sim/sim_workloads.h"

#include <sys/resource.h>

static void report(const char *name, double activities, double cpu_s, double virtual_s)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%-28s %12.0f activities %8.3f s %12.0f /s %8.1f MiB peak %12.6f virtual s\n", name, activities, cpu_s, activities / cpu_s,
           (double)usage.ru_maxrss / 1024, virtual_s);
}

static void run(const char *name, struct sim_case *c, double start)
{
    CHECK_OK(dt_sim_engine_run(c->engine));
    report(name, (double)c->engine->operations, dt_processor_clock_s() - start, dt_sim_engine_end_s(c->engine, -1));
    sim_case_finish(c);
}

/* GPT1T: 128 blocks of 12 d^2 parameters, d = 25600, in fp16. */
static void bench_fsdp(const char *name, int nodes, bool coalesce)
{
    struct sim_case c;
    double start = dt_processor_clock_s();
    struct dt_sim_program *p = sim_fsdp_program(128, 40, 2 * 12 * 25600.0 * 25600.0, 0.5, coalesce);
    sim_case_load(&c, "gcp_a2");
    c.cluster.nodes = nodes;
    sim_case_start(&c, 8 * nodes, 0);
    sim_case_fsdp(&c, p);
    run(name, &c, start);
    dt_sim_program_destroy(p);
}

static void bench_pipelines(const char *name, int nodes, int chunks)
{
    struct sim_case c;
    struct dt_sim_program *programs[8];
    double start = dt_processor_clock_s();
    for (int s = 0; s < 8; s++)
        programs[s] = sim_pipeline_program(s, 8, chunks, 40, 20e6, 25 << 20, 0.01);
    sim_case_load(&c, "gcp_a2");
    c.cluster.nodes = nodes;
    sim_case_start(&c, 8 * nodes, 0);
    sim_case_pipelines(&c, programs, 8);
    run(name, &c, start);
    for (int s = 0; s < 8; s++)
        dt_sim_program_destroy(programs[s]);
}

/* Flows between random pairs of 64 hosts over two links each, 64 at a time: the network alone,
 * where each flow is in its own connected component. */
static void bench_flows(const char *name)
{
    enum { HOSTS = 64, AT_ONCE = 64, FLOWS = 200000 };
    struct dt_sim_network *n = NULL;
    static struct dt_sim_use uses[AT_ONCE][2];
    double start = dt_processor_clock_s(), now = 0;
    uint32_t link;
    CHECK_OK(dt_sim_network_create(&n));
    for (int i = 0; i < 2 * HOSTS; i++)
        CHECK_OK(dt_sim_network_add_link(n, 1e9, &link));
    srand(1);
    for (int done = -AT_ONCE; done < FLOWS; done++) {
        uint32_t tag = (uint32_t)(done + AT_ONCE);
        if (done >= 0) {
            CHECK_OK(dt_sim_network_next(n, &now));
            tag = dt_sim_network_take(n, now);
        }
        uses[tag][0] = (struct dt_sim_use){(uint32_t)(rand() % HOSTS), 1, 0};
        uses[tag][1] = (struct dt_sim_use){(uint32_t)(HOSTS + rand() % HOSTS), 1, 0};
        struct dt_sim_flow flow = {.bytes = 1 + rand() % 1000000, .rate_cap = INFINITY, .share = 1, .uses = uses[tag], .use_count = 2};
        CHECK_OK(dt_sim_network_start(n, now, &flow, tag));
    }
    report(name, FLOWS, dt_processor_clock_s() - start, now);
    dt_sim_network_destroy(n);
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    if (wanted("fsdp_512", argc, argv))
        bench_fsdp("fsdp_512", 64, true);
    if (wanted("fsdp_512_kernels", argc, argv))
        bench_fsdp("fsdp_512_kernels", 64, false);
    if (wanted("fsdp_4096", argc, argv))
        bench_fsdp("fsdp_4096", 512, true);
    if (wanted("pipelines_512", argc, argv))
        bench_pipelines("pipelines_512", 64, 32);
    if (wanted("pipelines_4096", argc, argv))
        bench_pipelines("pipelines_4096", 512, 32);
    if (wanted("flows", argc, argv))
        bench_flows("flows");
    return test_failures != 0;
}
