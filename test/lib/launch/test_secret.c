/* Where the secret of a job's ranks comes from. */
#include "lib/launch/launch.h"
#include "test/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct dt_world srun = {.size = 2, .launcher = "srun"};
static char folder[] = "/tmp/dtbench-secret-XXXXXX", key[64];

static struct dt_secret secret_now(void)
{
    struct dt_secret secret;
    CHECK_OK(dt_secret_of_job(&srun, &secret));
    return secret;
}

static bool same(const struct dt_secret *a, const struct dt_secret *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static void variable(void)
{
    struct dt_secret secret, other;
    setenv(DT_SECRET_VARIABLE, "too short", 1);
    CHECK(dt_secret_of_job(&srun, &secret) == DT_ERR_WORLD && strstr(dt_error_message(), "9 characters"), "%s", dt_error_message());
    setenv(DT_SECRET_VARIABLE, "sixteen letters!", 1);
    setenv("SLURM_JOB_ID", "7", 1);
    secret = secret_now();
    CHECK(secret.source == DT_SECRET_FROM_VARIABLE, "%d", secret.source);
    other = secret_now();
    CHECK(same(&secret, &other), "twice");
    setenv("SLURM_JOB_ID", "8", 1);
    other = secret_now();
    CHECK(!same(&secret, &other), "another job");
    setenv("SLURM_JOB_ID", "7", 1);
    setenv(DT_SECRET_VARIABLE, "sixteen letters?", 1);
    other = secret_now();
    CHECK(!same(&secret, &other), "another text");
    unsetenv(DT_SECRET_VARIABLE);
}

static void *make_secret(void *out)
{
    *(struct dt_secret *)out = secret_now();
    return NULL;
}

/* Of many processes that find no file, one makes it. */
static void key_file(void)
{
    struct dt_secret secrets[8];
    pthread_t threads[8];
    struct stat facts;
    char text[128];
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, make_secret, &secrets[i]) != 0)
            abort();
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++)
        CHECK(secrets[i].source == DT_SECRET_FROM_FILE && same(&secrets[i], &secrets[0]), "thread %d: %s", i, secrets[i].missing);
    CHECK(stat(key, &facts) == 0 && (facts.st_mode & 07777) == 0600, "mode %o", facts.st_mode);
    snprintf(text, sizeof text, "rm %s && ls -A %s/dtbench | wc -l", key, folder);
    FILE *left = popen(text, "r");
    CHECK(left && fgets(text, sizeof text, left) && atoi(text) == 0, "files are left: %s", text);
    pclose(left);
    struct dt_secret other = secret_now();
    CHECK(!same(&other, &secrets[0]), "the new file has the old key");
}

static void expect_none(const char *why)
{
    struct dt_secret secret = secret_now();
    CHECK(secret.source == DT_SECRET_FROM_NOTHING && strstr(secret.missing, why), "%d: %s", secret.source, secret.missing);
}

/* A file that is not this user's alone is no secret. */
static void bad_files(void)
{
    char other[80];
    secret_now();
    chmod(key, 0640);
    expect_none("chmod 600");
    chmod(key, 0600);
    snprintf(other, sizeof other, "%s/other", folder);
    CHECK(rename(key, other) == 0 && symlink(other, key) == 0);
    expect_none("symbolic links");
    unlink(key);
    CHECK(truncate(other, 5) == 0 && rename(other, key) == 0);
    expect_none("too short");
    unlink(key);
    CHECK(mkfifo(key, 0600) == 0);
    expect_none("it is no file");
    unlink(key);
    if (geteuid() == 0) {
        secret_now();
        CHECK(chown(key, 1, 1) == 0);
        expect_none("another user's");
        unlink(key);
    }
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    expect_none("/proc/nowhere/dtbench/key");
    setenv("XDG_STATE_HOME", folder, 1);
}

static const struct test_case cases[] = {
    {"the variable", variable},
    {"the key file", key_file},
    {"files that are no secret", bad_files},
};

int main(void)
{
    char remove[64];
    if (!mkdtemp(folder))
        return 1;
    unsetenv(DT_SECRET_VARIABLE);
    setenv("XDG_STATE_HOME", folder, 1);
    snprintf(key, sizeof key, "%s/dtbench/key", folder);
    int code = test_main(cases, sizeof cases / sizeof cases[0]);
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    return system(remove) == 0 ? code : 1;
}
