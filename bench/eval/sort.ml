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
