"""Training on a file of token ids: the samples that are read, under any division, and refusals. Prints TAP.

Usage: test_data.py DTBENCH [CASE...]
"""
import array
import json
import os
import random
import sys

from command import CONFIG, FAILED, OK, WORK, Started, check, config, main, read_records, records_path, run

MODEL = {"layers": 2, "heads": 2, "hidden": 32, "vocab_size": 64, "block_size": 16, "dtype": "fp32"}
SAMPLES = 50


def tokens(name="tokens.bin", kind="H", ids=None):
    """A file whose sample i is 16 times token i, so that a model sees which ones it is given."""
    ids = ids if ids is not None else [i // 16 for i in range(16 * SAMPLES + 1)]
    with open(os.path.join(WORK, name), "wb") as file:
        array.array(kind, ids).tofile(file)
    return name


def experiment(**changes):
    plain = {"sweep": None, "world_size": 1, "batch_size": 8, "threads": 1, "model": MODEL, "steps": {"warmup": 1, "timed": 3},
             "optimizer": {"name": "adam", "learning_rate": 0.01}, "data": {"source": tokens()}}
    return config("data.json", **{**plain, **changes})


def train(path, *arguments):
    out = records_path("data.jsonl")
    run("run", path, "--quiet", "-o", out, *arguments, code=OK)
    return read_records(out)


def test_losses_are_those_of_one_device_however_the_ranks_are_divided():
    sweep = [{"paradigm": "ddp"}, {"paradigm": "fsdp", "tensor": {"size": 2}},
             {"paradigm": "zero1", "pipeline": {"stages": 2, "chunks": 2}, "micro_batches": 2, "activation": "checkpoint"}]
    path = experiment(world_size=4, batch_size=4, sweep=sweep)
    checked = json.loads(run("check", path, "--json", code=OK).stdout)
    for record, its in zip(train(path, "--verify"), checked, strict=True):
        check(record["status"] == "ok" and record["verification"]["status"] == "passed", record["error"])
        check(record["metrics"]["peak_bytes"]["total"] == its["predicted_peak_bytes"]["total"], "device bytes", record["metrics"]["peak_bytes"], its)
        check(record["metrics"]["host_peak_bytes"]["total"] == its["predicted_host_peak_bytes"]["total"] > 0, "host bytes", its)
        check(0 <= record["metrics"]["data_s"] <= record["metrics"]["step_s"]["median"], record["metrics"])


def test_the_model_learns_what_is_in_the_file():
    """One of 64 ids is in the file."""
    losses = train(experiment(steps={"warmup": 1, "timed": 20},
                              data={"source": tokens("seven.bin", ids=[7] * (16 * SAMPLES + 1))}))[0]["losses"]
    check(losses[0] > 4 and losses[-1] < 1.5, losses)


def test_epochs_count_the_steps_and_orders_are_those_of_the_seed():
    for last, steps in ("drop", 12), ("pad", 14):
        record = train(experiment(steps={"warmup": 1, "epochs": 2}, data={"source": tokens(), "last": last}))[0]
        check(len(record["losses"]) == steps, last, len(record["losses"]))
        check(record["config"]["steps"] == {"warmup": 1, "timed": steps - 1, "epochs": 2}, record["config"])
    rate = ["--set", "optimizer.learning_rate=0"]
    shuffled = train(experiment(), *rate)[0]["losses"]
    check(train(experiment(), *rate)[0]["losses"] == shuffled, "not the same the second time")
    check(train(experiment(data={"source": tokens(), "shuffle": False}), *rate)[0]["losses"] != shuffled, "not shuffled")
    check(train(experiment(data={"source": tokens("wide.bin", "I"), "ids": "uint32"}), *rate)[0]["losses"] == shuffled, "uint32 is read otherwise")


def test_what_is_wrong_is_said():
    short = tokens("short.bin", ids=[1] * 16)
    odd = os.path.join(WORK, "odd.bin")
    with open(odd, "wb") as file:
        file.write(b"123")
    cases = [
        ({"data": {"source": "none.bin"}}, "data.source: none.bin: not found in"),
        ({"data": {"source": short}}, "data.source: 16 ids are too few for a sample, which has model.block_size + 1: 17"),
        ({"data": {"source": odd}}, "data.source: 3 bytes do not divide into ids of 2 bytes: see data.ids"),
        ({"batch_size": 51}, "data.source: the file's 50 samples are less than a step of 51; use a smaller batch_size, or data.last \"pad\""),
        ({"data": None, "steps": {"epochs": 1}}, 'steps.epochs: an epoch is one of data.source, which is "random"'),
        ({"steps": {"epochs": 1, "timed": 7}}, "steps.epochs: the epochs have 2 timed steps, and steps.timed says 7; give one of both"),
        ({"steps": {"epochs": 1, "warmup": 6}}, "steps.epochs: 6 steps in all; more than steps.warmup 6 and at most"),
    ]
    for changes, expected in cases:
        said = run("check", experiment(**changes), code=CONFIG).stderr
        check(expected in said and said.count("\n") == 1, said)


def test_an_id_outside_of_the_vocabulary_ends_the_run():
    random.seed(4)
    ids = [random.randrange(64) for _ in range(16 * SAMPLES + 1)]
    ids[700] = 64
    out = records_path("bad.jsonl")
    run("run", experiment(world_size=2, batch_size=4, paradigm="ddp", data={"source": tokens("bad.bin", ids=ids)}, steps={"epochs": 1}), "--quiet",
        "-o", out, code=FAILED)
    record = read_records(out)[0]
    check("id 700 is 64, and model.vocab_size is 64" in record["error"], record["error"])


def test_a_file_that_becomes_shorter_ends_the_run():
    """Its last tokens are in steps to come: the run meets the file's end in the middle of reading them, or between two reads."""
    out, path = records_path("shrunk.jsonl"), os.path.join(WORK, tokens("shrinking.bin"))
    process = Started(experiment(data={"source": path}, world_size=2, batch_size=4, paradigm="ddp"), "--set", "steps.timed=1000000", "-o", out)
    process.ranks_train()
    os.truncate(path, 100)
    said, _ = process.finish(FAILED)
    expected = "shrinking.bin: the file has become shorter while it was read: it had 1602 bytes, and now ends before byte"
    check(expected in read_records(out)[0]["error"] and said.count(expected) == 1, said)


def test_predictions_need_no_file():
    path = experiment(device="sim", paradigm="ddp", world_size=2, data={"source": "nowhere.bin"})
    record = train(path)[0]
    check(record["status"] == "ok" and record["metrics"]["host_peak_bytes"]["total"] > 0, record["error"])
    said = run("check", path, "--set", "steps.epochs=2", code=CONFIG).stderr
    check("steps.epochs: an epoch is one of data.source, which is not on this machine" in said, said)


def test_learning_rates_follow_the_schedule_and_are_in_the_record():
    sgd = {"name": "sgd", "learning_rate": 0.5}
    plain = {"data": None, "steps": {"warmup": 1, "timed": 3}}
    constant = train(experiment(optimizer=sgd, **plain))[0]
    check("learning_rates" not in constant, "rates of a constant schedule")
    linear = train(experiment(optimizer={**sgd, "schedule": "linear", "warmup_steps": 2, "final_rate": 0.5}, **plain))[0]
    check(linear["learning_rates"] == [0.25, 0.5, 0.5, 0.375], linear["learning_rates"])
    for optimizer, expected in (({"warmup_steps": 4}, ""), ({"warmup_steps": 5}, "rises for 5 steps, but the run has 4 and ends at 0.8 of the rate"),
                                ({"warmup_steps": 5, "schedule_steps": 9, "schedule": "cosine"}, ""),
                                ({"warmup_steps": 5, "schedule_steps": 3, "schedule": "cosine"}, "the schedule ends after 3 steps, before the end of the warm-up")):
        said = run("check", experiment(optimizer=optimizer, **plain), code=OK).stdout
        check(expected in said if expected else "warm-up" not in said and "rises" not in said, optimizer, said)
    check(linear["losses"][0] == constant["losses"][0] and linear["losses"][1] != constant["losses"][1], linear["losses"])
    for paradigm in "none", "fsdp":
        world = {"world_size": 1 if paradigm == "none" else 2, "batch_size": 8 if paradigm == "none" else 4, "paradigm": paradigm}
        for optimizer in sgd, {**sgd, "name": "adam", "learning_rate": 0.03125}:
            half = train(experiment(optimizer={**optimizer, "learning_rate": optimizer["learning_rate"] / 4}, **world, **plain))[0]["losses"]
            scaled = train(experiment(optimizer={**optimizer, "scale_with_batch": "linear", "base_batch": 32}, **world, **plain))[0]["losses"]
            check(half == scaled, "a quarter of the batch is a quarter of the rate:", paradigm, optimizer, half, scaled)


if __name__ == "__main__":
    sys.exit(main(globals()))
