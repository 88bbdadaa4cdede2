/* Preloaded: while the file $CLOCK_SHIFT is there, the wall clock is a year later; without that
 * variable it is a year later or earlier, by turns, whenever it is read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    static int turn;
    const long year = 365L * 24 * 3600;
    const char *file = getenv("CLOCK_SHIFT");
    if (file)
        return access(file, F_OK) == 0 ? year : 0;
    return turn++ % 2 ? -year : year;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int said = real(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        now->tv_sec += shift();
    return said;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *into, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *into = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
