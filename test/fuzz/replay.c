/* Runs all targets on the stored corpus, in any build. Usage: replay CORPUS. Prints TAP. */
#include "lib/config/json.h"
#include "test/check.h"
#include "test/fuzz/targets.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void replay_file(const struct fuzz_target *target, const char *path)
{
    char *text;
    size_t bytes;
    if (dt_read_file(path, &text, &bytes) < 0) {
        CHECK(false, "%s", dt_error_message());
        return;
    }
    printf("# %s\n", path); /* the last line is the one that crashed */
    target->run((const uint8_t *)text, bytes);
    free(text);
}

static int replay_folder(const struct fuzz_target *target, const char *corpus)
{
    char path[4096];
    int files = 0;
    snprintf(path, sizeof path, "%s/%s", corpus, target->name);
    DIR *folder = opendir(path);
    for (const struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/%s", corpus, target->name, entry->d_name);
        replay_file(target, path);
        files++;
    }
    if (folder)
        closedir(folder);
    return files;
}

int main(int argc, char **argv)
{
    int count = 0, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int nothing = open("/dev/null", O_WRONLY); /* warnings about records */
    dup2(nothing, STDERR_FILENO);
    while (fuzz_target_at(count))
        count++;
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        test_failures = 0;
        int files = replay_folder(fuzz_target_at(i), argc > 1 ? argv[1] : "test/fuzz/corpus");
        CHECK(files > 0, "nothing is stored");
        failed += test_failures > 0;
        printf("%s %d - %s, %d inputs\n", test_failures ? "not ok" : "ok", i + 1, fuzz_target_at(i)->name, files);
    }
    return failed > 0;
}
