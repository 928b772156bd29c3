"""Tests the Jupyter kernel, which is installed as `axon`."""
import base64
import json
import os
import queue
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

from jupyter_client.manager import start_new_kernel

CELLS = [
    "fun double x = x * 2\nval ones = [1.0, 1.0, 1.0]",
    "double ones\nprint \"printed\"\ndouble 21",
    "val two = 2\nval bad = [1.0, 2.0] + [1.0, 2.0, 3.0]\nval rest = 1",
    "two + 1",
    "show (zeros [300, 400] : f32[300, 400])\n"
    "show (zeros [2, 4] : f32[2, 4])",
    ":type double\n\n:doc sum\n1 +",
    "|> fn x => x",
    "",
    "plot.line [1, 2] [3, 4]\n1 + 1\nplot.line [1, 2] [4, 3]",
    "val f = plot.line [1, 2] [3, 4]\n"
    "plot.axes ~x_limits:(1, 1) (list [f])\n1 + 1",
]


def plain(text):
    return re.sub("\033\\[[0-9;]*m", "", text)


def run_notebook(cells):
    """The outputs of the cells, by nbconvert."""
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {
        "kernelspec": {"name": "axon", "display_name": "Axon"}}}
    notebook["cells"] = [
        {"cell_type": "code", "metadata": {}, "source": cell, "outputs": [],
         "execution_count": None} for cell in cells]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in.ipynb")
        with open(path, "w") as file:
            json.dump(notebook, file)
        subprocess.run([sys.executable, "-m", "nbconvert", "--to", "notebook",
                        "--execute", "--allow-errors", "--output", "out.ipynb",
                        path], check=True, stderr=subprocess.PIPE)
        with open(os.path.join(folder, "out.ipynb")) as file:
            return [cell["outputs"] for cell in json.load(file)["cells"]]


def text_of(output):
    found = output.get("text") or output["data"]["text/plain"]
    return plain("".join(found))


class Notebook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.outputs = run_notebook(CELLS)

    def test_definitions(self):
        (output,) = self.outputs[0]
        self.assertEqual(output["name"], "stdout")
        self.assertEqual(text_of(output),
                         "val double : 'a[...s] -> 'a[...s] given 'a : num\n"
                         "val ones : f32[3] = [1.0, 1.0, 1.0]\n")

    def test_values_in_order(self):
        first, printed, last = self.outputs[1]
        self.assertEqual(first["output_type"], "display_data")
        self.assertEqual(text_of(first), "it : f32[3] = [2.0, 2.0, 2.0]")
        self.assertEqual(text_of(printed), "printed\n")
        self.assertEqual(last["output_type"], "execute_result")
        self.assertEqual(last["execution_count"], 2)
        self.assertEqual(text_of(last), "it : dim(42) = 42")
        self.assertIn("\033[36mdim(42)", "".join(last["data"]["text/plain"]))

    def test_error(self):
        kept, error = self.outputs[2]
        self.assertEqual(text_of(kept), "val two : dim(2) = 2\n"
                         "1 declaration after it was not run\n")
        self.assertEqual(error["output_type"], "error")
        self.assertEqual(error["ename"], "E0303")
        trace = "\n".join(error["traceback"])
        self.assertIn("\033[", trace)
        self.assertIn("─ cell 3:2:22", plain(trace))
        self.assertIn("val bad = [1.0, 2.0] + [1.0, 2.0, 3.0]", plain(trace))

    def test_definitions_before_an_error_stay(self):
        self.assertEqual(text_of(self.outputs[3][-1]), "it : dim(3) = 3")

    def test_pictures(self):
        sizes = []
        for output in self.outputs[4]:
            data = base64.b64decode(output["data"]["image/png"])
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            sizes.append(struct.unpack(">II", data[16:24]))
        self.assertEqual(sizes, [(400, 300), (256, 128)])

    def test_commands(self):
        shown, error = self.outputs[5]
        self.assertIn("double : 'a[...s] -> 'a[...s]", text_of(shown))
        self.assertIn("sum over axes", text_of(shown))
        self.assertIn("cell 6:4:", plain("\n".join(error["traceback"])))

    def test_pipe_applies_to_it(self):
        self.assertEqual(self.outputs[6], [])  # `it` is () after `show`

    def test_empty_cell(self):
        self.assertEqual(self.outputs[7], [])

    def test_figures(self):
        first, number, last = self.outputs[8]
        self.assertEqual(number["data"].keys(), {"text/plain"})
        self.assertEqual(last["output_type"], "execute_result")
        images = []
        for output in first, last:
            self.assertIn("it : plot.figure =\n", text_of(output))
            images.append(base64.b64decode(output["data"]["image/png"]))
            self.assertEqual(images[-1][:8], b"\x89PNG\r\n\x1a\n")
        self.assertNotEqual(*images)

    def test_figure_that_cannot_be_drawn(self):
        text = plain(json.dumps(self.outputs[9]))
        self.assertIn("limits of the x axis", text)


