#include "lib/launch/environment.h"

#include "lib/base/machine.h"
#include "lib/launch/secret.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

/* Of an outer launcher, and lies for the ranks that are started here. */
static const char *const foreign_prefixes[] = {
    "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_",    "PMIX_",        "PMI_",         "RANK=",
    "WORLD_SIZE=",      "LOCAL_RANK=",  "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=", DT_SECRET_VARIABLE "=",
};

static bool is_foreign(const char *variable)
{
    for (size_t p = 0; p < sizeof foreign_prefixes / sizeof foreign_prefixes[0]; p++) {
        if (strncmp(variable, foreign_prefixes[p], strlen(foreign_prefixes[p])) == 0)
            return true;
    }
    return false;
}

static bool is_replaced(const char *variable, const char *const *settings)
{
    size_t name_bytes = strcspn(variable, "=") + 1;
    for (size_t i = 0; settings[i]; i++) {
        if (strncmp(variable, settings[i], name_bytes) == 0)
            return true;
    }
    return false;
}

dt_status dt_launch_environment_make(int rank, int size, int port, const char *secret, bool passive, const char *const *settings,
                                     struct dt_launch_environment *out)
{
    static const char *const nothing[] = {NULL};
    size_t count = 0, added = 0, kept = 0;
    if (!settings)
        settings = nothing;
    while (environ[count])
        count++;
    while (settings[added])
        added++;
    out->variables = calloc(count + added + 1 + DT_LAUNCH_PLACE_VARIABLES + 1, sizeof *out->variables);
    if (!out->variables)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the ranks' environment");
    for (size_t i = 0; i < count; i++) {
        if (!is_foreign(environ[i]) && !is_replaced(environ[i], settings))
            out->variables[kept++] = environ[i];
    }
    for (size_t i = 0; i < added; i++)
        out->variables[kept++] = (char *)settings[i]; /* execve changes nothing of it */
    if (passive && !dt_waiting_is_set())
        out->variables[kept++] = (char *)(DT_WAITING_NAME "=" DT_WAITING_PASSIVE);
    if (port == 0)
        return DT_OK;
    snprintf(out->place[0], sizeof out->place[0], "RANK=%d", rank);
    snprintf(out->place[1], sizeof out->place[1], "WORLD_SIZE=%d", size);
    snprintf(out->place[2], sizeof out->place[2], "LOCAL_RANK=%d", rank);
    snprintf(out->place[3], sizeof out->place[3], "LOCAL_WORLD_SIZE=%d", size);
    snprintf(out->place[4], sizeof out->place[4], "MASTER_ADDR=127.0.0.1");
    snprintf(out->place[5], sizeof out->place[5], "MASTER_PORT=%d", port);
    snprintf(out->place[6], sizeof out->place[6], DT_SECRET_VARIABLE "=%s", secret);
    for (int i = 0; i < DT_LAUNCH_PLACE_VARIABLES; i++)
        out->variables[kept++] = out->place[i];
    return DT_OK;
}

void dt_launch_environment_finish(struct dt_launch_environment *environment)
{
    free(environment->variables);
    environment->variables = NULL;
}

dt_status dt_launch_reserve_port(int *out_fd, int *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        dt_fail(DT_ERR_IO, "no port on 127.0.0.1 for the rendezvous of the ranks: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return DT_ERR_IO;
    }
    *out_fd = fd;
    *out_port = ntohs(address.sin_port);
    return DT_OK;
}
