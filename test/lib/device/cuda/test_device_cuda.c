/* What the cuda device has beyond lib/device/device.h: tasks on the host, watches, and the choice
 * of a GPU. */
#include "lib/device/cuda/internal.h"
#include "test/lib/device/cuda_streams.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- tasks on the host ---- */

struct add {
    _Atomic int *to;
    int factor, value;
    long sleep_us;
};

static dt_status run_add(void *arguments)
{
    const struct add *a = arguments;
    if (a->sleep_us)
        sleep_us(a->sleep_us);
    *a->to = *a->to * a->factor + a->value;
    return DT_OK;
}

static dt_status run_failure(void *arguments)
{
    return dt_fail(DT_ERR_IO, "number %d", *(int *)arguments);
}

static void submit_add(struct dt_stream *stream, _Atomic int *to, int factor, int value, long pause_us)
{
    struct add a = {to, factor, value, pause_us};
    CHECK_OK(dt_cuda_submit_host(stream, "add", run_add, &a, sizeof a));
    a.value = -1000; /* the task has its own copy */
}

/* Queues to the GPU: more than CUDA's default, unless the user says how many. */
static void connections(void)
{
    char reason[256];
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (!dt_device_available("cuda", reason, sizeof reason))
        SKIP("%.200s", reason);
    CHECK(strcmp(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32") == 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "5", 1);
    CHECK(dt_device_available("cuda", reason, sizeof reason));
    CHECK(strcmp(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "5") == 0);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

static void tasks_run_in_the_streams_order(void)
{
    _Atomic int sum = 0;
    struct dt_event *event;
    struct dt_graph *graph;
    if (!begin())
        return;
    CHECK_OK(dt_event_create(device, &event));
    submit_add(streams[0], &sum, 10, 1, 3000);
    submit_add(streams[0], &sum, 10, 2, 0);
    CHECK_OK(dt_event_record(event, streams[0]));
    CHECK_OK(dt_stream_wait(streams[1], event));
    submit_add(streams[1], &sum, 10, 3, 0);
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(sum == 123, "%d", sum);
    for (int i = 0; i < 1000; i++)
        submit_add(streams[i % 2], &sum, 1, 1, 0);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(dt_stream_synchronize(streams[i]));
    sum = 100;
    CHECK_OK(dt_graph_begin(streams[0]));
    submit_add(streams[1], &sum, 1, -93, 0);
    CHECK_OK(dt_event_record(event, streams[1]));
    CHECK_OK(dt_stream_wait(streams[0], event));
    submit_add(streams[0], &sum, 2, 1, 0);
    CHECK_OK(dt_graph_end(streams[0], &graph));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(dt_stream_synchronize(streams[2]));
        CHECK(sum == 15, "launch %d: %d", i, sum);
        submit_add(streams[0], &sum, 1, 85, 5000); /* which a launch comes after, on whatever stream */
        CHECK_OK(dt_graph_launch(graph, streams[2]));
    }
    CHECK_OK(dt_stream_synchronize(streams[0]));
    dt_graph_destroy(graph);
    dt_event_destroy(event);
    end();
}

static void a_tasks_failure_is_told_once(void)
{
    _Atomic int sum = 0;
    if (!begin())
        return;
    for (int i = 1; i <= 2; i++)
        CHECK_OK(dt_cuda_submit_host(streams[0], "the task", run_failure, &i, sizeof i));
    submit_add(streams[0], &sum, 1, 1, 0);
    CHECK(dt_stream_synchronize(streams[0]) == DT_ERR_IO && strcmp(dt_error_message(), "the task: number 1") == 0, "%s",
          dt_error_message());
    CHECK(sum == 0, "what comes after a failure is skipped");
    submit_add(streams[0], &sum, 1, 1, 0);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK(sum == 1);
    end();
}

/* ---- waiting ---- */

struct watched {
    int polls, most;
    int64_t last_ns;
};

static dt_status poll_watch(void *context, int64_t waited_ns)
{
    struct watched *w = context;
    CHECK(waited_ns >= w->last_ns || w->polls == 0);
    w->last_ns = waited_ns;
    return ++w->polls < w->most ? DT_OK : dt_fail(DT_ERR_TIMEOUT, "rank 3 is missing");
}

static void a_watch_ends_a_wait(void)
{
    static _Atomic int open;
    _Atomic int *argument = &open;
    struct watched watched = {.most = 50};
    struct dt_cuda_watch watch = {.poll = poll_watch, .context = &watched}, other = {.poll = poll_watch, .context = &watched};
    if (!begin())
        return;
    atomic_store(&open, 0);
    dt_cuda_watch(device, &other);
    dt_cuda_watch(device, &watch);
    dt_cuda_unwatch(device, &other);
    CHECK_OK(dt_cuda_submit_host(streams[1], "gate", run_until_open, &argument, sizeof argument));
    CHECK(dt_stream_synchronize(streams[1]) == DT_ERR_TIMEOUT && strstr(dt_error_message(), "rank 3"), "%s", dt_error_message());
    CHECK(watched.polls == 50 && watched.last_ns > 0);
    atomic_store(&open, 1);
    watched = (struct watched){.most = 1 << 30};
    CHECK_OK(dt_stream_synchronize(streams[1]));
    watched.polls = 0;
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(watched.polls > 0, "asked even where there is nothing to wait for");
    dt_cuda_unwatch(device, &watch);
    end();
}

/* ---- which GPU ---- */

static void each_rank_takes_its_gpu(void)
{
    char reason[256];
    struct dt_device *other;
    struct dt_device_info first, info, own;
    int count = dt_device_count("cuda");
    if (!dt_device_available("cuda", reason, sizeof reason))
        SKIP("%.200s", reason);
    CHECK(count >= 1 && !dt_device_look("cuda", count, &info) && dt_device_look("cuda", 0, &first));
    CHECK(strncmp(first.uuid, "GPU-", 4) == 0 && strlen(first.uuid) == 40 && first.uuid[12] == '-', "%s", first.uuid);
    CHECK(first.memory_bytes > 0 && first.name[0] && first.driver[0] && strncmp(first.versions, "CUDA runtime 1", 14) == 0, "%s",
          first.versions);
    for (int rank = 0; rank <= count; rank++) {
        struct dt_device_options options = {.local_rank = rank, .local_size = count + 1};
        dt_status status = dt_device_create("cuda", &options, &device);
        if (rank == count && count > 1) {
            CHECK(status == DT_ERR_INVALID && strstr(dt_error_message(), "no GPU of its own"), "%s", dt_error_message());
            options.share = true;
            status = dt_device_create("cuda", &options, &device);
        }
        CHECK_OK(status);
        dt_device_look("cuda", rank % count, &info);
        dt_device_info(device, &own);
        CHECK(strcmp(own.uuid, info.uuid) == 0 && (rank % count == 0) == (strcmp(info.uuid, first.uuid) == 0));
        CHECK_OK(dt_device_create("cuda", &(struct dt_device_options){.local_rank = rank, .local_size = count + 1, .share = true}, &other));
        dt_device_info(other, &own);
        CHECK(strcmp(own.uuid, info.uuid) == 0);
        dt_device_destroy(other);
        dt_device_destroy(device);
    }
}

static void write_list(const char *folder, const char *list)
{
    char path[128];
    snprintf(path, sizeof path, "%s/fade:1b:00.0/local_cpulist", folder);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(list, file) >= 0 && fclose(file) == 0, "%s", path);
}

/* On the processors that the system names beside a GPU, as far as this process may use them. */
static void near_its_gpu(void)
{
    char folder[] = "/tmp/dtbench_near_XXXXXX", path[64], list[64];
    cpu_set_t before, after;
    CHECK(mkdtemp(folder) && sched_getaffinity(0, sizeof before, &before) == 0);
    snprintf(path, sizeof path, "%s/fade:1b:00.0", folder);
    CHECK(mkdir(path, 0700) == 0);
    CHECK(!dt_cuda_bind_near(folder, "FADE:1B:00.0"), "no list");
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &before))
        last--;
    const char *const useless[] = {"", "\n", "1022-1023\n", "7-3\n", "a\n", "0-1000;3\n", "0-1023\n"};
    for (size_t i = 0; i < sizeof useless / sizeof useless[0]; i++) {
        write_list(folder, useless[i]);
        CHECK(!dt_cuda_bind_near(folder, "FADE:1B:00.0"), "%s", useless[i]);
        CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after), "%s", useless[i]);
    }
    snprintf(list, sizeof list, "%d,1020-1022\n", last);
    write_list(folder, list);
    bool bound = dt_cuda_bind_near(folder, "FADE:1B:00.0");
    CHECK(bound == (CPU_COUNT(&before) > 1) && sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_COUNT(&after) == 1 && CPU_ISSET(last, &after), "%d processors", CPU_COUNT(&after));
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
    snprintf(path, sizeof path, "%s/fade:1b:00.0/local_cpulist", folder);
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    rmdir(folder);
}

