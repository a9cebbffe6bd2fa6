"""Schema 1 of the records is frozen: records of earlier commits can be read, and no field disappears or accepts less. Prints TAP.

Usage: test_earlier_records.py DTBENCH [CASE...]. earlier_records/records.jsonl has a record of each commit that the project's results came from, and of
others that changed the fields, from the first one on. earlier_records/fields.json has the fields of schema 1 as they were when it was frozen, with the JSON
types and words that each takes, and whether a record must have it; --freeze writes it anew, for a schema_version 2.
"""
import json
import os
import sys

import command  # beside this script
from command import OK, OOM, WORK, Skip, check, read_records, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "earlier_records")
RECORDS = os.path.join(HERE, "records.jsonl")
FIELDS = os.path.join(HERE, "fields.json")


def schema(name):
    with open(os.path.join(ROOT, "configs", "schema", name + ".schema.json"), encoding="utf-8") as file:
        return json.load(file)


def accepted(part):
    """The values that a part of a schema accepts: JSON types, and words in quotes."""
    words = part.get("enum", [part["const"]] if "const" in part else [])
    types = part.get("type", [])
    found = {json.dumps(word) for word in words} | {types if isinstance(types, str) else "", *(types if isinstance(types, list) else [])}
    for branch in part.get("oneOf", []):
        found |= accepted(branch)
    return found - {""}


def fields(part, prefix="", required=True):
    """(path, accepted values, whether a record must have it) of all fields of a schema."""
    for branch in [part, *part.get("oneOf", [])]:
        for key, inner in branch.get("properties", {}).items():
            must = required and key in branch.get("required", [])
            yield prefix + key, sorted(accepted(inner)), must
            yield from fields(inner, prefix + key + ".", must)
        if isinstance(branch.get("items"), dict):
            yield from fields(branch["items"], prefix + "[].", False)


def today():
    everything = list(fields(schema("record"))) + list(fields(schema("metrics"), "metrics."))
    return {path: {"takes": takes, "required": required} for path, takes, required in everything}


def frozen():
    with open(FIELDS, encoding="utf-8") as file:
        return json.load(file)


def test_no_field_goes_or_narrows():
    now, then = today(), frozen()
    check(len(then) > 150, "few fields:", len(then))
    for path, field in then.items():
        check(path in now, path, "is gone from the schema of records")
        check(set(field["takes"]) <= set(now[path]["takes"]), path, "took", field["takes"], "and takes", now[path]["takes"])
    added = [path for path, field in now.items() if field["required"] and not then.get(path, {"required": path.rsplit(".", 1)[0] not in then})["required"]]
    check(not added, "earlier records lack what is required now:", added)


def test_the_schema_takes_them():
    try:
        import jsonschema
    except ImportError:
        raise Skip("python3-jsonschema is not installed") from None
    folder = os.path.join(ROOT, "configs", "schema")
    resolver = jsonschema.RefResolver("file://" + folder + "/", schema("record"))
    validator = jsonschema.Draft202012Validator(schema("record"), resolver=resolver)
    for record in read_records(RECORDS):
        wrong = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(record)]
        check(not wrong, "the record of", record["provenance"]["git_commit"], wrong[:3])


def test_every_command_reads_them():
    records = read_records(RECORDS)
    check(len({record["provenance"]["git_commit"] for record in records}) > 10, "few commits")
    rows = json.loads(run("show", "--format", "json", "--columns", "config_hash,git_commit,tokens_per_s,images_per_s,step_s.median,peak_bytes.total", RECORDS, code=OK).stdout)
    shown = {(row["config_hash"], row["git_commit"]): row for row in rows}
    for record in records:
        row, metrics = shown[record["config_hash"], record["provenance"]["git_commit"]], record["metrics"]
        for key, value in {**metrics, "step_s.median": metrics["step_s"]["median"], "peak_bytes.total": metrics["peak_bytes"]["total"]}.items():
            check(key not in row or row[key] == value, record["provenance"]["git_commit"], key, value, row)
    for arguments in (["status"], ["merge", "-o", command.records_path("merged.jsonl")], ["report", "-o", command.records_path("report.html")]):
        said = run(*arguments, RECORDS, code=OK)
        check("left out" not in said.stderr, arguments, said.stderr)


def test_each_is_compared_with_itself():
    """Its config is understood: the experiment has a name, and a partner."""
    result = json.loads(run("compare", "--single", "--format", "json", RECORDS, RECORDS, code=OK).stdout)
    check({row["verdict"] for row in result["experiments"]} <= {"same", "unclear"}, result["verdicts"])
    for record in read_records(RECORDS):
        path = os.path.join(WORK, "config.json")
        config = {key: value for key, value in record["config"].items() if key not in ("cluster", "profile")}  # files of that time
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        checked = run("check", path)
        check(checked.returncode in (OK, OOM), path, checked.stdout, checked.stderr)  # today's profile of the cluster may leave less memory


if __name__ == "__main__":
    if sys.argv[2:] == ["--freeze"]:
        with open(FIELDS, "w", encoding="utf-8") as file:
            file.write("{\n" + ",\n".join(f"  {json.dumps(path)}: {json.dumps(field)}" for path, field in today().items()) + "\n}\n")
        sys.exit(0)
    sys.exit(command.main(globals()))
