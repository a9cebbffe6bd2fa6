#!/usr/bin/python3
"""A made-up paradigm, mode and pipeline order (made_up.c) in check, run, predictions, plan and list: rows are all that the commands read.

Usage: test_made_up.py DTBENCH [CASE...]; DTBENCH is the program with the made-up rows. Prints TAP.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import DTBENCH, ENVIRONMENT, WORK, check, config, main, read_records, records_path

for folder in ("clusters", "profiles"):  # the program lies elsewhere than dtbench
    os.symlink(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs", folder), os.path.join(WORK, folder))


def answer(*arguments):
    done = subprocess.run([DTBENCH, *arguments], capture_output=True, text=True, env=ENVIRONMENT, cwd=WORK, timeout=120)
    check(done.returncode == 0, f"{arguments}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def sweep(**changes):
    return config("made_up.json", world_size=4, batch_size=4, pipeline={"stages": 2, "chunks": 4, "paradigms": "all", "order": "one_by_one"},
                  sweep={"paradigm": ["rooted", "pdp"]}, **changes)


def test_list_shows_them():
    text = answer("list")
    check("rooted" in text and "one_by_one" in text, text)


def test_check_knows_bytes_and_passes():
    rooted, pdp = json.loads(answer("check", sweep(), "--json"))
    check(rooted["predicted_peak_bytes"] == pdp["predicted_peak_bytes"], f"{rooted} {pdp}")
    check("one_by_one" in answer("check", sweep(), "--plan"), "the plan names no order")


def test_runs_have_the_losses_of_one_device():
    path = records_path("made_up.jsonl")
    answer("run", sweep(), "--verify", "--output", path)
    rooted, pdp = read_records(path)
    check(rooted["status"] == pdp["status"] == "ok", rooted["error"] or pdp["error"])
    check(all(abs(a - b) < 1e-5 for a, b in zip(rooted["losses"], pdp["losses"])), f"{rooted['losses']} {pdp['losses']}")
    check(rooted["metrics"]["reduce_bytes"] == rooted["metrics"]["broadcast_bytes"] > 0, "no collectives of its own")


def test_predictions_know_them():
    path = records_path("predicted.jsonl")
    answer("run", sweep(), "--device", "sim", "--output", path)
    check([record["status"] for record in read_records(path)] == ["ok", "ok"], "not all are predicted")


def test_plan_finds_them():
    # Of a mode that is no ring's nothing bounds the network's part: all candidates are simulated, so that they are few.
    asked = ["--model", "GPTSmall", "--cluster", "gcp_a2", "--gpus", "8", "--global-batch", "64", "--fix", "activation=keep", "--json"]
    plan = json.loads(answer("plan", *asked, "--allow", "paradigm=rooted"))
    check(plan["plans"][0]["config"]["paradigm"] == "rooted", plan["plans"][0]["config"])
    plan = json.loads(answer("plan", *asked, "--fix", "paradigm=pdp", "--fix", "pipeline.order=one_by_one"))
    check(plan["plans"][0]["config"]["pipeline"]["order"] == "one_by_one", plan["plans"][0]["config"])


if __name__ == "__main__":
    sys.exit(main(globals()))
