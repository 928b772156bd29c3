datatype t = A
| B of int
B 3
fun f A = 1
| f (B n) = n
fun g x = x
| g y = y
|> foo
sum [1, 2]
|> foo
