/* How NCCL connects the ranks, from its log: there is no call for this. The log is written to a
 * file in memory, which ends with the process, and is read on request.
 * Source  NVIDIA, "NCCL User Guide", environment variables (NCCL_DEBUG, NCCL_DEBUG_SUBSYS,
 *         NCCL_DEBUG_FILE); the lines as the texts in NCCL 2.30.7's library have them: "NET/IB :
 *         Using [0]mlx5_0:1/IB [RO]; OOB eth0:...", "Using network IB", "Channel 00/0 : 0[0] ->
 *         1[1] via P2P/CUMEM". Lines in another format are ignored. */
#include "lib/comm/nccl/log.h"

#include "lib/base/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOG_NAME "dtbench-nccl"

static const char *const variables[] = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
enum { VARIABLES = sizeof variables / sizeof *variables, MOST_BYTES = 16 << 20 };

/* ---- the file ---- */

/* NCCL reads its variables once in a process and then keeps its file open: so the file is found
 * again by its name. -1: there is none. */
static int find_log(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry && found < 0; entry = readdir(folder)) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%.20s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "/memfd:" LOG_NAME, strlen("/memfd:" LOG_NAME)) == 0)
            found = atoi(entry->d_name);
    }
    if (folder)
        closedir(folder);
    return found;
}

bool dt_nccl_log_begin(void)
{
    char path[64];
    for (int i = 0; i < VARIABLES; i++)
        if (getenv(variables[i]))
            return false;
    if (find_log() >= 0)
        return false;
    int file = memfd_create(LOG_NAME, MFD_CLOEXEC);
    if (file < 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const char *const values[VARIABLES] = {"INFO", "INIT,NET", path};
    for (int i = 0; i < VARIABLES; i++)
        setenv(variables[i], values[i], 1);
    return true;
}

void dt_nccl_log_started(bool begun)
{
    for (int i = 0; begun && i < VARIABLES; i++)
        unsetenv(variables[i]);
}

/* ---- its lines ---- */

/* "P2P/CUMEM/read" is P2P/CUMEM; "NET/IB/0/GDRDMA" is NET/IB. */
static void take_channel(const char *how, struct dt_comm_network *out)
{
    size_t first = strcspn(how, "/");
    size_t length = how[first] ? first + 1 + strcspn(how + first + 1, "/(") : first;
    dt_append_once(out->transports, sizeof out->transports, how, length);
    if (strncmp(how, "NET/", 4) != 0)
        return;
    bool direct = strstr(how, "/GDRDMA");
    out->direct_channels += direct;
    out->staged_channels += !direct;
}

/* "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ...", "[0]eth0:10.0.0.1<0>": only the cards' names are
 * kept; addresses are private. */
static void take_cards(const char *text, bool sockets, struct dt_comm_network *out)
{
    while (*text == '[') {
        char *end;
        size_t length = strcspn(text, " ;");
        (void)strtol(text + 1, &end, 10);
        if (end > text + 1 && *end == ']') {
            size_t name = (size_t)(end + 1 - text);
            dt_append_once(out->cards, sizeof out->cards, end + 1, sockets ? strcspn(end + 1, ": ;") : length - name);
        }
        text += length;
        text += strspn(text, " ");
    }
}

static void read_line(const char *line, struct dt_comm_network *out)
{
    const char *info = strstr(line, " NCCL INFO "), *at;
    if (!info)
        return;
    info += strlen(" NCCL INFO ");
    at = strstr(info, " via ");
    if (strncmp(info, "Channel ", 8) == 0 && at)
        take_channel(at + 5, out);
    at = strstr(info, "Using network ");
    if (at)
        snprintf(out->network, sizeof out->network, "%.*s", (int)strcspn(at + 14, "\r\n"), at + 14);
    at = strstr(info, " : Using [");
    if (strncmp(info, "NET/", 4) == 0 && at)
        take_cards(at + 9, strncmp(info, "NET/Socket", 10) == 0, out);
}

void dt_nccl_log_read(struct dt_comm_network *out)
{
    char path[64], line[1024];
    int file = find_log();
    *out = (struct dt_comm_network){.direct_channels = 0};
    if (file < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    FILE *log = fopen(path, "re"); /* with a separate position */
    for (long bytes = 0; log && bytes < MOST_BYTES && fgets(line, sizeof line, log); bytes += (long)strlen(line)) {
        line[strcspn(line, "\r\n")] = 0;
        read_line(line, out);
    }
    if (log)
        fclose(log);
}
