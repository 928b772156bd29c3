#!/usr/bin/env python3
"""Compares onnx/ops.def with the schemas of the installed package onnx.

  python3 -m venv V; V/bin/pip install onnx
  V/bin/python tests/oracle/onnx_opsets.py

Each operator must exist, and the opset in its row must be one in which its
schema changed.  Lists the earlier versions that rows leave out."""
import os
import re
import sys
import onnx.defs

here = os.path.dirname(os.path.abspath(__file__))
table = open(os.path.join(here, "..", "..", "onnx", "ops.def")).read()
rows = re.findall(r"^O\((\w+), (\d+),", table, re.M)
versions = {}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        versions.setdefault(schema.name, set()).add(schema.since_version)
bad = []
for name, since in rows:
    known = versions.get(name)
    if not known:
        bad.append(f"{name}: onnx has no such operator")
    elif int(since) not in known:
        bad.append(f"{name}: {since} is none of {sorted(known)}")
older = {n: [v for v in sorted(versions.get(n, ())) if v < int(s)]
         for n, s in rows}
print("not supported before the opset of the row:",
      ", ".join(f"{n} {v}" for n, v in older.items() if v))
print(len(rows), "operators;", *(bad or ["all as in the schemas"]), sep="\n")
sys.exit(bool(bad))
