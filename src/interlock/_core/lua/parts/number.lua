-- number (part): what was read, $1, must be a number, or nil; it is $2.
if not tonumber($1 or 0) then
  return redis.error_reply('WRONGTYPE this is not $2')
end
