-- writer_next: a read/write lock may be given to a holder in whose name a client waits to write.
local function news_of(wish)
  return wish == ':write' and '' or nil
end
