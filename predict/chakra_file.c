#include "predict/chakra_file.h"

#include "lib/base/grow.h"
#include "predict/chakra.pb-c.h"

#include <stdio.h>
#include <stdlib.h>

enum { ATTRIBUTES = 8, VARINT_BYTES = 10 };

struct chakra_file {
    FILE *to;
    char path[512];
    uint8_t *bytes; /* buffer of the packed message */
    size_t room;
};

/* Attributes of one message, on the caller's stack. */
struct attributes {
    ChakraProtoMsg__AttributeProto all[ATTRIBUTES], *pointers[ATTRIBUTES];
    size_t count;
};

static ChakraProtoMsg__AttributeProto *add_attribute(struct attributes *a, const char *name, ChakraProtoMsg__AttributeProto__ValueCase kind)
{
    ChakraProtoMsg__AttributeProto *attribute = &a->all[a->count];
    chakra_proto_msg__attribute_proto__init(attribute);
    attribute->name = (char *)name;
    attribute->value_case = kind;
    a->pointers[a->count++] = attribute;
    return attribute;
}

static void add_int32(struct attributes *a, const char *name, int value)
{
    add_attribute(a, name, CHAKRA_PROTO_MSG__ATTRIBUTE_PROTO__VALUE_INT32_VAL)->int32_val = value;
}

static void add_int64(struct attributes *a, const char *name, int64_t value)
{
    add_attribute(a, name, CHAKRA_PROTO_MSG__ATTRIBUTE_PROTO__VALUE_INT64_VAL)->int64_val = value;
}

/* Write a message of this size, which `pack` puts into the buffer: first its length in base 128. */
static dt_status write_message(struct chakra_file *f, const ProtobufCMessage *message)
{
    uint8_t length[VARINT_BYTES];
    size_t size = protobuf_c_message_get_packed_size(message), used = 0;
    if (size > f->room) {
        DT_TRY(dt_allocated(dt_resize(&f->bytes, 2 * size), "%s: no host memory", f->path));
        f->room = 2 * size;
    }
    for (size_t left = size; used == 0 || left > 0; left >>= 7)
        length[used++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
    protobuf_c_message_pack(message, f->bytes);
    bool written = fwrite(length, 1, used, f->to) == used && fwrite(f->bytes, 1, size, f->to) == size;
    return written ? DT_OK : dt_fail(DT_ERR_IO, "%s: cannot be written", f->path);
}

dt_status chakra_file_create(const char *path, int rank, int world_size, struct chakra_file **out)
{
    struct chakra_file *f = calloc(1, sizeof *f);
    struct attributes attributes = {.count = 0};
    ChakraProtoMsg__GlobalMetadata metadata = CHAKRA_PROTO_MSG__GLOBAL_METADATA__INIT;
    *out = f;
    DT_TRY(dt_allocated(f, "%s: no host memory", path));
    snprintf(f->path, sizeof f->path, "%s", path);
    f->to = fopen(path, "wb");
    if (!f->to)
        return dt_fail(DT_ERR_IO, "%s: cannot be written", path);
    add_int32(&attributes, "rank", rank);
    add_int32(&attributes, "world_size", world_size);
    metadata.version = "0.0.4";
    metadata.attr = attributes.pointers;
    metadata.n_attr = attributes.count;
    return write_message(f, &metadata.base);
}

/* Names and types of attributes are those that Chakra's feeder reads (src/feeder_v3 of
 * mlcommons/chakra). */
static void describe(const struct chakra_node *node, char group[16], struct attributes *a)
{
    add_attribute(a, "is_cpu_op", CHAKRA_PROTO_MSG__ATTRIBUTE_PROTO__VALUE_BOOL_VAL)->bool_val = node->on_host;
    switch (node->kind) {
    case CHAKRA_COMPUTE: break;
    case CHAKRA_LOAD:
    case CHAKRA_STORE:
        add_attribute(a, "tensor_size", CHAKRA_PROTO_MSG__ATTRIBUTE_PROTO__VALUE_UINT64_VAL)->uint64_val = node->bytes;
        break;
    case CHAKRA_COLLECTIVE: add_int64(a, "comm_type", node->collective); break;
    case CHAKRA_SEND:
    case CHAKRA_RECEIVE:
        add_int32(a, "comm_src", node->from);
        add_int32(a, "comm_dst", node->to);
        add_int32(a, "comm_tag", node->group);
    }
    if (node->kind >= CHAKRA_SEND) {
        add_int64(a, "comm_size", (int64_t)node->bytes);
        snprintf(group, 16, "%d", node->group);
        add_attribute(a, "pg_name", CHAKRA_PROTO_MSG__ATTRIBUTE_PROTO__VALUE_STRING_VAL)->string_val = group;
    }
}

dt_status chakra_file_add(struct chakra_file *f, const struct chakra_node *node)
{
    char group[16];
    struct attributes attributes = {.count = 0};
    ChakraProtoMsg__Node message = CHAKRA_PROTO_MSG__NODE__INIT;
    describe(node, group, &attributes);
    message.id = node->id;
    message.name = (char *)node->name;
    message.type = (ChakraProtoMsg__NodeType)node->kind;
    message.data_deps = (uint64_t *)node->data_deps;
    message.n_data_deps = node->data_count;
    message.ctrl_deps = (uint64_t *)node->ctrl_deps;
    message.n_ctrl_deps = node->ctrl_count;
    message.duration_micros = node->duration_us;
    message.attr = attributes.pointers;
    message.n_attr = attributes.count;
    return write_message(f, &message.base);
}

dt_status chakra_file_close(struct chakra_file *f)
{
    if (!f)
        return DT_OK;
    bool failed = f->to && fclose(f->to) != 0;
    dt_status status = failed ? dt_fail(DT_ERR_IO, "%s: cannot be written", f->path) : DT_OK;
    free(f->bytes);
    free(f);
    return status;
}
