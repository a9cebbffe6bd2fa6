#!/usr/bin/python3
"""A made-up paradigm, mode and pipeline order (made_up.c), and a family of models (toy.c), in check, run, predictions, plan and list: commands read only the rows.

Usage: test_made_up.py DTBENCH [CASE...]; DTBENCH is the program with the made-up rows. Prints TAP.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import DTBENCH, ENVIRONMENT, WORK, check, config, main, read_records, records_path
from tap_cases import COMMAND_S

for folder in ("clusters", "profiles"):  # the program lies elsewhere than dtbench
    os.symlink(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs", folder), os.path.join(WORK, folder))


def answer(*arguments):
    done = subprocess.run([DTBENCH, *arguments], capture_output=True, text=True, env=ENVIRONMENT, cwd=WORK, timeout=COMMAND_S)
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
    # A mode without ring collectives has no bound of its network time: all candidates are
    # simulated, so there must be few.
    asked = ["--model", "GPTSmall", "--cluster", "gcp_a2", "--gpus", "8", "--global-batch", "64", "--fix", "activation=keep", "--json"]
    plan = json.loads(answer("plan", *asked, "--allow", "paradigm=rooted"))
    check(plan["plans"][0]["config"]["paradigm"] == "rooted", plan["plans"][0]["config"])
    plan = json.loads(answer("plan", *asked, "--fix", "paradigm=pdp", "--fix", "pipeline.order=one_by_one"))
    check(plan["plans"][0]["config"]["pipeline"]["order"] == "one_by_one", plan["plans"][0]["config"])


def toys(**changes):
    model = changes.pop("model", {"width": 6, "depth": 8, "dtype": "fp32"})
    return config("toys.json", world_size=2, batch_size=4, micro_batches=2, model=model, **changes)


def test_a_family_of_its_own_trains_under_every_paradigm():
    others = ["none", "ddp", "fsdp", "zero1", "zero2", "hsdp", "data_parallel", "parameter_server"]
    paradigms = [{"paradigm": p, "world_size": 1 if p == "none" else 2} for p in others]
    orders = [{"paradigm": "pdp", "pipeline": {"order": order}} for order in ("gpipe", "1f1b", "interleaved", "zb_h1")]
    path = records_path("toys.jsonl")
    for activation, optimizer, cases in (("keep", "adam", paradigms + orders), ("checkpoint", "sgd", [paradigms[2], orders[1]])):
        swept = toys(sweep={"cases": cases}, activation=activation, optimizer={"name": optimizer})
        answer("run", swept, "--verify", "--output", path)
        checked = {row["config_hash"]: row for row in json.loads(answer("check", swept, "--json"))}
        records = read_records(path)
        check(len(records) == len(cases) and all(r["status"] == "ok" for r in records), records)
        for r in records:
            foreseen, peak = checked[r["config_hash"]]["predicted_peak_bytes"]["total"], r["metrics"]["peak_bytes"]["total"]
            check(foreseen == peak, f"{r['config']['paradigm']}: {foreseen}, and {peak} were held")
        os.remove(path)


def test_a_family_of_its_own_is_predicted_and_listed():
    path = records_path("toys_predicted.jsonl")
    answer("run", toys(sweep={"paradigm": ["ddp", "fsdp", "pdp"]}), "--device", "sim", "--output", path)
    check([r["status"] for r in read_records(path)] == ["ok"] * 3, read_records(path))
    for r in read_records(path):
        check(r["metrics"]["vectors_per_s"] == r["metrics"]["samples_per_s"] > 0 and "tokens_per_s" not in r["metrics"], r["metrics"])
    for text in (answer("compare", path, path), answer("show", path), answer("check", toys()), answer("compare", "--format", "json", path, path)):
        check("token" not in text and "vectors" in text, text)
    check("ToySmall" in answer("list", "--models"), "list has no ToySmall")
    check('"model.width"' in answer("generate", "config-schema"), "the schema does not have its keys")


def test_keys_of_another_family_are_refused():
    for model, key in (({"preset": "ToySmall", "dtype": "fp32", "vocab_size": 7}, "model.vocab_size"),
                       ({"preset": "GPTSmall", "width": 6}, "model.width"),
                       ({"width": 6, "depth": 4, "kv_heads": 1}, "model.kv_heads")):
        done = subprocess.run([DTBENCH, "check", toys(model=model)], capture_output=True, text=True, env=ENVIRONMENT, cwd=WORK, timeout=COMMAND_S)
        check(done.returncode == 3 and key in done.stderr, f"{model}: {done.returncode} {done.stderr}")


if __name__ == "__main__":
    sys.exit(main(globals()))
