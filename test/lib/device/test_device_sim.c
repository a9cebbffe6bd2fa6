/* The sim device as a recorder: queued work becomes a program, and replayed times can be read. */
#include "lib/comm/comm.h"
#include "lib/device/sim.h"
#include "test/check.h"

static const struct dt_sim_device description = {
    .memory_bytes_per_s = 1e9,
    .kernel_s = 1e-6,
    .copy_host_s = 2e-6,
    .collective_host_s = 3e-6,
    .message_host_s = 4e-6,
    .granularity_bytes = 512,
};

static void only_between_start_and_finish(void)
{
    struct dt_device_options options = {.sim = &description};
    struct dt_device *device;
    struct dt_stream *a, *b;
    struct dt_event *early, *late, *never;
    struct dt_sim_program *program;
    int64_t ns;
    CHECK_OK(dt_device_create("sim", &options, &device));
    CHECK_OK(dt_stream_create(device, "a", &a));
    CHECK_OK(dt_event_create_timed(device, &early));
    CHECK_OK(dt_event_create_timed(device, &late));
    CHECK_OK(dt_event_create_timed(device, &never));
    CHECK_OK(dt_sim_work(a, 1, 1, 1, "before"));
    CHECK_OK(dt_event_record(early, a));
    CHECK_OK(dt_sim_record_start(device, false));
    CHECK(dt_sim_record_start(device, false) == DT_ERR_INVALID);
    CHECK_OK(dt_stream_create(device, "b", &b));
    CHECK_OK(dt_stream_wait(b, early)); /* passed: nothing to wait for */
    CHECK_OK(dt_event_record(early, a));
    CHECK_OK(dt_sim_work(a, 1, 0.5, 2, "kernel"));
    CHECK_OK(dt_event_record(late, a));
    CHECK_OK(dt_stream_wait(b, late));
    CHECK_OK(dt_stream_synchronize(b));
    CHECK_OK(dt_sim_record_finish(device, &program));
    CHECK_OK(dt_sim_work(b, 1, 1, 1, "after"));

    CHECK(program->stream_count == 2 && program->event_count == 2 && program->op_count == 5, "%zu operations", program->op_count);
    CHECK(program->ops[1].kind == DT_SIM_WORK && program->ops[1].amount == 2 && program->ops[1].host_s == 0.5);
    CHECK(program->ops[3].kind == DT_SIM_WAIT && program->ops[3].stream == 1 && program->ops[3].target == program->ops[2].target);
    CHECK(dt_event_elapsed_ns(early, late, &ns) == DT_OK && ns == 0, "not replayed");
    CHECK(dt_event_elapsed_ns(early, never, &ns) == DT_ERR_INVALID && dt_event_elapsed_ns(never, late, &ns) == DT_ERR_INVALID,
          "not recorded");
    struct dt_stream_idle idle;
    CHECK(dt_event_idle(early, late, &idle) == DT_OK && idle.host_ns == 0 && idle.copy_ns == 0, "not replayed");
    dt_sim_replayed(device, (const struct dt_sim_moment[]){{1, {0.5, 0}}, {3.5, {1.5, 0.25}}});
    CHECK(dt_event_elapsed_ns(early, late, &ns) == DT_OK && ns == 2500000000, "%lld ns", (long long)ns);
    CHECK(dt_event_idle(early, late, &idle) == DT_OK && idle.host_ns == 1000000000 && idle.copy_ns == 250000000, "idle between them");
    CHECK(dt_sim_event_s(late) == 3.5, "%g s", dt_sim_event_s(late));

    dt_sim_program_destroy(program);
    dt_event_destroy(early);
    dt_event_destroy(late);
    dt_event_destroy(never);
    dt_stream_destroy(a);
    dt_stream_destroy(b);
    dt_device_destroy(device);
}

/* One stream more than a program can have is refused, and leaves nothing behind. */
static void too_many_streams(void)
{
    struct dt_device_options options = {.sim = &description};
    struct dt_device *device;
    struct dt_stream *streams[DT_SIM_MAX_STREAMS], *one_more;
    struct dt_sim_program *program;
    CHECK_OK(dt_device_create("sim", &options, &device));
    CHECK_OK(dt_sim_record_start(device, false));
    for (int i = 0; i < DT_SIM_MAX_STREAMS; i++)
        CHECK_OK(dt_stream_create(device, "one", &streams[i]));
    CHECK(dt_stream_create(device, "one more", &one_more) == DT_ERR_INVALID && !one_more, "%s", dt_error_message());
    CHECK_OK(dt_sim_work(streams[DT_SIM_MAX_STREAMS - 1], 1, 1, 1, "kernel"));
    CHECK_OK(dt_sim_record_finish(device, &program));
    CHECK(program->stream_count == DT_SIM_MAX_STREAMS, "%d streams", program->stream_count);
    dt_sim_program_destroy(program);
    for (int i = 0; i < DT_SIM_MAX_STREAMS; i++)
        dt_stream_destroy(streams[i]);
    dt_device_destroy(device);
}

