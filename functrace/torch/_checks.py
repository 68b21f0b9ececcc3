"""What PyTorch asks of arguments before it computes, and its words where they do not fit; where NumPy would go on, or say less.

A check has the parameters of its operation, and raises where they do not fit. `_index_checks.guarded` puts it before the operation.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from functrace.torch._views import bad_argument, check_expands, expanded, mismatch

ALIKE = {  # the first and the last tensor have one dtype, or else
    "linalg_vecdot": "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {0} and y of type {1} instead",
    "linalg_solve": "linalg.solve: Expected A and B to have the same dtype, but found A of type {0} and B of type {1} instead",
    "cross": "expected scalar type {0} but found {1}",
    "linalg_cross": "expected scalar type {0} but found {1}",
    "index_add": "index_add_(): self ({0}) and source ({1}) must have the same scalar type",
    "index_copy": "index_copy_(): self and source expected to have the same dtype, but got (self) {0} and (source) {1}",
    "index_put": "Index put requires the source and destination dtypes match, got {0} for the destination and {1} for the source.",
    "put": "put_(): self and source expected to have the same dtype, but got self.dtype = {0} and source.dtype = {1}",
}


class LinAlgError(RuntimeError):
    """A matrix has not what a decomposition needs."""


LinAlgError.__module__, LinAlgError.__name__, LinAlgError.__qualname__ = "torch._C", "_LinAlgError", "_LinAlgError"


def alike(words: str, given: Iterable[Any]) -> None:
    tensors = [x for x in given if hasattr(x, "_a")]
    x, y = tensors[0], tensors[-1]
    if x._a.dtype != y._a.dtype:
        wrong(words.format(x.dtype.scalar, y.dtype.scalar))


def place_of(dim: Any, n: int) -> int:
    """The axis from the front; one out of range is left to the operation."""
    return dim + n if dim < 0 else dim  # type: ignore[no-any-return]


def out_of_range(dim: int, ndim: int) -> IndexError:
    """PyTorch's complaint about an axis."""
    n = max(ndim, 1)
    return IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")


def whole(argument: str, x: Any) -> int:
    """An integer, given as an int or as a tensor. Raises TypeError as PyTorch does, which takes no bool for one."""
    if isinstance(x, bool) or not hasattr(x, "__index__"):
        raise TypeError(f"argument '{argument}' must be int, not {type(x).__name__}")
    return operator.index(x)


def wrong(text: str, kind: type[Exception] = RuntimeError) -> NoReturn:
    raise kind(text)


def c_name(x: Any) -> str:
    names = {"bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
             "float16": "c10::Half", "float32": "float", "float64": "double", "complex64": "c10::complex<float>",
             "complex128": "c10::complex<double>"}  # fmt: skip
    return names.get(getattr(x, "_a", x).dtype.name, str(x.dtype))


def fits(*tensors: Any) -> None:
    """Raise unless the shapes broadcast; what is not a tensor does."""
    shapes = [t._a.shape for t in tensors if hasattr(t, "_a")]
    shape = shapes[0] if shapes else ()
    for other in shapes[1:]:
        if other != shape:
            if error := mismatch(np.broadcast_to(0, shape), np.broadcast_to(0, other)):
                raise error
            shape = np.broadcast_shapes(shape, other)


def _counts(k: int, least: int, a: Any, dim: int) -> bool:
    """Whether an axis has k entries, and k is not too few; of an axis that is not there the operation complains."""
    n = max(a.ndim, 1)
    return not -n <= dim < n or least <= k <= (a.shape[dim] if a.ndim else 1)


