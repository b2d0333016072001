-- extend (part): let $1 last for at least $2 milliseconds from now.
if redis.call('pttl', $1) < $2 then
  redis.call('pexpire', $1, $2)
end
