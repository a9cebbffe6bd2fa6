#!/usr/bin/python3 -s
"""Today's decoders in PyTorch, on the CPU or a GPU: Llama, Mistral, Qwen, MPT and what lies between, from the same keys as a config's model.

Pre-norm blocks of attention and MLP without dropout; layer or rms norm, GELU or SwiGLU, learned, rotary or ALiBi positions, grouped
queries, a norm of each head of q and k, biases everywhere, of q, k and v alone, or nowhere, a head that may share the embedding's table.
PyTorch's own modules where it has them: RMSNorm (from 2.4), fused attention with grouped queries (from 2.5); otherwise written out.

As a program it trains a Llama-shaped model of 160 million parameters, or the one that --model describes, on random tokens and prints one JSON
line, as pytorch_gpt.py does.
test/cli/test_peer_decoder.py imports the model and gives it dtbench's own weights and tokens.
"""
import argparse
import functools
import json
import math
import os
import resource
import sys
import time

STARTED = time.monotonic()

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("pytorch_decoder: PyTorch is missing: install python3-torch (scripts/setup --with-torch)")
from pytorch_gpt import timed

F = nn.functional
HAS_GROUPED_ATTENTION = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 5)  # fused, with enable_gqa
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
# The model of configs/llama.json; what it says of dtbench's own arithmetic is left out.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "configs/llama.json"), encoding="utf-8") as config:
    LLAMA_160M = {key: value for key, value in json.load(config)["model"].items() if key not in ("dtype", "dropout", "attention")}


def described(model):
    """All keys, with dtbench's defaults."""
    full = {"kv_heads": model["heads"], "ffn": 4 * model["hidden"], "mlp": "gelu", "norm": "layer", "norm_epsilon": 1e-5,
            "position": "learned", "bias": "all", "tied": False, "qk_norm": False, "rope": {}}
    full.update(model)
    return full


class WrittenRmsNorm(nn.Module):
    """nn.RMSNorm where PyTorch has none."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class LayerNorm(nn.Module):
    """nn.LayerNorm with or without a bias, which the older ones lack."""

    def __init__(self, width, eps, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def rms_norm(width, eps):
    return getattr(nn, "RMSNorm", WrittenRmsNorm)(width, eps=eps)


def norm_of(m):
    return rms_norm(m["hidden"], m["norm_epsilon"]) if m["norm"] == "rms" else LayerNorm(m["hidden"], m["norm_epsilon"], m["bias"] == "all")


def rope_frequencies(m):
    """Radians per position of each pair; Llama 3's scaling as its published code has it."""
    rope, width = m["rope"], m["hidden"] // m["heads"]
    frequencies = rope.get("base", 10000.0) ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if rope.get("scaling", "none") == "none":
        return frequencies
    low, high, length = rope["low_frequency_factor"], rope["high_frequency_factor"], rope["original_length"]
    wavelengths = 2 * math.pi / frequencies
    smooth = (length / wavelengths - low) / (high - low)
    mixed = (1 - smooth) * frequencies / rope["factor"] + smooth * frequencies
    scaled = torch.where(wavelengths > length / low, frequencies / rope["factor"], mixed)
    return torch.where(wavelengths < length / high, frequencies, scaled)


def alibi_slopes(heads):
    """Press et al.'s published rule."""

    def of_power(n):
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]

    power = 2 ** int(math.log2(heads))
    return of_power(power) + of_power(2 * power)[0::2][: heads - power]


class Attention(nn.Module):
    def __init__(self, m, fused):
        super().__init__()
        self.heads, self.kv_heads, self.width, self.fused = m["heads"], m["kv_heads"], m["hidden"] // m["heads"], fused
        hidden, keys, bias = m["hidden"], m["kv_heads"] * self.width, m["bias"] != "none"
        self.q = nn.Linear(hidden, hidden, bias=bias)
        self.k = nn.Linear(hidden, keys, bias=bias)
        self.v = nn.Linear(hidden, keys, bias=bias)
        self.projection = nn.Linear(hidden, hidden, bias=m["bias"] == "all")
        self.q_norm = rms_norm(self.width, m["norm_epsilon"]) if m["qk_norm"] else nn.Identity()
        self.k_norm = rms_norm(self.width, m["norm_epsilon"]) if m["qk_norm"] else nn.Identity()
        positions = torch.arange(m["block_size"], dtype=torch.float64)
        self.angles = torch.outer(positions, rope_frequencies(m)) if m["position"] == "rope" else None
        self.turns = {}  # by dtype and device: cosines and sines
        self.bias_mask = None
        if m["position"] == "alibi":
            distances = positions[None, :] - positions[:, None]
            self.bias_mask = torch.tensor(alibi_slopes(self.heads), dtype=torch.float64)[:, None, None] * distances
            self.bias_mask = self.bias_mask.masked_fill(distances > 0, float("-inf"))

    def rotate(self, x):
        if self.angles is None:
            return x
        key = (x.dtype, x.device)
        if key not in self.turns:
            self.turns[key] = tuple(f(self.angles).to(device=x.device, dtype=x.dtype) for f in (torch.cos, torch.sin))
        cosines, sines = (t[: x.shape[-2]] for t in self.turns[key])
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosines - b * sines, b * cosines + a * sines], dim=-1)

    def forward(self, x):
        samples, positions, hidden = x.shape

        def split(y, heads):
            return y.view(samples, positions, heads, self.width).transpose(1, 2)

        q = self.rotate(self.q_norm(split(self.q(x), self.heads)))
        k = self.rotate(self.k_norm(split(self.k(x), self.kv_heads)))
        v = split(self.v(x), self.kv_heads)
        mask = self.bias_mask
        if mask is not None:
            mask = mask[:, :positions, :positions].to(x)
        if self.fused:
            grouped = {"enable_gqa": True} if self.kv_heads != self.heads else {}
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, **grouped)
        else:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
            if mask is None:
                mask = torch.full((positions, positions), float("-inf"), device=x.device).triu(1).to(x.dtype)
            y = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.width) + mask, dim=-1) @ v
        return self.projection(y.transpose(1, 2).reshape(samples, positions, hidden))


