"""One-line programs: a name, and the expression in Axon, in NumPy and in PyTorch
(None: there is no useful counterpart), of the inputs that run.py creates."""

CASES = []


def case(name, axon, numpy=None, torch=None):
    CASES.append((name, axon, numpy, torch))


# ---- each type
PAIRS = {"u8": ("u", "u2"), "i8": ("s", "s2"), "i32": ("i", "i2"),
         "i64": ("l", "l2"), "f16": ("h", "h2"), "f32": ("x", "y"),
         "f64": ("d", "d2"), "bf16": ("bh", "bh2")}
for t, (a, b) in PAIRS.items():
    n = None if t == "bf16" else f"{a} + {b}"
    case(f"{t} +", f"{a} + {b}", n, f"{a} + {b}")
    n = None if t == "bf16" else f"{a} * {b}"
    case(f"{t} *", f"{a} * {b}", n, f"{a} * {b}")
    case(f"{t} maximum", f"maximum {a} {b}",
         None if t == "bf16" else f"np.maximum({a}, {b})",
         f"torch.maximum({a}, {b})")
    case(f"{t} <", f"{a} < {b}", None if t == "bf16" else f"{a} < {b}",
         f"{a} < {b}")
    case(f"{t} select", f"select m {a} {b}",
         None if t == "bf16" else f"np.where(m, {a}, {b})",
         f"torch.where(m, {a}, {b})")
    case(f"{t} sum", f"sum {a}",
         None if t == "bf16" else f"{a}.sum(dtype={a}.dtype)",
         f"{a}.sum(dtype={a}.dtype)")
    case(f"{t} max", f"max {a}", None if t == "bf16" else f"{a}.max()",
         f"{a}.max()")
    case(f"{t} argmax", f"argmax {a}", None if t == "bf16" else f"{a}.argmax()",
         f"{a}.argmax()")
    case(f"{t} cumsum", f"cumsum {a}",
         None if t == "bf16" else f"np.cumsum({a}, dtype={a}.dtype)",
         f"torch.cumsum({a}, 0, dtype={a}.dtype)")
for t, a in [("u8", "u"), ("i32", "i"), ("i64", "l")]:
    case(f"{t} / 7", f"{a} / 7", f"{a} // 7",
         None if t == "u8" else f"torch.div({a}, 7, rounding_mode='floor')")
    case(f"{t} / array", f"{a} / ({a}2)", f"{a} // {a}2", None)
    case(f"{t} % array", f"{a} % ({a}2)", f"{a} % {a}2", f"{a} % {a}2")
case("i32 abs", "abs i", "np.abs(i)", "i.abs()")
case("i32 == count", "sum (i64 (i == i2))", "np.count_nonzero(i == i2)",
     "(i == i2).sum()")

# ---- casts
NAMES = {"u8": "uint8", "i8": "int8", "i32": "int32", "i64": "int64",
         "f16": "float16", "f32": "float32", "f64": "float64"}
for t in NAMES:
    for t2 in NAMES:
        if t == t2:
            continue
        a, np = PAIRS[t][0], NAMES[t2]
        case(f"{t} to {t2}", f"{t2} {a}", f"{a}.astype(np.{np})",
             f"{a}.to(torch.{np})")
case("f32 to bf16", "bf16 x", None, "x.to(torch.bfloat16)")
case("bf16 to f32", "f32 bh", None, "bh.to(torch.float32)")
case("f32 to bool", "bool x", "x.astype(bool)", "x.to(torch.bool)")
case("bool to f32", "f32 m", "m.astype(np.float32)", "m.to(torch.float32)")

# ---- functions
for f in ("exp log sin cos tanh sqrt log1p expm1 floor round abs tan "
          "sinh").split():
    v = "p" if f in ("log", "sqrt", "log1p") else "x"
    case(f"f32 {f}", f"{f} {v}", f"np.{f}({v})", f"torch.{f}({v})")
    v2 = "dp" if v == "p" else "d"
    case(f"f64 {f}", f"{f} {v2}", f"np.{f}({v2})", f"torch.{f}({v2})")
case("f16 exp", "exp h", None, "torch.exp(h)")
case("bf16 exp", "exp bh", None, "torch.exp(bh)")
case("f32 erf", "erf x", None, "torch.erf(x)")
case("f32 pow", "pow p y", "np.power(p, y)", "torch.pow(p, y)")
case("f64 pow", "pow dp d2", "np.power(dp, d2)", "torch.pow(dp, d2)")
case("f32 pow 3", "pow x 3.0", "np.power(x, np.float32(3))",
     "torch.pow(x, 3.0)")
