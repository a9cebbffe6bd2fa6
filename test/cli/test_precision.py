"""Clipping, master weights and loss scales: their record fields and memory, and equal results under all divisions of ranks. Prints TAP.

Usage: test_precision.py DTBENCH [CASE...]
"""
import json
import os
import shutil
import sys

from command import CONFIG, OK, VERIFY, WORK, check, config, main, read_records, records_path, run

MODEL = {"layers": 4, "heads": 4, "hidden": 32, "vocab_size": 96, "block_size": 16, "dtype": "fp32", "tied": True}
NETWORK = {"blocks": {"c2": 1, "c3": 1, "c4": 1, "c5": 1}, "channels": 8, "image_size": 32, "classes": 10, "norm_group": 2, "dtype": "fp32"}
ADAM = {"name": "adam", "learning_rate": 0.01}
# All gradients overflow in fp16 at 2^32 and 2^20, and none at 2^8: so no division of the batch does
# otherwise.
DYNAMIC = {"loss_scaling": "dynamic", "dynamic_loss_scale": {"initial": 2**32, "backoff": 2**-12, "window": 2}}
SCALES = [2**32, 2**20, 2**8, 2**8, 2**9, 2**9]


def experiment(**changes):
    plain = {"sweep": None, "world_size": 4, "batch_size": 2, "threads": 1, "model": MODEL, "optimizer": ADAM, "steps": {"warmup": 1, "timed": 5}}
    return config("precision.json", **{**plain, **changes})


def train(path, *arguments):
    out = records_path("precision.jsonl")
    run("run", path, "--quiet", "-o", out, *arguments, code=OK)
    return read_records(out)


DIVISIONS = [
    {"paradigm": "ddp", "parameter_offload": True, "micro_batches": 2},
    {"paradigm": "hsdp", "hsdp": {"shard_size": 2}, "tensor": {"size": 2}},
    {"paradigm": "zero2", "pipeline": {"stages": 2, "chunks": 2}},
    {"paradigm": "parameter_server"},
]


def test_every_paradigm_clips_by_the_norm_of_one_device():
    """Cases that test_composition does not draw; for the others, the record and check."""
    path = experiment(optimizer={**ADAM, "clip_norm": 0.25}, sweep=[{"paradigm": "data_parallel"}, *DIVISIONS])
    checked = json.loads(run("check", path, "--json", code=OK).stdout)
    first = None
    for record, its in zip(train(path, "--verify"), checked, strict=True):
        metrics, named = record["metrics"], record["config"]["paradigm"]
        check(record["status"] == "ok" and record["verification"]["status"] == "passed", named, record["error"])
        check(metrics["peak_bytes"]["total"] == its["predicted_peak_bytes"]["total"], named, metrics["peak_bytes"], its)
        check(its["comm_bytes_per_step"]["world"] == {"all_reduce": 4}, named, its["comm_bytes_per_step"])
        norms = record["gradient_norms"]
        first = first or norms
        check(metrics["skipped_steps"] == 0 and "loss_scales" not in record and min(norms) > 0.25, named, norms)
        check(all(abs(a / b - 1) < 1e-4 for a, b in zip(first, norms, strict=True)), named, first, norms)


def test_a_norm_that_is_not_reached_changes_nothing():
    free = train(experiment(paradigm="fsdp"))[0]
    check("gradient_norms" not in free, "norms that nobody asked for")
    check(train(experiment(paradigm="fsdp", optimizer={**ADAM, "clip_norm": 1e6}))[0]["losses"] == free["losses"], "losses")


def test_images_are_clipped_too():
    path = experiment(model=NETWORK, batch_size=4, micro_batches=2, world_size=2, steps={"warmup": 1, "timed": 2},
                      optimizer={"name": "sgd", "learning_rate": 0.01, "clip_norm": 0.5}, sweep=[{"paradigm": "ddp"}, {"paradigm": "fsdp"}])
    for record in train(path, "--verify"):
        check(record["verification"]["status"] == "passed" and min(record["gradient_norms"]) > 0.5, record["error"], record["gradient_norms"])