def reply_to(client, request):
    while True:
        message = client.get_shell_msg(timeout=30)
        if message["parent_header"].get("msg_id") == request:
            return message["content"]


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.manager, cls.client = start_new_kernel(kernel_name="axon")

    @classmethod
    def tearDownClass(cls):
        cls.client.stop_channels()
        cls.manager.shutdown_kernel(now=True)

    def reply(self, ask, *arguments):
        return reply_to(self.client, getattr(self.client, ask)(*arguments))

    def stream(self, seconds):
        """The next text on stdout."""
        end = time.monotonic() + seconds
        while True:
            try:
                message = self.client.get_iopub_msg(
                    timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                self.fail("no output within %d s" % seconds)
            if message["msg_type"] == "stream":
                return message["content"]["text"]

    def test_interrupt(self):
        self.reply("execute", "val kept = 7")
        request = self.client.execute(
            "do print \"started\"\n"
            "val x = while (fn v => v >= 0) (fn v => (v + 1) % 1000) 0",
            stop_on_error=False)
        while "started" not in self.stream(30):
            pass
        self.manager.interrupt_kernel()
        answer = reply_to(self.client, request)
        self.assertEqual(answer["status"], "error")
        self.assertEqual(answer["ename"], "KeyboardInterrupt")
        self.assertEqual(self.reply("execute", "kept * 6")["status"], "ok")

    def test_complete(self):
        self.reply("execute", "val point = {left = 1, top = 2}")
        self.assertEqual(self.reply("complete", "poin")["matches"], ["point"])
        answer = self.reply("complete", "\"é\" ^ linalg.chol")
        self.assertEqual(answer["matches"], ["linalg.cholesky"])
        self.assertEqual((answer["cursor_start"], answer["cursor_end"]),
                         (6, 17))
        self.assertEqual(self.reply("complete", "1\npoint.l")["matches"],
                         ["point.left"])
        self.assertEqual(self.reply("complete", ":ty")["matches"], ["type"])

    def test_inspect(self):
        self.reply("execute", "(** Adds one. *)\nfun next x = x + 1")
        for code in "next", "next ", "3 |> next":
            answer = self.reply("inspect", code, len(code))
            self.assertTrue(answer["found"], code)
            self.assertIn("Adds one.", answer["data"]["text/plain"])
        self.assertFalse(self.reply("inspect", "unknown")["found"])

    def test_is_complete(self):
        for code, expected in [("1 + 2", "complete"), ("fun f x =",
                               "incomplete"), ("1 + )", "invalid")]:
            self.assertEqual(self.reply("is_complete", code)["status"],
                             expected, code)

    def test_exit(self):
        manager, client = start_new_kernel(kernel_name="axon")
        try:
            answer = reply_to(client, client.execute("exit 3"))
            self.assertEqual(answer["payload"],
                             [{"source": "ask_exit", "keepkernel": False}])
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
