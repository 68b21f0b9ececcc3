"""Recurrent networks: a layer in one direction is one operation, and so is one step of a cell.

On plain arrays each step writes to arrays that are made once, and the way back is a loop of its own; the products with weights that
wait for no other step are one for all steps. For traced values, and under `create_graph`, steps are composed of NumPy's functions.

The rows of a sequence are those of its first step, then those of the second, and so on; `sizes` says how many each has. So packed
sequences, and tensors of (steps, batch, width), are the same here.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call
from functrace.torch._contact import buffer, dot_of, vjp
from functrace.torch._curves import logistic
from functrace.torch._engine import Same, next_number, node_class
from functrace.torch._modes import recording
from functrace.torch._nodes import Op, _of, pull_node
from functrace.torch._tensor import wrap

Arrays = Sequence[Any]


def _spans(sizes: Sequence[int], reverse: bool) -> list[slice]:
    """The rows of each step, in the order in which steps are run."""
    spans = [slice(end - n, end) for n, end in zip(sizes, itertools.accumulate(sizes))]
    return spans[::-1] if reverse else spans


def _begun(start: Arrays, spans: list[slice]) -> Arrays:
    """The states before the first step that is run: of the sequences that have it."""
    n = spans[0].stop - spans[0].start
    return [s[:n] for s in start]


def _resized(state: Arrays, n: int, start: Arrays, ended: list[Arrays]) -> Arrays:
    """The states of the sequences that have another step: some end, or in the other direction begin."""
    m = state[0].shape[0]
    if n < m:
        ended.append([s[n:] for s in state])
        return [s[:n] for s in state]
    return [np.concatenate((s, first[m:n])) for s, first in zip(state, start)]


def _last(state: Arrays, ended: Sequence[Arrays]) -> Arrays:
    return [np.concatenate(parts) for parts in zip(state, *reversed(ended))] if ended else state


# Steps of NumPy's functions: the next state from what comes of the input, what comes of the state, and the state.


def _tanh(x: Any, y: Any, h: Arrays) -> Arrays:
    return (np.tanh(x + y),)


def _relu(x: Any, y: Any, h: Arrays) -> Arrays:
    return (np.where(x + y <= 0, 0, x + y),)


def _lstm(x: Any, y: Any, h: Arrays) -> Arrays:
    i, f, g, o = np.split(x + y, 4, -1)
    c = logistic(f) * h[1] + logistic(i) * np.tanh(g)
    return logistic(o) * np.tanh(c), c


def _gru(x: Any, y: Any, h: Arrays) -> Arrays:
    (xr, xz, xn), (yr, yz, yn) = np.split(x, 3, -1), np.split(y, 3, -1)
    z, n = logistic(xz + yz), np.tanh(xn + logistic(xr + yr) * yn)
    return (n + z * (h[0] - n),)


def _composed(step: Any, x: Any, w: Any, u: Any, b: Any, d: Any, p: Any, *rest: Any) -> Arrays:
    """All states and the last ones: W and its bias `b` are for the input, U and `d` for the state, `p` projects it."""
    *start, sizes, reverse = rest
    a = np.reshape(x, (-1, x.shape[-1])) @ w.T
    a = a if b is None else a + b
    spans = _spans(sizes, reverse)
    state = _begun(start, spans)
    ended: list[Arrays] = []
    outs = []
    for span in spans:
        n = span.stop - span.start
        if n != state[0].shape[0]:
            state = _resized(state, n, start, ended)
        y = state[0] @ u.T
        state = step(a[span], y if d is None else y + d, state)
        if p is not None:
            state = state[0] @ p.T, *state[1:]
        outs.append(state[0])
    y = np.concatenate(outs[::-1] if reverse else outs)
    return np.reshape(y, (*x.shape[:-1], y.shape[-1])), *_last(state, ended)


# The same on plain arrays. Each takes what comes of the input, which it may write to, and gives all outputs, the last states, the states
# before each step, and the way back: from gradients of the outputs and, to be overwritten, of the last states, those of what comes of
# the input, of what comes of the state, and of the projection.


def _parts(spans: list[slice], *arrays: Any) -> Any:
    """The arrays step by step, in the order of running."""
    if len(spans) == 1:
        return (arrays,)
    n = spans[0].stop - spans[0].start
    if all(span.stop - span.start == n for span in spans):
        order = slice(None, None, 1 if spans[0].start < spans[1].start else -1)
        return zip(*(x.reshape(len(spans), n, *x.shape[1:])[order] for x in arrays))
    return zip(*([x[span] for span in spans] for x in arrays))


def _joined(parts: Arrays, spans: list[slice]) -> Any:
    """What was collected in the order of running, in that of the rows."""
    if len(spans) == 1:
        return parts[0]
    return np.concatenate(parts if spans[0].start < spans[1].start else parts[::-1])


def _plain_rnn(a: Any, u: Any, d: Any, p: Any, start: Arrays, spans: list[slice], relu: bool) -> Any:
    y, (h,), ut = buffer(a.shape, a.dtype), _begun(start, spans), u.T
    before: list[Any] = []
    ended: list[Arrays] = []
    if d is not None:
        a += d
    for x, out in _parts(spans, a, y):
        if len(out) != len(h):
            (h,) = _resized((h,), len(out), start, ended)
        before.append(h)
        h = np.dot(h, ut, out)
        h += x
        if relu:
            np.maximum(h, 0, out=h)
        else:
            np.tanh(h, h)

    def back(dy: Any, dh: Any) -> Any:
        slopes = (~(y <= 0)).astype(y.dtype) if relu else 1 - y * y
        for slope, up in _parts(spans[::-1], slopes, dy):
            g = dh[: len(slope)]
            g += up
            slope *= g
            np.dot(slope, u, g)
        return slopes, slopes, None

    return y, _last((h,), ended), before, back


def _plain_lstm(a: Any, u: Any, d: Any, p: Any, start: Arrays, spans: list[slice]) -> Any:
    rows, width = len(a), a.shape[1] // 4
    g, cs, tops = buffer((3, rows, width), a.dtype)
    m = buffer((rows, width), a.dtype)
    y = m if p is None else buffer((rows, len(p)), a.dtype)
    (h, c), ut, one = _begun(start, spans), u.T, np.ones((), a.dtype)
    before: list[Any] = []
    cells: list[Any] = []
    ended: list[Arrays] = []
    if d is not None:
        a += d
    np.negative(a, a)  # for exp(-x); tanh is odd
    gates = a.reshape(rows, 4, width)
    i, f, x, o = gates.transpose(1, 0, 2)
    for z, zi, zf, zg, zo, negative, now, top, out, final in _parts(spans, a, i, f, x, o, g, cs, tops, m, y):
        if len(z) != len(h):
            h, c = _resized((h, c), len(z), start, ended)
        before.append(h)
        cells.append(c)
        np.subtract(z, np.dot(h, ut), z)
        np.tanh(zg, negative)
        np.exp(z, z)
        np.add(z, one, z)
        np.reciprocal(z, z)
        c = np.multiply(zf, c, now)
        c -= zi * negative
        h = np.multiply(zo, np.tanh(c, top), out)
        if p is not None:
            h = np.dot(h, p.T, final)
    np.negative(g, g)

    def back(dy: Any, dh: Any, dc: Any) -> Any:
        flat = np.subtract(1, a)  # becomes the gradient of the gates: first what it is per gradient of the state
        flat *= a
        slopes = flat.reshape(rows, 4, width)
        slopes[:, 0] *= g
        slopes[:, 1] *= _joined(cells, spans)
        np.multiply(i, 1 - g * g, slopes[:, 2])
        slopes[:, 3] *= tops
        into = 1 - tops * tops
        into *= o
        dy = dy if p is None else dy.copy()
        for up, z, state, output, forget, through in _parts(spans[::-1], dy, flat, slopes[:, :3], slopes[:, 3], f, into):
            n = len(z)
            gh, gc = dh[:n], dc[:n]
            top = gh
            gh += up
            if p is not None:
                up[...] = gh
                top = np.dot(gh, p)
            through *= top  # becomes what the output sent to the cell
            gc += through
            state *= gc[:, None]
            output *= top
            gc *= forget
            np.dot(z, u, gh)
        return flat, flat, None if p is None else dy.T @ m

    return y, _last((h, c), ended), before, back


def _plain_gru(a: Any, u: Any, d: Any, p: Any, start: Arrays, spans: list[slice]) -> Any:
    rows, width = len(a), a.shape[1] // 3
    y, v = buffer((rows, width), a.dtype), buffer(a.shape, a.dtype)
    (h,), ut, one = _begun(start, spans), u.T, np.ones((), a.dtype)
    before: list[Any] = []
    ended: list[Arrays] = []
    np.negative(a[:, : 2 * width], a[:, : 2 * width])
    r, z, n = a.reshape(rows, 3, width).transpose(1, 0, 2)
    inner = v[:, 2 * width :]
    for rz, nr, nz, new, s, srz, sn, out in _parts(spans, a[:, : 2 * width], r, z, n, v, v[:, : 2 * width], inner, y):
        if len(out) != len(h):
            (h,) = _resized((h,), len(out), start, ended)
        before.append(h)
        np.dot(h, ut, s)
        if d is not None:
            s += d
        rz -= srz
        np.exp(rz, rz)
        np.add(rz, one, rz)
        np.reciprocal(rz, rz)
        new += nr * sn
        np.tanh(new, new)
        h = np.subtract(h, new, out)
        h *= nz
        h += new

    def back(dy: Any, dh: Any) -> Any:
        flat = buffer(a.shape, a.dtype)
        slopes = flat.reshape(rows, 3, width)
        into = (1 - z) * (1 - n * n)
        np.multiply(into, r, slopes[:, 2])
        np.multiply(slopes[:, 2], (1 - r) * inner, slopes[:, 0])
        np.multiply(_joined(before, spans) - n, (1 - z) * z, slopes[:, 1])
        for up, s, slope, direct, keep in _parts(spans[::-1], dy, flat, slopes, into, z):
            g = dh[: len(slope)]
            g += up
            slope *= g[:, None]
            direct *= g
            g *= keep
            g += np.dot(s, u)
        return np.concatenate((flat[:, : 2 * width], into), 1), flat, None

    return y, _last((h,), ended), before, back


# mode: how many gates; a step; all steps on plain arrays
MODES: dict[str, tuple[int, Callable[..., Arrays], Callable[..., Any]]] = {
    "RNN_TANH": (1, _tanh, functools.partial(_plain_rnn, relu=False)),
    "RNN_RELU": (1, _relu, functools.partial(_plain_rnn, relu=True)),
    "LSTM": (4, _lstm, _plain_lstm),
    "GRU": (3, _gru, _plain_gru),
}


@functools.cache
def _op(mode: str, node: str) -> Op:
    return Op(node, functools.partial(_composed, MODES[mode][1]), many=True)


def rnn(node: str, mode: str, x: Any, weights: Arrays, state: Arrays, sizes: Sequence[int], reverse: bool = False) -> tuple[Any, ...]:
    """All outputs, and the last states, of a cell that is run over a sequence from a first state.

    `weights` are those of the input, of the state, their biases or None, and that which projects the state or None. `node` is the name
    of the operation in the graph.
    """
    inputs = (x, *weights, *state)
    arrays, which = [], []
    dtype = x._a.dtype
    plain, recorded = dtype.kind == "f", recording()
    for k, t in enumerate(inputs):
        a = None
        if t is not None:
            a = t._a
            plain = plain and type(a) is np.ndarray and a.dtype is dtype
            if t._rg and recorded:
                which.append(k)
        arrays.append(a)
    _check(arrays[0], arrays[1])
    _check(arrays[6], arrays[2])
    op, params = _op(mode, node), (tuple(sizes), reverse)
    if not plain:
        return call(op, inputs, params)  # type: ignore[no-any-return]

    def whole(*xs: Any) -> Any:
        return op.fun(*xs, *params)

    if mode != "LSTM":  # biases may be written to before the way back
        arrays[3:5] = [a if a is None else a.copy() for a in arrays[3:5]]
    made = _swept(whole, arrays, _spans(*params), which, MODES[mode][2])
    return pull_node(op, op.node, whole, inputs, arrays, which, made=made) if which else tuple(map(wrap, made[0]))


_ENDS = [node_class(name, Same) for name in ("MulBackward0", "AddBackward0")]  # which PyTorch has at the end of a cell
_NODES = {"RNN_TANH": "Tanh", "RNN_RELU": "Relu", "GRU": "Add", "LSTM": "LstmCell"}


def rnn_cell(mode: str, x: Any, weights: Arrays, state: Arrays) -> tuple[Any, ...]:
    """The next states after one step: one for each of `state`."""
    out, *last = rnn(_NODES[mode], mode, x, (*weights, None), state, (x._a.shape[0],))
    if mode != "LSTM":
        return (out,)
    for t, cls in zip((out, last[1]), _ENDS):
        if t._rg:
            node = cls()
            node.edges, node.number = (t._edge,), next_number()
            t._edge = node, 0
    return out, last[1]


def _check(x: Any, w: Any) -> None:
    """Whether a product with a weight makes sense."""
    if x.dtype != w.dtype:
        names = [_dtypes.of(a.dtype).scalar for a in (x, w)]
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {names[0]} and {names[1]}")
    if x.shape[-1] != w.shape[1]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({x.size // max(1, x.shape[-1])}x{x.shape[-1]} and {w.shape[1]}x{w.shape[0]})"
        )


def _swept(whole: Any, arrays: Arrays, spans: list[slice], which: Sequence[int], steps: Callable[..., Any]) -> tuple[Arrays, Any]:
    """The results, and the pullback to the arguments `which`."""
    x, w, u, b, d, p, *start = arrays
    rows = x.reshape(-1, x.shape[-1])
    with np.errstate(all="ignore"):  # PyTorch says nothing where numbers run over
        a = dot_of(rows, w.T)
        if b is not None:
            a += b
        y, last, before, back = steps(a, u, d, p, start, spans)
    shape = (*x.shape[:-1], y.shape[1])
    answers = [y.copy().reshape(shape) if which else y.reshape(shape), *map(np.array, last)]

    def pull(cts: Arrays) -> Arrays:
        if any(type(g) is not np.ndarray for g in cts):  # a batch of gradients
            return vjp(_of(whole, arrays, which), *(arrays[k] for k in which))[1](tuple(cts))
        with np.errstate(all="ignore"):
            carried = [np.array(g) for g in cts[1:]]
            da, db, dp = back(cts[0].reshape(y.shape), *carried)
            ones = np.ones(len(da), da.dtype)
            gradients: list[Callable[[], Any]] = [
                lambda: dot_of(da, w).reshape(x.shape),
                lambda: dot_of(da.T, rows),
                lambda: dot_of(db.T, _joined(before, spans)),
                lambda: np.dot(ones, da),  # which rounds less than `sum`, and is faster
                lambda: np.dot(ones, db),
                lambda: dp,
            ]
            return [gradients[k]() if k < 6 else carried[k - 6] for k in which]

    return answers, pull