case("i64 pow 3", "pow l 3", "np.power(l, 3)", "torch.pow(l, 3)")
case("f32 atan2", "atan2 x y", "np.arctan2(x, y)", "torch.atan2(x, y)")
INVERSE = {"acosh": "arccosh", "asinh": "arcsinh", "atan": "arctan",
           "atanh": "arctanh", "asin": "arcsin", "acos": "arccos"}
for f in "cosh log2 log10 cbrt asin acos atan asinh acosh atanh".split():
    for t, inside, outside in [("f32", "q", "p1"), ("f64", "dq", "dp1")]:
        v = outside if f in ("log2", "log10", "acosh") else inside
        case(f"{t} {f}", f"{f} {v}", f"np.{INVERSE.get(f, f)}({v})",
             None if f == "cbrt" else f"torch.{f}({v})")
for t, (a, b) in [("f32", ("x", "y")), ("f64", ("d", "d2"))]:
    case(f"{t} hypot", f"hypot {a} {b}", f"np.hypot({a}, {b})",
         f"torch.hypot({a}, {b})")
case("f64 atan2", "atan2 d d2", "np.arctan2(d, d2)", "torch.atan2(d, d2)")
case("f32 %", "x % p", "np.mod(x, p)", "torch.remainder(x, p)")
case("f32 /", "x / p", "x / p", "x / p")
case("f32 clip", "clamp (-0.5) 0.5 x",
     "np.clip(x, np.float32(-.5), np.float32(.5))", "torch.clamp(x, -.5, .5)")
case("isnan any", "any (isnan x)", "np.isnan(x).any()", "torch.isnan(x).any()")
case("where sum", "sum (select (x > 0.0) x 0.0)",
     "np.where(x > 0, x, 0).sum()", "torch.where(x > 0, x, 0.).sum()")

# ---- reductions over axes
for t, a in [("f32", "xx"), ("f64", "dd"), ("i32", "ii"), ("u8", "uu")]:
    for ax in (0, 1):
        case(f"{t} sum axis {ax}", f"sum ~axis:{ax} {a}",
             f"{a}.sum({ax}, dtype={a}.dtype)",
             f"{a}.sum({ax}, dtype={a}.dtype)")
        case(f"{t} max axis {ax}", f"max ~axis:{ax} {a}", f"{a}.max({ax})",
             f"torch.amax({a}, {ax})")
        case(f"{t} argmax axis {ax}", f"argmax ~axis:{ax} {a}",
             f"{a}.argmax({ax})", f"{a}.argmax({ax})")
        case(f"{t} cumsum axis {ax}", f"cumsum ~axis:{ax} {a}",
             f"np.cumsum({a}, {ax}, dtype={a}.dtype)",
             f"torch.cumsum({a}, {ax}, dtype={a}.dtype)")
for ax in (0,1):
    case(f"any axis {ax}", f"any ~axis:{ax} mm", f"mm.any({ax})",
         f"mm.any({ax})")
    case(f"all axis {ax}", f"all ~axis:{ax} (xx > -1.0e9)",
         f"(xx > -1e9).all({ax})", f"(xx > -1e9).all({ax})")
    case(f"prod axis {ax}", f"prod ~axis:{ax} xx", f"xx.prod({ax})",
         f"xx.prod({ax})")
for t, a in [("u8", "u"), ("i32", "i"), ("f32", "x"), ("f64", "d")]:
    case(f"{t} argmax rows 100", f"argmax ~axis:1 (reshape [10000, 100] {a})",
         f"{a}.reshape(10000, 100).argmax(1)",
         f"{a}.reshape(10000, 100).argmax(1)")
case("count", "sum (i64 m)", "np.count_nonzero(m)", "m.sum()")
case("any", "any none", "none.any()", "none.any()")
case("all", "all (not none)", "(~none).all()", "(~none).all()")
case("sum middle", "sum ~axis:1 cube", "cube.sum(1)", "cube.sum(1)")
case("max middle", "max ~axis:1 cube", "cube.max(1)", "cube.amax(1)")
case("argmax middle", "argmax ~axis:1 cube", "cube.argmax(1)",
     "cube.argmax(1)")
