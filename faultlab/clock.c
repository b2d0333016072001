/* A server's wall clock, stepped: LD_PRELOAD adds what stands in the file FAULTLAB_CLOCK names.
 *
 * The file has one number, microseconds as 8 bytes, and is mapped: a step is one store.
 * libfaketime was tried first; Redis with jemalloc does not start with it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t offset(void)
{
    static volatile int64_t *shared;
    if (!shared) {
        const char *path = getenv("FAULTLAB_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file < 0)
            return 0;
        shared = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, file, 0);
        close(file);
        if (shared == MAP_FAILED)
            abort();
    }
    return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) {
        int64_t us = now->tv_sec * 1000000LL + now->tv_nsec / 1000 + offset();
        now->tv_sec = us / 1000000;
        now->tv_nsec = us % 1000000 * 1000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now)
{
    struct timeval precise;
    gettimeofday(&precise, NULL);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
