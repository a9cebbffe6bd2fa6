/* Facts from NVML, from a library with the test's answers (fake_nvml.c), and the doubts that
 * follow. */
#include "lib/device/cuda/internal.h"
#include "lib/record/record.h"
#include "test/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct dt_nvml *open_fake(const char *reasons, const char *processes)
{
    setenv("FAKE_NVML_REASONS", reasons, 1);
    setenv("FAKE_NVML_PROCESSES", processes, 1);
    return dt_nvml_open("0000:3B:00.0");
}

static void read_twice(struct dt_nvml *nvml, struct dt_device_condition *before, struct dt_device_condition *after)
{
    dt_condition_init(before);
    dt_condition_init(after);
    dt_nvml_read(nvml, before);
    dt_nvml_read(nvml, after);
}

static void what_it_says(void)
{
    struct dt_device_condition before, c;
    struct dt_nvml *nvml = open_fake("0x24", "3");
    CHECK(nvml);
    if (!nvml)
        return;
    read_twice(nvml, &before, &c);
    CHECK(c.known && c.clock_mhz == 1380 && c.clock_limit_mhz == 1980 && c.memory_clock_mhz == 2619, "%g %g %g", c.clock_mhz,
          c.clock_limit_mhz, c.memory_clock_mhz);
    CHECK(c.temperature_c == 61 && c.power_w == 350.5 && c.energy_j - before.energy_j == 2, "%g %g %g", c.temperature_c, c.power_w,
          c.energy_j);
    CHECK(isnan(c.power_limit_w) && c.mig == -1, "what it does not know: %g W, MIG %d", c.power_limit_w, c.mig);
    CHECK(c.heat_slow_s - before.heat_slow_s == 0.25 && c.power_slow_s == 0, "%g %g", c.heat_slow_s, c.power_slow_s);
    for (int i = 0; i < DT_SLOWDOWN_COUNT; i++)
        CHECK(c.slowdown_known && c.slowdown[i] == (i == DT_SLOWDOWN_POWER_CAP || i == DT_SLOWDOWN_HEAT), "%s", dt_slowdown_name(i));
    CHECK(c.ecc == 1 && c.persistence == 0 && c.processes == 3, "%d %d %d", c.ecc, c.persistence, c.processes);
    dt_nvml_close(nvml);
}

static void nobody_knows(void)
{
    CHECK(!dt_nvml_open("no such GPU"));
    char *library = getenv("DTBENCH_LIBNVML");
    char *kept = library ? strdup(library) : NULL;
    setenv("DTBENCH_LIBNVML", "libdtbench_no_such.so", 1);
    CHECK(!dt_nvml_open("0000:3B:00.0"));
    if (kept)
        setenv("DTBENCH_LIBNVML", kept, 1);
    free(kept);
    struct dt_nvml *nvml = open_fake("0", "0"); /* a container that sees no processes */
    struct dt_device_condition c;
    dt_condition_init(&c);
    dt_nvml_read(nvml, &c);
    CHECK(c.processes == -1, "%d", c.processes);
    dt_nvml_close(nvml);
}

static void doubts_of(const char *reasons, const char *processes, int own, const char *expected)
{
    struct dt_device_condition before, after;
    struct dt_nvml *nvml = open_fake(reasons, processes);
    char text[160];
    read_twice(nvml, &before, &after);
    dt_condition_doubts(&before, &after, own, text, sizeof text);
    CHECK(strcmp(text, expected) == 0, "reasons %s, %s processes: \"%s\"", reasons, processes, text);
    dt_nvml_close(nvml);
}

static void doubts(void)
{
    doubts_of("0", "1", 1, "");
    doubts_of("0x5", "2", 2, ""); /* idle, and a power cap; two ranks that share it */
    doubts_of("0x28", "1", 1, "clocks held down by heat for 0.2 s");
    doubts_of("0x88", "1", 1, "clocks held down by the power supply");
    doubts_of("0x8", "1", 1, "clocks held down by the hardware");
    doubts_of("0x2", "3", 1, "clocks set to 1380 of 1980 MHz, 2 other processes on it");
    doubts_of("0", "2", 1, "1 other process on it");
}

static void heat_without_its_duration(void)
{
    struct dt_device_condition before, after;
    struct dt_nvml *nvml = open_fake("0x40", "1");
    char text[160], little[12];
    read_twice(nvml, &before, &after);
    after.heat_slow_s = NAN;
    dt_condition_doubts(&before, &after, 1, text, sizeof text);
    CHECK(strcmp(text, "clocks held down by heat") == 0, "%s", text);
    dt_condition_doubts(&before, &after, 1, little, sizeof little);
    CHECK(strcmp(little, "clocks held") == 0, "%s", little);
    dt_nvml_close(nvml);
}

static void in_a_record(void)
{
    struct dt_condition_pair pairs[2];
    char *text;
    struct dt_nvml *nvml = open_fake("0x20", "1");
    read_twice(nvml, &pairs[0].before, &pairs[0].after);
    dt_nvml_close(nvml);
    dt_condition_init(&pairs[1].before);
    dt_condition_init(&pairs[1].after);
    CHECK_OK(dt_conditions_write(pairs, sizeof pairs[0], 2, &text));
    CHECK(strcmp(text, "[{\"clock_mhz\":[1380,1380],\"clock_limit_mhz\":1980,\"memory_clock_mhz\":[2619,2619],\"temperature_c\":[61,61],"
                       "\"power_w\":[350.5,350.5],\"power_limit_w\":null,\"energy_j\":2,\"slowed_by\":[\"heat\"],\"power_slow_s\":0,"
                       "\"heat_slow_s\":0.25,\"ecc\":true,\"mig\":null,\"persistence\":false,\"processes\":1},null]") == 0,
          "%s", text);
    free(text);
}

static const struct test_case cases[] = {
    {"what a GPU says of itself", what_it_says},   {"a GPU that nobody knows, and no library", nobody_knows},
    {"what speaks against a measurement", doubts}, {"heat, but not for how long", heat_without_its_duration},
    {"a condition in a record", in_a_record},
};
TEST_MAIN(cases)
