#include "lib/launch/mpirun.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The launcher is kept on this machine whatever allocation it finds itself in, and talks to its ranks over the loopback only. Ranks stand
 * beside each other on as many cores as there are, not bound, because each has threads of its own; they end at once. All of this is in
 * the environment, where each launcher reads its own names and leaves the others' alone: none would start with another's options. */
static const char *const settings[] = {
    /* A rank that ends waits two seconds for the launcher to have heard it (PMIx_Finalize), and then goes. A busy one hears it later, and
     * would call a run that has done everything a failure. What is really missing the supervisor sees itself. */
    "OMPI_MCA_orte_allowed_exit_without_sync=1",
    "PRTE_MCA_prte_allowed_exit_without_sync=1",
    /* Open MPI 4 */
    "OMPI_MCA_plm=isolated",
    "OMPI_MCA_ras=^slurm,gridengine,tm,lsf,alps,loadleveler",
    "OMPI_MCA_oob_tcp_if_include=lo",
    "OMPI_MCA_odls_base_sigkill_timeout=0",
    "OMPI_MCA_rmaps_base_oversubscribe=1",
    "OMPI_MCA_hwloc_base_binding_policy=none",
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    /* Open MPI 5, whose launcher is PRRTE */
    "PRTE_MCA_plm=ssh",
    "PRTE_MCA_ras=^slurm,gridengine,pbs,lsf",
    "PMIX_MCA_ptl_tcp_if_include=lo",
    "PRTE_MCA_odls_base_sigkill_timeout=0",
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy=none",
    "PRTE_ALLOW_RUN_AS_ROOT=1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    /* MPICH, whose launcher is Hydra */
    "HYDRA_LAUNCHER=fork",
    "HYDRA_IFACE=lo",
    /* all of them ask hwloc what the machine has. Its screens are not of interest, and each rank would ask ten X servers by name: a minute,
     * where "localhost" is in no list of hosts and the name server does not answer */
    "HWLOC_COMPONENTS=-gl",
    NULL,
};

const char *const *dt_mpirun_settings(void)
{
    return settings;
}

/* "[[4711,1],2]" (Open MPI 4), "[prterun-a-4711@1,2]" (5) */
static bool read_process_name(const char *name, int *out_rank)
{
    const char *last = NULL;
    for (const char *c = name; *c && *c != '\n'; c++)
        if (*c == ',')
            last = c;
    return last && sscanf(last, ",%d]", out_rank) == 1;
}

bool dt_mpirun_names_rank(const char *noise, int *out_rank, int *out_signal, int *out_exit_code)
{
    *out_signal = *out_exit_code = 0;
    /* a blank in a pattern is also a line break, which may be anywhere */
    const char *found = strstr(noise, "noticed that process rank ");
    if (found && sscanf(found, "noticed that process rank %d", out_rank) == 1) {
        const char *exited = strstr(found, "exited");
        if (exited)
            sscanf(exited, "exited on signal %d", out_signal);
        return true;
    }
    found = strstr(noise, "Process name:");
    if (found && read_process_name(found, out_rank)) {
        const char *code = strstr(found, "Exit code:");
        if (code)
            sscanf(code, "Exit code: %d", out_exit_code);
        return true;
    }
    return false;
}
