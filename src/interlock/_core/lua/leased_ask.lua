-- leased_ask: take permits of Redisson's leased semaphore, or stand in the queue: in order.
--
-- KEYS     semaphore, permits, queue?
-- ARGV     #lease, holder, channel, #named, #idle, deaf?, former?
--
-- Returns  as lock_ask
-- Source   our own
-- Wire     the number and the zset

-- include: front

-- include: leased

-- include: permits

-- include: permits_ask
