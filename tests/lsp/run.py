"""Runs the tests of the language server: all, or those whose names contain an
argument.  Each test is a function of test_*.py."""
import faulthandler
import glob
import importlib
import os
import sys
import tempfile
import traceback

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
faulthandler.dump_traceback_later(300, exit=True)
failed = count = 0
for path in sorted(glob.glob(os.path.join(here, "test_*.py"))):
    module = importlib.import_module(os.path.basename(path)[:-3])
    for name, test in list(vars(module).items()):
        if not name.startswith("test_") or not all(
                word in name for word in sys.argv[1:]):
            continue
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                test()
            except Exception:
                failed += 1
                print(f"{name}:")
                traceback.print_exc(file=sys.stdout)
            os.chdir(here)
if not count:
    print("there is no such test")
sys.exit(failed > 0 or not count)