static void peaks_are_known_by_name(void)
{
    static const struct {
        const char *name;
        double half_tflops, fp32_tflops;
    } gpus[] = {
        {"NVIDIA H100 80GB HBM3", 989.5, 67},
        {"NVIDIA H100 PCIe", 756.5, 51},
        {"NVIDIA H200", 989.5, 67},
        {"NVIDIA B200", 2250, 80},
        {"NVIDIA A100-SXM4-40GB", 312, 19.5},
        {"NVIDIA A1000 Laptop GPU", 0, 0},
        {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0, 0},
        {"NVIDIA A30", 165, 10.3},
        {"emulated GPU", 0, 0},
    };
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        CHECK(dt_cuda_peak_flops(gpus[i].name, DT_FP16) == gpus[i].half_tflops * 1e12, "%s", gpus[i].name);
        CHECK(dt_cuda_peak_flops(gpus[i].name, DT_BF16) == gpus[i].half_tflops * 1e12, "%s", gpus[i].name);
        CHECK(dt_cuda_peak_flops(gpus[i].name, DT_FP32) == gpus[i].fp32_tflops * 1e12, "%s", gpus[i].name);
    }
}

static const struct test_case cases[] = {
    {"queues to the GPU", connections},
    {"tasks run in the stream's order", tasks_run_in_the_streams_order},
    {"a task's failure is told once", a_tasks_failure_is_told_once},
    {"a watch ends a wait", a_watch_ends_a_wait},
    {"each rank takes its GPU", each_rank_takes_its_gpu},
    {"a process near its GPU", near_its_gpu},
    {"peaks are known by the GPU's name", peaks_are_known_by_name},
};
TEST_MAIN(cases)
