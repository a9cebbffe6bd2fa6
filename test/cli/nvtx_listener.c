/* Listens to NVTX like a profiler: NVTX loads it if NVTX_INJECTION64_PATH names it. It writes every
 * range's beginning ("> NAME") and end ("<") to the file that NVTX_LISTENER_OUTPUT names. For
 * test/cli/test_trace.py. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *output;

static int NVTX_API on_push(const char *name)
{
    fprintf(output, "> %s\n", name);
    return 0;
}

static int NVTX_API on_pop(void)
{
    fprintf(output, "<\n");
    fflush(output);
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table)
{
    const NvtxExportTableCallbacks *callbacks = export_table(NVTX_ETID_CALLBACKS);
    const char *path = getenv("NVTX_LISTENER_OUTPUT");
    NvtxFunctionTable table;
    unsigned int size;
    if (!path || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) || !(output = fopen(path, "w")))
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)on_push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)on_pop;
    return 1;
}
