/* This process beside its GPU: on the processors of the NUMA node that the GPU is connected to. */
#include "lib/device/cuda/parts.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0-15,64-79", as Linux writes lists of processors. False: it is none. */
static bool read_list(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (const char *at = text; *at && *at != '\n';) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at || first < 0)
            return false;
        at = end;
        if (*at == '-') {
            last = strtol(at + 1, &end, 10);
            if (end == at + 1 || last < first)
                return false;
            at = end;
        }
        for (long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET((int)i, out);
        if (*at == ',')
            at++;
        else if (*at && *at != '\n')
            return false;
    }
    return true;
}

static bool processors_of(const char *folder, const char *address, cpu_set_t *out)
{
    char path[256], line[4096] = "";
    int used = snprintf(path, sizeof path, "%s/%s/local_cpulist", folder, address);
    if (used < 0 || used >= (int)sizeof path)
        return false;
    for (char *c = path + strlen(folder); *c; c++)
        *c = (char)tolower((unsigned char)*c); /* CUDA writes addresses in capitals, the system in small letters */
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool read = fgets(line, sizeof line, file) && read_list(line, out);
    fclose(file);
    return read;
}

bool dt_cuda_bind_near(const char *folder, const char *address)
{
    cpu_set_t near, allowed, both;
    if (!processors_of(folder, address, &near) || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    CPU_AND(&both, &near, &allowed);
    if (CPU_COUNT(&both) == 0 || CPU_EQUAL(&both, &allowed))
        return false;
    return sched_setaffinity(0, sizeof both, &both) == 0;
}
