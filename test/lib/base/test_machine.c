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
                                    "/membership"};

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

static const struct test_case cases[] = {
    {"control groups, version 2", second_version},
    {"control groups, version 1", first_version},
    {"this machine has a name, processors and memory", this_machine},
};
TEST_MAIN(cases)
