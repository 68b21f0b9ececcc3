"""Comparing results: `assert_close`, with PyTorch's tolerances and its words for what differs; and random tensors to compare on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes, _random
from functrace.torch._create import as_tensor, finish, shape_of
from functrace.torch._missing import missing
from functrace.torch._tensor import Tensor

__all__ = ["assert_close", "make_tensor"]
__getattr__ = missing("torch.testing")

# dtype: (rtol, atol); all others are compared exactly
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_NUMBERS = (int, float, complex)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless `|actual - expected| <= atol + rtol * |expected|` for all elements, and shapes and dtypes agree.

    Tensors, arrays, numbers, and sequences and mappings of them. The tolerances follow from the dtypes; give both or none.

    >>> import functrace.torch as torch
    >>> torch.testing.assert_close(torch.ones(2), torch.tensor([1.0, 1.5]))
    Traceback (most recent call last):
        ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.3333333432674408 at index (1,) (up to 1.3e-06 allowed)
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {'rtol' if rtol is None else 'atol'}.")
    places: list[Any] = []
    try:
        for a, b in _pairs(actual, expected, places):
            _compare(a, b, rtol, atol, equal_nan, check_dtype, check_stride, allow_subclasses)
    except AssertionError as error:
        text = str(error)
        if places:
            text += f"\n\nThe failure occurred for item {''.join(f'[{k!r}]' for k in places)}"
        if msg is not None:
            text = msg(text) if callable(msg) else msg
        raise AssertionError(text) from None


def _pairs(actual: Any, expected: Any, places: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The leaves of two nested containers in pairs; `places` says where they are."""
    plain = (str, bytes, np.ndarray, Tensor)
    if all(isinstance(x, Sequence) and not isinstance(x, plain) for x in (actual, expected)):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        keys: Any = range(len(actual))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        absent, more = ([k for k in x if k not in y] for x, y in ((expected, actual), (actual, expected)))
        if absent or more:
            raise AssertionError(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(absent)}\nAdditional keys in the actual mapping: {sorted(more)}"
            )
        keys = list(actual)
    else:
        yield actual, expected
        return
    for k in keys:
        places.append(k)
        yield from _pairs(actual[k], expected[k], places)
        places.pop()


def _compare(
    a: Any, b: Any, rtol: float | None, atol: float | None, equal_nan: bool, check_dtype: bool, check_stride: bool, allow_subclasses: bool
) -> None:
    if a is None or b is None:
        if a is not b:
            raise AssertionError(f"None mismatch: {a} is not {b}")
        return
    if isinstance(a, (bool, np.bool_)) and isinstance(b, (bool, np.bool_)):
        if a is not b:
            raise AssertionError(f"Booleans mismatch: {a} is not {b}")
        return
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        if check_dtype and type(a) is not type(b):
            raise AssertionError(f"The (d)types do not match: {type(a)} != {type(b)}.")
        x, y = np.asarray(a), np.asarray(b)
    else:
        arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        related = isinstance(a, type(b)) or isinstance(b, type(a)) if allow_subclasses else type(a) is type(b)
        if not arrays and not (related and isinstance(a, Tensor)):
            raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}.")
        u, v = as_tensor(a), as_tensor(b)
        for what, one, other in (
            ("shape", u.shape, v.shape),
            *((("dtype", u.dtype, v.dtype),) if check_dtype else ()),
            *((("stride()", u.stride(), v.stride()),) if check_stride else ()),
        ):
            if one != other:
                raise AssertionError(f"The values for attribute '{what}' do not match: {one} != {other}.")
        x, y = u._a, v._a
    if rtol is None or atol is None:
        rtol, atol = (max(t) for t in zip(*(_TOLERANCES.get(z.dtype.name, (0.0, 0.0)) for z in (x, y))))
    d = np.result_type(x, y)
    d = d if d.kind in "fc" else np.dtype(np.int64)
    x, y = x.astype(d), y.astype(d)
    if not x.ndim:
        x, y = np.asarray(x.item()), np.asarray(y.item())
    _close(x, y, rtol, atol, equal_nan)


def _close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> None:
    with np.errstate(all="ignore"):
        distance = np.abs(x - y)
        same = (x == y) | (np.isfinite(distance) & (distance <= atol + rtol * np.abs(y)))
        if equal_nan:
            same |= np.isnan(x) & np.isnan(y)
        if np.all(same):
            return
        distance = np.where(same, 0, distance)
        ratio = np.where(same, 0, distance / np.abs(y).astype(distance.dtype if distance.dtype.kind == "f" else np.float32))
    ratio = ratio.astype(distance.dtype if distance.dtype.kind == "f" else np.float32)
    exact = not rtol and not atol
    words = f"{'Scalars' if not x.ndim else 'Tensor-likes'} are not {'equal' if exact else 'close'}!\n\n"
    if not x.ndim:
        words += f"Expected {y.item()} but got {x.item()}.\n"
    else:
        wrong, n = int((~same).sum()), same.size
        words += f"Mismatched elements: {wrong} / {n} ({wrong / n:.1%})\n"
    lines = []
    for name, values, bound in (("absolute", distance, atol), ("relative", ratio, rtol)):
        place = np.unravel_index(int(np.argmax(values)), values.shape)
        kind = f"{name.capitalize()} difference: " if not x.ndim else f"Greatest {name} difference: "
        where = f" at index {tuple(int(k) for k in place)}" if x.ndim else ""
        lines.append(kind + str(values[place].item()) + where + ("" if exact else f" (up to {bound} allowed)"))
    raise AssertionError(words + "\n".join(lines))


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """Random numbers from `low` to `high`: from -9 to 9, or all that there are in a smaller range, unless said otherwise.

    >>> import functrace.torch as torch
    >>> torch.testing.make_tensor((2, 3), dtype=torch.int64, device="cpu").shape
    torch.Size([2, 3])
    """
    if noncontiguous or exclude_zero or memory_format is not None:
        raise NotImplementedError(
            "make_tensor: noncontiguous, exclude_zero and memory_format are not in functrace.torch: change the tensor afterwards."
        )
    _dtypes.usable(device)
    sizes = shape_of("make_tensor", shape)
    n, d, source = int(np.prod(sizes)), dtype.np, _random.default_generator
    if d.kind == "b":
        values: Any = source.below(0, 2, n)
    elif d.kind in "iu":
        lower = (0 if d.kind == "u" else -9) if low is None else int(np.ceil(low))
        values = source.below(lower, 10 if high is None else int(np.ceil(high)), n)
    else:
        real = np.empty(0, d).real.dtype
        first, last = (-9.0 if low is None else low), (9.0 if high is None else high)
        values = _random.scaled(source.uniform(n * (1 + (d.kind == "c")), real), last - first, first, real).astype(real)
        values = values.view(d) if d.kind == "c" else values
    return finish(values.reshape(sizes).astype(d), requires_grad)
