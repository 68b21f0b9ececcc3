"""What type checkers see of `functrace.torch`: tensors have their methods, modules and loaders their types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typing_extensions import assert_type

import functrace.torch as torch
import functrace.torch.nn.functional as F
from functrace.torch import Tensor, nn
from functrace.torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split


class Squares(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((2,), float(index)), index**2


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 2 * g


class Net(nn.Module):
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.last = nn.Sequential(nn.ReLU(), nn.Linear(width, 1))
        self.gain = nn.Parameter(torch.ones(1))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        hidden = assert_type(F.relu(self.first(x)), Tensor)
        out: Tensor = self.last(hidden)
        return assert_type((out * self.gain * self.scale).squeeze(-1), Tensor)


@torch.no_grad()
def evaluate(net: Net, x: Tensor) -> float:
    return float(net(x).mean())


torch.manual_seed(0)
net = assert_type(Net(8).to(torch.float32).train(), Net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
adam = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.99))
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
loader = assert_type(DataLoader(Squares(), batch_size=2), DataLoader[tuple[Tensor, int]])
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = F.mse_loss(net(inputs), targets.float())
    assert_type(loss, Tensor)
    loss.backward()
    optimizer.step()
schedule.step()

x = torch.randn(3, 2, requires_grad=True)
assert_type(x @ x.T + 1 - x.sum(dim=0, keepdim=True).mean() / 2, Tensor)
assert_type(x[0], Tensor)
assert_type(1 - x, Tensor)
assert_type(x > 0, Tensor)
assert_type(x.grad, "Tensor | None")
assert_type(x.dim(), int)
assert_type(x.is_contiguous(), bool)
assert_type(x.split(1), tuple[Tensor, ...])
assert_type(torch.cat([x, x]), Tensor)
assert_type(torch.linalg.inv(torch.eye(2)), Tensor)
assert_type(torch.square(torch.randperm(3, device="cpu"), out=torch.arange(3)), Tensor)
assert_type(torch.float32, torch.dtype)
assert_type(torch.allclose(x, x), bool)
assert_type(torch.autograd.grad(x.sum(), [x]), tuple[Any, ...])
assert_type(net.parameters(), Iterator[nn.Parameter])
assert_type(net.gain, nn.Parameter)
assert_type(random_split(Squares(), [2, 2]), list[Subset[tuple[Tensor, int]]])
assert_type(TensorDataset(x, x)[0], tuple[Tensor, ...])
mean = evaluate(net, x) + 1.0
values, places = x.topk(2)


def annotated(x: torch.Tensor, y: torch.FloatTensor, where: torch.device, kind: torch.dtype) -> torch.Size:
    x[0] = y[0]
    x += y
    return (x.view(-1) if len(x) else x.to(where, kind)).shape


def never_called() -> None:
    """Arguments are checked: each line with a comment must be an error, or its comment is one."""
    torch.sni(x)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    x.foo()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    nn.Linear(2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    nn.Linear("2", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    torch.optim.Adam(net.parameters(), lrr=0.1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    F.relu(x, False, x)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    random_split(x, "2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    print(annotated(torch.zeros(2), torch.ones(2), torch.device("cpu"), torch.float32), len(places), mean > 0)
