#include "gpt/cuda/cublaslt.h"

#include "lib/base/shared_library.h"

/* "libcublasLt.so.13": the library of the CUDA major version with which this was compiled, because
 * enumerations and structures can differ in another one. */
#define NAME_OF(major) "libcublasLt.so." #major
#define NAME_OF_MAJOR(major) NAME_OF(major)
static const char library_name[] = NAME_OF_MAJOR(CUBLAS_VER_MAJOR);
static const char remedy[] =
    "load CUDA's module (module load cuda), add the library's folder to LD_LIBRARY_PATH, or name CUDA's in CUDA_HOME";

static dt_status find_functions(void *library, struct gpt_cublaslt *out)
{
#define ROW(member, function) {#function, &out->member},
    const struct dt_shared_function all[] = {GPT_CUBLASLT(ROW)};
    const char *missing = dt_shared_library_find(library, all, sizeof all / sizeof all[0]);
    return missing ? dt_fail(DT_ERR_UNAVAILABLE, "cuBLASLt has no %s; needs %s", missing, library_name) : DT_OK;
}

dt_status gpt_cublaslt_load(struct gpt_cublaslt *out)
{
    char reason[512];
    void *library = dt_shared_library_open(library_name, "DTBENCH_LIBCUBLASLT", DTBENCH_CUDA_HOME, reason, sizeof reason);
    char other[512];
    if (!library) /* a folder may have the library without a version in its name */
        library = dt_shared_library_open("libcublasLt.so", "DTBENCH_LIBCUBLASLT", DTBENCH_CUDA_HOME, other, sizeof other);
    if (!library)
        return dt_fail(DT_ERR_UNAVAILABLE, "cuBLASLt cannot be loaded: %s; %s", reason, remedy);
    DT_TRY(find_functions(library, out));
    size_t version = out->get_version(); /* major * 10000 + minor * 100 + patch */
    if (version / 10000 != CUBLAS_VER_MAJOR)
        return dt_fail(DT_ERR_UNAVAILABLE, "cuBLASLt %zu.%zu was found, but this program needs %s: %s", version / 10000,
                       version / 100 % 100, library_name, remedy);
    return DT_OK;
}
