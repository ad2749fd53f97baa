/* A close that fails as on a network file system over its quota: what was written is lost, and close says EDQUOT.
 *
 * It does so for each file that is open for writing and whose path matches the pattern in CLOSE_FAILS. CLOSE_ERRNO is
 * another number to fail with; EINTR loses nothing. As on Linux, the descriptor is closed in any case: a second close of
 * it aborts the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_to_fail(int fd) {
    const char *pattern = getenv("CLOSE_FAILS");
    char link[64], path[PATH_MAX + 1] = {0};
    int flags = fcntl(fd, F_GETFL);
    if (!pattern || flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, PATH_MAX - 1) > 0 && fnmatch(pattern, path, 0) == 0;
}

int close(int fd) {
    const char *number = getenv("CLOSE_ERRNO");
    int error = number ? atoi(number) : EDQUOT, fails = is_to_fail(fd);
    if (fails && error != EINTR && ftruncate(fd, 0) != 0)
        abort();
    if (syscall(SYS_close, fd) != 0) {
        if (errno == EBADF)
            abort();
        return -1;
    }
    if (fails)
        errno = error;
    return fails ? -1 : 0;
}
