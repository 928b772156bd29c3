local function line(i) return "item " .. i .. "," .. i * 7 % 1000 .. ",x" end
local function weigh(text)
  local sum = 0
  for part in text:gmatch("[^,]+") do
    if part == "x" then sum = sum + 1 else sum = sum + #part end
  end
  return sum
end
local function run(n, sum)
  if n == 0 then return sum end
  return run(n - 1, sum + weigh(line(n)))
end
print(run(200000, 0))
