#!/usr/bin/python3
"""Losses of random small experiments against an independent reference: the documented models in double precision (reference_model.py).

40 configs, others every day: all paradigms, orders of pipelines, ways of saving memory, tensor and context sizes, kinds of layers and optimizers, on 1
to 8 ranks. All of one number of ranks are one sweep, which one mpirun starts. DTBENCH_LOSSES=SEED:COUNT draws others, or more. A failure
prints each wrong config; `dtbench run` takes it as it is, and reference_model.py prints what its losses should be.
Usage: test_losses.py DTBENCH [CASE...]; prints TAP.
"""
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # products of a few rows: more threads would only wait for each other

try:
    import numpy
except ImportError:
    print("1..0 # SKIP numpy is missing (scripts/setup --tests)")
    sys.exit(0)

import reference_model
from command import DTBENCH, ENVIRONMENT, MPIRUN, WORK, check, main, read_records

SEED, COUNT = (int(number) for number in os.environ.get("DTBENCH_LOSSES", f"{int(time.time()) // 86400}:40").split(":"))
RANKS = {1: 30, 2: 50, 3: 15, 4: 50, 8: 5}  # of 150
STEPS = 4
STEP = 1e-5  # of parameters, for slopes
# The reference trains again with random errors as large as fp32's, DRAWS times: one alone may
# happen to change the losses little where others change them much. What they change, rounding may
# change. MARGIN times as much is allowed, and TOLERANCE at most, relative to a loss.
NOISE, DRAWS, MARGIN, TOLERANCE = 1e-7, 3, 100, 1e-4
MOST_GROWN = 3  # a loss, from the first step on

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs/schema/config.schema.json"), encoding="utf-8") as schema:
    KEYS = json.load(schema)["$defs"]


# ---- drawing a config ----


def values(key):
    """All values of a key; of orders those with a name."""
    return next(kind["enum"] for kind in KEYS[key].get("anyOf", [KEYS[key]]) if "enum" in kind)


def divisors(number):
    return [i for i in range(1, number + 1) if number % i == 0]


