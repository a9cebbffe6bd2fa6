#include "lib/slurm/facts.h"

#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/launch/launch.h"
#include "lib/slurm/release.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const struct dt_slurm_fact facts_table[DT_SLURM_KEYS] = {
    [DT_SLURM_JOB_ID] = {"job_id", "SLURM_JOB_ID"},
    [DT_SLURM_STEP_ID] = {"step_id", "SLURM_STEP_ID"},
    [DT_SLURM_JOB_NAME] = {"job_name", "SLURM_JOB_NAME"},
    [DT_SLURM_CLUSTER] = {"cluster", "SLURM_CLUSTER_NAME"},
    [DT_SLURM_PARTITION] = {"partition", "SLURM_JOB_PARTITION"},
    [DT_SLURM_NODES] = {"nodes", "SLURM_JOB_NUM_NODES"},
    [DT_SLURM_NODE_LIST] = {"node_list", "SLURM_JOB_NODELIST"},
    [DT_SLURM_TASKS] = {"tasks", "SLURM_NTASKS"},
    [DT_SLURM_NODE_NAMES] = {"node_names", NULL},
    [DT_SLURM_ARRAY_JOB_ID] = {"array_job_id", "SLURM_ARRAY_JOB_ID"},
    [DT_SLURM_ARRAY_TASK_ID] = {"array_task_id", "SLURM_ARRAY_TASK_ID"},
    [DT_SLURM_RESTARTS] = {"restarts", "SLURM_RESTART_COUNT"},
    [DT_SLURM_ACCOUNT] = {"account", "SLURM_JOB_ACCOUNT"},
    [DT_SLURM_QOS] = {"qos", "SLURM_JOB_QOS"},
    [DT_SLURM_RESERVATION] = {"reservation", "SLURM_JOB_RESERVATION"},
    [DT_SLURM_GPUS_ON_NODE] = {"gpus_on_node", "SLURM_GPUS_ON_NODE"},
    [DT_SLURM_GPUS_PER_NODE] = {"gpus_per_node", "SLURM_GPUS_PER_NODE"},
    [DT_SLURM_STEP_GPUS] = {"step_gpus", "SLURM_STEP_GPUS"},
    [DT_SLURM_JOB_GPUS] = {"job_gpus", "SLURM_JOB_GPUS"},
    [DT_SLURM_RESOURCES] = {"resources", NULL},
    [DT_SLURM_EXCLUSIVE] = {"exclusive", NULL},
    [DT_SLURM_TIME_LIMIT] = {"time_limit_min", NULL},
    [DT_SLURM_END_TIME] = {"end_time", "SLURM_JOB_END_TIME"},
    [DT_SLURM_PARTITION_NODES] = {"partition_nodes", NULL},
    [DT_SLURM_PARTITION_TIME_LIMIT] = {"partition_time_limit_min", NULL},
    [DT_SLURM_LIBRARY] = {"library", NULL},
};

/* More than any job's answer, including node names of the largest clusters. */
enum { ANSWER_BYTES_MAX = 4 << 20 };

const struct dt_slurm_fact *dt_slurm_fact(enum dt_slurm_key key)
{
    return &facts_table[key];
}

bool dt_slurm_in_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    return job && *job;
}

int dt_slurm_gpus_on_node(void)
{
    const char *value = dt_slurm_in_job() ? getenv("SLURM_GPUS_ON_NODE") : NULL;
    char *end;
    long gpus = value ? strtol(value, &end, 10) : 0;
    return value && end != value && *end == 0 && gpus > 0 && gpus <= 4096 ? (int)gpus : 0;
}

/* Start `helper`. Its standard output is a pipe, whose other end is *out_fd; its other streams are
 * discarded. 0: it does not start. */
static pid_t start_helper(const char *const helper[], int *out_fd)
{
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        bool ready = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
                     posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0 &&
                     posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
        if (!ready || posix_spawnp(&pid, helper[0], &actions, NULL, (char *const *)helper, environ) != 0)
            pid = 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (pid == 0)
        close(ends[0]);
    *out_fd = ends[0];
    return pid;
}

