/* What the ranks of one job know and nobody else does, so that they can prove to each other that they belong together (lib/rendezvous).
 *
 * It comes from, in this order,
 *   DTBENCH_SECRET   a text of at least 16 characters, the same for all ranks: dtbench makes one for ranks that it starts itself; users pass
 *                    one where nodes do not share the key file (srun passes the environment on, mpirun with -x DTBENCH_SECRET)
 *   the key file     $XDG_STATE_HOME/dtbench/key, or ~/.local/state/dtbench/key: 32 random bytes, made once, which its owner alone can read
 *   nothing          a folder that takes no file, or a file that others can read: whoever reaches the port may then join
 * and from the numbers by which launcher and Slurm distinguish jobs, so that jobs with one key have different secrets. */
#ifndef LIB_LAUNCH_SECRET_H
#define LIB_LAUNCH_SECRET_H

#include "lib/base/keyed_hash.h"
#include "lib/base/status.h"
#include "lib/launch/world.h"

#define DT_SECRET_VARIABLE "DTBENCH_SECRET"

enum dt_secret_source { DT_SECRET_FROM_NOTHING, DT_SECRET_FROM_VARIABLE, DT_SECRET_FROM_FILE };

struct dt_secret {
    uint8_t bytes[DT_KEY_BYTES];
    enum dt_secret_source source;
    char missing[300]; /* why there is none, where that is so */
};

/* The secret of this process's job. The first call of a user makes the key file. Errors: DT_ERR_WORLD for a variable that is too short. */
dt_status dt_secret_of_job(const struct dt_world *world, struct dt_secret *out);
/* "variable", "file", "none", as records have it. */
const char *dt_secret_source_name(enum dt_secret_source source);

enum { DT_SECRET_TEXT_BYTES = 2 * DT_KEY_BYTES + 1 };
/* A new one as text, for the variable. Errors: DT_ERR_IO. */
dt_status dt_secret_make(char text[DT_SECRET_TEXT_BYTES]);

#endif
