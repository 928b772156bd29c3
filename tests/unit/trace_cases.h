/* Functions of all kinds for tests of `axon build`, and the sizes at which they
 * are compared: 0, 1, primes.  Some sizes violate a requirement of the
 * function. */
#define SQUARES \
  { "n=0 m=3", "n=1 m=1", "n=5 m=7", "n=3 m=0", "n=2 m=13" }
#define ROWS \
  { "n=0", "n=1", "n=2", "n=7", "n=13", "n=64" }

static const Case cases[] = {
    /* Safe for some sizes only; other sizes must not fail. */
    {"fun f (x : f32[n]) = for i < 4 => if i > 1 then"
     "  (if n > 4 then exp (exp x.[4]) * float i else 0.0) else 1.0",
     "f",
     {"n=0", "n=2", "n=5"}},
    {"fun f (x : f32[n]) = for i < n => if x.[i] > 0.5 then"
     "  (if n > 4 then exp (exp x.[4]) * float i else 0.0) else 1.0",
     "f",
     {"n=0", "n=2", "n=13"}},
    {"fun f (x : f32[n]) = for i < 4 => if i > 1 then"
     "  (if n > 4 then sum (for k < 3 => x.[4] * float k) else 0.0) else 1.0",
     "f",
     {"n=0", "n=2", "n=5"}},
    /* pointwise, reductions */
    {"fun f (x : f32[n]) = tanh (x * 2.0 + 1.0)", "f", ROWS},
    {"fun f a b = tanh (a * b + 1.0)", "f : f32[n] -> f32[n] -> f32[n]", ROWS},
    {"fun f x = x * float (dim 0 x) - float (dim 0 x / 2)",
     "f : f32[n] -> f32[n]", ROWS},
    {"fun f (x : f32[n, m]) = softmax x", "f", SQUARES},
    {"fun f (x : f32[n, m]) = sum ~axis:0 x", "f", SQUARES},
    {"fun f (x : f32[n, m]) = (max x, min ~axis:0 x, mean x)", "f", SQUARES},
    {"fun f (x : f32[n, m]) = x - mean ~axis:-1 ~keep:true x", "f", SQUARES},
    {"fun f (x : f32[n, m]) (y : f32[m]) = x * y", "f", SQUARES},
    {"fun f (x : f32[n]) (y : f32[m]) = x.[:, *] + y", "f", SQUARES},
    {"fun f (x : f32[n, m]) = argmax x", "f", SQUARES},
    {"fun f (x : f32[n, m]) = {a = {b = x + 1.0}, c = (x, sum x)}", "f",
     SQUARES},
    {"fun f (p : {w : f32[m, n], b : f32[m]}) (x : f32[k, n]) ="
     "  nn.linear p x |> nn.relu",
     "f",
     {"n=3 m=5 k=2", "n=0 m=1 k=1", "n=7 m=1 k=0"}},
    {"fun f (a : f32[n, k]) (b : f32[k, m]) = nn.gelu (a @ b)",
     "f",
     {"n=3 m=5 k=2", "n=0 m=1 k=1", "n=7 m=1 k=0", "n=1 m=1 k=1"}},
    {"fun f (a : f32[b, n, k]) (c : f32[k]) = dot a c",
     "f",
     {"n=3 b=5 k=2", "n=0 b=1 k=1", "n=7 b=1 k=0"}},
    {"fun f (a : f32[n]) (b : f32[m]) = outer a b", "f", SQUARES},
    {"fun f (a : f32[b, n, k]) (c : f32[b, m, k]) ="
     "  einsum \"b n k, b m k -> n m\" a c",
     "f",
     {"n=3 b=5 k=2 m=2", "n=0 b=1 k=1 m=1", "n=7 b=1 k=0 m=3"}},
    {"fun f (x : f32[n, n]) = (sum (for i => x.[i, i]), tril x, transpose x)",
     "f", ROWS},
    /* shapes */
    {"fun f (x : f32[b, s, h*d]) (h : dim(h)) ="
     "  nn.split_heads h x |> nn.join_heads",
     "f",
     {"b=2 s=3 h=2 d=5", "b=1 s=1 h=1 d=1", "b=0 s=3 h=2 d=1"}},
    {"fun f (x : f32[n, 3, m]) = flatten x", "f", SQUARES},
    {"fun f (x : f32[n, m]) = reshape [_] x", "f", SQUARES},
    {"fun f (x : f32[n, m]) = reshape [m, n] x", "f", SQUARES},
    {"fun f (x : f32[2*n, m]) = reshape [2, n, m] x", "f", SQUARES},
    {"fun f (x : f32[2*n, m]) = reshape [n, 2*m] x", "f", SQUARES},
    {"fun f (x : f32[n]) = reshape [n / 3, 3] x", "f", ROWS},
    {"fun f (x : f32[n, m]) = permute \"a b -> b a\" x", "f", SQUARES},
    {"fun f (x : f32[n]) (y : f32[m]) = concat ~axis:0 (x, y)", "f", SQUARES},
    {"fun f (x : f32[n, 3]) (y : f32[m, 3]) z = concat ~axis:0 (x, y, z)",
     "f : f32[n, 3] -> f32[m, 3] -> f32[2, 3] -> _", SQUARES},
    {"fun f (x : f32[n]) y = stack (list [x, y])", "f : f32[n] -> f32[n] -> _",
     ROWS},
    {"fun f (x : f32[n, m]) = pad ~axis:0 ~before:2 ~after:m x", "f", SQUARES},
    {"fun f (x : f32[n]) k = pad ~axis:0 ~before:k x",
     "f : f32[n] -> dim(k) -> _",
     {"n=3 k=2", "n=0 k=1", "n=2 k=0", "n=3 k=-1"}},
    {"fun f (x : f32[n]) = reverse ~axis:0 x", "f", ROWS},
    {"fun f (x : f32[n]) k = roll ~axis:0 k x",
     "f : f32[n] -> dim(k) -> _",
     {"n=5 k=2", "n=5 k=-3", "n=1 k=7", "n=0 k=1", "n=7 k=7"}},
    {"fun f (x : f32[n]) = (tile ~axis:0 3 x, repeat ~axis:0 2 x)", "f", ROWS},
    {"fun f (x : f32[n]) k = (tile ~axis:0 k x, repeat ~axis:0 k x)",
     "f : f32[n] -> dim(k) -> _",
     {"n=5 k=2", "n=1 k=0", "n=0 k=3"}},
    {"fun f (x : f32[n, 1]) = squeeze ~axis:1 x", "f", ROWS},
    {"fun f (x : f32[n]) = broadcast [3, n] x", "f", ROWS},
    /* indices */
    {"fun f (x : f32[n]) = x.[1:] - x.[:-1]", "f", ROWS},
    {"fun f (x : f32[n]) k = x.[k:]",
     "f : f32[n] -> dim(k) -> _",
     {"n=5 k=2", "n=5 k=5", "n=5 k=0", "n=5 k=6", "n=0 k=0", "n=3 k=-1"}},
    {"fun f (x : f32[n]) k = x.[n - k:]",
     "f : f32[n] -> dim(k) -> _",
     {"n=5 k=2", "n=5 k=5", "n=5 k=0", "n=5 k=6"}},
    {"fun f (x : f32[n]) = (x.[0], x.[-1], x.[n / 2])", "f", ROWS},
    {"fun f (x : f32[n]) (i : i64[]) = x.[i]",
     "f : f32[n] -> int -> _",
     {"n=2", "n=7"}},
    {"fun f (x : f32[n, m]) (i : i64[k]) = gather x i",
     "f",
     {"n=2 m=3 k=5", "n=7 m=1 k=1", "n=3 m=2 k=0"}},
    {"fun f (x : i64[n]) = one_hot 2 x", "f : i64[n] -> f32[n, 2]", ROWS},
    {"fun f (x : f32[2*n]) = for i < n => x.[2*i] + x.[2*i + 1]", "f", ROWS},
    {"fun f (x : f32[n]) (w : f32[k]) ="
     "  for i => sum (for j => w.[j] * x.[i + j])",
     "f",
     {"n=7 k=3", "n=5 k=5", "n=3 k=4", "n=4 k=1", "n=1 k=0"}},
    {"fun f (x : f32[n]) = for i < n =>"
     "  if i == 0 then x.[i] else x.[i] - x.[i - 1]",
     "f", ROWS},
    {"fun f (x : f32[n, m]) = map (fn r => sum r / (1.0 + r.[0])) x", "f",
     SQUARES},
    {"fun f n m = for i < n, j < m => i * m + j", "f : dim(n) -> dim(m) -> _",
     SQUARES},
    {"fun f n = (iota n, eye n)", "f : dim(n) -> i64[n] * f32[n, n]", ROWS},
    {"fun f n = zeros [n, 2*n + 1]",
     "f : dim(n) -> f32[n, 2*n + 1]",
     {"n=0", "n=3"}},
    {"fun f (k : int) (x : f32[n]) = x * float (k * 3 + n)",
     "f : int -> f32[n] -> f32[n]", ROWS},
    /* opaque nodes */
    {"fun f (x : f32[n, m]) = (sort x, argsort ~axis:0 x, cumsum x)", "f",
     SQUARES},
    {"fun f (x : f32[n]) = topk 3 x", "f", ROWS},
    {"fun f (x : f32[n, m]) i (y : f32[k, m]) = scatter x i y",
     "f : f32[n, m] -> i64[k] -> f32[k, m] -> _",
     {"n=2 m=3 k=5", "n=7 m=1 k=1", "n=3 m=2 k=0"}},
    {"fun f (x : f64[n, m]) y = (dft ~axis:0 x y, dft ~axis:all ~inverse:true y"
     " x)",
     "f : f64[n, m] -> f64[n, m] -> _", SQUARES},
    {"fun f (x : f32[n, m]) = (real_dft x, map (fn y => real_dft y) x)", "f",
     SQUARES},
    {"fun f n (x : f64[b, n/2 + 1]) y = inverse_real_dft n x y",
     "f : dim(n) -> f64[b, n/2 + 1] -> f64[b, n/2 + 1] -> _",
     {"b=2 n=0", "b=3 n=7", "b=1 n=8"}},
    /* networks */
    {"fun f (p : {w : f32[o, c, k, l], b : f32[o]}) (x : f32[n, c, h, v]) ="
     "  nn.conv2d ~stride:2 ~padding:1 p x",
     "f",
     {"o=2 c=3 k=3 l=3 n=2 h=7 v=5", "o=1 c=1 k=1 l=1 n=1 h=1 v=1",
      "o=1 c=1 k=5 l=1 n=1 h=2 v=1", "o=2 c=0 k=3 l=2 n=1 h=4 v=4"}},
    {"fun f ~stride (p : {w : f32[o, c, k, l], b : f32[o]})"
     "  (x : f32[n, c, h, v]) = nn.conv2d ~stride p x",
     "f",
     {"stride=2 o=2 c=3 k=3 l=3 n=2 h=7 v=5",
      "stride=3 o=2 c=1 k=1 l=2 n=1 h=11 v=2",
      "stride=0 o=1 c=1 k=1 l=1 n=1 h=1 v=1"}},
    {"fun f (x : f32[n, c, h, w]) ="
     "  (nn.maxpool x, nn.maxpool ~size:3 ~stride:2 ~padding:1 x, nn.avgpool "
     "x)",
     "f",
     {"n=1 c=2 h=7 w=6", "n=2 c=1 h=2 w=2", "n=1 c=1 h=1 w=4"}},
    {"fun f (q : f32[b, h, s, d]) k v = nn.attention ~causal:true q k v",
     "f : f32[b, h, s, d] -> f32[b, h, s, d] -> f32[b, h, s, e] -> _",
     {"b=1 h=2 s=5 d=3 e=2", "b=2 h=1 s=1 d=1 e=1", "b=1 h=1 s=0 d=2 e=3"}},
    {"fun f (p : {w : f32[24, 24, 3, 3], b : f32[24]})"
     "  (x : f32[2, 24, 14, 14]) = nn.conv2d ~padding:1 p x",
     "f",
     {""}},
    /* small windows, padding; batches of small matrix products */
    {"fun f (p : {w : f32[c, 3, 3], b : f32[c]}) (x : f32[n, c, h, v])"
     "  given h >= 3, v >= 3 = nn.depthwise_conv2d ~padding:1 p x",
     "f",
     {"c=3 n=2 h=7 v=5", "c=1 n=1 h=3 v=3", "c=2 n=1 h=9 v=140",
      "c=0 n=2 h=4 v=4", "c=5 n=0 h=3 v=17"}},
    {"fun f (x : f32[n, c, h, w]) = nn.maxpool ~size:3 ~stride:2 ~padding:1 x",
     "f",
     {"n=1 c=2 h=17 w=70", "n=2 c=1 h=2 w=2", "n=0 c=1 h=1 w=4"}},
    {"fun f (x : f32[n, m]) = for i < n, j < m =>"
     "  if i > 0 && i < n - 1 && j > 0 && j < m - 1 then x.[i - 1, j] +"
     "  x.[i + 1, j] + x.[i, j - 1] + x.[i, j + 1] else x.[i, j]",
     "f", SQUARES},
    {"fun f (a : f32[n, 4, 4]) (b : f32[n, 4, 4]) = a @ b",
     "f",
     {"n=0", "n=1", "n=7", "n=300"}},
    {"fun f (a : f32[n, m, 3, 5]) (b : f32[n, m, 5, 7]) = a @ b",
     "f",
     {"n=0 m=3", "n=1 m=1", "n=7 m=3", "n=3 m=100"}},
    /* trim bounds, and strip-mined rows */
    {"fun f (q : f32[b, h, s, d]) k v = nn.attention ~causal:true q k v",
     "f : f32[b, h, s, d] -> f32[b, h, s, d] -> f32[b, h, s, e] -> _",
     {"b=1 h=2 s=83 d=19 e=7", "b=2 h=1 s=130 d=33 e=40",
      "b=1 h=1 s=250 d=1 e=1"}},
    {"fun f (q : f32[n, d]) (k : f32[m, d]) (v : f32[m, e]) ="
     "  nn.attention q k v",
     "f",
     {"n=2 m=0 d=3 e=5", "n=40 m=70 d=3 e=5", "n=2 m=20000 d=2 e=3",
      "n=13 m=10923 d=1 e=17"}},
    {"fun f (x : f32[n, m]) = for i < n => sum (for j < m =>"
     "  if j <= i then x.[i, j] else 0.0)",
     "f",
     {"n=3 m=70", "n=70 m=3", "n=0 m=2", "n=2 m=0", "n=50 m=50"}},
    {"fun f (x : f32[n, m]) = for i < n => max (for j < m =>"
     "  if abs (i - j) < 5 then x.[i, j] else -9.0)",
     "f",
     {"n=3 m=70", "n=70 m=30", "n=0 m=2", "n=50 m=50"}},
    {"fun f (x : f32[n, m]) (k : dim(k)) = for i < n => sum (for j < m =>"
     "  if j >= i + k then x.[i, j] else 0.0)",
     "f",
     {"n=3 m=70 k=2", "n=70 m=3 k=-40", "n=2 m=0 k=0", "n=50 m=50 k=7"}},
    /* 16-bit floats of different indices can be equal: no trim bound */
    {"fun f (x : f32[n, m]) = for i < n => sum (for j < m =>"
     "  if bf16 (j + 1) <= bf16 (i + 1) then x.[i, j] else 0.0)",
     "f",
     {"n=258 m=260", "n=3 m=70"}},
    {"fun f (p : {w : f32[m], b : f32[m]}) (x : f32[n, m]) = nn.layernorm p x",
     "f", SQUARES},
    {"fun f (x : f32[n, m]) = nn.rope x", "f : f32[n, 2*m] -> _", SQUARES},
    /* branches and loops */
    {"fun f (x : f32[n]) = if n > 4 then x * 2.0 else x + 1.0", "f", ROWS},
    {"fun f (x : f32[n]) = if n == 0 then 0.0 else x.[0] + x.[n - 1]", "f",
     ROWS},
    {"fun f (x : f32[n]) = if n > 1 && x.[1] > 0.0 then x.[1] else 7.0", "f",
     ROWS},
    {"fun f (x : f32[n]) = if sum x > 0.5 then x else -x", "f", ROWS},
    {"fun f (x : f32[n]) = iterate 3 (fn y => y * x + 1.0) x", "f", ROWS},
    {"fun f (x : f32[5, n]) = fold (fn a => fn r => a * 0.5 + r) (zeros [n]) x",
     "f", ROWS},
    {"fun f (x : f32[4, n]) = scan (fn a => fn r => (a + r, a * r)) x.[0, :] x",
     "f", ROWS},
    {"fun f (x : f32[n]) = if n % 2 == 1 then fail \"odd\" else x + 1.0", "f",
     ROWS},
    {"fun f (x : f32[n]) = if sum x > 0.5 then fail \"sum\" else"
     "  if n > 7 then fail \"long\" else x + 1.0",
     "f", ROWS},
    {"fun g x = if dim 0 x == 2 then (assert (sum x < 0.0); fail \"two\") else"
     "  sum x\n"
     "fun f (x : f32[n]) = if n < 3 then g x + 1.0 else g x",
     "f", ROWS},
    {"fun f (x : f32[n]) = (assert (n != 7); assert (sum x < 1.0); x)", "f",
     ROWS},
    {"fun f (x : f32[n]) = for i < n =>"
     "  if i > 7 then fail \"long\" else x.[i] + 1.0",
     "f", ROWS},
    {"fun f (x : f32[n]) k = iterate k (fn y => y * 0.5 + x) x",
     "f : f32[n] -> dim(k) -> _",
     {"n=3 k=0", "n=2 k=5", "n=0 k=3"}},
    {"fun f (x : f32[n]) = iterate 40 (fn (a, b) => (b, a * 0.5 + b)) (x, x)",
     "f", ROWS},
    {"fun f (x : f32[n, m]) = fold (fn a => fn r => a * 0.5 + r) (zeros [m]) x",
     "f", SQUARES},
    {"fun f (x : f32[n, m]) = scan (fn a => fn r => (a + r, a * r)) (zeros [m])"
     "  x",
     "f", SQUARES},
    {"fun f (x : f32[n, m]) ="
     "  fold (fn a => fn r => fold (fn b => fn e => b * 0.25 + e + sum a) 0.0 r"
     "    + a) (zeros [2]) x",
     "f", SQUARES},
    {"fun f (p : {wx : f32[m, d], wh : f32[m, m], b : f32[m]}) h x ="
     "  nn.rnn p h x",
     "f : {wx : f32[m, d], wh : f32[m, m], b : f32[m]} -> f32[n, m] ->"
     "  f32[t, n, d] -> _",
     {"m=3 d=2 n=2 t=5", "m=1 d=1 n=1 t=1", "m=2 d=1 n=1 t=0"}},
    {"fun f (x : f32[n]) k ="
     "  iterate k (fn y => if sum y > 1.0 then y * 0.5 else y + 0.25) x",
     "f : f32[n] -> dim(k) -> _",
     {"n=3 k=4", "n=2 k=5", "n=0 k=3"}},
    {"fun f (x : f32[k, n, m]) ="
     "  map (fn y => fold (fn a => fn r => a * 0.5 + r) 0.0 (sum ~axis:0 y)) x",
     "f",
     {"n=3 m=2 k=5", "n=1 m=1 k=1", "n=2 m=0 k=3"}},
    {"fun f (x : f32[k, n, m]) ="
     "  for i => snd (scan (fn a => fn r => (a * x.[i, 0, 0] + r, a + r))"
     "    (zeros [m]) x.[i, :, :])",
     "f : f32[k, n, m] -> f32[k, n, m] given 1 <= n, 1 <= m",
     {"n=3 m=2 k=5", "n=1 m=1 k=1", "n=4 m=1 k=0"}},
    {"fun f (x : f32[n]) = while (fn y => sum (abs y) > 1.0)"
     "  (fn y => y * 0.5) x",
     "f", ROWS},
    {"fun f (x : f32[n]) = while (fn (i, y) => i < 3 || i < 5 && sum y > 0.0)"
     "  (fn (i, y) => (i + 1, y * 0.5 + x)) (0, x)",
     "f : f32[n] -> int * f32[n]", ROWS},
    {"val t = [1.0, 2.0, 3.0]\nfun f (x : f32[n, 3]) = x * t", "f", ROWS},
    {"val k = sum [1, 2]\nfun f (x : f32[n, m]) = x.[:, :k]",
     "f : f32[n, 5] -> _", ROWS},
    /* element types */
    {"fun f x = (x * x + 1.0, sum x, f32 x, mean x)", "f : f16[n] -> _", ROWS},
    {"fun f x = (x / 3.0, sum x, f64 x, -x)", "f : bf16[n] -> _", ROWS},
    {"fun half p = each bf16 p\n"
     "fun f p = half p",
     "f : {w : f32[n, m], b : f32 * i64[m]} -> _", SQUARES},
    {"fun half p = each bf16 p\n"
     "fun loss p x = sum (f32 (square (half x @ p.w + p.b)))\n"
     "fun f (w : f32[n, m]) (b : f32[m]) (x : f32[3, n]) ="
     "  let val p = {w, b, names = \"a\"}"
     "      val g = grad (fn p => loss (half p) x) p"
     "      val next = each2 (fn w d => f64 w - 0.5 * f64 d) p (half g)"
     "  in (g.w, next.w, next.b) end",
     "f", SQUARES},
    {"fun f x = (exp x, sum (x * x), i32 (x * 100.0), x % 0.75)",
     "f : f64[n] -> _", ROWS},
    {"fun f x = (x * 100 - 50, sum x, x / 3, (x - 1) % 5, f32 x, -x)",
     "f : i32[n] -> _", ROWS},
    {"fun f x = (x * 200 + 100, sum x, x == x, f16 x, abs x)", "f : u8[n] -> _",
     ROWS},
    {"fun f x = (x * 100 + 100, i64 x, sign (x - 1))", "f : i8[n] -> _", ROWS},
    {"fun f x y = (x / (y + 1), x % (y + 1))", "f : i64[n] -> i64[n] -> _",
     ROWS},
    {"fun f x = (any (x > 0.5), all (x > -3.0), x > 0.0 && x < 1.0,"
     "  argmin x, prod x)",
     "f : f32[m, n] -> _", SQUARES},
    {"fun f x = (floor x, ceil x, round x, trunc x, abs x, sign x,"
     "  maximum x 0.0, pow (abs x) 2.0)",
     "f : f32[n] -> _", ROWS},
    {"fun f x = (sqrt (abs x), rsqrt (abs x + 1.0), log1p (abs x), expm1 x,"
     "  sin x, cos x, tan x, erf x, atan2 x 2.0, isnan (sqrt x))",
     "f : f32[n] -> _", ROWS},
    {"fun f (x : f32[n]) = x + normal (key 3) [n] + uniform (key 4) [n]", "f",
     ROWS},
    {"fun f (x : f16[n]) = (x + normal (key 3) [n], uniform (key 4) [n] + x)",
     "f", ROWS},
    {"fun f n = (permutation (key 5) n, normal (key 6) [n])",
     "f : dim(n) -> i64[n] * f64[n]", ROWS},
    {"fun f (x : f16[n, m]) = (cumsum x, sort ~axis:0 x, topk 0 x)", "f",
     SQUARES},
    {"fun f x i y = scatter x i y",
     "f : i32[n] -> i64[k] -> i32[k] -> _",
     {"n=2 k=5", "n=7 k=1", "n=3 k=0"}},
    {"fun f (x : f32[b, n, m]) ="
     "  (map sort x, map (fn y => cumsum ~axis:0 y) x)",
     "f",
     {"b=2 n=3 m=5", "b=1 n=1 m=1", "b=3 n=0 m=2"}},
    {"fun f (x : f32[70, n]) (y : f32[n, 130]) = x @ y", "f", ROWS},
    {"fun f (x : bf16[n, 70]) (y : bf16[70, m]) = x @ y", "f", SQUARES},
};
