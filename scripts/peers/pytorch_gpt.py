#!/usr/bin/python3 -s
"""The study's GPT in PyTorch, eager, on the CPU: what dtbench's speed and numbers are held against.

minGPT's decoder: pre-norm blocks, q, k, v and output projections apart and with bias, exact GELU, dropout on the embedding, the attention
weights and both residual branches, learned positions, an untied head without bias, cross-entropy, SGD without momentum.

As a program it trains on random tokens and prints one JSON line: the time of each step, tokens/s, peak resident memory.
test/test_peer.py imports the model and gives it dtbench's own weights and tokens.
"""
import argparse
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

PRESETS = {"GPTSmall": (12, 12, 768), "GPTMedium": (24, 16, 1024), "GPTLarge": (24, 16, 1536)}


class Attention(nn.Module):
    def __init__(self, hidden, heads, block_size, dropout):
        super().__init__()
        self.heads = heads
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

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(hidden // self.heads))
        scores = scores.masked_fill(self.future[:positions, :positions], float("-inf"))
        y = self.weights_dropout(torch.softmax(scores, dim=-1)) @ v
        return self.branch_dropout(self.projection(y.transpose(1, 2).contiguous().view(samples, positions, hidden)))


class Block(nn.Module):
    def __init__(self, hidden, heads, block_size, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, block_size, dropout)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.gelu = nn.GELU()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.dropout(self.down(self.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, layers, heads, hidden, vocab_size, block_size, dropout):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, hidden)
        self.positions = nn.Parameter(torch.zeros(block_size, hidden))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(hidden, heads, block_size, dropout) for _ in range(layers))
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


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad(set_to_none=True)
    loss = model(inputs, targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description="Train the study's GPT with PyTorch on the CPU; print one JSON line.")
    parser.add_argument("--model", choices=sorted(PRESETS), default="GPTSmall")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--block", type=int, default=256, help="sequence length")
    parser.add_argument("--vocab", type=int, default=50000)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    layers, heads, hidden = PRESETS[options.model]
    model = GPT(layers, heads, hidden, options.vocab, options.block, options.dropout)
    initialise(model)
    model.to({"bf16": torch.bfloat16, "fp32": torch.float32}[options.dtype])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    startup_s = time.monotonic() - STARTED

    losses, step_s = [], []
    for _ in range(options.warmup + options.steps):
        tokens = torch.randint(options.vocab, (options.batch, options.block + 1))
        start = time.monotonic()
        losses.append(train_step(model, optimizer, tokens[:, :-1], tokens[:, 1:].contiguous()))
        step_s.append(time.monotonic() - start)
    step_s = step_s[options.warmup :]
    record = {
        "peer": "pytorch",
        "version": "PyTorch " + torch.__version__,
        "dtype": options.dtype,
        "batch": options.batch,
        "block": options.block,
        "threads": options.threads,
        "parameters": sum(p.numel() for p in model.parameters()),
        "startup_s": startup_s,
        "step_s": step_s,
        "tokens_per_s": options.batch * options.block * len(step_s) / sum(step_s),
        "losses": losses,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
