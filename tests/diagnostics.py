"""Checks diagnostics for tools, over programs with errors:

    diagnostics.py json DOC     JSON lines on stdin have the fields that the
                                tables of doc/diagnostics.md list
    diagnostics.py sarif FILE   the document has the required properties of
                                SARIF 2.1.0, and no unknown ones
    diagnostics.py schema SCHEMA FILE
                                validates a document against a JSON schema,
                                with the package jsonschema (doc/diagnostics.md)
    diagnostics.py fix AXON DIR the first fix of each diagnostic removes it

All but `schema` use only the standard library."""

import json
import os
import re
import subprocess
import sys


def fail(text):
    print(text)
    sys.exit(1)


# ---- JSON ----

def tables(doc):
    """Reads {'': fields, 'place': fields, ...}.  `fields` maps each name to
    (type, True if the field is always present)."""
    found, name = {}, None
    for line in open(doc, encoding="utf-8"):
        head = re.match(r"An? \*(\w+)\*", line)
        if head:
            name = head.group(1)
        elif line.startswith("## "):
            name = "" if line.startswith("## JSON") else None
        row = re.match(r"\| `(\w+)` \| ([^|]+?) \| (yes|no) \|", line)
        if row and name is not None:
            found.setdefault(name, {})[row.group(1)] = (
                row.group(2), row.group(3) == "yes")
    return found


def check_type(value, kind, all_tables, where):
    plain = {"string": str, "integer": int, "boolean": bool}
    if kind.startswith("array of "):
        if not isinstance(value, list):
            fail(f"{where} is not an array")
        for i, item in enumerate(value):
            check_type(item, kind[len("array of "):], all_tables,
                       f"{where}[{i}]")
    elif kind in plain:
        if type(value) is not plain[kind]:
            fail(f"{where} is not of type {kind}: {value!r}")
    else:
        check_object(value, kind, all_tables, where)


def check_object(value, table, all_tables, where):
    fields = all_tables[table]
    if not isinstance(value, dict):
        fail(f"{where} is not an object")
    for name in value:
        if name not in fields:
            fail(f"{where}.{name} is not documented")
    for name, (kind, always) in fields.items():
        if name in value:
            check_type(value[name], kind, all_tables, f"{where}.{name}")
            seen.add((table, name))
        elif always:
            fail(f"{where}.{name} is missing: {value}")


seen = set()


def check_json(doc):
    all_tables = tables(doc)
    if set(all_tables) != {"", "place", "step", "mark", "fix", "edit"}:
        fail(f"the tables of {doc} are {set(all_tables)}")
    count = 0
    for line in sys.stdin:
        value = json.loads(line)
        check_object(value, "", all_tables, "")
        if value["schema"] != 1:
            fail("doc/diagnostics.md documents schema 1")
        for fix in value["fixes"]:
            ends = [(e["place"]["start"], e["place"]["end"])
                    for e in fix["edits"]]
            if not ends or any(a[1] > b[0] for a, b in zip(ends, ends[1:])):
                fail(f"edits overlap or are missing: {fix}")
        count += 1
    unseen = {(t, f) for t in all_tables for f in all_tables[t]} - seen
    if count < 100 or unseen - {("place", "library")}:
        fail(f"{count} objects, and none has {unseen}")


# ---- SARIF: required properties, optional properties ----

SARIF = {
    "log": ({"runs": ["run"], "version": str}, {"$schema": str}),
    "run": ({"tool": "tool"}, {"columnKind": str, "results": ["result"]}),
    "tool": ({"driver": "component"}, {}),
    "component": ({"name": str}, {"version": str, "rules": ["rule"]}),
    "rule": ({"id": str}, {"shortDescription": "text", "help": "text",
                           "defaultConfiguration": "configuration"}),
    "configuration": ({}, {"level": str}),
    "text": ({"text": str}, {}),
    "result": ({"message": "text"}, {
        "ruleId": str, "ruleIndex": int, "level": str,
        "locations": ["location"], "relatedLocations": ["location"],
        "codeFlows": ["flow"], "fixes": ["fix"], "properties": dict}),
    "location": ({}, {"physicalLocation": "physical", "message": "text"}),
    "physical": ({"artifactLocation": "artifact"}, {"region": "region"}),
    "artifact": ({"uri": str}, {}),
    "region": ({"startLine": int}, {"startColumn": int, "endLine": int,
                                    "endColumn": int}),
    "flow": ({"threadFlows": ["thread"]}, {}),
    "thread": ({"locations": ["step"]}, {}),
    "step": ({"location": "location"}, {}),
    "fix": ({"artifactChanges": ["change"]}, {"description": "text"}),
    "change": ({"artifactLocation": "artifact",
                "replacements": ["replacement"]}, {}),
    "replacement": ({"deletedRegion": "region"}, {"insertedContent": "text"}),
}