def test_a_dynamic_scale_skips_steps_together():
    path = experiment(model={**MODEL, "dtype": "fp16"}, optimizer={**ADAM, "learning_rate": 0.001}, sweep=DIVISIONS[:3], **DYNAMIC)
    for record in train(path, "--verify"):
        check(record["status"] == "ok" and record["verification"]["status"] == "passed", record["config"]["paradigm"], record["error"])
        check(record["loss_scales"] == SCALES and record["metrics"]["skipped_steps"] == 2, record["loss_scales"])
        check([norm is None for norm in record["gradient_norms"]] == [True, True, False, False, False, False], record["gradient_norms"])
        check(record["metrics"]["overflow_steps"] == 0, record["metrics"]["overflow_steps"])
    shown = run("show", os.path.join(WORK, "precision.jsonl"), "--columns", "loss_scales.last,gradient_norms.last", code=OK).stdout
    check("512" in shown, shown)


def test_verify_names_gradients_beyond_fp16():
    """Four ranks have each the mean of a quarter of the tokens, whose gradients are larger than those of all."""
    model = {**MODEL, "dtype": "fp16"}
    for scale in {"loss_scaling": 2**17}, {"loss_scaling": "dynamic", "dynamic_loss_scale": {"initial": 2**17}}:
        path = experiment(model=model, optimizer={"name": "sgd", "learning_rate": 1}, paradigm="ddp", batch_size=1, context={"size": 4},
                          steps={"warmup": 0, "timed": 4}, **scale)
        out = records_path("beyond.jsonl")
        run("run", path, "--verify", "--quiet", "-o", out, code=VERIFY)
        error = read_records(out)[0]["error"]
        check("gradients were not finite" in error and "a smaller loss_scaling" in error, error)


def test_a_dynamic_scale_gives_the_losses_of_a_static_one():
    """Losses agree from the first step that does not overflow."""
    half = {**MODEL, "dtype": "fp16"}
    plain = train(experiment(paradigm="ddp", model=half, loss_scaling=256))[0]["losses"]
    dynamic = {"loss_scaling": "dynamic", "dynamic_loss_scale": {"initial": 256, "window": 100}}
    check(train(experiment(paradigm="ddp", model=half, **dynamic))[0]["losses"] == plain, "losses")


def test_a_restart_goes_on_with_scale_and_skipped_steps():
    half, path = {**MODEL, "dtype": "fp16"}, os.path.join(WORK, "scaled")
    division = {"paradigm": "zero1", "model": half, **DYNAMIC}
    whole = train(experiment(**division))[0]
    for saved in 2, 4:
        shutil.rmtree(path, ignore_errors=True)
        train(experiment(steps={"warmup": 1, "timed": saved - 1}, checkpoint={"path": path}, **division))
        rest = train(experiment(**division), "--from", path)[0]
        for key in "losses", "loss_scales", "gradient_norms":
            check(rest[key] == whole[key][saved:], saved, key, rest[key], whole[key])


def test_master_weights_are_counted_and_saved_if_there_are_any():
    half, path, losses = {**MODEL, "dtype": "bf16"}, os.path.join(WORK, "masters"), {}
    for name, default in ("adam", True), ("sgd", False):
        for master in True, False:
            optimizer = {"name": name, "learning_rate": 0.01, "master_weights": master}
            plain = {"model": half, "optimizer": optimizer, "checkpoint": {"path": path + str(master)}}
            its = json.loads(run("check", experiment(paradigm="ddp", **plain), "--json", code=OK).stdout)[0]
            state = (8 if name == "adam" else 0) + 4 * master
            bytes_here = its["predicted_peak_bytes"]["optimizer"]
            check(state * its["parameters"] <= bytes_here <= state * its["parameters"] * 1.1, name, master, bytes_here)
            notes = " ".join(its["notes"])
            check(name == "sgd" or f"a parameter takes {4 + state} bytes" in notes, notes)
            check(its["checkpoint_bytes"] == (2 + state) * its["parameters"], its["checkpoint_bytes"])
            shutil.rmtree(path + str(master), ignore_errors=True)
            record = train(experiment(paradigm="zero1", world_size=2, **plain), *(["--verify"] if name == "adam" else []))[0]
            check(("master_weights" in record["config"]["optimizer"]) == (master != default), record["config"]["optimizer"])
            losses[name, master] = record["losses"]
        check(losses[name, True][:1] == losses[name, False][:1] and losses[name, True] != losses[name, False], losses)
        for master in True, False:  # each continues from the other's checkpoint
            optimizer = {"name": name, "learning_rate": 0.01, "master_weights": master}
            train(experiment(model=half, paradigm="fsdp", world_size=2, optimizer=optimizer, steps={"warmup": 1, "timed": 7}), "--from", path + str(not master))


