"""PyTorch programs as Axon programs.

    python -m axon.from_torch program.pt2 -o DIR

program.pt2 is what torch.export.save wrote.  DIR/program.axn has a function
`model`, and DIR/program.safetensors its weights, as `axon import` writes them.
In Python:

    from axon.from_torch import convert
    convert(torch.export.export(module, args), "DIR", "program")

PyTorch writes the program as an ONNX model, which `axon import` reads.  This
needs the packages torch, onnx and onnxscript, and the program `axon`."""
import argparse
import contextlib
import io
import logging
import os
import shutil
import subprocess
import sys
import tempfile


class ConversionError(Exception):
    """A program cannot be converted.  The text says why."""


def _require(name):
    try:
        return __import__(name)
    except ImportError:
        raise ConversionError(
            f"the Python package {name} is missing; install torch, onnx and "
            "onnxscript") from None


def _find_axon(axon):
    found = shutil.which(axon or os.environ.get("AXON") or "axon")
    if not found:
        raise ConversionError("the program axon is not in PATH; the variable "
                              "AXON can name it")
    return os.path.realpath(found)


def _write_onnx(program, path):
    """PyTorch prints its progress, and warnings about other packages."""
    torch = _require("torch")
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            torch.onnx.export(program, (), path, dynamo=True, verbose=False,
                              external_data=False)
    except Exception as e:
        first = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ConversionError(
            f"PyTorch cannot write it as an ONNX model: {first}") from e
    finally:
        logging.disable(level)


def convert(program, folder, name="model", axon=None, settings=()):
    """Writes folder/name.axn and folder/name.safetensors.

    program: a torch.export.ExportedProgram.  axon: the program to call.
    settings: options --set of `axon import`, such as "batch=1"."""
    for package in ("torch", "onnx", "onnxscript"):
        _require(package)
    axon = _find_axon(axon)
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, name + ".onnx")
        _write_onnx(program, path)
        words = [axon, "import", "-q", path, "-o", folder]
        for s in settings:
            words += ["--set", s]
        done = subprocess.run(words, text=True, capture_output=True)
    if done.returncode:
        message = done.stderr.replace(path, name).strip()
        raise ConversionError(message or "axon import failed")


def main(argv=None):
    p = argparse.ArgumentParser(
        prog="python -m axon.from_torch",
        description="Writes a program of torch.export as an Axon program.")
    p.add_argument("program", help="a file of torch.export.save (.pt2)")
    p.add_argument("-o", "--output", default=".", metavar="DIR",
                   help="the folder of the results")
    p.add_argument("--set", action="append", default=[], metavar="NAME=N",
                   help="fixes a size, as in `axon import`")
    o = p.parse_args(argv)
    name = os.path.splitext(os.path.basename(o.program))[0]
    try:
        torch = _require("torch")
        try:
            program = torch.export.load(o.program)
        except Exception as e:
            first = (str(e).strip() or type(e).__name__).splitlines()[0]
            raise ConversionError(f"{o.program} cannot be read: {first}") from e
        convert(program, o.output, name, settings=o.set)
    except ConversionError as e:
        print(f"axon.from_torch: {e}", file=sys.stderr)
        return 1
    print(f"wrote {os.path.join(o.output, name)}.axn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
