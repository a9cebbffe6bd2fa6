#!/usr/bin/python3 -s
"""The study's GPT in PyTorch, on the CPU or a GPU, eager or compiled: what dtbench's speed and numbers are held against.

minGPT's decoder: pre-norm blocks, q, k, v and output projections apart and with bias, exact GELU, dropout on the embedding, the attention
weights and both residual branches, learned positions, an untied head without bias, cross-entropy, SGD without momentum.

Attention is written out, as minGPT and the study have it, or PyTorch's own fused one (--attention sdpa). With --qkv fused one product makes
q, k and v, as dtbench does.

As a program it trains on random tokens and prints one JSON line: the time of each step, tokens/s, peak memory.
test/cli/test_peer.py imports the model and gives it dtbench's own weights and tokens.
"""
import argparse
import contextlib
import json
import math
import resource
import sys
import time

STARTED = time.monotonic()

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("pytorch_gpt: PyTorch is missing: install python3-torch (scripts/setup --with-torch)")

PRESETS = {
    "GPTSmall": (12, 12, 768),
    "GPTMedium": (24, 16, 1024),
    "GPTLarge": (24, 16, 1536),
    "GPTXL": (24, 24, 2064),
    "GPT2.7B": (32, 32, 2560),
    "GPT6.7B": (32, 32, 4096),
}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
FP16_LOSS_SCALING = 65536.0  # dtbench's


