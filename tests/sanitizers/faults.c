/* Faults in the system calls of _exchange.c.
 *
 * Preloaded, it makes send, recv and poll fail or do less at random. INTERLOCK_FAULTS is the seed.
 * Only the descriptors from INTERLOCK_FAULTS_FROM on go wrong.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>

static atomic_uint state;
static int from = -1;

/* Return one of 0 to *range* - 1; every call draws another one (xorshift). */
static unsigned
draw(unsigned range)
{
    unsigned x = atomic_load(&state);
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    atomic_store(&state, x);
    return x % range;
}

__attribute__((constructor)) static void
begin(void)
{
    const char *seed = getenv("INTERLOCK_FAULTS"), *first = getenv("INTERLOCK_FAULTS_FROM");
    atomic_store(&state, seed ? (unsigned)atoi(seed) * 2654435761u + 1 : 0);
    from = seed && first ? atoi(first) : -1;
}

/* Return how many bytes a call may have; 0 for a failure, with errno set. */
static size_t
allowed(int fd, size_t size, int flags)
{
    if (from < 0 || fd < from)
        return size;
    switch (draw(4)) {
    case 0:
        errno = EINTR;
        return 0;
    case 1:
        if (!(flags & MSG_DONTWAIT))
            return size; /* without it EAGAIN would mean that the time is up */
        errno = EAGAIN;
        return 0;
    case 2:
        return size > 1 ? 1 + draw(size < 4096 ? (unsigned)size : 4096) : size;
    default:
        return size;
    }
}

ssize_t
send(int fd, const void *data, size_t size, int flags)
{
    static ssize_t (*real)(int, const void *, size_t, int);
    size_t most = allowed(fd, size, flags);
    if (!real)
        real = dlsym(RTLD_NEXT, "send");
    return most ? real(fd, data, most, flags) : -1;
}

ssize_t
recv(int fd, void *into, size_t size, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    size_t most = allowed(fd, size, flags);
    if (!real)
        real = dlsym(RTLD_NEXT, "recv");
    return most ? real(fd, into, most, flags) : -1;
}

int
poll(struct pollfd *polled, nfds_t count, int timeout)
{
    static int (*real)(struct pollfd *, nfds_t, int);
    if (!real)
        real = dlsym(RTLD_NEXT, "poll");
    if (from >= 0 && count == 1 && polled->fd >= from && draw(4) == 0) {
        errno = EINTR;
        return -1;
    }
    return real(polled, count, timeout);
}
