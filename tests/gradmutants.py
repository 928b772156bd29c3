"""Mutants of derivatives; tests/check_gradmutants.sh runs it:

    python3 tests/gradmutants.py SOURCE BUILD FOLDER EACH [WORD]

BUILD has the objects of the program, FOLDER is for temporary files.

A mutant is a program with one wrong derivative: another sign, constant,
operation or condition in
  - a row of primitives/map.def (derive_<ID>),
  - an adjoint of an opaque node (tensor/adjoint_rules.c,
    adjoint_fourier.c),
  - the adjoint of a comprehension (tensor/adjoint_body.c and
    adjoint_comprehension.c),
  - a rule of checkpoint, custom_vjp or a loop (eval/vjp_rule.c).
It is killed if a program of tests/grad has another output.  Runs one mutant in
EACH, or those whose name contains WORD.  Mutants that are equal to the program
are listed in tests/grad/mutants.survivors, with the reason; they do not run.
Prints the names of other survivors, and a last line with counts.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import mutants

SOURCE, BUILD, FOLDER = (pathlib.Path(os.path.abspath(x))
                         for x in sys.argv[1:4])
EACH, WORD = int(sys.argv[4]), (sys.argv[5:] or [""])[0]
# The fastest ones come first.
PROGRAMS = ("nan kinks elementwise moves products indices control custom_vjp "
            "structures checkpoint peers library loops").split()

# Edits of an expression of map.def: (pattern, replacement, name).
EDITS_OF_ROWS = [
    (r"return ([^;]*);", r"return NEG(\1);", "sign"),
    (r"return ([^;]*);", r"return MUL(K(1.01), \1);", "constant"),
    (r"\bK\(([-0-9.]+)\)", r"K(\1 + 0.01)", "constant"),
    (r"\bNEG\(", "(", "sign"),
    (r"\bADD\(", "SUB(", "sign"),
    (r"\bSUB\(", "ADD(", "sign"),
    (r"\bNO_NAN\(", "MUL(d->ct, ", "nan"),
    (r"PRIM_MUL_NO_NAN, CT", "PRIM_MUL, CT", "nan"),
    (r"argument == 0", "argument != 0", "argument"),
    (r"\bTEST\(EQ", "TEST(NE", "condition"),
    (r"\bTEST\(NE", "TEST(EQ", "condition"),
    (r"\? X : Y", "? Y : X", "argument"),
    (r"PRIM_GT\)", "PRIM_LT)", "condition"),
    (r"PRIM_LT\)", "PRIM_GT)", "condition"),
    (r"\bF\(COS,", "F(SIN,", "function"),
    (r"\bF\(COSH,", "F(SINH,", "function"),
    (r"\bF\(SINH,", "F(COSH,", "function"),
]
OPERATION = r"(body_op2?\(\s*&?\w+(?:->b)?,\s*)PRIM_%s\b"
EDITS_OF_CODE = [(OPERATION % a, r"\1PRIM_" + b, a + " to " + b) for a, b in [
    ("EQ", "NE"), ("ADD", "SUB"), ("SUB", "ADD"), ("MUL", "DIV"),
    ("DIV", "MUL"), ("AND", "OR"), ("GE", "GT"), ("LT", "LE")]] + [
    (r"\.f = 1\b", ".f = 1.01", "constant"),
    (r" = (a->spec.reduce_count \? )?PRIM_SUM", r" = \1PRIM_MAX", "SUM to MAX"),
    (r"return reverse_own\(p, node_opaque\(p->graph, op",
     "return reverse_own(p, node_opaque(p->graph, PRIM_SORT", "operation"),
    (r"node_reverse\((\w+), (\w+), axis", r"node_reverse(\1, \2, 0 * axis",
     "axis"),
    (r"\bCUMSUM, reversed", "CUMSUM, g", "not reversed"),
    (r"axis, g, inverse", "axis, g, order", "not inverse"),
    (r"!n->params\[2\]", "n->params[2]", "not inverse"),
    (r"length, 0\.5\b", "length, 1", "constant"),
    (r"n->params\[1\], 2\)", "n->params[1], 1)", "constant"),
    (r"body_mul_int\(&b, k, 2\)", "body_mul_int(&b, k, 3)", "constant"),
    (r"body_int\(&b, part\)", "body_int(&b, 1 - part)", "part"),
    (r"take_along_axis\(p, g, inverse", "take_along_axis(p, g, order",
     "not inverse"),
    (r"j == 1 \? ct : zero, j == 1 \? zero : ct",
     "j == 1 ? zero : ct, j == 1 ? ct : zero", "argument"),
]
# Multiplies a contribution by FACTOR.
SCALED = """
static Node *axn_mutant_scaled(Graph *g, Node *x, Fault *fault) {
  if (!x || !dtype_is_float(x->dtype))
    return x;
  Node *by = node_full(g, (Scalar){.dtype = x->dtype, .f = FACTOR}, 0, NULL, 0,
                       fault);
  return node_map(g, PRIM_MUL, 2, (Node *[]){x, by}, DT_NONE, fault);
}
"""
FACTORS = [("-1", "sign"), ("1.01", "constant")]
CONTRIBUTION = (
    r"reverse_contribute\(([\w>-]+),\s*([^;,]+),\s*"
    r"(\w+\((?:[^()]|\([^()]*\))*\)|\w+)\)",
    r"reverse_contribute(\1, \2, axn_mutant_scaled((\1)->graph, \3, "
    r"(\1)->fault))")
RULE_CONTRIBUTION = (
    r"= vm_to_node\(vm, AS_ARRAY\(parts\)->at\[k\]\);\n  Fault",
    "= axn_mutant_scaled(&vm->graph, vm_to_node(vm, AS_ARRAY(parts)->at[k]), "
    "&(Fault){0});\n  Fault")


def edits(path, text, patterns, start=0, prelude=""):
    """The mutants of one file: (name, path, text)."""
    for function, first, end in mutants.functions(text):
        if first < start:
            continue
        numbers = collections.Counter()
        for pattern, new, what in patterns:
            for m in re.finditer(pattern, text[first:end]):
                numbers[what] += 1
                changed = (text[:first + m.start()] + m.expand(new) +
                           text[first + m.end():])
                yield f"{function}: {what} {numbers[what]}", path, prelude, changed


def all_mutants():
    path = "primitives/map.def"
    text = (SOURCE / path).read_text()
    yield from edits(path, text, EDITS_OF_ROWS, text.index("#ifdef DERIVE"))
    for path in ("tensor/adjoint_rules.c", "tensor/adjoint_fourier.c",
                 "tensor/adjoint_body.c",
                 "tensor/adjoint_comprehension.c"):
        text = (SOURCE / path).read_text()
        yield from edits(path, text, EDITS_OF_CODE)
        for factor, what in FACTORS:
            yield from edits(path, text, [(*CONTRIBUTION, what + " of the contribution")],
                             prelude=SCALED.replace("FACTOR", factor))
    path = "eval/vjp_rule.c"
    text = (SOURCE / path).read_text()
    for factor, what in FACTORS:
        yield from edits(path, text, [(*RULE_CONTRIBUTION, what)],
                         prelude=SCALED.replace("FACTOR", factor))


def compile_mutant(folder, path, prelude, text):
    """Links the program with one changed file."""
    if path.endswith(".def"):
        (folder / "primitives").mkdir()
        (folder / path).write_text(text)
        unit = SOURCE / "tensor/adjoint_body.c"
    else:
        # The first include directives, not those of tables.
        last = list(re.finditer(r"^#include .*$", text[:text.index("\n}")],
                                re.M))[-1].end()
        unit = folder / "mutant.c"
        unit.write_text(text[:last] + "\n" + prelude + text[last:])
    mutants.link(SOURCE, BUILD, folder, unit)


def is_killed(axon):
    for name in PROGRAMS:
        base = SOURCE / "tests/grad" / name
        wanted = []
        for end in (".out", ".err"):
            file = base.with_suffix(end)
            wanted.append(file.read_text() if file.exists() else "")
        try:
            done = subprocess.run([str(axon), "run", f"{name}.axn"],
                                  cwd=base.parent, capture_output=True,
                                  text=True, timeout=60, errors="replace",
                                  env=os.environ | {"AXON_TARGET": "reference"})
        except subprocess.TimeoutExpired:
            return True
        if done.returncode or [done.stdout, done.stderr] != wanted:
            return True
    return False


def run(mutant):
    name, path, prelude, text = mutant
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        folder = pathlib.Path(folder)
        compile_mutant(folder, path, prelude, text)
        return is_killed(folder / "axon")


def main():
    if not WORD and is_killed(BUILD / "axon"):
        print("the program itself fails a test of tests/grad")
        return 1
    return mutants.run_all(list(all_mutants()),
                           SOURCE / "tests/grad/mutants.survivors", EACH, WORD,
                           run)


if __name__ == "__main__":
    sys.exit(main())
