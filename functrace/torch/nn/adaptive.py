"""Softmax over so many classes that most of them are rare, in time that depends on the frequent ones."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from functrace.torch._create import empty
from functrace.torch._dtypes import int64
from functrace.torch.nn import functional
from functrace.torch.nn.containers import ModuleList, Sequential
from functrace.torch.nn.module import Module
from functrace.torch.nn.weighted import Linear

F: Any = functional
_Output = namedtuple("_ASMoutput", ["output", "loss"])  # type: ignore[name-match]


class AdaptiveLogSoftmaxWithLoss(Module):
    """The adaptive softmax (Grave et al. 2016). Classes are numbered from frequent to rare, and cut into clusters at `cutoffs`.

    The first cluster, and the others as wholes, are what `head` tells apart; the classes of each other cluster are told apart
    by a smaller map of its own. A call with inputs and targets gives each target's log-probability, and the mean loss.
    """

    __module__ = "torch.nn.modules.adaptive"

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1 or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between 1 "
                "and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for k, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:]), 1):
            inner = int(in_features // div_value**k)
            maps = ((in_features, inner), (inner, high - low))
            self.tail.append(Sequential(*(Linear(m, n, bias=False, device=device, dtype=dtype) for m, n in maps)))

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input: Any, target: Any) -> Any:
        wanted = target.dim() + 1
        if wanted > 2:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if wanted == 2 and input.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != wanted:
            raise RuntimeError(f"{wanted - 1}D target tensor expects {wanted}D input tensors, but found inputs with size {input.size()}")
        x, y = (input, target) if wanted == 2 else (input.unsqueeze(0), target.unsqueeze(0))
        if not ((y >= 0) & (y < self.n_classes)).all():
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{y.min().item()}, {y.max().item()}] were "
                "found. "
            )
        output, places = x.new_zeros(y.size(0)), empty(y.size(0), dtype=int64)
        for k, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs)):
            chosen = ((y >= low) & (y < high)).nonzero().squeeze(1)
            if not chosen.numel():
                continue
            numbers = y[chosen] - low
            if not k:
                places[chosen] = numbers
                continue
            places[chosen] = self.shortlist_size + k - 1
            inside = F.log_softmax(self.tail[k - 1](x.index_select(0, chosen)), dim=1)
            output = output.index_copy(0, chosen, inside.gather(1, numbers.unsqueeze(1)).squeeze(1))
        output = output + F.log_softmax(self.head(x), dim=1).gather(1, places.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _Output(output if wanted == 2 else output.squeeze(0), loss)

    def log_prob(self, input: Any) -> Any:
        """The log-probabilities of all classes, (batch, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        out = input.new_empty(head.size(0), self.n_classes)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for k, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            out[:, low:high] = F.log_softmax(self.tail[k](input), dim=1) + head[:, self.shortlist_size + k].unsqueeze(1)
        return out

    def predict(self, input: Any) -> Any:
        """The most probable class of each input."""
        best = self.head(input).argmax(dim=1)
        rare = best >= self.shortlist_size
        if rare.any():
            best[rare] = self.log_prob(input[rare]).argmax(dim=1)
        return best
