#include "vision/cuda/cudnn.h"

#include "lib/base/shared_library.h"

static const char library_name[] = "libcudnn.so.9";
static const char remedy[] = "install cuDNN 9, add the folder of its libraries to LD_LIBRARY_PATH, or name the file in DTBENCH_LIBCUDNN";

static dt_status find_functions(void *library, struct vision_cudnn *out)
{
#define ROW(member, symbol, ...) {#symbol, &out->member},
    const struct dt_shared_function all[] = {VISION_CUDNN(ROW)};
#undef ROW
    const char *missing = dt_shared_library_find(library, all, sizeof all / sizeof all[0]);
    return missing ? dt_fail(DT_ERR_UNAVAILABLE, "cuDNN has no %s; needs %s", missing, library_name) : DT_OK;
}

dt_status vision_cudnn_load(struct vision_cudnn *out)
{
    char reason[512], other[512];
    void *library = dt_shared_library_open(library_name, "DTBENCH_LIBCUDNN", DTBENCH_CUDA_HOME, reason, sizeof reason);
    if (!library) /* a folder may have the library without a version in its name */
        library = dt_shared_library_open("libcudnn.so", "DTBENCH_LIBCUDNN", DTBENCH_CUDA_HOME, other, sizeof other);
    if (!library)
        return dt_fail(DT_ERR_UNAVAILABLE, "cuDNN cannot be loaded: %s; convolutions on GPUs need it: %s", reason, remedy);
    DT_TRY(find_functions(library, out));
    size_t version = out->get_version(); /* cuDNN 9 and later: major * 10000 + minor * 100 + patch; before: major * 1000 */
    size_t major = version / (version < 10000 ? 1000 : 10000);
    if (major != CUDNN_9)
        return dt_fail(DT_ERR_UNAVAILABLE, "cuDNN %zu was found, but this program needs %s: %s", major, library_name, remedy);
    return DT_OK;
}
