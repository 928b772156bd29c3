#!/usr/bin/python3
"""Tests the distributions of stdlib/random.axn against SciPy:

    PYTHON tests/oracle/distributions.py [SEED [COUNT]]    (from the root; needs SciPy)

Prints the p-value of a Kolmogorov-Smirnov test or a chi-square test for each
distribution, and fails if one is below 1e-4.  Also compares the distribution
function of the normal distribution and its inverse with SciPy, as relative
errors.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
from scipy import special, stats

SEED = sys.argv[1] if len(sys.argv) > 1 else "11"
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 200000
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
work = tempfile.TemporaryDirectory()
failed = False


def path(name):
    return os.path.join(work.name, name + ".npy")


def report(name, value, good):
    global failed
    failed |= not good
    print(f"{name:30} {value:.3g}" + ("" if good else "  WRONG"))


CONTINUOUS = [
    ("exponential", "random.exponential k [n]", stats.expon()),
    ("gumbel", "random.gumbel k [n]", stats.gumbel_r()),
    ("gamma 0.3", "random.gamma k 0.3 [n]", stats.gamma(0.3)),
    ("gamma 1", "random.gamma k 1.0 [n]", stats.gamma(1)),
    ("gamma 7.5", "random.gamma k 7.5 [n]", stats.gamma(7.5)),
    ("gamma 1000", "random.gamma k 1000.0 [n]", stats.gamma(1000)),
    ("gamma of f32", "f64 (random.gamma k (2.5 : f32) [n])",
     stats.gamma(2.5)),
    ("beta 0.5 0.7", "random.beta k 0.5 0.7 [n]", stats.beta(0.5, 0.7)),
    ("beta 5 2", "random.beta k 5.0 2.0 [n]", stats.beta(5, 2)),
    ("normal in -1 to 2", "random.truncated_normal k (-1.0) 2.0 [n]",
     stats.truncnorm(-1, 2)),
    ("normal above 6", "random.truncated_normal k 6.0 inf [n]",
     stats.truncnorm(6, np.inf)),
    ("normal below -9", "random.truncated_normal k (-inf) (-9.0) [n]",
     stats.truncnorm(-np.inf, -9)),
    ("poisson 1e6", "(f64 (random.poisson k 1e6 [n]) + "
     "(uniform (fold_key k 9) [n] - 0.5) - 1e6) / 1000.0", stats.norm()),
]
DISCRETE = [
    ("poisson 0.3", "random.poisson k (0.3 : f64) [n]", stats.poisson(0.3)),
    ("poisson 9.9", "random.poisson k (9.9 : f64) [n]", stats.poisson(9.9)),
    ("poisson 10", "random.poisson k (10.0 : f64) [n]", stats.poisson(10)),
    ("poisson 123.4", "random.poisson k (123.4 : f64) [n]",
     stats.poisson(123.4)),
    ("randint", "random.randint k (-3) 14 [n]", stats.randint(-3, 14)),
    ("bernoulli", "i64 (random.bernoulli k (0.2 : f32) [n])",
     stats.bernoulli(0.2)),
    ("categorical", "random.categorical k (broadcast [n, 4] "
     "(log [0.1, 0.2, 0.3, 0.4]))",
     stats.rv_discrete(values=(range(4), (0.1, 0.2, 0.3, 0.4)))),
    ("choice", "random.choice k n (iota 7 : i64[7])", stats.randint(0, 7)),
    ("shuffle", "for i < 20000 => dot (random.shuffle (fold_key k i) "
     "[0, 1, 2, 3]) [64, 16, 4, 1]", 24),
    ("sample", "for i < 20000 => dot (random.sample (fold_key k i) 2 "
     "[0, 1, 2, 3, 4]) [5, 1]", 20),
]
POINTS = {
    "quantile": np.concatenate([np.linspace(0, 1, 2001)[1:-1],
                                10.0 ** -np.arange(1, 300, 3.0),
                                [1e-17, 1 - 1e-15]]),
    "cdf": np.linspace(-37, 37, 4001),
}


def chi_square(x, want):
    if isinstance(want, int):  # the number of equally likely values
        counts = np.unique(x, return_counts=True)[1]
        return stats.chisquare(counts).pvalue if len(counts) == want else 0
    values = np.arange(x.min(), x.max() + 1)
    expected = np.append(want.pmf(values) * len(x), 0)
    counts = np.append([(x == v).sum() for v in values], 0)
    rare = expected < 10
    counts[-1] = counts[rare].sum()
    expected[-1] = len(x) - expected[~rare].sum()
    keep = np.append(~rare[:-1], expected[-1] > 5)
    counts, expected = counts[keep], expected[keep]
    return stats.chisquare(counts, expected * counts.sum()
                           / expected.sum()).pvalue


program = f"val k = key {SEED}\nval n = {COUNT}\n"
for name, call, _ in CONTINUOUS:
    program += f'val x : f64[n] = {call}\ndo save "{path(name)}" x\n'
for name, call, _ in DISCRETE:
    program += f'do save "{path(name)}" ({call})\n'
for name, points in POINTS.items():
    np.save(path(name), points)
    program += (f'val p : f64[?p] = load "{path(name)}"\n'
                f'do save "{path(name + "_of")}" (random.normal_{name} p)\n')
with open(os.path.join(work.name, "draw.axn"), "w") as f:
    f.write(program)
subprocess.run([os.path.join(ROOT, "axon"), "run", f.name], check=True)
for name, _, want in CONTINUOUS:
    p = stats.kstest(np.load(path(name)), want.cdf).pvalue
    report(name, p, p > 1e-4)
for name, _, want in DISCRETE:
    p = chi_square(np.load(path(name)), want)
    report(name, p, p > 1e-4)
for name, f, bound in (("quantile", special.ndtri, 1e-14),
                       ("cdf", special.ndtr, 1e-12)):
    want = f(POINTS[name])
    error = np.max(abs(np.load(path(name + "_of")) - want)
                   / np.maximum(abs(want), 1e-3 * (name == "quantile")))
    report("normal_" + name, error, error < bound)
sys.exit(failed)