/* Read until the end of the pipe or the deadline. False: out of memory. */
static bool read_until(int fd, double deadline, char **text, size_t *bytes)
{
    size_t capacity = 0;
    for (;;) {
        struct pollfd poll_fd = {fd, POLLIN, 0};
        double left = deadline - dt_clock_s();
        if (*bytes + 1 >= capacity) {
            capacity = 2 * capacity + 4096;
            if (capacity > ANSWER_BYTES_MAX || !dt_resize(text, capacity))
                return false;
        }
        (*text)[*bytes] = 0;
        int ready = left > 0 ? poll(&poll_fd, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return true;
        ssize_t got = read(fd, *text + *bytes, capacity - *bytes - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        *bytes += (size_t)got;
    }
}

/* The helper's answer, or NULL. The helper has ended when this returns. */
static char *ask(const char *const helper[], double deadline_s)
{
    DT_FREED char *text = NULL;
    size_t bytes = 0;
    int fd;
    pid_t pid = start_helper(helper, &fd);
    if (pid == 0)
        return NULL;
    bool complete = read_until(fd, dt_clock_s() + deadline_s, &text, &bytes);
    kill(pid, SIGKILL); /* an ended process keeps its number until it is waited for */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    close(fd);
    return complete ? DT_PASSED_ON(text) : NULL;
}

static dt_status keep(struct dt_slurm_facts *out, int key, const char *value)
{
    out->values[key] = strdup(value);
    return dt_allocated(out->values[key], "no host memory for the facts of the job");
}

/* Read lines of "key value". The last line may be cut short if the helper died, and is then
 * ignored. */
static dt_status take_answer(char *text, struct dt_slurm_facts *out)
{
    char *line = text;
    for (char *end = strchr(line, '\n'); end; line = end + 1, end = strchr(line, '\n')) {
        *end = 0;
        char *value = strchr(line, ' ');
        if (!value || !value[1])
            continue;
        *value++ = 0;
        for (int key = 0; key < DT_SLURM_KEYS; key++) {
            if (!out->values[key] && strcmp(line, facts_table[key].key) == 0)
                DT_TRY(keep(out, key, value));
        }
    }
    return DT_OK;
}

static dt_status take_variables(struct dt_slurm_facts *out)
{
    for (int key = 0; key < DT_SLURM_KEYS; key++) {
        const char *value = facts_table[key].variable ? getenv(facts_table[key].variable) : NULL;
        if (!out->values[key] && value && *value)
            DT_TRY(keep(out, key, value));
    }
    const char *list = out->values[DT_SLURM_NODE_LIST];
    char *names;
    int count;
    if (!out->values[DT_SLURM_NODE_NAMES] && list && dt_node_list_expand(list, &names, &count) == DT_OK) {
        for (char *c = names; *c; c++)
            *c = *c == '\n' ? ' ' : *c;
        out->values[DT_SLURM_NODE_NAMES] = names;
    }
    return DT_OK;
}

dt_status dt_slurm_facts_collect(const char *const helper[], double deadline_s, struct dt_slurm_facts *out)
{
    *out = (struct dt_slurm_facts){0};
    if (!dt_slurm_in_job())
        return DT_OK;
    DT_FREED char *answer = helper ? ask(helper, deadline_s) : NULL;
    dt_status status = answer ? take_answer(answer, out) : DT_OK;
    DT_THEN(status, take_variables(out));
    if (status < 0)
        dt_slurm_facts_finish(out);
    return status;
}

void dt_slurm_facts_finish(struct dt_slurm_facts *facts)
{
    for (int key = 0; key < DT_SLURM_KEYS; key++)
        free(facts->values[key]);
    *facts = (struct dt_slurm_facts){0};
}

double dt_slurm_seconds_left(const struct dt_slurm_facts *facts)
{
    const char *value = facts->values[DT_SLURM_END_TIME];
    char *end;
    double end_s = value ? strtod(value, &end) : NAN;
    if (!value || end == value || *end || !(end_s > 0))
        return NAN;
    return end_s - dt_wall_clock_s();
}

/* ---- releases ---- */

static const struct dt_slurm_release releases[] = {
    {20, 11, 36}, {21, 8, 37}, {22, 5, 38}, {23, 2, 39}, {23, 11, 40}, {24, 5, 41}, {24, 11, 42}, {25, 5, 43}, {25, 11, 44},
};
enum { RELEASES = sizeof releases / sizeof releases[0] };

const struct dt_slurm_release *dt_slurm_release_of_api(long api)
{
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].api == api)
            return &releases[i];
    return NULL;
}

const struct dt_slurm_release *dt_slurm_release_of_date(int year, int month)
{
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].year == year && releases[i].month == month)
            return &releases[i];
    return NULL;
}
