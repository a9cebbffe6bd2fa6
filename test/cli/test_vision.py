#!/usr/bin/python3
"""Convolutional networks under every paradigm: the losses of one device, and the bytes that check foresees.

Usage: test_vision.py DTBENCH [CASE...]; prints TAP.
"""
import csv
import json
import os
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import CONFIG, DTBENCH, ENVIRONMENT, WORK, Skip, check, config, main, read_records, records_path
from tap_cases import COMMAND_S
from tensor_file import tensors_of

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
RESNET = {"blocks": {"c2": 1, "c3": 1, "c4": 2, "c5": 1}, "channels": 8, "image_size": 48, "classes": 10, "norm_group": 2, "dtype": "fp32"}
DEEPLAB = {"blocks": {"c2": 1, "c3": 1, "c4": 1, "c5": 1}, "channels": 4, "image_size": 32, "classes": 5, "head": "deeplab", "output_stride": 8,
           "head_channels": 8, "auxiliary": 0.4, "norm_group": 2, "dtype": "fp32"}
PARADIGMS = [{"paradigm": p, "world_size": 1 if p == "none" else 2}
             for p in ("none", "ddp", "zero1", "zero2", "fsdp", "hsdp", "data_parallel", "parameter_server")]
ORDERS = [{"paradigm": "pdp", "pipeline": {"order": order, "chunks": 2}} for order in ("gpipe", "1f1b", "interleaved", "zb_h1")]


def dtbench(*arguments, code=0, words=False):
    done = subprocess.run([DTBENCH, *arguments], capture_output=True, text=True, env=ENVIRONMENT, cwd=WORK, timeout=COMMAND_S, check=False)
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


def test_losses_are_compared_until_rounding_has_grown():
    """At this learning rate the order of a sum alone changes the losses of one device by 1e-3 after some steps."""
    _, records = verify(RESNET, [{"paradigm": "ddp"}], optimizer={"name": "sgd", "learning_rate": 0.3}, steps={"warmup": 0, "timed": 8})
    compared = records[0]["verification"].get("compared_losses", 8)
    check(2 <= compared <= 8 and records[0]["verification"]["largest_relative_difference"] <= 1e-4, records[0]["verification"])


def test_resnet_computed_again_and_offloaded():
    verify(RESNET, [{"paradigm": "fsdp"}, {"paradigm": "pdp", "pipeline": {"chunks": 2, "order": "1f1b"}}], activation="checkpoint")
    verify(RESNET, [{"paradigm": "ddp", "activation": "offload"}, {"paradigm": "zero2", "parameter_offload": True}])


def test_deeplab_and_its_auxiliary_head():
    verify(DEEPLAB, [PARADIGMS[1], ORDERS[1], ORDERS[3], {"paradigm": "fsdp", "activation": "checkpoint"}])


def test_groups_are_micro_batches_where_nothing_is_said():
    model = {key: value for key, value in RESNET.items() if key != "norm_group"}
    words, records = verify(model, [{"paradigm": "ddp", "micro_batches": 1}, {"paradigm": "pdp", "pipeline": {"chunks": 1}}])
    check("with model.norm_group 4, which all of them can hold" in words, words)
    sizes = [record["losses_depend_on"].split(",")[0] for record in records]
    check(sizes == ["micro-batches of 4 samples"] * 2, sizes)


def test_groups_of_several_ranks_are_synchronised():
    cases = [{"paradigm": "fsdp"}, {"paradigm": "hsdp", "world_size": 4, "batch_size": 2}]
    verify({**RESNET, "norm_group": 8}, cases, micro_batches=1)
    pipeline = {"paradigm": "pdp", "world_size": 4, "pipeline": {"stages": 2, "order": "1f1b", "chunks": 1}}
    verify({**DEEPLAB, "norm_group": 8, "running_statistics": "rank_0"},
           [{"paradigm": "ddp", "activation": "checkpoint"}, {**pipeline, "batch_size": 2}], micro_batches=1)


def test_a_type_that_no_processor_computes_in_is_refused():
    """Also without the key: fp16 is the default."""
    model = {key: value for key, value in RESNET.items() if key != "dtype"}
    for command in ("check", "run"):
        words = dtbench(command, network(model), "--device", "cpu", code=CONFIG)
        check('model.dtype: fp16, in which no model of the family vision computes on cpu; use "fp32" or "bf16"' in words, words)
    swept = network(model, sweep={"model.dtype": ["fp16", "fp32"]})
    check(len(json.loads(dtbench("check", swept, "--device", "cpu", "--json"))) == 1, "fp16 is not left out of a sweep")


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


def write_images(name, size, count, per_pixel=False):
    """A file whose image i is all of one colour, that of its class, and has this class, or each of its pixels has."""
    with open(os.path.join(WORK, name), "wb") as out:
        out.write(struct.pack("<8s6I", b"DTIMAGES", 1, size, size, 3, size * size if per_pixel else 2, 0))
        for i in range(count):
            kind = i % 3
            out.write(bytes([50 + 80 * kind] * 3 * size * size) + (bytes([kind] * size * size) if per_pixel else struct.pack("<H", kind)))
    return name


