"""What type checkers see: transforms keep a function's signature. Run by mypy and pyright, and as a program by `test_typed.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import assert_type

import functrace as ft


def loss(w: float, x: float, *, scale: float = 1.0) -> float:
    return (w * x) ** 2 * scale


assert_type(ft.value_and_grad(loss)(1.0, 2.0), tuple[float, Any])
assert_type(ft.value_and_grad(loss)(1.0, x=2.0, scale=3.0), tuple[float, Any])
assert_type(ft.checkpoint(loss)(1.0, 2.0), float)
assert_type(ft.stop_gradient(1.0), float)
assert_type(ft.vmap(loss, (None, 0))(1.0, np.ones(3))[0], Any)  # of arrays where the function is of numbers
assert_type(ft.optim.adam(0.1), ft.optim.GradientTransformation)
assert_type(ft.torch.ones(2), ft.torch.Tensor)

jitted = ft.jit(loss)
assert_type(jitted(1.0, 2.0, scale=3.0), float)
assert_type(jitted.cache_info(), dict[str, int])
assert_type(jitted.explain(), str)


@ft.jit
def plain(x: float) -> str | float:
    return x * 2


@ft.jit(static_argnums=1)
def options(x: float, n: int) -> float:
    return x**n


assert_type(plain(1.0), str | float)
assert_type(options(2.0, 3), float)


@ft.custom_vjp
def clipped(x: float, limit: float) -> float:
    return min(x, limit)


clipped.defvjp(lambda x, limit: (min(x, limit), (x, limit)), lambda res, g: (g * (res[0] < res[1]), None))
assert_type(clipped(1.0, limit=2.0), float)

out, pullback = ft.vjp(loss, 1.0, 2.0)
assert_type(out, float)
assert_type(pullback, Callable[[float], tuple[Any, ...]])
value, tangent = ft.jvp(loss, (1.0, 2.0), (1.0, 0.0))
assert_type(tangent, float)
with_aux = ft.vjp(lambda x: (x * 2.0, "aux"), 1.0, has_aux=True)
assert_type(with_aux[2], str)
assert_type(ft.trace(loss)(1.0, 2.0).to_python(), str)
assert_type(ft.trace(loss)(1.0, 2.0).draw().svg, str)


def never_called() -> None:
    """Arguments are checked: each line with a comment must be an error, or its comment is one."""
    ft.grad(loss)("1", 2.0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ft.grad(loss)(1.0, 2.0, sclae=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ft.value_and_grad(loss)(1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ft.hessian(loss)()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ft.jit(loss)(1.0, 2.0, 3.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ft.checkpoint(loss)(None, 2.0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    clipped("x", 1.0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    print(float(out), np.float64(tangent))
