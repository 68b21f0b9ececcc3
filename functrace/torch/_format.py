"""How tensors are printed: PyTorch's rules for precision, scientific notation, width, summaries and line breaks."""

from __future__ import annotations

import math
import textwrap
from types import SimpleNamespace
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._contact import value
from functrace.torch._engine import AccumulateGrad, below
from functrace.torch._layout import Meta
from functrace.torch._modes import forward_levels, transforms


class _Options:
    precision = 4
    threshold: float = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


PRINT_OPTS = _Options()
_PROFILES: dict[str, tuple[int, float, int, int]] = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed; an argument left out keeps its value, but `sci_mode` goes back to automatic."""
    if profile in _PROFILES:
        PRINT_OPTS.precision, PRINT_OPTS.threshold, PRINT_OPTS.edgeitems, PRINT_OPTS.linewidth = _PROFILES[profile]
    for name, given in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if given is not None:
            setattr(PRINT_OPTS, name, given)
    PRINT_OPTS.sci_mode = sci_mode


class _Column:
    """How the real numbers of one tensor are written: integral, fixed or scientific, and how wide."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.integral, self.sci, self.width = True, False, 1
        self.floating = values.dtype.kind == "f"
        if not self.floating:
            self.width = max([1, *(len(str(v)) for v in values.ravel().tolist())])
            return
        flat = values.ravel()
        seen = flat[np.isfinite(flat) & (flat != 0)].astype(np.float64)
        if seen.size:
            size = np.abs(seen)
            low, high = size.min(), size.max()
            self.integral = bool((seen == np.ceil(seen)).all())
            self.sci = bool(high / low > 1000.0 or high > 1.0e8 or (not self.integral and low < 1.0e-4))
            if PRINT_OPTS.sci_mode is not None:
                self.sci = PRINT_OPTS.sci_mode
            if self.sci:
                self.width = max(len(f"{v:.{PRINT_OPTS.precision}e}") for v in seen.tolist())
            elif self.integral:
                self.width = max(len(f"{v:.0f}") for v in seen.tolist()) + 1
            else:
                self.width = max(len(f"{v:.{PRINT_OPTS.precision}f}") for v in seen.tolist())

    def write(self, v: Any) -> str:
        if not self.floating:
            text = str(v)
        elif self.sci:
            text = f"{v:{self.width}.{PRINT_OPTS.precision}e}"
        elif self.integral:
            text = f"{v:.0f}" + ("." if math.isfinite(v) else "")
        else:
            text = f"{v:.{PRINT_OPTS.precision}f}"
        return text.rjust(self.width)


class _ComplexColumn:
    """Two columns side by side; the imaginary one is written with its sign and no padding."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.re, self.im = _Column(values.real), _Column(values.imag)
        self.width = self.re.width + self.im.width + 1

    def write(self, v: complex) -> str:
        imaginary = self.im.write(v.imag).lstrip() + "j"
        return self.re.write(v.real) + ("" if imaginary[0] in "+-" else "+") + imaginary


def _edges(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values that a summary shows."""
    k = PRINT_OPTS.edgeitems
    for axis, n in enumerate(a.shape):
        if n > 2 * k:
            a = np.take(a, [*range(k), *range(n - k, n)], axis)
    return a


