-- election_release: do as fenced_release does, and tell the observers when a term ends.
--
-- KEYS     lock, counter, queue?
-- ARGV     holder, depth, channel, how, #unit, #floor, news

-- include: draw

if redis.call('hexists', lock, holder) == 1 then
  redis.pcall(PUBLISH, news, '0') -- whoever looks then finds the term ended: this script is done by then
end

-- include: release
