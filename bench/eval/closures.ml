let compose f g = fun x -> f (g x)
let rec times n f = if n = 0 then fun x -> x else compose f (times (n - 1) f)
let rec run n sum =
  if n = 0 then sum
  else run (n - 1) ((sum + times 20 (fun x -> x * 3 + n) n) mod 1000003)
let () = print_int (run 50000 0)