def test_files_of_images_are_divided_as_random_ones():
    cases = [{"paradigm": "ddp"}, {"paradigm": "fsdp", "activation": "checkpoint"}, ORDERS[1]]
    verify({**RESNET, "augmentation": "flip_and_crop"}, cases, data={"source": write_images("images.bin", 56, 20)})
    verify({**DEEPLAB, "augmentation": "flip_and_crop"}, cases[:1], data={"source": write_images("masks.bin", 32, 20, True)})


def test_a_network_learns_what_is_in_the_file():
    path, model = records_path("learned.jsonl"), {**RESNET, "classes": 3, "norm_group": 12}
    dtbench("run", network(model, world_size=1, paradigm="none", batch_size=12, micro_batches=1, data={"source": write_images("images.bin", 48, 24)},
                           steps={"warmup": 0, "timed": 10}, optimizer={"name": "adam", "learning_rate": 0.002}), "--output", path)
    losses = read_records(path)[0]["losses"]
    check(losses[0] > 0.7 and losses[-1] < 0.3, losses)


def convert(folder, out, *options):
    script = os.path.join(ROOT, "scripts", "images")
    done = subprocess.run([sys.executable, script, folder, "-o", out, *options], capture_output=True, text=True, timeout=COMMAND_S, check=False)
    check(done.returncode == 0, done.stderr)
    with open(out, "rb") as file:
        return file.read()


def test_folders_of_pictures_become_files():
    try:
        from PIL import Image
    except ImportError as missing:
        raise Skip("Pillow is missing (python3-pil)") from missing
    folder, out = os.path.join(WORK, "folder"), os.path.join(WORK, "converted.bin")
    for number, (name, colour) in enumerate((("ant", (200, 10, 10)), ("bee", (10, 200, 10)))):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        Image.new("RGB", (40, 30 + number), colour).save(os.path.join(folder, name, "1.png"))
    header = struct.pack("<8s6I", b"DTIMAGES", 1, 16, 16, 3, 2, 0)
    content = convert(folder, out, "--size", "16")
    check(content == header + bytes([200, 10, 10] * 256 + [0, 0] + [10, 200, 10] * 256 + [1, 0]), len(content))
    for name in "ImageSets/Segmentation", "JPEGImages", "SegmentationClass":
        os.makedirs(os.path.join(folder, "voc", name), exist_ok=True)
    Image.new("RGB", (24, 16), (7, 7, 7)).save(os.path.join(folder, "voc", "JPEGImages", "a.jpg"))
    mask = Image.new("P", (24, 16), 4)
    mask.putpalette([level for level in range(256) for _ in range(3)])
    mask.paste(255, (0, 0, 12, 16))
    mask.save(os.path.join(folder, "voc", "SegmentationClass", "a.png"))
    with open(os.path.join(folder, "voc", "ImageSets", "Segmentation", "val.txt"), "w", encoding="utf-8") as names:
        names.write("a\n")
    content = convert(os.path.join(folder, "voc"), out, "--size", "16", "--voc", "val")
    check(content[32 + 768:] == bytes([255] * 8 + [4] * 8) * 16, "classes of pixels")


def test_a_checkpoint_has_parameters_and_running_statistics():
    whole, path = os.path.join(WORK, "whole"), records_path("whole.jsonl")
    dtbench("run", network(RESNET, steps={"warmup": 1, "timed": 3}, checkpoint={"path": whole}), "--output", path, "--trace", whole + ".json")
    with open(whole + ".json", encoding="utf-8") as trace:
        kernels = {event["name"] for event in json.load(trace)["traceEvents"] if event["ph"] == "X"}
    check({"convolution", "norm", "convolution_weight_gradient", "loss"} <= kernels, kernels)
    losses = read_records(path)[0]["losses"]
    ends = {}
    def saved(name, division):
        begun = os.path.join(WORK, "begun_" + name)
        case = {"checkpoint": {"path": begun}, **division}
        dtbench("run", network(RESNET, **{**case, "steps": {"warmup": 1, "timed": 1}}), "--output", records_path("begun.jsonl"))
        return begun

    for name, division in (("same", {}), ("divided", PARADIGMS[4])):
        begun = saved(name, division)
        path = records_path("goes_on.jsonl")
        dtbench("run", network(RESNET, steps={"warmup": 1, "timed": 3}, checkpoint={"path": begun + "_on", "from": begun}), "--output", path)
        got = read_records(path)[0]["losses"]
        check(all(abs(a / b - 1) < (0 if name == "same" else 1e-4) + 1e-15 for a, b in zip(got, losses[2:], strict=True)), name, got, losses)
        ends[name] = tensors_of(os.path.join(begun + "_on", "step-4", "rank-00000.safetensors"))
    check(ends["same"] == tensors_of(os.path.join(whole, "step-4", "rank-00000.safetensors")), "not the same to the last bit")
    running = [name for name in ends["same"] if name.endswith("running_statistics")]
    check(len(running) == 6 and all(name in ends["divided"] for name in running), list(ends["same"]))
    # One device continues from the same checkpoint: at this rate rounding grows after a restart as
    # without one.
    _, records = verify(RESNET, [{"paradigm": "fsdp"}], optimizer={"name": "sgd", "learning_rate": 0.3}, steps={"warmup": 0, "timed": 10},
                        checkpoint={"from": saved("stages", ORDERS[1])})
    verified = records[0]["verification"]
    check(2 <= verified.get("compared_losses", 8) <= len(records[0]["losses"]) == 8 and verified["largest_relative_difference"] > 0, verified)


