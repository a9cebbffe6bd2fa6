#!/usr/bin/python3 -s
"""torchvision's ResNets in PyTorch on the CPU: trained with SGD on random images, channels last. Prints one JSON line, as pytorch_gpt.py does.

Usage: pytorch_resnet.py [--model resnet50] [--batch 32] [--size 224] [--threads 2] [--warmup 1] [--steps 3] [--dtype fp32|bf16] [--compile]
In bf16 parameters and activations are bf16 all through, as dtbench's are.
"""
import argparse
import json
import resource
import sys
import time

try:
    import torch
    import torchvision
except ImportError as missing:
    sys.exit(f"pytorch_resnet: {missing.name} is missing: pip install torch torchvision")

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--dtype", choices=list(DTYPES), default="fp32")
    parser.add_argument("--compile", action="store_true")
    for name, initial in ("batch", 32), ("size", 224), ("threads", 2), ("warmup", 1), ("steps", 3):
        parser.add_argument("--" + name, type=int, default=initial)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = getattr(torchvision.models, options.model)(weights=None).to(DTYPES[options.dtype], memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    images = torch.randn(options.batch, 3, options.size, options.size).to(DTYPES[options.dtype], memory_format=torch.channels_last)
    targets = torch.randint(1000, (options.batch,))
    forward = torch.compile(model) if options.compile else model
    step_s = []
    for _ in range(options.warmup + options.steps):
        begun = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(forward(images), targets)
        loss.backward()
        optimizer.step()
        loss.item()
        step_s.append(time.monotonic() - begun)
    step_s = step_s[options.warmup:]
    print(json.dumps({"peer": "pytorch_resnet", "version": f"PyTorch {torch.__version__}", "dtype": options.dtype, "compiled": options.compile, "step_s": step_s,
                      "images_per_s": options.batch * len(step_s) / sum(step_s), "weights_bytes": weights,
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
