#!/usr/bin/env python3
"""Writes tests/run/sampling.axn: logits that the module generate filters, and what
NumPy makes of them.  Needs NumPy.

    PYTHON tests/oracle/sampling.py > tests/run/sampling.axn
"""
import numpy as np

rng = np.random.default_rng(25)
X = np.round(rng.normal(size=(3, 9)) * 2, 2)
X[1, 4] = X[1, 7] = X[1, 2]  # equal logits


def order(x):
    return np.argsort(-x, axis=-1, kind="stable")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def keep(x, rows):
    y = np.full_like(x, -np.inf)
    for i, columns in enumerate(rows):
        y[i, columns] = x[i, columns]
    return y


def top_k(x, k):
    return keep(x, order(x)[:, :k])


def top_p(x, p):
    rows = []
    for row, o in zip(x, order(x)):
        total = np.cumsum(softmax(row)[o])
        rows.append(o[:1 + np.searchsorted(total, p)])
    return keep(x, rows)


def min_p(x, p):
    y = softmax(x)
    return np.where(y >= p * y.max(-1, keepdims=True), x, -np.inf)


def penalize(x, r, seen):
    y = x.copy()
    for i in set(seen):
        y[:, i] = np.where(x[:, i] > 0, x[:, i] / r, x[:, i] * r)
    return y


def text(x):
    rows = [", ".join("-inf" if np.isinf(v) else repr(round(float(v), 6))
                      for v in row) for row in x]
    return "[" + ",\n   ".join("[" + r + "]" for r in rows) + "]"


def check(call, expected):
    print("do agree (%s)\n  %s" % (call, text(expected)))


print("(* generate filters logits as NumPy does: tests/oracle/sampling.py *)")
print("val x =\n  " + text(X))
print("""fun agree (y : f32[3, 9]) (z : f32[3, 9]) =
  print (all ((y == -inf) == (z == -inf)),
         allclose (select (z == -inf) 0.0 y) (select (z == -inf) 0.0 z))
val seen = [4, 0, 4, 8]""")
for k in 1, 3, 9:
    check("generate.top_k %d x" % k, top_k(X, k))
for p in 0.05, 0.5, 0.9:
    check("generate.top_p %s x" % p, top_p(X, p))
for p in 0.02, 0.3, 1.0:
    check("generate.min_p %s x" % p, min_p(X, p))
check("generate.penalize ~penalty:1.3 seen x", penalize(X, 1.3, [4, 0, 8]))
y = top_p(top_k(penalize(X, 1.2, [4, 0, 8]) / 0.7, 6), 0.95)
check("generate.filtered {temperature = 0.7, top_k = 6, top_p = 0.95, "
      "min_p = 0.05, penalty = 1.2} seen x", min_p(y, 0.05))
print("""(* The key decides, and nothing else: always the same tokens, with the
 * frequencies of the probabilities. *)
val c = {generate.greedy with temperature = 1.0, top_k = 4}
fun draw i = generate.choose c (fold_key (key 7) i) seen x.[0, :]
val draws = for i < 4000 => draw i
do print (all (draws == (for i < 4000 => draw i)))
val share = float (bincount 9 draws) / 4000.0
do print (max (abs (share - softmax (generate.top_k 4 x.[0, :]))) < 0.03)
do print (all (generate.choose generate.greedy (key 1) seen x == argmax x))""")
