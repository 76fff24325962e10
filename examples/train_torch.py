"""A small convolutional network in PyTorch, fed without TensorFlow.

    pip install shardfeed torch
    python examples/train_torch.py out/ --epochs 5
    torchrun --nproc_per_node 8 examples/train_torch.py out/      # each process reads its own share

``torch_batches`` decodes in threads, which use all cores: no ``DataLoader`` and no worker processes.
"""

from __future__ import annotations

import argparse
import os
import sys

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("train_torch.py needs PyTorch, which is not installed here: pip install torch")

import shardfeed


def network(height: int, width: int, channels: int, classes: int) -> nn.Module:
    """Four halvings of the image, then a layer that sees where everything lies."""
    layers: list[nn.Module] = []
    for filters in (16, 32, 64, 64):
        layers += [nn.Conv2d(channels, filters, 3, stride=2, padding=1), nn.ReLU()]
        height, width, channels = -(-height // 2), -(-width // 2), filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(height * width * channels, classes))


def scaled(images: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Bytes travel to the device, floats are made there."""
    return images.to(device, non_blocking=True).float() / 127.5 - 1


@torch.no_grad()
def accuracy(model: nn.Module, batches: shardfeed.TorchBatches, device: torch.device) -> float:
    """Accuracy on the whole split. Each record counts once; rows of padding weigh nothing."""
    counts = torch.zeros(2, device=device)
    for images, labels, weights in batches:
        real = (weights > 0).to(device)
        right = model(scaled(images, device)).argmax(1) == labels.to(device)
        counts += torch.stack([(right & real).sum(), real.sum()])
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(counts)
    return float(counts[0] / counts[1])


def show(step: int, steps: int, loss: float) -> None:
    """A bar, renewed every 20 steps; where the output is no terminal, a line."""
    if step % 20 and step != steps:
        return
    done = 30 * step // steps
    bar = f"{step}/{steps} [{'=' * done}{'.' * (30 - done)}] loss {loss:.4f}"
    print(
        f"\r{bar}" if sys.stdout.isatty() else bar, end="" if sys.stdout.isatty() and step < steps else "\n", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="folder or gs://bucket/folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=128, help="over all processes")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start_step", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
    info = shardfeed.info(args.dataset)
    model = network(*info.image_shape, len(info.classes)).to(device)
    first = os.environ.get("RANK", "0") == "0"
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("nccl" if cuda else "gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), args.rate, momentum=0.9)
    batches = shardfeed.torch_batches(
        info, "train", args.batch_size, epochs=args.epochs, seed=args.seed, start_step=args.start_step, pin_memory=cuda
    )  # this process's share: it asks the process group
    steps = args.start_step + len(batches)
    for step, (images, labels) in enumerate(batches, args.start_step + 1):
        loss = nn.functional.cross_entropy(model(scaled(images, device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if first:
            show(step, steps, loss.item())
    for split in info.splits:
        found = accuracy(model, shardfeed.torch_batches(info, split, args.batch_size, training=False), device)
        if first:
            print(f"accuracy on {split}: {found:.4f}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # its threads would otherwise abort the process at its end


if __name__ == "__main__":
    main()
