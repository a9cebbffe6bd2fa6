#!/usr/bin/python3
"""Today's decoders against PyTorch: from the same weights and tokens the same losses and the same gradient of every tensor, for five steps.

peer_steps trains with dtbench's stage and kernels and writes weights, tokens, losses and gradients; scripts/peers/pytorch_decoder.py does
the same in double precision. fp32 must agree to 1e-5 of each tensor's gradient; bf16 must not lie farther from double precision than twice
what PyTorch's own bf16 does. Usage: test_peer_decoder.py PEER_STEPS [DEVICE [CASE...]]; prints TAP.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "peers"))
sys.dont_write_bytecode = True

try:
    import torch
except ImportError:
    print("1..0 # SKIP PyTorch is missing (scripts/setup --with-torch)")
    sys.exit(0)

import pytorch_decoder

STEPS, BATCH, LEARNING_RATE = 5, 2, 0.1
SIZES = {"layers": 2, "heads": 6, "hidden": 72, "vocab_size": 211, "block_size": 20}
SCALED = {"base": 500000.0, "scaling": "llama3", "factor": 8.0, "low_frequency_factor": 1.0, "high_frequency_factor": 4.0, "original_length": 16}
LLAMA = {**SIZES, "mlp": "swiglu", "ffn": 200, "norm": "rms", "position": "rope", "kv_heads": 2, "bias": "none"}
CASES = {
    "GPT": SIZES,
    "Llama, fused": LLAMA,
    "Llama, unfused, scaled rope, tied": {**LLAMA, "attention": "unfused", "rope": SCALED, "tied": True},
    "MPT": {**SIZES, "position": "alibi", "bias": "none", "tied": True},
    "MPT, unfused, one kv head": {**SIZES, "position": "alibi", "bias": "none", "kv_heads": 1, "attention": "unfused"},
    "Qwen: bias of q, k and v": {**LLAMA, "bias": "qkv", "norm_epsilon": 1e-6},
    "Qwen 3: norms of heads": {**LLAMA, "qk_norm": True, "kv_heads": 3},
    "SwiGLU with biases and layer norm": {**SIZES, "mlp": "swiglu", "ffn": 100},
}


def dtbench_steps(program, device, folder, model, dtype):
    """(header, parameters, [gradients]) in dtbench's order of elements."""
    config = {"device": device, "world_size": 1, "paradigm": "none", "batch_size": BATCH, "seed": 20260117 + (3 << 32),
              "model": {**model, "dtype": dtype, "dropout": 0}, "optimizer": {"name": "sgd", "learning_rate": LEARNING_RATE}}
    path, out = os.path.join(folder, "peer.json"), os.path.join(folder, "peer.out")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    run = subprocess.run([program, path, str(STEPS), out], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         timeout=120, check=False, text=True)
    if run.returncode:
        raise RuntimeError(f"exit status {run.returncode}: {run.stdout.strip()}")
    with open(out, "rb") as file:
        header = json.loads(file.readline())
        numbers = torch.frombuffer(bytearray(file.read()), dtype=torch.float32).double()
    count = sum(t["count"] for t in header["tensors"])
    return header, numbers[:count], list(numbers[count:].view(STEPS, count))


def peer_name(tensor):
    """A tensor's name in pytorch_decoder.py."""
    norms = {"norm.gain": "weight", "norm.bias": "bias"}
    name = tensor["name"]
    if tensor["layer"] == "embedding":
        return {"token.weight": "tokens.weight", "position.weight": "positions"}[name]
    if tensor["layer"] == "final_norm":
        return "norm." + norms[name]
    if tensor["layer"] == "head":
        return "head.weight"
    block = f"blocks.{tensor['block']}."
    if tensor["layer"] == "attention":
        return block + ("norm1." + norms[name] if name in norms else "attention." + name.replace("gain", "weight"))
    if tensor["layer"] == "mlp_up":
        if name in norms:
            return block + "norm2." + norms[name]
        return block + (name if name.startswith("gate.") else "up." + name)
    return block + "down." + name


def peer_steps(model, header, start, dtype):
    """(losses, [{name: gradient}]) of PyTorch's training in `dtype`, from the parameters `start`."""
    fused = pytorch_decoder.HAS_GROUPED_ATTENTION and model.get("attention") != "unfused"
    peer = pytorch_decoder.Decoder(model, fused).double()
    parameters, left = dict(peer.named_parameters()), start
    with torch.no_grad():
        for tensor in header["tensors"]:
            parameter = parameters[peer_name(tensor)]
            parameter.copy_(left[: tensor["count"]].view(parameter.shape))
            left = left[tensor["count"] :]
    peer.to(pytorch_decoder.DTYPES[dtype])
    optimizer = torch.optim.SGD(peer.parameters(), lr=LEARNING_RATE)
    losses, gradients = [], []
    for step in header["steps"]:
        tokens, targets = (torch.tensor(step[key]).view(BATCH, -1) for key in ("tokens", "targets"))
        optimizer.zero_grad()
        loss = peer(tokens, targets)
        loss.backward()
        losses.append(loss.item())
        gradients.append({name: p.grad.detach().double().clone().view(-1) for name, p in peer.named_parameters()})
        optimizer.step()
    return losses, gradients


def distance(got, want, largest):
    """Relative to the tensor's size; to that of the step's largest gradient where it is zero but for rounding (k's bias without rope)."""
    size = want.norm().item()
    return (got - want).norm().item() / (size if size > 1e-9 * largest else largest)


def problems_of(program, device, folder, model, dtype):
    header, start, ours = dtbench_steps(program, device, folder, model, dtype)
    if {peer_name(t) for t in header["tensors"]} != set(dict(pytorch_decoder.Decoder(model).named_parameters())):
        return [f"tensors {[peer_name(t) for t in header['tensors']]}"]
    losses, exact = peer_steps(model, header, start, "fp64")
    other_losses, other = peer_steps(model, header, start, dtype) if dtype != "fp32" else (None, None)
    problems = []
    for step, wanted in enumerate(losses):
        allowed = 1e-5 if other is None else 2 * abs(other_losses[step] - wanted) / wanted + 2**-8
        got, left = header["steps"][step]["loss"], ours[step]
        largest = max(g.norm().item() for g in exact[step].values())
        if not abs(got - wanted) <= allowed * wanted:
            problems.append(f"step {step}: loss {got} instead of {wanted}")
        for tensor in header["tensors"]:
            name, mine = peer_name(tensor), left[: tensor["count"]]
            left = left[tensor["count"] :]
            error = distance(mine, exact[step][name], largest)
            allowed = 1e-5 if other is None else 2 * distance(other[step][name], exact[step][name], largest) + 2**-8
            if not error <= allowed:
                problems.append(f"step {step}: {name}: the gradient is off by {error:.2g}, more than {allowed:.2g}")
    return problems


def main():
    program, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu"
    cases = sys.argv[3:] or list(CASES)
    torch.set_num_threads(1)
    failed = False
    print(f"1..{2 * len(cases)}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (dtype, title) in enumerate(((d, t) for t in cases for d in ("fp32", "bf16")), 1):
            try:
                problems = problems_of(program, device, folder, CASES[title], dtype)
            except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                problems = [f"{type(error).__name__}: {error}"]
            for problem in problems[:10]:
                print("# " + problem.replace("\n", "\n# "))
            failed = failed or bool(problems)
            print(f"{'not ok' if problems else 'ok'} {number} - losses and gradients as PyTorch's, {STEPS} steps: {title}, {dtype}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
