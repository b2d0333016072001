-- read_ask: come in as a reader, or find out that somebody writes; else stand in the queue.
--
-- Who stands there and finds the lock free lets in the first. A newcomer only joins.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}; its TTL is the lease
-- KEYS[2]     entry    string "1", the reader's entry, whose TTL is its lease
-- KEYS[3]     coming   string "1", while readers that were let in may still come; may be left out
-- KEYS[4]     queue    zset, as for lock_ask, and ":write" behind the id of a writer; may be
--             left out, with coming
-- KEYS[5..n]  other    string "1", entries of readers that an earlier refusal named
-- ARGV[1]     lease    integer > 0, milliseconds
-- ARGV[2]     holder   string, "<client>:<number>", and "/<ms>" if its lease is below 3 s
-- ARGV[3]     channel  string, where Java listens
-- ARGV[4]     deaf     "?" if the client cannot listen, or empty; may be left out
-- ARGV[5]     former   its former place, as for lock_ask, or empty; may be left out
-- ARGV[6]     written  string, the same owner's write hold, or empty; may be left out
-- ARGV[7..n]  reader   string, whose entry each *other* is
--
-- Returns     as lock_ask; when it was refused and stood there already, readers and their depths follow
-- Source      our own
-- Wire        the hash, the entry and their TTLs
local lock, entry, coming, queue, other, keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS
local lease, holder, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local deaf, former, written = ARGV[4] or '', ARGV[5] ~= '' and ARGV[5], ARGV[6] or ''

-- include: rw_ask
