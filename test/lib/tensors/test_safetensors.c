#include "lib/tensors/safetensors.h"
#include "test/check.h"

#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/test_safetensors_XXXXXX";

static void put(const void *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0, "cannot write %s", path);
}

/* A header with its length, and `after` bytes. */
static void put_header(const char *header, size_t after)
{
    char bytes[4096] = {0};
    size_t length = strlen(header);
    bytes[0] = (char)length;
    bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, header, length);
    put(bytes, 8 + length + after);
}

static void written_and_read(void)
{
    struct dt_tensor tensors[] = {{.name = "b.weight", .dtype = DT_FP32, .dimensions = 2, .shape = {3, 5}},
                                  {.name = "a", .dtype = DT_BF16, .dimensions = 1, .shape = {7}}};
    struct dt_tensor_file file;
    char *header, bytes[1024] = {0};
    size_t length;
    CHECK_OK(dt_tensor_header(tensors, 2, &header, &length));
    CHECK(length % 8 == 0 && tensors[0].first_byte == length && tensors[1].first_byte == length + 60 && tensors[1].bytes == 14, "%zu bytes",
          length);
    memcpy(bytes, header, length);
    free(header);
    bytes[length + 59] = 3;
    put(bytes, length + 74);
    CHECK_OK(dt_tensor_file_open(path, &file));
    const struct dt_tensor *b = dt_tensor_find(&file, "b.weight");
    CHECK(file.count == 2 && b && b->dimensions == 2 && b->shape[1] == 5 && b->dtype == DT_FP32, "not as written");
    CHECK(b && ((const char *)dt_tensor_bytes(&file, b))[59] == 3 && dt_tensor_elems(b) == 15, "not its bytes");
    CHECK(dt_tensor_find(&file, "a") && !dt_tensor_find(&file, "c"), "not found");
    dt_tensor_file_close(&file);
    put(bytes, length + 73);
    CHECK(dt_tensor_file_open(path, &file) == DT_ERR_INVALID && strstr(dt_error_message(), "the tensor a is not where"), "%s",
          dt_error_message());
}

static void what_others_write(void)
{
    struct dt_tensor_file file;
    put_header(
        "{\"x\":{\"shape\":[2,2],\"dtype\":\"F16\",\"data_offsets\":[8,16]},\"n\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"__metadata__\":{\"format\":\"pt\"},\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[16,20]}}  ",
        20);
    CHECK_OK(dt_tensor_file_open(path, &file));
    CHECK(file.count == 2 && dt_tensor_find(&file, "x") && dt_tensor_elems(dt_tensor_find(&file, "s")) == 1, "%d tensors", file.count);
    dt_tensor_file_close(&file);
}

static void damaged_files(void)
{
    static const char *const headers[] = {
        "[]",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[281474976710655,281474976710655],\"data_offsets\":[0,8]}}",
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}",
    };
    struct dt_tensor_file file;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        put_header(headers[i], 8);
        CHECK(dt_tensor_file_open(path, &file) == DT_ERR_INVALID && strstr(dt_error_message(), path), "%s: %s", headers[i],
              dt_error_message());
    }
    put("abc", 3);
    CHECK(dt_tensor_file_open(path, &file) == DT_ERR_INVALID, "three bytes");
    put("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    CHECK(dt_tensor_file_open(path, &file) == DT_ERR_INVALID, "a header that is longer than the file");
    unlink(path);
    CHECK(dt_tensor_file_open(path, &file) == DT_ERR_IO, "no file");
}

static const struct test_case cases[] = {{"what is written is read", written_and_read},
                                         {"what others write is read", what_others_write},
                                         {"damaged files are refused", damaged_files}};

int main(void)
{
    close(mkstemp(path));
    int failed = test_main(cases, 3);
    unlink(path);
    return failed;
}
