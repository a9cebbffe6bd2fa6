#include "cli/run/run.h"
#include "test/check.h"

#include "schedules/config/parse.h"

#include <stdlib.h>
#include <time.h>

enum { SEEDS = 5000, WORLDS = 4, ALL = SEEDS * WORLDS };

static struct experiment_list *parse(void)
{
    struct experiment_list *experiments = NULL;
    char *text = malloc(SEEDS * 8 + 512);
    if (!text)
        return NULL;
    size_t used =
        (size_t)sprintf(text, "{\"device\": \"sim\", \"model\": {\"layers\": 2, \"heads\": 2, \"hidden\": 32, \"vocab_size\": 100, "
                              "\"block_size\": 16}, \"paradigm\": \"ddp\", \"sweep\": {\"world_size\": [1, 2, 4, 8], \"seed\": [0");
    for (int i = 1; i < SEEDS; i++)
        used += (size_t)sprintf(text + used, ",%d", i);
    strcpy(text + used, "]}}");
    CHECK_OK(experiments_parse_list(text, strlen(text), "test", NULL, 0, &experiments));
    free(text);
    return experiments;
}

static void fill(struct sweep *s)
{
    experiment_columns_find(s->experiments->all, s->experiments->count, &s->columns);
    CHECK_OK(scaling_find(s->experiments, s->fewest_ranks));
    for (int i = 0; i < ALL; i++) {
        s->outcomes[i].run = true;
        dt_metrics_init(&s->outcomes[i].metrics);
        s->outcomes[i].metrics.units_per_s = 1000 * (i / SEEDS + 1);
        char line[256];
        snprintf(line, sizeof line,
                 "{\"config\":{\"world_size\":%d,\"seed\":%d},\"config_hash\":\"%016x\",\"status\":\"ok\",\"sweep\":{\"index\":%d},"
                 "\"metrics\":{\"tokens_per_s\":%d,\"scaling_efficiency\":null}}",
                 1 << i / SEEDS, i % SEEDS, (unsigned)i, i, 1000 * (i / SEEDS + 1));
        CHECK_OK(results_add(s->results, line, &s->outcomes[i].row));
    }
}

/* A quadratic algorithm would take hours. */
static void many_results(void)
{
    static const double most_s = 10; /* processor time, with sanitizers on a slow machine; usually it takes a hundredth */
    struct experiment_list *e = parse();
    struct sweep s = {.experiments = e, .distinct = ALL, .count = ALL};
    FILE *to = fopen("/dev/null", "w");
    s.outcomes = calloc(ALL, sizeof *s.outcomes);
    s.fewest_ranks = malloc(ALL * sizeof *s.fewest_ranks);
    CHECK_OK(results_create(show_wish, summary_options(), &s.results));
    if (e && e->count == ALL && to && s.outcomes && s.fewest_ranks) {
        clock_t begun = clock();
        fill(&s);
        CHECK_OK(summary_print(&s, to));
        double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
        CHECK(took_s < most_s, "%d results took %g s", ALL, took_s);
        int row = s.outcomes[ALL - 1].row, column = results_find(s.results, "scaling_efficiency");
        double efficiency =
            row >= 0 && column >= 0 ? results_number(s.results, row, column) : 0; /* four times the tokens of a rank alone on 8 ranks */
        CHECK(efficiency == 0.5, "the scaling is %g", efficiency);
    } else {
        CHECK(false, "no sweep");
    }
    if (to)
        fclose(to);
    results_destroy(s.results);
    free(s.outcomes);
    free(s.fewest_ranks);
    experiment_list_destroy(e);
}

static const struct test_case cases[] = {
    {"20,000 results", many_results},
};
TEST_MAIN(cases)
