#!/usr/bin/python3
"""Convolutional networks against torchvision: from the same weights and images the same losses and gradients, for ten steps (DeepLabV3
for three: PyTorch's dilated convolutions are slow in double precision).

peer_steps trains with dtbench's stage and kernels and writes weights, images, losses and gradients; torchvision's own modules do the same in
double precision, and in fp32. Losses must agree to 1e-4 and the first step's gradients, which come of equal weights, to 1e-5 of the largest; or
lie no farther from double precision than twice what PyTorch's own fp32 does, since statistics of few values magnify rounding: ResNet-50's first
gradients in fp32 are off by a hundredth. Usage: test_peer_vision.py PEER_STEPS [CASE...]; prints TAP.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from torch.nn import functional
    from torchvision.models import resnet, segmentation
except ImportError:
    print("1..0 # SKIP PyTorch or torchvision is missing (scripts/setup --with-torch)")
    sys.exit(0)

BATCH, LEARNING_RATE = 4, 0.001  # larger steps magnify rounding, which statistics of few values do anyway
CASES = {  # title: (steps, model)
    "ResNet-18": (10, {"preset": "ResNet18", "image_size": 64, "classes": 1000}),
    "ResNet-50": (10, {"preset": "ResNet50", "image_size": 64, "classes": 1000}),
    "DeepLabV3-ResNet-50": (3, {"preset": "DeepLabV3-ResNet50", "image_size": 33, "classes": 21, "head_dropout": False}),
}


def dtbench_steps(program, folder, model, count):
    """(header, [parameter], [[gradient] of each step], [images of each step]), tensors in dtbench's order and layout."""
    config = {"device": "cpu", "world_size": 1, "paradigm": "none", "batch_size": BATCH, "seed": 7, "model": {**model, "dtype": "fp32"},
              "optimizer": {"name": "sgd", "learning_rate": LEARNING_RATE}}
    path, out = os.path.join(folder, "peer.json"), os.path.join(folder, "peer.out")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    subprocess.run([program, path, str(count), out], timeout=600, check=True)
    with open(out, "rb") as file:
        header = json.loads(file.readline())
        numbers = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    counts = [torch.Size(t["shape"]).numel() for t in header["tensors"]]
    sizes = [sum(counts)] * (count + 1) + [(len(numbers) - (count + 1) * sum(counts)) // count] * count
    pieces = numbers.split(sizes)
    tensors = [[p.view(t["shape"]) for p, t in zip(piece.split(counts), header["tensors"])] for piece in pieces[: count + 1]]
    return header, tensors[0], tensors[1:], [piece.view(BATCH, model["image_size"], model["image_size"], 3) for piece in pieces[count + 1 :]]


def modules_of(model, peer):
    """torchvision's modules with parameters, in dtbench's order: of a block the skip connection's come before the last norm."""
    backbone = peer.backbone if hasattr(peer, "backbone") else peer
    yield from (backbone.conv1, backbone.bn1)
    for name in ("layer1", "layer2", "layer3", "layer4"):
        for block in backbone[name] if hasattr(peer, "backbone") else getattr(backbone, name):
            last = "3" if hasattr(block, "conv3") else "2"
            for number in "123"[: int(last)]:
                yield getattr(block, "conv" + number)
                if number == last and block.downsample is not None:
                    yield from block.downsample
                yield getattr(block, "bn" + number)
        if name == "layer3" and hasattr(peer, "backbone"):
            yield from (m for m in peer.aux_classifier if list(m.parameters()))
    if not hasattr(peer, "backbone"):
        yield peer.fc
        return
    for module in peer.classifier.modules():
        if list(module.parameters(recurse=False)):
            yield module


def to_peer(tensor, parameter):
    """[out, kernel, kernel, in] to torchvision's order; a linear layer's weight is a matrix."""
    if tensor.shape == parameter.shape and tensor.dtype == parameter.dtype:
        return tensor  # is torchvision's
    return (tensor.permute(0, 3, 1, 2) if tensor.dim() == 4 else tensor).reshape(parameter.shape)


def make_peer(model):
    if model["preset"].startswith("DeepLab"):
        peer = segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=model["classes"], aux_loss=True)
        for module in peer.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0
        return peer
    return getattr(resnet, model["preset"].lower())(num_classes=model["classes"])


def loss_of(peer, images, targets, model):
    made = peer(images.permute(0, 3, 1, 2))
    if not isinstance(made, dict):
        return functional.cross_entropy(made, targets)
    targets = targets.view(BATCH, model["image_size"], model["image_size"])
    return functional.cross_entropy(made["out"], targets, ignore_index=255) + 0.4 * functional.cross_entropy(made["aux"], targets, ignore_index=255)


def peer_steps(model, header, start, images, dtype):
    """(losses, [gradient] of the first step) of torchvision's training in `dtype`, from the parameters `start`."""
    peer = make_peer(model).to(dtype).train()
    parameters = [p for module in modules_of(model, peer) for p in module.parameters(recurse=False)]
    if len(parameters) != len(start) or len(parameters) != len(list(peer.parameters())):
        raise ValueError(f"{len(start)} tensors, and torchvision has {len(parameters)}")
    with torch.no_grad():
        for parameter, tensor in zip(parameters, start):
            parameter.copy_(to_peer(tensor, parameter))
    optimizer = torch.optim.SGD(peer.parameters(), lr=LEARNING_RATE)
    losses, first = [], None
    for step, pixels in zip(header["steps"], images):
        optimizer.zero_grad()
        loss = loss_of(peer, pixels.to(dtype), torch.tensor(step["targets"]), model)
        loss.backward()
        losses.append(loss.item())
        first = first or [p.grad.double().clone() for p in parameters]
        optimizer.step()
    return losses, first


def differences(exact, losses, gradients):
    """Largest relative difference of a loss, and of a gradient of the first step to its largest."""
    largest = max(g.abs().max().item() for g in exact[1])
    of_gradients = max((to_peer(g, e).double() - e).abs().max().item() for g, e in zip(gradients, exact[1]))
    return max(abs(a - b) / b for a, b in zip(losses, exact[0])), of_gradients / largest


def main():
    cases, failed = sys.argv[2:] or list(CASES), False
    torch.set_num_threads(1)
    print(f"1..{len(cases)}")
    with tempfile.TemporaryDirectory() as folder:
        for number, title in enumerate(cases, 1):
            count, model = CASES[title]
            header, start, gradients, images = dtbench_steps(sys.argv[1], folder, model, count)
            exact, fp32 = (peer_steps(model, header, start, images, dtype) for dtype in (torch.float64, torch.float32))
            ours = differences(exact, [step["loss"] for step in header["steps"]], gradients[0])
            peers = differences(exact, fp32[0], fp32[1])
            wrong = not (ours[0] <= max(1e-4, 2 * peers[0]) and ours[1] <= max(1e-5, 2 * peers[1]))
            print(f"# {title}: losses differ by {ours[0]:.2g} (PyTorch's fp32 {peers[0]:.2g}), first gradients by {ours[1]:.2g} ({peers[1]:.2g})")
            failed = failed or wrong
            print(f"{'not ok' if wrong else 'ok'} {number} - losses and gradients as torchvision's, {count} steps: {title}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