static void communicators_and_copies(void)
{
    struct dt_device_options options = {.sim = &description};
    struct dt_world place = {.rank = 2, .size = 4, .local_size = 1, .launcher = "none"};
    struct dt_device *device;
    struct dt_stream *stream;
    struct dt_comm *world, *pair;
    struct dt_buffer buffer;
    struct dt_sim_program *program;
    char on_host[64];
    CHECK_OK(dt_device_create("sim", &options, &device));
    CHECK_OK(dt_stream_create(device, "s", &stream));
    CHECK_OK(dt_comm_create(device, &place, NULL, &world));
    CHECK_OK(dt_comm_subset(world, (const int[]){2, 0}, 2, "pair", &pair));
    CHECK(dt_sim_slot_count(device) == 2 && dt_sim_slot(device, 0)->size == 4);
    CHECK(dt_sim_slot(device, 1)->ranks[0] == 2 && dt_sim_slot(device, 1)->ranks[1] == 0 &&
          strcmp(dt_sim_slot(device, 1)->name, "pair") == 0);
    CHECK_OK(dt_sim_record_start(device, false));
    CHECK_OK(dt_alloc(stream, DT_ACTIVATIONS, 4000, &buffer));
    CHECK_OK(dt_all_gather(world, buffer.data, buffer.data, 250, DT_FP32, stream));
    CHECK_OK(dt_all_reduce(pair, buffer.data, 250, DT_FP32, DT_AVG, stream));
    CHECK_OK(dt_send(pair, buffer.data, 250, DT_FP16, 1, stream));
    CHECK_OK(dt_copy_to_host_around(stream, on_host, buffer.data, 64, 8, 24));
    CHECK_OK(dt_zero(stream, buffer.data, 4000));
    CHECK_OK(dt_copy(stream, (char *)buffer.data + 8, buffer.data, 8));
    dt_free(stream, &buffer);
    CHECK_OK(dt_sim_record_finish(device, &program));
    const struct dt_sim_op *ops = program->ops;
    CHECK(program->op_count == 6, "%zu operations", program->op_count);
    CHECK(ops[0].kind == DT_SIM_COLLECTIVE && ops[0].detail == DT_SIM_ALL_GATHER && ops[0].target == 0 && ops[0].amount == 4000);
    CHECK(ops[1].detail == DT_SIM_ALL_REDUCE && ops[1].target == 1 && ops[1].amount == 1000 && ops[1].host_s == 3e-6);
    CHECK(ops[2].kind == DT_SIM_SEND && ops[2].peer == 1 && ops[2].amount == 500 && ops[2].host_s == 4e-6);
    CHECK(ops[3].kind == DT_SIM_COPY && ops[3].detail == DT_SIM_TO_HOST && ops[3].amount == 48);
    CHECK(ops[4].kind == DT_SIM_WORK && fabs(ops[4].amount - 4e-6) < 1e-12 && ops[4].host_s == 2e-6);
    CHECK(ops[5].kind == DT_SIM_WORK && ops[5].amount == 1e-6, "the shortest kernel");
    dt_sim_program_destroy(program);
    dt_comm_destroy(pair);
    dt_comm_destroy(world);
    dt_stream_destroy(stream);
    dt_device_destroy(device);
}

static void allocations(void)
{
    struct dt_device *device[3];
    struct dt_stream *stream;
    struct dt_buffer buffer;
    struct dt_memory_usage usage;
    uint64_t hashes[3];
    for (int i = 0; i < 3; i++) {
        struct dt_device_options options = {.sim = &description};
        CHECK_OK(dt_device_create("sim", &options, &device[i]));
        CHECK_OK(dt_stream_create(device[i], "s", &stream));
        CHECK_OK(dt_alloc(stream, DT_ACTIVATIONS, i == 2 ? 300 : 200, &buffer));
        dt_memory_usage(device[i], &usage);
        CHECK(usage.device.peak_total_bytes == 512, "a multiple of the granularity");
        dt_free(stream, &buffer);
        dt_memory_usage(device[i], &usage);
        CHECK(usage.device.current_total_bytes == 0);
        hashes[i] = dt_sim_allocation_hash(device[i]);
        dt_stream_destroy(stream);
        dt_device_destroy(device[i]);
    }
    CHECK(hashes[0] == hashes[1] && hashes[0] != hashes[2]);
}

static void without_a_description(void)
{
    struct dt_device *device;
    struct dt_stream *stream;
    CHECK_OK(dt_device_create("sim", NULL, &device));
    CHECK_OK(dt_stream_create(device, "s", &stream));
    CHECK(dt_sim_device_of(device) == NULL && dt_sim_record_start(device, false) == DT_ERR_INVALID);
    CHECK_OK(dt_sim_work(stream, 1, 1, 1, "nothing"));
    dt_stream_destroy(stream);
    dt_device_destroy(device);
}

static const struct test_case cases[] = {
    {"a program is what came between start and finish", only_between_start_and_finish},
    {"too many streams", too_many_streams},
    {"communicators and copies", communicators_and_copies},
    {"allocations", allocations},
    {"without a description", without_a_description},
};
TEST_MAIN(cases)
