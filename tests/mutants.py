"""Programs with one changed file, for tests of mutants."""
import concurrent.futures
import os
import re
import subprocess


def functions(text):
    """The functions of a C text: (name, start, end)."""
    starts = list(re.finditer(r"^(?:DERIVE\((\w+)\)|[a-z][\w *]*?\b(\w+)\("
                              r"[^;{}]*?\)) \{$", text, re.M))
    for at, m in enumerate(starts):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        yield m.group(1) or m.group(2), m.start(), end


def link(source, build, folder, unit):
    """Links the program in `folder` with `unit`, a changed file of it."""
    objects = [str(x) for name in ("cli", "serve")
               for x in sorted((build / name).rglob("*.o"))]
    for command in (
            ["cc", "-std=gnu11", "-O0", "-w", f"-I{folder}", f"-I{source}",
             f"-I{build}", "-c", str(unit), "-o", "mutant.o"],
            ["cc", "-Wl,-S", *objects, "mutant.o",
             str(build / ".libs/libcore.a"), str(build / ".libs/libfront.a"),
             "-lgmp", "-lm", "-ldl", "-lpthread", "-o", "axon"]):
        done = subprocess.run(command, cwd=folder, capture_output=True,
                              text=True)
        if done.returncode:
            raise SystemExit(f"cannot build a mutant: {done.stderr[:2000]}")


def run_all(mutants, survivors, each, word, run):
    """Runs one mutant in `each`, or those whose name contains `word`; a mutant
    begins with its name.  The file `survivors` names those that are equal to
    the program.  Prints the other survivors.  Returns the exit status."""
    listed = [line for line in survivors.read_text().splitlines()
              if line[:1] not in ("", " ")]
    names = [m[0] for m in mutants]
    wrong = [f"{x} is no mutant" for x in listed if x not in names]
    mutants = [m for m in mutants if m[0] not in listed]
    mutants = [m for k, m in enumerate(mutants)
               if (word in m[0] if word else k % each == each // 2)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        killed = list(pool.map(run, mutants))
    wrong += [f"{m[0]} survives" for m, dead in zip(mutants, killed)
              if not dead]
    print("\n".join([*wrong, f"{len(mutants)} mutants, {sum(killed)} killed"]))
    return len(wrong) > 0 or not mutants
