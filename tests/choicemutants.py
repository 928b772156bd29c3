"""Mutants of what chooses the schedules of loop nests; tests/check_choices.sh
runs it:

    python3 tests/choicemutants.py SOURCE BUILD FOLDER EACH [WORD]

BUILD has the objects of the program, FOLDER is for temporary files.

A mutant is a program with one changed condition.  It is killed if it chooses
other schedules for tests/schedules/choices.axn, has other candidates, or fails.
Runs one mutant in EACH, or those whose name contains WORD.  Mutants that are equal to the program
are listed in tests/schedules/choices.survivors, with the reason.
"""
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
# The functions that are changed; None: all of the file.
FILES = {"backend/cpu/nest_choose.c": {"add_columns", "add_interleaved",
                                       "list_candidates", "make_candidate",
                                       "nest_choose"},
         "backend/cpu/interleave.c": None,
         "backend/cpu/schedule.c": {"choose_interleaved_tasks"},
         "backend/cpu/nest_forms.c": {"nest_form_interleaved"}}
CHANGES = [(r" == (?!1 \? )", " != "), (r" && ", " || "), (r" \|\| ", " && "),
           (r" < ", " >= "), (r" <= ", " > "), (r" > (?=\w)", " <= "),
           (r" >= ", " < "),
           (r"\bif \(([^;{}]*?)\)(?=\n| \{)", r"if (!(\1))")]


def all_mutants():
    """(name, path, text)"""
    for path, names in FILES.items():
        text = (SOURCE / path).read_text()
        for name, start, end in mutants.functions(text):
            if names is not None and name not in names:
                continue
            count = 0
            for pattern, new in CHANGES:
                for m in re.finditer(pattern, text[start:end]):
                    changed = (text[:start + m.start()] + m.expand(new) +
                               text[start + m.end():])
                    count += 1
                    yield f"{name} {count} {new[:3].strip()}", path, changed


def plan(axon, *options):
    try:
        done = subprocess.run([str(axon), "plan", "--dry", "-q", *options,
                               "choices.axn"],
                              capture_output=True, text=True, timeout=60,
                              errors="replace", cwd=SOURCE / "tests/schedules")
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def schedules(axon):
    """The chosen schedules, and all candidates; None: it fails."""
    text, all = plan(axon, "--stable", "--schedule"), plan(axon, "--json")
    return (text, re.findall(r'"schedule":"[^"]*"', all)) if all else None


def run(mutant):
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        folder = pathlib.Path(folder)
        (folder / "mutant.c").write_text(mutant[2])
        mutants.link(SOURCE, BUILD, folder, folder / "mutant.c")
        return schedules(folder / "axon") != CHOSEN


CHOSEN = schedules(BUILD / "axon")
if CHOSEN is None:
    sys.exit("no schedules")
sys.exit(mutants.run_all(list(all_mutants()),
                         SOURCE / "tests/schedules/choices.survivors", EACH,
                         WORD, run))
