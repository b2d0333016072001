-- draw (part): return the token of a new hold, and what it follows.
-- include: draw_token

local function draw()
  local token, source = draw_token(true, true)
  return token, source
end
