-- leased_acquire: take permits of Redisson's leased semaphore, unless somebody waits.
--
-- KEYS     semaphore, permits, queue?
-- ARGV     #lease, holder, channel, #named, #idle
--
-- Returns  as limited_acquire
-- Source   RPermitExpirableSemaphore.tryAcquire, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset

-- include: front

-- include: leased

-- include: permits

-- include: permits_acquire
