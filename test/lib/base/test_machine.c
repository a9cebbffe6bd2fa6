#include "lib/base/machine.h"
#include "test/check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];
static const char *const directories[] = {"", "/memory", "/memory/job", "/memory/job/step", "/cpu", "/cpu/box"};
static const char *const files[] = {"/memory.max",
                                    "/cpu.max",
                                    "/memory/memory.limit_in_bytes",
                                    "/memory/job/memory.limit_in_bytes",
                                    "/memory/job/step/memory.limit_in_bytes",
                                    "/cpu/box/cpu.cfs_quota_us",
                                    "/cpu/box/cpu.cfs_period_us",
                                    "/membership",
                                    "/stat"};

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    return path;
}

static void make_root(void)
{
    snprintf(root, sizeof root, "/tmp/dtbench-test-machine-XXXXXX");
    CHECK(mkdtemp(root));
    for (size_t i = 1; i < sizeof directories / sizeof directories[0]; i++)
        CHECK(mkdir(path_of(directories[i]), 0700) == 0);
}

static void remove_root(void)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(path_of(files[i]));
    for (size_t i = sizeof directories / sizeof directories[0]; i-- > 0;)
        CHECK(rmdir(path_of(directories[i])) == 0, "%s", path_of(directories[i]));
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    CHECK(file);
    if (!file)
        return;
    fputs(text, file);
    fclose(file);
}

static struct dt_group_limits limits_of(const char *membership)
{
    struct dt_group_limits limits;
    char path[256];
    write_file("/membership", membership);
    snprintf(path, sizeof path, "%s", path_of("/membership"));
    dt_machine_group_limits(path, root, &limits);
    return limits;
}

static void second_version(void)
{
    make_root();
    write_file("/memory.max", "1073741824\n");
    write_file("/cpu.max", "150000 100000\n");
    struct dt_group_limits limits = limits_of("0::/not/visible/here\n");
    CHECK(limits.memory_bytes == 1 << 30 && limits.processors == 2, "one and a half are two");
    write_file("/memory.max", "max\n");
    write_file("/cpu.max", "max 100000\n");
    limits = limits_of("0::/\n");
    CHECK(limits.memory_bytes == UINT64_MAX && limits.processors == UINT64_MAX);
    remove_root();
}

static void first_version(void)
{
    make_root();
    write_file("/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("/memory/job/memory.limit_in_bytes", "5000000\n");
    write_file("/memory/job/step/memory.limit_in_bytes", "7000000\n");
    write_file("/cpu/box/cpu.cfs_quota_us", "400000\n");
    write_file("/cpu/box/cpu.cfs_period_us", "100000\n");
    struct dt_group_limits limits = limits_of("4:memory:/job/step\n3:cpu,cpuacct:/box\n1:name=systemd:/\n0::/\n");
    CHECK(limits.memory_bytes == 5000000, "an ancestor's limit holds, too: %llu", (unsigned long long)limits.memory_bytes);
    CHECK(limits.processors == 4);
    write_file("/cpu/box/cpu.cfs_quota_us", "-1\n");
    limits = limits_of("3:cpu,cpuacct:/box\nnonsense\n");
    CHECK(limits.memory_bytes == UINT64_MAX && limits.processors == UINT64_MAX);
    remove_root();
}

static void this_machine(void)
{
    char name[128];
    dt_machine_processor_name(name, sizeof name);
    CHECK(name[0] && !strchr(name, '\n'), "%s", name);
    CHECK(dt_machine_processors() >= 1 && dt_machine_processors() <= sysconf(_SC_NPROCESSORS_CONF));
    CHECK(dt_machine_memory_bytes() > 1 << 20);
    struct dt_group_limits limits;
    dt_machine_group_limits("/nowhere/at/all", "/nowhere", &limits);
    CHECK(limits.memory_bytes == UINT64_MAX && limits.processors == UINT64_MAX);
}

static void busy_processors(void)
{
    struct dt_processors own, two = {{5}}, none = {{0}}; /* 0 and 2 */
    make_root();
    write_file("/stat", "cpu  100 1 1 1000 9 1 1 1 7 0\ncpu0 10 20 30 1000 900 1 2 4 10 20\ncpu1 500 0 0 0 0 0 0 0 0 0\n"
                        "cpu2 3 0 0 9 9 0 0 0 0 0\nintr 5 6 7\ncpu4 1 1 1\n");
    const char *path = path_of("/stat");
    CHECK(fabs(dt_processors_busy_s(path, &two) * (double)sysconf(_SC_CLK_TCK) - 70) < 1e-6, "%g", dt_processors_busy_s(path, &two));
    CHECK(isnan(dt_processors_busy_s(path, &none)) && isnan(dt_processors_busy_s("/nowhere", &two)));
    remove_root();
    dt_processors_of(0, &own);
    CHECK(dt_processors_count(&own) >= 1 && dt_processors_count(&own) <= sysconf(_SC_NPROCESSORS_CONF));
    dt_processors_add(&two, &(struct dt_processors){{6}});
    CHECK(dt_processors_count(&two) == 3 && dt_machine_processors_among(&two) <= 3);
    CHECK(dt_processors_busy_s("/proc/stat", &own) > 0 || isnan(dt_processors_busy_s("/proc/stat", &own)));
}

static void ranks_share_processors(void)
{
    CHECK(dt_threads_of_rank(0, 2, 9) == 4 && dt_threads_of_rank(0, 3, 2) == 1 && dt_threads_of_rank(7, 3, 2) == 7);
    CHECK(!dt_crowded(0, 2, 9) && !dt_crowded(4, 2, 8) && dt_crowded(5, 2, 9) && dt_crowded(0, 3, 2) && !dt_crowded(2, 1, 2));
    unsetenv("OMP_WAIT_POLICY");
    CHECK(!dt_waiting_is_set());
    setenv("GOMP_SPINCOUNT", "1000", 1);
    CHECK(dt_waiting_is_set());
}

static const struct test_case cases[] = {
    {"which processors have worked", busy_processors},
    {"threads of ranks that share processors", ranks_share_processors},
    {"control groups, version 2", second_version},
    {"control groups, version 1", first_version},
    {"this machine has a name, processors and memory", this_machine},
};
TEST_MAIN(cases)
