/* A library for LD_PRELOAD that counts the communicators that a rank makes. Each rank adds a line
 * to the file MPI_CALLS: its number of worlds, and of subsets. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int worlds, subsets; /* globals, since MPI's functions have no context argument */

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out)
{
    worlds++;
    return PMPI_Comm_dup(comm, out);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    subsets++;
    return PMPI_Comm_split(comm, color, key, out);
}

int MPI_Finalize(void)
{
    FILE *file = fopen(getenv("MPI_CALLS"), "a");
    if (file) {
        fprintf(file, "%d %d\n", worlds, subsets);
        fclose(file);
    }
    return PMPI_Finalize();
}