case("sum 0,2", "sum ~axis:0 (sum ~axis:2 cube)", "cube.sum((0, 2))",
     "cube.sum((0, 2))")
case("cumsum middle", "cumsum ~axis:1 cube", "np.cumsum(cube, 1)",
     "torch.cumsum(cube, 1)")
case("var axis 0", "var ~axis:0 xx", "xx.var(0)", "xx.var(0, correction=0)")
case("std", "std x", "x.std()", "x.std(correction=0)")
case("logsumexp", "logsumexp ~axis:1 xx", None, "torch.logsumexp(xx, 1)")

# ---- moving
for p, ax in [("a b c -> c b a", (2, 1, 0)), ("a b c -> b a c", (1, 0, 2)),
              ("a b c -> a c b", (0, 2, 1)), ("a b c -> b c a", (1, 2, 0)),
              ("a b c -> c a b", (2, 0, 1))]:
    case(f"permute {p}", f'permute "{p}" cube',
         f"np.ascontiguousarray(cube.transpose{ax})",
         f"cube.permute{ax}.contiguous()")
for p, ax in [("a b c d -> d c b a", (3, 2, 1, 0)),
              ("a b c d -> a c b d", (0, 2, 1, 3)),
              ("a b c d -> a d b c", (0, 3, 1, 2)),
              ("a b c d -> a c d b", (0, 2, 3, 1)),
              ("a b c d -> b d a c", (1, 3, 0, 2))]:
    case(f"permute {p}", f'permute "{p}" four',
         f"np.ascontiguousarray(four.transpose{ax})",
         f"four.permute{ax}.contiguous()")
case("transpose f32", "transpose xx", "np.ascontiguousarray(xx.T)",
     "xx.T.contiguous()")
case("transpose u8", "transpose uu", "np.ascontiguousarray(uu.T)",
     "uu.T.contiguous()")
case("transpose f64", "transpose dd", "np.ascontiguousarray(dd.T)",
     "dd.T.contiguous()")
case("transpose f16", "transpose hh", "np.ascontiguousarray(hh.T)",
     "hh.T.contiguous()")
case("concat 0", "concat ~axis:0 (xx, yy)", "np.concatenate((xx, yy), 0)",
     "torch.cat((xx, yy), 0)")
case("concat 1", "concat ~axis:1 (xx, yy)", "np.concatenate((xx, yy), 1)",
     "torch.cat((xx, yy), 1)")
case("concat u8", "concat ~axis:1 (uu, uu)", "np.concatenate((uu, uu), 1)",
     "torch.cat((uu, uu), 1)")
case("roll u8", "roll ~axis:0 7 u", "np.roll(u, 7)", "torch.roll(u, 7)")
case("roll bf16", "roll ~axis:0 7 bh", None, "torch.roll(bh, 7)")
case("stack 2", "for i j => [xx.[i, j], yy.[i, j]]", "np.stack((xx, yy), 2)",
     "torch.stack((xx, yy), 2)")
case("pad",
     "pad ~axis:0 ~before:3 ~after:3 (pad ~axis:1 ~before:3 ~after:3 xx)",
     "np.pad(xx, 3)", "torch.nn.functional.pad(xx, (3, 3, 3, 3))")
case("roll 0", "roll ~axis:0 7 xx", "np.roll(xx, 7, 0)",
     "torch.roll(xx, 7, 0)")
case("roll 1", "roll ~axis:1 7 xx", "np.roll(xx, 7, 1)",
     "torch.roll(xx, 7, 1)")
case("reverse 0", "reverse ~axis:0 xx", "np.ascontiguousarray(xx[::-1])",
     "torch.flip(xx, (0,))")
case("reverse 1", "reverse ~axis:1 xx", "np.ascontiguousarray(xx[:, ::-1])",
     "torch.flip(xx, (1,))")
case("reverse u8", "reverse ~axis:1 uu", "np.ascontiguousarray(uu[:, ::-1])",
     "torch.flip(uu, (1,))")
case("every 2nd", "for i < 500000 => x.[2 * i]",
     "np.ascontiguousarray(x[::2])", "x[::2].contiguous()")
case("every 5th u8", "for i < 200000 => u.[5 * i]",
     "np.ascontiguousarray(u[::5])", "u[::5].contiguous()")
