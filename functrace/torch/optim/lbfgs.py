"""L-BFGS (Nocedal and Wright, chapter 7), with a fixed step or a line search that meets the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._missing import as_of
from functrace.torch._modes import enable_grad
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.optim.optimizer import Array, Optimizer, State, number, real

Point = tuple[Any, float, Array, Any]  # step, loss, gradient, slope; step and slope in the dtype of the parameters, as in PyTorch


def _cubic(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimum of the cubic through two values and slopes, kept within bounds (between the two points)."""
    if a[0] > b[0]:
        a, b = b, a
    low, high = bounds or (a[0], b[0])
    with np.errstate(all="ignore"):  # of a straight line it is infinite
        d = a[3] + b[3] - 3 * (a[1] - b[1]) / (a[0] - b[0])
        root = np.sqrt(d * d - a[3] * b[3])
        least = (low + high) / 2.0 if np.isnan(root) else b[0] - (b[0] - a[0]) * ((b[3] + root - d) / (b[3] - a[3] + 2 * root))
    return min(max(least, low), high)


def _search(
    at: Callable[[Any], tuple[float, Array]], t: Any, d: Array, start: Point, most: int, tolerance: float, c1: float = 1e-4, c2: float = 0.9
) -> tuple[Point, int]:
    """A step that meets the strong Wolfe conditions: bracket one, then close in, in at most `most` steps and a first one.

    Returns it, and how often the loss was computed.
    """
    scale = np.abs(d).max()
    _, loss, _, slope = start

    def point(t: Any) -> Point:
        f, g = at(t)
        return t, f, g, g @ d

    now, before, calls, tries = point(t), start, 1, 0
    while tries < most:
        if now[1] > loss + c1 * now[0] * slope or (tries > 1 and now[1] >= before[1]):
            break
        if abs(now[3]) <= -c2 * slope:
            return now, calls
        if now[3] >= 0:
            break
        t = _cubic(before, now, (now[0] + 0.01 * (now[0] - before[0]), now[0] * 10))
        before, now = now, point(t)
        calls, tries = calls + 1, tries + 1
    else:
        before = start
    bracket, stuck = [before, now], False
    best, worst = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
    while tries < most:
        a, b = bracket
        if abs(b[0] - a[0]) * scale < tolerance:
            break
        t = _cubic(a, b)
        low, high = min(a[0], b[0]), max(a[0], b[0])
        margin = 0.1 * (high - low)
        if min(high - t, t - low) < margin:
            if stuck or t >= high or t <= low:
                t = high - margin if abs(t - high) < abs(t - low) else low + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = point(t)
        calls, tries = calls + 1, tries + 1
        if new[1] > loss + c1 * t * slope or new[1] >= bracket[best][1]:
            bracket[worst] = new
            best, worst = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
            continue
        done = abs(new[3]) <= -c2 * slope
        if not done and new[3] * (bracket[worst][0] - bracket[best][0]) >= 0:
            bracket[worst] = bracket[best]
        bracket[best] = new
        if done:
            break
    return bracket[best], calls


def _cubic_interpolate(x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: Any = None) -> Any:
    """`_cubic` by PyTorch's name, for libraries that import it."""
    return _cubic((x1, f1, np.empty(0), g1), (x2, f2, np.empty(0), g2), bounds)


def _strong_wolfe(
    obj_func: Any,
    x: Any,
    t: Any,
    d: Any,
    f: Any,
    g: Any,
    gtd: Any,
    c1: Any = 1e-4,
    c2: Any = 0.9,
    tolerance_change: Any = 1e-9,
    max_ls: Any = 25,
) -> Any:
    """`_search` by PyTorch's name, for libraries that import it: the loss and its gradient at a step, the step, and the calls."""

    def at(t: Any) -> tuple[float, Array]:
        loss, slope = obj_func(x, t, d)
        return float(loss), slope._a

    start = (0, float(f), g._a, number(gtd))
    (t, loss, slope, _), calls = _search(at, number(t), d._a, start, max_ls, tolerance_change, c1, c2)
    return loss, wrap(slope), t, calls


class _Memory:
    """What is remembered of the last steps: the changes of the gradient, the steps, 1 over their products, and a scale."""

    def __init__(self, s: State) -> None:
        self.changes, self.steps, self.ro = ([x._a for x in s.get(k, [])] for k in ("old_dirs", "old_stps", "ro"))
        self.scale = number(s.get("H_diag", 1))

    def learn(self, change: Array, moved: Array, most: int) -> None:
        """Remember a step, and forget the oldest of more than `most`."""
        curvature = float(change @ moved)
        if curvature <= 1e-10:
            return
        if len(self.changes) == most:
            for row in (self.changes, self.steps, self.ro):
                row.pop(0)
        self.changes.append(change)
        self.steps.append(moved)
        self.ro.append(np.asarray(1.0 / curvature, change.dtype))
        self.scale = curvature / float(change @ change)

    def direction(self, g: Array, alphas: list[Any]) -> Array:
        """Where to go: Nocedal and Wright, algorithm 7.4."""
        q = -g
        for k in reversed(range(len(self.ro))):
            alphas[k] = (self.steps[k] @ q) * self.ro[k]
            q = q - alphas[k] * self.changes[k]
        d = q * q.dtype.type(self.scale)
        for y, x, r, a in zip(self.changes, self.steps, self.ro, alphas):
            d = d + x * (a - (y @ d) * r)
        return d

    def kept(self) -> State:
        """What is remembered, as tensors, for the state."""
        rows = {"old_dirs": self.changes, "old_stps": self.steps, "ro": self.ro}
        return {**{k: list(map(wrap, row)) for k, row in rows.items()}, "H_diag": self.scale}


