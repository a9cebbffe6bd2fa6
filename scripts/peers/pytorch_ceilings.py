#!/usr/bin/python3 -s
"""What the GPU can do at most, as PyTorch reaches it: the rate of one large fp16 matrix product, and of a copy within device memory (bytes
read and bytes written). Prints one JSON line. Random operands: zeros would let the clock rise."""
import json
import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit("pytorch_ceilings: PyTorch is missing")

SIDE, COPY_BYTES, REPEATS = 8192, 1 << 32, 20


def seconds(work):
    """Median of several runs, by the device's own clock."""
    times = []
    for i in range(REPEATS + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if i >= 3:
            times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def main():
    if not torch.cuda.is_available():
        sys.exit("pytorch_ceilings: PyTorch sees no GPU")
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.float16) for _ in range(2))
    product = torch.empty_like(a)
    source = torch.empty(COPY_BYTES, device="cuda", dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    print(json.dumps({
        "device": torch.cuda.get_device_name(),
        "devices": torch.cuda.device_count(),
        "flops_per_s": 2 * SIDE**3 / seconds(lambda: torch.mm(a, b, out=product)),
        "bytes_per_s": 2 * COPY_BYTES / seconds(lambda: target.copy_(source)),
    }))


if __name__ == "__main__":
    main()
