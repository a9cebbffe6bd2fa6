/* The emulated devices: their number and properties; errors; the beginning and end of every
 * call. */
#include "test/cuda_emulator/runtime/runtime.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/types.h>
#include <unistd.h>

namespace emulator {

namespace {

struct error_text {
    cudaError_t error;
    const char *name, *text;
};
const error_text error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration of a launch"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid direction of a copy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "the driver is too old for this runtime"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "no such device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "not possible in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "not ready yet"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "illegal memory access"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "a launch asks for too many resources"},
    {cudaErrorAssert, "cudaErrorAssert", "an assertion failed on the device"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "a launch failed"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "not permitted while a stream is captured"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "the capture was broken by an earlier error"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "two captures would merge"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the capture did not begin in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "work of the capture is not joined to the stream it began in"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "a captured operation would depend on uncaptured work"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit", "the default stream would depend on captured work"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "not permitted on an event last recorded in a capture"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread", "the capture began in another thread"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;
thread_local bool thread_has_chosen = false;
std::atomic<int> chosen_last{0}; /* by any thread */
thread_local bool calls_forbidden = false;

long environment_number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, nullptr, 10) : otherwise;
}

int physical_devices()
{
    return (int)environment_number("DTBENCH_EMULATED_GPUS", 2);
}

cudaUUID_t uuid_of(int physical)
{
    cudaUUID_t uuid = {};
    memcpy(uuid.bytes, "emulated", 8);
    uuid.bytes[15] = (char)physical;
    return uuid;
}

/* As the driver writes and reads it: "GPU-656d756c-6174-6564-0000-000000000001". */
std::string uuid_text(int physical)
{
    char text[48];
    cudaUUID_t uuid = uuid_of(physical);
    const unsigned char *b = (const unsigned char *)uuid.bytes;
    snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
             b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return text;
}

/* The devices that CUDA_VISIBLE_DEVICES leaves, in its order: numbers, or beginnings of UUIDs; the
 * first that names none ends the list. */
std::vector<int> find_visible()
{
    std::vector<int> found;
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        for (int i = 0; i < physical_devices(); i++)
            found.push_back(i);
        return found;
    }
    while (*list) {
        std::string one(list, strcspn(list, ","));
        int physical = -1;
        if (one.compare(0, 4, "GPU-") == 0) {
            for (int i = 0; i < physical_devices(); i++)
                if (uuid_text(i).compare(0, one.size(), one) == 0)
                    physical = i;
        } else {
            char *end;
            long number = strtol(one.c_str(), &end, 10);
            physical = end != one.c_str() && number >= 0 && number < physical_devices() ? (int)number : -1;
        }
        if (physical < 0)
            break;
        found.push_back(physical);
        list += one.size() + (list[one.size()] == ',');
    }
    return found;
}

/* Read once, as the driver does. */
const std::vector<int> &visible()
{
    static const std::vector<int> *devices = new std::vector<int>(find_visible());
    return *devices;
}

int attribute_of(enum cudaDeviceAttr attribute)
{
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxGridDimX: return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 48 << 10;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMultiProcessorCount: return 4;
    case cudaDevAttrL2CacheSize: return 64 << 10; /* small: who goes past it need not go far */
    case cudaDevAttrAsyncEngineCount: return 3;
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 228 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: /* what simt.cpp allows: kernels must do with compute capability 8.0 */
        return (int)environment_number("DTBENCH_EMULATED_GPU_SHARED_KIB", 163) << 10;
    }
    return -1;
}

} // namespace

state &the()
{
    static state *all = new state;
    return *all;
}

cudaError_t enter()
{
    static const pid_t owner = getpid();
    if (calls_forbidden)
        return cudaErrorNotPermitted;
    if (getpid() != owner)
        return cudaErrorInitializationError;
    if (visible().empty())
        return cudaErrorNoDevice;
    return (cudaError_t)the().failure.load();
}

