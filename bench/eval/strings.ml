let line i =
  "item " ^ string_of_int i ^ "," ^ string_of_int (i * 7 mod 1000) ^ ",x"
let weigh text =
  List.fold_left
    (fun sum part -> if part = "x" then sum + 1 else sum + String.length part)
    0 (String.split_on_char ',' text)
let rec run n sum = if n = 0 then sum else run (n - 1) (sum + weigh (line n))
let () = print_int (run 200000 0)
