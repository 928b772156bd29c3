"""Counts the instructions of each loop in kernels that ptxas compiles for sm_90a.

    AXON_CC_DEBUG=FOLDER bench/gpu.sh --dry     writes sources to FOLDER
    python3 bench/gpu/counts.py FOLDER [NAME]   loops with instructions NAME

Requires NVRTC (AXON_NVRTC names it), and nvdisasm of the CUDA toolkit in PATH.
Counts of a loop include inner loops and code that a branch skips.  "N to M" is
the shortest path through the loop, and all of its instructions."""

import collections
import ctypes
import ctypes.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

OPTIONS = [b"--gpu-architecture=sm_90a", b"--std=c++17", b"--fmad=false",
           b"--ptxas-options=-v"]
LINE = re.compile(
    r"/\*[0-9a-f]{4,6}\*/\s+(@!?U?P\w+ )?\s*([A-Z][\w.]*)(.*);")
LABEL = re.compile(r"^(\.L_x_\d+):")
# For these the whole name counts; for others, the part before a point.
WHOLE = ("MUFU", "LDG", "STG", "BAR", "UTMALDG", "UTMASTG", "MEMBAR")


def find_nvrtc():
    name = os.environ.get("AXON_NVRTC") or ctypes.util.find_library("nvrtc")
    try:
        return ctypes.CDLL(name or "libnvrtc.so.13")
    except OSError:
        sys.exit("no NVRTC: skipped")


def compiled(nvrtc, text):
    """Returns the code and the messages of ptxas."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"text.cu", 0, None,
                             None)
    failed = nvrtc.nvrtcCompileProgram(
        program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*OPTIONS))

    def got(what):
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, room)
        return room.raw

    log = got("ProgramLog").rstrip(b"\0").decode()
    code = None if failed else got("CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log


def functions(listing):
    """By name: instructions (predicate, name, operands), and where labels
    stand."""
    found, now = {}, None
    for line in listing.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        if section:
            now = found[section.group(1)] = ([], {})
        label, one = LABEL.match(line), LINE.search(line)
        if now and label:
            now[1][label.group(1)] = len(now[0])
        elif now and one:
            now[0].append(one.groups())
    return found


def counted(code):
    counts = collections.Counter()
    for _, name, _ in code:
        first = name.split(".")[0]
        counts[name if first in WHOLE else first] += 1
    return counts


def targets(labels, name, operands):
    """Where a branch goes: BRA, BRA.U, BRA.DIV, JMP.  BRX lists its labels."""
    if name.split(".")[0] not in ("BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU"):
        return []
    return [labels[x] for x in re.findall(r"\.L_x_\d+", operands)
            if x in labels]


def continues(predicate, name, operands):
    """May the next instruction follow?  BRA.U has its predicate, and BRA.DIV
    its mask, as an operand."""
    if name.split(".")[0] == "BRA":
        return bool(predicate) or "," in operands
    return bool(predicate) or name.split(".")[0] not in (
        "BRX", "BRXU", "JMP", "JMX", "JMXU", "EXIT", "RET")


def loops(code, labels):
    """Where they begin and end, by the last branch back to their begin.  What
    waits for a barrier stands behind the kernel's end, and branches back,
    too."""
    ends = {}
    for end, (_, name, operands) in enumerate(code):
        for begin in targets(labels, name, operands):
            if begin < end and not any(
                    x == "EXIT" and not p for p, x, _ in code[begin:end]):
                ends[begin] = end
    return sorted(ends.items(), key=lambda x: x[1])


def shortest(code, labels, begin, end):
    """Instructions of the shortest path from begin to end, with the branches
    that go forward."""
    far = len(code)
    steps = [far] * (end + 1)
    steps[begin] = 1
    for at in range(begin, end):
        predicate, name, operands = code[at]
        for target in targets(labels, name, operands):
            if at < target <= end:
                steps[target] = min(steps[target], steps[at] + 1)
        if continues(predicate, name, operands):
            steps[at + 1] = min(steps[at + 1], steps[at] + 1)
    return steps[end]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    disassembler, nvrtc = shutil.which("nvdisasm"), find_nvrtc()
    if not disassembler:
        sys.exit("no nvdisasm: skipped")
    wanted = sys.argv[2] if len(sys.argv) > 2 else "HGMMA"
    for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.cu")):
        code, log = compiled(nvrtc, path.read_bytes())
        if not code:
            print(f"{path}: {log.strip().splitlines()[0]}")
            continue
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(code)
            file.flush()
            listing = subprocess.run([disassembler, "-c", file.name],
                                     capture_output=True, text=True).stdout
        about = re.findall(r"Used \d+ registers|[1-9]\d* bytes spill \w+|"
                           r"\(C\d+\)", log)
        print(f"{path}: {', '.join(about)}")
        for name, (all_of, labels) in functions(listing).items():
            print(f"  {name}: {len(all_of)} instructions")
            for begin, end in loops(all_of, labels):
                counts = counted(all_of[begin:end + 1])
                if any(wanted in x for x in counts):
                    most = ", ".join(f"{n} {x}" for x, n in
                                     counts.most_common(24))
                    least = shortest(all_of, labels, begin, end)
                    print(f"    {least} to {end + 1 - begin} in a loop: {most}")


if __name__ == "__main__":
    main()