class LBFGS(Optimizer):
    """L-BFGS. `step` needs a closure that computes the loss and the gradients, and calls it many times."""

    _default_options = {
        "lr": 1, "max_iter": 20, "max_eval": None, "tolerance_grad": 1e-7, "tolerance_change": 1e-9, "history_size": 100,
        "line_search_fn": None,
    }  # fmt: skip
    _positional_options = tuple(_default_options)

    def _check_options(self, o: dict[str, Any]) -> None:
        super()._check_options(o)
        o["max_eval"] = o["max_iter"] * 5 // 4 if o["max_eval"] is None else o["max_eval"]

    def _ready_state(self) -> None:
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._ready_state()

    def _gather_flat_grad(self) -> Array:
        return np.concatenate([real(np.zeros_like(p._a) if p._grad is None else p._grad._a).ravel() for p in self._params])

    def _move_along(self, t: Any, d: Array) -> None:
        start = 0
        for p in self._params:
            a = real(p._a)
            a += (t * d[start : start + a.size]).reshape(a.shape)
            p._ver[0] += 1
            start += a.size

    def _searched_along(self, evaluate: Callable[[], Any], t: Any, d: Array, here: Point, most: int, tolerance: float) -> tuple[Point, int]:
        """Move by a step that the line search finds. Returns it, and how often the loss was computed."""
        start = [p._a.copy() for p in self._params]

        def at(t: Any) -> tuple[float, Array]:
            self._move_along(t, d)
            f, g = number(evaluate()), self._gather_flat_grad()
            for p, a in zip(self._params, start):
                p._a[...] = a
            return f, g

        found, calls = _search(at, t, d, here, most, tolerance)
        self._move_along(found[0], d)
        return found, calls

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations. Returns the loss at the start."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        o, s = self.param_groups[0], self.state[self._params[0]]
        lr, search = number(o["lr"]), o["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        s.setdefault("func_evals", 0)
        s.setdefault("n_iter", 0)

        def evaluate() -> Any:
            with enable_grad():
                return closure()

        first = evaluate()
        loss, evaluations = number(first), 1
        s["func_evals"] += 1
        g = self._gather_flat_grad()
        if np.abs(g).max() <= o["tolerance_grad"]:
            return first
        memory, loss_before = _Memory(s), s.get("prev_loss")
        d, g_before = (None if s.get(k) is None else s[k]._a for k in ("d", "prev_flat_grad"))
        t = number(s.get("t"))
        iterations = 0
        while iterations < o["max_iter"]:
            iterations += 1
            s["n_iter"] += 1
            if d is None:
                d, memory = -g, _Memory({})
            else:
                memory.learn(g - g_before, d * d.dtype.type(t), o["history_size"])
                d = memory.direction(g, s.setdefault("al", [None] * o["history_size"]))
            g_before, loss_before = g.copy(), loss
            t = min(1.0, 1.0 / np.abs(g).sum()) * lr if s["n_iter"] == 1 else lr
            slope = g @ d
            if slope > -o["tolerance_change"]:
                break
            calls = 0
            if search is not None:
                here, most = (0.0, loss, g, slope), o["max_eval"] - evaluations
                (t, loss, g, _), calls = self._searched_along(evaluate, t, d, here, most, o["tolerance_change"])
            else:
                self._move_along(t, d)
                if iterations != o["max_iter"]:
                    loss, g, calls = number(evaluate()), self._gather_flat_grad(), 1
            evaluations += calls
            s["func_evals"] += calls
            if (
                evaluations >= o["max_eval"]
                or np.abs(g).max() <= o["tolerance_grad"]
                or np.abs(d * t).max() <= o["tolerance_change"]
                or abs(loss - loss_before) < o["tolerance_change"]
            ):
                break
        if "al" in s:
            s["al"] = [a if a is None or isinstance(a, Tensor) else wrap(np.asarray(a)) for a in s["al"]]
        s.update(d=wrap(d), t=t, **memory.kept(), prev_flat_grad=wrap(g_before), prev_loss=loss_before)
        return first


as_of("torch.optim.lbfgs", LBFGS)
