/* Max-min fair sharing against cases worked out by hand. */
#include "lib/sim/network.h"
#include "test/check.h"

static struct dt_sim_network *network_of(const double *capacities, int count)
{
    struct dt_sim_network *n = NULL;
    uint32_t link;
    CHECK_OK(dt_sim_network_create(&n));
    for (int i = 0; i < count; i++)
        CHECK_OK(dt_sim_network_add_link(n, capacities[i], &link));
    return n;
}

static void start(struct dt_sim_network *n, double now, double bytes, double cap, double share, const struct dt_sim_use *uses,
                  uint32_t count, uint32_t tag)
{
    struct dt_sim_flow flow = {.bytes = bytes, .rate_cap = cap, .share = share, .uses = uses, .use_count = count};
    CHECK_OK(dt_sim_network_start(n, now, &flow, tag));
}

static void check_rate(struct dt_sim_network *n, uint32_t tag, double expected)
{
    double rate = dt_sim_network_rate(n, tag);
    CHECK(fabs(rate - expected) <= 1e-9 * expected, "flow %u: rate %.15g, not %.15g", tag, rate, expected);
}

static void check_end(struct dt_sim_network *n, double expected_s, uint32_t expected_tag)
{
    double next = 0;
    CHECK_OK(dt_sim_network_next(n, &next));
    CHECK(fabs(next - expected_s) <= 1e-9 * expected_s, "the next flow ends at %.15g, not %.15g", next, expected_s);
    uint32_t tag = dt_sim_network_take(n, next);
    CHECK(tag == expected_tag, "flow %u ends, not %u", tag, expected_tag);
}

/* The parking lot: one flow over links of 10, 4 and 6, one flow beside it on each. */
static void test_parking_lot(void)
{
    struct dt_sim_network *n = network_of((double[]){10, 4, 6}, 3);
    struct dt_sim_use all[] = {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}};
    start(n, 0, 20, INFINITY, 1, all, 3, 0);
    check_rate(n, 0, 4);
    for (uint32_t i = 0; i < 3; i++)
        start(n, 0, 100, INFINITY, 1, &all[i], 1, i + 1);
    check_rate(n, 0, 2);
    check_rate(n, 1, 8);
    check_rate(n, 2, 2);
    check_rate(n, 3, 4);
    check_end(n, 10, 0);
    check_rate(n, 1, 10); /* the rest grows into what it left */
    check_rate(n, 2, 4);
    check_rate(n, 3, 6);
    check_end(n, 10 + 20 / 10.0, 1);
    check_end(n, 10 + 60 / 6.0, 3);
    check_end(n, 10 + 80 / 4.0, 2);
    dt_sim_network_destroy(n);
}

static void test_caps_and_shares(void)
{
    struct dt_sim_network *n = network_of((double[]){12}, 1);
    struct dt_sim_use use = {0, 1, 0};
    start(n, 0, 100, 2, 1, &use, 1, 0); /* its cap leaves 10 for the others, one part to four */
    start(n, 0, 100, INFINITY, 1, &use, 1, 1);
    start(n, 0, 100, INFINITY, 4, &use, 1, 2);
    check_rate(n, 0, 2);
    check_rate(n, 1, 2);
    check_rate(n, 2, 8);
    dt_sim_network_destroy(n);
}

/* A flow that puts half of its bytes on a link takes half of its rate there. */
static void test_weights(void)
{
    struct dt_sim_network *n = network_of((double[]){6, 100}, 2);
    struct dt_sim_use half[] = {{0, 0.5, 0}, {1, 1, 0}}, whole = {0, 1, 0};
    start(n, 0, 100, INFINITY, 1, half, 2, 0);
    check_rate(n, 0, 12);
    start(n, 0, 100, INFINITY, 1, &whole, 1, 1);
    check_rate(n, 0, 4);
    check_rate(n, 1, 4);
    dt_sim_network_destroy(n);
}

/* The rate that a flow leaves to others, because it has its own limit, is computed with its
 * weight. */
static void test_weights_of_flows_that_stop(void)
{
    struct dt_sim_network *n = network_of((double[]){7}, 1);
    struct dt_sim_use half = {0, 0.5, 0}, whole = {0, 1, 0};
    start(n, 0, 100, 2, 1, &half, 1, 0); /* takes 1 of the 7 */
    start(n, 0, 100, INFINITY, 1, &whole, 1, 1);
    start(n, 0, 100, INFINITY, 1, &whole, 1, 2);
    check_rate(n, 0, 2);
    check_rate(n, 1, 3);
    check_rate(n, 2, 3);
    dt_sim_network_destroy(n);
}

