#include "lib/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_CHARACTERS = 16, PATH_BYTES = 4096 };

const char *dt_secret_source_name(enum dt_secret_source source)
{
    static const char *const names[] = {"none", "variable", "file"};
    return names[source];
}

dt_status dt_secret_make(char text[DT_SECRET_TEXT_BYTES])
{
    uint8_t bytes[DT_KEY_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return dt_fail(DT_ERR_IO, "no random numbers for the ranks' secret: %s", strerror(errno));
    for (int i = 0; i < DT_KEY_BYTES; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    return DT_OK;
}

/* ---- the key file ---- */

/* Folder of the key file. False: no environment variable gives one. */
static bool find_folder(char path[PATH_BYTES])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        return snprintf(path, PATH_BYTES, "%s/dtbench", state) < PATH_BYTES;
    return home && *home == '/' && snprintf(path, PATH_BYTES, "%s/.local/state/dtbench", home) < PATH_BYTES;
}

/* Create parent folders, too. Failures are detected when a file is created there. */
static void make_folder(const char *path)
{
    char part[PATH_BYTES];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        mkdir(part, 0700);
    }
    mkdir(path, 0700);
}

/* Write it under a temporary name first, so that no process reads half of it, and if several
 * processes create one, the first wins. */
static bool make_file(const char *folder, const char *path)
{
    char temporary[PATH_BYTES], text[DT_SECRET_TEXT_BYTES];
    size_t bytes = DT_SECRET_TEXT_BYTES - 1;
    if (dt_secret_make(text) < 0 || snprintf(temporary, sizeof temporary, "%s/key.XXXXXX", folder) >= PATH_BYTES)
        return false;
    make_folder(folder);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool made = write(fd, text, bytes) == (ssize_t)bytes && fsync(fd) == 0 && (link(temporary, path) == 0 || errno == EEXIST);
    int error = errno;
    unlink(temporary);
    close(fd);
    errno = error;
    return made;
}

/* Accept only a file of this user that nobody else can read or write. Returns NULL with the
 * contents in `text`, or the reason. */
static const char *read_file(const char *path, char text[DT_SECRET_TEXT_BYTES])
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return strerror(errno);
    ssize_t got = read(fd, text, DT_SECRET_TEXT_BYTES - 1);
    bool known = fstat(fd, &facts) == 0;
    close(fd);
    if (!known || !S_ISREG(facts.st_mode))
        return "it is no file";
    if (facts.st_uid != geteuid())
        return "it is another user's";
    if (facts.st_mode & 077)
        return "others can read or write it: chmod 600";
    if (got != DT_SECRET_TEXT_BYTES - 1)
        return "it is too short: remove it, and a new one is made";
    text[DT_SECRET_TEXT_BYTES - 1] = 0;
    return NULL;
}

static bool text_of_file(char text[DT_SECRET_TEXT_BYTES], char *missing, size_t missing_bytes)
{
    char folder[PATH_BYTES], path[PATH_BYTES];
    if (!find_folder(folder) || snprintf(path, sizeof path, "%s/key", folder) >= (int)sizeof path) {
        snprintf(missing, missing_bytes, "HOME names no folder for a key file");
        return false;
    }
    bool made = access(path, F_OK) == 0 || make_file(folder, path);
    const char *wrong = made ? read_file(path, text) : strerror(errno);
    if (wrong)
        snprintf(missing, missing_bytes, "%.200s: %.80s", path, wrong);
    return !wrong;
}

/* ---- the secret ---- */

/* The values that distinguish jobs, one on each line. */
static void describe_job(const struct dt_world *world, char *text, size_t text_bytes)
{
    static const struct {
        const char *launcher, *variables[2];
    } numbers[] = {
        {"srun", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
        {"mpirun", {"PMIX_NAMESPACE"}},
        {"torchrun", {"TORCHELASTIC_RUN_ID"}},
    };
    size_t used = (size_t)snprintf(text, text_bytes, "dtbench job\n%ld\n%s\n", (long)getuid(), world->launcher);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        for (int k = 0; k < 2 && strcmp(world->launcher, numbers[i].launcher) == 0 && numbers[i].variables[k]; k++) {
            const char *value = getenv(numbers[i].variables[k]);
            used += (size_t)snprintf(text + used, text_bytes - used, "%.200s\n", value ? value : "");
        }
    }
}

dt_status dt_secret_of_job(const struct dt_world *world, struct dt_secret *out)
{
    const uint8_t no_key[DT_KEY_BYTES] = {0};
    const char *variable = getenv(DT_SECRET_VARIABLE);
    char text[DT_SECRET_TEXT_BYTES], job[1024];
    uint8_t key[DT_KEY_BYTES] = {0};
    *out = (struct dt_secret){.source = DT_SECRET_FROM_NOTHING};
    if (variable && *variable && strlen(variable) < LEAST_CHARACTERS)
        return dt_fail(DT_ERR_WORLD,
                       DT_SECRET_VARIABLE " has %zu characters: give it at least %d that nobody can guess, the same on all nodes",
                       strlen(variable), LEAST_CHARACTERS);
    if (variable && *variable) {
        out->source = DT_SECRET_FROM_VARIABLE;
        dt_keyed_hash(no_key, variable, strlen(variable), key);
    } else if (text_of_file(text, out->missing, sizeof out->missing)) {
        out->source = DT_SECRET_FROM_FILE;
        dt_keyed_hash(no_key, text, strlen(text), key);
    }
    describe_job(world, job, sizeof job);
    dt_keyed_hash(key, job, strlen(job), out->bytes);
    return DT_OK;
}
