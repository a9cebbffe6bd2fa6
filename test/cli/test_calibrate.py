"""dtbench calibrate as a user runs it: its files against their schemas, the bytes of runs predicted with them against those of real runs,
and what it refuses. Prints TAP.

Usage: test_calibrate.py DTBENCH [CASE...]. One quick calibration is shared by all cases; times are for scripts/check_calibration.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from tap_cases import COMMAND_S, Skip, check, chosen, run_all

DTBENCH = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
FILES = os.path.join(WORK, "calibration")
SIM = ["--device", "sim", "--set", f"cluster={FILES}/cluster.json", "--set", f"profile={FILES}/profile.json"]
CONFIG = {"device": "cpu", "batch_size": 4, "model": {"layers": 2, "heads": 2, "hidden": 64, "vocab_size": 200, "block_size": 16, "dtype": "fp32"},
          "steps": {"warmup": 1, "timed": 1}}


def run(*arguments, code=0):
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL, check=False)
    check(result.returncode == code, f"exit code {result.returncode}, not {code}:", *arguments, "\n", result.stdout, result.stderr)
    return result


def check_table(said):
    """Each collective has a line with its time and its bandwidths as nccl-tests define them."""
    with open(f"{FILES}/cluster.json", encoding="utf-8") as file:
        measured = json.load(file)["collectives"]["measured"]
    lines = [line.split() for line in said.splitlines() if line.split()[:1] and line.split()[0] in {m["kind"] for m in measured}]
    check(len(lines) == len(measured), said)
    for line, m in zip(lines, measured):
        factor = {"all_reduce": 2 * (m["ranks"] - 1) / m["ranks"], "all_gather": (m["ranks"] - 1) / m["ranks"],
                  "reduce_scatter": (m["ranks"] - 1) / m["ranks"]}.get(m["kind"], 1)
        algorithm, bus = (float(word.replace(",", "")) for word in line[-2:])
        check(line[:2] == [m["kind"], str(m["ranks"])] and line[2].replace(",", "") == f"{m['bytes']:.0f}", line, m)
        check(abs(algorithm - m["bytes"] / m["seconds"] / 1e9) <= 0.01 * algorithm + 1e-3 and abs(bus - factor * algorithm) <= 0.02 * bus + 2e-3, line, m)
    check("best of each kernel" in said and "GB/s" in said, said)


def calibrate():
    if not os.path.exists(FILES):
        said = run("calibrate", "--quick", "--dtype", "fp32", "--output-dir", FILES).stdout
        check("kernels and" in said and "cluster.json" in said and f"storage in {FILES}: " in said, said)
        check(sorted(os.listdir(FILES)) == ["cluster.json", "profile.json"], os.listdir(FILES))
        check_table(said)


def records(config, *arguments):
    path = os.path.join(WORK, "records.jsonl")
    with open(os.path.join(WORK, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    if os.path.exists(path):
        os.remove(path)
    run("run", "config.json", "--quiet", "--output", path, *arguments)
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def bytes_of(record):
    return record["metrics"]["peak_bytes"]["by_ranks"], record["metrics"]["host_peak_bytes"]["by_ranks"]


def test_files_follow_their_schemas():
    try:
        import jsonschema
    except ImportError as missing:
        raise Skip("python3-jsonschema is not installed") from missing
    calibrate()
    for name in ("cluster", "profile"):
        with open(f"{ROOT}/configs/schema/{name}.schema.json", encoding="utf-8") as file:
            schema = json.load(file)
        with open(f"{FILES}/{name}.json", encoding="utf-8") as file:
            jsonschema.validate(json.load(file), schema)


def validate(path, *arguments, code=0):
    return run("validate", "--data", path, "--cluster", f"{FILES}/cluster.json", "--profile", f"{FILES}/profile.json", *arguments, code=code)


def test_records_are_validated():
    """Prediction and measurement are printed for each measured record; predictions and failures are skipped."""
    calibrate()
    config = {**CONFIG, "world_size": 2, "sweep": {"paradigm": ["ddp", "fsdp", "hsdp"]}}
    predicted = records(config, *SIM)
    measured = records(config)
    path = os.path.join(WORK, "records.jsonl")
    with open(path, "a", encoding="utf-8") as file:
        for other in (predicted[0], {**measured[0], "status": "failed"}):
            file.write(json.dumps(other) + "\n")
    found = json.loads(validate(path, "--json").stdout)
    rows = found["rows"]
    check([r["status"] for r in rows] == ["ok"] * 3 + ["skipped"] * 2, rows)
    for row, real, simulated in zip(rows, measured, predicted):
        check(row["config_hash"] == real["config_hash"] and row["measured_step_s"] == real["metrics"]["step_s"]["median"], row)
        check(row["measured_peak_bytes"] == row["predicted_peak_bytes"] == real["metrics"]["peak_bytes"]["total"], row)
        check(row["predicted_step_s"] == simulated["metrics"]["step_s"]["median"], row, simulated["metrics"]["step_s"])
    check([(g["value"], g["rows"]) for g in found["groups"] if g["key"] == "paradigm" and g["step_time"]["rows"]] ==
          [("ddp", 3), ("fsdp", 1), ("hsdp", 1)], found["groups"])
    text = validate(path).stdout
    check("measured  predicted" in text and "1 row from record 4 on: the record is a prediction itself" in text and
          'from record 5 on: the record\'s status is "failed"' in " ".join(text.split()), text)
    refused = run("validate", "--data", path, code=3).stderr
    check("expected --cluster FILE and --profile FILE" in refused, refused)
    refused = validate(path, "--where", "gpus=2", code=3).stderr
    check("conditions are on the columns of a table" in refused, refused)


def test_predicted_bytes_are_the_measured_ones():
    calibrate()
    for ranks, paradigms in ((1, ["none", "ddp", "fsdp"]), (2, ["ddp", "pdp", "fsdp"]), (4, ["ddp", "pdp", "fsdp"])):
        config = {**CONFIG, "world_size": ranks, "sweep": {"paradigm": paradigms}}
        here, there = records(config), records(config, *SIM)
        check(len(here) == len(there) == len(paradigms), len(here), len(there))
        for paradigm, real, simulated in zip(paradigms, here, there):
            check(real["status"] == simulated["status"] == "ok", real["error"], simulated["error"])
            check(len(real["metrics"]["peak_bytes"]["process_rss"]) == ranks and bytes_of(real)[0][0]["total"] > 0, real)
            check(bytes_of(real) == bytes_of(simulated), paradigm, ranks, "\n", bytes_of(real), "\n", bytes_of(simulated))
            check(simulated["metrics"]["step_s"]["median"] > 0, simulated)


def test_saves_take_what_storage_was_measured_to_take():
    calibrate()
    with open(f"{FILES}/cluster.json", encoding="utf-8") as file:
        storage = json.load(file)["storage"]
    check(storage["read_gb_per_s"] > 0 and storage["total_write_gb_per_s"] == 0 and "fsync" in storage["source"], storage)
    path = os.path.join(WORK, "saves.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**CONFIG, "paradigm": "ddp", "world_size": 2, "checkpoint": {"path": "saved"}}, file)
    found = json.loads(run("check", path, *SIM, "--json").stdout)[0]
    expected = found["checkpoint_bytes"] / (1e9 * storage["write_gb_per_s"])
    check(abs(found["predicted_training_s"]["saves"] / expected - 1) < 1e-6, found["predicted_training_s"], expected)


def test_what_was_not_measured_is_refused():
    calibrate()
    with open(os.path.join(WORK, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**CONFIG, "paradigm": "ddp", "world_size": 2}, file)
    said = run("run", "config.json", *SIM, "--set", "model.dtype=bf16", code=3).stderr
    check("no measurements in bf16" in said and "--dtype bf16" in said, said)
    said = run("run", "config.json", *SIM, "--set", "threads=77", code=3).stderr
    check("threads: 77" in said and "--threads 77" in said, said)


def test_wrong_options():
    for arguments, word in ((["--ranks", "0"], "--ranks 0"), (["--ranks", "1,1"], "twice"), (["--ranks", "2x"], "--ranks 2x"),
                            (["--dtype", "fp8"], "--dtype fp8"), (["--threads", "many"], "--threads many"), (["file"], "file")):
        said = run("calibrate", *arguments, code=2).stderr
        check(word in said and "--help" in said, said)
    for option in "--output-dir", "--storage":
        said = run("calibrate", option, "/proc/none", code=7).stderr
        check(said.count("\n") == 1 and f"{option} /proc/none" in said, said)


def main():
    failed = run_all(chosen(globals()))
    shutil.rmtree(WORK, ignore_errors=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
