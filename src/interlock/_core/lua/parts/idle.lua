-- idle (part): let $1, and $2 if there is one, end so long after this use.
if idle ~= '0' then
  redis.call('pexpire', $1, idle)
  if $2 then
    redis.call('pexpire', $2, idle)
  end
end
