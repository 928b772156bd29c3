#!/bin/bash
# The functional part of the evaluator against Lua and OCaml's bytecode: calls,
# lists, closures.  Seconds, the best of three; start-up is included.
. "$(dirname "$0")/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/fib.axn" <<'END'
fun fib (n : int) : int = if n < 2 then n else fib (n - 1) + fib (n - 2)
do print (fib 30)
END
cat >"$work/fib.lua" <<'END'
local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end
print(fib(30))
END
cat >"$work/fib.ml" <<'END'
let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let () = print_int (fib 30)
END

cat >"$work/sort.axn" <<'END'
fun split xs = case xs of
    list [] => (list [], list [])
  | x :: rest => (case split rest of (a, b) => (x :: b, a))
fun merge xs ys = case (xs, ys) of
    (list [], _) => ys
  | (_, list []) => xs
  | (x :: xt, y :: yt) =>
      if x <= y then x :: merge xt ys else y :: merge xs yt
fun sort_list xs = case xs of
    list [] => xs
  | _ :: list [] => xs
  | _ => (case split xs of (a, b) => merge (sort_list a) (sort_list b))
fun make (n : int) (x : int) =
  if n == 0 then list []
  else x :: make (n - 1) ((x * 1103515245 + 12345) % 65536)
fun total xs = case xs of list [] => 0 | (x : int) :: rest => x + total rest
do print (total (sort_list (make 100000 42)))
END
cat >"$work/sort.lua" <<'END'
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
END
cat >"$work/sort.ml" <<'END'
let rec split = function
  | [] -> ([], []) | x :: r -> let a, b = split r in (x :: b, a)
let rec merge xs ys = match xs, ys with
  | [], _ -> ys | _, [] -> xs
  | x :: xt, y :: yt -> if x <= y then x :: merge xt ys else y :: merge xs yt
let rec sort xs = match xs with
  | [] | [_] -> xs | _ -> let a, b = split xs in merge (sort a) (sort b)
let rec make n x =
  if n = 0 then []
  else x :: make (n - 1) ((x * 1103515245 + 12345) mod 65536)
let rec total = function [] -> 0 | x :: r -> x + total r
let () = print_int (total (sort (make 100000 42)))
END

for name in fib sort; do
  printf '%-5s axon %-9s' "$name" "$(best 3 "$AXON" run "$work/$name.axn")"
  command -v lua5.4 >/dev/null &&
    printf ' lua5.4 %-9s' "$(best 3 lua5.4 "$work/$name.lua")"
  command -v ocaml >/dev/null &&
    printf ' ocaml %-9s' "$(best 3 ocaml "$work/$name.ml")"
  echo
done