def test_gradients_in_fp32_are_counted_and_add_up_alike():
    """Also where halves of backward passes, a tied head or the host make or keep them."""
    half = {**MODEL, "dtype": "bf16"}
    sweep = [{"paradigm": "fsdp", "optimizer": {**ADAM, "clip_norm": 0.25}}, {"paradigm": "parameter_server"},
             {"paradigm": "zero1", "pipeline": {"stages": 2, "order": "zb_h1", "chunks": 2}, "gradient_reduction": "each"},
             {"paradigm": "hsdp", "hsdp": {"shard_size": 2}, "tensor": {"size": 2}, "parameter_offload": True}]
    wide = experiment(model=half, batch_size=4, micro_batches=2, gradient_dtype="fp32", steps={"warmup": 1, "timed": 1}, sweep=sweep)
    checked = json.loads(run("check", wide, "--json", code=OK).stdout)
    narrow = json.loads(run("check", wide, "--set", "gradient_dtype=model", "--json", code=OK).stdout)
    for record, its, before in zip(train(wide, "--verify"), checked, narrow, strict=True):
        metrics, named = record["metrics"], record["config"]["paradigm"]
        check(record["verification"]["status"] == "passed", named, record["error"])
        check(metrics["peak_bytes"]["total"] == its["predicted_peak_bytes"]["total"], named, metrics["peak_bytes"], its)
        held, less = (one["predicted_peak_bytes"]["gradients"] + one["predicted_host_peak_bytes"]["gradients"] for one in (its, before))
        check(held > 2 * less, named, held, less)
        check(any("4 for its gradient" in note for note in its["notes"]), its["notes"])
    # Of smaller images the last norms see two values a channel, which magnifies the rounding of
    # gradients to a tenth of a loss.
    plain = {"model": {**NETWORK, "image_size": 64, "dtype": "bf16"}, "batch_size": 4, "micro_batches": 2, "world_size": 1, "steps": {"warmup": 1, "timed": 1},
             "optimizer": {"name": "sgd", "learning_rate": 0.01}}
    some, others = (train(experiment(gradient_dtype=dtype, **plain))[0]["losses"] for dtype in ("fp32", "model"))
    check(some[0] == others[0] and abs(some[1] / others[1] - 1) < 1e-2, some, others)


def test_sums_in_fp32_are_counted():
    """Two ranks' sums are rounded once in any case: so the losses are the same."""
    half = {**MODEL, "dtype": "bf16"}
    sweep = [{"paradigm": "ddp"}, {"paradigm": "zero2"}, {"paradigm": "fsdp"}, {"paradigm": "data_parallel"}]
    plain = {"world_size": 2, "model": half, "sweep": sweep}
    wide = experiment(reduce_dtype="fp32", **plain)
    checked = json.loads(run("check", wide, "--json", code=OK).stdout)
    records = train(wide)
    for record, narrow, its in zip(records, train(experiment(**plain)), checked, strict=True):
        metrics, named = record["metrics"], record["config"]["paradigm"]
        sums = ("all_reduce_bytes", "reduce_scatter_bytes", "reduce_bytes")
        check(record["losses"] == narrow["losses"], named, record["losses"], narrow["losses"])
        check(sum(metrics[key] for key in sums) == 2 * sum(narrow["metrics"][key] for key in sums) > 0, named, metrics)
        check(metrics["peak_bytes"]["total"] == its["predicted_peak_bytes"]["total"], named, metrics["peak_bytes"], its)
        check(metrics["peak_bytes"]["communication"] > narrow["metrics"]["peak_bytes"]["communication"], named, metrics["peak_bytes"])
    run("run", experiment(model=half, paradigm="hsdp", hsdp={"shard_size": 2}, reduce_dtype="fp32"), "--verify", "-o", records_path("wide.jsonl"), code=OK)
    said = run("check", experiment(paradigm="parameter_server", reduce_dtype="fp32"), code=CONFIG).stderr
    check("reduce_dtype: servers add gradients in model.dtype" in said, said)


