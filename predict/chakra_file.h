/* A file of an execution trace in MLCommons' Chakra format: protobuf messages, each preceded by its
 * length. Written by protobuf-c; chakra_file_none.c replaces this in builds without it. Only
 * chakra.c uses it. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are the format's NodeType. */
enum chakra_kind { CHAKRA_LOAD = 2, CHAKRA_STORE = 3, CHAKRA_COMPUTE = 4, CHAKRA_SEND = 5, CHAKRA_RECEIVE = 6, CHAKRA_COLLECTIVE = 7 };

struct chakra_node {
    uint64_t id;
    const char *name;
    enum chakra_kind kind;
    const uint64_t *data_deps, *ctrl_deps; /* [.._count] ids of nodes that this one depends on: for data; because the host has waited */
    size_t data_count, ctrl_count;
    uint64_t duration_us; /* of the node's work */
    uint64_t bytes;       /* of copies, messages and collectives */
    bool on_host;
    int collective;      /* the format's CollectiveCommType */
    int group, from, to; /* of communication: number of the communicator; of messages: world ranks */
};

struct chakra_file;

/* Errors: DT_ERR_UNAVAILABLE without protobuf-c, DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status chakra_file_create(const char *path, int rank, int world_size, struct chakra_file **out);
dt_status chakra_file_add(struct chakra_file *file, const struct chakra_node *node);
dt_status chakra_file_close(struct chakra_file *file); /* takes NULL */
