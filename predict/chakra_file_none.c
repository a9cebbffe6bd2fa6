/* Without protobuf-c there are no Chakra traces. */
#include "predict/chakra_file.h"

dt_status chakra_file_create(const char *path, int rank, int world_size, struct chakra_file **out)
{
    *out = NULL;
    return dt_fail(DT_ERR_UNAVAILABLE,
                   "%s: this dtbench was built without protobuf-c, which writes Chakra traces (Debian: libprotobuf-c-dev, "
                   "protobuf-c-compiler)",
                   path);
}

dt_status chakra_file_add(struct chakra_file *file, const struct chakra_node *node)
{
    return DT_OK;
}

dt_status chakra_file_close(struct chakra_file *file)
{
    return DT_OK;
}
