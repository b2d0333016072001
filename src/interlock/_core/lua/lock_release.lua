-- lock_release: go down to *depth*; at 0 give the lock to the next client, or free it.
--
-- Freeing it tells the waiters.
--
-- A release to the former depth undoes an acquire that was interrupted at any point. The TTL is
-- left alone: an inner release does not change the outer hold's lease.
--
-- A server that is out of memory refuses HSET, but only as a script's first write. So an HDEL of a
-- field that never exists comes first.
--
-- A lock that is given to a client has the field "<client id>:0", its claim, for 250 ms. If the
-- client waits in the name of a holder, that holder has the lock, for 250 ms too.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  queue    zset {client or holder: when it came, in ms}; may be left out
-- ARGV[1]  holder   string, "<client id>:<number>"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  channel  string, where waiters listen
-- ARGV[4]  leaving  string, the id of a client that leaves the queue, as does the holder; it gives
--                   up its claim. "-" only looks: a free lock goes to the next client, and who
--                   does not listen any more leaves the queue; may be left out
--
-- Returns  1 when done, 2 when the holder's own client is next, 3 when another client in the queue
--          is, or the lock was left to others for a moment; nil when this holder does not hold it
--          (a client that is *leaving* has left the queue)
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when it is freed. With clients in the queue, the first
--          one gets a claim for 250 ms, and "0" or "=<number>:<time>" on its wake channel. If the
--          lock is left to others for a moment, "20" is sent there, and "00" on the channel if
--          others listen. A look at a claim sends "300" there; this code is our own
local lock, queue, holder, depth = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local channel, leaving = ARGV[3], ARGV[4]
local named, side = holder, ''

-- include: go_down

-- include: free_for_all

local freed = '0'

local function news_of(wish)
  return wish == '' and '' or nil
end

-- include: members

-- include: microseconds

-- include: grant

-- include: give_on

return give_on()