case("every 2nd row+col", "for i < 500, j < 500 => xx.[2 * i, 2 * j]",
     "np.ascontiguousarray(xx[::2, ::2])", "xx[::2, ::2].contiguous()")
case("slice", "xx.[100:900, 100:900] * 2.0", "xx[100:900, 100:900] * 2",
     "xx[100:900, 100:900] * 2")
case("tile", "tile ~axis:0 4 x4", "np.tile(x4, 4)", "x4.repeat(4)")
case("repeat", "repeat ~axis:0 4 x4", "np.repeat(x4, 4)",
     "x4.repeat_interleave(4)")
case("outer", "outer r r2", "np.outer(r, r2)", "torch.outer(r, r2)")
case("bcast row", "xx + r.[*, :]", "xx + r", "xx + r")
case("bcast col", "xx + r.[:, *]", "xx + r[:, None]", "xx + r[:, None]")
case("tril", "tril xx", "np.tril(xx)", "torch.tril(xx)")
case("iota", "iota 1000000 + l.[0]", "np.arange(1000000) + l[0]",
     "torch.arange(1000000) + l[0]")
case("one hot", "(one_hot 100 k4 : f32[20000, 100])", None,
     "torch.nn.functional.one_hot(k4, 100).to(torch.float32)")
case("diff", "diff x", "np.diff(x)", "torch.diff(x)")

# ---- gather, scatter, order
case("gather 1", "gather x k", "x[k]", "x[k]")
case("gather rows 64", "gather w64 k4", "np.take(w64, k4, 0)", "w64[k4]")
case("gather rows 3", "gather w3 k", "np.take(w3, k, 0)", "w3[k]")
case("gather u8", "gather u k", "np.take(u, k)", "u[k]")
case("take along", "for i j => xx.[i, along.[i, j]]",
     "np.take_along_axis(xx, along, 1)", "torch.gather(xx, 1, along)")
case("take along f64", "for i j => dd.[i, along.[i, j]]",
     "np.take_along_axis(dd, along, 1)", "torch.gather(dd, 1, along)")
case("gather 2d", "for i => xx.[k10.[i], k10b.[i]]", "xx[k10, k10b]",
     "xx[k10, k10b]")
case("scatter add 1", "scatter z1 k x", "np.add.at(z1.copy(), k, x)",
     "z1.index_add(0, k, x)")
case("scatter add 1 few", "scatter z100 k100 x", "np.bincount(k100, x, 100)",
     "z100.index_add(0, k100, x)")
case("scatter rows", "scatter zr k4s w64s", None, "zr.index_add(0, k4s, w64s)")
case("bincount", "scatter (zeros [100]) k100 (ones_like l)",
     "np.bincount(k100, minlength=100)", "torch.bincount(k100, minlength=100)")
case("histogram",
     "scatter (zeros [64]) (i64 (floor (clamp 0.0 63.0 ((x + 4.0) * 8.0)))) "
     "(ones_like l)",
     "np.histogram(x, 64, (-4, 4))", "torch.histc(x, 64, -4, 4)")
case("bag", "for i => sum ~axis:0 (gather w64 bags.[i, :])",
     "w64[bags].sum(1)",
     "torch.nn.functional.embedding_bag(bags, w64, mode='sum')")
case("sort f32", "sort x", "np.sort(x)", "torch.sort(x)[0]")
case("sort f64", "sort d", "np.sort(d)", "torch.sort(d)[0]")
case("sort i32", "sort i", "np.sort(i)", "torch.sort(i)[0]")
case("sort i64", "sort l", "np.sort(l)", "torch.sort(l)[0]")
case("sort u8", "sort u", "np.sort(u)", "torch.sort(u)[0]")
case("sort f16", "sort h", "np.sort(h)", "torch.sort(h)[0]")
case("sort rows", "sort xx", "np.sort(xx, 1)", "torch.sort(xx, 1)[0]")
case("sort cols", "sort ~axis:0 xx", "np.sort(xx, 0)", "torch.sort(xx, 0)[0]")
case("sort rows 10", "sort ten", "np.sort(ten, 1)", "torch.sort(ten, 1)[0]")
case("sort rows 100", "sort (reshape [10000, 100] x)",
     "np.sort(x.reshape(10000, 100), 1)",
     "torch.sort(x.reshape(10000, 100), 1)[0]")
case("argsort f32", "argsort x", "np.argsort(x, kind='stable')",
     "torch.argsort(x)")