def test_what_weight_decay_leaves_out():
    """One step from the same parameters: a tensor that ends as without decay was left out. torchvision's exclusions: by the kinds of norms, and biases."""
    begun = os.path.join(WORK, "to_decay")
    dtbench("run", network(RESNET, steps={"warmup": 0, "timed": 2}, checkpoint={"path": begun}), "--output", records_path("decay.jsonl"))

    def end(decay, decayed="all", **division):
        path = os.path.join(WORK, "decayed_" + decayed + str(decay))
        dtbench("run", network(RESNET, steps={"warmup": 0, "timed": 3}, checkpoint={"path": path, "from": begun}, **division,
                               optimizer={"name": "sgd", "weight_decay": decay, "decayed": decayed}), "--output", records_path("decay.jsonl"))
        return tensors_of(os.path.join(path, "step-3", "rank-00000.safetensors"))

    plain = end(0)
    kinds = {name: name.rsplit(".", 1)[1] for name in plain}
    of_norms = [name for name, kind in kinds.items() if kind == "bias" and name.replace("bias", "gain") in plain]
    for decayed, out in (("all", []), ("all_but_norms", [n for n, kind in kinds.items() if kind == "gain"] + of_norms),
                         ("matrices", [n for n, kind in kinds.items() if kind in ("gain", "bias")])):
        got = end(0.5, decayed)
        same = [name for name in plain if got[name] == plain[name] and not name.endswith("running_statistics")]
        check(sorted(same) == sorted(out), decayed, same, out)
    check(len(of_norms) > 5, of_norms)
    verify(RESNET, [{"paradigm": p} for p in ("zero1", "parameter_server")] + ORDERS[3:] + [{"paradigm": "fsdp", "parameter_offload": True}],
           optimizer={"name": "adamw", "weight_decay": 0.5, "decayed": "all_but_norms"})


def test_what_does_not_go_is_one_line():
    for changes, wanted in (({"model": {**RESNET, "norm_group": 3}}, "model.norm_group"),
                            ({"model": {**RESNET, "norm_group": 8}}, "one micro-batch"),
                            ({"model": {**RESNET, "norm_group": 12}, "micro_batches": 1}, "need a whole number of ranks"),
                            ({"model": {**DEEPLAB, "norm_group": 1}}, "model.norm_group"),
                            ({"model": RESNET, "micro_batches": 3}, "micro_batches"),
                            ({"model": {**RESNET, "output_stride": 12}}, "model.output_stride"),
                            ({"model": {**RESNET, "vocab_size": 3}}, "model.vocab_size"),
                            ({"model": RESNET, "data": {"source": write_images("small.bin", 40, 20)}}, "smaller than model.image_size 48"),
                            ({"model": RESNET, "tensor": {"size": 2}}, "tensor.size")):
        error = dtbench("check", network(**changes), code=CONFIG)
        check(wanted in error and error.count("\n") == 1, f"{changes}: {error}")


def test_presets_are_predicted():
    path = records_path("predicted.jsonl")
    dtbench("run", network({"preset": "ResNet50", "dtype": "bf16"}, micro_batches=1, batch_size=64), "--device", "sim", "--output", path)
    (record,) = read_records(path)
    check(record["status"] == "ok" and record["metrics"]["step_s"]["median"] > 0, record)


def test_published_speeds_are_predicted():
    """Of each row of results/vision/published.csv, by one profile for each framework and memory format, at most 15 % off."""
    with open(os.path.join(ROOT, "results", "vision", "published.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    path = records_path("published.jsonl")
    dtbench("run", os.path.join(ROOT, "configs", "vision", "published.json"), "--output", path)
    for row, record in zip(rows, read_records(path), strict=True):
        config_of, speed = record["config"], record["metrics"]["images_per_s"]
        described = [f"clusters/{row['cluster']}.json", f"profiles/{row['profile']}.json", int(row["gpus"]), int(row["batch_size"])]
        check([config_of[key] for key in ("cluster", "profile", "world_size", "batch_size")] == described, row)
        off = min(abs(speed / float(row[bound]) - 1) for bound in ("images_per_s", "highest_images_per_s"))
        print(f"# {row['framework']} {row['gpus']} x {row['gpu']}: {row['images_per_s']} published, {speed:.0f} predicted ({row['use']})")
        check(off <= 0.15, f"{row}: {speed:.0f} images/s predicted")


if __name__ == "__main__":
    sys.exit(main(globals()))
