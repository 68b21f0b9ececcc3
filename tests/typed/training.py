"""What type checkers see of a training loop: parameters keep their types, and `functrace.numpy` has NumPy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import functrace as ft
import functrace.numpy as fnp
from functrace import optim

Array = npt.NDArray[np.float64]


@dataclass
class Line:
    slope: Array
    offset: Array


class Pair(NamedTuple):
    slope: Array
    offset: float


class Options(TypedDict):
    rate: float
    steps: int


def predict(line: Line, x: Array) -> Array:
    return line.slope * x + line.offset


def loss(line: Line, x: Array, y: Array) -> np.float64:
    return np.sum((predict(line, x) - y) ** 2)


def fit(line: Line, x: Array, y: Array, options: Options) -> Line:
    step = ft.jit(ft.value_and_grad(loss))
    optimizer = optim.adam(options["rate"])
    state = optimizer.init(line)
    for _ in range(options["steps"]):
        value, gradient = step(line, x, y)
        assert_type(value, np.float64)
        updates, state = optimizer.update(gradient, state, line)
        line = assert_type(optim.apply_updates(line, updates), Line)
    return line


@ft.checkpoint
def scaled(pair: Pair, x: Array) -> Array:
    return pair.slope * x + pair.offset


class Scaled:
    @ft.jit
    def __call__(self, x: Array, times: int = 1) -> Array:
        return x * times

    @ft.jit(static_argnames="times")
    def predict(self, x: Array, times: int = 1) -> Array:
        return x * times


def small(c: float) -> bool:
    return c < 0.1


def half(c: float) -> float:
    return c / 2.0


def add(c: float, step: float) -> tuple[float, float]:
    return c + step, c


x = np.linspace(0.0, 1.0, 5)
assert_type(fnp.zeros(3).dtype, np.dtype[np.float64])
assert_type(fnp.float64, type[np.float64])
assert_type(fnp.pi, float)
assert_type(fnp.linalg.solve(np.eye(2), np.ones(2)).shape, tuple[Any, ...])
assert_type(scaled(Pair(x, 1.0), x=x), Array)
assert_type(Scaled().predict(x, times=2), Array)
assert_type(Scaled()(x), Array)
assert_type(Scaled.predict.cache_info(), dict[str, int])
assert_type(ft.vmap(predict, in_axes=(None, 0))(Line(x[:1], x[:1]), x), Any)
assert_type(ft.jit(static_argnames="y")(loss).cache_info(), dict[str, int])
assert_type(ft.while_loop(small, half, 1.0), float)
assert_type(ft.fori_loop(0, 3, lambda _, c: half(c), 1.0), float)
assert_type(ft.scan(add, 0.0, x)[0], float)
assert_type(ft.cond(True, loss, loss, Line(x, x), x, x), np.float64)
assert_type(ft.fixed_point(half, 1.0), float)
line = fit(Line(np.zeros(1), np.zeros(1)), x, 3.0 * x + 1.0, {"rate": 0.3, "steps": 200})


def never_called() -> None:
    """Arguments are checked: each line with a comment must be an error, or its comment is one."""
    ft.grad(loss, argnums="0")(line, x, x)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ft.grad(loss)(line, x)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ft.jit(loss)(line, x, z=x)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Scaled().predict(x, time=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ft.profile(loss)(line)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ft.sparse_jacobian(predict)(x, x)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ft.while_loop(lambda c, d: c, lambda c: c, 1.0)  # type: ignore[misc, arg-type]  # pyright: ignore[reportArgumentType]
    fnp.sni(x)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    fnp.linspace(0, 1, nun=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    fit(line, x, x, {"rate": 0.1})  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    print(line.slope.round(3), line.offset.round(3))
