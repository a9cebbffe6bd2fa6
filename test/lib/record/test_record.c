#include "lib/config/json.h"
#include "lib/record/record.h"
#include "test/check.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A new file with `content`; NULL: no file. */
static void scratch(char path[64], const char *content)
{
    snprintf(path, 64, "/tmp/dt_test_record_XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0 && (!content || write(fd, content, strlen(content)) == (ssize_t)strlen(content)));
    close(fd);
    if (!content)
        unlink(path);
}

static void content_of(const char *path, char *text, size_t text_bytes)
{
    int fd = open(path, O_RDONLY);
    ssize_t got = fd >= 0 ? read(fd, text, text_bytes - 1) : -1;
    text[got > 0 ? got : 0] = 0;
    close(fd);
}

static void appends_lines(void)
{
    char path[64], text[256];
    struct dt_record_file *file;
    scratch(path, NULL);
    CHECK_OK(dt_record_open(path, &file));
    CHECK_OK(dt_record_append(file, "{\"a\":1}"));
    CHECK_OK(dt_record_append(file, "{\"a\":2}"));
    CHECK(dt_record_append(file, "{\n}") == DT_ERR_INVALID);
    dt_record_close(file);
    CHECK_OK(dt_record_open(path, &file)); /* the probe leaves nothing behind */
    CHECK_OK(dt_record_append(file, "{\"a\":3}"));
    dt_record_close(file);
    content_of(path, text, sizeof text);
    CHECK(strcmp(text, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n") == 0, "%s", text);
    struct stat facts;
    CHECK(stat(path, &facts) == 0 && facts.st_blocks * 512 < 64 << 10, "%ld blocks stay reserved", (long)facts.st_blocks);
    unlink(path);
    dt_record_close(NULL);
}

struct found {
    cJSON *records;
    int others; /* lines that are no object */
};

static dt_status find_record(void *context, char *line, size_t bytes, uint64_t offset)
{
    struct found *found = context;
    cJSON *record = cJSON_ParseWithLength(line, bytes);
    if (cJSON_IsObject(record)) {
        cJSON_AddItemToArray(found->records, record);
        return DT_OK;
    }
    found->others++;
    cJSON_Delete(record);
    return DT_OK;
}

static struct found records_of(const char *path)
{
    struct found found = {.records = cJSON_CreateArray()};
    CHECK_OK(dt_record_lines_visit(path, find_record, &found));
    return found;
}

static void survives_torn_tail(void)
{
    char path[64], text[256];
    struct dt_record_file *file;
    scratch(path, "{\"a\":1}\n\n[1]\n{\"a\":\"torn");
    struct found found = records_of(path);
    CHECK(cJSON_GetArraySize(found.records) == 1 && found.others == 2, "%d records, %d other lines", cJSON_GetArraySize(found.records),
          found.others);
    cJSON_Delete(found.records);
    CHECK_OK(dt_record_open(path, &file));
    CHECK_OK(dt_record_append(file, "{\"a\":2}"));
    CHECK_OK(dt_record_append(file, "{\"a\":3}"));
    dt_record_close(file);
    content_of(path, text, sizeof text);
    CHECK(strcmp(text, "{\"a\":1}\n\n[1]\n{\"a\":\"torn\n{\"a\":2}\n{\"a\":3}\n") == 0, "%s", text);
    found = records_of(path);
    CHECK(cJSON_GetArraySize(found.records) == 3 && found.others == 2, "%d records, %d other lines", cJSON_GetArraySize(found.records),
          found.others);
    cJSON_Delete(found.records);
    unlink(path);
    found = records_of(path); /* no file, no records */
    CHECK(cJSON_GetArraySize(found.records) == 0 && found.others == 0);
    cJSON_Delete(found.records);
}

/* /dev/zero is one line that never ends. */
static void refuses_what_it_cannot_read(void)
{
    struct found found = {.records = NULL};
    CHECK(dt_record_lines_visit("/tmp", find_record, &found) == DT_ERR_IO, "%s", dt_error_message());
    CHECK(dt_record_lines_visit("/dev/zero", find_record, &found) == DT_ERR_IO &&
              strstr(dt_error_message(), "/dev/zero: a line of more than 128 MiB"),
          "%s", dt_error_message());
}

/* A file that cannot be written is reported when it is opened. */
static void refuses_early(void)
{
    struct dt_record_file *file;
    static const char *const paths[] = {"/dev/full", "/nonexistent/folder/x.jsonl", "/tmp", ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        dt_status status = dt_record_open(paths[i], &file);
        CHECK(status == DT_ERR_IO && strstr(dt_error_message(), "cannot write records to"), "%s: %s", paths[i], dt_error_message());
        if (status == DT_OK)
            dt_record_close(file);
    }
    CHECK_OK(dt_record_open("/dev/null", &file));
    CHECK_OK(dt_record_append(file, "{}"));
    dt_record_close(file);
}

/* Run `body` in a process of its own, with a file of one line; returns its exit status. */
static int in_child(int (*body)(const char *path), const char *path)
{
    int outcome = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(body(path));
    CHECK(child > 0 && waitpid(child, &outcome, 0) == child && WIFEXITED(outcome), "child ended with 0x%x", outcome);
    return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1;
}

enum { CANNOT = 77 };

static int write_past_limit(const char *path)
{
    struct dt_record_file *file;
    const struct rlimit little = {100, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    char line[200] = "";
    memset(line, 'x', sizeof line - 1);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &little);
    int wrong = dt_record_open(path, &file) != DT_ERR_IO ? 1 : 0;
    setrlimit(RLIMIT_FSIZE, &none);
    if (dt_record_open(path, &file) != DT_OK)
        return CANNOT;
    setrlimit(RLIMIT_FSIZE, &little);
    wrong |= dt_record_append(file, line) != DT_ERR_IO ? 2 : 0; /* 92 bytes of it fit */
    setrlimit(RLIMIT_FSIZE, &none);
    wrong |= dt_record_append(file, "{\"a\":2}") != DT_OK ? 4 : 0;
    dt_record_close(file);
    return wrong;
}

static void takes_parts_back(void)
{
    char path[64], text[256];
    scratch(path, "{\"a\":1}\n");
    int outcome = in_child(write_past_limit, path);
    CHECK(outcome == 0 || outcome == CANNOT, "exit status %d", outcome);
    content_of(path, text, sizeof text);
    unlink(path);
    if (outcome == CANNOT)
        SKIP("the limit on file sizes cannot be raised again here");
    CHECK(strcmp(text, "{\"a\":1}\n{\"a\":2}\n") == 0, "%s", text);
}

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

/* A file system of 16 KiB in a separate namespace, where the machine allows it. Without the user
 * maps files there would have no owner. */
static int open_on_full_disk(const char *folder)
{
    char path[128], users[32], groups[32];
    struct dt_record_file *file;
    snprintf(path, sizeof path, "%s/x.jsonl", folder);
    snprintf(users, sizeof users, "0 %d 1", (int)getuid());
    snprintf(groups, sizeof groups, "0 %d 1", (int)getgid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !write_text("/proc/self/uid_map", users) ||
        !write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/gid_map", groups) ||
        mount("none", folder, "tmpfs", 0, "size=16k") < 0)
        return CANNOT;
    return dt_record_open(path, &file) == DT_ERR_IO && strstr(dt_error_message(), "No space left") ? 0 : 1;
}

static void full_disk(void)
{
    char folder[] = "/tmp/dt_test_record_XXXXXX";
    CHECK(mkdtemp(folder));
    int outcome = in_child(open_on_full_disk, folder);
    rmdir(folder);
    if (outcome == CANNOT)
        SKIP("no user namespaces here");
    CHECK(outcome == 0, "%d", outcome);
}

enum { WRITERS = 4, LINES = 50 };

/* Several processes append to one file: every line whole, none lost. */
static void several_writers(void)
{
    char path[64], line[512];
    int seen[WRITERS] = {0};
    scratch(path, NULL);
    fflush(stdout);
    for (int w = 0; w < WRITERS; w++) {
        if (fork() == 0) {
            struct dt_record_file *file;
            bool good = dt_record_open(path, &file) == DT_OK;
            for (int i = 0; i < LINES && good; i++) {
                snprintf(line, sizeof line, "{\"writer\":%d,\"line\":%d,\"padding\":\"%0*d\"}", w, i, 100 + 7 * i % 300, 0);
                good = dt_record_append(file, line) == DT_OK;
            }
            _exit(good ? 0 : 1);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int outcome;
        CHECK(wait(&outcome) > 0 && WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    }
    struct found found = records_of(path);
    for (const cJSON *r = found.records->child; r; r = r->next) {
        int w = cJSON_GetObjectItem(r, "writer")->valueint;
        CHECK(cJSON_GetObjectItem(r, "line")->valueint == seen[w], "lines of one writer out of order");
        seen[w]++;
    }
    CHECK(found.others == 0 && seen[0] == LINES && seen[1] == LINES && seen[2] == LINES && seen[3] == LINES, "%d others", found.others);
    cJSON_Delete(found.records);
    unlink(path);
}

static const cJSON *at(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    CHECK(value, "no %s", key);
    return value;
}

static void formats_a_record(void)
{
    const double losses[] = {11.5, 11.25, NAN}, steps[] = {2, 4};
    struct dt_rank_memory ranks[2] = {{.memory.device.peak_total_bytes = 700},
                                      {.memory.device.peak_total_bytes = 500, .rss_peak_bytes = 123456}};
    ranks[0].memory.device.peak_bytes[DT_PARAMETERS] = 300;
    ranks[1].memory.device.peak_bytes[DT_PARAMETERS] = 400;
    ranks[0].memory.host.peak_total_bytes = 60;
    ranks[1].memory.host.peak_total_bytes = 90;
    ranks[1].memory.host.peak_bytes[DT_OPTIMIZER] = 80;
    struct dt_record record;
    char *line;
    struct cJSON *root;
    dt_record_init(&record);
    record.config_json = "{\"name\":\"x\"}";
    record.config_hash = "0123456789abcdef";
    record.status = "ok";
    record.losses = losses;
    record.loss_count = 3;
    record.step_s = steps;
    record.step_count = 2;
    record.metrics.units_per_s = 512.5;
    record.ranks = ranks;
    record.rank_count = 2;
    CHECK_OK(dt_metrics_set_steps(&record.metrics, steps, 2));
    dt_metrics_set_peaks(&record.metrics, ranks, 2);
    CHECK_OK(dt_record_format(&record, &line));
    CHECK(!strchr(line, '\n'));
    CHECK_OK(dt_json_parse(line, strlen(line), "line", &root));
    const cJSON *metrics = at(root, "metrics"), *step = at(metrics, "step_s"), *peaks = at(metrics, "peak_bytes");
    CHECK(at(root, "schema_version")->valuedouble == 1);
    CHECK(strcmp(at(at(root, "config"), "name")->valuestring, "x") == 0);
    CHECK(cJSON_IsNull(at(root, "error")) && cJSON_IsNull(at(root, "verification")) && cJSON_IsNull(at(root, "provenance")));
    CHECK(cJSON_GetArraySize(at(root, "losses")) == 3 && cJSON_IsNull(cJSON_GetArrayItem(at(root, "losses"), 2)));
    CHECK(at(metrics, "tokens_per_s")->valuedouble == 512.5 && cJSON_IsNull(at(metrics, "mfu")));
    CHECK(at(step, "median")->valuedouble == 3 && cJSON_GetArraySize(at(step, "all")) == 2);
    CHECK(at(peaks, "total")->valuedouble == 700 && at(peaks, "parameters")->valuedouble == 400);
    CHECK(at(cJSON_GetArrayItem(at(peaks, "by_ranks"), 1), "total")->valuedouble == 500);
    CHECK(strstr(line, "{\"ranks\":[[1,1,1]],\"total\":500,") && strstr(line, "\"process_rss\":[null,123456]"), "%s", line);
    const cJSON *host = at(metrics, "host_peak_bytes");
    CHECK(at(host, "total")->valuedouble == 90 && at(host, "optimizer")->valuedouble == 80 && at(host, "parameters")->valuedouble == 0);
    CHECK(at(cJSON_GetArrayItem(at(host, "by_ranks"), 0), "total")->valuedouble == 60 && !cJSON_GetObjectItem(host, "process_rss"));
    dt_json_destroy(root);
    free(line);

    dt_record_init(&record); /* a run that never began */
    record.config_json = "{}";
    record.config_hash = "";
    record.error = "rank 1: killed";
    CHECK_OK(dt_record_format(&record, &line));
    CHECK(strstr(line, "\"status\":\"failed\",\"error\":\"rank 1: killed\",\"losses\":[]"), "%s", line);
    CHECK(strstr(line, "\"peak_bytes\":{\"total\":null") && strstr(line, "\"by_ranks\":[],\"process_rss\":[]"), "%s", line);
    free(line);
    record.config_json = "{";
    CHECK(dt_record_format(&record, &line) == DT_ERR_INVALID, "%s", dt_error_message());
}

/* Ranks with the same memory are printed together: each letter stands for a rank's memory, on the
 * device and on the host. */
static void folds_equal_ranks(void)
{
    static const struct {
        const char *held, *ranges[3];
    } rows[] = {
        {"aaaaaaaa", {"[[0,7,1]]"}},
        {"abababab", {"[[0,6,2]]", "[[1,7,2]]"}},
        {"aabbaabb", {"[[0,1,1],[4,5,1]]", "[[2,3,1],[6,7,1]]"}},
        {"baaaaaaa", {"[[0,0,1]]", "[[1,7,1]]"}},
        {"abaacaba", {"[[0,2,2],[3,7,2]]", "[[1,6,5]]", "[[4,4,1]]"}},
        {"a", {"[[0,0,1]]"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_rank_memory ranks[8] = {0};
        struct dt_record record;
        char *line, wanted[128];
        dt_record_init(&record);
        record.config_json = "{}";
        record.config_hash = "";
        record.ranks = ranks;
        record.rank_count = (int)strlen(rows[i].held);
        for (int r = 0; r < record.rank_count; r++) {
            ranks[r].memory.device.peak_total_bytes = 1000;
            ranks[r].memory.device.peak_bytes[DT_WORKSPACE] = ranks[r].memory.host.peak_total_bytes = (uint64_t)rows[i].held[r];
        }
        CHECK_OK(dt_record_format(&record, &line));
        const char *device = strstr(line, "\"peak_bytes\""), *host = strstr(line, "\"host_peak_bytes\"");
        int groups = 0;
        for (const char *group = device; (group = strstr(group, "\"ranks\":")) != NULL; group++)
            groups++;
        int expected = 0;
        for (; expected < 3 && rows[i].ranges[expected]; expected++) {
            snprintf(wanted, sizeof wanted, "{\"ranks\":%s,\"total\":", rows[i].ranges[expected]);
            const char *there = strstr(device, wanted);
            CHECK(there && there < host && strstr(host, wanted), "%s of %s: %s", wanted, rows[i].held, line);
        }
        CHECK(groups == 2 * expected, "%d groups of %s", groups, rows[i].held);
        free(line);
    }
}

static void collects_provenance(void)
{
    static const char long_name[] = "OMPI_MCA_a_name_of_a_parameter_that_is_much_longer_than_most_names_are_and_is_told_as_a_whole";
    struct cJSON *p;
    char *text;
    setenv("OMP_TEST_VARIABLE", "3", 1);
    setenv(long_name, "4", 1);
    setenv("NCCL_SOCKET_IFNAME", "eth0\xff", 1);
    setenv("SLURM_JWT", "secret", 1);
    setenv("DTBENCH_API_KEY", "secret", 1);
    setenv("HOME_OF_NOBODY", "x", 1);
    unsetenv("SLURM_JOB_ID");
    struct dt_provenance_facts facts = {.device = "cpu", .versions = "oneDNN 2.6.3, Open MPI 4.1.4, odd", .hosts = "node1\nnode2"};
    CHECK_OK(dt_provenance_collect(&facts, &p));
    CHECK(strcmp(at(at(p, "versions"), "Open MPI")->valuestring, "4.1.4") == 0 && cJSON_IsNull(at(at(p, "versions"), "odd")));
    CHECK(cJSON_GetArraySize(at(p, "hosts")) == 2 && cJSON_IsNull(at(p, "slurm")) && cJSON_IsNull(at(p, "device_name")));
    CHECK(strcmp(at(p, "started")->valuestring, "1970-01-01T00:00:00Z") == 0);
    CHECK(strcmp(at(at(p, "environment"), "OMP_TEST_VARIABLE")->valuestring, "3") == 0);
    CHECK(at(at(p, "environment"), long_name), "the variable with the long name");
    CHECK_OK(dt_json_print(p, DT_JSON_COMPACT, &text));
    CHECK(!strstr(text, "secret") && !strstr(text, "HOME_OF_NOBODY"), "%s", text);
    CHECK(strstr(text, "eth0\xEF\xBF\xBD\""), "%s", text);
    free(text);
    dt_json_destroy(p);
    setenv("SLURM_JOB_ID", "77", 1);
    facts.hosts = NULL;
    facts.settings = "{\"NCCL_ALGO\":\"Ring\",\"NCCL_SOCKET_IFNAME\":\"ib0\"}"; /* of the ranks, over what is here */
    CHECK_OK(dt_provenance_collect(&facts, &p));
    CHECK(strcmp(at(at(p, "environment"), "NCCL_ALGO")->valuestring, "Ring") == 0);
    CHECK(strcmp(at(at(p, "environment"), "NCCL_SOCKET_IFNAME")->valuestring, "ib0") == 0);
    CHECK(strcmp(at(at(p, "slurm"), "job_id")->valuestring, "77") == 0 && cJSON_GetArraySize(at(p, "hosts")) == 1);
    CHECK(cJSON_IsNull(at(p, "nccl_files")), "NCCL is not used");
    dt_json_destroy(p);
    facts.device = "cuda";
    CHECK_OK(dt_provenance_collect(&facts, &p));
    CHECK(cJSON_IsObject(at(p, "nccl_files")), "what NCCL's files set, if there are any");
    dt_json_destroy(p);
}

static void *read_pipe(void *path)
{
    static char text[64];
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = 0;
    close(fd);
    return text;
}

/* A pipe without a reader would take the record, and lose it. */
static void named_pipes(void)
{
    char path[64];
    struct dt_record_file *file;
    pthread_t reader;
    void *text;
    scratch(path, NULL);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK(dt_record_open(path, &file) == DT_ERR_IO && strstr(dt_error_message(), "it is a pipe, and nobody reads from it"), "%s",
          dt_error_message());
    if (pthread_create(&reader, NULL, read_pipe, path) != 0)
        abort();
    CHECK_OK(dt_record_open(path, &file));
    CHECK_OK(dt_record_append(file, "{\"a\":1}"));
    pthread_join(reader, &text);
    CHECK(strcmp(text, "{\"a\":1}\n") == 0, "%s", (const char *)text);
    signal(SIGPIPE, SIG_IGN);
    CHECK(dt_record_append(file, "{\"a\":2}") == DT_ERR_IO, "the reader is gone");
    dt_record_close(file);
    unlink(path);
}

static const struct test_case cases[] = {
    {"named pipes", named_pipes},
    {"lines are appended and the probe leaves no trace", appends_lines},
    {"a torn tail is skipped, and ended before the next line", survives_torn_tail},
    {"what has no end or is a folder is refused", refuses_what_it_cannot_read},
    {"what cannot be written is refused at once", refuses_early},
    {"a full disk is refused at once", full_disk},
    {"a part of a line is taken back", takes_parts_back},
    {"several writers do not mix their lines", several_writers},
    {"a record's JSON", formats_a_record},
    {"equal ranks are told together", folds_equal_ranks},
    {"provenance: versions, hosts, job, the allowed environment only", collects_provenance},
};
TEST_MAIN(cases)
