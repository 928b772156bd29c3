local function start(n)
  local ps = {}
  for i = 0, n - 1 do
    ps[i + 1] = {x = i, y = 2 * i, dx = 1, dy = i % 3, age = 0}
  end
  return ps
end
local function move(p) -- a new one, as there
  return {x = (p.x + p.dx) % 1000, y = (p.y + p.dy) % 1000, dx = p.dx,
          dy = p.dy, age = p.age + 1}
end
local function map(f, ps)
  local out = {}
  for i, p in ipairs(ps) do out[i] = f(p) end
  return out
end
local ps = start(1000)
for _ = 1, 1000 do ps = map(move, ps) end
local sum = 0
for _, p in ipairs(ps) do sum = sum + p.x + p.y + p.age end
print(sum)
