"""Runs the Python blocks of a document in sequence:
doc_test.py doc/embedding.md"""
import re
import sys

with open(sys.argv[1]) as file:
    blocks = re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)
names = {}
for block in blocks:
    exec(compile(block, sys.argv[1], "exec"), names)
if not blocks:
    sys.exit("no blocks of Python in " + sys.argv[1])
