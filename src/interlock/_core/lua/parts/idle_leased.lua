-- idle_leased (part): let the leased semaphore end so long after this use.
if idle ~= '0' then
  redis.call('pexpire', semaphore, idle)
  redis.call('pexpire', permits, idle)
end
