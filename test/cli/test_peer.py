#!/usr/bin/python3
"""dtbench against PyTorch: the same small GPT, the same weights, tokens and dropout masks, the same losses.

Weights, tokens and masks are made here a second time, from the description in lib/base/random.h and gpt/layout.h; the model is
scripts/peers/pytorch_gpt.py's in double precision. On two ranks DDP and FSDP are held against scripts/peers/pytorch_parallel.py.
Usage: test_peer.py DTBENCH RANKS, the most that this dtbench can start on the cpu device; prints TAP.
"""
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "peers"))
sys.dont_write_bytecode = True

try:
    import numpy
    import torch
except ImportError:
    print("1..0 # SKIP PyTorch is missing (scripts/setup --with-torch)")
    sys.exit(0)

import pytorch_gpt
import pytorch_parallel

SEED = 20260117 + (3 << 32)  # both words of the key in use
LAYERS, HEADS, HIDDEN, VOCAB, BLOCK, BATCH = 3, 3, 48, 211, 20, 3
WARMUP, TIMED = 2, 4
RANKS = 2
WEIGHT, TOKEN, DROPOUT, ATTENTION = 1, 2, 3, 4  # purposes
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


class Dropout(torch.nn.Module):
    """Dropout with dtbench's own masks: 16 bits of Philox for each element, eight elements of a row from one block."""

    first_sample = 0  # global number of the batch's first sample; all of a model's dropouts share it

    def __init__(self, purpose, layer, probability):
        super().__init__()
        self.purpose, self.layer = purpose, layer
        self.threshold = int(probability * 65536 + 0.5)

    def forward(self, x):
        if self.purpose == ATTENTION:
            samples, heads, rows, columns = x.shape
        else:
            (samples, rows, columns), heads = x.shape, 1
        index = [i.astype(numpy.uint64) for i in numpy.indices((samples, heads, rows, (columns + 7) // 8)).reshape(4, -1)]
        counter = [
            (index[1] << numpy.uint64(20)) | index[3],
            index[2],
            index[0] + numpy.uint64(Dropout.first_sample),
            numpy.full_like(index[0], self.purpose << 24 | self.layer),
        ]
        block = philox(SEED, counter).T  # [.., 4 words]
        halves = numpy.stack([block & numpy.uint64(0xFFFF), block >> numpy.uint64(16)], axis=2)
        bits = halves.reshape(samples, heads, rows, -1)[..., :columns]
        mask = (bits >= self.threshold) * (65536.0 / (65536.0 - self.threshold))
        return x * torch.from_numpy(mask.reshape(tuple(x.shape)))


def make_model(dropout, one_product=False):
    """The model with dtbench's initial weights. Layers: embedding, three per block, final norm, head; ids as in gpt/layout.c."""
    model = pytorch_gpt.GPT(LAYERS, HEADS, HIDDEN, VOCAB, BLOCK, 0.0, one_product=one_product).double()
    if dropout:
        model.dropout = Dropout(DROPOUT, 0, dropout)
        for number, block in enumerate(model.blocks):
            block.attention.weights_dropout = Dropout(ATTENTION, 1 + 3 * number, dropout)
            block.attention.branch_dropout = Dropout(DROPOUT, 1 + 3 * number, dropout)
            block.dropout = Dropout(DROPOUT, 3 + 3 * number, dropout)
    pytorch_gpt.initialise(model)  # biases and gains; the matrices follow
    placed = {"tokens.weight": 0, "positions": 1, "head.weight": (3 * LAYERS + 2) * 16}
    for block in range(LAYERS):
        attention, up, down = ((1 + 3 * block + i) * 16 for i in range(3))
        prefix = f"blocks.{block}."
        for part, name in enumerate(["qkv"] if one_product else ["q", "k", "v"]):
            placed[f"{prefix}attention.{name}.weight"] = attention + 2 + part
        placed[prefix + "attention.projection.weight"] = attention + 8
        placed[prefix + "up.weight"] = up + 2
        placed[prefix + "down.weight"] = down
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                first, parts = placed.pop(name), 3 if "qkv" in name else 1
                shape = (parameter.shape[0] // parts, *parameter.shape[1:])
                parameter.copy_(torch.cat([normal(first + part, shape) for part in range(parts)]))
    assert not placed
    return model


def peer_losses(case):
    torch.set_num_threads(1)
    model = make_model(case["dropout"], case.get("one_product", False))
    o = case["optimizer"]
    common = {"lr": o["learning_rate"], "weight_decay": o.get("weight_decay", 0)}
    if o["name"] == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), momentum=o.get("momentum", 0), **common)
    else:
        kind = torch.optim.AdamW if o["name"] == "adamw" else torch.optim.Adam
        optimizer = kind(model.parameters(), betas=(o["beta1"], o["beta2"]), eps=o["epsilon"], **common)
    losses = []
    for step in range(WARMUP + TIMED):
        Dropout.first_sample = step * BATCH
        samples = torch.tensor([tokens(step * BATCH + i) for i in range(BATCH)])
        losses.append(pytorch_gpt.train_step(model, optimizer, samples[:, :-1], samples[:, 1:].contiguous()).item())
    return losses


def peer_rank(rank, case, folder):
    """One rank of a PyTorch in parallel; rank 0 leaves the losses, means over the ranks, in a file."""
    dist = torch.distributed
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=RANKS)
    model = pytorch_parallel.parallel(make_model(case["dropout"]), case["mode"], "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=case["optimizer"]["learning_rate"])
    losses = []
    for step in range(WARMUP + TIMED):
        first = Dropout.first_sample = (step * RANKS + rank) * BATCH
        samples = torch.tensor([tokens(first + i) for i in range(BATCH)])
        loss = pytorch_gpt.train_step(model, optimizer, samples[:, :-1], samples[:, 1:].contiguous())
        losses.append(pytorch_parallel.of_all(loss.item(), "cpu", dist.ReduceOp.SUM) / RANKS)
    if rank == 0:
        with open(os.path.join(folder, "losses.json"), "w", encoding="utf-8") as file:
            json.dump(losses, file)
    dist.destroy_process_group()


def parallel_peer_losses(case):
    context = multiprocessing.get_context("fork")  # without importing PyTorch again; possible before this process has had a backward pass
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=peer_rank, args=(rank, case, folder)) for rank in range(RANKS)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(120)
            if rank.is_alive():
                rank.kill()
                rank.join()
        if any(rank.exitcode for rank in ranks):
            raise RuntimeError(f"PyTorch's ranks: exit statuses {[rank.exitcode for rank in ranks]}")
        with open(os.path.join(folder, "losses.json"), encoding="utf-8") as file:
            return json.load(file)


def dtbench_losses(program, folder, case):
    config = {
        "name": "peer", "device": "cpu", "world_size": case["ranks"], "paradigm": case["paradigm"], "batch_size": BATCH, "seed": SEED, "threads": 1,
        "model": {"layers": LAYERS, "heads": HEADS, "hidden": HIDDEN, "vocab_size": VOCAB, "block_size": BLOCK, "dtype": "fp32",
                  "dropout": case["dropout"], "attention": case["attention"]},
        "optimizer": case["optimizer"], "steps": {"warmup": WARMUP, "timed": TIMED},
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


def why_not(case, most_ranks):
    """What a case needs and this machine lacks; None: nothing."""
    if case["ranks"] > most_ranks:
        return "dtbench has no MPI"
    if case.get("mode") == "fsdp2" and not pytorch_parallel.fully_shard:
        return "FSDP2 needs PyTorch 2.6"
    if case["ranks"] > 1 and not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        return "this PyTorch has no gloo"
    return None


def main():
    program = sys.argv[1]
    sgd = {"name": "sgd", "learning_rate": 0.5}
    adam = {"name": "adam", "learning_rate": 0.003, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8}
    alone = {"paradigm": "none", "ranks": 1}
    cases = [
        {"paradigm": paradigm, "mode": mode, "ranks": RANKS, "optimizer": sgd, "dropout": 0.15, "attention": "fused"}
        for paradigm, mode in (("ddp", "ddp"), ("fsdp", "fsdp2"))
    ] + [
        {**alone, "optimizer": optimizer, "dropout": dropout, "attention": attention}
        for optimizer, dropout in ((sgd, 0), (adam, 0), (sgd, 0.15))
        for attention in ("fused", "unfused")
    ] + [{**alone, "optimizer": sgd, "dropout": 0, "attention": "fused", "one_product": True}] + [
        {**alone, "optimizer": optimizer, "dropout": 0, "attention": "fused"}
        for optimizer in ({**sgd, "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01}, {**adam, "name": "adamw", "weight_decay": 0.1})
    ]
    failed = False
    print(f"1..{len(cases)}")
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases, 1):
            name = (f"losses as PyTorch's: {case['paradigm']}, {case['optimizer']['name']}, {case['attention']} attention, "
                    f"dropout {case['dropout']}{', one product for q, k and v' if 'one_product' in case else ''}")
            missing = why_not(case, int(sys.argv[2]))
            if missing:
                print(f"ok {number} - {name} # SKIP {missing}")
                continue
            problem = None
            try:
                theirs = peer_losses(case) if case["ranks"] == 1 else parallel_peer_losses(case)
                ours = dtbench_losses(program, folder, case)
                worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
                if len(ours) != len(theirs) or not worst <= 1e-5:
                    problem = f"losses {ours} instead of {theirs}"
            except (RuntimeError, OSError, ValueError, TypeError, KeyError, subprocess.TimeoutExpired) as error:
                problem = str(error)
            if problem:
                print("# " + problem.replace("\n", "\n# "))
                failed = True
            print(f"{'not ok' if problem else 'ok'} {number} - {name}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
