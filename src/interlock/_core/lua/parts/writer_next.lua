-- writer_next: a read/write lock may be given to a holder in whose name a client waits to write.
local function news_of(needs)
  return needs == 'write' and ':write' or nil
end
