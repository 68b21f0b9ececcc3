"""Learning rates that go up and down."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from functrace.torch._missing import as_of
from functrace.torch.optim.lr_scheduler import LRScheduler, attributes, put, spread


def _has_beta1(optimizer: Any) -> bool:
    if not any(k in optimizer.defaults for k in ("momentum", "betas")):
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def _set_momentum(group: Any, momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        put(group, "momentum", momentum)


def _phases(total: int, first: float, three: bool) -> list[dict[str, Any]]:
    """The phases of a cycle: the step at which each ends, and the options of a group between which it goes."""
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    rows: list[Any] = [(float(first * total) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
    if three:
        rows.append((2 * first * total - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
        rows.append((total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
    else:
        rows.append((total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
    return [dict(zip(names, row)) for row in rows]


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and far down again, and the momentum the other way round (Smith and Topin 2017)."""

    def __init__(
        self,
        optimizer: Any,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps, self._schedule_phases = total_steps, _phases(total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        groups = optimizer.param_groups
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _has_beta1(optimizer)
        momenta = zip(spread(base_momentum, groups, "base_momentum"), spread(max_momentum, groups, "max_momentum"))
        for group, lr, (low, high) in zip(groups, spread(max_lr, groups, "max_lr"), momenta):
            if last_epoch == -1:
                group["initial_lr"] = lr / div_factor
                group["max_lr"], group["min_lr"] = lr, group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    _set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for k, phase in enumerate(self._schedule_phases):
                end, lr0, lr1, m0, m1 = phase.values()
                if step <= end or k == len(self._schedule_phases) - 1:
                    part = (step - start) / (end - start)
                    rates.append(self._between(group[lr0], group[lr1], part))
                    if self.cycle_momentum:
                        _set_momentum(group, self._between(group[m0], group[m1], part))
                    break
                start = end
        return rates

    def _between(self, a: float, b: float, part: float) -> float:
        return b + (a - b) / 2.0 * (math.cos(math.pi * part) + 1) if self._anneal_func_type == "cos" else (b - a) * part + a


class CyclicLR(LRScheduler):
    """Up and down between two rates (Smith 2015)."""

    def __init__(
        self,
        optimizer: Any,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        groups = optimizer.param_groups
        down = step_size_up if step_size_down is None else step_size_down
        base_lrs, self.max_lrs = spread(base_lr, groups, "base_lr"), spread(max_lr, groups, "max_lr")
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        for group, lr in zip(groups, base_lrs):
            if last_epoch == -1:
                put(group, "lr", lr)
        if cycle_momentum:
            self.use_beta1 = _has_beta1(optimizer)
            self.base_momentums = spread(base_momentum, groups, "base_momentum")
            self.max_momentums = spread(max_momentum, groups, "max_momentum")
            for group, low, high in zip(groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["_scale_fn_custom"] = attributes(state.pop("_scale_fn_custom"))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"] or {})

    def _scaled(self, cycle: float) -> float:
        x = cycle if self.scale_mode == "cycle" else self.last_epoch
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> Sequence[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        part = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        factor = self._scaled(cycle)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, high - (high - low) * part * factor)
        return [base + (top - base) * part * factor for base, top in zip(self.base_lrs, self.max_lrs)]


as_of("torch.optim.lr_scheduler", OneCycleLR, CyclicLR)
