/* A library for LD_PRELOAD with which folders are slow to remove, as on a shared file system. */
#include <dlfcn.h>
#include <unistd.h>

int rmdir(const char *path)
{
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "rmdir");
    usleep(300000);
    return next(path);
}