def _body(a: np.ndarray[Any, Any], indent: int) -> str:
    """The numbers of a non-empty array with their brackets, `indent` columns into the line."""
    if a.dtype == np.float16:
        a = a.astype(np.float32)
    summary = a.size > PRINT_OPTS.threshold
    shape, k = a.shape, PRINT_OPTS.edgeitems
    if summary:
        a = _edges(a)
    column = _ComplexColumn(a) if a.dtype.kind == "c" else _Column(a)
    if not shape:
        return column.write(a.item())
    depth = len(shape)
    if not a.size:  # a summary of no items
        return "[...]"
    per_line = max(1, (PRINT_OPTS.linewidth - (indent + depth - 1)) // (column.width + 2))
    cells = [column.write(v) for v in a.ravel().tolist()]
    rows = []
    for start in range(0, len(cells), a.shape[-1]):
        row = cells[start : start + a.shape[-1]]
        if summary and shape[-1] > 2 * k:
            row = [*row[:k], " ...", *row[k:]] if k else ["..."]
        lines = [", ".join(row[i : i + per_line]) for i in range(0, len(row), per_line)]
        rows.append("[" + (",\n" + " " * (indent + depth)).join(lines) + "]")
    for axis in range(depth - 2, -1, -1):
        between = "," + "\n" * (depth - 1 - axis) + " " * (indent + axis + 1)
        n = a.shape[axis]
        groups = []
        for start in range(0, len(rows), n):
            group = rows[start : start + n]
            if summary and shape[axis] > 2 * k:
                group = [*group[:k], "...", *group[k:]]
            groups.append("[" + between.join(group) + "]")
        rows = groups
    return rows[0]


def to_string(a: Any, requires_grad: bool = False, grad_fn: str = "", prefix: str = "tensor(", tangent: str = "") -> str:
    """What `repr` of a tensor with these elements gives."""
    kind, indent = _dtypes.of(a.dtype), len(prefix)
    default = _dtypes.get_default_dtype()
    size, told = [f"size={tuple(a.shape)}"], [default]  # the dtypes that the text tells
    if type(a) is Meta:
        text, suffixes = "...", ["device='meta'", *size]
    elif a.size == 0:
        text, suffixes = "[]", size if a.ndim != 1 else []
    else:
        text, suffixes = _body(a, indent), [] if PRINT_OPTS.edgeitems else size
        told += [default.to_complex(), _dtypes.int64, _dtypes.bool_]
    if kind not in told:
        suffixes.append(f"dtype={kind}")
    if grad_fn:
        suffixes.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent:
        suffixes.append(f"tangent={tangent}")
    out = prefix + text
    column = len(out) - out.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > PRINT_OPTS.linewidth:
            out += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            out += ", " + suffix
            column += len(suffix) + 2
    return out + ")"


def _outside(node: Any, start: int | None) -> tuple[Any, bool]:
    """The node of a tensor, and whether it requires grad, as seen from outside of the transforms, the first of which began at `start`."""
    while node is not None and node.enters:
        (edge,) = node.edges
        if edge is None:
            return None, start is None
        node = edge[0]
    if start is not None and not any(type(n) is AccumulateGrad or n.number < start for n in below([node], lambda n: False)):
        return None, False
    return (None if type(node) is AccumulateGrad else node), True


def shown(t: Any) -> str:
    """A tensor as it is printed."""
    text, around = _shown(t), transforms.get()
    for k, (_, wrapper, holds) in enumerate(around, 1):
        if (k == len(around) or around[k] is not around[k - 1]) and holds(t):
            text = wrapper.format(k) + "\n" + textwrap.indent(text, "    ") + "\n)"
    return text


def _shown(t: Any) -> str:
    name = "tensor" if type(t).__name__ in ("Tensor", "Parameter") and not type(t)._kept else type(t).__name__
    tangent, rg = None, t._rg
    try:
        fn = t.grad_fn
    except RuntimeError:  # of a view whose base was written
        return to_string(t._a, True, "Invalid", f"{name}(", "")
    if rg and (level := forward_levels.get()):  # a dual tensor shows its tangent, and as its history that of its value
        primal, tangent = level[2](t)
        if tangent is not None:
            fn, rg = (fn, rg) if primal._rg else (None, False)
            levels = forward_levels.set(())
            tangent = f"{tangent}"  # a number as such
            forward_levels.reset(levels)
    if fn is not None:
        around = transforms.get()
        fn, rg = _outside(fn, around[0][0] if around else None)
    made = type(fn).__name__ if fn is not None else ""
    text = to_string(t._a if t.is_meta else np.asarray(value(t._a)), rg, made, f"{name}(", tangent or "")
    return f"Parameter({text})" if name != "tensor" and getattr(t, "_is_param", False) else text


_tensor_str = SimpleNamespace(PRINT_OPTS=PRINT_OPTS, _tensor_str=lambda t, indent: _body(value(t._a), indent))  # which packages import
