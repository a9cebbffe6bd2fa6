/* Completion times of random traffic, held against SimGrid's plain CM02 model: no cross traffic, no
 * factors, no latency, so that it is max-min fairness and nothing else. Each round is a process of
 * its own, since SimGrid starts only once in one. */
#include "lib/sim/network.h"
#include "test/check.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOWS = 150, LINKS = 24, MAX_USES = 5 };

struct traffic_flow {
    double start_s, bytes, cap; /* cap: bytes/s, of a link that only this flow has */
    int links[MAX_USES], link_count;
};

struct traffic {
    double capacity[LINKS];
    struct traffic_flow flows[FLOWS];
};

static double finished_s[FLOWS]; /* what SimGrid's actors write: they get no context */
static const struct traffic *current;

static double between(double low, double high)
{
    return low + (high - low) * (rand() / (RAND_MAX + 1.0));
}

/* Links of very different speeds; flows over one to five of them, some capped, starting over a time
 * in which many overlap. */
static void make_traffic(struct traffic *t, unsigned seed)
{
    srand(seed);
    for (int l = 0; l < LINKS; l++)
        t->capacity[l] = floor(between(1e8, 2e9));
    for (int f = 0; f < FLOWS; f++) {
        struct traffic_flow *flow = &t->flows[f];
        bool taken[LINKS] = {false};
        flow->start_s = f % 3 ? between(0, 4) : floor(between(0, 4)); /* a third begin at the same moments */
        flow->bytes = floor(between(1e6, 1e9));
        flow->cap = rand() % 3 ? 1e10 : floor(between(1e7, 3e8));
        flow->link_count = 0;
        for (int wanted = 1 + rand() % MAX_USES; flow->link_count < wanted;) {
            int link = rand() % LINKS;
            if (!taken[link])
                flow->links[flow->link_count++] = link;
            taken[link] = true;
        }
    }
}

/* ---- by SimGrid ---- */

static void sender(int argc, char **argv)
{
    int f = atoi(argv[1]);
    sg_actor_sleep_for(current->flows[f].start_s);
    sg_mailbox_put(sg_mailbox_by_name(argv[1]), &finished_s[f], (long)current->flows[f].bytes);
}

static void receiver(int argc, char **argv)
{
    double *finished = sg_mailbox_get(sg_mailbox_by_name(argv[1]));
    *finished = simgrid_get_clock();
}

static void write_platform(const struct traffic *t, FILE *to)
{
    fprintf(to, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
                "<zone id=\"all\" routing=\"Full\">\n");
    for (int f = 0; f < FLOWS; f++)
        fprintf(to, "<host id=\"from%d\" speed=\"1Gf\"/><host id=\"to%d\" speed=\"1Gf\"/>\n", f, f);
    for (int l = 0; l < LINKS; l++)
        fprintf(to, "<link id=\"l%d\" bandwidth=\"%.0fBps\" latency=\"0s\"/>\n", l, t->capacity[l]);
    for (int f = 0; f < FLOWS; f++)
        fprintf(to, "<link id=\"cap%d\" bandwidth=\"%.0fBps\" latency=\"0s\"/>\n", f, t->flows[f].cap);
    for (int f = 0; f < FLOWS; f++) {
        fprintf(to, "<route src=\"from%d\" dst=\"to%d\" symmetrical=\"NO\"><link_ctn id=\"cap%d\"/>", f, f, f);
        for (int u = 0; u < t->flows[f].link_count; u++)
            fprintf(to, "<link_ctn id=\"l%d\"/>", t->flows[f].links[u]);
        fprintf(to, "</route>\n");
    }
    fprintf(to, "</zone>\n</platform>\n");
}

static void run_simgrid(const struct traffic *t, const char *platform)
{
    char *argv[] = {"oracle",
                    "--cfg=network/model:CM02",
                    "--cfg=network/crosstraffic:0",
                    "--cfg=network/TCP-gamma:0",
                    "--cfg=network/weight-S:0",
                    "--cfg=network/bandwidth-factor:1",
                    "--cfg=network/latency-factor:1",
                    "--cfg=maxmin/precision:1e-9",
                    "--cfg=contexts/factory:thread",
                    "--log=root.thres:error",
                    NULL};
    int argc = sizeof argv / sizeof *argv - 1;
    current = t;
    simgrid_init(&argc, argv);
    simgrid_load_platform(platform);
    for (int f = 0; f < FLOWS; f++) {
        char number[16], host[32];
        const char *arguments[] = {"flow", number, NULL};
        snprintf(number, sizeof number, "%d", f);
        snprintf(host, sizeof host, "from%d", f);
        sg_actor_start_(sg_actor_init("sender", sg_host_by_name(host)), sender, 2, arguments);
        snprintf(host, sizeof host, "to%d", f);
        sg_actor_start_(sg_actor_init("receiver", sg_host_by_name(host)), receiver, 2, arguments);
    }
    simgrid_run();
}