CHECKS: dict[str, Callable[..., Any]] = {  # those that ask one thing; what asks more is below
    "addcmul": lambda input, tensor1, tensor2, *, value=1: fits(input, tensor1, tensor2),
    **dict.fromkeys(("clamp", "clip", "clamp_min", "clamp_max"), lambda *tensors, **named: fits(*tensors, *named.values())),
    "diag": lambda input, diagonal=0: input._a.ndim in (1, 2) or wrong(f"diag(): Supports 1D or 2D tensors. Got {input._a.ndim}D"),
    "diff": lambda input, *_rest, **_named: input._a.ndim or wrong("diff expects input to be at least one-dimensional"),
    "dist": lambda input, other, *_rest, **_named: fits(input, other),
    "heaviside": lambda input, values: values._a.dtype == input._a.dtype or input._a.dtype.kind == "c" or wrong(
        "heaviside is not yet implemented for tensors with different dtypes."
    ),
    "kthvalue": lambda input, k, dim=-1, *_rest, **_named: _counts(k, 1, input._a, dim) or wrong(
        f"kthvalue(): selected number k out of range for dimension {place_of(dim, input._a.ndim)}"
    ),
    "masked_fill_": lambda input, mask, value: fits(input, mask),
    "masked_scatter_": lambda input, mask, source: expanded(mask, input._a.shape),
    "norm": lambda input, p="fro", dim=None, *_rest, **_named: input._a.size or dim is not None or p not in (math.inf, -math.inf) or wrong(
        "linalg.vector_norm cannot compute the inf norm on an empty tensor because the operation does not have an identity"
    ),
    "renorm": lambda input, p, *_rest, **_named: p <= 0 and wrong("renorm: non-positive-norm not supported"),
    "select": lambda input, *_rest, **_named: input._a.ndim or wrong("select() cannot be applied to a 0-dim tensor.", IndexError),
    "tensor_split": lambda input, indices_or_sections, dim=0: isinstance(indices_or_sections, int) and indices_or_sections < 1 and wrong(
        f"number of sections must be larger than 0, got {indices_or_sections}"
    ),
    "topk": lambda input, k, dim=-1, *_rest, **_named: _counts(k, 0, input._a, dim) or wrong("selected index k out of range"),
    "trace": lambda input: input._a.ndim == 2 or wrong(f"trace: expected a matrix, but got tensor with dim {input._a.ndim}"),
    "unfold": lambda input, dimension, size, step: step > 0 or wrong(f"step is {step} but must be > 0"),
}  # fmt: skip


