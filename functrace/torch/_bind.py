"""The binding table of composite operations: a function of arrays under PyTorch's name and keywords becomes one of tensors.

A row states what PyTorch calls the node ("A|B": B where `dim` is given), and a function of NumPy arrays whose parameters have
PyTorch's names. Tensors may stand anywhere among its arguments, in lists too. Its gradient, to any order, is `functrace.vjp`'s,
or that of the rules which the row states after it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call
from functrace.torch._checks import LinAlgError, out_of_range
from functrace.torch._contact import trim
from functrace.torch._dtypes import F32, F64, result_class
from functrace.torch._index_checks import guarded
from functrace.torch._limits import refuse
from functrace.torch._modes import recording
from functrace.torch._nodes import SCALARS, Op, pull_node
from functrace.torch._ops import public
from functrace.torch._shape import axes_of, axis
from functrace.torch._tensor import Tensor, owned, wrap
from functrace.torch._views import bad_argument, mismatch, written_to

SYNONYMS = {"axis": "dim", "keepdims": "keepdim", "self": "input"}


def _filled(name: str, names: Sequence[str], defaults: Sequence[Any], given: list[Any], named: dict[str, Any]) -> list[Any]:
    """The arguments in order, the named and the missing ones put in."""
    if len(given) > len(names):
        raise TypeError(f"{name}() takes {len(names)} positional arguments but {len(given)} were given")
    rest = {SYNONYMS.get(k, k) if k not in names else k: v for k, v in named.items()}
    if len(rest) < len(named):
        raise TypeError(f"{name}() got multiple values for keyword argument '{next(k for k in named if SYNONYMS.get(k) in named)}'")
    for k, argument in enumerate(names[len(given) :], len(given)):
        if argument in rest:
            given.append(rest.pop(argument))
        elif k < len(names) - len(defaults):
            raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
        else:
            given.append(defaults[k - len(names)])
    if rest:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(rest))}'")
    return given


def leading_failure(a: Any, why: str) -> int:
    """The number of the first leading minor, or pivot, of a matrix for which a decomposition fails, 0 if none."""
    if "positive" in why:
        return next((k for k in range(1, len(a) + 1) if not _definite(a[:k, :k])), 0)
    exact, a = a, np.array(a, np.complex128 if a.dtype.kind == "c" else np.float64)
    for k in range(len(a)):  # elimination with row exchanges, as LAPACK does it
        p = k + int(np.argmax(np.abs(a[k:, k])))
        if a[p, k] == 0:
            return k + 1
        a[[k, p]] = a[[p, k]]
        a[k + 1 :] -= np.outer(a[k + 1 :, k] / a[k, k], a[k])
    return 0 if np.linalg.slogdet(exact)[0] else len(a)  # which was zero in its own precision


def _definite(a: Any) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(a)).all())
    except np.linalg.LinAlgError:
        return False


def _refused(name: str, a: Any, why: str) -> RuntimeError:
    """PyTorch's complaint about a matrix."""
    name = name.replace("linalg_", "linalg.")
    if a.ndim < 2:
        return RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if "solve" in name and "ingular" in why:
        return LinAlgError(f"torch.{name}: The solver failed because the input matrix is singular.")
    if "infs or NaNs" in why:
        return RuntimeError(f"torch.{name}: input tensor should not contain infs or NaNs.")
    rows = [leading_failure(m, why) for m in np.reshape(a, (-1, *a.shape[-2:]))]
    place = next((k for k, n in enumerate(rows) if n), 0)
    where = f"(Batch element {place}): " if a.ndim > 2 else ""
    if "positive" in why:
        what = (
            f"factorization could not be completed because the input is not positive-definite (the leading minor of order {rows[place]} is"
        )
        return LinAlgError(f"{name}: {where}The {what} not positive-definite).")
    name = "linalg.inv" if name == "inverse" else name
    what = f"diagonal element {rows[place]} is zero, the inversion could not be completed because the input matrix is singular."
    return LinAlgError(f"{name}: {where}The {what}" if "ingular" in why else f"{name}: {where}{why}")


