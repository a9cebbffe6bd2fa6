"""show and trace: the table of a run again, from records, and the critical path of a traced step. Prints TAP.

Usage: test_show.py DTBENCH [CASE...]. One sweep is predicted; the records of all cases are made from its records.
"""
import copy
import csv
import importlib.util
import io
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from tap_cases import COMMAND_S, Skip, check, chosen, run_all  # beside this script

DTBENCH = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
CONFIG = {
    "name": "tiny", "device": "sim", "cluster": "clusters/dgx_h100_1.json", "world_size": 2, "batch_size": 1,
    "model": {"layers": 2, "heads": 1, "hidden": 16, "vocab_size": 50, "block_size": 8},
    "steps": {"warmup": 1, "timed": 1}, "sweep": {"paradigm": ["ddp", "fsdp"], "batch_size": [1, 2, 4]},
}
OK, USAGE, CONFIG_CODE = 0, 2, 3


def run(*arguments, code=OK, **options):
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, check=False, **options)
    check(result.returncode == code, f"exit code {result.returncode}, not {code}:", *arguments, "\n", result.stdout, result.stderr)
    return result


def predicted():
    """The file of the sweep's records, and the records."""
    path = os.path.join(WORK, "predicted.jsonl")
    if not os.path.exists(path):
        with open(os.path.join(WORK, "tiny.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        run("run", "tiny.json", "--output", path, "--quiet")
    with open(path, encoding="utf-8") as file:
        return path, [json.loads(line) for line in file]


def write(name, records, tail=""):
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
        file.write(tail)
    return path


def changed(record, **changes):
    """With other values: config__device="cpu"."""
    new = copy.deepcopy(record)
    for path, value in changes.items():
        *keys, last = path.split("__")
        here = new
        for key in keys:
            here = here[key]
        here[last] = value
    return new


def measured(record, steps, **changes):
    """As if it had been measured, with these times of steps."""
    median = statistics.median(steps)
    units = record["metrics"]["tokens_per_s"] * record["metrics"]["step_s"]["median"]
    step = {"median": median, "p95": max(steps), "cv": 0.1, "all": steps}
    return changed(record, config__device="cpu", metrics__step_s=step, metrics__tokens_per_s=units / median, **changes)


def shown(*arguments, code=OK):
    return json.loads(run("show", *arguments, "--format", "json", code=code).stdout)


def test_the_table_of_the_run():
    """show prints the same table as run, whether records come from files or standard input."""
    path, _ = predicted()
    table = run("show", path).stdout
    check("ddp" in table and "fsdp" in table and "predicted, not measured: cluster dgx_h100_1" in table, table)
    again = run("run", "tiny.json", "--output", path, "--resume").stdout
    check(again.splitlines()[0] == table.splitlines()[0] and again.splitlines()[-6:] == table.splitlines()[-6:], again, table)
    piped = subprocess.run([DTBENCH, "run", "tiny.json"], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, check=True)
    check(piped.stderr.splitlines()[-6:] == table.splitlines()[-6:] and len(piped.stdout.splitlines()) == 6, piped.stderr)


def test_values_are_the_records():
    path, records = predicted()
    names = ["config_hash", "paradigm", "batch_size", "tokens_per_s", "step_s.p95", "peak_bytes", "bubble_ideal", "git_commit", "model.dtype"]
    rows = shown(path, "--columns", ",".join(names))
    check(len(rows) == len(records), rows)
    for row, record in zip(rows, records):
        metrics = record["metrics"]
        want = {"config_hash": record["config_hash"], "paradigm": record["config"]["paradigm"], "batch_size": record["config"]["batch_size"],
                "tokens_per_s": metrics["tokens_per_s"], "step_s.p95": metrics["step_s"]["p95"], "peak_bytes.total": metrics["peak_bytes"]["total"],
                "bubble_ideal": metrics["bubble_ideal"], "git_commit": record["provenance"]["git_commit"], "model.dtype": record["config"]["model"]["dtype"]}
        check(row == want, row, want)
    with open(path, encoding="utf-8") as file:
        piped = run("show", "-", "--columns", "paradigm,step_s", "--format", "csv", stdin=file).stdout
    table = list(csv.DictReader(io.StringIO(piped)))
    check([float(row["step_s.median"]) for row in table] == [r["metrics"]["step_s"]["median"] for r in records], piped)


def test_sort_and_where():
    path, records = predicted()
    rates = [row["tokens_per_s"] for row in shown(path, "--sort", "-tokens_per_s")]
    check(rates == sorted((r["metrics"]["tokens_per_s"] for r in records), reverse=True), rates)
    rows = shown(path, "--where", "paradigm=fsdp,pdp", "--where", "batch_size>=2", "--columns", "paradigm,batch_size")
    check(rows == [{"paradigm": "fsdp", "batch_size": 2}, {"paradigm": "fsdp", "batch_size": 4}], rows)
    check(len(shown(path, "--where", "cluster=dgx_h100_1", "--where", "batch_size!=2.0")) == 4, "a cluster by its name")
    check("paradigm ddp" in run("show", path, "--where", "paradigm=ddp").stdout.split("\n\n")[0], "what is equal stands above")


def test_a_key_that_only_some_have():
    """A sweep of a key whose value none is not in records: lines that are alike otherwise are told apart by it."""
    with open(os.path.join(WORK, "fp8.json"), "w", encoding="utf-8") as file:
        json.dump({**CONFIG, "world_size": 4, "model": {**CONFIG["model"], "dtype": "bf16"},
                   "sweep": {"context.size": [1, 2], "paradigm": ["ddp", "fsdp"], "fp8.recipe": ["none", "tensorwise"]}}, file)
    table = run("run", "fp8.json", "--output", os.path.join(WORK, "fp8.jsonl"), "--quiet").stdout or run("show", os.path.join(WORK, "fp8.jsonl")).stdout
    rows = re.findall(r"^ *(ddp|fsdp) +(-|tensorwise) +(-|2) ", table, re.M)
    check(len(rows) == len(set(rows)) == 8 and re.search(r"paradigm +recipe +context ", table), table)


def test_files_of_one_name_in_two_folders():
    _, (first, *_) = predicted()
    path = write("folders.jsonl", [changed(first, config__cluster=f"{folder}/c.json", config_hash=f"{number:016x}") for number, folder in enumerate("ab")])
    table = run("show", path).stdout
    check(re.search(r"^ *a/c .*\n *b/c ", table, re.M), table)
    check(len(shown(path, "--where", "cluster=b/c")) == 1, "the text of the table selects a row")


def test_runs_are_one_line():
    """Of several runs the ok ones count; those of another build or machine are separate lines."""
    _, (first, *_) = predicted()
    runs = [measured(first, [time] * 3) for time in (1.0, 1.25, 1.1)]
    failed = changed(runs[0], status="failed", error="rank 1 crashed", metrics__tokens_per_s=None)
    row, = shown(write("runs.jsonl", [failed, *runs]))
    check(row["runs"] == 3 and row["step_s.median"] == 1.1 and abs(row["spread"] - 0.25) < 1e-12 and row["status"] == "ok", row)
    others = [changed(runs[0], provenance__git_commit="a"), changed(runs[0], provenance__device_name="b"), changed(failed, config_hash="c")]
    rows = shown(write("others.jsonl", runs + others))
    check([row.get("runs") for row in rows] == [3, 1, 1, 1] and [row["git_commit"] for row in rows].count("a") == 1, rows)
    text = run("show", write("failed.jsonl", [runs[0], changed(failed, config_hash="c")])).stdout
    check("failed: rank 1 crashed" in text, text)


def test_best():
    """The fastest of each kind; its lead and certainty are those of compare."""
    path, records = predicted()
    for row in shown(path, "--best", "paradigm"):
        rates = sorted(r["metrics"]["tokens_per_s"] for r in records if r["config"]["paradigm"] == row["paradigm"])
        check(row["tokens_per_s"] == rates[-1] and abs(row["lead"] - (rates[-1] / rates[-2] - 1)) < 1e-9 and row["next"] == "batch 2", row)
    check(shown(path, "--best", "batch_size,paradigm")[0]["next"] is None, "alone")
    slow, fast = records[0], records[3]
    noise = [0.99, 1.0, 1.01, 1.0, 1.005]

    def lead_of(runs):
        sides = [(slow, 1.2), (fast, 1.0)]
        all_of = [measured(side, [time * drift * (1 + 0.001 * r) for drift in noise]) for side, time in sides for r in range(runs)]
        return shown(write("best.jsonl", all_of), "--best", "batch_size")[0]

    certain, single = lead_of(3), lead_of(1)
    check(certain["paradigm"] == "fsdp" and certain["verdict"] == "faster" and certain["next"] == "ddp", certain)
    check(certain["lead_interval"][0] < certain["lead"] < certain["lead_interval"][1] and abs(certain["lead"] - 0.2) < 0.02, certain)
    check(single["verdict"] == "unclear" and "one run each: no evidence" in single["reason"], single)
    failed = changed(measured(fast, [0.1]), status="oom")
    row, = shown(write("oom.jsonl", [measured(slow, [1.0]), failed]), "--best", "batch_size")
    check(row["paradigm"] == "ddp" and row["status"] == "ok", "what ran out of memory is not the fastest", row)


def test_names_of_others():
    """Texts in records are untrusted."""
    _, (first, *_) = predicted()
    name = "<script>alert(1)</script> | \u001b[31m,\"quoted\" \u00e9"
    path = write("names.jsonl", [changed(first, config__name=name), changed(first, config__name="b", config_hash="b")])
    check(shown(path)[0]["name"] == name, "JSON")
    check(next(csv.reader(io.StringIO(run("show", path, "--format", "csv").stdout.split("\n", 1)[1])))[0] == name, "CSV")
    check("\u001b" not in run("show", path).stdout, "a terminal")
    markdown = run("show", path, "--format", "markdown").stdout
    check("\\<script\\>" in markdown and "\\|" in markdown, markdown)


def test_mlperf_log():
    path, records = predicted()
    log = run("show", path, "--where", "paradigm=ddp", "--where", "batch_size=4", "--format", "mllog").stdout
    events = []
    for line in log.splitlines():
        check(line.startswith(":::MLLOG "), line)
        events.append(json.loads(line[len(":::MLLOG "):]))
        check(list(events[-1]) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"], line)
        check(events[-1]["event_type"] in ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END") and isinstance(events[-1]["metadata"], dict), line)
    times, keys = [event["time_ms"] for event in events], [event["key"] for event in events]
    check(times == sorted(times) and all(isinstance(time, int) for time in times), times)
    check([key for key in keys if key.endswith(("start", "stop"))] == ["init_start", "init_stop", "run_start", "block_start", "block_stop", "run_stop"], keys)
    record, = [r for r in records if r["config"]["paradigm"] == "ddp" and r["config"]["batch_size"] == 4]
    told = {event["key"]: event for event in events}
    check(told["global_batch_size"]["value"] == 8 and told["max_sequence_length"]["value"] == 8, told)
    check(abs(told["tracked_stats"]["value"]["throughput"] / record["metrics"]["samples_per_s"] - 1) < 1e-9, told, record)
    check(told["train_samples"]["value"] == 8 * 2 and told["run_stop"]["metadata"]["status"] == "success", told)
    check("one experiment, not 6" in run("show", path, "--format", "mllog", code=USAGE).stderr, "one run")


def test_mlperf_log_by_its_own_parser():
    if not importlib.util.find_spec("mlperf_logging"):
        raise Skip("no mlperf_logging in this python")
    path, _ = predicted()
    log = os.path.join(WORK, "run.log")
    with open(log, "w", encoding="utf-8") as file:
        file.write(run("show", path, "--where", "paradigm=ddp", "--where", "batch_size=4", "--format", "mllog").stdout)
    parse_file = importlib.import_module("mlperf_logging.compliance_checker.mlp_parser").parse_file
    lines, errors = parse_file(log, "5.1.0")
    check(len(lines) > 10 and not errors, lines, errors)


def test_lines_that_are_no_records():
    path, (first, *_) = predicted()
    lines = open(path, encoding="utf-8").read()
    torn = ['{"config_hash": "x"}', "[1]", "no", '{"a": {"b": [}', lines[:500], '{"status":"ok","config_hash":"x","config":{}} x', '{"status":1e999,"config_hash":"x"}']
    mixed = os.path.join(WORK, "mixed.jsonl")
    with open(mixed, "w", encoding="utf-8") as file:
        file.write("\n".join(torn[:3]) + "\n\n" + lines + "\n".join(torn[3:]))
    result = run("show", mixed, "--columns", "config_hash,step_s", "--format", "csv")
    check(result.stdout == run("show", path, "--columns", "config_hash,step_s", "--format", "csv").stdout, "what was torn leaves nothing", result.stdout)
    check("7 lines left out" in result.stderr, result.stderr)
    newer = write("newer.jsonl", [first, changed(first, schema_version=2)])
    check("1 record left out: schema_version" in run("show", newer).stderr, "a newer one")


def test_values_that_come_again():
    """Text that repeats the previous line is not read again: no value may be the previous line's by mistake."""
    _, records = predicted()
    first, rows = records[0], []
    for i, changes in enumerate(({}, {}, {"config__seed": 7}, {"metrics__mfu": None}, {"metrics__mfu": None}, {"metrics__mfu": 0.25}, {})):
        rows.append(changed(first, config_hash=f"{i:016x}", **changes))
    lines = [json.dumps(row) for row in rows]
    lines.insert(2, lines[1].replace('"mfu"', '"mfu": 0.5, "x"').replace('"config_hash"', '"no_hash"'))  # no record, between two that are
    swapped = changed(first, config_hash=f"{len(rows):016x}")
    swapped["metrics"] = dict(reversed(swapped["metrics"].items()))
    rows.append(swapped)
    lines += [json.dumps(swapped)]
    path = write("again.jsonl", [], "\n".join(lines) + "\n")
    said = json.loads(run("show", path, "--format", "json", "--columns", "config_hash,seed,mfu,tokens_per_s,status").stdout)
    wanted = [{"config_hash": r["config_hash"], "seed": r["config"]["seed"], "mfu": r["metrics"].get("mfu"),
               "tokens_per_s": r["metrics"]["tokens_per_s"], "status": "ok"} for r in rows]
    check(said == wanted, said, wanted)


def test_refusals():
    path, _ = predicted()
    for arguments, words in (
            ([path, "--columns", "step_z"], "'step_z' is not a key of these records; did you mean step_s"),
            ([path, "--where", "paradigm"], "--where paradigm: expected KEY=VALUE"),
            ([path, "--where", "batch_size<few"], "expected a number after '<'"),
            ([path, "--where", "paradigm=pdp"], "no record meets the condition: paradigm=pdp"),
            ([path, "--best", "nothing"], "'nothing' is not a key"),
            ([path, "--columns", ",".join(["paradigm"] * 31)], "more than 30 keys"),
            ([path, "--format", "xml"], "expected table, csv, json, markdown or mllog"),
            ([], "expected RECORDS"), ([write("empty.jsonl", [])], "there is no record")):
        error = run("show", *arguments, code=USAGE).stderr
        check(words in error, error)
    run("show", "nowhere.jsonl", code=CONFIG_CODE)


def trace_of(spans, arrows=()):
    """A trace's file: spans (rank, row, name, category, begin, end), arrows ((rank, row, time), (rank, row, time)), in ms."""
    events = [{"ph": "X", "pid": rank, "tid": row, "ts": 1e3 * begin, "dur": 1e3 * (end - begin), "name": name, "cat": category,
               "args": {"bytes": 8, "communicator": "replicas"} if category == "communication" else {}} for rank, row, name, category, begin, end in spans]
    for number, ends in enumerate(arrows):
        events += [{"ph": kind, "pid": rank, "tid": row, "ts": 1e3 * at, "name": "message", "cat": "message", "id": f"m {number}"}
                   for kind, (rank, row, at) in zip("sf", ends)]
    path = os.path.join(WORK, "made.trace")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [\n' + ",\n".join(json.dumps(event) for event in events) + "\n]}\n")
    return path


def rows_of(text):
    """{(what, rank): ms} of the table."""
    return {(m[1], int(m[2])): float(m[3]) for m in re.finditer(r"^(\S.*?) +(\d+) +([\d.,]+) +[\d.]+ +\d+$", text, re.M)}


def test_critical_path():
    """A sends to B, which then reaches an all-reduce last: the path includes both."""
    path = trace_of([(0, 1, "a", "compute", 0, 10), (0, 2, "send", "communication", 10, 12), (1, 2, "recv", "communication", 0, 12), (1, 1, "b", "compute", 12, 20),
                     (0, 3, "all_reduce", "communication", 12, 25), (1, 3, "all_reduce", "communication", 20, 25), (0, 0, "forward", "phase", 0, 25)],
                    [((0, 2, 10), (1, 2, 12))])
    text = run("trace", path).stdout
    check(rows_of(text) == {("a", 0): 10, ("recv of replicas", 1): 2, ("b", 1): 8, ("all_reduce of replicas", 1): 5}
          or rows_of(text) == {("a", 0): 10, ("recv of replicas", 1): 2, ("b", 1): 8, ("all_reduce of replicas", 0): 5}, text)
    check(re.search(r"^rank 0 +#+ ", text, re.M), "a picture", text)
    text = run("trace", path, "--rank", "1").stdout
    check(rows_of(text) == {("computes", 1): 8, ("waits for recv of replicas, and that for rank 0", 1): 12, ("finishes before the last rank", 1): 5}, text)
    check(rows_of(run("trace", trace_of([(0, 1, "a", "compute", 2, 5)])).stdout) == {("a", 0): 3, ("nothing that the trace shows", 0): 2}, "a gap")


def test_critical_path_of_a_run():
    """A predicted step is explained completely, and its parts add up to it."""
    pipeline = os.path.join(WORK, "pipeline.json")
    with open(pipeline, "w", encoding="utf-8") as file:
        json.dump({**CONFIG, "sweep": {}, "paradigm": "pdp", "batch_size": 4}, file)
    run("run", pipeline, "--quiet", "--trace", "run.trace", "-o", "traced.jsonl")
    text = run("trace", "run.trace").stdout
    total, = re.findall(r"critical path of ([\d.]+) ms", text)
    shares = [float(line.split()[-2]) for line in text.splitlines() if re.match(r"\S.* [\d.]+ +\d+$", line)]
    check(float(total) > 0 and abs(sum(shares) - 100) < 0.06 * len(shares), text)
    for arguments, words in (([pipeline], "not a trace of dtbench"), (["run.trace", "--rank", "9"], "no computing span of rank 9"), (["nowhere"], "cannot read nowhere")):
        check(words in run("trace", *arguments, code=CONFIG_CODE).stderr, words)
    check("expected a number from 0" in run("trace", "run.trace", "--rank", "x", code=USAGE).stderr, "a rank")


def test_many_records():
    """5,000 records take the memory of their values: as trees of JSON they took 300 MB. Their numbers are read and written to the last bit."""
    _, records = predicted()
    path = os.path.join(WORK, "many.jsonl")
    line = json.dumps(changed(records[0], config_hash="HASH", metrics__tokens_per_s="RATE"), separators=(",", ":"))
    with open(path, "w", encoding="utf-8") as file:
        rates = ["9007199254740993", "9007199254740995.0", "1e-7", "4.5E+20", "0.000123", "12345678901234567890123", "0.30000000000000004"]
        generator = random.Random(38)
        rates += [repr(generator.random() * 10.0 ** generator.randint(-12, 18)) for _ in range(5000 - len(rates))]
        file.writelines(line.replace("HASH", f"{i:016x}").replace('"RATE"', rate) + "\n" for i, rate in enumerate(rates))
    said = run("show", path, "--format", "csv", "--columns", "tokens_per_s").stdout.split()[1:]
    wrong = [(rate, text) for rate, text in zip(rates, said) if float(rate) != float(text)]
    check(len(said) == len(rates) and not wrong, wrong[:5])
    code = "import resource,subprocess,sys;subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);" \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    result = subprocess.run([sys.executable, "-c", code, DTBENCH, "show", path, "--best", "paradigm"], capture_output=True, text=True, check=True)
    check(int(result.stdout) < 100 * 1024, result.stdout)
    os.remove(path)


def main():
    try:
        return run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
