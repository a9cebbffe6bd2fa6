/* The port on which rank 0 listens. */
#include "lib/base/clock.h"
#include "lib/rendezvous/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long a port may be in use. */
static const double port_s = 2;

static int listen_at(const struct addrinfo *a, int *out_error)
{
    int yes = 1, no = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* connections of the previous world may still exist */
        /* this address family only, or with AI_PASSIVE all IPv4 addresses, too */
        if (a->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, a->ai_flags & AI_PASSIVE ? &no : &yes, sizeof no);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0)
            return fd;
    }
    *out_error = errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool is_loopback(const struct addrinfo *a)
{
    if (a->ai_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr.s_addr) >> 24 == 127;
    return a->ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr);
}

/* Is the text a name or address of the loopback? "localhost" is used as given. */
static bool names_loopback(const char *address)
{
    struct in6_addr bytes;
    return strcmp(address, "localhost") == 0 || inet_pton(AF_INET, address, &bytes) == 1 || inet_pton(AF_INET6, address, &bytes) == 1;
}

/* Listen where the others look: at this machine's addresses of `node` (NULL: the loopback's, or
 * with AI_PASSIVE all). Returns 0, or an errno. Only a port in use is final: a machine may have no
 * IPv6, and a name may have addresses of other machines. */
static int try_addresses(const struct dt_rendezvous_place *place, const char *node, int flags, struct dt_port *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *list = NULL;
    bool all = flags & AI_PASSIVE;
    char port[16];
    int error = EADDRNOTAVAIL;
    snprintf(port, sizeof port, "%d", place->port);
    if (getaddrinfo(node, port, &hints, &list) != 0)
        return error;
    for (int turn = 0; turn < 2; turn++) {
        int family = turn == 0 ? AF_INET6 : AF_INET;
        for (const struct addrinfo *a = list; a && error != EADDRINUSE && out->count < (all ? 1 : DT_PORT_SOCKETS); a = a->ai_next) {
            bool useful = a->ai_family == family && (!node || !is_loopback(a) || names_loopback(node));
            int fd = useful ? listen_at(a, &error) : -1;
            if (fd >= 0)
                out->fd[out->count++] = fd;
        }
    }
    freeaddrinfo(list);
    return out->count > 0 && error != EADDRINUSE ? 0 : error;
}

static int try_to_listen(const struct dt_rendezvous_place *place, struct dt_port *out)
{
    if (place->local)
        return try_addresses(place, NULL, 0, out);
    int error = try_addresses(place, place->address, 0, out);
    return error == 0 || error == EADDRINUSE ? error : try_addresses(place, NULL, AI_PASSIVE, out);
}

void dt_port_close(struct dt_port *port)
{
    while (port->count > 0)
        close(port->fd[--port->count]);
}

dt_status dt_port_open(const struct dt_rendezvous_place *place, const char *name, struct dt_port *out)
{
    int64_t end_ns = dt_deadline_ns(port_s);
    *out = (struct dt_port){.count = 0};
    int error = try_to_listen(place, out);
    while (error == EADDRINUSE && !dt_deadline_passed(end_ns)) {
        dt_port_close(out);
        dt_sleep_ms(50);
        error = try_to_listen(place, out);
    }
    if (error == EADDRINUSE)
        return dt_fail(DT_ERR_WORLD,
                       "the ranks cannot connect at %s: the port is in use, by another job or program; set MASTER_PORT to one that is free",
                       name);
    return error == 0 ? DT_OK : dt_fail(DT_ERR_IO, "rank 0 cannot listen at %s: %s", name, strerror(error));
}
