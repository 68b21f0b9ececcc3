"""Learning rates over time. Most rates follow from the one before, so that schedulers can be chained."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from functrace.torch._dtypes import warn
from functrace.torch._missing import Pickled, as_of, missing
from functrace.torch._tensor import Tensor
from functrace.torch.optim.optimizer import Optimizer, number

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use `scheduler.step()` to "
    "step the scheduler."
)
_TOO_EARLY = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the opposite "
    "order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will skip the first value of the learning rate schedule."
)


def put(group: dict[str, Any], name: str, value: Any) -> None:
    """Give an option another value. One that is a tensor is filled, for others may hold it."""
    if isinstance(group[name], Tensor):
        group[name].fill_(number(value))
    else:
        group[name] = value


def _own(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, Tensor) else rate


class LRScheduler(Pickled):
    """The base of all schedulers. A subclass gives in `get_lr` the rate of each group; `last_epoch` counts the steps."""

    _found_in = "functrace.torch.optim.lr_scheduler"
    optimizer: Any

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if not optimizer._has_scheduler:  # steps count from now on
            optimizer._has_scheduler, optimizer._opt_called = True, False
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming scheduler with last_epoch >= 0.\nThis "
                    "typically happens when:\n1. You're trying to resume training from a checkpoint but haven't properly loaded the "
                    "optimizer state\n2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """The step before the first, which sets the first rates."""
        self._step_count, self._is_initial, self._get_lr_called_within_step = 0, True, False
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> Sequence[Any]:
        """The rates to be set: given by subclasses."""
        raise NotImplementedError

    def _group_rates(self) -> list[Any]:
        return [_own(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next step's rates."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warn(_TOO_EARLY)
        self._step_count += 1
        self._get_lr_called_within_step = True  # users' own schedulers ask
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING)
            self._go_to(epoch)
        else:
            self.last_epoch += 1
            self._set_rates(self.get_lr())

    def _go_to(self, epoch: int) -> None:
        """The rates of a step, from the first ones where there is a formula."""
        self.last_epoch = epoch
        self._set_rates(getattr(self, "_get_closed_form_lr", self.get_lr)())

    def _set_rates(self, values: Sequence[Any]) -> None:
        self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            put(group, "lr", lr)
        self._last_lr = self._group_rates()


def spread(x: Any, groups: Sequence[Any], name: str = "") -> list[Any]:
    """What is given for each group, or for all. Raises ValueError for another number of them, if it has a name."""
    found = list(x) if isinstance(x, (list, tuple)) else [x] * len(groups)
    if name and len(found) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(found)} values, param_groups has {len(groups)}."
        )
    return found


class _LRScheduler(LRScheduler):
    """The name of old, to derive from."""


def attributes(f: Any) -> dict[str, Any] | None:
    """What a schedule's state says of a function of its user's: the attributes of an object; None of what is only code."""
    return None if f is None or isinstance(f, FunctionType) else dict(f.__dict__)


class LambdaLR(LRScheduler):
    """The first rate times a function of the step."""

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas, n = spread(lr_lambda, optimizer.param_groups), len(optimizer.param_groups)
        if len(self.lr_lambdas) != n:
            raise ValueError(f"Expected {n} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["lr_lambdas"] = [attributes(f) for f in state.pop("lr_lambdas")]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for f, found in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            f.__dict__.update(found or {})

    def get_lr(self) -> Sequence[Any]:
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(LambdaLR):
    """The rate before times a function of the step."""

    def get_lr(self) -> Sequence[Any]:
        return self._group_rates() if self._is_initial else [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._group_rates())]


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._group_rates()
        return [lr * self.gamma for lr in self._group_rates()]

    def _get_closed_form_lr(self) -> Sequence[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each milestone."""

    def __init__(self, optimizer: Any, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        if self.last_epoch not in self.milestones:
            return self._group_rates()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._group_rates()]

    def _get_closed_form_lr(self) -> Sequence[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times `factor` for the first `total_iters` steps."""

    def __init__(self, optimizer: Any, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        factor = self.factor if self.last_epoch == 0 else 1 / self.factor if self.last_epoch == self.total_iters else None
        return self._group_rates() if factor is None else [lr * factor for lr in self._group_rates()]

    def _get_closed_form_lr(self) -> Sequence[Any]:
        return [lr * (self.factor if self.last_epoch < self.total_iters else 1.0) for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes from one number to another in `total_iters` steps."""

    def __init__(
        self, optimizer: Any, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        k, n, a, b = self.last_epoch, self.total_iters, self.start_factor, self.end_factor
        if k == 0:
            return [lr * a for lr in self._group_rates()]
        if self._is_initial or k > n:
            return self._group_rates()
        return [lr * (1.0 + (b - a) / (n * a + (k - 1) * (b - a))) for lr in self._group_rates()]

    def _get_closed_form_lr(self) -> Sequence[Any]:
        k = min(self.total_iters, self.last_epoch)
        return [lr * (self.start_factor + (self.end_factor - self.start_factor) * k / self.total_iters) for lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times `gamma` every step."""

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        return self._group_rates() if self._is_initial else [lr * self.gamma for lr in self._group_rates()]

    def _get_closed_form_lr(self) -> Sequence[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate down to 0 in `total_iters` steps, as a power of what remains."""

    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        k, n = self.last_epoch, self.total_iters
        if self._is_initial or k > n:
            return self._group_rates()
        return [lr * ((1.0 - k / n) / (1.0 - (k - 1) / n)) ** self.power for lr in self._group_rates()]

    def _get_closed_form_lr(self) -> Sequence[Any]:
        k, n = min(self.total_iters, self.last_epoch), self.total_iters
        return [lr * (1.0 - k / n) ** self.power for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate down to `eta_min` in `T_max` steps, along a cosine (Loshchilov and Hutter 2016, without restarts)."""

    def __init__(self, optimizer: Any, T_max: float, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        k, n, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._group_rates()
        if self._step_count == 1 and k > 0:
            return [low + (base - low) * (1 + math.cos(k * math.pi / n)) / 2 for base in self.base_lrs]
        if (k - 1 - n) % (2 * n) == 0:
            return [lr + (base - low) * (1 - math.cos(math.pi / n)) / 2 for base, lr in zip(self.base_lrs, self._group_rates())]
        return [(1 + math.cos(math.pi * k / n)) / (1 + math.cos(math.pi * (k - 1) / n)) * (lr - low) + low for lr in self._group_rates()]

    def _get_closed_form_lr(self) -> Sequence[Any]:
        k, n, low = self.last_epoch, self.T_max, self.eta_min
        return [low + (base - low) * (1 + math.cos(math.pi * k / n)) / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to `eta_min` along a cosine, again and again, each time `T_mult` times as long (Loshchilov and Hutter 2016)."""

    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        low = self.eta_min
        return [low + (base - low) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next step's rates; or to those of `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self.T_i, self.T_cur = self.T_0, epoch
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr())


def _undo(schedulers: Sequence[Any]) -> None:
    """Take back the first step of schedulers, and of those within them."""
    rest = list(schedulers)
    while rest:
        scheduler = rest.pop()
        if hasattr(scheduler, "_schedulers"):
            rest.extend(scheduler._schedulers)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1


def _one_optimizer(name: str, optimizer: Any, schedulers: Sequence[Any]) -> None:
    """Whether several schedulers can be one."""
    if len(schedulers) < 1:
        more = " to be chained" if name == "ChainedScheduler" else ""
        raise ValueError(f"{name} expects at least one scheduler{more}, but got no scheduler.")
    optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
    for k, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {k} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified when calling "
                f"`step`, but got one at index {k} in the given schedulers sequence."
            )
        if scheduler.optimizer != optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler {type(scheduler).__name__} at index "
                f"{k} has {scheduler.optimizer}, which is different from {type(optimizer).__name__}."
            )


class SequentialLR(LRScheduler):
    """One scheduler after another, from milestone to milestone."""

    def __init__(self, optimizer: Any, schedulers: Sequence[Any], milestones: Sequence[int], last_epoch: int = -1) -> None:
        _one_optimizer("SequentialLR", optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone points, but got "
                f"number of schedulers {len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones, self.last_epoch = optimizer, schedulers, list(milestones), last_epoch + 1
        for group in optimizer.param_groups:
            put(group, "lr", group["initial_lr"])
        _undo(schedulers)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        self.last_epoch += 1
        scheduler = self._schedulers[bisect_right(self._milestones, self.last_epoch)]
        if self.last_epoch in self._milestones:
            scheduler._go_to(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["_schedulers"] = [s.state_dict() for s in state.pop("_schedulers")]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class ChainedScheduler(SequentialLR):
    """Several schedulers at once."""

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None:
        _one_optimizer("ChainedScheduler", optimizer, schedulers)
        self.optimizer, self._schedulers = optimizer or schedulers[0].optimizer, schedulers
        self._last_lr = self._group_rates()

    def step(self, epoch: int | None = None) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._group_rates()


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a number has not become better for `patience` steps."""

    def __init__(
        self,
        optimizer: Any,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.factor, self.optimizer = factor, optimizer
        self.default_min_lr: Any = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = spread(min_lr, optimizer.param_groups)
        if len(self.min_lrs) != len(optimizer.param_groups):
            raise ValueError(f"expected {len(optimizer.param_groups)} min_lrs, got {len(self.min_lrs)}")
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = self._group_rates()
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a is better than the best by more than the threshold."""
        sign = -1 if self.mode == "min" else 1
        bound = best * (1.0 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    @property
    def in_cooldown(self) -> bool:
        """Whether the rate was just reduced."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of the number, and reduce the rates if it is time."""
        current = float(metrics)
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            groups = self.optimizer.param_groups
            if len(groups) != len(self.min_lrs):
                if self.default_min_lr is None:
                    raise RuntimeError(
                        f"The number of param groups in the `optimizer` ({len(groups)}) differs from when `ReduceLROnPlateau` was "
                        f"initialized ({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. Please modify "
                        "the `min_lrs` field to match the length of the `optimizer` param groups."
                    )
                self.min_lrs = [self.default_min_lr] * len(groups)
            for group, least in zip(groups, self.min_lrs):
                lower = max(group["lr"] * self.factor, least)
                if group["lr"] - lower > self.eps:
                    put(group, "lr", lower)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._group_rates()


__getattr__ = missing("torch.optim", {"OneCycleLR": "lr_cycles", "CyclicLR": "lr_cycles"})
globals()["__all__"] = [name for name in (*globals(), "OneCycleLR", "CyclicLR") if name[0].isupper()]  # for `import *`


as_of("torch.optim.lr_scheduler", *(x for x in list(globals().values()) if isinstance(x, type) and issubclass(x, LRScheduler)))
