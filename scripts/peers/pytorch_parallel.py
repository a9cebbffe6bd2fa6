#!/usr/bin/python3 -s
"""The study's GPT in PyTorch on several ranks: DistributedDataParallel, and FSDP2 (fully_shard), each rank with its own samples.

torchrun --nproc-per-node 8 scripts/peers/pytorch_parallel.py --mode fsdp2 --device cuda --dtype fp16

The model, its initial values, optimizer and loss are pytorch_gpt.py's, and so are the options; --batch is that of one rank. DDP sums gradients
in buckets while the backward pass goes on; fully_shard keeps a part of each block's parameters, gradients and update on each rank, gathers a
block before it is used, and frees it afterwards. Compiled, each block is (torch.compile), as PyTorch's own trainers do with FSDP2.

Rank 0 prints one JSON line. A step's time is that of the slowest rank, from a point that all have reached; losses are means over the ranks;
memory is the rank's that needs most. test/cli/test_peer.py holds the losses of both modes against dtbench's.
"""
import json
import os
import sys
import time

STARTED = time.monotonic()

import pytorch_gpt  # says that PyTorch is missing
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # PyTorch 2.6
except ImportError:
    fully_shard = None


def parallel(model, mode, device, compile_mode=None):
    """The model, on its device already, as `mode` trains it on all ranks."""
    if compile_mode:
        for block in model.blocks:
            block.compile(mode=compile_mode)
    if mode == "ddp":
        # The only buffers are masks, equal on all ranks: without this they are sent before each
        # step, and PyTorch 1's gloo cannot send booleans.
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [name for name, _ in model.named_buffers()])
        return DistributedDataParallel(model, device_ids=[torch.cuda.current_device()] if device == "cuda" else None)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def of_all(value, device, operation):
    """A number of each rank becomes one."""
    number = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(number, operation)
    return number.item()


def arguments():
    parser = pytorch_gpt.parser("Train the study's GPT with PyTorch on the ranks of torchrun; rank 0 prints one JSON line.")
    parser.add_argument("--mode", choices=["ddp", "fsdp2"], required=True)
    options = parser.parse_args()
    pytorch_gpt.check(options)
    if "RANK" not in os.environ:
        sys.exit("pytorch_parallel: no ranks: start it with torchrun")
    if options.mode == "fsdp2" and not fully_shard:
        sys.exit(f"pytorch_parallel: --mode fsdp2 needs PyTorch 2.6, and this is {torch.__version__}")
    return options


def measure(options):
    """Rank 0's line."""
    on_gpu = options.device == "cuda"
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)  # the same initial values on all ranks
    model, _, scaling = pytorch_gpt.build(options)
    parameters = sum(p.numel() for p in model.parameters())
    model = parallel(model, options.mode, options.device, options.compile)
    optimizer = pytorch_gpt.sgd(model, scaling)
    torch.manual_seed(2 + rank)  # other tokens and dropout masks on each
    startup_s = time.monotonic() - STARTED

    losses, step_s = [], []
    while len(pytorch_gpt.timed(options, step_s)) < options.steps:  # the same on all ranks, as the slowest one's times are
        inputs, targets = pytorch_gpt.random_tokens(options)
        pytorch_gpt.wait(options.device)
        dist.barrier()
        pytorch_gpt.wait(options.device)
        start = time.monotonic()
        loss = pytorch_gpt.train_step(model, optimizer, inputs, targets, scaling)
        pytorch_gpt.wait(options.device)
        step_s.append(of_all(time.monotonic() - start, options.device, dist.ReduceOp.MAX))
        losses.append(of_all(loss.item(), options.device, dist.ReduceOp.SUM) / ranks)
    allocated = torch.cuda.max_memory_allocated() if on_gpu else 0
    reserved = torch.cuda.max_memory_reserved() if on_gpu else 0
    record = pytorch_gpt.record(options, parameters, startup_s, pytorch_gpt.timed(options, step_s), losses, ranks)
    record["mode"] = options.mode
    record["peak_device_bytes"] = int(of_all(allocated, options.device, dist.ReduceOp.MAX)) if on_gpu else None
    record["peak_device_reserved_bytes"] = int(of_all(reserved, options.device, dist.ReduceOp.MAX)) if on_gpu else None
    return record


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    else:
        dist.init_process_group("gloo")
    record = measure(options)
    if dist.get_rank() == 0:
        print(json.dumps(record))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
