#include "schedules/run/doubts.h"
#include "test/check.h"

struct example {
    const char *what;
    struct processor_use ranks[4];
    const char *doubts;
};

static void processors(void)
{
    /* host, threads, processors, watched, seconds, own_s, busy_s */
    static const struct example examples[] = {
        {"alone", {{0, 2, 4, 4, 10, 19, 39}, {0, 2, 4, 4, 10, 19, 39}}, ""},
        {"too many threads", {{0, 2, 3, 3, 10, 14, 29}, {0, 2, 3, 3, 10, 14, 29}}, "4 threads on 3 processors"},
        {"on one", {{0, 1, 1, 1, 10, 5, 10}, {0, 1, 1, 1, 10, 5, 10}}, "2 threads on 1 processor"},
        {"other work", {{0, 2, 4, 4, 10, 15, 40}, {0, 2, 4, 4, 10, 15, 40}}, "other work took 1.0 of 4 processors"},
        {"less than a tenth of it", {{0, 2, 4, 4, 10, 18.2, 40}, {0, 2, 4, 4, 10, 18.2, 40}}, ""},
        {"on processors that are left idle", {{0, 1, 4, 4, 10, 10, 40}, {0, 1, 4, 4, 10, 10, 30}}, ""},
        {"and on one that is not", {{0, 1, 4, 4, 10, 10, 40}, {0, 1, 4, 4, 10, 5, 40}}, "other work took 2.5 of 4 processors"},
        {"a container's quota", {{0, 2, 2, 8, 10, 20, 80}}, ""},
        {"more than it leaves", {{0, 3, 2, 8, 10, 20, 80}}, "3 threads on 2 processors; other work took 6.0 of 8 processors"},
        {"within a few ticks", {{0, 1, 1, 1, 0.1, 0.05, 0.1}}, ""},
        {"unknown", {{0, 1, 1, 1, 10, 5, NAN}}, ""},
        {"idle, says the file", {{0, 1, 1, 1, 10, 9, 0}}, ""},
        {"two machines",
         {{0, 1, 1, 1, 10, 10, 10}, {1, 2, 1, 1, 10, 10, 10}, {0, 1, 1, 1, 10, 0, 10}, {1, 0, 1, 1, 10, 0, 10}},
         "rank 0's machine: 2 threads on 1 processor; rank 1's machine: 2 threads on 1 processor"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char text[200] = "";
        int count = 0;
        while (count < 4 && examples[i].ranks[count].seconds > 0)
            count++;
        doubts_of_processors(examples[i].ranks, count, text, sizeof text);
        CHECK(strcmp(text, examples[i].doubts) == 0, "%s: \"%s\"", examples[i].what, text);
    }
}

static void steps(void)
{
    static const double even[] = {1, 1.1, 0.9, 1}, uneven[] = {1, 1, 1, 2};
    char text[100] = "before";
    doubts_of_steps(even, 4, text, sizeof text);
    doubts_of_steps(uneven + 2, 2, text, sizeof text);
    CHECK(strcmp(text, "before") == 0, "%s", text);
    doubts_of_steps(uneven, 4, text, sizeof text);
    CHECK(strcmp(text, "before; the 4 timed steps differ by 40 % (cv)") == 0, "%s", text);
    char little[12] = "before";
    doubts_of_steps(uneven, 4, little, sizeof little);
    CHECK(strcmp(little, "before; the") == 0, "%s", little);
}

static const struct test_case cases[] = {{"processors that are shared", processors}, {"steps that differ", steps}};
TEST_MAIN(cases)
