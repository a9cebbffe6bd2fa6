/* Who this process is among the ranks of a job: read from the launcher's environment variables.
 *
 * Known launchers, looked for in this order (mpirun inside sbatch leaves every rank SLURM_PROCID = 0, so MPI's variables win over Slurm's):
 *   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   mpirun     OMPI_COMM_WORLD_RANK/_SIZE/_LOCAL_RANK/_LOCAL_SIZE (OpenMPI), PMIX_RANK, PMI_RANK/PMI_SIZE (MPICH)
 *   srun       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST
 *   none       one process alone */
#ifndef LIB_LAUNCH_WORLD_H
#define LIB_LAUNCH_WORLD_H

#include "lib/base/status.h"

#include <stdbool.h>

struct dt_world {
    int rank, size;             /* 0 and 1 when alone */
    int local_rank, local_size; /* among the ranks of this machine */
    char launcher[16];          /* "none", "torchrun", "mpirun", "srun" */
};

/* Read the environment; touches nothing else. DT_ERR_WORLD, naming the variables, where they contradict each other or are not numbers. */
dt_status dt_world_from_environment(struct dt_world *out);

enum { DT_ADDRESS_BYTES = 256 };

/* The rendezvous of a world's ranks where MPI does not connect them: the host on which rank 0 listens, and its port. The same on all
 * ranks, with nothing said between them:
 *   torchrun   MASTER_ADDR, MASTER_PORT; the next port where torchrun itself listens at that one (TORCHELASTIC_USE_AGENT_STORE=True)
 *   srun       the first node of SLURM_STEP_NODELIST, where Slurm puts rank 0 (except with --distribution=arbitrary); a port from 20000 to
 *              29999 that follows from the numbers of job and step
 *   the rest   this machine, when all ranks are on it
 * MASTER_ADDR and MASTER_PORT go first under any launcher.
 * Errors: DT_ERR_WORLD, naming the variable that is missing or wrong. */
dt_status dt_world_meeting_point(const struct dt_world *world, char address[DT_ADDRESS_BYTES], int *port);

#endif
