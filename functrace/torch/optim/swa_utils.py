"""`torch.optim.swa_utils`: averages of a model's parameters over training, and the learning rate that goes with them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from functrace.torch._create import tensor
from functrace.torch._modes import no_grad
from functrace.torch.nn.module import Module
from functrace.torch.nn.normalization import _BatchNorm
from functrace.torch.optim.lr_scheduler import LRScheduler, spread

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def _decaying(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """The exponential moving average of one parameter."""
    _decaying(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """The mean of one parameter."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _in_place(weight_of: Callable[[Any], float]) -> Callable[..., None]:
    @no_grad()
    def update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        weight = weight_of(num_averaged)
        for mean, p in zip(averaged_param_list, current_param_list):
            if mean._a.dtype.kind in "fc":
                mean.lerp_(p, weight)
            else:
                mean.copy_(mean + (p - mean) * weight)

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """The exponential moving average of a list of parameters, in place."""
    _decaying(decay)
    return _in_place(lambda _num_averaged: 1 - decay)


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The mean of a list of parameters, in place."""
    return _in_place(lambda num_averaged: 1 / (float(num_averaged) + 1))


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that `update_parameters` is shown."""

    __module__ = "torch.optim.swa_utils"
    _found_in = __name__
    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model).to(device=device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged_state(self, model: Module) -> list[Any]:
        return [t.detach() for t in (*model.parameters(), *(model.buffers() if self.use_buffers else ()))]

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of a model into the average."""
        means, news = self._averaged_state(self.module), self._averaged_state(model)
        count = self.n_averaged
        if count == 0:
            for mean, new in zip(means, news):
                mean.copy_(new)
        elif self.avg_fn is not None:
            for mean, new in zip(means, news):
                mean.copy_(self.avg_fn(mean, new, count))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(means, news, count)
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers()):
                mine.detach().copy_(theirs.detach())
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Let batch normalisations find their statistics anew from the batches of a loader."""
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    momenta = [m.momentum for m in layers]
    training = model.training
    for m in layers:
        m.reset_running_stats()
        m.momentum = None
    model.train()
    for batch in loader:
        model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for m, momentum in zip(layers, momenta):
        m.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the learning rate that there is to `swa_lr` within some epochs, then constant."""

    __module__ = "torch.optim.swa_utils"
    _found_in = __name__

    def __init__(self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for rate, group in zip(spread(swa_lr, optimizer.param_groups, "swa_lr"), optimizer.param_groups):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        t = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self.anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        step = max(self._step_count - 1, not self.anneal_epochs)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            start = group["lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
