type particle = { x : int; y : int; dx : int; dy : int; age : int }
let start n =
  List.init n (fun i -> { x = i; y = 2 * i; dx = 1; dy = i mod 3; age = 0 })
let move p =
  { p with x = (p.x + p.dx) mod 1000; y = (p.y + p.dy) mod 1000;
    age = p.age + 1 }
let rec run n ps = if n = 0 then ps else run (n - 1) (List.map move ps)
let () =
  print_int
    (List.fold_left (fun sum p -> sum + p.x + p.y + p.age) 0
       (run 1000 (start 1000)))
