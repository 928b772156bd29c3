local function compose(f, g) return function(x) return f(g(x)) end end
local function times(n, f)
  if n == 0 then return function(x) return x end end
  return compose(f, times(n - 1, f))
end
local function run(n, sum)
  if n == 0 then return sum end
  local step = times(20, function(x) return x * 3 + n end)
  return run(n - 1, (sum + step(n)) % 1000003)
end
print(run(50000, 0))