def draw_mesh(r, ranks, paradigm):
    """Sizes of the axes tensor, pipeline and data."""
    meshes = [(t, s, ranks // t // s) for t in divisors(ranks) for s in divisors(ranks // t)]
    if paradigm in ("data_parallel", "parameter_server"):
        meshes = [mesh for mesh in meshes if mesh[1] == 1]
    if paradigm == "none":
        meshes = [mesh for mesh in meshes if mesh[2] == 1]
    if paradigm == "pdp" and ranks > 1:
        meshes = [mesh for mesh in meshes if mesh[1] > 1]
    return r.choice(meshes)


def draw_pipeline(r, stages, samples, micro_batches):
    """The object `pipeline`, and the parts of the model that each rank has."""
    order = r.choice(values("pipeline.order"))
    parts = {"interleaved": r.choice([1, 2, 2, 3]), "zb_v": 2}.get(order, 1)
    pipeline = {"stages": stages, "order": order, "chunks": r.randint(1, min(6, samples // micro_batches)), "paradigms": "all",
                "virtual_stages": parts, "memory_limit": r.choice([0, stages, 2 * stages]) if order == "zb_auto" else 0}
    if stages > 1 and parts > 1 and r.random() < 0.5:
        pipeline["activation"] = [r.choice(values("activation")) for _ in range(parts)]
    return pipeline, parts


def draw_split(r, blocks, virtual_stages):
    if virtual_stages - 1 > blocks + 1 or r.random() < 0.7:
        return r.choice(["balanced", "parameters"])
    return sorted(r.sample(range(blocks + 1), virtual_stages - 1))


def draw_context(r, data, paradigm):
    """How many of the data ranks share each sample, and how they exchange keys."""
    if paradigm in ("none", "data_parallel", "parameter_server"):
        return {"size": 1}
    return {"size": r.choice([1] + divisors(data)), "comm_type": r.choice(values("context.comm_type"))}


def draw_model(r, tensor, virtual_stages, sequence_parallel, context):
    contexts, exchanging = context["size"], context["size"] if context.get("comm_type") == "a2a" else 1
    heads = tensor * exchanging * r.choice([1, 1, 2, 3])
    position = r.choice(values("model.position"))
    width = r.choice([w for w in (2, 4, 6, 8, 16, 24) if 8 <= w * heads <= 72])
    rows, pieces = r.randint(2, 17), (tensor if sequence_parallel else 1) * (2 * contexts if contexts > 1 else 1)
    model = {
        "layers": max(r.randint(1, 4), virtual_stages - 3), "heads": heads,
        "hidden": heads * (width + (position != "rope" and r.random() < 0.2)),  # an odd number, too
        "vocab_size": r.choice([r.randint(10, 40), r.randint(100, 300)]),
        "block_size": -(-max(rows, tensor) // pieces) * pieces,
        "dtype": "fp32", "dropout": r.choice([0, 0, 0.1, 0.3]), "ffn": r.choice([0, tensor * r.randint(3, 20)]), "position": position,
        "kv_heads": r.choice([k for k in divisors(heads) if k % (tensor * exchanging) == 0 or exchanging == 1 and tensor % k == 0]),
        "norm_epsilon": r.choice([1e-5, 1e-5, 1e-6, 1e-3]), "tied": r.random() < 0.5, "qk_norm": r.random() < 0.3,
    }
    model["position_rows"] = r.choice([0, model["block_size"] + r.randint(1, 5)])
    for key in ("attention", "attention_dropout", "mlp", "norm"):
        model[key] = r.choice(values("model." + key))
    if contexts > 1:
        model["attention"] = "fused"
    model["bias"] = r.choice(["all", "qkv", "none"])
    if position == "rope" and r.random() < 0.5:
        model["rope"] = {"base": r.choice([100, 500000]), "scaling": r.choice(values("model.rope.scaling")), "factor": 4,
                         "low_frequency_factor": 0.5, "high_frequency_factor": 3, "original_length": r.choice([8, 32])}
    return model


def draw_optimizer(r, loss):
    common = {"clip_norm": 10 ** r.uniform(-1, 1) if r.random() < 0.5 else 0, "master_weights": r.random() < 0.5}
    if r.random() < 0.5:
        return common | {"name": "sgd", "learning_rate": 10 ** r.uniform(-0.5, 1) * (1e-3 if loss == "sum" else 1)}
    return common | {"name": "adam", "learning_rate": 10 ** r.uniform(-2.3, -0.9), "beta1": r.choice([0.9, 0.5]), "beta2": r.choice([0.999, 0.95]),
            "epsilon": r.choice([1e-6, 1e-5, 1e-4, 1e-3])}


def draw(seed, number, ranks):
    """A valid config; it depends on none of the others."""
    r = random.Random(f"{seed}:{number}")
    paradigm = values("paradigm")[number % len(values("paradigm"))]
    tensor, stages, data = draw_mesh(r, ranks, paradigm)
    loss = "sum" if r.random() < 0.05 else "cross_entropy"
    batch_size, sequence_parallel = r.randint(1, 4), r.random() < 0.5
    context = draw_context(r, data, paradigm)
    micro_batches = r.randint(1, min(3, tensor * batch_size))
    config = {
        "name": f"config {number}", "device": "cpu", "threads": 1, "world_size": ranks, "paradigm": paradigm, "batch_size": batch_size,
        "micro_batches": micro_batches, "gradient_reduction": r.choice(values("gradient_reduction")),
        "mesh": {"order": r.choice(values("mesh.order"))}, "tensor": {"size": tensor, "sequence_parallel": sequence_parallel},
        "context": context,
        "activation": r.choice(values("activation")), "activation_blocks": r.choice([1, 1, 2]), "parameter_offload": r.random() < 0.3,
        "optimizer": draw_optimizer(r, loss), "loss": loss, "seed": r.randrange(2**53),
        "steps": {"warmup": 1, "timed": STEPS - 1}, "timeout": {"init_s": 60, "step_s": 60},
        "fsdp": {"unit": r.choice(["block", "linear"]), "gather": r.choice(values("fsdp.gather")), "prefetch": r.choice([0, 1, 1, 3])},
        "hsdp": {"shard_size": r.choice([0] + [size for size in divisors(data) if size % context["size"] == 0])}, "ddp": {"bucket_mib": r.choice([25, 0.01, 0.001]), "overlap": r.random() < 0.7, "overlap_param_gather": random.Random(f"{seed}:{number}:gathers").random() < 0.5},
        "parameter_server": {"servers": r.randint(1, data), "receives": r.choice([1, 1, 2, 9])},
    }
    parts = 1
    if stages > 1 or paradigm == "pdp":
        config["pipeline"], parts = draw_pipeline(r, stages, stages * tensor * batch_size, micro_batches)
    config["model"] = draw_model(r, tensor, stages * parts, sequence_parallel, context)
    if stages > 1:
        config["pipeline"]["split"] = draw_split(r, config["model"]["layers"], stages * parts)
    config["loss_scaling"] = r.choice([1, 1, 1024, "dynamic"])
    if "selective_op" in [config["activation"], *config.get("pipeline", {}).get("activation", [])]:
        config["fsdp"]["unit"] = "block"  # products of one layer are made again for another one
    return config


def drawn(ranks):
    """Those of the COUNT configs with this number of ranks."""
    sizes = [size for size, weight in RANKS.items() for _ in range(weight)]
    return [draw(SEED, number, ranks) for number in range(COUNT) if random.Random(f"{SEED}:{number}:ranks").choice(sizes) == ranks]


# ---- comparing ----


def distance(losses, wanted):
    """The largest difference of a step, relative to the magnitude of the loss's terms."""
    if not losses or len(losses) != len(wanted) or None in losses:
        return math.inf
    differences = [abs(loss - right) / size for loss, (right, size) in zip(losses, wanted)]
    return max(differences) if all(map(math.isfinite, differences)) else math.inf


def allowed_distance(config, wanted):
    """The allowed difference between dtbench's losses and these of the reference."""
    largest = math.inf if max(size for _, size in wanted) > MOST_GROWN * wanted[0][1] else 0.0
    for draw in range(DRAWS):
        if MARGIN * largest <= TOLERANCE:
            largest = max(largest, distance([loss for loss, _ in reference_model.train(config, NOISE, draw)], wanted))
    return MARGIN * (NOISE + largest)


def expected(config):
    """The reference's losses, and how far from them dtbench's may be. The config's learning rate is lowered until that is near enough.

    Large rates make the small initial weights grow, so that each gradient counts in the next losses. Too large ones make of each rounding
    another training.
    """
    optimizer = config["optimizer"]
    while True:
        optimizer["learning_rate"] = float(f"{optimizer['learning_rate']:.3g}")
        with numpy.errstate(all="ignore"):  # losses beyond all bounds
            wanted = reference_model.train(config)
            allowed = allowed_distance(config, wanted)
        if allowed <= TOLERANCE or optimizer["learning_rate"] < 1e-6:
            return wanted, min(allowed, TOLERANCE)
        optimizer["learning_rate"] /= 2


def dtbench_records(configs, ranks):
    """{name: record} of configs with a record, and the output of dtbench. Memory is full of NaN until something is written there."""
    path, records = (os.path.join(WORK, f"{ranks}-ranks.{kind}") for kind in ("json", "jsonl"))
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"sweep": configs}, file)
    run = subprocess.run([*MPIRUN, str(ranks), DTBENCH, "run", path, "--output", records, "--quiet"], cwd=WORK, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 + 2 * len(configs), check=False,
                         env={**ENVIRONMENT, "DTBENCH_POISON": "1"})
    check(os.path.exists(records), f"exit code {run.returncode}\n{run.stdout}")
    return {record["config"]["name"]: record for record in read_records(records)}, run.stdout


def compare(record, wanted, allowed):
    """The difference of the record's losses, as a fraction of the allowed one, and the error."""
    found = distance(record["losses"], wanted)
    right, why = [float(loss) for loss, _ in wanted], record["error"] or "wrong losses"
    return found / allowed, f"{why}: off by {found:.2g}, allowed are {allowed:.2g}: {record['losses']} instead of {right}"


def check_losses(ranks):
    configs = drawn(ranks)
    if not configs:
        return
    references = [expected(config) for config in configs]
    records, output = dtbench_records(configs, ranks)
    shares, wrong = [], []
    for config, reference in zip(configs, references):
        if config["name"] not in records:
            wrong.append(f"{json.dumps(config)}\n  has no record, and those after it may have none: {output[-2000:]}")
            break
        share, text = compare(records[config["name"]], *reference)
        shares.append(share)
        if not share <= 1:
            wrong.append(f"{json.dumps(config)}\n  {text}")
    if shares:
        print(f"# DTBENCH_LOSSES={SEED}:{COUNT}, {len(configs)} configs on {ranks} ranks; share of the allowed difference: median "
              f"{statistics.median(shares):.1g}, largest {max(shares):.2g}", flush=True)
    check(not wrong, f"{len(wrong)} wrong with DTBENCH_LOSSES={SEED}:{COUNT}\n" + "\n".join(wrong))


# ---- cases ----


def test_the_reference_knows_each_key_of_a_model():
    known = {"model." + key for key in reference_model.DEFAULTS if key != "rope"}
    known |= {"model.rope." + key for key in reference_model.ROPE_DEFAULTS}
    keys = {key for key in KEYS if key.startswith("model.") and "properties" not in KEYS[key]} - {"model.preset", "model.from"}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vision/keys.c"), encoding="utf-8") as other_family:
        keys -= set(re.findall(r'"(model\.[a-z0-9_.]+)"', other_family.read()))
    check(keys == known, "reference_model.py and the schema differ in", keys ^ known)


def test_the_references_gradients_are_its_losses_slopes():
    for number in range(6):
        config = draw(SEED, number, 1)
        m, r = reference_model.Model(config), numpy.random.default_rng(SEED)
        for p in m.all_parameters():
            p.value = p.value + 0.1 * r.standard_normal(p.value.shape)
        reference_model.forward_backward(m, range(3))
        for p, gradient in [(p, p.grad) for p in m.all_parameters()]:
            begin, direction, ends = p.value, r.standard_normal(p.value.shape), []
            direction /= numpy.linalg.norm(direction)
            for side in (STEP, -STEP):
                p.value = begin + side * direction
                ends.append(reference_model.forward_backward(m, range(3))[0])
            p.value = begin
            slope, product = (ends[0] - ends[1]) / (2 * STEP), (gradient * direction).sum()
            check(abs(slope - product) <= 1e-4 * numpy.linalg.norm(gradient) + 1e-7, slope, "is not", product, json.dumps(config))


def test_losses_on_1_rank():
    check_losses(1)


def test_losses_on_2_ranks():
    check_losses(2)


def test_losses_on_3_ranks():
    check_losses(3)


def test_losses_on_4_ranks():
    check_losses(4)


def test_losses_on_8_ranks():
    check_losses(8)


if __name__ == "__main__":
    sys.exit(main(globals()))