case("argsort i64", "argsort l", "np.argsort(l, kind='stable')",
     "torch.argsort(l)")
case("argsort rows", "argsort xx", "np.argsort(xx, 1, kind='stable')",
     "torch.argsort(xx, 1)")
case("topk 10", "fst (topk 10 x)", None, "torch.topk(x, 10)[0]")
case("topk 1000", "fst (topk 1000 x)", None, "torch.topk(x, 1000)[0]")
case("topk rows 10", "fst (topk 10 xx)", None, "torch.topk(xx, 10, 1)[0]")
case("unique i64", "dim 0 (unique l)", "np.unique(l)", "torch.unique(l)")
case("unique few", "dim 0 (unique k100)", "np.unique(k100)",
     "torch.unique(k100)")
case("nonzero", "nonzero m", "np.flatnonzero(m)", "torch.nonzero(m)")
case("filter", "filter (fn e => e > 0.0) x", "x[x > 0]", "x[x > 0]")
case("median", "median x", "np.median(x)", "torch.median(x)")
case("permutation", "permutation (key 1) 1000000",
     "np.random.default_rng(1).permutation(1000000)",
     "torch.randperm(1000000)")

# ---- random
case("uniform f32", "uniform (key 1) [1000000] + x.[0]",
     "rng.random(1000000, dtype=np.float32)", "torch.rand(1000000)")
case("normal f32", "normal (key 1) [1000000] + x.[0]",
     "rng.standard_normal(1000000, dtype=np.float32)", "torch.randn(1000000)")
case("uniform f64", "uniform (key 1) [1000000] + d.[0]", "rng.random(1000000)",
     "torch.rand(1000000, dtype=torch.float64)")
case("normal f64", "normal (key 1) [1000000] + d.[0]",
     "rng.standard_normal(1000000)",
     "torch.randn(1000000, dtype=torch.float64)")

# ---- loops with functions
case("reduce +", "reduce (fn a b => a + b) 0.0 x", "np.add.reduce(x)",
     "x.sum()")
case("reduce max", "reduce (fn a b => maximum a b) x.[0] x",
     "np.maximum.reduce(x)", "x.amax()")
case("reduce custom", "reduce (fn a b => a + b + a * b) 0.0 xs", None, None)
case("reduce rows", "reduce (fn a b => a + b) r xx", "np.add.reduce(xx, 0)",
     "xx.sum(0)")
case("fold +", "fold (fn a b => a * 0.5 + b) 0.0 x", None, None)
case("fold rows", "fold (fn a b => a * 0.5 + b) r xx", None, None)
case("fold f64 pair",
     "fold (fn (a, b) e => (a + e, maximum b e)) (0.0, 0.0) d", None, None)
case("cumprod", "cumprod pq", "np.cumprod(pq)", "torch.cumprod(pq, 0)")
case("cummax",
     "snd (scan (fn a e => let val b = maximum a e in (b, b) end) (-inf) x)",
     "np.maximum.accumulate(x)", "torch.cummax(x, 0)[0]")
case("scan ema",
     "snd (scan (fn a e => let val b = 0.9 * a + 0.1 * e in (b, b) end) "
     "0.0 x)",
     None, None)
case("scan rows",
     "snd (scan (fn a e => let val b = 0.9 * a + 0.1 * e in (b, b) end) r xx)",
     None, None)
case("cumprod rows",
     "snd (scan (fn a e => let val b = a * e in (b, b) end) r xx)",
     "np.cumprod(xx, 0)", "torch.cumprod(xx, 0)")
case("map reduce", "map (fn row => reduce (fn a b => a + b) 0.0 row) xx",
     "xx.sum(1)", "xx.sum(1)")
case("map scan",
     "map (fn row => snd (scan (fn a e => let val b = maximum a e in (b, b) "
     "end) (-inf) row)) xx",
     "np.maximum.accumulate(xx, 1)", "torch.cummax(xx, 1)[0]")
case("iterate 1000 scalar", "iterate 100000 (fn a => a * 0.999 + x.[0]) 1.0",
     None, None)
case("iterate 1000 vec", "iterate 1000 (fn a => a * 0.999 + r) r", None, None)
case("while", "while (fn a => a < 1.0e6) (fn a => a + 1.0) 0.0", None, None)
case("horner", "fold (fn a e => a * 0.5 + e) 0.0 r", "np.polyval(r, .5)", None)