def check_sarif(value, kind, where):
    if isinstance(kind, list):
        if not isinstance(value, list):
            fail(f"{where} is not an array")
        for i, item in enumerate(value):
            check_sarif(item, kind[0], f"{where}[{i}]")
        return
    if not isinstance(kind, str):
        if type(value) is not kind:
            fail(f"{where} is {value!r}")
        return
    required, optional = SARIF[kind]
    for name in required:
        if name not in value:
            fail(f"{where}.{name} is missing")
    for name, part in value.items():
        if name not in required and name not in optional:
            fail(f"{where}.{name} is unknown")
        check_sarif(part, required.get(name, optional.get(name)),
                    f"{where}.{name}")
    seen.add(kind)
    if kind == "region":
        start = (value["startLine"], value.get("startColumn", 1))
        end = (value.get("endLine", start[0]), value.get("endColumn", 1 << 30))
        if min(start + end) < 1 or start > end:
            fail(f"{where}: {value}")
    for name in ("locations", "threadFlows", "artifactChanges",
                 "replacements"):
        if value.get(name) == []:
            fail(f"{where}.{name} is empty")


def check_document(path):
    log = json.load(open(path, encoding="utf-8"))
    check_sarif(log, "log", "")
    if log["version"] != "2.1.0":
        fail("the version of SARIF is " + log["version"])
    for run in log["runs"]:
        rules = run["tool"]["driver"]["rules"]
        if len({r["id"] for r in rules}) != len(rules):
            fail("duplicate rule")
        for result in run["results"]:
            if rules[result["ruleIndex"]]["id"] != result["ruleId"]:
                fail(f"ruleIndex of {result}")
            if result["level"] not in ("error", "warning", "note"):
                fail(f"level of {result}")
    if set(SARIF) - seen:
        fail(f"no object of type {set(SARIF) - seen}")


def check_schema(schema, path):
    import jsonschema
    rules = json.load(open(schema, encoding="utf-8"))
    validator = jsonschema.validators.validator_for(rules)(rules)
    log = json.load(open(path, encoding="utf-8"))
    for error in validator.iter_errors(log):
        print(f"{error.json_path}: {error.message[:200]}")
        seen.add("wrong")
    results = sum(len(run["results"]) for run in log["runs"])
    print(f"{results} results, {rules['title']}")
    if "wrong" in seen:
        sys.exit(1)


# ---- fixes ----

def diagnostics(axon, path):
    errors = subprocess.run([axon, "check", "--diagnostics", "json", path],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            timeout=20, check=False).stderr
    lines = errors.decode("utf-8", "replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def messages(found):
    return sorted((d["code"], d["message"]) for d in found)


def check_fixes(axon, folder):
    tried = 0
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not name.endswith(".axn"):
            continue
        text = open(path, "rb").read()
        found = diagnostics(axon, path)
        for diag in found:
            if not diag["fixes"]:
                continue
            fixed = text
            for edit in reversed(diag["fixes"][0]["edits"]):
                at = edit["place"]
                fixed = (fixed[:at["start"]] + edit["text"].encode() +
                         fixed[at["end"]:])
            if fixed.count(b"(*") < text.count(b"(*"):
                fail(f"{path}: the fix of {diag['code']} loses a comment")
            copy = os.path.join(folder, ".fixed.axn")
            open(copy, "wb").write(fixed)
            left = diagnostics(axon, copy)
            os.remove(copy)
            before = messages(found).count((diag["code"], diag["message"]))
            after = messages(left).count((diag["code"], diag["message"]))
            if after >= before:
                print(f"{name}: the fix `{diag['fixes'][0]['title']}` does not "
                      f"remove {diag['code']}: {diag['message']}")
                print(fixed.decode("utf-8", "replace"))
                seen.add("wrong")
            tried += 1
    if tried < 30:
        fail(f"only {tried} fixes were found")
    if "wrong" in seen:
        sys.exit(1)


if sys.argv[1] == "json":
    check_json(sys.argv[2])
elif sys.argv[1] == "sarif":
    check_document(sys.argv[2])
elif sys.argv[1] == "schema":
    check_schema(sys.argv[2], sys.argv[3])
else:
    check_fixes(sys.argv[2], sys.argv[3])
