-- idle_latch (part): let it end so long after this use.
if idle ~= '0' then
  redis.call('pexpire', latch, idle)
  if total then
    redis.call('pexpire', total, idle)
  end
end