/* In a child; its times come back over a pipe. */
static void ask_simgrid(const struct traffic *t, double *times)
{
    int ends[2];
    char platform[] = "/tmp/dtbench_platform_XXXXXX.xml";
    int file = mkstemps(platform, 4);
    FILE *to = fdopen(file, "w");
    write_platform(t, to);
    fclose(to);
    CHECK(pipe(ends) == 0, "no pipe");
    fflush(stdout); /* what is buffered must not be printed by both */
    pid_t child = fork();
    if (child == 0) {
        run_simgrid(t, platform);
        _exit(write(ends[1], finished_s, sizeof finished_s) != sizeof finished_s);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t more; got < sizeof finished_s && (more = read(ends[0], (char *)times + got, sizeof finished_s - got)) > 0;)
        got += (size_t)more;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    unlink(platform);
    CHECK(got == sizeof finished_s && status == 0, "SimGrid ended with %d after %zu bytes", status, got);
}

/* ---- by our network ---- */

static void ask_network(const struct traffic *t, double *times)
{
    struct dt_sim_network *n = NULL;
    struct dt_sim_use uses[FLOWS][MAX_USES];
    bool begun[FLOWS] = {false};
    uint32_t link;
    CHECK_OK(dt_sim_network_create(&n));
    for (int l = 0; l < LINKS; l++)
        CHECK_OK(dt_sim_network_add_link(n, t->capacity[l], &link));
    for (int left = FLOWS; left > 0;) {
        double end, begin = INFINITY;
        int first = -1;
        for (int f = 0; f < FLOWS; f++)
            if (!begun[f] && t->flows[f].start_s < begin)
                begin = t->flows[first = f].start_s;
        CHECK_OK(dt_sim_network_next(n, &end));
        if (begin > end) {
            for (uint32_t tag; (tag = dt_sim_network_take(n, end)) != UINT32_MAX; left--)
                times[tag] = end;
            continue;
        }
        const struct traffic_flow *f = &t->flows[first];
        for (int u = 0; u < f->link_count; u++)
            uses[first][u] = (struct dt_sim_use){(uint32_t)f->links[u], 1, 0};
        struct dt_sim_flow flow = {
            .bytes = f->bytes, .rate_cap = f->cap, .share = 1, .uses = uses[first], .use_count = (uint32_t)f->link_count};
        CHECK_OK(dt_sim_network_start(n, begin, &flow, (uint32_t)first));
        begun[first] = true;
    }
    dt_sim_network_destroy(n);
}

static void test_random_traffic(void)
{
    for (unsigned seed = 1; seed <= 5; seed++) {
        struct traffic t;
        double theirs[FLOWS], ours[FLOWS], worst = 0, alone = 0;
        make_traffic(&t, seed);
        ask_simgrid(&t, theirs);
        ask_network(&t, ours);
        for (int f = 0; f < FLOWS; f++) {
            double took = theirs[f] - t.flows[f].start_s, rate = t.flows[f].cap;
            for (int u = 0; u < t.flows[f].link_count; u++)
                rate = fmin(rate, t.capacity[t.flows[f].links[u]]);
            worst = fmax(worst, fabs(ours[f] - theirs[f]) / took);
            alone += took > 1.5 * t.flows[f].bytes / rate;
        }
        CHECK(worst < 1e-6, "seed %u: a flow's time differs by %.2g", seed, worst);
        CHECK(alone > FLOWS / 2, "seed %u: only %g flows were held up by others: no test of sharing", seed, alone);
        printf("# seed %u: largest difference %.2g, %g of %d flows shared\n", seed, worst, alone, FLOWS);
    }
}

static const struct test_case cases[] = {{"completion times of random traffic are SimGrid's", test_random_traffic}};

TEST_MAIN(cases)