class Attention(nn.Module):
    def __init__(self, hidden, heads, block_size, dropout, fused=False, one_product=False):
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.one_product = one_product
        if one_product:
            self.qkv = nn.Linear(hidden, 3 * hidden)
        else:
            self.q = nn.Linear(hidden, hidden)
            self.k = nn.Linear(hidden, hidden)
            self.v = nn.Linear(hidden, hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.weights_dropout = nn.Dropout(dropout)
        self.branch_dropout = nn.Dropout(dropout)
        future = torch.ones(block_size, block_size, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        samples, positions, hidden = x.shape

        def split(y):
            return y.view(samples, positions, self.heads, hidden // self.heads).transpose(1, 2)

        q, k, v = map(split, self.qkv(x).chunk(3, dim=-1) if self.one_product else (self.q(x), self.k(x), self.v(x)))
        if self.fused:
            dropout = self.weights_dropout.p if self.training else 0.0
            y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
            return self.branch_dropout(self.projection(y.transpose(1, 2).contiguous().view(samples, positions, hidden)))
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(hidden // self.heads))
        scores = scores.masked_fill(self.future[:positions, :positions], float("-inf"))
        y = self.weights_dropout(torch.softmax(scores, dim=-1)) @ v
        return self.branch_dropout(self.projection(y.transpose(1, 2).contiguous().view(samples, positions, hidden)))


class Block(nn.Module):
    def __init__(self, hidden, heads, block_size, dropout, fused=False, one_product=False):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, block_size, dropout, fused, one_product)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.gelu = nn.GELU()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.dropout(self.down(self.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, layers, heads, hidden, vocab_size, block_size, dropout, fused=False, one_product=False):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, hidden)
        self.positions = nn.Parameter(torch.zeros(block_size, hidden))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(hidden, heads, block_size, dropout, fused, one_product) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocab_size, bias=False)

    def forward(self, inputs, targets):
        x = self.dropout(self.tokens(inputs) + self.positions[: inputs.shape[1]])
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def initialise(model):
    """GPT-2's initial values: matrices normal with standard deviation 0.02, biases zero, gains one."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.02)
            elif name.endswith("bias"):
                parameter.zero_()
            else:
                parameter.fill_(1.0)


def train_step(model, optimizer, inputs, targets, loss_scaling=1.0):
    """One step; the loss stays where it was computed. With loss scaling the optimizer's learning rate is divided by it."""
    optimizer.zero_grad(set_to_none=True)
    loss = model(inputs, targets)
    (loss * loss_scaling if loss_scaling != 1.0 else loss).backward()
    optimizer.step()
    return loss.detach()


def sgd(model, scaling):
    """With loss scaling the gradients are scaled, too: the learning rate takes it back."""
    return torch.optim.SGD(model.parameters(), lr=0.01 / scaling)


def build(options):
    """(model, optimizer, loss scaling), on the device and in the dtype of the options."""
    layers, heads, hidden = PRESETS[options.model]
    scaling = FP16_LOSS_SCALING if options.dtype == "fp16" else 1.0
    # Where there is a GPU there is a PyTorch that can make parameters on it at once; Debian's
    # cannot.
    with torch.device("cuda") if options.device == "cuda" else contextlib.nullcontext():
        model = GPT(layers, heads, hidden, options.vocab, options.block, options.dropout, options.attention == "sdpa",
                    options.qkv == "fused")
    model.to(DTYPES[options.dtype])
    initialise(model)
    return model, sgd(model, scaling), scaling


def random_tokens(options):
    """(inputs, targets) of one batch."""
    tokens = torch.randint(options.vocab, (options.batch, options.block + 1), device=options.device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def parser(description):
    """The options that every program with this model has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--model", choices=list(PRESETS), default="GPTSmall")
    options.add_argument("--dtype", choices=list(DTYPES), default="bf16")
    options.add_argument("--attention", choices=["written", "sdpa"], default="written")
    options.add_argument("--qkv", choices=["apart", "fused"], default="apart", help="three products, or one")
    options.add_argument("--compile", metavar="MODE", nargs="?", const="default", help="torch.compile, with this mode")
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--block", type=int, default=256, help="sequence length")
    options.add_argument("--vocab", type=int, default=50000)
    options.add_argument("--dropout", type=float, default=0.1)
    options.add_argument("--threads", type=int, default=2, help="of the CPU")
    options.add_argument("--warmup", type=int, default=1, help="steps before the timed ones, at least")
    options.add_argument("--warmup-s", type=float, default=0, help="seconds of them, at least")
    options.add_argument("--steps", type=int, default=3)
    return options


def timed(options, step_s):
    """The timed ones of the steps so far: behind --warmup steps that took --warmup-s seconds, or more of both."""
    spent_s = 0.0
    for i, seconds in enumerate(step_s):
        if i >= options.warmup and spent_s >= options.warmup_s:
            return step_s[i:]
        spent_s += seconds
    return []


def check(options):
    """Ends with one line where this PyTorch, or this machine, cannot do what the options want."""
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch_gpt: PyTorch sees no GPU")
    if options.attention == "sdpa" and not hasattr(nn.functional, "scaled_dot_product_attention"):
        sys.exit(f"pytorch_gpt: --attention sdpa needs PyTorch 2, and this is {torch.__version__}")
    if options.compile and not hasattr(torch, "compile"):
        sys.exit(f"pytorch_gpt: --compile needs PyTorch 2, and this is {torch.__version__}")


def record(options, parameters, startup_s, step_s, losses, ranks=1):
    """What a program prints."""
    on_gpu = options.device == "cuda"
    return {
        "peer": "pytorch",
        "version": "PyTorch " + torch.__version__,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "dtype": options.dtype,
        "attention": options.attention,
        "qkv": options.qkv,
        "compiled": options.compile,
        "model": options.model,
        "ranks": ranks,
        "batch": options.batch,
        "block": options.block,
        "threads": options.threads,
        "parameters": parameters,
        "startup_s": startup_s,
        "step_s": step_s,
        "tokens_per_s": ranks * options.batch * options.block * len(step_s) / sum(step_s),
        "losses": losses,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_device_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "peak_device_reserved_bytes": torch.cuda.max_memory_reserved() if on_gpu else None,
    }


def main():
    options = parser("Train the study's GPT with PyTorch; print one JSON line.").parse_args()
    check(options)
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model, optimizer, scaling = build(options)
    step_model = torch.compile(model, mode=options.compile) if options.compile else model
    startup_s = time.monotonic() - STARTED

    losses, step_s = [], []
    while len(timed(options, step_s)) < options.steps:
        inputs, targets = random_tokens(options)
        wait(options.device)
        start = time.monotonic()
        loss = train_step(step_model, optimizer, inputs, targets, scaling)
        wait(options.device)
        step_s.append(time.monotonic() - start)
        losses.append(loss.item())
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps(record(options, parameters, startup_s, timed(options, step_s), losses)))


if __name__ == "__main__":
    main()
