#!/usr/bin/python3
"""dtbench against PyTorch: the same small GPT, the same weights and tokens, the same losses.

Weights and tokens are made here a second time, from the description in lib/random.h and gpt/layout.h; the model is
scripts/peers/pytorch_gpt.py's in double precision with its dropout off. Usage: test_peer.py DTBENCH; prints TAP.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts", "peers"))
sys.dont_write_bytecode = True

try:
    import numpy
    import torch
except ImportError:
    print("1..0 # SKIP PyTorch is missing (scripts/setup --with-torch)")
    sys.exit(0)

import pytorch_gpt

SEED = 20260117 + (3 << 32)  # both words of the key in use
LAYERS, HEADS, HIDDEN, VOCAB, BLOCK, BATCH = 3, 3, 48, 211, 20, 3
WARMUP, TIMED = 2, 4
WEIGHT, TOKEN = 1, 2  # purposes
LOW = numpy.uint64(0xFFFFFFFF)


def philox(key, counter):
    """Philox4x32-10 on arrays: counter [4][n] of uint64 below 2^32 gives words [4][n]."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c0, c1, c2, c3 = (numpy.asarray(c, dtype=numpy.uint64) for c in counter)
    for _ in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * c0, numpy.uint64(0xCD9E8D57) * c2
        c0, c2 = (p1 >> numpy.uint64(32)) ^ c1 ^ numpy.uint64(k0), (p0 >> numpy.uint64(32)) ^ c3 ^ numpy.uint64(k1)
        c1, c3 = p1 & LOW, p0 & LOW
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack([c0, c1, c2, c3])


def words(purpose, c2, count):
    """`count` consecutive 32-bit words of the stream (purpose, c2)."""
    blocks = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    counter = [blocks & LOW, blocks >> numpy.uint64(32), numpy.full_like(blocks, c2), numpy.full_like(blocks, purpose << 24)]
    return philox(SEED, counter).T.reshape(-1)[:count]


def normal(tensor_id, shape):
    count = int(numpy.prod(shape))
    uniform = (words(WEIGHT, tensor_id, (count + 3) // 4 * 4).astype(numpy.float64) + 1) / 2.0**32
    radius = numpy.sqrt(-2 * numpy.log(uniform[0::2]))
    angle = 2 * numpy.pi * uniform[1::2]
    deviates = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], axis=1).reshape(-1)[:count]
    return torch.from_numpy(0.02 * deviates.reshape(shape))


def tokens(sample):
    return [int(word) * VOCAB >> 32 for word in words(TOKEN, sample, BLOCK + 1)]


def make_model():
    """The model with dtbench's initial weights. Layers: embedding, three per block, final norm, head; ids as in gpt/layout.c."""
    model = pytorch_gpt.GPT(LAYERS, HEADS, HIDDEN, VOCAB, BLOCK, 0.0).double()
    pytorch_gpt.initialise(model)  # biases and gains; the matrices follow
    placed = {"tokens.weight": 0, "positions": 1, "head.weight": (3 * LAYERS + 2) * 16}
    for block in range(LAYERS):
        attention, up, down = ((1 + 3 * block + i) * 16 for i in range(3))
        prefix = f"blocks.{block}."
        placed[prefix + "attention.q.weight"] = attention + 2
        placed[prefix + "attention.k.weight"] = attention + 3
        placed[prefix + "attention.v.weight"] = attention + 4
        placed[prefix + "attention.projection.weight"] = attention + 8
        placed[prefix + "up.weight"] = up + 2
        placed[prefix + "down.weight"] = down
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.copy_(normal(placed.pop(name), tuple(parameter.shape)))
    assert not placed
    return model


def peer_losses(optimizer_name, options):
    torch.set_num_threads(1)
    model = make_model()
    if optimizer_name == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=options["learning_rate"])
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=options["learning_rate"], betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(WARMUP + TIMED):
        samples = torch.tensor([tokens(step * BATCH + i) for i in range(BATCH)])
        losses.append(pytorch_gpt.train_step(model, optimizer, samples[:, :-1], samples[:, 1:].contiguous()))
    return losses


def dtbench_losses(program, folder, attention, optimizer_name, options):
    config = {
        "name": "peer", "device": "cpu", "world_size": 1, "paradigm": "none", "batch_size": BATCH, "seed": SEED, "threads": 1,
        "model": {"layers": LAYERS, "heads": HEADS, "hidden": HIDDEN, "vocab_size": VOCAB, "block_size": BLOCK, "dtype": "fp32",
                  "dropout": 0, "attention": attention},
        "optimizer": dict(options, name=optimizer_name), "steps": {"warmup": WARMUP, "timed": TIMED},
    }
    path, records = os.path.join(folder, "peer.json"), os.path.join(folder, "peer.jsonl")
    if os.path.exists(records):
        os.remove(records)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    run = subprocess.run([program, "run", path, "--output", records, "--quiet"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=120, check=False, text=True)
    if run.returncode:
        raise RuntimeError(f"dtbench run: exit status {run.returncode}: {run.stdout.strip()}")
    with open(records, encoding="utf-8") as file:
        return json.loads(file.readlines()[-1])["losses"]


def main():
    program = sys.argv[1]
    sgd = {"learning_rate": 0.5}
    adam = {"learning_rate": 0.003, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8}
    cases = [("fused", "sgd", sgd), ("unfused", "sgd", sgd), ("fused", "adam", adam), ("unfused", "adam", adam)]
    expected = {name: peer_losses(name, options) for name, options in (("sgd", sgd), ("adam", adam))}
    failed = False
    print(f"1..{len(cases)}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (attention, optimizer_name, options) in enumerate(cases, 1):
            problem = None
            theirs = expected[optimizer_name]
            try:
                ours = dtbench_losses(program, folder, attention, optimizer_name, options)
                worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
                if len(ours) != len(theirs) or not worst <= 1e-5:
                    problem = f"losses {ours} instead of {theirs}"
            except (RuntimeError, OSError, ValueError, TypeError, KeyError, subprocess.TimeoutExpired) as error:
                problem = str(error)
            if problem:
                print("# " + problem.replace("\n", "\n# "))
                failed = True
            print(f"{'not ok' if problem else 'ok'} {number} - {attention} attention, {optimizer_name}: {len(theirs)} losses as PyTorch's")
    sys.exit(failed)


if __name__ == "__main__":
    main()
