-- fenced_lock_release: go down to *depth*; at 0 give the lock to the next client, or free it.
--
-- It does what lock_release does. If the lock goes to a holder in whose name a client waits, a
-- token is drawn for that holder. If none can be drawn, the client gets a claim, and draws one
-- itself.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  token    string, the last token that was drawn; no TTL
-- KEYS[3]  queue    zset {client, or holder and ":token": when it came, in ms}; may be left out
-- ARGV[1]  holder   string, "<client id>:<number>"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  channel  string, where waiters listen
-- ARGV[4]  floor    integer >= 0, as in fenced_lock_acquire
-- ARGV[5]  unit     integer >= 0, as in fenced_lock_acquire
-- ARGV[6]  leaving  string, as in lock_release, or empty; may be left out
-- ARGV[7]  news     string, where the observers of an election listen; may be left out. An election
--                   is not left to clients that only look
--
-- Returns  as lock_release does
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     as of lock_release, and the counter. A message that makes a holder the next one ends
--          with ":token:<token>:<source>". Observers are sent "0"; this code is our own
local lock, counter, queue, holder, depth = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local channel, floor, unit = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local leaving, news = ARGV[6] ~= '' and ARGV[6] or nil, ARGV[7]
local named, side = holder .. ':token', ''

-- include: go_down

if news then
  redis.call(PUBLISH, news, '0')
end

-- include: free_for_all

-- include: draw_token

local freed = '0'

local function news_of(wish)
  if wish ~= ':token' then
    return wish == '' and '' or nil
  end
  local drawn, token, source = pcall(draw_token, true)
  return drawn and string.format(':%.0f:%s', token, source) or nil
end

-- include: members

-- include: microseconds

-- include: grant

-- include: give_on

return give_on(news)