def _unfit(name: str, inputs: Sequence[Any], error: ValueError) -> Exception:
    """What NumPy says of matrices, shapes and axes, as PyTorch says it, or at least with its class of error and the operation's name."""
    if isinstance(error, np.linalg.LinAlgError):
        return _refused(name, inputs[0]._a, str(error))
    if isinstance(error, np.exceptions.AxisError) and error.axis is not None:
        return out_of_range(error.axis, error.ndim or 0)
    text = str(error)
    if text.startswith("Invalid n"):  # of a Fourier transform
        text = text.replace("FFT data", "data").removesuffix(".").partition(";")[0]
        return RuntimeError(re.sub("norm value (.*)", r'normalization mode: "\1"', text))
    if not any(words in text for words in ("broadcast", "not aligned", "mismatch", "shape")):
        return RuntimeError(text) if text.startswith(("Input must be", "zero-size array")) else error
    found = mismatch(inputs[0]._a, inputs[1]._a) if len(inputs) == 2 and "broadcast" in text else None
    shapes = ", ".join(str(list(x.shape)) for x in inputs)
    return found or RuntimeError(f"{name}(): the sizes of the arguments do not fit: {shapes} ({text.strip()})")


class _Arguments:
    """The arguments of one call, and where among them the tensors stand: `spots` are pairs of a place and, in a list, one in it, or -1."""

    __slots__ = ("given", "inputs", "lifted", "spots", "target")

    def __init__(self, given: list[Any], place: int) -> None:
        self.given, self.lifted = given, False
        self.target: Any = None  # the dtype of results
        self.spots: list[tuple[int, int]] = []
        self.inputs: list[Any] = []
        for k, x in enumerate(given):
            if isinstance(x, Tensor) and k != place:
                self.spots.append((k, -1))
                self.inputs.append(x)
            elif isinstance(x, (list, tuple)) and any(isinstance(y, Tensor) for y in x):
                self.spots.extend((k, j) for j, y in enumerate(x) if isinstance(y, Tensor))
                self.inputs.extend(y for y in x if isinstance(y, Tensor))
                given[k] = list(x)
            elif isinstance(x, np.generic):
                given[k] = x.item()

    def promote(self, name: str, operands: int, floating: bool) -> None:
        """Settle on one dtype for the first `operands` arguments."""
        d = _dtypes.result_type(*(y for x in self.given[:operands] for y in (x if isinstance(x, list) else (x,)) if y is not None))
        refuse(name, d.np)
        self.target = _dtypes.get_default_dtype().np if floating and d.category < _dtypes.FLOAT else d.np
        for k in range(operands):
            if isinstance(self.given[k], SCALARS):
                self.given[k] = np.asarray(self.given[k], self.target)

    def count_from_front(self, place: int) -> None:
        """The axis, or axes, at this place. A tensor without axes has one of length 1 for as long as the call lasts."""
        dim, ndim = self.given[place], self.inputs[0]._a.ndim
        self.given[place] = axes_of(dim, ndim) if isinstance(dim, (tuple, list)) else axis(dim, ndim)
        self.lifted = not ndim

    def filled(self, arrays: Sequence[Any], operands: int) -> list[Any]:
        """The arguments with these arrays for the tensors."""
        full = [list(x) if isinstance(x, list) else x for x in self.given]
        for (k, j), a in zip(self.spots, arrays):
            if self.target is not None and k < operands and a.dtype != self.target:
                a = a.astype(self.target)
            if self.lifted and not a.ndim:
                a = np.reshape(a, (1,))
            if j < 0:
                full[k] = a
            else:
                full[k][j] = a
        return full

    def results(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the function of arrays gave, in the dtype and with the axes that the call is to give."""
        d = self.target
        if d is not None:
            found = tuple(x.astype(d) if x.dtype.kind == d.kind and x.dtype != d else x for x in found)
        return tuple(np.reshape(x, ()) if x.size == 1 else x for x in found) if self.lifted else found

    def fit(self, rules: int, last: int) -> bool:
        """Whether rules for so many first tensors serve: none is in a list, all are floats, and those after them need no gradient."""
        if self.lifted or last >= rules or self.spots[-1] != (len(self.spots) - 1, -1):
            return False
        for t in self.inputs[:rules]:
            a = t._a
            if type(a) is not np.ndarray or a.dtype not in (F32, F64) or self.target not in (a.dtype, None):
                return False
        return True


def bound(
    name: str, node: str, fun: Callable[..., Any], *rules: Callable[..., Any], operands: int = 1, floating: bool = False,
    constant: str = "", fields: str = "", flat: bool = False, frees: bool | None = None, lies: Callable[..., Any] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The function of tensors called `name`, made of `fun`, whose parameter names are PyTorch's.

    The first `operands` arguments are promoted to one dtype, where `floating` integers to the default one. An int or tuple
    called `dim` counts from the front when `fun` gets it. `fields` names the results. A `constant` has no derivative:
    "zero" gives results that do not require grad, "none" ones whose `backward` raises. The `rules` of the first arguments, if they are
    stated, spare the trace where no others need a gradient; `flat`, `frees` and `lies` are as in `Op`.
    """
    plain: Any = getattr(fun, "__wrapped__", fun)
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    defaults = plain.__defaults__ or ()
    place = names.index("dim") if "dim" in names else -1

    @functools.cache
    def op(along: bool, direct: int) -> Op:
        row = [*rules, *(None,) * direct][:direct] or None
        return Op(node.split("|")[-along], fun, row, many=bool(direct and fields and along), flat=flat, frees=frees, lies=lies)

    @functools.cache
    def kind() -> Any:
        return result_class(name, *fields.split()) if fields else tuple

    def read(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        given = list(args)
        missing = len(names) - len(given)
        if named or not 0 <= missing <= len(defaults):
            given = _filled(name, names, defaults, given, named)
        elif missing:
            given += defaults[-missing:]
        read = _Arguments(given, place)
        if not read.inputs or not (isinstance(given[0], (Tensor, list)) or operands > 1):
            raise bad_argument(name, names[0], 1, given[0])
        if operands > 1 or floating:
            read.promote(name, operands, floating)
        if place >= 0 and given[place] is not None:
            read.count_from_front(place)
        return read

    def function(*args: Any, out: Any = None, **named: Any) -> Any:
        try:
            asked = read(args, named)
            inputs, along = asked.inputs, place >= 0 and asked.given[place] is not None
            which = [k for k, t in enumerate(inputs) if t._rg]
            grad = bool(which and not constant and recording())
            direct = len(inputs) if grad and asked.fit(len(rules), which[-1]) else 0
            row = op(along, direct)
            many = [row.many] if direct else []

            def whole(*arrays: Any) -> tuple[Any, ...]:
                try:
                    found = fun(*asked.filled(arrays, operands))
                except ValueError as error:
                    raise _unfit(name, inputs, error) from None
                many.append(isinstance(found, (tuple, list)))
                return asked.results(tuple(found) if many[0] else (found,))

            if direct:
                try:
                    found = call(row, inputs, tuple(asked.given[direct:]))
                except ValueError as error:
                    raise _unfit(name, inputs, error) from None
                results = found if row.many else (found,)
            else:
                arrays = [t._a for t in inputs]
                if grad:
                    results = pull_node(row, row.node, whole, inputs, arrays, which, False)
                else:
                    results = tuple(wrap(owned(x, arrays, lies)) for x in whole(*arrays))
                    if which and constant == "none" and recording():
                        results = tuple(call(underivable(name), (t, *inputs), ()) for t in results)
            result = kind()(results) if many[0] else results[0]
            return result if out is None else written_to(name, out, result, inputs)
        except Exception as error:
            trim(error)
            raise

    function.__name__ = function.__qualname__ = name
    function.limits = operands > 1  # type: ignore[attr-defined]
    return function


@functools.cache
def underivable(name: str, node: str = "NotImplemented") -> Op:
    """The identity in its first argument, whose `backward` says that an operation on the others has no derivative."""

    def refuse(_g: Any, *_rest: Any) -> NoReturn:
        if node == "NotImplemented":
            raise RuntimeError(f"derivative for aten::{name} is not implemented")
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    op = Op("NotImplemented", lambda x, *_inputs: x, [None, refuse, refuse, refuse])
    op.name = node
    return op


def bind(
    table: dict[str, tuple[Any, ...]], *, method: bool = True, torch: bool = True, space: Any = None, prefix: str = "", **options: Any
) -> None:
    """Enter rows as functions of `torch.` and methods of Tensor, or of a module's namespace; "a b c" are one function's names."""
    for names, (node, fun, *rules) in table.items():
        first, *_ = every = names.split()
        function = bound(prefix + first, node, fun, *rules, **options)
        if space is not None:
            space.update(dict.fromkeys(every, guarded(prefix + first, function)))
        else:
            public(function, *every, method=method, torch=torch)
