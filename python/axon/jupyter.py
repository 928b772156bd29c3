"""The Jupyter kernel of Axon, and its installation.

    axon jupyter --install [--user | --prefix DIR]
    axon jupyter --uninstall [--user | --prefix DIR]

A cell is an input of `axon repl`.  All cells of a notebook are one session.
"""
import argparse
import base64
import contextlib
import json
import os
import shutil
import signal
import site
import struct
import sys
import tempfile
import threading
import zlib

from . import _lib, version

try:
    from ipykernel.kernelapp import IPKernelApp
    from ipykernel.kernelbase import Kernel
    from jupyter_client.kernelspec import KernelSpecManager
except ImportError as error:
    sys.exit("axon: the Jupyter kernel needs the Python package ipykernel "
             "(%s)\nhelp: install it: `%s -m pip install ipykernel`, or "
             "Debian's package python3-ipykernel"
             % (error, sys.executable))

NAME = "axon"

# ---- the kernel ----


def png(shape, pixels):
    """A PNG file of u8[height, width] or u8[height, width, 3]."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    height, width = shape[:2]
    row = width * (3 if len(shape) == 3 else 1)
    colour = 2 if len(shape) == 3 else 0
    lines = b"".join(b"\0" + pixels[i * row:(i + 1) * row]
                     for i in range(height))
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour,
                                         0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


class AxonKernel(Kernel):
    implementation = "axon"
    implementation_version = version()
    banner = "Axon %s  (:help for help)" % version()
    language_info = {"name": "axon", "version": version(),
                     "mimetype": "text/x-axon", "file_extension": ".axn",
                     # the closest language that highlighters know
                     "pygments_lexer": "sml", "codemirror_mode": "text/x-sml"}

    def __init__(self, **options):
        super().__init__(**options)
        self._lock = threading.Lock()  # one thread at a time uses the session
        self._value = None  # data of the last bare expression, not yet sent
        self._session = _lib.Session()
        self._session.output(self._write)
        self._session.display(self._result, self._picture, colours=True)
        self._session.signal(signal.SIGINT)

    def set_parent(self, ident, parent, channel="shell"):
        super().set_parent(ident, parent, channel)
        if channel == "shell":  # the cell to which output belongs
            for stream in (sys.stdout, sys.stderr):
                stream.set_parent(parent)

    # ---- output, in the order of the program ----

    def _write(self, text, stream="stdout"):
        self._send_value()
        getattr(sys, stream).write(text)

    def _result(self, name, text):
        self._send_value()
        if name != "it":
            sys.stdout.write(text)
            return
        self._value = {"text/plain": text.rstrip("\n")}
        image = self._session.png(name)
        if image:
            self._value["image/png"] = base64.b64encode(image).decode()

    def _picture(self, shape, pixels):
        self._send_value()
        image = base64.b64encode(png(shape, pixels)).decode()
        self._display({"image/png": image, "text/plain":
                       "picture of %d × %d pixels" % (shape[1], shape[0])})

    def _display(self, data, kind="display_data", **more):
        sys.stdout.flush()
        self.send_response(self.iopub_socket, kind,
                           {"data": data, "metadata": {}, **more})

    def _send_value(self, **options):
        """Only the last value of a cell is the result of the cell."""
        if self._value is not None:
            value, self._value = self._value, None
            self._display(value, **options)

    # ---- requests ----

    async def do_execute(self, code, silent, store_history=True,
                         user_expressions=None, allow_stdin=False, **_):
        name = "input" if silent else "cell %d" % self.execution_count
        with self._lock, _interrupts_only_the_session():
            status = self._session.input(name, code)
            if status == _lib.OK and not silent:
                self._send_value(kind="execute_result",
                                 execution_count=self.execution_count)
            self._send_value()
            texts = self._session.diagnostics()
            if status in (_lib.ERROR, _lib.INTERRUPTED):
                return self._failed(status, texts, silent)
            for text in texts:  # warnings
                self._write(text, "stderr")
        quits = [{"source": "ask_exit", "keepkernel": False}]
        return {"status": "ok", "execution_count": self.execution_count,
                "payload": quits if status == _lib.EXITED else [],
                "user_expressions": {}}

    def _failed(self, status, texts, silent):
        name, message = "KeyboardInterrupt", "interrupted"
        if status == _lib.ERROR:
            error = next((d for d in self._session.diagnostic_objects()
                          if d["severity"] == "error"), {})
            name = error.get("code", "error")
            message = error.get("message", "")
        content = {"ename": name, "evalue": message, "traceback":
                   [text.rstrip("\n") for text in texts] or [message]}
        sys.stdout.flush()
        if not silent:
            self.send_response(self.iopub_socket, "error", content)
        return {"status": "error", "execution_count": self.execution_count,
                **content}

    async def do_complete(self, code, cursor_pos):
        words, start = [], cursor_pos
        with self._free_session() as session:
            if session:
                words, start = session.complete(code, cursor_pos)
        return {"status": "ok", "matches": words, "cursor_start": start,
                "cursor_end": cursor_pos, "metadata": {}}

    async def do_inspect(self, code, cursor_pos, detail_level=0,
                         omit_sections=()):
        text = None
        with self._free_session() as session:
            if session:
                text = session.describe(code, cursor_pos)
        data = {"text/plain": text.rstrip("\n")} if text else {}
        return {"status": "ok", "found": bool(text), "data": data,
                "metadata": {}}

    async def do_is_complete(self, code):
        with self._free_session() as session:
            status = session.input_status(code) if session else None
        known = {_lib.OK: "complete", _lib.INCOMPLETE: "incomplete",
                 _lib.ERROR: "invalid"}
        # An empty line ends an input, as in `axon repl`.
        if status == _lib.INCOMPLETE and code.endswith("\n\n"):
            return {"status": "complete"}
        return {"status": known.get(status, "unknown"), "indent": ""}

    @contextlib.contextmanager
    def _free_session(self):
        """The session, or None while it runs a cell."""
        free = self._lock.acquire(blocking=False)
        try:
            yield self._session if free else None
        finally:
            if free:
                self._lock.release()


@contextlib.contextmanager
def _interrupts_only_the_session():
    """libaxon receives Ctrl-C first.  Python then does nothing, so that no
    exception stops the output of what has run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---- installation ----