class Block(nn.Module):
    def __init__(self, m, fused):
        super().__init__()
        bias = m["bias"] == "all"
        self.norm1, self.attention, self.norm2 = norm_of(m), Attention(m, fused), norm_of(m)
        self.gate = nn.Linear(m["hidden"], m["ffn"], bias=bias) if m["mlp"] == "swiglu" else None
        self.up = nn.Linear(m["hidden"], m["ffn"], bias=bias)
        self.down = nn.Linear(m["ffn"], m["hidden"], bias=bias)
        self.activation = {"gelu": F.gelu, "gelu_new": functools.partial(F.gelu, approximate="tanh"), "relu": F.relu}.get(m["mlp"])

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        y = F.silu(self.gate(y)) * self.up(y) if self.gate is not None else self.activation(self.up(y))
        return x + self.down(y)


class Decoder(nn.Module):
    def __init__(self, model, fused=False):
        super().__init__()
        m = described(model)
        self.tokens = nn.Embedding(m["vocab_size"], m["hidden"])
        self.positions = nn.Parameter(torch.zeros(m["block_size"], m["hidden"])) if m["position"] == "learned" else None
        self.blocks = nn.ModuleList(Block(m, fused) for _ in range(m["layers"]))
        self.norm = norm_of(m)
        self.head = nn.Linear(m["hidden"], m["vocab_size"], bias=False)
        if m["tied"]:
            self.head.weight = self.tokens.weight

    def forward(self, inputs, targets):
        x = self.tokens(inputs)
        if self.positions is not None:
            x = x + self.positions[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def arguments():
    parser = argparse.ArgumentParser(description="Train a Llama-shaped model with PyTorch; print one JSON line.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", metavar="JSON", type=json.loads, help="another model: the keys of a config's")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--dtype", choices=["fp16", "bf16", "fp32"], default="bf16")
    parser.add_argument("--attention", choices=["written", "sdpa"], default="sdpa")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--block", type=int, help="sequence length; else the model's, or 1024")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=1, help="steps before the timed ones, at least")
    parser.add_argument("--warmup-s", type=float, default=0, help="seconds of them, at least")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    if options.attention == "sdpa" and not HAS_GROUPED_ATTENTION:
        sys.exit(f"pytorch_decoder: --attention sdpa needs PyTorch 2.5, and this is {torch.__version__}")
    return options


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    keys = dict(options.model or {**LLAMA_160M, "block_size": 1024})
    keys.update({key: value for key, value in (("layers", options.layers), ("block_size", options.block)) if value})
    model = Decoder(keys, options.attention == "sdpa").to(options.device, DTYPES[options.dtype])
    step_model = torch.compile(model) if options.compile else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    startup_s, losses, step_s = time.monotonic() - STARTED, [], []
    while len(timed(options, step_s)) < options.steps:
        tokens = torch.randint(keys["vocab_size"], (options.batch, keys["block_size"] + 1), device=options.device)
        wait(options.device)
        start = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        loss = step_model(tokens[:, :-1], tokens[:, 1:].contiguous().reshape(-1))
        loss.backward()
        optimizer.step()
        wait(options.device)
        step_s.append(time.monotonic() - start)
        losses.append(loss.item())
    step_s = timed(options, step_s)
    record = {
        "peer": "pytorch",
        "version": "PyTorch " + torch.__version__,
        "dtype": options.dtype,
        "attention": options.attention,
        "compiled": options.compile,
        "model": keys,
        "batch": options.batch,
        "threads": options.threads,
        "parameters": sum(p.numel() for p in model.parameters()),
        "startup_s": startup_s,
        "step_s": step_s,
        "tokens_per_s": options.batch * keys["block_size"] * len(step_s) / sum(step_s),
        "losses": losses,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_device_bytes": torch.cuda.max_memory_allocated() if options.device == "cuda" else None,
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