def test_fp32_gradients_are_summed_in_16_bits():
    """Not one device's losses any more, but within the bound of a model of that type; half of the bytes; on sim the passes take their time."""
    hybrid = {"paradigm": "hsdp", "hsdp": {"shard_size": 2}}
    sweep = [*({"paradigm": name} for name in ("ddp", "zero1", "data_parallel")), hybrid, {"paradigm": "pdp", "pipeline": {"stages": 2}}]
    changes = {"sweep": sweep, "model": {**MODEL, "tied": False}}

    def summed(axes):
        return sum(count for axis in axes.values() for kind, count in axis.items() if "reduce" in kind)

    exact, checked = (json.loads(run("check", experiment(**changes, **more), "--json", code=OK).stdout) for more in ({}, {"reduce_dtype": "bf16"}))
    for record, full, its in zip(train(experiment(**changes, reduce_dtype="bf16"), "--verify"), exact, checked, strict=True):
        metrics, named, verified = record["metrics"], record["config"]["paradigm"], record["verification"]
        check(verified["status"] == "passed" and verified["largest_relative_difference"] > 1e-6, named, verified)
        check(2 * summed(its["comm_bytes_per_step"]) == summed(full["comm_bytes_per_step"]) > 0, named, its["comm_bytes_per_step"])
        sent = sum(metrics[key] for key in ("all_reduce_bytes", "reduce_scatter_bytes", "reduce_bytes"))
        check(sent == summed(its["comm_bytes_per_step"]), named, sent, its["comm_bytes_per_step"])
        check(metrics["peak_bytes"]["total"] == its["predicted_peak_bytes"]["total"], named, metrics["peak_bytes"], its)
    simulated = {"device": "sim", "paradigm": "ddp", "world_size": 8, "model": {"preset": "GPTSmall", "dtype": "fp32"}}
    slow = [{"network": {"gbit_per_s": 10}, "gpus_per_node": 1, "reduce_dtype": name} for name in ("model", "fp16")]
    plain, halved = (record["metrics"]["step_s"]["median"] for record in train(experiment(**simulated, sweep=slow)))
    check(0.5 * plain < halved < 0.9 * plain, plain, halved)
    for key, value, wanted in (("paradigm", "parameter_server", "servers add gradients in model.dtype"), ("model", {**MODEL, "dtype": "bf16"}, "fp16, and model.dtype is bf16")):
        said = run("check", experiment(reduce_dtype="fp16", **{key: value}), code=CONFIG).stderr
        check("reduce_dtype: " + wanted in said, said)


def test_predictions_count_the_norm():
    plain = {"device": "sim", "paradigm": "fsdp", "world_size": 8, "model": {"preset": "GPTSmall", "dtype": "bf16"}}
    free, clipped = (train(experiment(optimizer={**ADAM, **clip}, **plain))[0]["metrics"] for clip in ({}, {"clip_norm": 1}))
    check(clipped["all_reduce_bytes"] - free["all_reduce_bytes"] == 4, clipped["all_reduce_bytes"])
    check(1 < clipped["step_s"]["median"] / free["step_s"]["median"] < 1.1, free["step_s"]["median"], clipped["step_s"]["median"])


def test_what_is_wrong_is_said():
    for changes, expected in [
        ({"loss_scaling": 0}, 'loss_scaling: 0 is out of range; expected a number above 0 and up to 4294967296, or "dynamic"'),
        ({"loss_scaling": "auto"}, 'loss_scaling: "auto" is a string; expected a number above 0 and up to 4294967296, or "dynamic"'),
        ({"optimizer": {"clip_norm": -1}}, "optimizer.clip_norm: -1 is out of range; expected a number from 0 to"),
        ({"loss_scaling": "dynamic", "dynamic_loss_scale": {"backoff": 1}}, "dynamic_loss_scale.backoff: 1 is out of range"),
    ]:
        said = run("check", experiment(**changes), code=CONFIG).stderr
        check(expected in said and said.count("\n") == 1, said)


if __name__ == "__main__":
    sys.exit(main(globals()))
