"""A training step as PyTorch's users write it (zero_grad, forward, backward, step), through functrace.torch and through PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, OURS, Run, Target, Workload, namespace


def digits(batch: int, *shape: int) -> Any:
    rng = np.random.default_rng(0)
    return namespace(x=rng.normal(size=(batch, *shape)).astype(np.float32), labels=rng.integers(0, 10, batch))


mlp_step = Workload(
    "training, mlp",
    "a step of SGD on 784-256-128-10 with nn.Module, cross entropy",
    lambda batch: digits(batch, 784),
    {"batch 128, float32": {"batch": 128}},
    [Target("PyTorch", 1.0, "functrace.torch")],
    rtol=1e-3,
)
cnn_step = Workload(
    "training, cnn",
    "a step of Adam on two convolutions, pooling and a linear layer, 8 x 8 images",
    lambda batch: digits(batch, 1, 8, 8),
    {"batch 64, float32": {"batch": 64}},
    [Target("PyTorch", 2.0, "functrace.torch")],
    rtol=1e-3,
)
WORKLOADS = [mlp_step, cnn_step]


def mlp(torch: Any, p: Any) -> Run:
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    return step(torch, model, torch.optim.SGD(model.parameters(), lr=1e-4), p)


def cnn(torch: Any, p: Any) -> Run:
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    return step(torch, model, torch.optim.Adam(model.parameters(), lr=1e-5), p)


def step(torch: Any, model: Any, optimizer: Any, p: Any) -> Run:
    """The loop's body; gives the loss."""
    x, labels, criterion = torch.from_numpy(p.x), torch.from_numpy(p.labels), torch.nn.CrossEntropyLoss()

    def run() -> Any:
        optimizer.zero_grad()
        loss = criterion(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run


def _enter(workload: Workload, build: Any) -> None:
    @workload.contestant(OURS, "functrace.torch")
    def ours(p: Any) -> Run:
        import functrace.torch as torch

        return build(torch, p)  # type: ignore[no-any-return]

    @workload.contestant(EAGER, "PyTorch")
    def pytorch(p: Any) -> Run:
        import torch

        return build(torch, p)  # type: ignore[no-any-return]


_enter(mlp_step, mlp)
_enter(cnn_step, cnn)
