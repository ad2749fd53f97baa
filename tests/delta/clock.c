/* A clock of this machine that is as many seconds ahead of the kernel's, which dates files, as CLOCK_AHEAD says. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int done = (int)syscall(SYS_clock_gettime, clock, time);
    const char *ahead = getenv("CLOCK_AHEAD");
    if (done == 0 && clock == CLOCK_REALTIME && ahead)
        time->tv_sec += atol(ahead);
    return done;
}