def _environment():
    """What the kernel needs to find this module and its library."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = site.getsitepackages() + [site.getusersitepackages()]
    places = [os.path.realpath(place) for place in places]
    found = {}
    if os.path.realpath(package) not in places:
        found["PYTHONPATH"] = package
    if os.environ.get("AXON_LIBRARY"):
        found["AXON_LIBRARY"] = os.path.abspath(os.environ["AXON_LIBRARY"])
    return found


def _place(options):
    """The prefix, or None: the folder of the user.  The default is the virtual
    environment of this Python, if it is in one."""
    if options.prefix:
        return os.path.abspath(options.prefix)
    virtual = sys.prefix != sys.base_prefix
    return sys.prefix if virtual and not options.user else None


def install(prefix):
    spec = {"argv": [sys.executable, "-m", "axon.jupyter", "-f",
                     "{connection_file}"],
            "display_name": "Axon", "language": "axon",
            "interrupt_mode": "signal", "env": _environment()}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "kernel.json"), "w") as file:
            json.dump(spec, file, indent=1)
        place = KernelSpecManager().install_kernel_spec(
            folder, NAME, user=prefix is None, prefix=prefix)
    print("installed the kernel in %s\nOpen a notebook: `jupyter lab`, and "
          "choose Axon." % place)


def uninstall(prefix):
    manager = KernelSpecManager()
    folder = (manager.user_kernel_dir if prefix is None
              else os.path.join(prefix, "share", "jupyter", "kernels"))
    place = os.path.join(folder, NAME)
    if not os.path.isdir(place):
        sys.exit("axon jupyter: no kernel is installed in %s" % place)
    shutil.rmtree(place)
    print("removed %s" % place)


def main():
    parser = argparse.ArgumentParser(prog="axon jupyter", allow_abbrev=False)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--install", action="store_true")
    action.add_argument("--uninstall", action="store_true")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true")
    place.add_argument("--prefix", metavar="DIR")
    options = parser.parse_args()
    try:
        (install if options.install else uninstall)(_place(options))
    except OSError as error:
        sys.exit("axon jupyter: %s\nhelp: `--user` and `--prefix DIR` choose "
                 "another folder" % error)


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=AxonKernel)
