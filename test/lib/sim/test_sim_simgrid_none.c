/* In place of test_sim_simgrid.c where SimGrid is not installed. */
#include "test/check.h"

static void test_random_traffic(void)
{
    SKIP("needs libsimgrid-dev (scripts/setup --tests)");
}

static const struct test_case cases[] = {{"completion times of random traffic are SimGrid's", test_random_traffic}};

TEST_MAIN(cases)
