-- leased_ask: take permits of Redisson's leased semaphore, or stand in the queue: in order.
--
-- KEYS     semaphore, permits, queue?
-- ARGV     #lease, holder, channel, #named, idle, stands?, deaf?, former?
-- Returns  as limited_ask
-- Source   RPermitExpirableSemaphore.tryAcquire
-- Wire     the number and the zset

-- include: front, leased, permits, permits_ask
