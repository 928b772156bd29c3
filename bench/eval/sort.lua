local function split(xs)
  if not xs then return nil, nil end
  local a, b = split(xs[2])
  return {xs[1], b}, a
end
local function merge(xs, ys)
  local head = {0, nil}
  local last = head
  while xs and ys do
    local cell
    if xs[1] <= ys[1] then cell = {xs[1], nil}; xs = xs[2]
    else cell = {ys[1], nil}; ys = ys[2] end
    last[2] = cell; last = cell
  end
  last[2] = xs or ys
  return head[2]
end
local function sort(xs)
  if not xs or not xs[2] then return xs end
  local a, b = split(xs)
  return merge(sort(a), sort(b))
end
local xs, x = nil, 42
for _ = 1, 100000 do xs = {x, xs}; x = (x * 1103515245 + 12345) % 65536 end
local sum, s = 0, sort(xs)
while s do sum = sum + s[1]; s = s[2] end
print(sum)
