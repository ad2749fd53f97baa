/* An fsync that fails when it is told to, as a disk does: the error is told once, and what it was about is lost.
 *
 * Each call adds the path of its file to the file that SYNC_NOTED names. While the file that SYNC_FAILS names is there,
 * the first call for a path that matches the pattern in it fails with EIO, and removes it; so many of them pass before
 * as SYNC_PASSES says. The first call for a path that matches SYNC_SLOW takes half a second. Calls for paths that match
 * SYNC_MEET wait for each other: until so many are under way at once as SYNC_COMPANY says, and SYNC_NOTED gets the line
 * "met"; or for half a minute, and "alone". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int slow = 1;
static atomic_int company = 0, met = 0;
static atomic_int passed = 0;

static void note(const char *line, size_t length) {
    int file = open(getenv("SYNC_NOTED"), O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (write(file, line, length) != (ssize_t)length)
        abort();
    close(file);
}

static void meet(int wanted) {
    if (atomic_fetch_add(&company, 1) + 1 >= wanted && !atomic_exchange(&met, 1))
        note("met\n", 4);
    for (int waited = 0; !atomic_load(&met); waited++) {
        usleep(1000);
        if (waited == 30000 && !atomic_exchange(&met, 1))
            note("alone\n", 6);
    }
    atomic_fetch_sub(&company, 1);
}

static int is_to_fail(const char *path) {
    const char *order = getenv("SYNC_FAILS");
    char text[256] = {0};
    int file = order ? open(order, O_RDONLY) : -1;
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0 || fnmatch(text, path, 0) != 0)
        return 0;
    const char *passes = getenv("SYNC_PASSES");
    if (passes && atomic_fetch_add(&passed, 1) < atoi(passes))
        return 0;
    return unlink(order) == 0;
}

int fsync(int fd) {
    char link[64], path[PATH_MAX + 1] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    const char *slowly = getenv("SYNC_SLOW"), *together = getenv("SYNC_MEET");
    if (length > 0 && getenv("SYNC_NOTED")) {
        path[length] = '\n';
        note(path, length + 1);
        path[length] = 0;
    }
    if (together && fnmatch(together, path, 0) == 0)
        meet(atoi(getenv("SYNC_COMPANY")));
    if (slowly && fnmatch(slowly, path, 0) == 0 && atomic_exchange(&slow, 0))
        usleep(500000);
    if (is_to_fail(path)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}