/* Claim C4 of the study: alone a ring takes 17 ms; two at once take 25 ms each. */
static void test_one_ring_does_not_fill_a_nic(void)
{
    double alone = 1 / 0.017, together = 2 / 0.025;
    struct dt_sim_network *n = network_of((double[]){together}, 1);
    struct dt_sim_use use = {0, 1, 0};
    start(n, 0, 1, alone, 1, &use, 1, 0);
    check_end(n, 0.017, 0);
    start(n, 1, 1, alone, 1, &use, 1, 1);
    start(n, 1, 1, alone, 1, &use, 1, 2);
    check_end(n, 1.025, 1);
    check_end(n, 1.025, 2);
    dt_sim_network_destroy(n);
}

/* A flow that stands for three gets a quarter of the link beside one of its own, and a link with a
 * gain counts all of them. */
static void test_a_flow_that_stands_for_others(void)
{
    struct dt_sim_network *n = network_of((double[]){8, 8}, 2);
    struct dt_sim_use three = {0, 1, 2}, one = {0, 1, 0}, four = {1, 1, 3};
    start(n, 0, 12, INFINITY, 1, &three, 1, 0);
    check_rate(n, 0, 8 / 3.0);
    start(n, 0, 100, INFINITY, 1, &one, 1, 1);
    check_rate(n, 0, 2);
    check_rate(n, 1, 2);
    check_end(n, 6, 0);
    check_rate(n, 1, 8);
    CHECK_OK(dt_sim_network_set_gain(n, 1, 3, 0.5));
    start(n, 6, 6, INFINITY, 1, &four, 1, 2);
    check_rate(n, 2, 6 / 4.0);
    dt_sim_network_destroy(n);
}

static void test_flows_that_never_end_are_refused(void)
{
    struct dt_sim_network *n = network_of((double[]){1}, 1);
    struct dt_sim_use use = {0, 1, 0};
    uint32_t link;
    double next;
    struct dt_sim_flow wrong[] = {{.bytes = 0, .rate_cap = 1, .share = 1},
                                  {.bytes = 1, .rate_cap = INFINITY, .share = 1},
                                  {.bytes = 1, .rate_cap = 0, .share = 1, .uses = &use, .use_count = 1},
                                  {.bytes = NAN, .rate_cap = 1, .share = 1},
                                  {.bytes = 1, .rate_cap = 1, .share = 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(dt_sim_network_start(n, 0, &wrong[i], 0) == DT_ERR_INVALID, "flow %zu", i);
    CHECK(dt_sim_network_add_link(n, 0, &link) == DT_ERR_INVALID, "a link without capacity");
    CHECK(dt_sim_network_add_link(n, INFINITY, &link) == DT_ERR_INVALID, "a link without limit");
    CHECK_OK(dt_sim_network_add_link(n, 10, &link));
    static const double gains[][3] = {{5, 0, 1}, {10, 1, 1}, {0, 0.5, 0}, {11, 0.5, 0}, {5, -0.1, 0}, {5, 1.1, 0}, {NAN, 0.5, 0}};
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++)
        CHECK((dt_sim_network_set_gain(n, link, gains[i][0], gains[i][1]) == DT_OK) == (gains[i][2] > 0), "gain %zu", i);
    CHECK(dt_sim_network_set_gain(n, link + 1, 5, 0.5) == DT_ERR_INVALID, "no link");
    CHECK_OK(dt_sim_network_next(n, &next));
    CHECK(isinf(next) && dt_sim_network_take(n, 1e9) == UINT32_MAX, "an empty network has an end at %g", next);
    dt_sim_network_destroy(n);
}

static const struct test_case cases[] = {
    {"one long flow and three short ones", test_parking_lot},
    {"caps and shares", test_caps_and_shares},
    {"weights on links", test_weights},
    {"weights of flows that stop early", test_weights_of_flows_that_stop},
    {"one ring does not fill a NIC, two do", test_one_ring_does_not_fill_a_nic},
    {"a flow that stands for others", test_a_flow_that_stands_for_others},
    {"flows that never end are refused", test_flows_that_never_end_are_refused},
};

TEST_MAIN(cases)