cudaError_t enter_context()
{
    if (!thread_has_chosen && chosen_last != 0)
        emulator_fault(cudaErrorInvalidDevice, "a thread that has chosen no GPU would open a context on GPU 0; the process uses GPU %d",
                       chosen_last.load());
    return enter();
}

cudaError_t leave(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

int current_device()
{
    return device_of_thread;
}
int visible_devices()
{
    return (int)visible().size();
}
size_t device_memory_bytes()
{
    return (size_t)environment_number("DTBENCH_EMULATED_GPU_BYTES", 4l << 30);
}
long limit_of_gpu(const char *variable)
{
    const char *text = getenv(variable), *colon = text ? strchr(text, ':') : nullptr;
    size_t device = (size_t)chosen_last.load();
    bool meant = colon && device < visible().size() && strtol(text, nullptr, 10) == visible()[device];
    return meant ? strtol(colon + 1, nullptr, 10) : -1;
}
void forbid_calls(bool forbid)
{
    calls_forbidden = forbid;
}

} // namespace emulator

using namespace emulator;

cudaError_t emulator_error(cudaError_t error)
{
    return leave(error);
}

extern "C" {

const char *cudaGetErrorName(cudaError_t error)
{
    for (const error_text &e : error_texts)
        if (e.error == error)
            return e.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const error_text &e : error_texts)
        if (e.error == error)
            return e.text;
    return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError(void)
{
    int failure = the().failure;
    return failure ? (cudaError_t)failure : last_error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = visible_devices();
    return leave(enter());
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && (device < 0 || device >= visible_devices()))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess) {
        device_of_thread = device;
        thread_has_chosen = true;
        chosen_last = device;
    }
    return leave(error);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = device_of_thread;
    return leave(enter());
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    return leave(flags > cudaDeviceScheduleBlockingSync ? cudaErrorInvalidValue : enter());
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && (device < 0 || device >= visible_devices()))
        error = cudaErrorInvalidDevice;
    if (error != cudaSuccess)
        return leave(error);
    *value = attribute_of(attribute);
    return leave(*value < 0 ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int text_bytes, int device)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && (device < 0 || device >= visible_devices()))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess)
        snprintf(text, (size_t)text_bytes, "0000:%02X:00.0", getenv("DTBENCH_EMULATED_MIG") ? 1 : visible()[(size_t)device] + 1);
    return leave(error);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && (device < 0 || device >= visible_devices()))
        error = cudaErrorInvalidDevice;
    if (error != cudaSuccess)
        return leave(error);
    *properties = cudaDeviceProp();
    strcpy(properties->name, "emulated GPU");
    int physical = visible()[(size_t)device];
    properties->uuid = uuid_of(physical);
    properties->totalGlobalMem = device_memory_bytes();
    properties->sharedMemPerBlock = (size_t)attribute_of(cudaDevAttrMaxSharedMemoryPerBlock);
    properties->sharedMemPerBlockOptin = (size_t)attribute_of(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    properties->sharedMemPerMultiprocessor = (size_t)attribute_of(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    properties->warpSize = attribute_of(cudaDevAttrWarpSize);
    properties->maxThreadsPerBlock = attribute_of(cudaDevAttrMaxThreadsPerBlock);
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxGridSize[0] = attribute_of(cudaDevAttrMaxGridDimX);
    properties->maxGridSize[1] = properties->maxGridSize[2] = attribute_of(cudaDevAttrMaxGridDimY);
    properties->major = attribute_of(cudaDevAttrComputeCapabilityMajor);
    properties->minor = attribute_of(cudaDevAttrComputeCapabilityMinor);
    properties->multiProcessorCount = attribute_of(cudaDevAttrMultiProcessorCount);
    properties->l2CacheSize = attribute_of(cudaDevAttrL2CacheSize);
    properties->asyncEngineCount = attribute_of(cudaDevAttrAsyncEngineCount);
    properties->pciBusID = physical + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return leave(enter());
}

} // extern "C"
