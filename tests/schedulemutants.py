"""Mutants of the checks of schedules; tests/check_schedulemutants.sh runs it:

    python3 tests/schedulemutants.py SOURCE BUILD FOLDER EACH [WORD]

BUILD has the objects of the program, FOLDER is for temporary files.

A mutant is a program without one of the refusals of a step, of a nest, also on
the CPU or on a GPU, or of the fields of a matrix product or of attention.  It
is killed if a schedule of tests/schedules/refused* has another message.  Runs
one mutant in EACH, or those whose name contains WORD.  Mutants that are equal
to the program are listed in tests/schedules/mutants.survivors, with the reason.
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
CONDITION = r"\bif \(([^;{}]*?)\)\n\s*return "
REFUSAL = re.compile(CONDITION + r"(?:refuse\(|arena_printf|\")", re.S)
# Also `return condition || gemm_refuse(...)`.
GEMM_REFUSAL = re.compile(
    CONDITION + r"(?:gemm_refuse\(|\")|"
    r"\breturn ([^;{}]*?) \|\|\n?\s*gemm_refuse(?:_use)?\(", re.S)
NEST_REFUSAL = re.compile(
    CONDITION + r"(?:refuse\(|arena_printf|nest_loop_reason|\")", re.S)
# What else nest_verify.c tests is true after each step.
POSITION = re.compile(CONDITION + r"nest_loop_reason", re.S)
FILES = {"kernel/nest_steps.c": REFUSAL, "kernel/nest_verify.c": POSITION,
         "backend/cpu/nest_refusal.c": REFUSAL,
         "backend/cpu/gemm_fields.c": REFUSAL,
         "backend/cpu/gemm_pack_text.c": NEST_REFUSAL,
         "backend/cuda/nest_refusal.c": NEST_REFUSAL,
         "backend/cuda/row_nest.c": NEST_REFUSAL,
         "backend/cuda/gemm_match.c": REFUSAL,
         "backend/cuda/gemm_validate.c": GEMM_REFUSAL,
         "backend/cuda/attention_validate.c": GEMM_REFUSAL}
# Lists of refusals, tests/schedules/refused_NAME, of a program of this name, and
# steps of the kernel that they are for.  A name may end in the architecture of
# a GPU, `_on_sm_75`.
CASES = {"gpu_tiles": "shared", "gpu_interleave": "blocks", "": "",
         "interleave": "fma", "small": "fma", "interleave_kept": "interleave i",
         "transpose": "",
         "gemm": "by gemm", "gemm_terms": "by gemm",
         "micro": "by gemm", "micro_conv": "by gemm", "softmax": "",
         "strips": "strip=", "blur": "stream", "argmax": "", "trimmed": "tasks i0;", "gpu": "threads i1", "gpu_rows": "registers",
         "gpu_terms": "flatten", "gpu_parts": "flatten", "gpu_flat": "flatten",
         "gpu_split": "  2: ",
         "gpu_gradient": "by attention {way=mma"}
CASES |= {"gpu_" + name: "by gemm" for name in (
    "product", "product_on_sm_75", "product_on_sm_80", "product_on_sm_100a",
    "conv_on_sm_100a", "scaled_on_sm_100a",
    "f32", "f64", "f8", "computed", "computed_on_sm_100a", "conv",
    "tile_count", "build", "micro", "micro_warp")}
CASES |= {"gpu_" + name: "by attention"
          for name in ("attention", "attention_on_sm_75",
                       "attention_on_sm_100a", "query", "result")}


def all_mutants():
    """Each refusal is left out: (name, path, text)."""
    for path, refusal in FILES.items():
        text = (SOURCE / path).read_text()
        for function, first, end in mutants.functions(text):
            numbers = collections.Counter()
            for m in refusal.finditer(text, first, end):
                numbers[function] += 1
                group = m.lastindex
                never = "0 &&" if group == 1 else "1 ||"
                yield (f"{function} {numbers[function]}", path,
                       text[:m.start(group)] + f"{never} ({m.group(group)})" +
                       text[m.end(group):])


def plan(axon, *arguments):
    """What a command prints: `axon build` for the program of symbolic sizes.

    NVRTC, which only `axon build` needs, does not change the messages."""
    command, nvrtc = ["plan"], {"AXON_NVRTC": "/none"}
    if str(arguments[-1]).endswith("_build.axn"):
        command, nvrtc = ["build", "-o", FOLDER / "built.ptx"], {}
    try:
        done = subprocess.run([str(axon), *map(str, command),
                               *map(str, arguments)],
                              capture_output=True, text=True, timeout=60,
                              errors="replace",
                              env=os.environ | ENVIRONMENT | nvrtc)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout + done.stderr


ENVIRONMENT = {"AXON_TARGET": "cpu", "AXON_TINY": "0", "AXON_SCHEDULES": ""}


def chosen(program, steps, target):
    """The line `kernel NUMBER` of the schedule with these steps, and the lanes
    of a packed operand."""
    text = plan(BUILD / "axon", "--schedule", *target, program)
    printed = text.splitlines()
    width = re.search(r"pack left \{tile i\d+ (\d+)", text)
    at = next(k for k, line in enumerate(printed)
              if (steps in line if steps else line.startswith("kernel")))
    return ([x for x in printed[:at + 1] if x.startswith("kernel")][-1],
            width.group(1) if width else "")


def refusals():
    """(arguments, schedule, message) of all lists."""
    for name, steps in CASES.items():
        base = SOURCE / "tests/schedules" / ("refused_" + name).rstrip("_")
        name, _, arch = name.partition("_on_")
        target = ["--target", f"cuda:{arch or 'sm_90a'}"]
        if not name.startswith("gpu"):
            target = []
        program = SOURCE / "tests/schedules" / (
            f"refused_{name}".rstrip("_") + ".axn")
        kernel, width = chosen(program, steps, target)
        for k, line in enumerate(base.read_text().splitlines()):
            schedule, message = line.split("|", 1)
            path = FOLDER / f"{name}{arch}{k}.axs"
            schedule = schedule.replace("WIDTH", width)
            path.write_text(f"{kernel}\n{schedule}\n")
            yield [*target, program], path, message


def accepted(axon):
    """The schedules that have another message."""
    for arguments, path, message in ALL:
        if message not in plan(axon, "--schedules", path, *arguments):
            yield f"{arguments[-1].name}: {path.read_text()}: no `{message}`"


def is_killed(axon):
    return any(True for _ in accepted(axon))


def run(mutant):
    _, path, text = mutant
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        folder = pathlib.Path(folder)
        (folder / "mutant.c").write_text(text)
        mutants.link(SOURCE, BUILD, folder, folder / "mutant.c")
        return is_killed(folder / "axon")


ALL = list(refusals())
if is_killed(BUILD / "axon"):
    sys.exit("the program itself accepts\n" +
             "\n".join(accepted(BUILD / "axon")))
sys.exit(mutants.run_all(list(all_mutants()),
                         SOURCE / "tests/schedules/mutants.survivors", EACH,
                         WORD, run))
