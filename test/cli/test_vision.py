#!/usr/bin/python3
"""Convolutional networks under every paradigm: the losses of one device, and the bytes that check foresees.

Usage: test_vision.py DTBENCH [CASE...]; prints TAP.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import CONFIG, DTBENCH, ENVIRONMENT, WORK, check, config, main, read_records, records_path

RESNET = {"blocks": {"c2": 1, "c3": 1, "c4": 2, "c5": 1}, "channels": 8, "image_size": 48, "classes": 10, "norm_group": 2, "dtype": "fp32"}
DEEPLAB = {"blocks": {"c2": 1, "c3": 1, "c4": 1, "c5": 1}, "channels": 4, "image_size": 32, "classes": 5, "head": "deeplab", "output_stride": 8,
           "head_channels": 8, "auxiliary": 0.4, "norm_group": 2, "dtype": "fp32"}
PARADIGMS = [{"paradigm": p, "world_size": 1 if p == "none" else 2}
             for p in ("none", "ddp", "zero1", "zero2", "fsdp", "hsdp", "data_parallel", "parameter_server")]
ORDERS = [{"paradigm": "pdp", "pipeline": {"order": order, "chunks": 2}} for order in ("gpipe", "1f1b", "interleaved", "zb_h1")]


def dtbench(*arguments, code=0, words=False):
    done = subprocess.run([DTBENCH, *arguments], capture_output=True, text=True, env=ENVIRONMENT, cwd=WORK, timeout=120, check=False)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}: {done.stderr}")
    return done.stdout if code == 0 and not words else done.stderr


def network(model, **changes):
    usual = {"paradigm": "ddp", "world_size": 2, "batch_size": 4, "micro_batches": 2, "steps": {"warmup": 0, "timed": 3}, "sweep": None}
    return config("network.json", model=model, **{**usual, **changes})


def verify(model, cases, **changes):
    """Each case has the losses of one device, and at its peak the bytes that check foresees."""
    path, swept = records_path("networks.jsonl"), network(model, sweep={"cases": cases}, **changes)
    words = dtbench("run", swept, "--verify", "--output", path, words=True)
    foreseen = {row["config_hash"]: row["predicted_peak_bytes"]["total"] for row in json.loads(dtbench("check", swept, "--json"))}
    records = read_records(path)
    check(len(records) == len(cases), f"{len(records)} records")
    for record in records:
        what = f"{record['config']['paradigm']} {record['config'].get('pipeline', '')}: "
        check(record["status"] == "ok", what + str(record["error"]))
        peak = record["metrics"]["peak_bytes"]["total"]
        check(foreseen[record["config_hash"]] == peak, what + f"{foreseen[record['config_hash']]} bytes foreseen, {peak} held")
        check(("losses_depend_on" in record) == ("norm_group" not in model), record.get("losses_depend_on"))
    return words, records


def test_resnet_under_every_paradigm():
    verify(RESNET, PARADIGMS + ORDERS, optimizer={"name": "adam"})


def test_resnet_computed_again_and_offloaded():
    verify(RESNET, [{"paradigm": "fsdp"}, {"paradigm": "pdp", "pipeline": {"chunks": 2, "order": "1f1b"}}], activation="checkpoint")
    verify(RESNET, [{"paradigm": "ddp", "activation": "offload"}, {"paradigm": "zero2", "parameter_offload": True}])


def test_deeplab_and_its_auxiliary_head():
    verify(DEEPLAB, [PARADIGMS[1], PARADIGMS[4], ORDERS[1], ORDERS[3], {"paradigm": "fsdp", "activation": "checkpoint"}])


def test_groups_are_micro_batches_where_nothing_is_said():
    model = {key: value for key, value in RESNET.items() if key != "norm_group"}
    words, records = verify(model, [{"paradigm": "ddp", "micro_batches": 1}, {"paradigm": "pdp", "pipeline": {"chunks": 1}}])
    check("with model.norm_group 4, which all of them can hold" in words, words)
    sizes = [record["losses_depend_on"].split(",")[0] for record in records]
    check(sizes == ["micro-batches of 4 samples"] * 2, sizes)


def test_groups_of_several_ranks_are_synchronised():
    cases = [{"paradigm": p, "world_size": 4 if p == "hsdp" else 2, "batch_size": 2 if p == "hsdp" else 4}
             for p in ("ddp", "fsdp", "hsdp", "parameter_server")]
    verify({**RESNET, "norm_group": 8}, cases, micro_batches=1)
    pipeline = {"paradigm": "pdp", "world_size": 4, "pipeline": {"stages": 2, "order": "1f1b", "chunks": 1}}
    verify({**DEEPLAB, "norm_group": 8, "running_statistics": "rank_0"},
           [{"paradigm": "ddp", "activation": "checkpoint"}, {**pipeline, "batch_size": 2}], micro_batches=1)


def test_exchanges_of_statistics_are_counted():
    """Of each channel of each norm: mean and variance of both ranks are gathered, two sums reduced, and a running mean and variance shared."""
    channels = 8 + sum(blocks * 6 * width + 4 * width for blocks, width in ((1, 8), (1, 16), (2, 32), (1, 64)))  # the stem's, and of each stage
    each = 2 * 4 * channels
    for device in ("cpu", "sim"):
        bytes_of = {}
        for group, rule in ((4, "average"), (4, "rank_0"), (8, "average")):
            path = records_path("exchanges.jsonl")
            model = {**RESNET, "norm_group": group, "running_statistics": rule}
            dtbench("run", network(model, micro_batches=1, steps={"warmup": 0, "timed": 1}), "--device", device, "--output", path)
            metrics = read_records(path)[-1]["metrics"]
            bytes_of[group, rule] = [metrics[f"{kind}_bytes"] for kind in ("all_reduce", "all_gather", "broadcast")]
        usual = bytes_of[4, "average"]
        check(bytes_of[4, "rank_0"] == [usual[0] - each, 0, each], f"{device}: {bytes_of}")
        check(bytes_of[8, "average"] == [usual[0] + each, 2 * each, 0], f"{device}: {bytes_of}")


def test_what_does_not_go_is_one_line():
    for changes, wanted in (({"model": {**RESNET, "norm_group": 3}}, "model.norm_group"),
                            ({"model": {**RESNET, "norm_group": 8}}, "one micro-batch"),
                            ({"model": {**RESNET, "norm_group": 12}, "micro_batches": 1}, "no whole number of ranks"),
                            ({"model": {**DEEPLAB, "norm_group": 1}}, "model.norm_group"),
                            ({"model": RESNET, "micro_batches": 3}, "micro_batches"),
                            ({"model": {**RESNET, "output_stride": 12}}, "model.output_stride"),
                            ({"model": {**RESNET, "vocab_size": 3}}, "model.vocab_size"),
                            ({"model": RESNET, "tensor": {"size": 2}}, "tensor.size")):
        error = dtbench("check", network(**changes), code=CONFIG)
        check(wanted in error and error.count("\n") == 1, f"{changes}: {error}")


def test_presets_are_predicted():
    path = records_path("predicted.jsonl")
    dtbench("run", network({"preset": "ResNet50", "dtype": "bf16"}, micro_batches=1, batch_size=64), "--device", "sim", "--output", path)
    (record,) = read_records(path)
    check(record["status"] == "ok" and record["metrics"]["step_s"]["median"] > 0, record)


if __name__ == "__main__":
    sys.exit(main(globals()))
