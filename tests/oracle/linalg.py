#!/usr/bin/python3
"""Compares gradients of stdlib/linalg.axn with those of PyTorch:

    PYTHON tests/oracle/linalg.py          (from the root; needs PyTorch)

Prints the largest error of each gradient, relative to its largest element, and
fails if one is above 1e-10.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
la = torch.linalg
torch.set_default_dtype(torch.float64)
random = np.random.default_rng(5)
work = tempfile.TemporaryDirectory()


def path(name, part):
    return os.path.join(work.name, f"{name}_{part}.npy")


def noise(*shape):
    return random.standard_normal(shape)


def of_qr(f):
    return lambda a: f(*la.qr(a))


def of_svd(a):
    u, s, vt = la.svd(a, full_matrices=False)
    return u ** 2 @ (s.sqrt()[..., None] * vt ** 2)


def of_eigh(a):
    w, v = la.eigh((a + a.mT) / 2)
    return w[..., None] * v ** 2


square = noise(2, 5, 5) + 2 * np.eye(5)
definite = square @ square.transpose(0, 2, 1) + np.eye(5)
tall, wide, columns = noise(2, 6, 4), noise(2, 3, 5), noise(2, 5, 3)
SVD = ("(case linalg.svd a of (u, s, vt) => "
       "square u @ (sqrt s.[..., :, *] * square vt))")
CASES = [
    ("solve", "linalg.solve a b", la.solve, square, columns),
    ("upper", "linalg.solve_triangular a b",
     lambda a, b: la.solve_triangular(a, b, upper=True), square, columns),
    ("lower", "linalg.solve_triangular ~lower:true a b",
     lambda a, b: la.solve_triangular(a, b, upper=False), square, columns),
    ("inv", "linalg.inv a", la.inv, square),
    ("det", "linalg.det a", la.det, square),
    ("slogdet", "snd (linalg.slogdet a)", lambda a: la.slogdet(a)[1], square),
    ("cholesky", "linalg.cholesky a",
     lambda a: la.cholesky((a + a.mT) / 2), definite),
    ("tall qr", "(case linalg.qr a of (q, r) => q * sum r)",
     of_qr(lambda q, r: q * r.sum()), tall),
    ("wide qr", "(case linalg.qr a of (q, r) => r * sum q)",
     of_qr(lambda q, r: r * q.sum()), wide),
    ("singular_values", "linalg.singular_values a", la.svdvals, tall),
    ("tall svd", SVD, of_svd, tall),
    ("wide svd", SVD, of_svd, wide),
    ("eigh", "(case linalg.eigh a of (w, v) => w.[..., :, *] * square v)",
     of_eigh, square),
    ("pinv", "linalg.pinv a", la.pinv, tall),
    ("lstsq", "linalg.lstsq a b", lambda a, b: la.lstsq(a, b).solution, tall,
     noise(2, 6, 2)),
    ("expm", "linalg.expm a", torch.matrix_exp, square),
    # A sum of cubes does not depend on the order of eigenvalues.
    ("eig_vals", "sum (case linalg.eig_vals a of (x, y) => "
     "x * x * x - 3.0 * x * y * y)",
     lambda a: (la.eigvals(a) ** 3).real.sum(), square),
]


def declared(name, x, file):
    sizes = ", ".join(str(n) for n in x.shape)
    return f'val {name} : f64[{sizes}] = load "{file}"\n'


program, wanted = "", []
for name, call, f, *inputs in CASES:
    leaves = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = f(*leaves)
    weights = np.sin(1 + np.arange(y.numel())).reshape(tuple(y.shape))
    gradients = torch.autograd.grad((y * torch.tensor(weights)).sum(), leaves)
    for letter, x in zip("abw", [*inputs] + [weights]):
        part = "w" if x is weights else letter
        np.save(path(name, part), x)
        program += declared(part + "0", x, path(name, part))
    both = len(inputs) == 2
    program += (f"val g = grad (fn {'(a, b)' if both else 'a'} => "
                f"sum (w0 * ({call}))) {'(a0, b0)' if both else 'a0'}\n")
    for letter, part in zip("ab", ("fst g", "snd g") if both else ("g",)):
        program += f'do save "{path(name, "d" + letter)}" ({part})\n'
    wanted.append((name, gradients))
with open(os.path.join(work.name, "gradients.axn"), "w") as f:
    f.write(program)
subprocess.run([os.path.join(ROOT, "axon"), "run", f.name], check=True)
failed = False
for name, gradients in wanted:
    for letter, want in zip("ab", gradients):
        got, want = np.load(path(name, "d" + letter)), want.numpy()
        error = abs(got - want).max() / abs(want).max()
        failed |= not error < 1e-10
        print(f"{name + ' ' + letter:20} {error:.2g}")
sys.exit(failed)