def check_of(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enter a check, after those that there are; one of several operations is told the name first."""

    def enter(check: Callable[..., None]) -> Callable[..., None]:
        for name in names:
            mine = functools.partial(check, name) if len(names) > 1 else check
            CHECKS[name] = functools.partial(_in_turn, CHECKS[name], mine) if name in CHECKS else mine
        return check

    return enter


def _in_turn(first: Callable[..., None], second: Callable[..., None], *args: Any, **named: Any) -> None:
    first(*args, **named)
    second(*args, **named)


@check_of("addcdiv")
def _addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> None:
    if tensor1._a.dtype.kind in "biu" and tensor2._a.dtype.kind in "biu":
        wrong(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of "
            "tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / "
            "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv "
            "behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes."
        )
    fits(input, tensor1, tensor2)


@check_of("where")
def _where(condition: Any, input: Any = None, other: Any = None) -> None:
    if condition._a.dtype.char not in "?B" and input is not None:
        wrong(f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.scalar}")
    fits(condition, input, other)


@check_of("allclose", "isclose")
def _close(name: str, input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, *_rest: Any, **_named: Any) -> None:
    if not hasattr(other, "_a"):
        raise bad_argument(name, "other", 2, other)
    if input._a.dtype != other._a.dtype:
        wrong(f"{input.dtype.scalar} did not match {other.dtype.scalar}")
    for tolerance, found in (("rtol", rtol), ("atol", atol)):
        if found < 0:
            wrong(f"{tolerance} must be greater than or equal to zero, but got {found:g}")
    fits(input, other)


@check_of("lerp")
def _lerp(input: Any, end: Any, weight: Any) -> None:
    for name, x in (("end", end), ("weight", weight)):
        if hasattr(x, "_a"):
            if x._a.dtype != input._a.dtype:
                wrong(f"expected dtype {c_name(input)} for `{name}` but got dtype {c_name(x)}")
            fits(input, x)


def of_one_dtype(input: Any, mat1: Any, mat2: Any) -> None:
    """Refuse matrices to be multiplied, and what is added to them, of several dtypes."""
    d = mat2._a.dtype
    for name, t in () if input._a.dtype is d is mat1._a.dtype else (("self", input), ("mat1", mat1)):
        if t._a.dtype != d:
            wrong(f"{name} and mat2 must have the same dtype, but got {t.dtype.scalar} and {mat2.dtype.scalar}")


@check_of("addmm", "baddbmm", "addbmm", "addmv", "addr")
def _added(name: str, input: Any, a: Any, b: Any, *_rest: Any, **_named: Any) -> None:
    x, y, z = input._a.shape, a._a.shape, b._a.shape
    if name in ("baddbmm", "addbmm") and min(len(y), len(z)) < 3:
        raise out_of_range(2, len(y) if len(y) < 3 else len(z))
    if name == "addr":
        for shape, argument in ((y, "vec1"), (z, "vec2")):
            if len(shape) != 1:
                wrong(f"addr: Expected 1-D argument {argument}, but got {len(shape)}-D")
        y, z = (*y, 1), (1, *z)
    if name == "addmm":
        for shape, argument in ((y, "mat1"), (z, "mat2")):
            if len(shape) != 2:
                wrong(f"{argument} must be a matrix, got {len(shape)}-D tensor")
    if name == "addmv":
        if not input._a.dtype == a._a.dtype == b._a.dtype:
            kinds = ", ".join(t.dtype.scalar for t in (input, a))
            wrong(f"addmv input tensors must have the same dtype, but got {kinds}, and {b.dtype.scalar}")
        if len(y) == 2 and len(z) == 1 and (y[1] != z[0] or x not in ((), (1,), y[:1])):
            wrong(f"size mismatch, got input ({x[0] if x else 1}), mat ({y[0]}x{y[1]}), vec ({z[0]})")
        return
    if y[-1:] != z[-2:-1]:
        return  # the product itself says so
    if name in ("addmm", "addbmm"):
        of_one_dtype(input, a, b)
    if name == "baddbmm" and len({t._a.dtype for t in (input, a, b)}) > 1:
        names = [c_name(t) for t in (input, a, b)]
        wrong(f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: {names[2]}")
    check_expands(input, (*y[name == "addbmm" : -1], z[-1]))


@check_of(
    "linalg_inv", "linalg_det", "linalg_slogdet", "linalg_cholesky", "linalg_eig", "linalg_eigvals", "linalg_eigh", "linalg_eigvalsh",
    "linalg_solve", "linalg_matrix_power", "linalg_matrix_exp", "inverse", "logdet", "det", "slogdet",
    "linalg_inv_ex", "linalg_cholesky_ex", "linalg_solve_ex", "cholesky", "cholesky_inverse",
)  # fmt: skip
def _square(name: str, A: Any, *_rest: Any, **_named: Any) -> None:
    shape, own = A._a.shape, name in ("cholesky", "cholesky_inverse", "logdet")
    name = name if own else "linalg." + name.removeprefix("linalg_").removesuffix("_ex").replace("inverse", "inv")
    if len(shape) < 2:
        wrong(f"{name}: The input tensor A must have at least 2 dimensions.")
    if shape[-1] != shape[-2]:
        wrong(f"{name}: A must be batches of square matrices, but they are {shape[-2]} by {shape[-1]} matrices")


@check_of("cross")
def _cross(input: Any, other: Any, dim: int | None = None) -> None:
    x = input._a.shape
    if dim is None and 3 not in x:
        wrong("no dimension of size 3 in input")
    _crossed(input, other, x.index(3) if dim is None else dim)


@check_of("complex", "polar")
def _parts(_name: str, first: Any, second: Any, **_named: Any) -> None:
    a, b = first.dtype, second.dtype
    if not (a.is_floating_point and b.is_floating_point):
        wrong(f"Expected both inputs to be Half, Float or Double tensors but got {a.scalar} and {b.scalar}")
    if a is not b:
        wrong(f"Expected object of scalar type {a.scalar} but got scalar type {b.scalar} for second argument")


@check_of("linalg_cross")
def _crossed(input: Any, other: Any, dim: int = -1, **_named: Any) -> None:
    x, y = input._a.shape, other._a.shape
    if len(x) != len(y):
        wrong("linalg.cross: inputs must have the same number of dimensions.")
    k = place_of(dim, len(x))
    if k < len(x) and not x[k] == y[k] == 3:
        wrong(f"linalg.cross: inputs dimension {dim} must have length 3. Got {x[k]} and {y[k]}")
    fits(input, other)


@check_of("linalg_multi_dot")
def _multi_dot(tensors: Any, **_named: Any) -> None:
    given = list(tensors)
    if len(given) < 2:
        wrong(f"multi_dot(): expected at least 2 tensors but got {len(given)}")
    shapes = [list(t._a.shape) for t in given]
    other = next((k for k, t in enumerate(given) if t._a.dtype != given[0]._a.dtype), 0)
    if other:
        kinds = f"tensor 0 is {c_name(given[0])} and tensor {other} {c_name(given[other])}"
        wrong(f"multi_dot(): all tensors must have be the same dtype but {kinds}")
    for k, (x, y) in enumerate(itertools.pairwise(shapes)):
        if x[-1:] != (y[-2:-1] or y):
            wrong(f"multi_dot(): tensors {k} and {k + 1} with shapes {x} and {y} cannot be multiplied")


@check_of("linalg_pinv", "pinverse")
def _pinv(_name: str, A: Any, *_rest: Any, **_named: Any) -> None:
    if A._a.ndim < 2 or A._a.dtype.kind not in "fc":
        what = f"{A.dtype.storage.removesuffix('Tensor')}{{{list(A._a.shape)}}}"
        wrong(f"linalg.pinv({what}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types")


@check_of("linalg_lstsq")
def _lstsq(A: Any, B: Any, *_rest: Any, **_named: Any) -> None:
    a, b = A._a.shape, B._a.shape
    k = -1 if len(b) == 1 or b == a[:-1] else -2
    if len(a) < 2:
        wrong("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if a[-2] != b[k]:
        wrong(f"torch.linalg.lstsq: input.size(-2) should match other.size({k})")
    if A._a.dtype != B._a.dtype:
        x, y = (t.dtype.storage.removesuffix("Tensor") for t in (A, B))
        wrong(f"torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {x} and other's dtype {y}")


@check_of("linalg_cond", "linalg_matrix_rank")
def _cond(name: str, A: Any, *_rest: Any, **_named: Any) -> None:
    if A._a.ndim < 2:
        name = "linalg.cond: The input tensor" if name == "linalg_cond" else "torch.linalg.matrix_rank: The input tensor input"
        wrong(f"{name} must have at least 2 dimensions.")


@check_of("linalg_svd", "linalg_svdvals", "linalg_qr", "linalg_lu", "linalg_matrix_norm")
def _matrix(name: str, A: Any, *_rest: Any, **_named: Any) -> None:
    if A._a.ndim < 2:
        wrong(f"{name.replace('_', '.', 1).removesuffix('vals')}: The input tensor A must have at least 2 dimensions.")
    if name == "linalg_qr" and (mode := _named.get("mode", *_rest[:1] or ("r",))) not in ("reduced", "complete", "r"):
        wrong(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")


@check_of("inner")
def _inner(input: Any, other: Any) -> None:
    x, y = input._a.shape, other._a.shape
    if x and y and input._a.dtype != other._a.dtype:
        wrong("both inputs should have same dtype")
    if x and y and x[-1] != y[-1]:
        wrong(f"inner() the last dimension must match on both input tensors but got shapes {list(x)} and {list(y)}")


@check_of("vdot")
def vectors(input: Any, other: Any) -> None:
    """Raise unless they are vectors of one dtype and length."""
    x, y = input._a, other._a
    if x.ndim != 1 or y.ndim != 1:
        wrong(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.dtype != y.dtype:
        wrong(f"dot : expected both vectors to have same dtype, but found {input.dtype.scalar} and {other.dtype.scalar}")
    if x.shape != y.shape:
        wrong(
            f"inconsistent tensor size, expected tensor [{x.size}] and src [{y.size}] to have the same number of elements, but got "
            f"{x.size} and {y.size} elements respectively"
        )


@check_of("repeat_interleave")
def _repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *_rest: Any, **_named: Any) -> None:
    if hasattr(repeats, "_a") and repeats._a.ndim:
        n = input._a.size if dim is None else input._a.shape[dim]
        if len(repeats._a) not in (1, n):
            wrong(
                "repeats must have the same size as input along dim, but got "
                f"repeats.size(0) = {len(repeats._a)} and input.size({dim or 0}) = {n}"
            )


@check_of("triu_indices", "tril_indices")
def _indices(_name: str, row: int, col: int, *_rest: Any, **_named: Any) -> None:
    for what, n in (("row", row), ("col", col)):
        if n < 0:
            wrong(f"{what} must be non-negative, got{n}")


@check_of("argmax", "argmin", "max", "min", "median", "mode", "amax", "amin", "nanmedian")
def _something(name: str, input: Any, dim: Any = None, *_rest: Any, **_named: Any) -> None:
    a = input._a
    if a.size or hasattr(dim, "_a"):
        return
    if dim is None or dim == ():
        if name in ("argmax", "argmin"):
            wrong(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.", IndexError)
        if name in ("amax", "amin", "max", "min") and "other" not in _named:
            wrong(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
                "the 'dim' argument."
            )
        return
    for k in dim if isinstance(dim, (tuple, list)) else (dim,):
        if -a.ndim <= k < a.ndim and not a.shape[k]:
            wrong(f"{name}(): Expected reduction dim {place_of(k, a.ndim)} to have non-zero size.", IndexError)


@check_of("quantile", "nanquantile")
def _quantile(name: str, input: Any, q: Any, *_rest: Any, **_named: Any) -> None:
    if not input._a.size:
        wrong(f"{name}() input tensor must be non-empty")
    if hasattr(q, "_a") and q._a.dtype != input._a.dtype:
        wrong(f"{name}() q tensor must be same dtype as the input tensor")
    if hasattr(q, "_a") and q._a.ndim > 1:
        wrong("quantile() q must be a scalar or 1D tensor")


@check_of("cov")
def _cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> None:
    n = input._a.shape[-1] if input._a.ndim else 1
    for name, w, kinds, wanted in (("fweights", fweights, "iu", "integral"), ("aweights", aweights, "f", "floating point")):
        if w is None:
            continue
        if w._a.ndim > 1:
            wrong(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w._a.ndim} dimensions")
        if w._a.dtype.kind not in kinds:
            wrong(f"cov(): expected {name} to have {wanted} dtype but got {name} with {w.dtype.scalar} dtype")
        if w._a.size != n:
            found = f"{w._a.size} != {n}"
            wrong(f"cov(): expected {name} to have the same numel as there are observations in the input but got {found}")
        if isinstance(w._a, np.ndarray) and np.any(w._a < 0):
            wrong(f"cov(): {name} cannot be negative")


@check_of("outer", "ger")
def _outer(_name: str, input: Any, vec2: Any) -> None:
    for x, argument in ((input, "self"), (vec2, "vec2")):
        if x._a.ndim != 1:
            wrong(f"outer: Expected 1-D argument {argument}, but got {x._a.ndim}-D")


@check_of("diagonal", "diag_embed")
def _diagonal(_name: str, input: Any, offset: int = 0, dim1: int | None = None, dim2: int | None = None) -> None:
    n = max(1, input._a.ndim + (_name == "diag_embed"))
    first, second = (0, 1) if _name == "diagonal" else (-2, -1)
    given = first if dim1 is None else dim1, second if dim2 is None else dim2
    i, j = (place_of(d, n) for d in given)
    if i == j < n:
        i, j = given if _name == "diagonal" else (i, j)
        wrong(f"diagonal dimensions cannot be identical {i}, {j}")


@check_of("cdist")
def _cdist(x1: Any, x2: Any, p: float = 2.0, *_rest: Any, **_named: Any) -> None:
    if p < 0:
        wrong("cdist only supports non-negative p values")
    for k, x in enumerate((x1, x2), 1):
        if x._a.ndim < 2:
            wrong(f"cdist only supports at least 2D tensors, X{k} got: {x._a.ndim}D")
    if x1._a.shape[-1] != x2._a.shape[-1]:
        wrong(f"X1 and X2 must have the same number of columns. X1: {x1._a.shape[-1]} X2: {x2._a.shape[-1]}")


@check_of("bincount")
def _bincount(input: Any, *_rest: Any, **_named: Any) -> None:
    a = input._a
    if a.ndim != 1 or (a.dtype.kind in "iu" and a.size and a.min() < 0):
        wrong("bincount only supports 1-d non-negative integral inputs.")
    if a.dtype.kind not in "biu":
        wrong(f"\"bincount_cpu\" not implemented for '{input.dtype.scalar}'", NotImplementedError)


@check_of("searchsorted")
def _searchsorted(sorted_sequence: Any, input: Any, *_rest: Any, **_named: Any) -> None:
    if hasattr(input, "_a"):
        s, x = sorted_sequence._a.shape, input._a.shape
        if len(s) != 1 and s[:-1] != x[:-1]:
            wrong(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
                f"value tensor must match, but we got boundaries tensor {list(s)} and input value tensor {list(x)}"
            )


@check_of("tensordot")
def _tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> None:
    x, y = a._a.shape, b._a.shape
    if a._a.dtype != b._a.dtype:
        wrong("both inputs should have same dtype")
    if hasattr(dims, "_a"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims > min(len(x), len(y)):
            wrong(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = list(range(-dims, 0)), list(range(dims))
    first, second = ([k] if isinstance(k, int) else list(k) for k in dims)
    if len(first) != len(second):
        wrong("both dimension lists should have same length")
    for i, j in zip(first, second):
        if x[i] != y[j] and 1 not in (x[i], y[j]):
            wrong(f"contracted dimensions need to match, but first has size {x[i]} in dim {i} and second has size {y[j]} in dim {j}")


@check_of("broadcast_shapes")
def _broadcast_shapes(*shapes: Any) -> None:
    total: list[int] = []
    for k, shape in enumerate(shapes):
        sizes = [shape] if isinstance(shape, int) else list(shape)
        total = [1] * (len(sizes) - len(total)) + total
        for j in range(1, len(sizes) + 1):
            if sizes[-j] not in (1, total[-j]):
                if total[-j] != 1:
                    seen = [*total[: len(total) - j], total[-j], *sizes[len(sizes) - j + 1 :]]
                    wrong(
                        f"Attempting to broadcast a dimension of length {sizes[-j]} at -{j}! Mismatching argument at index {k} had "
                        f"{tuple(sizes)}; but expected shape should be broadcastable to {seen}"
                    )
                total[-j] = sizes[-j]
