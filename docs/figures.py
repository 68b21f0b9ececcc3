"""Writes the figures of the pages, `docs/figures/*.svg`: `python -m docs.figures --write`; without it they are compared.

Graphs are drawn by `ft.draw`, plots by `plot` below, from numbers that are the same on every machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import functrace as ft
from docs.pages import main
from functrace import torch

FOLDER = Path(__file__).resolve().parent / "figures"
FIGURES: dict[str, Callable[[], str]] = {}

_COLOURS = ("#3f78bd", "#c8642b", "#3f9a5f", "#8a5fb8")
_GREY = "#7f8894"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 620, 360, 70, 40, 24, 52


def figure(draw: Callable[[], Any]) -> Callable[[], Any]:
    """Declare a figure: the function returns a drawing, or the text of an SVG file, which takes its name."""

    def text() -> str:
        made = draw()
        svg = made if isinstance(made, str) else made.svg
        return re.sub(r"[^\s>\"]*[\\/](figures\.py)", r"\1", svg).rstrip() + "\n"  # wherever the project lies

    FIGURES[draw.__name__] = text
    return draw


class Axis:
    """Places of numbers along one axis, linear or logarithmic, from `first` to `last` pixels."""

    def __init__(self, low: float, high: float, first: float, last: float, log: bool = False) -> None:
        self.low, self.high, self.first, self.last, self.log = low, high, first, last, log

    def __call__(self, x: float) -> float:
        a, b, c = np.log10([self.low, self.high, x]) if self.log else (self.low, self.high, x)
        return round(float(self.first + (c - a) / (b - a) * (self.last - self.first)), 1)


def _text(x: float, y: float, text: str, more: str = "", fill: str = _GREY) -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" {more}>{text.replace("&", "&amp;").replace("<", "&lt;")}</text>'


def _power(k: int) -> tuple[float, str]:
    """A tick at a power of ten."""
    return 10.0**k, "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")) if k else "1"


def plot(
    title: str,
    x: tuple[str, float, float, bool, Sequence[tuple[float, str]]],
    y: tuple[str, float, float, bool, Sequence[tuple[float, str]]],
    curves: Sequence[tuple[str, Any, Any, tuple[float, float]]],
    dashed: Sequence[int] = (),
) -> str:
    """A plot as SVG.

    `x` and `y` are `(label, low, high, logarithmic, ticks)`, a tick being a place and its text. A curve is `(label, xs, ys, where)`: its
    label stands at the point `where`.
    """
    across = Axis(x[1], x[2], _LEFT, _WIDTH - _RIGHT, x[3])
    up = Axis(y[1], y[2], _HEIGHT - _BOTTOM, _TOP, y[3])
    base, left = _HEIGHT - _BOTTOM, _LEFT
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="img" aria-label="{title}" style="max-width:100%;height:auto">',
        f'<g font-family="{_FONT}" font-size="12">',
        _text(_LEFT, 24, title, 'font-weight="bold" font-size="13"'),
        f'<g stroke="{_GREY}" stroke-opacity="0.25">',
        *(f'<path d="M{across(t)} {base}V{_TOP}"/>' for t, _ in x[4]),
        *(f'<path d="M{left} {up(t)}H{_WIDTH - _RIGHT}"/>' for t, _ in y[4]),
        "</g>",
        f'<path d="M{left} {_TOP}V{base}H{_WIDTH - _RIGHT}" fill="none" stroke="{_GREY}"/>',
        *(_text(across(t), base + 18, name, 'text-anchor="middle"') for t, name in x[4]),
        *(_text(left - 8, up(t) + 4, name, 'text-anchor="end"') for t, name in y[4]),
        _text((left + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, x[0], 'text-anchor="middle"'),
        _text(18, (_TOP + base) / 2, y[0], f'text-anchor="middle" transform="rotate(-90 18 {(_TOP + base) / 2:g})"'),
    ]
    for k, (label, xs, ys, (lx, ly)) in enumerate(curves):
        points = " ".join(f"{across(a)},{up(b)}" for a, b in zip(xs, ys))
        dash = ' stroke-dasharray="6 4"' if k in dashed else ""
        colour = _COLOURS[k % len(_COLOURS)]
        rows.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"{dash}/>')
        rows.append(_text(across(lx), up(ly), label, fill=colour))
    return "\n".join([*rows, "</g>", "</svg>"])


# The book


def _truncated(x: Fraction, h: Fraction) -> float:
    """The error of the complex step for x / (1 + x**2), without rounding."""
    real, imag = 1 + x * x - h * h, 2 * x * h
    return float(abs((h * real - x * imag) / (real**2 + imag**2) / h - (1 - x * x) / (1 + x * x) ** 2))


@figure
def differences() -> str:
    """Chapter 1: the error of difference quotients."""
    point = 0.3
    f = lambda x: x / (1 + x * x)
    slope = (1 - point * point) / (1 + point * point) ** 2
    steps = np.ldexp(1.3, -np.arange(4, 50))  # exact: the noise is the same everywhere
    forward = [max(abs((f(point + h) - f(point)) / h - slope), 1e-12) for h in steps]
    central = [max(abs((f(point + h) - f(point - h)) / (2 * h) - slope), 1e-12) for h in steps]
    complex_step = [_truncated(Fraction(3, 10), Fraction(h)) + 3e-16 for h in steps]  # and rounding
    return plot(
        "error of a derivative, by the step",
        ("step h", 1e-15, 1e-1, True, [_power(k) for k in range(-15, 0, 2)]),
        ("error", 1e-17, 1.0, True, [_power(k) for k in range(-16, 1, 4)]),
        [
            ("forward difference", steps, forward, (2e-10, 1e-4)),
            ("central difference", steps, central, (2e-5, 4e-12)),
            ("complex step", steps, complex_step, (1e-13, 2e-15)),
        ],
        dashed=(2,),
    )


def f(x1: Any, x2: Any) -> Any:
    """The example of chapters 2 and 5."""
    return x1 * x2 + np.sin(x1)


@figure
def forward_graph() -> Any:
    """Chapter 2: a program as a graph."""
    return ft.draw(f, 2.0, 3.0)


@figure
def reverse_graph() -> Any:
    """Chapter 5: the way of the cotangents."""
    return ft.draw(f, 2.0, 3.0, backward=True)


@figure
def checkpoints() -> str:
    """Chapter 5: how many values are kept as a run of 100 steps goes forwards and back."""
    n, part = 100, 10
    whole = [*range(n), *range(n, -1, -1)]
    parts = [k // part for k in range(n)]
    for left in range(n // part, 0, -1):
        parts += [left + k for k in range(part)] + [left + part - k for k in range(part)]
    parts.append(0)
    return plot(
        "values kept, 100 steps forwards and back",
        ("steps run", 0, 300, False, [(k, str(k)) for k in range(0, 301, 50)]),
        ("values", 0, 105, False, [(k, str(k)) for k in range(0, 101, 25)]),
        [("all of them", range(len(whole)), whole, (122, 92)), ("10 checkpoints", range(len(parts)), parts, (200, 26))],
    )


def cube(x: Any) -> Any:
    """The example of chapter 8."""
    return x * x * x


@figure
def gradient_graph() -> Any:
    """Chapter 8: the tape of a derivative."""
    return ft.draw(ft.grad(cube), 2.0)


@figure
def subgradients() -> str:
    """Chapter 9: slopes below the absolute value."""
    xs = np.array([-1.0, 0.0, 1.0])
    return plot(
        "|x|, and three of its subgradients at 0",
        ("x", -1, 1, False, [(-1, "-1"), (0, "0"), (1, "1")]),
        ("y", -0.6, 1, False, [(-0.5, "-0.5"), (0, "0"), (0.5, "0.5"), (1, "1")]),
        [
            ("|x|", xs, np.abs(xs), (0.62, 0.78)),
            ("slope 0: chosen", xs, 0 * xs, (-0.95, 0.04)),
            ("slope 1/2", xs, xs / 2, (0.64, 0.17)),
            ("slope -1/2", xs, -xs / 2, (0.64, -0.21)),
        ],
        dashed=(2, 3),
    )


@figure
def compiled_graph() -> Any:
    """Chapter 11: the recorded program of a gradient."""

    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sin(x) * y) ** 2

    gradient = ft.jit(ft.grad(f))
    gradient(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    return ft.draw(gradient)


@figure
def grad_fn_graph() -> Any:
    """Chapter 12: the history of a tensor."""
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    h = w @ torch.tensor([1.0, -1.0])
    loss = (torch.tanh(h) * h).sum()
    return ft.draw(loss, backward=True)


# The guides


@figure
def loss_graph() -> Any:
    """Debugging: a model."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        error = np.tanh(z) - y
        return np.mean(error**2)

    return ft.draw(loss, np.array([0.5, -0.5]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))


if __name__ == "__main__":
    sys.exit(main((FOLDER / f"{name}.svg", text()) for name, text in FIGURES.items()))
